"""Confidence sequence: an interval of a mean of bounded values that stays valid if computed after every patient.

It is computed by bets against supposed means (Waudby-Smith and Ramdas 2024, "Estimating means of bounded random
variables by betting"). The mean can be that of an unlimited population, or that of exactly the patients of a study
(Waudby-Smith and Ramdas 2020).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

# A value x between -b and b multiplies the capital of an upward bet against the mean m by 1 - s + s (x + b) / (m + b);
# s is the share of the capital at stake. If m is the true mean, the expected factor is 1, so the probability that the
# capital ever reaches 1 / alpha is at most alpha (Ville's inequality). A mean is refuted when the capital reaches
# 1 / alpha. The capital is the average of upward and downward bets over these stakes. The average is convex in m, so
# the means that are not refuted form an interval.
STAKES = tuple(float(stake) for stake in np.geomspace(0.02, 0.9, 8))
_STEPS = 60
Floats = npt.NDArray[np.floating]


def log_capital(values: Floats, bound: float, mean: float = 0.0, population: int | None = None) -> Floats:
    """Return the evidence against a supposed mean after each value: the logarithm of a bettor's capital ``(…, T)``.

    The bettor starts with a capital of 1 and bets that the true mean is not ``mean``.

    - ``values (…, T)``: one value for each patient, from ``-bound`` to ``bound``.
    - ``mean``: the supposed mean of the population.
    - ``population``: the number of patients in the population; None if it is unlimited.
    """
    # If the mean of the rest lies beyond the bound, the values rule out ``mean``: the capital is infinite.
    left = _mean_of_the_rest(values, mean, population)
    possible = np.abs(left) <= bound * (1 + 1e-12)
    up, down = np.maximum(bound + left, 1e-12 * bound), np.maximum(bound - left, 1e-12 * bound)
    total = np.full(values.shape, -np.inf)
    for stake in STAKES:
        for gain in ((values + bound) / up, (bound - values) / down):
            total = np.logaddexp(total, np.cumsum(np.log1p(stake * (gain - 1)), axis=-1))
    capital: Floats = total - math.log(2 * len(STAKES))
    return np.where(np.logical_or.accumulate(~possible, axis=-1), np.inf, capital)


def _mean_of_the_rest(values: Floats, mean: float, population: int | None) -> Floats:
    """Return the mean of the patients who are left before each value, if ``mean`` is right for all patients."""
    if population is None:
        return np.full(values.shape, mean)
    before = np.cumsum(values, axis=-1) - values
    return (population * mean - before) / (population - np.arange(values.shape[-1]))


def decided_at(values: Floats, bound: float, alpha: float, population: int | None = None) -> npt.NDArray[np.int64]:
    """Return the number of values after which a mean of zero is refuted, for each row of ``values (…, T)``.

    The number is 0 for a row that never refutes it. The other arguments are as in :func:`interval`.
    """
    refuted = log_capital(values, bound, 0.0, population) >= -math.log(alpha)
    first: npt.NDArray[np.int64] = np.where(refuted.any(axis=-1), refuted.argmax(axis=-1) + 1, 0)
    return first


def interval(values: Floats, bound: float, alpha: float, population: int | None = None) -> tuple[float, float]:
    """Return the ends ``(low, high)`` of the interval for the mean of ``values (T,)``.

    The interval misses the true mean with a probability of at most ``alpha``, however often it is computed. ``bound``
    and ``population`` are as in :func:`log_capital`.
    """
    if not len(values):
        return -bound, bound
    if population is not None and len(values) == population:  # every patient is known
        return (float(values.mean()),) * 2
    seen, rest = (float(values.sum()), population - len(values)) if population is not None else (0.0, 1)
    whole = population or 1
    low, high = (seen - rest * bound) / whole, (seen + rest * bound) / whole
    inside = _least(values, bound, population, low, high)
    ends = []
    for outer in (low, high):
        kept, refuted = inside, outer
        for _ in range(_STEPS):
            middle = (kept + refuted) / 2
            if log_capital(values, bound, middle, population)[-1] < -math.log(alpha):
                kept = middle
            else:
                refuted = middle
        ends.append(refuted)
    return ends[0], ends[1]


def _least(values: Floats, bound: float, population: int | None, low: float, high: float) -> float:
    """Return the mean with the least capital, by golden-section search (the capital is convex in the mean)."""
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(_STEPS):
        first, second = high - ratio * (high - low), low + ratio * (high - low)
        if log_capital(values, bound, first, population)[-1] <= log_capital(values, bound, second, population)[-1]:
            high = second
        else:
            low = first
    return (low + high) / 2
