"""Answers to localization questions as rows of a table, with the score of each answered place."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import polars as pl

from chexqa.contract.forms import SOMEWHERE
from chexqa.eval.places import markers
from chexqa.eval.places.score import PlaceScore
from chexqa.eval.scoring.grade import protocol_name
from chexqa.eval.scoring.sample import WHO, ScoredSample

TURN = [*WHO, "repeat", "rotation", "item_id"]
SCORES = [one.name for one in fields(PlaceScore) if one.name != "right"]
COLUMNS: dict[str, Any] = {
    "model": pl.String, "protocol": pl.String, "repeat": pl.Int64, "rotation": pl.Int64, "item_id": pl.String,
    **dict.fromkeys(SCORES, pl.Float64),
}  # fmt: skip


def place_kinds(study: ScoredSample) -> list[str]:
    """Return the benchmark's kinds of question that ask for a place on a radiograph.

    Kinds that ask for test markers are left out.
    """
    kinds = study.benchmark.kinds.items()
    return [name for name, kind in kinds if kind.form.is_place and name not in markers.KINDS]


def place_rows(study: ScoredSample) -> pl.DataFrame:
    """Return a row for each question on a place: the columns of ``study.said``, and the columns below.

    ``present`` is True if the key is a place, and ``placed`` is True if the answer is a place. ``headline`` is True if
    the item counts in the headline. The fields of :class:`~chexqa.eval.places.score.PlaceScore` are null if the answer
    is not a place.
    """
    rows = study.said.filter(pl.col("kind").is_in(place_kinds(study)))
    answers = study.benchmark.key("the table of places")[0]
    counted = [item_id for item_id, answer in answers.items() if answer.evidence.get("headline")]
    return rows.join(_scores(study), on=TURN, how="left", maintain_order="left").with_columns(
        (pl.col("answer").list.first() == SOMEWHERE).alias("present"),
        (pl.col("parsed").list.first() == SOMEWHERE).fill_null(False).alias("placed"),
        pl.col("item_id").is_in(counted).alias("headline"),
    )


def _scores(study: ScoredSample) -> pl.DataFrame:
    """Return the scores of the answered places, with one row for each turn."""
    found = []
    for run in study.graded.runs:
        protocol = protocol_name(run)
        for turn in run.turns:
            score = study.graded.places.get((turn.item_id, turn.place)) if turn.place else None
            if score is not None:
                numbers = (getattr(score, name) for name in SCORES)
                found.append((turn.model, protocol, turn.repeat, turn.rotation, turn.item_id, *numbers))
    return pl.DataFrame(found, schema=COLUMNS, orient="row").unique(TURN, keep="last")
