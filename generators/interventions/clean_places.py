"""Clean places: places in lung, away from every finding, for a patch with a lesion's shape and size.

The place is searched among all shifts of the shape and of its mirror image. The place whose rim is most like the rim of
the lesion's own patch is chosen. The two filled pictures then differ only in the place that is filled.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from chexqa.generators.interventions.fills import RIM, grown, scaled
from chexqa.imaging.masks import window

Gray = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float32]
LEAST_IN_LUNG = 0.9  # share of a clean place that must lie in lung
_COARSE = 4  # the search looks at every fourth pixel
_TRIES = 12  # how many of the best coarse places are checked pixel by pixel
_TONE = 8.0  # grey levels that count as much as one unit of distance
_FAR = 0.25  # the share of the longer side that counts as one unit of distance


class _Candidate(NamedTuple):
    cost: float
    mirrored: bool
    top: int
    left: int


def clean_place(image: Gray, patch: Mask, lungs: Mask, taken: Mask) -> Mask | None:
    """Return a mask ``(H, W)`` with the shape and size of ``patch``, in lung and away from findings.

    Return None without a place.

    ``image`` is the radiograph, ``lungs`` the lung pixels, and ``taken`` the pixels of all findings in the radiograph.
    At least the share :data:`LEAST_IN_LUNG` of the place lies in ``lungs``. All its pixels are more than a rim's width
    from ``taken``.
    """
    reach = scaled(RIM, image.shape)
    rows, columns = window(patch)
    shape = patch[rows, columns]
    barred = grown(taken | patch, reach)
    for found in _candidates(image, patch, lungs, barred, reach):
        piece = shape[:, ::-1] if found.mirrored else shape
        place = np.zeros_like(patch)
        place[found.top : found.top + piece.shape[0], found.left : found.left + piece.shape[1]] = piece
        if not (place & barred).any() and np.count_nonzero(place & lungs) >= LEAST_IN_LUNG * np.count_nonzero(piece):
            return place
    return None


def _candidates(image: Gray, patch: Mask, lungs: Mask, barred: Mask, reach: int) -> Iterator[_Candidate]:
    """Yield possible places of the shape; the place whose rim is most like the lesion's comes first."""
    rows, columns = window(patch)
    shape = patch[rows, columns]
    here = _rim_tone(image, patch, reach)
    found: list[_Candidate] = []
    for mirrored in (False, True):
        piece = shape[:, ::-1] if mirrored else shape
        costs = _costs(image, piece, lungs, barred, reach, here, float(rows.start))
        for flat in np.argsort(costs, axis=None, kind="stable")[:_TRIES]:
            top, left = (int(value) for value in np.unravel_index(int(flat), costs.shape))
            if np.isfinite(costs[top, left]):
                found.append(_Candidate(float(costs[top, left]), mirrored, top * _COARSE, left * _COARSE))
    yield from sorted(found)


def _rim_tone(image: Gray, patch: Mask, reach: int) -> tuple[float, float]:
    """Return the mean and the standard deviation of the grey levels in the rim around a patch."""
    rim = image[grown(patch, reach) & ~patch].astype(np.float32)
    return (float(rim.mean()), float(rim.std())) if rim.size else (0.0, 0.0)


def _costs(
    image: Gray, piece: Mask, lungs: Mask, barred: Mask, reach: int, tone: tuple[float, float], top: float
) -> npt.NDArray[np.float64]:
    """Return the cost of every coarse place of a shape, infinite where the shape does not fit."""
    height, width = piece.shape
    blank = np.full((1, 1), np.inf)
    if height > image.shape[0] or width > image.shape[1]:
        return blank
    shape = _shrunk(np.pad(piece, ((0, -height % _COARSE), (0, -width % _COARSE))))
    small, lung, bar = _shrunk(image), _shrunk(lungs), _shrunk(barred)
    if shape.shape[0] > small.shape[0] or shape.shape[1] > small.shape[1] or shape.sum() < 1:
        return blank
    fits = (_sums(bar, shape) < 0.5) & (_sums(lung, shape) >= (LEAST_IN_LUNG - 0.02) * float(shape.sum()))
    if not fits.any():
        return blank
    margin = max(1, round(reach / _COARSE))
    inner = np.pad(shape, margin)
    ring = (cv2.dilate(inner, np.ones((2 * margin + 1, 2 * margin + 1), np.uint8)) > 0) & (inner < 0.5)
    weights = np.asarray(ring / max(int(np.count_nonzero(ring)), 1), np.float32)
    padded = np.asarray(cv2.copyMakeBorder(small, margin, margin, margin, margin, cv2.BORDER_REPLICATE), np.float32)
    mean = _sums(padded, weights)
    spread = np.sqrt(np.maximum(_sums(padded**2, weights) - mean**2, 0))
    down = (np.arange(fits.shape[0]) * _COARSE - top)[:, None] / (_FAR * max(image.shape))
    cost = ((mean - tone[0]) / _TONE) ** 2 + ((spread - tone[1]) / _TONE) ** 2 + down**2
    return np.asarray(np.where(fits, cost, np.inf), np.float64)


def _shrunk(array: npt.NDArray[np.generic]) -> Floats:
    """Return means over squares of 4 x 4 px as float32; rows and columns that fill no square are left out."""
    rows, columns = (size - size % _COARSE for size in array.shape)
    whole = array[:rows, :columns].astype(np.float32)
    return np.asarray(whole.reshape(rows // _COARSE, _COARSE, columns // _COARSE, _COARSE).mean((1, 3)), np.float32)


def _sums(picture: Floats, weights: Floats) -> npt.NDArray[np.float64]:
    """Return the weighted sum of the picture's pixels at every place where the array of weights fits in."""
    return np.asarray(cv2.matchTemplate(picture, weights.astype(np.float32), cv2.TM_CCORR), np.float64)
