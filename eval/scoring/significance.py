"""Permutation tests of differences between models and between samples, and letters (a, ab, b) for tables of models.

Models that share a letter do not differ significantly. ``docs/intervals.md`` explains the tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import sparse, stats

from chexqa.files.seeds import stream

DRAWS = 100_000
# Largest number of clusters with a value other than zero for which every choice of signs is used.
EXACT = 16
ALPHA = 0.05
POWER = 0.8
_AT_ONCE = 4000
# Distance from 0 of an interval's end that is moved out of 0.
BEYOND = 1e-6
Floats = npt.NDArray[np.floating]


def sign_flips(parts: Floats, weights: sparse.csr_matrix, draws: int = DRAWS, seed: int = 0) -> Floats:
    """Return two-sided p-values ``(C,)`` of C sign-flip (permutation) tests between scores.

    - ``parts (P, M)``: the contributions of P clusters to M scores. A score is the sum of its column.
    - ``weights (C, M)``: the tested differences. For example, a row with 1, -1 and 0 tests the first score against the
      second. Each row sums to 0.

    - ``draws``: the number of random draws of the signs.

    p is exact if at most :data:`EXACT` clusters contribute to a difference. If more clusters contribute, p is estimated
    from the draws; if Hoeffding's bound (1963) is smaller than the estimate, p is the bound.
    """
    # If two models are equal, a cluster's difference is as likely to be positive as negative. p is the share of sign
    # choices with a sum at least as far from zero as the observed one. One product of the signs and the clusters'
    # values serves all tests.
    clusters = parts.shape[0]
    observed = np.abs(weights @ parts.sum(axis=0, dtype=np.float64))
    # Tolerance for sums that differ only in the order of their terms.
    slack = 1e-6 * (abs(weights) @ np.abs(parts).sum(axis=0)) + 1e-12
    exact = [
        _all_flips(parts[:, weights[number].indices] @ weights[number].data, least)
        for number, least in enumerate(observed - slack)
    ]
    p = np.array([np.nan if one is None else one for one in exact])
    many = np.isnan(p)
    if not many.any():
        return p
    small, across = parts.astype(np.float32), weights[many].T.toarray().astype(np.float32)
    random = stream(seed, "sign flips", clusters)
    reached = np.zeros(across.shape[1], np.int64)
    for start in range(0, draws, _AT_ONCE):
        count = min(_AT_ONCE, draws - start)
        sums = _signs(random, count, clusters) @ small
        reached += (np.abs(sums @ across) >= (observed - slack)[many]).sum(axis=0)
    # The observed sum counts as one draw. Without the bound, no test of thousands could be significant after Holm's
    # correction.
    mixed = weights[many] @ parts.T
    p[many] = np.minimum((1 + reached) / (1 + draws), _hoeffding((observed - slack)[many], (mixed**2).sum(axis=1)))
    return p


def _hoeffding(least: Floats, squares: Floats) -> Floats:
    """Return upper bounds ``(C,)`` of the shares of sign choices with a sum at least ``least (C,)`` away from 0.

    ``squares (C,)`` has the sums of the clusters' squared values.
    """
    bound: Floats = 2 * np.exp(-(np.maximum(least, 0) ** 2) / (2 * np.maximum(squares, 1e-300)))
    return bound


def _all_flips(values: Floats, least: float) -> float | None:
    """Return the share of all choices of signs with which the sum of ``values`` is at least ``least`` away from 0.

    Return None if more than :data:`EXACT` values are not 0.
    """
    apart = values[np.abs(values) > 1e-9 * np.abs(values).max(initial=0)]
    if len(apart) > EXACT:
        return None
    return float((np.abs(_choices(len(apart)) @ apart) >= least).mean())


@cache
def _choices(count: int) -> Floats:
    """Return every choice of ``count`` signs with the last sign 1, one a row; opposite choices give opposite sums."""
    return 1.0 - 2.0 * (np.arange(2 ** max(count - 1, 0))[:, None] >> np.arange(count) & 1)


def _signs(random: np.random.Generator, count: int, clusters: int) -> Floats:
    """Draw a sign, 1 or -1, for each cluster in each of ``count`` draws."""
    bits = np.unpackbits(random.integers(0, 256, (count, (clusters + 7) // 8), np.uint8), axis=1, count=clusters)
    signs = bits.astype(np.float32)
    signs *= 2
    signs -= 1
    return signs


def exchange_labels(
    right_a: Floats, whole_a: Floats, right_b: Floats, whole_b: Floats, draws: int = DRAWS, seed: int = 0
) -> Floats:
    """Return one-sided p-values ``(K + 1,)`` of tests whether K shares of right answers drop from sample a to sample b.

    The last p is for the mean of the K drops.

    - ``right_a, right_b (P, K)``: the number of right answers of each patient in sample a and in sample b.
    - ``whole_a, whole_b (P, K)``: the number of all answers. A patient may have answers in only one sample.
    """
    # If both samples come from one distribution, a patient's answers in a and in b can be exchanged. p is the share of
    # random exchanges with a drop at least as large as the observed drop, which counts as one draw.
    count = right_a.shape[1]
    sums = np.hstack([right_a + right_b, whole_a + whole_b]).sum(axis=0)
    apart = np.hstack([right_a - right_b, whole_a - whole_b])

    def drops(differences: Floats) -> Floats:
        # Columns of ``differences``: by how much sample a has more right answers than b in each of the K shares, then
        # by how much more answers. The result has the K drops from a to b, then their mean: ``(draws, K + 1)``.
        # No exchange changes the sums of the counts of a and b, so the differences are enough to know both counts.
        first, second = (sums + differences) / 2, (sums - differences) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            each = first[:, :count] / first[:, count:] - second[:, :count] / second[:, count:]
        every = np.where(np.isnan(each), np.inf, each)  # a sample without answers counts as a larger drop
        return np.column_stack([every, every.mean(axis=1)])

    small = apart.astype(np.float32)
    observed = drops(apart.sum(axis=0)[None]) - 1e-6  # tolerance for sums that differ only in the order of their terms
    random = stream(seed, "exchanged samples", len(apart))
    reached = np.zeros(count + 1, np.int64)
    for start in range(0, draws, _AT_ONCE):
        size = min(_AT_ONCE, draws - start)
        signs = random.integers(0, 2, (size, len(apart)), np.int8).astype(np.float32) * 2 - 1
        reached += (drops((signs @ small).astype(np.float64)) >= observed).sum(axis=0)
    p: Floats = (1 + reached) / (1 + draws)
    return p


def mcnemar(only_first: int, only_second: int) -> float:
    """Return p of McNemar's exact two-sided test of two models, with one item per patient.

    - ``only_first``: the number of items that only the first model answered right.
    - ``only_second``: the number of items that only the second model answered right.

    >>> mcnemar(1, 9)
    0.021484375
    """
    return float(stats.binomtest(only_first, only_first + only_second).pvalue) if only_first + only_second else 1.0


def intervals_agreeing_with_p() -> list[pl.Expr]:
    """Return expressions that move an end of an interval that contradicts its p value.

    - p = 0.20, interval 0.1 to 0.5: becomes 0 to 0.5.
    - p = 0.01, interval -0.1 to 0.5: becomes 0.000001 to 0.5.

    The expressions read the columns ``difference, difference_low, difference_high`` and ``p`` (not corrected for the
    number of tests), and replace ``difference_low`` and ``difference_high``.
    """
    value, low, high = (pl.col(f"difference{end}") for end in ("", "_low", "_high"))
    equal, inside = low.is_not_null() & (pl.col("p") >= ALPHA), (low <= 0) & (high >= 0) & (pl.col("p") < ALPHA)
    lower = pl.when(equal).then(pl.min_horizontal(low, 0.0)).when(inside & (value > 0)).then(BEYOND).otherwise(low)
    upper = pl.when(equal).then(pl.max_horizontal(high, 0.0)).when(inside & (value < 0)).then(-BEYOND).otherwise(high)
    return [lower.alias("difference_low"), upper.alias("difference_high")]


def letters(different: npt.NDArray[np.bool_]) -> list[str]:
    """Return a text of letters for each of N models; two models share a letter if and only if they do not differ.

    ``different (N, N)`` is a symmetric array, True for each pair of models that differ.
    """
    # Insertion and absorption (compact letter display, Piepho 2004, J. Comput. Graph. Stat. 13, 456).
    count = len(different)
    groups = [frozenset(range(count))] if count else []
    for first, second in combinations(range(count), 2):
        if different[first, second]:
            split = [part for group in groups for part in _without_both(group, first, second)]
            groups = [group for group in dict.fromkeys(split) if not any(group < other for other in split)]
    ordered = sorted(groups, key=sorted)
    return ["".join(letter(place) for place, group in enumerate(ordered) if row in group) for row in range(count)]


def _without_both(group: frozenset[int], first: int, second: int) -> list[frozenset[int]]:
    return [group - {first}, group - {second}] if {first, second} <= group else [group]


def letter(place: int) -> str:
    """Return letter number ``place``, counted from 0: a, b, … z, then a1, b1, …"""
    return chr(ord("a") + place % 26) + (str(place // 26) if place >= 26 else "")


def detectable(
    standard_errors: Sequence[float] | Floats, alpha: float = ALPHA, per_cluster: Sequence[float] | Floats = (),
    power: float = POWER,
) -> float | None:  # fmt: skip
    """Return the smallest difference that a two-sided test at ``alpha`` detects with the given power.

    - ``standard_errors``: the standard errors of the differences; their median is used. Return None if there are none.
    - ``per_cluster``: the result of :func:`change_per_cluster`. With it, the result is at least the difference that a
      sign-flip test needs to reach ``alpha``.
    """
    if not len(standard_errors):
        return None
    factor = float(stats.norm.isf(alpha / 2) + stats.norm.ppf(power))
    # n clusters that all differ in one direction have p = 2 ** (1 - n). The number of those that differ is Poisson's.
    least = 1 + np.floor(1 - np.log2(alpha))
    clusters = float(stats.gamma.ppf(power, least))
    least_size = clusters * float(np.median(per_cluster)) if len(per_cluster) else 0.0
    return float(np.maximum(factor * float(np.median(standard_errors)), least_size))
