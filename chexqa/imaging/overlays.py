"""Overlays of a radiograph: outlines, coloured points, the grid with its labels.

Pictures are ``(H, W, 3)`` RGB uint8 at the size of the working image. Only lines and points are drawn, so the lesion
stays visible. :mod:`chexqa.imaging.hand_drawn` makes the lines of outlines.
"""

from __future__ import annotations

from collections.abc import Iterable

import cv2
import numpy as np
import numpy.typing as npt

from chexqa.imaging.colors import POINT_RGB
from chexqa.imaging.hand_drawn import Line

Image = npt.NDArray[np.uint8]

GRID_SIZE = 8
OUTLINE_RGB = (0, 255, 255)
_SHIFT = 4  # cv2 draws at sixteenths of a pixel


def cell_edges(length: int) -> list[int]:
    """Return the nine edges of the grid's cells along a side of ``length`` pixels: ``round(i * length / 8)``."""
    return [round(i * length / GRID_SIZE) for i in range(GRID_SIZE + 1)]


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
