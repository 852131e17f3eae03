"""Grid over a radiograph: 8 x 8 cells, numbered 1 to 64 by row; A1 is 1, B1 is 2 and H8 is 64.

The cells and the rule for a hit are those of Beyond Diagnosis (arXiv 2509.18015).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import cv2
import numpy as np
import numpy.typing as npt

from chexqa.imaging.overlays import Image, draw_label, to_rgb

Mask = npt.NDArray[np.bool_]

GRID_SIZE = 8
CELL_NAMES = tuple(f"{column}{row}" for row in range(1, GRID_SIZE + 1) for column in "ABCDEFGH")
# The covered share at which a cell is a hit, as published; a recipe may set another share.
HIT_SHARE = 0.5


def cell_edges(length: int) -> list[int]:
    """Return the nine borders of the eight cells along a side of ``length`` pixels: ``round(i * length / 8)``."""
    return [round(i * length / GRID_SIZE) for i in range(GRID_SIZE + 1)]


def coverage(mask: Mask) -> list[float]:
    """Return the share of each cell that a mask ``(H, W)`` covers, in the order of cell numbers.

    The share of a cell without pixels, as in a picture less than eight pixels wide, is 0.

    >>> mask = np.zeros((16, 16), bool)
    >>> mask[:2, :1] = True
    >>> coverage(mask)[:2]
    [0.5, 0.0]
    """
    height, width = mask.shape
    rows, columns = cell_edges(height), cell_edges(width)
    shares = []
    for top, bottom in itertools.pairwise(rows):
        for left, right in itertools.pairwise(columns):
            cell = mask[top:bottom, left:right]
            shares.append(float(np.count_nonzero(cell)) / cell.size if cell.size else 0.0)
    return shares


def hits(shares: Sequence[float], hit_share: float) -> tuple[int, ...]:
    """Return the numbers of the cells (from 1) whose covered share is at least ``hit_share``.

    >>> hits([0.5, 0.0, 0.49], 0.5)
    (1,)
    """
    return tuple(number for number, value in enumerate(shares, start=1) if value >= hit_share)


def cells_at(rows: npt.NDArray[np.integer], columns: npt.NDArray[np.integer], shape: tuple[int, int]
             ) -> npt.NDArray[np.intp]:  # fmt: skip
    """Return the cell number of each pixel ``(rows, columns)`` in a picture of ``shape`` ``(H, W)``."""
    down = np.searchsorted(cell_edges(shape[0])[1:-1], rows, side="right")
    across = np.searchsorted(cell_edges(shape[1])[1:-1], columns, side="right")
    return np.asarray(down * GRID_SIZE + across + 1)


def draw_grid(image: Image) -> Image:
    """Return an RGB copy of a grey picture ``(H, W)`` with the grid's lines, the column letters A to H along the upper
    edge, and the row numbers 1 to 8 along the left edge.
    """
    height, width = image.shape
    canvas = to_rgb(image)
    rows, columns = cell_edges(height), cell_edges(width)
    for shade, thickness in ((0, 3), (255, 1)):
        for x in columns[1:-1]:
            cv2.line(canvas, (x, 0), (x, height - 1), (shade,) * 3, thickness)
        for y in rows[1:-1]:
            cv2.line(canvas, (0, y), (width - 1, y), (shade,) * 3, thickness)
    for index in range(GRID_SIZE):
        draw_label(canvas, "ABCDEFGH"[index], ((columns[index] + columns[index + 1]) // 2, rows[1] // 5))
        draw_label(canvas, str(index + 1), (columns[1] // 6, (rows[index] + rows[index + 1]) // 2))
    return canvas
