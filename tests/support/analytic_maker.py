"""A map maker that needs no weights. A finding is represented by one patch of grey levels. A map is the cosine of this
patch with every patch of the picture.

A module of this kind is also a plugin: ``--plugin tests/support/analytic_maker.py``.
"""

from __future__ import annotations

import hashlib

import numpy as np

from chexqa.eval.map_makers.registry import Made, map_maker
from chexqa.imaging.read import Gray

CELL = 16


def text_of(finding: str) -> np.ndarray:
    """Return the patch that represents a finding: CELL x CELL grey levels computed from the finding's name."""
    seed = int.from_bytes(hashlib.sha256(finding.encode()).digest()[:4], "big")
    return np.random.default_rng(seed).integers(0, 256, (CELL, CELL)).astype(np.uint8)


def cosines(picture: Gray, finding: str) -> np.ndarray:
    """Return the cosine of the finding's patch with every patch of the picture; each patch first loses its mean."""
    rows, columns = (side // CELL for side in picture.shape)
    cut = picture[: rows * CELL, : columns * CELL].astype(float)
    patches = cut.reshape(rows, CELL, columns, CELL).swapaxes(1, 2).reshape(rows, columns, -1)
    patches = patches - patches.mean(axis=-1, keepdims=True)
    text = text_of(finding).astype(float).ravel()
    text -= text.mean()
    lengths = np.linalg.norm(patches, axis=-1) * np.linalg.norm(text)
    return patches @ text / np.maximum(lengths, 1e-9)


@map_maker("analytic", domain="general")
def analytic(picture: Gray, finding: str) -> Made:
    """Return the map of a finding: cosines of the picture's patches with the finding's patch."""
    values = cosines(picture, finding)
    return values, float(values.max())


def planted(height: int, width: int, finding: str, cell: tuple[int, int], seed: int = 0) -> Gray:
    """Return a picture of smooth noise with the finding's patch in one cell."""
    picture = np.random.default_rng(seed).integers(90, 110, (height, width)).astype(np.uint8)
    row, column = cell[0] * CELL, cell[1] * CELL
    picture[row : row + CELL, column : column + CELL] = text_of(finding)
    return picture
