"""The grid over a radiograph: 8 x 8 cells, numbered 1 to 64 by row, so that A1 is 1, B1 is 2 and H8 is 64.

Cells and the rule of a hit are those of Beyond Diagnosis (arXiv 2509.18015).
"""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from chexqa.imaging.overlays import GRID, cell_edges

Mask = npt.NDArray[np.bool_]

CELLS = tuple(f"{column}{row}" for row in range(1, GRID + 1) for column in "ABCDEFGH")
# The published rule; a recipe may set another share for a benchmark's own items.
HIT_SHARE = 0.5


def coverage(mask: Mask) -> list[float]:
    """Covered share of each cell of a mask ``(H, W)``, by cell number; 0 for a cell without pixels."""
    height, width = mask.shape
    rows, columns = cell_edges(height), cell_edges(width)
    shares = []
    for top, bottom in itertools.pairwise(rows):
        for left, right in itertools.pairwise(columns):
            cell = mask[top:bottom, left:right]
            shares.append(float(np.count_nonzero(cell)) / cell.size if cell.size else 0.0)
    return shares


def hits(shares: list[float], hit_share: float) -> tuple[int, ...]:
    """Numbers of the cells of which at least ``hit_share`` is covered."""
    return tuple(number for number, value in enumerate(shares, start=1) if value >= hit_share)


def cells_at(rows: npt.NDArray[np.integer], columns: npt.NDArray[np.integer], shape: tuple[int, int]
             ) -> npt.NDArray[np.intp]:  # fmt: skip
    """Numbers of the cells that pixels of a picture of ``shape`` ``(H, W)`` lie in."""
    down = np.searchsorted(cell_edges(shape[0])[1:-1], rows, side="right")
    across = np.searchsorted(cell_edges(shape[1])[1:-1], columns, side="right")
    return np.asarray(down * GRID + across + 1)
