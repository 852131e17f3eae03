"""The chain in Python: its steps refuse, resume and report as the commands do."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import chexqa
from chexqa.files.errors import InputError, UnfinishedError


def answer(messages: list[dict[str, Any]]) -> chexqa.ModelReply:
    return chexqa.ModelReply("Answer: 1", confidence=0.5, reasoning="a guess")


def test_a_run_goes_on_and_what_is_left_is_an_error_that_says_why(tiny_benchmark: Path, tmp_path: Path) -> None:
    works = [False]

    def sometimes(messages: list[dict[str, Any]]) -> str:
        if not works[0]:
            raise OSError("no disk")
        return "Answer: 1"

    with pytest.raises(UnfinishedError, match=r"turns unfinished \(OSError: no disk .*call the function again to ask"):
        chexqa.evaluate(tiny_benchmark, sometimes, tmp_path / "run", name="mine")
    run = chexqa.evaluate(tiny_benchmark, sometimes, tmp_path / "run", name="mine", allow_unfinished=True)
    assert set(run.frame()["state"]) == {"error"}
    works[0] = True
    run = chexqa.evaluate(chexqa.load(tiny_benchmark), sometimes, tmp_path / "run", name="mine")  # type: ignore[arg-type]
    assert "error" not in set(run.frame()["state"])
    assert set(run.frame()["model"]) == {"mine"}


def test_models_of_every_sort_are_asked_and_graded_in_a_notebook_too(tiny_benchmark: Path, tmp_path: Path) -> None:
    async def cell() -> Any:
        return chexqa.evaluate(tiny_benchmark, [answer, "baseline/oracle,baseline/first"], tmp_path / "run", limit=3)

    run = asyncio.run(cell())
    frame = run.frame()
    assert set(frame["model"]) == {"answer", "baseline/oracle", "baseline/first"}
    assert set(frame.filter(frame["model"] == "answer")["confidence"]) == {0.5}
    grades = chexqa.grade(run)
    assert grades.grades.height == frame.height
    assert set(grades.tables["levels"]["model"]) == set(frame["model"])


def test_what_cannot_be_is_refused_before_anything_is_written(
    tiny_benchmark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CHEXQA_LINGSHU_32B_URL", raising=False)
    for models, given, sentence in (
        ("gpt-5.44", {}, "did you mean"),
        ("lingshu-32b", {}, "lingshu-32b: set CHEXQA_LINGSHU_32B_URL"),
        ([answer, "baseline/oracle"], {"name": "x"}, "names a single callable"),
        (answer, {"decoding": {"max_tokens": 3}}, "takes no argument 'max_tokens'"),
        (answer, {"protocl": "independent"}, "there is no option 'protocl' .did you mean 'protocol'"),
        (answer, {"devices": "x"}, "'x' is not a device"),
        (3, {}, "without 'answer' or 'answer_batch'"),
    ):
        with pytest.raises(InputError, match=sentence):
            chexqa.evaluate(tiny_benchmark, models, tmp_path / "run", **given)  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()
    with pytest.raises(InputError, match="no run is given"):
        chexqa.grade()
