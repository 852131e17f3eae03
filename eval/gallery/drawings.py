"""Drawings over the gallery's radiographs: the lesion's outline, and the places of an item's options.

Coordinates are pixels of the working picture. A path is the path of an SVG element.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cv2
import numpy as np

from chexqa.contract.evidence import Evidence, PlacesEvidence, PointsEvidence
from chexqa.contract.items import CaseKey
from chexqa.files.errors import InputError
from chexqa.imaging.anatomy import Lungs, grow_lungs, regions
from chexqa.imaging.masks import from_rle
from chexqa.imaging.read import Mask

_FINE, _COARSE = 2, 4  # masks are thinned to every second or fourth pixel, since a page shows them small


def outline(case: CaseKey) -> dict[str, Any] | None:
    """Return the size of a case's working picture and the path of its lesion; None if the key has no masks."""
    lesion = _mask(case, "lesion", _FINE)
    if lesion is None:
        return None
    height, width = case.measures["masks"]["lesion"]["size"]
    return {"size": [width, height], "lesion": path_of(lesion, _FINE)}


def options_drawn(found: Evidence | None, case: CaseKey) -> dict[str, Any]:
    """Return ``{"shapes": {option: shape}}`` for options that are places: points, or parts of the lungs.

    ``found`` is the evidence of the item's key. A shape is ``[x, y]`` or a path. The result is empty if the options are
    not places, or if they are parts of the lungs and the case has no masks.
    """
    if isinstance(found, PointsEvidence):
        return {"shapes": {number: list(point.xy) for number, point in enumerate(found.points, start=1)}}
    if isinstance(found, PlacesEvidence):
        parts = _regions(case)
        drawn = {
            number: path_of(parts[name], _COARSE) for number, name in enumerate(found.shown, start=1) if name in parts
        }
        return {"shapes": drawn} if drawn else {}
    return {}


def path_of(mask: Mask, scale: int) -> str:
    """Return the borders of a mask as a path; each pixel of the mask is drawn ``scale`` pixels wide.

    >>> path_of(np.ones((3, 3), bool), 2)
    'M1 1V5H5V1Z'
    """
    borders, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_SIMPLE)
    return "".join(_line(cv2.approxPolyDP(border, 0.7, True).reshape(-1, 2) * scale + scale // 2) for border in borders)


def _line(points: np.ndarray[Any, Any]) -> str:
    text, (x, y) = f"M{points[0][0]} {points[0][1]}", points[0]
    for next_x, next_y in points[1:]:
        text += f"V{next_y}" if next_x == x else f"H{next_x}" if next_y == y else f"L{next_x} {next_y}"
        x, y = next_x, next_y
    return text + "Z"


def _regions(case: CaseKey) -> Mapping[str, Mask]:
    """Return the parts of the lungs, sampled at every fourth pixel; empty if the lungs are unknown."""
    right, left, lesion = (_mask(case, name, _COARSE) for name in ("right_lung", "left_lung", "lesion"))
    if right is None or left is None or lesion is None:
        return {}
    return regions(grow_lungs(Lungs(right, left), lesion))


def _mask(case: CaseKey, name: str, step: int) -> Mask | None:
    runs = case.measures.get("masks", {}).get(name)
    if runs is None:
        return None
    try:
        return from_rle(runs, f"the key of case '{case.case_id}'", step)
    except InputError:
        return None
