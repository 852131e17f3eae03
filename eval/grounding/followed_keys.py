"""Followed keys: answers that change to the altered picture's key, and answers that change on the same picture."""

from __future__ import annotations

import polars as pl

from chexqa.eval.grounding.answer_pairs import WHO
from chexqa.eval.grounding.published_measures import ONE, rate
from chexqa.eval.scoring.intervals import Estimates, Groups, Sample, proportion

_ITEM = (*WHO, "rotation", "item_id")


def followed(sample: Sample, pairs: pl.DataFrame, condition: str) -> tuple[pl.DataFrame, Estimates]:
    """Return the share of right answers that become the altered picture's key, under ``partial`` or ``mirror``."""
    rows = pairs.filter(pl.col("right") & (pl.col("condition") == condition))
    return rate(sample, rows, pl.col("second") == pl.col("new_key"))


def side_followed(sample: Sample, pairs: pl.DataFrame) -> tuple[pl.DataFrame, Estimates]:
    """Return the mirror consistency of comparisons keyed left or right.

    A reader who cannot tell the sides apart has 50 %.
    """
    return followed(sample, pairs.filter(kind="comparison"), "mirror")


def changed_on_repetition(sample: Sample, originals: pl.DataFrame) -> tuple[pl.DataFrame, Estimates]:
    """Return the share of detection answers that change when the original is asked again.

    Each item's later answers are compared with its first answer. Without repeats there is no number.
    """
    rows = originals.filter(kind="detection")
    first = rows.sort("repeat").group_by(_ITEM, maintain_order=True).agg(
        pl.col("first").first().alias("before"), pl.col("repeat").first().alias("_first")
    )  # fmt: skip
    later = rows.join(first, on=_ITEM, how="inner", maintain_order="left").filter(pl.col("repeat") > pl.col("_first"))
    groups = Groups(sample, later, WHO)
    return groups.keys, proportion(groups.sums(pl.col("first") != pl.col("before")), groups.sums(ONE))


def seen_removed(sample: Sample, originals: pl.DataFrame) -> tuple[pl.DataFrame, Estimates]:
    """Return the share of right yes answers to phantoms whose twin, the same radiograph without the lesion, gets a no.

    A twin is the absent case of the same patient and finding, which exists only for phantoms made with twins.
    """
    rows = originals.filter(kind="detection")
    key = pl.col("answer").list.first()
    same = [*WHO, "repeat", "rotation", "cluster", "finding"]
    twins = rows.filter(key != 1).select(*same, pl.col("right").alias("removed"))
    return rate(sample, rows.filter((key == 1) & pl.col("right")).join(twins, on=same), pl.col("removed"))
