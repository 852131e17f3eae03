"""Pairs of answers to the same question: one about the original picture, one about an altered picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from chexqa.contract.items import ORIGINAL, asked_conditions, condition_of
from chexqa.contract.read_run import ERROR, Run, Turn
from chexqa.eval.scoring.grade import Graded, protocol_name
from chexqa.eval.scoring.sample import ScoredSample
from chexqa.generators.interventions import altered_items
from chexqa.generators.interventions.altered_items import AlteredKey, NotAudited

WHO = ("model", "protocol")
ANSWERED = ("correct", "wrong")
# Columns that a pair adds to its original's grade. ``first`` and ``second`` are the option numbers answered to the
# original and to the altered picture, None if there is no readable answer. ``new_key`` is the altered picture's key.
COLUMNS: dict[str, Any] = {
    "condition": pl.String,
    "second": pl.List(pl.Int64),
    "new_key": pl.List(pl.Int64),
}
_PLACE = (*WHO, "repeat", "rotation", "item_id")


def has_altered(graded: Graded) -> bool:
    """Return True if a run was asked altered items."""
    altered = (turn for run in graded.runs for turn in run.altered)
    return any(condition_of(turn.item_id) in altered_items.ALTERED for turn in altered)


def left_out(graded: Graded) -> list[NotAudited]:
    """Return the cases that could not be asked under a condition of the runs (such as ``target``), with the reason."""
    asked = {condition for run in graded.runs for condition in asked_conditions(run.about)}
    return [row for row in altered_items.load(graded.benchmark).not_audited or () if row.condition in asked]


def answer_pairs(study: ScoredSample) -> pl.DataFrame:
    """Return a row for each answer to an altered item, with the answer to the original item beside it.

    The columns are those of :func:`originals` and :data:`COLUMNS`. Both answers must be readable.
    """
    graded = study.graded
    keys = altered_items.load(graded.benchmark).keys or {}
    schema: dict[str, Any] = dict.fromkeys(WHO, pl.String) | {
        "repeat": pl.Int64, "rotation": pl.Int64, "item_id": pl.String, **COLUMNS
    }  # fmt: skip
    altered = pl.DataFrame(list(_rows(graded.runs, keys)), schema=schema, orient="row")
    return originals(study).join(altered, on=_PLACE, how="inner", maintain_order="left")


def originals(study: ScoredSample) -> pl.DataFrame:
    """Return a row for each answer to an unaltered item, with these columns beside those of the item:

    - ``first``: the model's answer.
    - ``right``: True if the answer is right.
    - ``answer``: the key's answer.
    """
    rows = study.said.filter(pl.col("state").is_in(ANSWERED))
    return rows.select(
        *_PLACE, "case_id", "kind", "finding", "cluster", "view", "sex", "path",
        pl.col("parsed").alias("first"), pl.col("correct").alias("right"), "answer",
    )  # fmt: skip


def _rows(runs: tuple[Run, ...], keys: Mapping[str, AlteredKey]) -> Iterator[tuple[Any, ...]]:
    for run in runs:
        protocol = protocol_name(run)
        for turn in _last(run):
            condition = condition_of(turn.item_id)
            if condition == ORIGINAL or turn.state != "answered" or turn.item_id not in keys:
                continue
            answer = keys[turn.item_id].answer
            yield (
                turn.model, protocol, turn.repeat, turn.rotation, turn.item_id.partition("@")[0], condition,
                list(turn.parsed or ()), None if answer is None else list(answer),
            )  # fmt: skip


def _last(run: Run) -> Iterator[Turn]:
    """Yield the finished turns on altered pictures; a run keeps one turn of each question."""
    yield from (turn for turn in run.altered if turn.state != ERROR)
