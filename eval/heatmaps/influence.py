"""Scores of patients, with 95 % intervals made from each patient's influence on the score.

An influence is how fast the score changes if the patient's weight grows. With fewer than :data:`LEAST` patients there
is no interval.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from chexqa.stats import TAIL

LEAST = 10
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer]


class Score(NamedTuple):
    """A score (NaN if it cannot be computed), and each patient's influence on the score, ``(patients,)``."""

    value: float
    influence: Floats


class Estimate(NamedTuple):
    """A score and the two ends of its interval; an end is None if there is no interval."""

    value: float | None
    low: float | None
    high: float | None


def ratio(part: Floats, whole: Floats, cluster: Ints, patients: int) -> Score:
    """Return ``sum(part) / sum(whole)`` of two arrays ``(N,)``.

    ``cluster`` is the index of each row's patient, and ``patients`` the number of patients.
    """
    total = float(whole.sum())
    if total <= 0:
        return Score(np.nan, np.zeros(patients))
    value = float(part.sum()) / total
    return Score(value, _summed(cluster, (part - value * whole) / total, patients))


def _summed(cluster: Ints, parts: Floats, patients: int) -> Floats:
    return np.asarray(np.bincount(cluster, parts, minlength=patients), np.float64)


def area(score: Floats, present: npt.NDArray[np.bool_], cluster: Ints, patients: int) -> Score:
    """Return the area under the ROC curve of scores ``(N,)``; a tie counts as half.

    ``cluster`` and ``patients`` are as in :func:`ratio`.
    """
    if not present.any() or present.all():
        return Score(np.nan, np.zeros(patients))
    # Obuchowski, "Nonparametric Analysis of Clustered ROC Curve Data", Biometrics 1997.
    upper, lower = placements(score[present], score[~present]), 1 - placements(score[~present], score[present])
    value = float(upper.mean())
    influence = _summed(cluster[present], (upper - value) / len(upper), patients)
    influence += _summed(cluster[~present], (lower - value) / len(lower), patients)
    return Score(value, influence)


def placements(scores: Floats, others: Floats) -> Floats:
    """Return, for each score, the share of ``others`` below it; a tie counts as half.

    >>> placements(np.array([0.5, 0.9]), np.array([0.1, 0.5])).tolist()
    [0.75, 1.0]
    """
    ordered = np.sort(others)
    below = np.searchsorted(ordered, scores, "left") + np.searchsorted(ordered, scores, "right")
    return np.asarray(below / 2 / len(others), np.float64)


def mean(scores: list[Score], patients: int) -> Score:
    """Return the unweighted mean of scores; NaN if a score is NaN or the list is empty."""
    if not scores:
        return Score(np.nan, np.zeros(patients))
    influence: Floats = np.mean([score.influence for score in scores], axis=0)
    return Score(float(np.mean([score.value for score in scores])), influence)


def difference(first: Score, second: Score) -> Estimate:
    """Return the first score minus the second, with an interval that is symmetric around the difference."""
    value = first.value - second.value
    reach = _reach(first.influence - second.influence)
    if not np.isfinite(value) or reach is None:
        return Estimate(value if np.isfinite(value) else None, None, None)
    return Estimate(value, value - reach, value + reach)


def estimate(score: Score) -> Estimate:
    """Return a score from 0 to 1 with its interval; a score of exactly 0 or 1 has no interval."""
    value, reach = score.value, _reach(score.influence)
    if not np.isfinite(value) or reach is None or not 0 < value < 1:
        return Estimate(value if np.isfinite(value) else None, None, None)
    middle, half = float(special.logit(value)), reach / (value * (1 - value))
    return Estimate(value, float(special.expit(middle - half)), float(special.expit(middle + half)))


def _reach(influence: Floats) -> float | None:
    """Return half the width of an interval; None if fewer than :data:`LEAST` patients influence the score."""
    counted = int(np.count_nonzero(influence))
    if counted < LEAST:
        return None
    error = float(np.sqrt(counted / (counted - 1) * (influence**2).sum()))
    return -float(special.stdtrit(counted - 1, TAIL)) * error
