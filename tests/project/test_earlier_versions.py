"""A benchmark, a run and a review of each earlier version load, and have the numbers they had.

``tests/goldens/chexqa-NUMBER.tar.xz`` holds what that version wrote (pictures left out) and ``numbers.json``, what it
said of them: the grade of every answer, accuracies, and agreement but for the grid, whose rule is another one now.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from chexqa.eval.scoring.grade import grade_folders
from chexqa.eval.scoring.sample import scored_sample
from chexqa.eval.tables import levels_and_stages

KEPT = sorted((Path(__file__).parents[1] / "goldens").glob("chexqa-*.tar.xz"))
Cli = Callable[..., tuple[int, str, str]]


def test_the_first_version_is_kept() -> None:
    assert "chexqa-0.1.0.tar.xz" in [path.name for path in KEPT]


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.name.removesuffix(".tar.xz"))
def test_benchmark_run_and_review_load_with_the_same_numbers(path: Path, tmp_path: Path, cli: Cli) -> None:
    with tarfile.open(path) as archive:
        archive.extractall(tmp_path, filter="data")
    bench, review = tmp_path / "bench", tmp_path / "review" / "verdicts.jsonl"
    numbers = json.loads((tmp_path / "numbers.json").read_text())

    graded = grade_folders([tmp_path / "run"], bench)
    for model, rows in numbers["grades"].items():
        ours = graded.grades.filter(graded.grades["model"] == model).sort("repeat", "item_id")
        own = ours.select("item_id", "repeat", "state", "correct", "partial").rows()
        assert own == [tuple(row) for row in rows], model
    kinds = {(row["model"], row["kind"]): row for row in levels_and_stages.kinds(scored_sample(graded)).to_dicts()}
    for row in numbers["kinds"]:
        now = kinds[row["model"], row["kind"]]
        assert {name: now[name] for name in row} == pytest.approx(row)

    code, out, err = cli("review", "agreement", bench, review, "--json")
    assert code == 0, err
    agreement = {(row["what"], row["kind"]): row for row in json.loads(out) if row["finding"] is None}
    for row in numbers["agreement"]:
        now = agreement[row["what"], row["kind"]]
        assert now["units"] == row["units"]
        for name in ("percent", "alpha"):
            assert now[name]["value"] == pytest.approx(row[name]), row
    code, out, err = cli("review", "status", tmp_path / "review", "--json")
    assert code == 0, err
    assert {sheet["sheet"]: (sheet["done"], sheet["said"]) for sheet in json.loads(out)} == {
        name: (sum(said.values()), said) for name, said in numbers["sheets"].items()
    }
