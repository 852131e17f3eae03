"""Shares of answers that follow an altered picture's new key, and of answers that change when an item is repeated."""

from __future__ import annotations

import polars as pl

from chexqa.eval.grounding.answer_pairs import WHO
from chexqa.eval.grounding.published_measures import ONE, Rates, rate
from chexqa.eval.scoring.intervals import Groups, Sample, proportion

_ITEM = (*WHO, "rotation", "item_id")


def followed(sample: Sample, pairs: pl.DataFrame, condition: str) -> Rates:
    """Return how often each model answers altered pictures right.

    Only items that the model answered right with the original picture count.

    - ``pairs``: the rows of :func:`answer_pairs`.
    - ``condition``: ``partial`` (a part of the lesion is filled in) or ``mirror``.
    """
    rows = pairs.filter(pl.col("right") & (pl.col("condition") == condition))
    return rate(sample, rows, pl.col("second") == pl.col("new_key"))


def side_followed(sample: Sample, pairs: pl.DataFrame) -> Rates:
    """Return how often a right answer about the more affected side is right again on the mirrored radiograph.

    Only items of the kind ``comparison`` count. A model that picks a side at random has 50 %.
    """
    return followed(sample, pairs.filter(kind="comparison"), "mirror")


def changed_on_repetition(sample: Sample, originals: pl.DataFrame) -> Rates:
    """Return how often a model's answer to a repeated detection item differs from its first answer.

    Only unaltered items count. A model without repeats has no row.
    """
    rows = originals.filter(kind="detection")
    first = rows.sort("repeat").group_by(_ITEM, maintain_order=True).agg(
        pl.col("first").first().alias("before"), pl.col("repeat").first().alias("_first")
    )  # fmt: skip
    later = rows.join(first, on=_ITEM, how="inner", maintain_order="left").filter(pl.col("repeat") > pl.col("_first"))
    groups = Groups(sample, later, WHO)
    return Rates(groups.keys, proportion(groups.sums(pl.col("first") != pl.col("before")), groups.sums(ONE)))


def right_without_lesion(sample: Sample, originals: pl.DataFrame) -> Rates:
    """Return how often a model answers "no" about a phantom that was drawn without its lesion.

    A phantom counts if the model answered "yes" about its twin, the same phantom with the lesion. ``synth --twins``
    makes twins.
    """
    rows = originals.filter(kind="detection")
    key = pl.col("answer").list.first()
    same = [*WHO, "repeat", "rotation", "cluster", "finding"]  # a twin is a case of the same patient and finding
    twins = rows.filter(key != 1).select(*same, pl.col("right").alias("removed"))
    return rate(sample, rows.filter((key == 1) & pl.col("right")).join(twins, on=same), pl.col("removed"))
