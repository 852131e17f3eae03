"""The plan of a study: written once before the run, and held against what was done."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from logs import log

from chexqa.eval.cli.grade import read
from chexqa.eval.design import plan as planning

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def written(cli: Cli, tiny_benchmark: Path, tmp_path: Path) -> Path:
    code, out, err = cli("plan", tiny_benchmark, "--models", "m", "--margin", "3", "-o", tmp_path / "plan.json")
    assert code == 0, err
    assert f"SHA-256: {planning.read_plan(tmp_path / 'plan.json').sha256}" in out
    return tmp_path / "plan.json"


def broken(run: Path, plan: Path, **options: float) -> dict[str, tuple[str, str]]:
    """What was planned and done, of the points that were not kept."""
    graded = read((run,), None, False, None, plan=plan, **options)  # type: ignore[arg-type]
    table = planning.kept(graded)
    return {row["item"]: (row["planned"], row["done"]) for row in table.to_dicts() if not row["kept"]}


def later(run: Path) -> Path:
    """Let the run's answers be of the future."""
    path = run / "turns" / "m.jsonl"
    path.write_text(path.read_text().replace("2026-01-01T00:00:00Z", "2999-01-01T00:00:00Z"))
    return run


def test_a_study_as_planned_keeps_its_plan(cli: Cli, written: Path, tiny_benchmark: Path, tmp_path: Path) -> None:
    run = later(log(tmp_path / "run", tiny_benchmark))
    assert set(broken(run, written)) <= {"parser's version"}, "the log says none, which is the first"
    graded = read((run,), None, False, None, plan=written)
    assert graded.margin == pytest.approx(0.03)
    out = cli("grade", run, "--plan", written)[1]
    assert "The plan was" in out
    rows = {row["item"]: row for row in planning.kept(graded).to_dicts()}
    assert (rows["primary score"]["planned"], rows["primary score"]["kept"]) == ("mean", True)
    assert cli("validate", written)[:2] == (0, f"{written}: plan file, fits its schema\n")


def test_every_deviation_is_told(written: Path, tiny_benchmark: Path, tmp_path: Path) -> None:
    other = log(tmp_path / "run", tiny_benchmark, model="other", protocol="independent", skip=2)
    found = broken(other, written, margin=5.0)
    assert found["models"] == ("m", "other")
    assert found["protocols"] == ("end_to_end", "independent")
    assert found["margin, points"] == ("3", "5")
    assert found["unfinished questions"] == ("0", "2")
    assert found["asked after the plan was written"][1] == "2026-01-01T00:00:00+00:00"
    about = json.loads((other / "run.json").read_text())
    rule = {"models": ["other", "third"], "on": "coarse", "alpha": 0.05, "target": "population"}
    (other / "run.json").write_text(json.dumps(about | {"seed": 7, "limit": 2, "until_decided": rule}))
    turns = (other / "turns" / "m.jsonl").read_text().splitlines()
    (other / "turns" / "m.jsonl").write_text(turns[0] + "\n")
    found = broken(other, written)
    assert found["seed"] == ("0", "7")
    assert found["primary score"] == ("mean", "coarse")
    assert "cases" in found


def test_a_plan_is_not_written_anew_and_is_checked(
    cli: Cli, written: Path, tiny_benchmark: Path, tmp_path: Path
) -> None:
    before = written.read_bytes()
    code, _, err = cli("plan", tiny_benchmark, "--models", "n", "-o", written)
    assert (code, "exists already" in err, written.read_bytes()) == (2, True, before)
    written.write_text(before.decode().replace('"primary": "mean"', '"primary": "best"'))
    code, _, err = cli("grade", log(tmp_path / "run", tiny_benchmark), "--plan", written)
    assert (code, "field 'primary'" in err) == (2, True)
