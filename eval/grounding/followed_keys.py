"""Shares of answers that follow an altered picture's new key, and of answers that change when an item is repeated."""

from __future__ import annotations

import polars as pl

from chexqa.eval.grounding.answer_pairs import WHO
from chexqa.eval.grounding.published_measures import ONE, rate
from chexqa.eval.scoring.intervals import Estimates, Groups, Sample, proportion

_ITEM = (*WHO, "rotation", "item_id")


def followed(sample: Sample, pairs: pl.DataFrame, condition: str) -> tuple[pl.DataFrame, Estimates]:
    """Return how often each model answers altered pictures right.

    Only items that the model answered right with the original picture count. The result is a table with a row for each
    model and protocol, and the share of right answers (0 to 1) for each row of this table.

    - ``pairs``: the rows of :func:`answer_pairs`.
    - ``condition``: ``partial`` (a part of the lesion is filled in) or ``mirror``.
    """
    rows = pairs.filter(pl.col("right") & (pl.col("condition") == condition))
    return rate(sample, rows, pl.col("second") == pl.col("new_key"))


def side_followed(sample: Sample, pairs: pl.DataFrame) -> tuple[pl.DataFrame, Estimates]:
    """Return how often a right answer about the more affected side is right again on the mirrored radiograph.

    Only items of the kind ``comparison`` count. A model that picks a side at random has 50 %. The result is as in
    :func:`followed`.
    """
    return followed(sample, pairs.filter(kind="comparison"), "mirror")


def changed_on_repetition(sample: Sample, originals: pl.DataFrame) -> tuple[pl.DataFrame, Estimates]:
    """Return how often a model's answer to a repeated detection item differs from its first answer.

    Only unaltered items count. The result is as in :func:`followed`; a model without repeats has no row.
    """
    rows = originals.filter(kind="detection")
    first = rows.sort("repeat").group_by(_ITEM, maintain_order=True).agg(
        pl.col("first").first().alias("before"), pl.col("repeat").first().alias("_first")
    )  # fmt: skip
    later = rows.join(first, on=_ITEM, how="inner", maintain_order="left").filter(pl.col("repeat") > pl.col("_first"))
    groups = Groups(sample, later, WHO)
    return groups.keys, proportion(groups.sums(pl.col("first") != pl.col("before")), groups.sums(ONE))


def seen_removed(sample: Sample, originals: pl.DataFrame) -> tuple[pl.DataFrame, Estimates]:
    """Return how often a phantom without the lesion gets a right "no", if its twin with the lesion gets a right "yes".

    The result is as in :func:`followed`. Only ``synth --twins`` makes twins.
    """
    rows = originals.filter(kind="detection")
    key = pl.col("answer").list.first()
    same = [*WHO, "repeat", "rotation", "cluster", "finding"]  # a twin is a case of the same patient and finding
    twins = rows.filter(key != 1).select(*same, pl.col("right").alias("removed"))
    return rate(sample, rows.filter((key == 1) & pl.col("right")).join(twins, on=same), pl.col("removed"))
