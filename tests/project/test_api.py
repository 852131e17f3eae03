"""chexqa from Python: loading, frames, and how little is imported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from logs import log

import chexqa
from chexqa import api
from chexqa.files.errors import InputError


def test_a_benchmark_is_frames_of_items_and_cases(tiny_benchmark: Path) -> None:
    bench = chexqa.load(str(tiny_benchmark))
    items = bench.items_frame()  # type: ignore[union-attr]
    assert items.height == len(bench.items)  # type: ignore[union-attr]
    assert items["answer"].to_list() == [list(bench.answers[item_id].answer) for item_id in items["item_id"]]  # type: ignore[union-attr, index]
    assert items.filter(items["kind"] == "detection")["options"][0].to_list() == ["Yes", "No"]
    cases = bench.cases_frame()  # type: ignore[union-attr]
    assert set(cases["patient_id"]) == {f"patient-{name}" for name in "abcdef"}
    assert json.loads(cases["measures"][0]) == {}


def test_without_the_key_items_are_frames_still(tiny_benchmark: Path) -> None:
    (tiny_benchmark / "answers.jsonl").unlink()
    bench = chexqa.load(tiny_benchmark)
    assert "answer" not in bench.items_frame().columns  # type: ignore[union-attr]
    with pytest.raises(InputError, match="a frame of cases needs the key"):
        bench.cases_frame()  # type: ignore[union-attr]


def test_a_run_is_a_frame_of_turns(tiny_benchmark: Path, tmp_path: Path) -> None:
    folder = log(tmp_path / "run", tiny_benchmark)
    (path,) = (folder / "turns").glob("*.jsonl")
    first, *rest = path.read_text().splitlines(keepends=True)
    failed = {"input_tokens": 900, "output_tokens": 5, "uncounted_attempts": 2}
    path.write_text(json.dumps(json.loads(first) | {"failed_usage": failed}) + "\n" + "".join(rest))
    frame = chexqa.load(folder).frame()  # type: ignore[union-attr]
    counted = frame.select("failed_input_tokens", "failed_output_tokens", "uncounted_attempts")
    assert counted.row(0) == (900, 5, 2)
    assert counted.row(1) == (None, None, None)
    assert frame["parsed"].to_list() == [[1]] * frame.height
    assert set(frame["model"]) == {"m"}
    table = frame.to_pandas()
    assert list(table["item_id"]) == frame["item_id"].to_list()
    assert list(table["parsed"].map(list)) == [[1]] * frame.height


def test_what_is_neither_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="neither"):
        chexqa.load(tmp_path)


@pytest.mark.parametrize("name", api.MODULES)
def test_every_function_behind_a_command_is_there_and_imported_late(name: str) -> None:
    assert getattr(api, name).__module__.startswith(api.MODULES[name])
    assert name in dir(api)


def test_importing_the_package_imports_nothing_heavy() -> None:
    heavy = ("polars", "numpy", "cv2", "jsonschema")
    script = f"import sys, chexqa, chexqa.api; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert "load" in dir(chexqa)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        chexqa.nothing  # noqa: B018
