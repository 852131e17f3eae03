"""Runs with a few given answers, and their grades."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.read_run import Run, Turn
from chexqa.eval.scoring import grade
from chexqa.eval.scoring.sample import ScoredSample, scored_sample

State = str


def turn(model: str, item_id: str, said: tuple[int, ...] | State, **changed: Any) -> Turn:
    """Return a turn with these option numbers as its answer, or with a state without an answer."""
    answered = isinstance(said, tuple)
    made = Turn(
        model, "end_to_end", item_id.split("/")[0], item_id, 0, 0, False, 1, "answered" if answered else str(said),
        said if answered else None, "text", "stop", None, None, None, None, "0" * 64, (), "2026-01-01T00:00:00Z", None,
    )  # fmt: skip
    return replace(made, **changed)


def run(turns: Iterable[Turn], models: tuple[str, ...] = ("m",), protocol: str = "end_to_end") -> Run:
    about = {"protocol": protocol, "blind": False, "models": {model: {} for model in models}}
    return Run(Path("run"), about, tuple(turns))


def wrong(bench: Benchmark, item_id: str) -> tuple[int, ...]:
    """Return a wrong answer to the item."""
    answer = set(bench.answers[item_id].answer) if bench.answers else set()
    return next((option.n,) for option in bench.item[item_id].options if {option.n} != answer)


def said(bench: Benchmark, mistakes: dict[str, tuple[int, ...] | State] | None = None) -> list[Turn]:
    """Return turns with right answers to all items except those in ``mistakes``, which maps item ids to other answers.

    The answer ``()`` stands for any wrong answer.
    """
    assert bench.answers is not None
    turns = []
    for item in bench.items:
        right = bench.answers[item.item_id].answer
        value = (mistakes or {}).get(item.item_id, right[:1] if item.kind == "grid_cell" else right)
        turns.append(turn("m", item.item_id, value if value != () else wrong(bench, item.item_id)))
    return turns


def study(bench: Benchmark, runs: Iterable[Run], **options: Any) -> ScoredSample:
    """Return the runs graded and prepared for tables."""
    return scored_sample(grade.grade_runs(bench, list(runs), **options))


def rows(table: pl.DataFrame, *keys: str) -> dict[Any, dict[str, Any]]:
    """Return the rows of a table by the value of one column, or by the values of several columns."""
    return {row[keys[0]] if len(keys) == 1 else tuple(row[key] for key in keys): row for row in table.to_dicts()}
