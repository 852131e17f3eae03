"""Reviewed sample: items that reviewers answered before they saw the key, with answers and sampling probabilities.

If the readers of an item disagree, the answer of a blind adjudicator counts. An item without a settled answer keeps its
key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Item
from chexqa.files.errors import InputError
from chexqa.files.terminal import plural
from chexqa.review.collect.verdicts import STORE, Batch, Verdict, by_item, load_batch, read_store

LEAST_ITEMS = 50
MOST_UNSETTLED = 0.1
# Training and repeated items of a reader study do not count.
_COUNTED = ("blind", "readers", "adjudication")
COLUMNS: dict[str, Any] = {
    "item_id": pl.String, "probability": pl.Float64, "reviewed": pl.List(pl.Int64), "settled": pl.Boolean,
}  # fmt: skip


def load(folder: Path, benchmark: Benchmark) -> pl.DataFrame:
    """Return a row with the columns :data:`COLUMNS` for each item that reviewers answered before they saw the key.

    ``folder`` has ``review.json`` and ``verdicts.jsonl``. The column ``reviewed`` has the answer on which the reviewers
    settled, or the key if they settled on none.

    Raise ``InputError`` in these cases:

    - The review is of another benchmark.
    - The reviewed items are too few, or are not a random sample.
    - Too many items have no settled answer.
    """
    batch = load_batch(folder)
    if batch.hash != benchmark.hash:
        raise InputError(
            f"{batch.path}: this is a review of {batch.label}, not of {benchmark.folder}; give a review of this "
            "benchmark."
        )
    drawn = batch.about.get("drawn")
    if not drawn:
        raise InputError(
            f"{batch.path}: does not record the probability with which each case was drawn, so the answers of this "
            "review cannot be used to correct scores; export a review of items with --blind-answers or --overlap, and "
            "without --only and --cases."
        )
    answers, _ = benchmark.key("--reviewed")
    store = read_store(folder if folder.is_dir() else folder.parent / STORE).values()
    said = by_item((one for one in store if one.kind in _COUNTED), benchmark)
    unmarked = _blind_adjudications(batch)
    rows = []
    for item in benchmark.items:
        if item.case_id in drawn and item.form.lists_options and (given := said.get(item.item_id)):
            if not any(verdict.asks_answer and verdict.is_judged for verdict in given):
                continue
            answer = _settled(item, given, unmarked)
            kept = list(answers[item.item_id].answer if answer is None else answer)
            rows.append((item.item_id, drawn[item.case_id], kept, answer is not None))
    table = pl.DataFrame(rows, schema=COLUMNS, orient="row")
    _check(table, batch)
    return table


def _check(table: pl.DataFrame, batch: Batch) -> None:
    open_ones = table.height - int(table["settled"].sum())
    if table.height < LEAST_ITEMS:
        raise InputError(
            f"{batch.path}: only {plural(table.height, 'randomly drawn item was', 'randomly drawn items were')} "
            f"answered before the key was shown, but at least {LEAST_ITEMS} are needed to correct scores for errors "
            "of the key; have more items reviewed."
        )
    if open_ones > MOST_UNSETTLED * table.height:
        raise InputError(
            f"{batch.path}: {open_ones} of {table.height} items have no settled answer, because readers differ or "
            "could not answer; settle them with 'chexqa review adjudicate --blind'."
        )


def _blind_adjudications(batch: Batch) -> frozenset[str]:
    """Return the names of the batch's adjudication sheets that do not mark the key."""
    return frozenset(
        sheet.name for sheet in batch.sheets.values() if sheet.kind == "adjudication" and sheet.key_unmarked
    )


def _settled(item: Item, given: Sequence[Verdict], unmarked: Iterable[str]) -> tuple[int, ...] | None:
    """Return the answer of all readers, or else of a blind adjudication; None if there is neither."""
    newest = {verdict.reviewer: verdict.answer for verdict in sorted(given, key=lambda one: one.imported)
              if verdict.asks_answer and verdict.is_judged}  # fmt: skip
    # The adjudication decides only if the readers differ.
    answers = set(newest.values())
    if len(answers) == 1 and None not in answers:
        return next(iter(answers))
    names = frozenset(unmarked)
    final = [one for one in given if one.kind == "adjudication" and Path(one.sheet).stem in names and one.answer]
    return max(final, key=lambda one: one.imported).answer if final else None
