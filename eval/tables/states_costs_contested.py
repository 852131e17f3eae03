"""Tables of the final states of questions, of cost and latency, and of contested items (on which reviewers disagree).

Contested items count in no other table. A table's function takes a :class:`chexqa.eval.scoring.sample.ScoredSample` and
returns a frame with a row for each model and protocol.
"""

from __future__ import annotations

import polars as pl

from chexqa.contract.items import CONTESTED
from chexqa.eval.scoring.grade import STATES, UNFINISHED
from chexqa.eval.scoring.sample import WHO, ScoredSample, mask_incomplete


def states(study: ScoredSample) -> pl.DataFrame:
    """Return the number of questions to be answered (``items``) and the number that ended in each state."""
    counts = [(pl.col("state") == state).sum().alias(state) for state in STATES]
    return study.graded.grades.group_by(WHO, maintain_order=True).agg(pl.len().alias("items"), *counts)


def costs(study: ScoredSample) -> pl.DataFrame:
    """Return cost, tokens and latency of each model and protocol.

    Columns: ``asked`` (turns with an outcome), ``cost_usd``, ``cost_per_1000_usd``, ``output_tokens`` (mean),
    ``latency_s`` (median). A number is null if its value is unknown for any turn.
    """  # fmt: skip
    asked = study.graded.grades.filter(~pl.col("state").is_in(UNFINISHED))

    def whole(column: str, value: pl.Expr) -> pl.Expr:
        return pl.when(pl.col(column).null_count() == 0).then(value)

    table = asked.group_by(WHO, maintain_order=True).agg(
        pl.len().alias("asked"),
        whole("cost_usd", pl.col("cost_usd").sum()).alias("cost_usd"),
        whole("output_tokens", pl.col("output_tokens").mean()).alias("output_tokens"),
        whole("latency_s", pl.col("latency_s").median()).alias("latency_s"),
    )
    thousand = (1000 * pl.col("cost_usd") / pl.col("asked")).alias("cost_per_1000_usd")
    return table.with_columns(thousand).select(
        *WHO, "asked", "cost_usd", "cost_per_1000_usd", "output_tokens", "latency_s"
    )


def contested(study: ScoredSample) -> pl.DataFrame:
    """Return the accuracy on contested items: ``model, protocol, items, accuracy, chance``."""
    rows = study.graded.grades.filter(pl.col("flags").list.contains(CONTESTED))
    table = rows.group_by(WHO, maintain_order=True).agg(
        pl.col("item_id").n_unique().alias("items"), pl.col("correct").mean().alias("accuracy"), pl.col("chance").mean()
    )
    return mask_incomplete(study, table, ["accuracy"])
