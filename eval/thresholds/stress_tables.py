"""Tables of stress: answers to stressed items beside the answers to their originals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from chexqa.contract.items import ORIGINAL, condition_of, is_right
from chexqa.contract.read_run import ERROR
from chexqa.eval.scoring.grade import Graded, protocol_name
from chexqa.eval.scoring.intervals import Groups, mean, proportion
from chexqa.eval.scoring.outcomes import ANSWERED
from chexqa.eval.scoring.sample import WHO, ScoredSample
from chexqa.eval.stress.cells import KINDS, kind_of

_PLACE = (*WHO, "repeat", "rotation", "item_id")
_ONE = "_one"


def has_stress(graded: Graded) -> bool:
    """Return True if a run was asked under stress."""
    return any(turn.stress is not None for run in graded.runs for turn in run.altered)


def stress(study: ScoredSample) -> pl.DataFrame:
    """Return a row for each model and kind of stress; all severities of the kind are taken together.

    Columns: ``model, protocol, stress, items, patients, accuracy_original, accuracy_stressed``, and two with intervals:

    - ``change``: ``accuracy_stressed - accuracy_original``.
    - ``flips``: the share of answers that differ from the answer to the original.
    """
    return _summed(study, ["stress"])


def stress_curve(study: ScoredSample) -> pl.DataFrame:
    """Return the rows of :func:`stress` for each ``strength``: a severity from 1 to 5, or a wording's letter."""
    return _summed(study, ["stress", "strength"])


def _summed(study: ScoredSample, by: Sequence[str]) -> pl.DataFrame:
    rows = stress_pairs(study)
    to = [*WHO, *by]
    groups = Groups(study.sample, rows, to)
    whole = groups.sums(_ONE)
    both = groups.sums(pl.col("readable").cast(pl.Float64))
    change = mean(groups.sums(pl.col("right").cast(pl.Float64) - pl.col("was_right").cast(pl.Float64)), whole)
    flips = proportion(groups.sums((pl.col("readable") & pl.col("flipped")).cast(pl.Float64)), both)
    scored = groups.keys.with_columns(
        column
        for name, number in {"change": change, "flips": flips}.items()
        for column in number.columns(name).values()
    )
    counts = rows.group_by(to, maintain_order=True).agg(
        pl.col("item_id").n_unique().cast(pl.Int64).alias("items"),
        pl.col("cluster").n_unique().cast(pl.Int64).alias("patients"),
        pl.col("was_right").mean().alias("accuracy_original"), pl.col("right").mean().alias("accuracy_stressed"),
    )  # fmt: skip
    order = pl.col("stress").replace_strict({name: place for place, name in enumerate(KINDS)}, default=len(KINDS))
    return counts.join(scored, on=to, how="left", maintain_order="left").sort(
        [*WHO, order, *by[1:]], maintain_order=True, nulls_last=True
    )


def stress_pairs(study: ScoredSample) -> pl.DataFrame:
    """Return a row for each answer to a stressed item, compared with the same model's answer to the original item.

    - ``right``: True if the answer to the stressed item is right.
    - ``was_right``: True if the answer to the original item is right.
    - ``readable``: True if both answers could be read.
    - ``flipped``: True if the two answers differ.

    Other columns: ``model, protocol, item_id, cluster, stress, strength``.
    """
    schema: dict[str, Any] = dict.fromkeys(WHO, pl.String) | {
        "repeat": pl.Int64, "rotation": pl.Int64, "item_id": pl.String, "stress": pl.String, "strength": pl.String,
        "right": pl.Boolean, "second": pl.List(pl.Int64),
    }  # fmt: skip
    made = pl.DataFrame(list(_turns(study)), schema=schema, orient="row")
    own = study.said.select(
        *_PLACE, "cluster", pl.col("correct").alias("was_right"), pl.col("parsed").alias("first"),
        pl.col("state").is_in(ANSWERED).alias("answered"),
    )  # fmt: skip
    joined = own.join(made, on=_PLACE, how="inner", maintain_order="left")
    readable = pl.col("answered") & pl.col("second").is_not_null()
    flipped = pl.col("first").list.sort().cast(pl.List(pl.String)).list.join(" ") != pl.col("second").cast(
        pl.List(pl.String)
    ).list.join(" ")
    return joined.with_columns(
        readable.alias("readable"), flipped.fill_null(False).alias("flipped"), pl.lit(1.0).alias(_ONE)
    ).drop("first", "second", "answered")


def _turns(study: ScoredSample) -> Iterator[tuple[Any, ...]]:
    answers = study.benchmark.key("grading")[0]
    for run in study.graded.runs:
        protocol = protocol_name(run)
        for turn in run.altered:
            cell = condition_of(turn.item_id)
            base = turn.item_id.partition("@")[0]
            if turn.stress is None or cell == ORIGINAL or turn.state == ERROR or base not in answers:
                continue
            said = turn.parsed if turn.state == "answered" else None
            right = said is not None and is_right(study.benchmark.item[base], answers[base], said)
            severity = cell.partition("-")[2] or None
            yield (turn.model, protocol, turn.repeat, turn.rotation, base, kind_of(cell), severity, right,
                   None if said is None else sorted(said))  # fmt: skip
