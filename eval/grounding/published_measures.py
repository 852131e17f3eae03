"""The published measures CGR, UAR and IS, and the four classes made from them (arXiv 2606.17710).

- CGR: how often answers change when the lesion is filled in.
- IS: how often answers stay when a part of the lung outside the lesion is filled in.
- UAR: how often the right answer about one patient is also given about others with the same finding, view, sex and key.

The class can mislead. A model that says yes at random to most questions never looks at the picture, but can be in the
class "uses the picture" (see ``net_grounding``).
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from chexqa.eval.grounding.answer_pairs import WHO
from chexqa.eval.scoring.intervals import Estimates, Groups, Sample, proportion

UNSTABLE, IGNORES, READS, OTHER = "unstable", "ignores the picture", "uses the picture", "other"
ONE = pl.repeat(1.0, pl.len())
LEAST_IS, UNSTABLE_IS = 0.90, 0.70
_EQUAL = 1e-5  # shares that differ by less count as equal
_TAIL = 0.025  # share of bootstrap samples below the lower end of the published interval
_LIKE = (*WHO, "repeat", "rotation", "kind", "finding", "view", "sex", "answer")


class Rates(NamedTuple):
    """Rates by model and protocol.

    - ``keys``: a table with the columns ``model`` and ``protocol``.
    - ``estimates``: the rate of each row of ``keys``.
    """

    keys: pl.DataFrame
    estimates: Estimates


def rate(sample: Sample, rows: pl.DataFrame, value: pl.Expr, binary: bool = True) -> Rates:
    """Return the mean of a value by model and protocol, with intervals.

    The values are 0 or 1 with ``binary``, and from 0 to 1 without it.
    """
    groups = Groups(sample, rows, WHO)
    return Rates(groups.keys, proportion(groups.sums(value), groups.sums(ONE), binary))


def cgr(sample: Sample, pairs: pl.DataFrame) -> Rates:
    """Return the measure named CGR: the share of correct "yes" answers that change when the lesion is filled in."""
    return rate(sample, _filled_right(pairs), pl.col("first") != pl.col("second"))


def cgr_answers(pairs: pl.DataFrame) -> pl.DataFrame:
    """Return the number of answers from which :func:`cgr` is computed (``cgr_answers``), by model and protocol."""
    return _filled_right(pairs).group_by(WHO).agg(pl.len().alias("cgr_answers"))


def _filled_right(pairs: pl.DataFrame) -> pl.DataFrame:
    return pairs.filter(pl.col("right") & (pl.col("condition") == "target"))


def stability(sample: Sample, pairs: pl.DataFrame) -> Rates:
    """Return the measure named IS: how often correct "yes" answers stay when lung outside the lesion is filled in."""
    rows = pairs.filter(pl.col("right") & (pl.col("condition") == "irrelevant"))
    return rate(sample, rows, pl.col("first") == pl.col("second"))


def uar(sample: Sample, originals: pl.DataFrame) -> Rates:
    """Return the measure named UAR: how often a right answer on detection is also given about another patient.

    The other patients have the same finding, view, sex and key (:func:`with_partners`). UAR is the mean, over all right
    answers, of the share of other patients who get the same answer.
    """
    rows = with_partners(originals).filter("right")
    return rate(sample, rows, pl.col("same"), binary=False)


def with_partners(originals: pl.DataFrame) -> pl.DataFrame:
    """Return the detection answers with two more columns; answers without comparable patients are left out.

    - ``others``: the number of the model's answers on other patients with the same finding, view, sex and key.
    - ``same``: the share of the answers on other patients that are equal to the row's answer.
    """
    rows = originals.filter(kind="detection")
    everybody = pl.len().over(_LIKE)
    own = pl.len().over([*_LIKE, "cluster"])
    alike = pl.len().over([*_LIKE, "first"])
    own_alike = pl.len().over([*_LIKE, "cluster", "first"])
    others = (everybody - own).cast(pl.Float64)
    counted = rows.with_columns(((alike - own_alike) / others).alias("same"), others.alias("others"))
    return counted.filter(pl.col("others") > 0)


def published_class(
    cgr_value: float | None, answers: int | None, uar_value: float | None, is_value: float | None
) -> str | None:
    """Return the class that the published code gives a model; None if a number is missing.

    - ``cgr_value``: CGR (:func:`cgr`).
    - ``answers``: the number of answers in CGR (:func:`cgr_answers`).
    - ``uar_value``: UAR (:func:`uar`).
    - ``is_value``: IS (:func:`stability`).

    >>> published_class(0.0, 50, 1.0, 1.0), published_class(0.4, 50, 0.9, 0.95), published_class(0.5, 50, 0.6, 0.5)
    ('ignores the picture', 'uses the picture', 'unstable')
    """
    if cgr_value is None or answers is None or is_value is None or uar_value is None:
        return None
    if is_value < UNSTABLE_IS:
        return UNSTABLE
    if cgr_value < _EQUAL and min(uar_value, is_value) > 1 - _EQUAL:
        return IGNORES
    # For READS, the lower end of the bootstrap interval of CGR must lie above 0: few bootstrap samples may be without
    # any changed answer.
    return READS if (1 - cgr_value) ** answers < _TAIL and is_value >= LEAST_IS else OTHER
