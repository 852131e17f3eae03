"""Remarks on which items each model was asked, if not all items or not the same ones. A trial asks other items than a
whole run or another trial. Numbers on different items do not compare, and values that depend on the items (chance, the
ceiling, constant answers) are shown beside several models only if all share them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import polars as pl

from chexqa.contract.items import PERCEPTION
from chexqa.eval.runs.model_progress import Answerers
from chexqa.eval.scoring.grade import Graded
from chexqa.files.terminal import plural

Value = TypeVar("Value")
_NAMED = 3


def shared(values: Iterable[Value | None]) -> Value | None:
    """Return the common value of all ``values``, up to rounding; None if they differ or there are none."""
    found = list(values)
    alike = {round(value, 9) if isinstance(value, float) else value for value in found}
    return found[0] if len(alike) == 1 else None


def item_sets(rows: pl.DataFrame, by: Sequence[str]) -> dict[tuple[Any, ...], tuple[int, int]]:
    """Return for each group of rows the number of its items and the sum of their hashes, equal for equal items."""
    items = pl.col("item_id").unique()
    table = rows.group_by(by, maintain_order=True).agg(items.len().alias("_count"), items.hash().sum().alias("_hash"))
    return {tuple(key): (count, mark) for *key, count, mark in table.iter_rows()}


def remark(graded: Graded) -> str | None:
    """Return a sentence if not every item was asked, or models were asked different ones; None otherwise.

    Models are compared task by task, so that a model that does only one of the two tasks may differ in the other.
    """
    task = pl.when(pl.col("stage").is_null()).then("kind").otherwise(pl.lit(PERCEPTION)).alias("task")
    rows = graded.grades.select("model", "protocol", "item_id", "case_id", task)
    by_task = item_sets(rows, ["model", "protocol", "task"])
    counts = graded.benchmark.about["counts"]
    tasks = {task for _, _, task in by_task}
    if all(len({mark for (_, _, one), mark in by_task.items() if one == task}) <= 1 for task in tasks):
        items, cases = rows["item_id"].n_unique(), rows["case_id"].n_unique()
        if items == len(graded.benchmark.items):
            return None
        if graded.on is not None:
            return (
                f"Every row is on the {plural(cases, 'case')} of {graded.on} ({items:,} of {counts['items']:,} items)."
            )
        return (
            f"A part of the benchmark: {items:,} of {counts['items']:,} items were asked, from {plural(cases, 'case')}."
        )
    several = rows["protocol"].n_unique() > 1
    sets: dict[tuple[int, int], list[str]] = {}
    for (model, protocol), mark in item_sets(rows, ["model", "protocol"]).items():
        sets.setdefault(mark, []).append(f"{model} ({protocol})" if several else model)
    told = [f"{plural(count, 'item')} for {_some(names)}" for (count, _), names in sets.items()]
    return (
        f"Models were asked different items ({'; '.join(told[:_NAMED])}{'; …' if told[_NAMED:] else ''}), so their "
        "numbers do not compare. Chance and other values of the items are shown only where models share them."
    )


def stand_ins(graded: Graded) -> list[str]:
    """Return a sentence for each model of each run that another model stood in for, as its server says."""
    told = []
    for run in graded.runs:
        answerers = {name: Answerers() for name in run.models}
        for turn in run.turns:
            answerers[turn.model].add(turn)
        told += [f"{name}: {said}" for name, one in answerers.items() if (said := one.remark()) is not None]
    return told


def _some(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
