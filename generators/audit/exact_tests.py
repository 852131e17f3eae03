"""Exact tests of predictors against chance, and the intervals that go with them.

A contest: among ``size`` candidates ``right`` are right, and a predictor that knows nothing of which ones names
``picked`` of them. The number of right ones among them is hypergeometric, whatever made the predictor name them, as
long as it was settled without these candidates' answers; contests are independent, so the total's distribution is the
convolution of theirs. Picking one of four options is the contest (4, 1, 1); calling the upper half of 20 cases "yes"
where 12 are is (20, 12, 10).
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


class Contest(NamedTuple):
    """One contest and its outcome: ``hits`` of the ``picked`` candidates are right."""

    size: int
    right: int
    picked: int
    hits: int


def p_of_hits(contests: Iterable[Contest]) -> float:
    """The probability of at least as many hits in all by chance; 1 for no contest."""
    rows = list(contests)
    shapes = Counter((row.size, row.right, row.picked) for row in rows)
    total = np.ones(1)
    for (size, right, picked), times in shapes.items():
        total = np.convolve(total, _power(_mass(size, right, picked), times))
    hits = sum(row.hits for row in rows)
    return min(1.0, float(total[hits:].sum()))


def expected_hits(contests: Iterable[Contest]) -> float:
    """The hits that chance gives on average."""
    return sum(row.picked * row.right / row.size for row in contests)


class YesNo(NamedTuple):
    """Contests as yes and no: the picked are called right, the others wrong. ``expected``: right answers by chance."""

    answers: int
    right: int
    expected: float

    @classmethod
    def of(cls, contests: Sequence[Contest]) -> YesNo:
        """Count both sorts of answers."""
        # Each hit is a right yes and leaves a right no that it would otherwise have taken.
        base = sum(row.size - row.right - row.picked for row in contests)
        hits = sum(row.hits for row in contests)
        return cls(sum(row.size for row in contests), base + 2 * hits, base + 2 * expected_hits(contests))


def _mass(size: int, right: int, picked: int) -> Mass:
    """Probability of 0 to ``picked`` hits."""
    return np.asarray(stats.hypergeom(size, right, picked).pmf(np.arange(picked + 1)), float)


def _power(mass: Mass, times: int) -> Mass:
    """The mass function of a sum of ``times`` independent draws."""
    result = np.ones(1)
    while times:
        if times & 1:
            result = np.convolve(result, mass)
        mass = np.convolve(mass, mass)
        times >>= 1
    return result


def interval(right: float, count: int, looks: int = 1) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share; all of ``looks`` intervals hold at once with 95 % (Bonferroni).

    The interval of no answers is 0 to 1.
    """
    if count == 0:
        return 0.0, 1.0
    low, high = wilson(right / count, count, TAIL / looks)
    return float(low), float(high)


def p_by_permutation(observed: float, draw: Callable[[], float], exceedances: int = 20, most: int = 50_000) -> float:
    """The share of draws under chance that reach ``observed``, by as many draws as it takes (Besag, Clifford 1991).

    Stops after ``exceedances`` draws that reach it, so that what is plainly chance costs few; an exact p value
    either way.
    """
    reached = 0
    for drawn in range(1, most + 1):
        reached += draw() >= observed
        if reached == exceedances:
            return reached / drawn
    return (reached + 1) / (most + 1)
