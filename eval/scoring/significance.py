"""Permutation tests of differences between models and between samples, and letters (a, ab, b) for tables of models.

Models that share a letter do not differ significantly.

Two models answer the same items, so the difference of their scores is a sum over patients. If the models are equal,
each patient's difference is as likely to be positive as negative. The test draws random signs 100,000 times, and counts
how often the sum is at least as far from zero as the observed sum. Each model's score is itself a sum over patients, so
one product of two matrices (the signs and the patients' values) gives the tests of all pairs. If at most 16 patients
have a difference other than zero, the test uses every choice of signs once instead, so that p is exact.
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
    """Return two-sided p-values of a sign-flip (permutation) test over clusters, for linear combinations of scores.

    ``parts (P, M)`` has each cluster's contribution to M scores; a score is the sum of its column. ``weights (C, M)``
    has the weights of C combinations; each row sums to zero, so that equal scores give zero. If at most :data:`EXACT`
    clusters contribute a value other than zero to a combination, p is the exact share of all choices of signs. If more
    clusters do, the signs are drawn, and the observed sum counts as one draw, so p is at least ``1 / (draws + 1)``.
    """
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
    p[many] = (1 + reached) / (1 + draws)
    return p


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
    """Return one-sided p-values ``(K + 1,)`` for the drops of K shares from sample a to sample b; the last p is for the
    mean of the drops.

    The arguments ``(P, K)`` have the number of right answers (``right_a``) and of all answers (``whole_a``) of each of
    P patients. If both samples come from one distribution, a patient's answers in a and in b can be exchanged. p is the
    share of random exchanges whose drop (share in a minus share in b) is at least as large as the observed drop. The
    observed drop counts as one draw. A patient may have answers in only one of the samples. A draw that leaves a sample
    without answers counts as a larger drop.
    """
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
        every = np.where(np.isnan(each), np.inf, each)
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
    """Return p of McNemar's exact two-sided test of two models on the same items, with one item per patient.

    ``only_first`` is the number of items that only the first model has right, and ``only_second`` is the number that
    only the second model has right. If both are 0, p is 1.

    >>> mcnemar(1, 9)
    0.021484375
    """
    return float(stats.binomtest(only_first, only_first + only_second).pvalue) if only_first + only_second else 1.0


def intervals_agreeing_with_p() -> list[pl.Expr]:
    """Return expressions that change intervals of differences so that 0 lies outside if and only if p is below 5 %.

    If an interval contradicts p, the end nearer 0 is moved. For example:

    - p = 0.20, interval 0.1 to 0.5: becomes 0 to 0.5.
    - p = 0.01, interval -0.1 to 0.5: becomes 0.000001 to 0.5.

    The expressions read the columns ``difference, difference_low, difference_high`` and ``p`` (not corrected for the
    number of tests). They replace the two ends; a row without p or without an interval stays unchanged.
    """
    value, low, high = (pl.col(f"difference{end}") for end in ("", "_low", "_high"))
    equal, inside = low.is_not_null() & (pl.col("p") >= ALPHA), (low <= 0) & (high >= 0) & (pl.col("p") < ALPHA)
    lower = pl.when(equal).then(pl.min_horizontal(low, 0.0)).when(inside & (value > 0)).then(BEYOND).otherwise(low)
    upper = pl.when(equal).then(pl.max_horizontal(high, 0.0)).when(inside & (value < 0)).then(-BEYOND).otherwise(high)
    return [lower.alias("difference_low"), upper.alias("difference_high")]


def letters(different: npt.NDArray[np.bool_]) -> list[str]:
    """Return each row's letters: two rows share a letter if and only if ``different (N, N)`` is False for the pair.

    ``different`` is symmetric. Letters are given out in the order of its rows, by insertion and absorption (compact
    letter display, Piepho 2004, J. Comput. Graph. Stat. 13, 456).
    """
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


def detectable(standard_errors: Sequence[float] | Floats, alpha: float = ALPHA, power: float = POWER) -> float | None:
    """Return the smallest difference that a two-sided test at ``alpha`` detects with the given power.

    The median of ``standard_errors`` is used. Return None if ``standard_errors`` is empty.
    """
    if not len(standard_errors):
        return None
    factor = float(stats.norm.isf(alpha / 2) + stats.norm.ppf(power))
    return factor * float(np.median(standard_errors))
