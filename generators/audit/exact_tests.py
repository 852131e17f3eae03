"""Exact tests of predictors against chance, with their intervals.

In a contest, a predictor picks some of several candidates. Two examples:

- Picking one of four options: 4 candidates, 1 right, 1 picked.
- Saying "yes" to half of 20 cases, 12 of them positive: 20 candidates, 12 right, 10 picked.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from chexqa.stats import TAIL, wilson

Mass = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
_FEW = 16  # largest number of distinct values that get a bin each
HALVES = ("high", "low")
# Bins between the quantiles 0, 0.1, 0.25, 0.5, 0.75, 0.9 and 1, in words.
_RANGES = {
    "in the lowest tenth": (0,), "in the lowest quarter": (0, 1), "in the second quarter": (2,),
    "in the third quarter": (3,), "in the highest quarter": (4, 5), "in the highest tenth": (5,),
}  # fmt: skip
POWER = 0.8  # probability with which the stated smallest leak would be found
_MOST_ODDS, _HALVINGS = 30.0, 50  # largest log odds, and number of steps of the search for them


class Contest(NamedTuple):
    """Numbers of candidates in a contest, in which a predictor picks some of several candidates.

    - ``size``: all candidates.
    - ``right``: the right candidates.
    - ``picked``: the candidates that the predictor picks.
    - ``hits``: the picked candidates that are right.
    """

    size: int
    right: int
    picked: int
    hits: int


def p_of_hits(contests: Iterable[Contest]) -> float:
    """Return the probability that chance alone gives at least the observed hits; 1 if there are no contests."""
    rows = list(contests)
    return min(1.0, float(mass_of_hits(rows)[sum(row.hits for row in rows) :].sum()))


def mass_of_hits(contests: Iterable[Contest]) -> Mass:
    """Return the probabilities that chance alone gives 0, 1, 2, … hits in all contests together."""
    shapes = Counter((row.size, row.right, row.picked) for row in contests)
    total = np.ones(1)
    for (size, right, picked), times in shapes.items():
        total = np.convolve(total, _power(_mass(size, right, picked), times))
    return total


def detectable_hits(mass: Mass, level: float, power: float = POWER) -> float | None:
    """Return the expected number of hits under the smallest detectable leak; None if no leak is detectable.

    A leak is detectable if a test finds it with the probability ``power`` or more.

    - ``mass``: the probabilities of 0, 1, 2 … hits by chance.
    - ``level``: the p value up to which the test is significant.
    """
    tails = np.minimum(1.0, mass[::-1].cumsum()[::-1])
    significant = np.flatnonzero(tails <= level)
    if not len(significant) or mass[significant[0]] <= 0:
        return None
    least, hits = int(significant[0]), np.arange(len(mass))
    with np.errstate(divide="ignore"):
        logs = np.log(mass)

    # A leak multiplies the odds of picking a right candidate by one factor in every contest. The hits then follow
    # Fisher's noncentral hypergeometric distribution: the distribution by chance, tilted exponentially.
    def tilted(odds: float) -> Mass:
        weights = logs + odds * hits
        weights = np.exp(weights - weights.max())
        return np.asarray(weights / weights.sum())

    low, high = 0.0, _MOST_ODDS
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if tilted(middle)[least:].sum() >= power else (middle, high)
    return float(tilted(high) @ hits)


def expected_hits(contests: Iterable[Contest]) -> float:
    """Return the number of hits expected by chance."""
    return sum(row.picked * row.right / row.size for row in contests)


class BinaryScore(NamedTuple):
    """Score of a predictor that answers yes for each candidate that it picks, and no for each other candidate.

    - ``answers``: the number of answers, one for each candidate.
    - ``right``: the number of right answers.
    - ``expected``: the number of right answers expected by chance.
    """

    answers: int
    right: int
    expected: float

    @classmethod
    def of(cls, contests: Sequence[Contest]) -> BinaryScore:
        """Return the score of a predictor over all ``contests``, the sets of candidates from which it picked."""
        # Each hit adds a right yes, and also a right no: one wrong candidate fewer is picked.
        base = sum(row.size - row.right - row.picked for row in contests)
        hits = sum(row.hits for row in contests)
        return cls(sum(row.size for row in contests), base + 2 * hits, base + 2 * expected_hits(contests))


class NullScore(NamedTuple):
    """Distribution of a predictor's number of right answers by chance.

    The predictor picks a fixed number of candidates; a hit is a right pick.

    - ``mass``: the probabilities of 0, 1, 2, … hits.
    - ``right_per_hit``: by how much each hit raises the number of right answers. It is 2 if unpicked candidates count
      as answers "no": with each hit, one more wrong candidate stays unpicked, which is a right "no". Otherwise it is 1.
    - ``right_without_hits``: the number of right answers if no pick is a hit.
    """

    # Example with yes and no: 12 of 20 cases are positive, and 10 get a yes. With 6 hits, 4 of the 8 negative cases
    # get a wrong yes and the other 4 a right no, so 10 answers are right. Each further hit also adds a right no.
    # Therefore right_per_hit is 2, and right_without_hits is 10 - 2 * 6 = -2.
    mass: Mass
    right_without_hits: float
    right_per_hit: float

    @classmethod
    def of(cls, contests: Iterable[Contest], answers: int, right: int) -> NullScore:
        """Return the distribution of a predictor's number of right answers by chance.

        - ``contests``: the contests in which the predictor picks.
        - ``answers``: the number of answers: one for each pick; or, if candidates that are not picked count as "no",
          one for each candidate.
        - ``right``: the observed number of right answers.
        """
        rows = list(contests)
        hits, per_hit = sum(row.hits for row in rows), 1 if answers == sum(row.picked for row in rows) else 2
        return cls(mass_of_hits(rows), right - per_hit * hits, per_hit)

    def p(self, right: int) -> float:
        """Return the probability that chance alone gives at least ``right`` right answers."""
        return min(1.0, float(self.mass[round((right - self.right_without_hits) / self.right_per_hit) :].sum()))

    def detectable(self, level: float) -> float | None:
        """Return the expected number of right answers under the smallest detectable leak; None if none is detectable.

        A leak is detectable if a test at ``level`` finds it with probability 0.8 or more.
        """
        hits = detectable_hits(self.mass, level)
        return None if hits is None else self.right_without_hits + self.right_per_hit * hits


@functools.lru_cache(maxsize=4096)
def _mass(size: int, right: int, picked: int) -> Mass:
    """Return the probabilities of 0 to ``picked`` hits in one contest by chance."""
    hits = np.arange(picked + 1)
    logs = _log_choose(right, hits) + _log_choose(size - right, picked - hits) - _log_choose(size, np.array([picked]))
    return np.exp(logs)


def _log_choose(size: int, chosen: npt.NDArray[np.intp]) -> Mass:
    """Return the logarithms of binomial coefficients; minus infinity where ``chosen`` exceeds ``size``."""
    fits = (chosen >= 0) & (chosen <= size)
    kept = np.where(fits, chosen, 0)
    found = special.gammaln(size + 1) - special.gammaln(kept + 1) - special.gammaln(size - kept + 1)
    return np.where(fits, found, -np.inf)


def _power(mass: Mass, times: int) -> Mass:
    """Return the probabilities of the sum of ``times`` independent draws from one distribution."""
    result = np.ones(1)
    while times:
        if times & 1:
            result = np.convolve(result, mass)
        mass = np.convolve(mass, mass)
        times >>= 1
    return result


def interval(right: float, count: int, looks: int = 1) -> tuple[float, float]:
    """Return Wilson's 95 % interval of the share ``right / count``; if ``count`` is 0, the interval is 0 to 1.

    ``looks`` is the number of intervals that are read together; the interval is widened accordingly (Bonferroni).

    >>> low, high = interval(5, 10)
    >>> round(low, 3), round(high, 3)
    (0.237, 0.763)
    """
    if count == 0:
        return 0.0, 1.0
    low, high = wilson(right / count, count, TAIL / looks)
    return float(low), float(high)


def p_by_permutation(observed: float, draw: Callable[[], float], exceedances: int = 20, most: int = 50_000) -> float:
    """Return the share of values of ``draw`` that reach ``observed``, as an exact p value (Besag, Clifford 1991).

    Drawing stops when ``exceedances`` values have reached ``observed``, and after ``most`` values at the latest.
    """
    reached = 0
    for drawn in range(1, most + 1):
        reached += draw() >= observed
        if reached == exceedances:
            return reached / drawn
    return (reached + 1) / (most + 1)


def bins(values: Sequence[float | str], parts: Sequence[npt.NDArray[np.intp]]) -> dict[str, Flags]:
    """Return the bins of a feature's values, keyed by name; a bin has one flag for each value, True if it is inside.

    ``parts`` divides the values, for example by finding; each part is an array of indices into ``values``.

    - Each frequent value has a bin, which holds all values equal to it.
    - Numbers also have bins by size, such as "high" and "low". What is high or low is judged within each part.
    """
    counts = Counter(values)
    few = len(counts) <= _FEW
    if few or any(isinstance(value, str) for value in counts):
        common = sorted(value for value, count in counts.most_common(_FEW) if few or count > 1)
        found = {_word(value): np.array([own == value for own in values]) for value in common}
        if any(isinstance(value, str) for value in counts):
            return found
    else:
        found = {}
    numbers = np.array(values, float)
    for part in parts:
        own = numbers[part]
        middle = float(np.median(own))
        # If half of the numbers or more equal the largest, the lower half is the other numbers.
        high = own >= middle if middle == own.max() else own > middle
        ranges = {"high": high, "low": ~high}
        if not few:
            cuts = np.quantile(own, (0.1, 0.25, 0.5, 0.75, 0.9))
            place = np.searchsorted(cuts, own, side="left")
            ranges |= {words: np.isin(place, within) for words, within in _RANGES.items()}
        for words, flags in ranges.items():
            found.setdefault(words, np.zeros(len(numbers), bool))[part] = flags
    return found


def _word(value: float | str) -> str:
    return f"{value:g}" if isinstance(value, float) else f"“{_short(value)}”"


def _short(text: str, most: int = 40) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
