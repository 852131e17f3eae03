"""The mirrored place in the other lung: each pixel of one lung corresponds to one pixel of the other.

The two pixels have the same relative height in their lungs, and the same relative distance from the chest wall,
measured along their rows: 0 at the chest wall, 1 at the inner edge of the lung. Mirroring a place twice gives the place
itself.
"""

from __future__ import annotations

from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from chexqa.imaging.masks import window

Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float32]
_SMOOTH = 4 / 1024  # standard deviation of the Gaussian that smooths the edges of a lung, in units of the longer side


class _Edges(NamedTuple):
    """Edges of a lung: its rows, from ``top`` to ``bottom``, and the first and last column in each of them."""

    top: int
    bottom: int
    first: Floats
    last: Floats

    def at(self, rows: Floats) -> tuple[Floats, Floats]:
        """Return the lung's first and last column in each row; a row above or below the lung gets the columns of the
        lung's nearest row.
        """
        own = np.arange(self.top, self.bottom + 1)
        first, last = (np.interp(rows, own, edge).astype(np.float32) for edge in (self.first, self.last))
        return first, last


class OtherLung:
    """Transformation of masks from one lung into the other; ``source`` and ``target`` are masks of lungs, not empty."""

    def __init__(self, source: Mask, target: Mask) -> None:
        height, width = source.shape
        here, there = _edges(source), _edges(target)
        down = np.arange(height, dtype=np.float32) - there.top
        rows = _stretched(down, there.bottom - there.top, here.bottom - here.top)
        self._rows = np.repeat((here.top + rows)[:, None], width, axis=1)
        first, last = here.at(here.top + rows)
        mirrored, start = there.at(np.arange(height, dtype=np.float32))
        inwards = start[:, None] - np.arange(width, dtype=np.float32)[None, :]
        self._columns = first[:, None] + _stretched(inwards, (start - mirrored)[:, None], (last - first)[:, None])

    def place(self, mask: Mask) -> Mask:
        """Return the mirrored place ``(H, W)`` of a mask ``(H, W)``."""
        made = cv2.remap(mask.astype(np.float32), self._columns, self._rows, cv2.INTER_LINEAR, borderValue=0)
        return np.asarray(made > 0.5)


def _edges(lung: Mask) -> _Edges:
    """Return the smoothed edges of a lung; in a row without lung, they come from the rows with lung around it."""
    rows = window(lung)[0]
    own = lung[rows]
    filled = np.flatnonzero(own.any(1))
    sigma = max(1.0, _SMOOTH * max(lung.shape))
    first, last = (
        cv2.GaussianBlur(
            np.interp(np.arange(len(own)), filled, edge[filled]).astype(np.float32)[:, None], (0, 0), sigma,
            borderType=cv2.BORDER_REPLICATE,
        )[:, 0]
        for edge in (own.argmax(1), lung.shape[1] - 1 - own[:, ::-1].argmax(1))
    )  # fmt: skip
    return _Edges(rows.start, rows.stop - 1, np.asarray(first, np.float32), np.asarray(last, np.float32))


def _stretched(distances: Floats, length: Floats | int, new: Floats | int) -> Floats:
    """Return distances from the start of a stretch of ``length`` after it is stretched to the length ``new``; distances
    beyond one of its ends stay as long as they are.
    """
    inside = distances.clip(0, length) * (new / np.maximum(length, 1))
    return np.asarray(inside + np.minimum(distances, 0) + np.maximum(distances - length, 0), np.float32)
