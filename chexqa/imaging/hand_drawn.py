"""Outlines that look drawn by hand: the smoothed borders of a mask with random deviations.

All outlines have deviations, edited or not, so that the smoothness of an outline does not reveal an edit. A line is
closed: an array ``(N, 2)`` of its N vertices x, y in pixels of the working image.
"""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]
Line = npt.NDArray[np.float64]

MAX_SHIFT = 2.0  # largest distance in pixels of a drawn outline from its mask's border
_REACH = 8  # number of neighbours on either side of a vertex over which a line is smoothed
# Random deviation: the range of its standard deviation (drawn for each picture), and its length along the line.
_STRAY = 0.4, 1.6
_STRAY_SCALE = 2.0


def smooth_outlines(mask: Mask) -> list[Line]:
    """Return the borders of a mask as smoothed closed lines, at most 2 px from the borders (Hausdorff distance).

    A line has one vertex for each border pixel. Smoothing moves each vertex towards the mean of its neighbours, by at
    most 2 px.
    """
    return [_bounded(border, _smooth(border)) for border in _borders(mask)]


def hand_drawn(mask: Mask, rng: np.random.Generator) -> list[Line]:
    """Return the borders of a mask as if drawn by hand: smoothed, then randomly displaced.

    The result is at most 2 px from the mask's borders (Hausdorff distance).
    """
    # The size of the displacements differs between pictures, by more than the roughness that an edit adds to a border.
    # Neither the roughness nor the length of an outline therefore shows that it was edited.
    stray = rng.uniform(*_STRAY)
    return [_bounded(border, _stray(_smooth(border), stray, rng)) for border in _borders(mask)]


def _borders(mask: Mask) -> list[Line]:
    contours, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
    return [contour.reshape(-1, 2).astype(float) for contour in contours]


def _bounded(border: Line, line: Line) -> Line:
    """Return ``line`` with each vertex moved to within :data:`MAX_SHIFT` px of the same vertex of ``border``."""
    shift = line - border
    far = np.hypot(shift[:, 0], shift[:, 1])
    return np.asarray(border + shift * np.minimum(1, MAX_SHIFT / np.maximum(far, 1e-9))[:, None])


def _radius(line: Line) -> int:
    """Return how many neighbours on each side of a vertex are used to smooth it; a short line has fewer."""
    return min(_REACH, (len(line) - 1) // 4)


def _smooth(line: Line) -> Line:
    radius = _radius(line)
    return line if radius < 1 else _blurred(line, radius / 2, radius)


def _blurred(values: Line, scale: float, radius: int) -> Line:
    """Smooth values along a closed line with Gaussian weights; ``values`` has a row for each of the line's vertices."""
    weights = np.exp(-0.5 * (np.arange(-radius, radius + 1) / scale) ** 2)
    weights /= weights.sum()
    around = np.concatenate([values[-radius:], values, values[:radius]])
    return np.stack([np.convolve(column, weights, "valid") for column in around.T], axis=1)


def _stray(line: Line, far: float, rng: np.random.Generator) -> Line:
    """Move a line's vertices sideways by smooth random distances.

    The standard deviation of the distances is ``far`` px; it is smaller for a short line.
    """
    radius = _radius(line)
    if radius < 1:
        return line
    noise = _blurred(rng.standard_normal((len(line), 1)), _STRAY_SCALE, radius)
    # Restore the standard deviation of white noise that blurring reduces.
    noise *= far * radius / _REACH * np.sqrt(2 * np.sqrt(np.pi) * _STRAY_SCALE)
    along = np.roll(line, -2, axis=0) - np.roll(line, 2, axis=0)
    across = np.stack([-along[:, 1], along[:, 0]], axis=1)
    return np.asarray(line + noise * across / np.maximum(np.hypot(*along.T), 1e-9)[:, None])
