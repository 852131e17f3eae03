"""Rewards of replies are the grades of the same replies; a benchmark is not for training unless the user says so."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest
from logs import log
from stored_replies import FILES, replies

from chexqa.contract import benchmark
from chexqa.eval.scoring.grade import grade_folders
from chexqa.files.errors import InputError
from chexqa.rewards import SCORINGS, Rewards, text_of


def test_a_benchmark_with_its_canary_is_refused_unless_told_otherwise(tiny_benchmark: Path) -> None:
    with pytest.raises(InputError, match=r"canary .* must not be used for training.*allow_test=True"):
        Rewards(tiny_benchmark)
    assert Rewards(tiny_benchmark, allow_test=True)([], item_id=[]) == []


def test_rewards_are_the_grades_of_the_same_replies(tiny_benchmark: Path, tmp_path: Path) -> None:
    run = log(tmp_path / "run", tiny_benchmark, protocol="independent")
    grades = grade_folders([run]).grades
    names = grades["item_id"].to_list()
    said = [[{"role": "assistant", "content": "Answer: 1"}] for _ in names]
    columns: dict[str, Any] = {"prompts": [None] * len(names), "kind": grades["kind"].to_list()}
    for scoring, column in (("right", "correct"), ("credit", "partial")):
        found = Rewards(tiny_benchmark, scoring, allow_test=True)(completions=said, item_id=names, **columns)
        expected = [float(value) for value in grades[column]]
        readable = [state in ("correct", "wrong") for state in grades["state"]]
        assert [one for one, known in zip(found, readable, strict=True) if known] == [
            one for one, known in zip(expected, readable, strict=True) if known]  # fmt: skip
    assert Rewards(tiny_benchmark, allow_test=True).__name__ == "chexqa_right"


def test_guessing_earns_nothing_on_average_when_corrected(tiny_benchmark: Path) -> None:
    bench = benchmark.load(tiny_benchmark)
    reward = Rewards(bench, "corrected", allow_test=True)
    single = [item for item in bench.items if item.form.name == "single"]
    for item in single:
        options = [reward.reward(f"Answer: {option.n}", item.item_id) for option in item.options]
        assert math.isclose(sum(one or 0 for one in options), 0, abs_tol=1e-9)


def test_unreadable_replies_and_stored_ones_give_floats(tiny_benchmark: Path) -> None:
    bench = benchmark.load(tiny_benchmark)
    texts = [row["raw"] for name in FILES for _, row, _ in replies(name)]
    draw = random.Random(1)
    for scoring in SCORINGS:
        reward = Rewards(bench, scoring, unread=-0.5, allow_test=True)
        names = [draw.choice(bench.items).item_id for _ in range(100)]
        found = reward([draw.choice(texts) for _ in names], item_id=names)
        assert all(isinstance(one, float) and -10 <= one <= 1 for one in found)
        assert -0.5 in found
        assert reward(["", "no idea"], item_id=names[:2]) == [-0.5, -0.5]


def test_wrong_calls_are_refused(tiny_benchmark: Path) -> None:
    reward = Rewards(tiny_benchmark, allow_test=True)
    with pytest.raises(InputError, match="no item 'x'"):
        reward(["Answer: 1"], item_id=["x"])
    with pytest.raises(InputError, match="one id for each reply"):
        reward(["Answer: 1"], item_id=[])
    with pytest.raises(InputError, match="'rihgt' is unknown"):
        Rewards(tiny_benchmark, "rihgt", allow_test=True)  # type: ignore[arg-type]


def test_texts_of_completions() -> None:
    assert text_of([]) == ""
    assert text_of([{"role": "user", "content": "q"}, {"role": "assistant", "content": None}]) == ""
    parts = [{"type": "image"}, {"type": "text", "text": "Answer: "}, {"type": "text", "text": "2"}]
    assert text_of([{"role": "assistant", "content": parts}]) == "Answer: 2"
