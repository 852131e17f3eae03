"""Exact tests of predictors against chance, with their intervals.

A contest: among ``size`` candidates ``right`` are right, and a predictor names ``picked`` of them without knowing which
are right. The number of hits is hypergeometric for any rule that does not depend on these candidates' answers. Contests
are independent, so the distribution of the total is the convolution of theirs. Picking one of four options is the
contest (4, 1, 1). Saying "yes" to the upper half of 20 cases, 12 of which are, is (20, 12, 10).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

from chexqa.stats import TAIL, wilson

Mass = npt.NDArray[np.float64]


class HypergeometricTrial(NamedTuple):
    """One contest and its outcome: ``hits`` of the ``picked`` candidates are right."""

    size: int
    right: int
    picked: int
    hits: int


def p_of_hits(contests: Iterable[HypergeometricTrial]) -> float:
    """Return the probability of at least as many hits in all by chance; 1 for no contest."""
    rows = list(contests)
    shapes = Counter((row.size, row.right, row.picked) for row in rows)
    total = np.ones(1)
    for (size, right, picked), times in shapes.items():
        total = np.convolve(total, _power(_mass(size, right, picked), times))
    hits = sum(row.hits for row in rows)
    return min(1.0, float(total[hits:].sum()))


def expected_hits(contests: Iterable[HypergeometricTrial]) -> float:
    """Return the number of hits expected by chance."""
    return sum(row.picked * row.right / row.size for row in contests)


class BinaryScore(NamedTuple):
    """Contests with yes/no answers: yes to the picked, no to the others. ``expected``: right answers by chance."""

    answers: int
    right: int
    expected: float

    @classmethod
    def of(cls, contests: Sequence[HypergeometricTrial]) -> BinaryScore:
        """Count the right yes and right no answers of contests."""
        # Each hit adds a right yes, and also a right no: one wrong candidate fewer is picked.
        base = sum(row.size - row.right - row.picked for row in contests)
        hits = sum(row.hits for row in contests)
        return cls(sum(row.size for row in contests), base + 2 * hits, base + 2 * expected_hits(contests))


def _mass(size: int, right: int, picked: int) -> Mass:
    """Return the probabilities of 0 to ``picked`` hits."""
    return np.asarray(stats.hypergeom(size, right, picked).pmf(np.arange(picked + 1)), float)


def _power(mass: Mass, times: int) -> Mass:
    """Return the mass function of a sum of ``times`` independent draws."""
    result = np.ones(1)
    while times:
        if times & 1:
            result = np.convolve(result, mass)
        mass = np.convolve(mass, mass)
        times >>= 1
    return result


def interval(right: float, count: int, looks: int = 1) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share; simultaneous over ``looks`` intervals (Bonferroni).

    The interval of no answers is 0 to 1.

    >>> low, high = interval(5, 10)
    >>> round(low, 3), round(high, 3)
    (0.237, 0.763)
    """
    if count == 0:
        return 0.0, 1.0
    low, high = wilson(right / count, count, TAIL / looks)
    return float(low), float(high)


def p_by_permutation(observed: float, draw: Callable[[], float], exceedances: int = 20, most: int = 50_000) -> float:
    """Return the share of draws under chance that reach ``observed``: a sequential p value (Besag, Clifford 1991).

    Drawing stops after ``exceedances`` draws that reach it, so that a result close to chance needs few draws. The p
    value is exact in either case.
    """
    reached = 0
    for drawn in range(1, most + 1):
        reached += draw() >= observed
        if reached == exceedances:
            return reached / drawn
    return (reached + 1) / (most + 1)
