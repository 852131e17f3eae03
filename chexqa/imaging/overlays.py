"""Overlays of a radiograph: outlines, coloured points, the grid with its labels.

Pictures are ``(H, W, 3)`` RGB uint8 at the size of the working image. Only lines and points are drawn, so the lesion
stays visible. Every outline is smoothed and then drawn with random deviations, so its texture does not reveal edits.
"""

from __future__ import annotations

from collections.abc import Iterable

import cv2
import numpy as np
import numpy.typing as npt

from chexqa.imaging.colors import POINT_RGB

Mask = npt.NDArray[np.bool_]
Image = npt.NDArray[np.uint8]
Line = npt.NDArray[np.float64]

GRID_SIZE = 8
OUTLINE_RGB = (0, 255, 255)
MAX_SHIFT = 2.0  # largest distance in pixels of a drawn outline from its mask's border
_SHIFT = 4  # cv2 draws at sixteenths of a pixel
_REACH = 8  # pixels of the line on either side over which it is smoothed
# Random deviation: range of its standard deviation (drawn for each picture), and its scale along the line.
_STRAY = 0.4, 1.6
_STRAY_SCALE = 2.0


def cell_edges(length: int) -> list[int]:
    """Return the nine edges of the grid's cells along a side of ``length`` pixels: ``round(i * length / 8)``."""
    return [round(i * length / GRID_SIZE) for i in range(GRID_SIZE + 1)]


def smooth_outlines(mask: Mask) -> list[Line]:
    """Return the borders of a mask as closed lines ``(N, 2)`` of x, y, smoothed by at most 2 px (Hausdorff).

    Lines have one vertex for each border pixel. Each moves towards the mean of its neighbourhood, up to the bound.
    """
    return [_bounded(border, _smooth(border)) for border in _borders(mask)]


def hand_drawn(mask: Mask, rng: np.random.Generator) -> list[Line]:
    """Return smooth outlines with random deviations, as drawn by hand, within 2 px (Hausdorff) of the mask's borders.

    The size of the deviations varies between pictures, by more than the texture that smoothing leaves of a border.
    Neither the roughness nor the length of an outline therefore reveals whether it was edited.
    """
    stray = rng.uniform(*_STRAY)
    return [_bounded(border, _stray(_smooth(border), stray, rng)) for border in _borders(mask)]


def _borders(mask: Mask) -> list[Line]:
    contours, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
    return [contour.reshape(-1, 2).astype(float) for contour in contours]


def _bounded(border: Line, line: Line) -> Line:
    """Return the line with each vertex moved to within the bound of its border vertex."""
    shift = line - border
    far = np.hypot(shift[:, 0], shift[:, 1])
    return np.asarray(border + shift * np.minimum(1, MAX_SHIFT / np.maximum(far, 1e-9))[:, None])


def _radius(line: Line) -> int:
    """Return the number of vertices on either side used for smoothing a closed line; fewer for a short line."""
    return min(_REACH, (len(line) - 1) // 4)


def _smooth(line: Line) -> Line:
    radius = _radius(line)
    return line if radius < 1 else _blurred(line, radius / 2, radius)


def _blurred(values: Line, scale: float, radius: int) -> Line:
    """Average each column of ``(N, K)`` values along a closed line with Gaussian weights."""
    weights = np.exp(-0.5 * (np.arange(-radius, radius + 1) / scale) ** 2)
    weights /= weights.sum()
    around = np.concatenate([values[-radius:], values, values[:radius]])
    return np.stack([np.convolve(column, weights, "valid") for column in around.T], axis=1)


def _stray(line: Line, far: float, rng: np.random.Generator) -> Line:
    """Move a line sideways by a smooth random amount (standard deviation ``far``, less for a short line)."""
    radius = _radius(line)
    if radius < 1:
        return line
    noise = _blurred(rng.standard_normal((len(line), 1)), _STRAY_SCALE, radius)
    # Restore the standard deviation of white noise that blurring reduces.
    noise *= far * radius / _REACH * np.sqrt(2 * np.sqrt(np.pi) * _STRAY_SCALE)
    along = np.roll(line, -2, axis=0) - np.roll(line, 2, axis=0)
    across = np.stack([-along[:, 1], along[:, 0]], axis=1)
    return np.asarray(line + noise * across / np.maximum(np.hypot(*along.T), 1e-9)[:, None])


def to_rgb(image: Image) -> Image:
    """Return a grey picture ``(H, W)`` as RGB."""
    return np.asarray(cv2.cvtColor(image, cv2.COLOR_GRAY2RGB), np.uint8)


def draw_outline(image: Image, lines: Iterable[Line]) -> Image:
    """Return a copy of a grey picture ``(H, W)`` with closed lines of x, y in cyan, about 2 px wide at 1024."""
    canvas = to_rgb(image)
    width = max(1, round(max(image.shape) / 450))
    rounded = [np.round(line * (1 << _SHIFT)).astype(np.int32) for line in lines]
    cv2.polylines(canvas, rounded, True, OUTLINE_RGB, width, cv2.LINE_AA, _SHIFT)
    return canvas


def draw_points(image: Image, points: Iterable[tuple[tuple[int, int], str]]) -> Image:
    """Return a copy of an RGB picture with a disc for each ``(xy, colour name)``, in a white rim with a dark edge."""
    canvas = image.copy()
    radius = max(4, round(max(image.shape[:2]) / 105))
    rim = max(2, round(radius / 3.5))
    for (x, y), color in points:
        for size, rgb in ((radius + rim + 1, (0, 0, 0)), (radius + rim, (255, 255, 255)), (radius, POINT_RGB[color])):
            cv2.circle(canvas, (x, y), size, rgb, -1, cv2.LINE_AA)
    return canvas


def draw_grid(image: Image) -> Image:
    """Return a copy of a grey picture ``(H, W)`` with the grid: columns A to H along the top, rows 1 to 8 at left."""
    height, width = image.shape
    canvas = to_rgb(image)
    rows, columns = cell_edges(height), cell_edges(width)
    for shade, thickness in ((0, 3), (255, 1)):
        for x in columns[1:-1]:
            cv2.line(canvas, (x, 0), (x, height - 1), (shade,) * 3, thickness)
        for y in rows[1:-1]:
            cv2.line(canvas, (0, y), (width - 1, y), (shade,) * 3, thickness)
    for index in range(GRID_SIZE):
        _label(canvas, "ABCDEFGH"[index], ((columns[index] + columns[index + 1]) // 2, rows[1] // 5))
        _label(canvas, str(index + 1), (columns[1] // 6, (rows[index] + rows[index + 1]) // 2))
    return canvas


def _label(canvas: Image, text: str, center_xy: tuple[int, int]) -> None:
    """Draw white letters with a black edge, readable on dark and bright ground."""
    scale = max(canvas.shape[:2]) / 1024
    (width, height), _ = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, scale, 1)
    origin = center_xy[0] - width // 2, center_xy[1] + height // 2
    for shade, thickness in ((0, round(7 * scale)), (255, max(1, round(2.4 * scale)))):
        cv2.putText(
            canvas,
            text,
            origin,
            cv2.FONT_HERSHEY_SIMPLEX,
            scale,
            (shade,) * 3,
            max(2, thickness) if shade == 0 else thickness,
            cv2.LINE_AA,
        )
