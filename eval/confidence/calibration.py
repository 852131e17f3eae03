"""Calibration of confidences: the Brier score with its parts, and the expected calibration error.

Confidences are grouped into ten bins of equal width. A bin has a mean confidence c and a share y of right answers:

- Its reliability term is the square of c - y.
- Its resolution term is the square of y - y', where y' is the share of right answers in all bins together.
- Its calibration error is the distance between c and y.

Each term is weighted by the bin's share of the answers. In a finite sample, the expected calibration error is above 0
even for a perfectly calibrated model; :func:`chance_error` computes this value.
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
    """The K bins that have answers: each bin's index, total weight, mean confidence and share of right answers.

    All fields have the shape ``(K,)``.
    """

    number: Ints
    weight: Floats
    confidence: Floats
    right: Floats


def bin_of(confidence: Floats) -> Ints:
    """Return the index of each confidence's bin, 0 to 9; 1.0 belongs to the last bin.

    >>> bin_of(np.array([0.0, 0.1, 0.95, 1.0])).tolist()
    [0, 1, 9, 9]
    """
    # A percentage such as 70 % may be slightly too small as a fraction; the 1e-9 keeps it in the bin that begins there.
    place: Ints = np.minimum(np.floor(confidence * BINS + 1e-9), BINS - 1).astype(np.intp)
    return place


def bins(confidence: Floats, right: Floats, weight: Floats) -> Bins:
    """Sort N answers into bins and return the bins that are not empty; all arguments have the shape ``(N,)``.

    ``right`` is 1 for a right answer, 0 for a wrong one, and can lie between them.
    """
    where = bin_of(confidence)
    total = np.bincount(where, weight, BINS)
    held = np.flatnonzero(total)
    means = [np.bincount(where, weight * values, BINS)[held] / total[held] for values in (confidence, right)]
    return Bins(held, np.asarray(total[held]), means[0], means[1])


class Calibration(NamedTuple):
    """The three parts of the Brier score, and the expected calibration error (``error``); each from 0 to 1."""

    reliability: float
    resolution: float
    uncertainty: float
    error: float


def calibration(held: Bins) -> Calibration:
    """Return the calibration of the answers in the bins ``held``; NaN if there are no bins."""
    if not held.weight.size:
        return Calibration(*[float("nan")] * 4)
    share = held.weight / held.weight.sum()
    overall = float(share @ held.right)
    gap = held.confidence - held.right
    return Calibration(
        float(share @ gap**2), float(share @ (held.right - overall) ** 2), overall * (1 - overall),
        float(share @ np.abs(gap)),
    )  # fmt: skip


def chance_error(confidence: Floats, weight: Floats, seed: int = 0) -> float:
    """Return the expected calibration error of a perfectly calibrated model with these confidences ``(N,)``.

    The result is the mean over 200 simulated sets of answers. In them, an answer is right with a probability that
    equals its confidence.
    """
    if not confidence.size:
        return float("nan")
    where, rng = bin_of(confidence), np.random.default_rng(seed)
    total = weight.sum()
    errors = []
    for _ in range(DRAWS):
        gap = weight * (confidence - (rng.random(confidence.size) < confidence))
        errors.append(np.abs(np.bincount(where, gap, BINS)).sum() / total)
    return float(np.mean(errors))
