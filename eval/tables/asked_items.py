"""Which items each model was asked, where that is not all of them or not the same for all.

A trial beside a whole run, or two trials, have items of their own. Numbers of different items do not compare, and what
depends on the items (chance, the ceiling, constant answers) is shown beside several models only where they share it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import polars as pl

from chexqa.contract.items import PERCEPTION
from chexqa.eval.scoring.grade import Graded
from chexqa.files.terminal import plural

Value = TypeVar("Value")
_NAMED = 3


def shared(values: Iterable[Value | None]) -> Value | None:
    """The value that all of them are, but for rounding; None where they differ or there is none."""
    found = list(values)
    alike = {round(value, 9) if isinstance(value, float) else value for value in found}
    return found[0] if len(alike) == 1 else None


def item_sets(rows: pl.DataFrame, by: Sequence[str]) -> dict[tuple[Any, ...], tuple[int, int]]:
    """Of each group of rows something that is the same where its items are: their number, and the sum of hashes."""
    items = pl.col("item_id").unique()
    table = rows.group_by(by, maintain_order=True).agg(items.len().alias("_count"), items.hash().sum().alias("_hash"))
    return {tuple(key): (count, mark) for *key, count, mark in table.iter_rows()}


def remark(graded: Graded) -> str | None:
    """A sentence where not every item was asked, or not the same of all; None where everyone was asked everything.

    A model that does one of the two tasks alone is asked the same as others where its items of that task are.
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
        return (
            f"A part of the benchmark: {items:,} of {counts['items']:,} items were asked, of {plural(cases, 'case')}."
        )
    several = rows["protocol"].n_unique() > 1
    sets: dict[tuple[int, int], list[str]] = {}
    for (model, protocol), mark in item_sets(rows, ["model", "protocol"]).items():
        sets.setdefault(mark, []).append(f"{model} ({protocol})" if several else model)
    told = [f"{plural(count, 'item')} of {_some(names)}" for (count, _), names in sets.items()]
    return (
        f"Not all were asked the same items ({'; '.join(told[:_NAMED])}{'; …' if told[_NAMED:] else ''}), so their "
        "numbers do not compare, and chance and the like are shown only where models share them."
    )


def _some(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
