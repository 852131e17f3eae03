"""What is drawn over a radiograph: outlines, coloured points, the grid with its labels.

Pictures are ``(H, W, 3)`` RGB uint8 at the size of the working image; only lines and points are drawn, so that the
lesion stays visible. Every outline goes through the same smoothing, so that its texture tells nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

import cv2
import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]
Image = npt.NDArray[np.uint8]

GRID = 8
OUTLINE_RGB = (0, 255, 255)
POINT_RGB = {
    "red": (225, 20, 30),
    "orange": (255, 135, 0),
    "yellow": (255, 230, 0),
    "green": (0, 150, 50),
    "blue": (20, 70, 255),
    "purple": (125, 20, 185),
    "pink": (255, 125, 195),
    "brown": (125, 70, 25),
}
_SHIFT = 4  # cv2 draws at sixteenths of a pixel


def cell_edges(length: int) -> list[int]:
    """The nine edges of the grid's cells along a side of ``length`` pixels: ``round(i * length / 8)``."""
    return [round(i * length / GRID) for i in range(GRID + 1)]


def smooth_outlines(mask: Mask, max_shift: float = 2.0) -> list[npt.NDArray[np.float64]]:
    """The borders of a mask as closed lines ``(N, 2)`` of x, y, smoothed by at most ``max_shift`` px (Hausdorff).

    Every vertex, one a border pixel, moves towards the mean of its neighbourhood and never farther than the bound.
    """
    contours, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
    return [_smooth(contour.reshape(-1, 2).astype(float), max_shift) for contour in contours]


def _smooth(line: npt.NDArray[np.float64], max_shift: float) -> npt.NDArray[np.float64]:
    count = len(line)
    radius = min(8, (count - 1) // 4)
    if radius < 1:
        return line
    offsets = np.arange(-radius, radius + 1)
    weights = np.exp(-0.5 * (offsets / (radius / 2)) ** 2)
    weights /= weights.sum()
    indices = (np.arange(count)[:, None] + offsets[None, :]) % count
    shift = np.einsum("nkd,k->nd", line[indices], weights) - line
    length = np.hypot(shift[:, 0], shift[:, 1])
    scale = np.minimum(1, max_shift / np.maximum(length, 1e-9))
    return np.asarray(line + shift * scale[:, None])


def to_rgb(image: Image) -> Image:
    """A grey picture ``(H, W)`` as RGB."""
    return np.repeat(image[:, :, None], 3, axis=2)


def draw_outline(image: Image, mask: Mask) -> Image:
    """A copy of a grey picture ``(H, W)`` with the mask's outline in cyan, about 2 px wide at 1024."""
    canvas = to_rgb(image)
    width = max(1, round(max(image.shape) / 450))
    lines = [np.round(line * (1 << _SHIFT)).astype(np.int32) for line in smooth_outlines(mask)]
    cv2.polylines(canvas, lines, True, OUTLINE_RGB, width, cv2.LINE_AA, _SHIFT)
    return canvas


def draw_points(image: Image, points: Iterable[tuple[tuple[int, int], str]]) -> Image:
    """A copy of an RGB picture with a disc of each ``(xy, colour name)``, in a white rim with a thin dark edge."""
    canvas = image.copy()
    radius = max(4, round(max(image.shape[:2]) / 105))
    rim = max(2, round(radius / 3.5))
    for (x, y), color in points:
        for size, rgb in ((radius + rim + 1, (0, 0, 0)), (radius + rim, (255, 255, 255)), (radius, POINT_RGB[color])):
            cv2.circle(canvas, (x, y), size, rgb, -1, cv2.LINE_AA)
    return canvas


def draw_grid(image: Image) -> Image:
    """A copy of a grey picture ``(H, W)`` with the grid: columns A to H along the top, rows 1 to 8 at the left."""
    height, width = image.shape
    canvas = to_rgb(image)
    rows, columns = cell_edges(height), cell_edges(width)
    for shade, thickness in ((0, 3), (255, 1)):
        for x in columns[1:-1]:
            cv2.line(canvas, (x, 0), (x, height - 1), (shade,) * 3, thickness)
        for y in rows[1:-1]:
            cv2.line(canvas, (0, y), (width - 1, y), (shade,) * 3, thickness)
    for index in range(GRID):
        _label(canvas, "ABCDEFGH"[index], ((columns[index] + columns[index + 1]) // 2, rows[1] // 5))
        _label(canvas, str(index + 1), (columns[1] // 6, (rows[index] + rows[index + 1]) // 2))
    return canvas


def _label(canvas: Image, text: str, center_xy: tuple[int, int]) -> None:
    """White letters with a black edge, readable over dark and bright ground."""
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
