"""Grid task: the cells of the 8 x 8 grid that lie in plausible anatomy. Masks are in pixels of the source picture."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chexqa.imaging.grid import CELL_NAMES, Mask, coverage, hits

__all__ = ["CELL_NAMES", "coverage", "hits", "plausible_cells"]


def plausible_cells(names: Sequence[str], anatomy: dict[str, Mask], lesion: Mask) -> list[int] | None:
    """Return the grid cells that contain a pixel of the lesion, or of one of the parts in ``names``.

    A part is a mask in ``anatomy``, or ``mediastinum`` for the area between the lungs. Return None if a mask is
    missing.
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
