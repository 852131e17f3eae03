"""Graded runs of a few answers."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.runlog import Run, Turn
from chexqa.eval.scoring import grade
from chexqa.eval.scoring.sample import ScoredSample, scored_sample

State = str


def turn(model: str, item_id: str, said: tuple[int, ...] | State, **changed: Any) -> Turn:
    """One turn: option numbers, or the state it ended in without any."""
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
    """Some answer that is not right."""
    answer = set(bench.answers[item_id].answer) if bench.answers else set()
    return next((option.n,) for option in bench.item[item_id].options if {option.n} != answer)


def said(bench: Benchmark, mistakes: dict[str, tuple[int, ...] | State] | None = None) -> list[Turn]:
    """Right answers to every item, but for the mistakes by item id (``()``: some wrong answer)."""
    assert bench.answers is not None
    turns = []
    for item in bench.items:
        right = bench.answers[item.item_id].answer
        value = (mistakes or {}).get(item.item_id, right[:1] if item.kind == "grid_cell" else right)
        turns.append(turn("m", item.item_id, value if value != () else wrong(bench, item.item_id)))
    return turns


def study(bench: Benchmark, runs: Iterable[Run], **options: Any) -> ScoredSample:
    """Runs graded and made ready for tables."""
    return scored_sample(grade.grade_runs(bench, list(runs), **options))


def rows(table: pl.DataFrame, *keys: str) -> dict[Any, dict[str, Any]]:
    """Rows by one column's value, or by several columns' values."""
    return {row[keys[0]] if len(keys) == 1 else tuple(row[key] for key in keys): row for row in table.to_dicts()}
