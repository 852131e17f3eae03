"""Frozen benchmarks: what is on record is whole, and a change of any file is seen."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from chexqa.cli.main import run

FROZEN = Path(__file__).parents[2] / "benchmarks" / "frozen"
SETS = yaml.safe_load((FROZEN / "sets.yaml").read_text())


@pytest.fixture
def build() -> Any:
    spec = importlib.util.spec_from_file_location("frozen_build", FROZEN / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_card_is_there_only_for_what_was_made() -> None:
    for name, about in SETS.items():
        place = FROZEN / name
        assert place.is_dir() == (about["hashes"] is not None), name
        if place.is_dir():
            croissant = json.loads((place / "croissant.json").read_text())
            held = {one["@id"]: one.get("sha256") for one in croissant["distribution"]}
            assert {file: held[file] for file in ("items.jsonl", "answers.jsonl")} == {
                file: about["hashes"][file] for file in ("items.jsonl", "answers.jsonl")}  # fmt: skip
            card = (place / "README.md").read_text()
            assert all(
                (place / path.split(")")[0]).is_file() for path in card.split("](")[1:] if path.startswith("card/")
            )


def test_another_version_gives_the_same_hash_and_another_setting_is_refused(build: Any, tmp_path: Path) -> None:
    kept = json.loads((FROZEN / "chexqa-phantom-1" / "benchmark.json").read_text())
    made = tmp_path / "benchmark.json"
    made.write_text(json.dumps(kept | {"tool_version": "9.9.9"}))
    build.settle("chexqa-phantom-1", tmp_path)
    assert made.read_bytes() == (FROZEN / "chexqa-phantom-1" / "benchmark.json").read_bytes()
    made.write_text(json.dumps(kept | {"seed": 9}))
    with pytest.raises(SystemExit, match=r"benchmark\.json differs from the one on record in: seed"):
        build.settle("chexqa-phantom-1", tmp_path)


def test_lungs_may_lie_beside_the_data(build: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The manifest's paths then start in the folder that holds both."""
    for name in ("data", "lungs"):
        (tmp_path / "sets" / name).mkdir(parents=True)
    said: list[list[str]] = []
    monkeypatch.setattr(build, "run", lambda words: said.append(words) or 0)
    monkeypatch.setattr(build, "made", lambda bench: {})
    build.build("chexqa-open-1", tmp_path / "out", {name: str(tmp_path / "sets" / name) for name in ("data", "lungs")})
    generate = said[1]
    assert Path(generate[generate.index("--image-root") + 1]) == (tmp_path / "sets").resolve()


def test_other_files_are_seen_and_a_lacking_folder_is_named(
    build: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = {"small": {"about": "x", "commands": [
        "synth {out}/cases --cases 2 --size 256", "generate {out}/cases -o {out}/bench --recipe grid"], "hashes": None},
        "open": {"about": "x", "needs": ["data"], "commands": [], "hashes": None}}  # fmt: skip
    monkeypatch.setattr(build, "HERE", tmp_path)
    (tmp_path / "sets.yaml").write_text(yaml.safe_dump(small))
    monkeypatch.setattr(sys, "argv", ["build.py", "small", "-o", str(tmp_path / "one")])
    build.main()
    assert "no hash is on record" in capsys.readouterr().out
    small["small"]["hashes"] = build.made(tmp_path / "one" / "bench")
    for seed, code in (("", None), (" --seed 9", 2)):
        small["small"]["commands"][1] = f"generate {{out}}/cases -o {{out}}/bench --recipe grid{seed}"
        (tmp_path / "sets.yaml").write_text(yaml.safe_dump(small))
        monkeypatch.setattr(sys, "argv", ["build.py", "small", "-o", str(tmp_path / f"again{seed.strip()}")])
        if code is None:
            build.main()
            assert "all hashes are equal to those on record" in capsys.readouterr().out
        else:
            with pytest.raises(SystemExit, match="2"):
                build.main()
            assert "other hashes than in sets.yaml: items.jsonl, answers.jsonl." in capsys.readouterr().err
    with pytest.raises(SystemExit, match="needs --data FOLDER"):
        build.build("open", tmp_path / "none", {"data": ""})
    assert not (tmp_path / "none").exists()
    assert run(["validate", str(tmp_path / "one" / "bench")]) == 0
