"""Sign-flip (permutation) tests of differences between models, and letters for groups of models that do not differ.

Two models answer the same items, so the difference of their scores is a sum of differences over patients. If the models
were equal, the difference of each patient could have either sign. The test draws random signs 100,000 times. It counts
how often the sum is at least as far from zero as the observed sum. Each model's score is itself a sum over
patients, so one matrix product of the signs and the patients' values gives the tests of all pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt
from scipy import sparse, stats

from chexqa.files.seeds import stream

DRAWS = 100_000
ALPHA = 0.05
POWER = 0.8
_AT_ONCE = 4000
Floats = npt.NDArray[np.floating]


def sign_flips(parts: Floats, weights: sparse.csr_matrix, draws: int = DRAWS, seed: int = 0) -> Floats:
    """Return two-sided p-values of a sign-flip (permutation) test over clusters, for linear combinations of scores.

    ``parts (P, M)`` holds each cluster's contribution to M scores; a score is the sum of its column. ``weights (C, M)``
    holds C combinations; each row sums to zero, so that equal scores give zero. The observed sum counts as one draw, so
    p is at least ``1 / (draws + 1)``.
    """
    clusters = parts.shape[0]
    observed = np.abs(weights @ parts.sum(axis=0, dtype=np.float64))
    # Tolerance for sums that differ only in the order of their terms.
    slack = 1e-6 * (abs(weights) @ np.abs(parts).sum(axis=0)) + 1e-12
    small, across = parts.astype(np.float32), weights.T.toarray().astype(np.float32)
    random = stream(seed, "sign flips", clusters)
    reached = np.zeros(weights.shape[0], np.int64)
    for start in range(0, draws, _AT_ONCE):
        count = min(_AT_ONCE, draws - start)
        bits = np.unpackbits(random.integers(0, 256, (count, (clusters + 7) // 8), np.uint8), axis=1, count=clusters)
        signs = bits.astype(np.float32)
        signs *= 2
        signs -= 1
        reached += (np.abs((signs @ small) @ across) >= observed - slack).sum(axis=0)
    return (1 + reached) / (1 + draws)


def mcnemar(only_first: int, only_second: int) -> float:
    """Return p of McNemar's exact two-sided test of two models on the same items, with one item per patient.

    The arguments are the number of items that only the first model has right, and the number that only the second has
    right. If both are 0, p is 1.

    >>> mcnemar(1, 9)
    0.021484375
    """
    return float(stats.binomtest(only_first, only_first + only_second).pvalue) if only_first + only_second else 1.0


def letters(different: npt.NDArray[np.bool_]) -> list[str]:
    """Return a compact letter display: two rows share a letter if and only if ``different`` does not mark them.

    ``different (N, N)`` is symmetric. Letters are assigned in the order of its rows. The method is insertion and
    absorption (Piepho 2004, J. Comput. Graph. Stat. 13, 456).
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
    """Return letter number ``number``, counted from 0: a, b, … z, then a1, b1, …"""
    return chr(ord("a") + place % 26) + (str(place // 26) if place >= 26 else "")


def detectable(standard_errors: Sequence[float] | Floats, alpha: float = ALPHA, power: float = POWER) -> float | None:
    """Return the smallest difference that a two-sided test at ``alpha`` detects with this power.

    The median of the standard errors is used. Return None if there are no standard errors.
    """
    if not len(standard_errors):
        return None
    factor = float(stats.norm.isf(alpha / 2) + stats.norm.ppf(power))
    return factor * float(np.median(standard_errors))
