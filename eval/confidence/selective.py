"""Separation of right from wrong answers by their confidence, and the choice of answers to leave to a reader."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from chexqa.stats import TAIL

# Fewest right and fewest wrong answers for an area under the ROC curve.
LEAST = 15
# Largest share of wrong answers among those that are not handed to a reader.
ERRORS = 0.2
FOLDS = 5
Floats = npt.NDArray[np.floating]
Ints = npt.NDArray[np.integer]
Bools = npt.NDArray[np.bool_]


class Area(NamedTuple):
    """Area under the ROC curve, with the ends of its 95 % interval; NaN if it cannot be computed."""

    value: float
    low: float
    high: float


def auroc(confidence: Floats, right: Bools, cluster: Ints) -> Area:
    """Return the probability that a right answer has a higher confidence than a wrong one; a tie counts one half.

    All arguments have the shape ``(N,)``; ``cluster`` is the index of the patient. Fewer than :data:`LEAST` right or
    wrong answers give NaN.
    """
    # The variance sums each patient's structural components (Obuchowski, Biometrics 1997). The interval is computed on
    # the logit scale with a t quantile.
    nothing = Area(np.nan, np.nan, np.nan)
    yes, no = confidence[right], confidence[~right]
    if min(yes.size, no.size) < LEAST:
        return nothing
    above, below = _placements(yes, no), 1 - _placements(no, yes)
    value = float(above.mean())
    parts = np.zeros(right.size)
    parts[right], parts[~right] = (above - value) / yes.size, (below - value) / no.size
    _, patients = np.unique(cluster, return_inverse=True)
    sums = np.bincount(patients, parts)
    if sums.size < 2 or not 0 < value < 1:
        return Area(value, np.nan, np.nan)
    error = np.sqrt((sums**2).sum() * sums.size / (sums.size - 1)) / (value * (1 - value))
    distance = -special.stdtrit(sums.size - 1, TAIL) * error
    low, high = special.expit(special.logit(value) + np.array([-distance, distance]))
    return Area(value, float(low), float(high))


def _placements(own: Floats, others: Floats) -> Floats:
    """Return the share of ``others`` below each value of ``own``; an equal value counts one half."""
    ranks = stats.rankdata(np.concatenate([own, others]))[: own.size] - stats.rankdata(own)
    placed: Floats = ranks / others.size
    return placed


class Curve(NamedTuple):
    """Curve of risk against coverage, as arrays ``(K,)`` for K distinct confidences from the highest to the lowest.

    - ``threshold``: the confidence.
    - ``coverage``: the share of answers with at least this confidence.
    - ``risk``: the share of wrong answers among these.
    """

    threshold: Floats
    coverage: Floats
    risk: Floats


def risk_coverage(confidence: Floats, right: Floats, weight: Floats) -> Curve:
    """Return the curve of risk against coverage; all arguments have the shape ``(N,)``."""
    thresholds, where = np.unique(-confidence, return_inverse=True)
    kept = np.cumsum(np.bincount(where, weight, thresholds.size))
    wrong = np.cumsum(np.bincount(where, weight * (1 - right), thresholds.size))
    return Curve(-thresholds, kept / max(float(weight.sum()), 1e-12), wrong / np.maximum(kept, 1e-12))


def area(curve: Curve) -> float:
    """Return the area under the curve, which is the mean risk over all coverages; lower is better, NaN without answers.

    Confidences without information have an area equal to the share of wrong answers.
    """
    if not curve.coverage.size:
        return float("nan")
    start = np.concatenate([[0.0], curve.coverage[:-1]])
    before = np.concatenate([[0.0], (curve.coverage * curve.risk)[:-1]])
    # Answers of equal confidence are taken in random order, so wrong answers grow linearly between two points.
    step = curve.coverage - start
    slope = (curve.coverage * curve.risk - before) / step
    # Integral of (before + slope * (x - start)) / x from start to coverage.
    logs = np.where(start > 0, np.log(np.divide(curve.coverage, start, where=start > 0, out=np.ones_like(start))), 0.0)
    return float((slope * step + (before - slope * start) * logs).sum() / curve.coverage[-1])


class Handed(NamedTuple):
    """Result of handing answers to a human reader.

    - ``share``: the share of all answers that are handed to the reader.
    - ``errors``: the share of the kept answers that are wrong; NaN if no answer is kept.
    """

    share: float
    errors: float


def handed_over(confidence: Floats, right: Floats, weight: Floats, cluster: Ints) -> Handed:
    """Return how many answers are handed to a reader if at most one in five of the kept answers may be wrong.

    An answer is handed over if its confidence is below a threshold, or NaN. An answer's threshold is
    chosen on the answers of other patients.
    All arguments have the shape ``(N,)``.
    """
    # The patients are divided into FOLDS parts. The threshold for a part is chosen on the other parts: the lowest one
    # with a share of wrong answers of at most ERRORS.
    kept = np.zeros(confidence.size, bool)
    stated = ~np.isnan(confidence)
    for fold in range(FOLDS):
        own = cluster % FOLDS == fold
        others = stated & ~own
        curve = risk_coverage(confidence[others], right[others], weight[others])
        enough = np.flatnonzero(curve.risk <= ERRORS)
        if enough.size:
            kept |= own & stated & (confidence >= curve.threshold[enough[-1]])
    total, rest = float(weight.sum()), float(weight[kept].sum())
    if not total:
        return Handed(np.nan, np.nan)
    wrong = float((weight * (1 - right))[kept].sum())
    return Handed(1 - rest / total, wrong / rest if rest else np.nan)
