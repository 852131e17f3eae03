"""The grid task: which of the 8 x 8 cells a mask covers, in pixels of the source picture.

Cells are numbered 1 to 64 by row, so that A1 is 1, B1 is 2 and H8 is 64 (Beyond Diagnosis, arXiv 2509.18015).
"""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from chexqa.drawing import GRID, cell_edges

Mask = npt.NDArray[np.bool_]

CELLS = tuple(f"{column}{row}" for row in range(1, GRID + 1) for column in "ABCDEFGH")


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


def plausible_cells(names: list[str], anatomy: dict[str, Mask], lesion: Mask) -> list[int] | None:
    """Cells that hold a pixel of the named anatomy or of the lesion; None where a named part is not given.

    ``mediastinum`` is what lies between the lungs, in the rows that both have.
    """
    area = lesion.copy()
    for name in names:
        part = _mediastinum(anatomy) if name == "mediastinum" else anatomy.get(name)
        if part is None:
            return None
        area |= part
    return [number for number, value in enumerate(coverage(area), start=1) if value > 0]


def _mediastinum(anatomy: dict[str, Mask]) -> Mask | None:
    right, left = anatomy.get("right_lung"), anatomy.get("left_lung")
    if right is None or left is None:
        return None
    between = np.zeros_like(right)
    for row in np.flatnonzero(right.any(axis=1) & left.any(axis=1)):
        between[row, np.flatnonzero(right[row])[-1] + 1 : np.flatnonzero(left[row])[0]] = True
    return between
