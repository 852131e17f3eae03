"""Calibration of confidences: the Brier score with its parts, and the expected calibration error.

Confidences are grouped into ten bins of equal width.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

BINS = 10
DRAWS = 200
Floats = npt.NDArray[np.floating]
Ints = npt.NDArray[np.integer]


class Bins(NamedTuple):
    """The K bins that have answers, as arrays ``(K,)``.

    - ``number``: the index of the bin, 0 to 9.
    - ``weight``: the total weight of its answers.
    - ``confidence``: their mean confidence.
    - ``right``: the share of right answers.
    """

    number: Ints
    weight: Floats
    confidence: Floats
    right: Floats


def bin_of(confidence: Floats) -> Ints:
    """Return the index (0 to 9) of the bin that a confidence belongs to, for an array of confidences.

    >>> bin_of(np.array([0.0, 0.1, 0.95, 1.0])).tolist()
    [0, 1, 9, 9]
    """
    # A percentage such as 70 % may be slightly too small as a fraction; the 1e-9 keeps it in the bin that begins there.
    place: Ints = np.minimum(np.floor(confidence * BINS + 1e-9), BINS - 1).astype(np.intp)
    return place


def bins(confidence: Floats, right: Floats, weight: Floats) -> Bins:
    """Sort N answers into bins and return the bins that are not empty; all arguments have the shape ``(N,)``.

    ``right`` is 1 for a right answer and 0 for a wrong one; values between them are possible.
    """
    where = bin_of(confidence)
    total = np.bincount(where, weight, BINS)
    held = np.flatnonzero(total)
    means = [np.bincount(where, weight * values, BINS)[held] / total[held] for values in (confidence, right)]
    return Bins(held, np.asarray(total[held]), means[0], means[1])


class Calibration(NamedTuple):
    """The three parts of the Brier score, and the expected calibration error; all from 0 to 1.

    - ``reliability``: the mean square of ``confidence - share of right answers`` in the bins; 0 is best.
    - ``resolution``: the variance of the share of right answers between the bins.
    - ``uncertainty``: ``p * (1 - p)``; p is the share of right answers.
    - ``error``: the mean distance between confidence and share of right answers in the bins.
    """

    reliability: float
    resolution: float
    uncertainty: float
    error: float


def calibration(filled: Bins) -> Calibration:
    """Return the calibration of the answers in the bins ``filled``; NaN if there are no bins."""
    if not filled.weight.size:
        return Calibration(*[float("nan")] * 4)
    share = filled.weight / filled.weight.sum()
    overall = float(share @ filled.right)
    gap = filled.confidence - filled.right
    return Calibration(
        float(share @ gap**2), float(share @ (filled.right - overall) ** 2), overall * (1 - overall),
        float(share @ np.abs(gap)),
    )  # fmt: skip


def chance_error(confidence: Floats, weight: Floats, seed: int = 0) -> float:
    """Return the calibration error that a perfectly calibrated model would have by chance; NaN without answers.

    ``confidence`` and ``weight`` have the shape ``(N,)``.
    """
    # The mean over simulated sets of answers. In them, an answer is right with a probability equal to its confidence.
    if not confidence.size:
        return float("nan")
    where, rng = bin_of(confidence), np.random.default_rng(seed)
    total = weight.sum()
    errors = []
    for _ in range(DRAWS):
        gap = weight * (confidence - (rng.random(confidence.size) < confidence))
        errors.append(np.abs(np.bincount(where, gap, BINS)).sum() / total)
    return float(np.mean(errors))
