"""Correlations between two columns of right and wrong answers, and ratios of scores, with 95 % intervals over patients.

A correlation has no interval if there are fewer than :data:`LEAST_CORRELATED` patients, or if right or wrong answers
are too rare (:data:`LEAST_RARE`). ``docs/intervals.md`` explains the intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse, special

from chexqa.eval.scoring.intervals import Estimates
from chexqa.stats import TAIL

# Fewest clusters, and least N p q, of a correlation with an interval. N is the number of rows; p and q are the shares
# of the rarer answer, right or wrong, in the two columns. N p q is 10 for 1,000 rows with 10 % wrong in each column.
LEAST_CORRELATED, LEAST_RARE = 60, 10
# Search for the ends of a ratio's interval: first step, number of doublings, number of halvings.
_FIRST_STEP, _DOUBLINGS, _HALVINGS = 0.05, 16, 24
Floats = npt.NDArray[np.floating]
Ints = npt.NDArray[np.integer]


class Correlation(NamedTuple):
    """A correlation with the ends of its 95 % interval; NaN if it cannot be computed."""

    value: float
    low: float
    high: float


def correlation(
    first: Floats, second: Floats, cluster: Ints, groups: Ints | None = None, covariate: Floats | None = None
) -> Correlation:
    """Return Pearson's correlation of two columns ``(N,)`` of answers, from 0 (wrong) to 1 (right).

    - ``cluster (N,)``: the index of the row's patient.
    - ``groups``, ``covariate``: if given, their effects are removed first (:func:`residuals`).
    """
    # The interval is computed on Fisher's z scale, with a jackknife over patients and a t quantile.
    rarer = [min(float(column.mean()), 1 - float(column.mean())) for column in (first, second) if len(column)]
    enough = len(first) * np.prod(rarer) >= LEAST_RARE
    if groups is not None:
        first, second = (residuals(column, groups, covariate) for column in (first, second))
    patients = np.unique(cluster, return_inverse=True)[1]
    parts = [np.ones(len(first)), first, second, first * first, second * second, first * second]
    sums = np.column_stack([np.bincount(patients, part) for part in parts]) if len(first) else np.zeros((0, 6))
    value = float(_correlation_of(sums.sum(axis=0)))
    count = len(sums)
    if count < LEAST_CORRELATED or not enough or not abs(value) < 1 - 1e-9:
        return Correlation(value, np.nan, np.nan)
    without = np.arctanh(_correlation_of(sums.sum(axis=0) - sums))
    error = np.sqrt((count - 1) / count * ((without - without.mean()) ** 2).sum())
    distance = -special.stdtrit(count - 1, TAIL) * error
    low, high = np.tanh(np.arctanh(value) - distance), np.tanh(np.arctanh(value) + distance)
    return Correlation(value, float(low), float(high))


def _correlation_of(sums: Floats) -> Floats:
    """Return correlations from sums ``(…, 6)`` of 1, x, y, x², y² and xy; NaN if x or y does not vary."""
    count, x, y, xx, yy, xy = np.moveaxis(np.asarray(sums, np.float64), -1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        varies = (count * xx - x * x) * (count * yy - y * y)
        found: Floats = np.where(varies > 1e-12 * count**2, (count * xy - x * y) / np.sqrt(varies), np.nan)
    return found


def residuals(values: Floats, groups: Ints, covariate: Floats | None = None) -> Floats:
    """Return each of the values ``(N,)`` minus the mean of its group; ``groups (N,)`` has the index of its group.

    With ``covariate (N,)``, a straight line over the covariate is also subtracted.
    """

    def centred(column: Floats) -> Floats:
        sizes = np.bincount(groups)
        less: Floats = column - (np.bincount(groups, column) / np.maximum(sizes, 1))[groups]
        return less

    own = centred(values)
    if covariate is None:
        return own
    line = centred(covariate)
    slope = float(line @ own) / float(line @ line) if float(line @ line) > 1e-12 else 0.0
    adjusted: Floats = own - slope * line
    return adjusted


def ratios(scores: Estimates, pairs: Sequence[tuple[int, int]]) -> dict[str, Floats]:
    """Return ratios of two scores and the ends of their 95 % intervals, as ``value``, ``low`` and ``high`` ``(N,)``.

    ``pairs`` has the indices of the numerator and of the denominator. A ratio is NaN if its denominator is not above 0,
    and has no interval if the denominator's interval is not above 0.
    """
    # Fieller's interval: all r for which the interval of (numerator - r * denominator) contains 0.
    count, places = len(pairs), np.array(pairs, np.intp).reshape(-1, 2)
    above, below = scores.value[places].T
    value = np.divide(above, below, out=np.full(count, np.nan), where=below > 0)
    known = scores.interval()[0][places[:, 1]] > 0
    if not known.any():
        return {"value": value, "low": np.full(count, np.nan), "high": np.full(count, np.nan)}
    start = np.where(known, value, 0)

    def contains(ratio: Floats) -> npt.NDArray[np.bool_]:
        weights = np.column_stack([np.ones(count), -ratio]).ravel()
        table = sparse.csr_matrix(
            (weights, (np.repeat(np.arange(count), 2), places.ravel())), (count, len(scores.value))
        )
        low, high = scores.combine(table).interval()
        return np.asarray((low <= 0) & (high >= 0))

    def end(direction: int) -> Floats:
        inside, step = start, np.full(count, direction * _FIRST_STEP)
        for _ in range(_DOUBLINGS):
            held = known & contains(start + step)
            if not held.any():
                break
            inside, step = np.where(held, start + step, inside), np.where(held, 2 * step, step)
        outside = np.where(held, np.nan, start + step)
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            held = contains(middle)
            inside, outside = np.where(held, middle, inside), np.where(held, outside, middle)
        return np.where(known, (inside + outside) / 2, np.nan)

    return {"value": value, "low": end(-1), "high": end(1)}
