"""Correlations of answers, and detection thresholds of outline errors, with 95 % intervals over patients.

* A correlation of answers has an interval on Fisher's z scale, with the standard error from a jackknife over patients
and a t quantile. The interval needs :data:`LEAST_CORRELATED` clusters. It also needs :data:`LEAST_RARE` cases that
would have the rarer answer of both questions if the answers were independent. * A threshold belongs to a yes/no
question about an error in an outline. It is the depth of the error at which d' is 1. A probit model gives the false
alarms without an error, and d' as a line over the logarithm of the depth. The covariance is clustered. The interval is
Fieller's: all depths whose d' does not differ from 1. A threshold needs :data:`LEAST_ITEMS` items. An end beyond the
tested depths is open.

``docs/intervals.md`` shows how often these intervals contain the true value.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from chexqa.stats import TAIL

LEAST_CORRELATED, LEAST_RARE = 60, 10
LEAST_ITEMS = 200
_STEPS, _LARGEST = 60, 30.0
Floats = npt.NDArray[np.floating]
Ints = npt.NDArray[np.integer]
Bools = npt.NDArray[np.bool_]


class Correlation(NamedTuple):
    """A correlation with the two ends of its interval; NaN means that it cannot be computed."""

    value: float
    low: float
    high: float


def correlation(
    first: Floats, second: Floats, cluster: Ints, groups: Ints | None = None, covariate: Floats | None = None
) -> Correlation:
    """Return Pearson's correlation of two columns ``(N,)`` of answers, each from 0 (wrong) to 1 (right).

    ``cluster (N,)`` is the index of each row's patient. With ``groups (N,)``, the mean of its group is subtracted from
    each value. With ``covariate (N,)``, a line over the covariate, fitted within groups, is subtracted too.
    """
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
    """Return correlations from sums ``(…, 6)`` of 1, x, y, x², y² and xy; NaN where a column does not vary."""
    count, x, y, xx, yy, xy = np.moveaxis(np.asarray(sums, np.float64), -1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        varies = (count * xx - x * x) * (count * yy - y * y)
        found: Floats = np.where(varies > 1e-12 * count**2, (count * xy - x * y) / np.sqrt(varies), np.nan)
    return found


def residuals(values: Floats, groups: Ints, covariate: Floats | None = None) -> Floats:
    """Return the values ``(N,)`` minus the mean of their group, and minus a line over the covariate fitted within
    groups.
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


class Threshold(NamedTuple):
    """Threshold in the unit of the depths, with the ends of its interval; an open end is NaN.

    ``value`` is NaN if d' does not rise with depth. ``criterion`` is the normal quantile of the share of correct
    rejections. ``known`` is False if there is no interval, because there are too few items or the rise of d' is
    uncertain.
    """

    value: float
    low: float
    high: float
    criterion: float
    known: bool


def threshold(depth: Floats, said_yes: Bools, cluster: Ints) -> Threshold:
    """Return the depth at which d' is 1.

    ``depth (N,)`` is NaN for an item without an error; the answer yes to such an item is a false alarm. One more item
    with half a false alarm is added, so that a model without false alarms has a threshold too.
    """
    signal = np.isfinite(depth)
    none = Threshold(np.nan, np.nan, np.nan, np.nan, False)
    if not signal.any() or signal.all():
        return none
    height = np.log(np.where(signal, depth, 1.0))
    design = np.column_stack([np.ones(len(depth)), signal, signal * height])
    design = np.vstack([design, [1.0, 0.0, 0.0]])
    patients = np.unique(np.append(cluster, -1), return_inverse=True)[1]
    fitted = _probit(design, np.append(said_yes.astype(np.float64), 0.5), patients)
    if fitted is None:
        return none
    coefficients, covariance, count = fitted
    (start, offset, slope), lowest, highest = coefficients, height[signal].min(), height[signal].max()
    value = float(np.exp((1 - offset) / slope)) if slope > 1e-6 else np.nan
    ends = _fieller(offset - 1, slope, covariance[1:, 1:], -float(special.stdtrit(count - 1, TAIL)))
    if ends is None or slope <= 0 or len(depth) < LEAST_ITEMS:
        return Threshold(value, np.nan, np.nan, -float(start), False)
    low, high = (float(np.exp(end)) if lowest <= end <= highest else np.nan for end in ends)
    return Threshold(value, low, high, -float(start), True)


def _probit(design: Floats, outcome: Floats, cluster: Ints) -> tuple[Floats, Floats, int] | None:
    """Return coefficients, clustered covariance and the number of clusters of a probit model; None if it has no fit."""
    beta = np.zeros(design.shape[1])
    for _ in range(_STEPS):
        predicted = np.clip(design @ beta, -8, 8)
        share, slope = special.ndtr(predicted), np.exp(-(predicted**2) / 2) / np.sqrt(2 * np.pi)
        room = np.maximum(share * (1 - share), 1e-12)
        information = design.T @ (design * (slope**2 / room)[:, None])
        score = design * (slope * (outcome - share) / room)[:, None]
        try:
            step = np.linalg.solve(information, score.sum(axis=0))
        except np.linalg.LinAlgError:
            return None
        beta = beta + step * min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-12))
        if np.abs(beta).max() > _LARGEST:
            return None
        if np.abs(step).max() < 1e-9:
            break
    else:
        return None
    count = int(cluster.max()) + 1
    summed = np.zeros((count, design.shape[1]))
    np.add.at(summed, cluster, score)
    inverse = np.linalg.inv(information)
    covariance: Floats = inverse @ (summed.T @ summed) @ inverse * count / max(count - 1, 1)
    return beta, covariance, count


def _fieller(offset: float, slope: float, covariance: Floats, quantile: float) -> tuple[float, float] | None:
    """Return the ends of the set of all x with ``offset + slope x`` not different from 0.

    Return None if the set is no interval.
    """
    square = quantile**2
    a = slope**2 - square * covariance[1, 1]
    b = offset * slope - square * covariance[0, 1]
    c = offset**2 - square * covariance[0, 0]
    if a <= 0 or b * b < a * c:
        return None
    root = float(np.sqrt(b * b - a * c))
    return (-b - root) / a, (-b + root) / a
