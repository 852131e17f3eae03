"""Drawings over the gallery's radiographs: the lesion's outline, and the places of an item's options.

Outlines are SVG path data (the attribute ``d``); coordinates are pixels of the working image.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import cv2
import numpy as np

from chexqa.contract.evidence import Evidence, PointsEvidence
from chexqa.contract.items import CaseKey
from chexqa.files.errors import InputError
from chexqa.imaging.anatomy import Lungs, grow_lungs, regions
from chexqa.imaging.masks import from_rle
from chexqa.imaging.read import Mask

_FINE, _COARSE = 2, 4  # masks are thinned to every second or fourth pixel, since a page shows them small


def outline(case: CaseKey) -> dict[str, Any] | None:
    """Return the size of a case's working image and the SVG path of its lesion; None if the key has no masks."""
    lesion = _mask(case, "lesion", _FINE)
    if lesion is None:
        return None
    height, width = case.measures["masks"]["lesion"]["size"]
    return {"size": [width, height], "lesion": path_of(lesion, _FINE)}


def masks_only(case: CaseKey) -> CaseKey:
    """Return the case without its measured numbers; this module needs only its masks."""
    return replace(case, measures={name: value for name, value in case.measures.items() if name == "masks"})


def points_drawn(found: Evidence | None) -> dict[int, list[float]]:
    """Return the position ``[x, y]`` of each coloured point, keyed by option number; {} for other evidence."""
    if not isinstance(found, PointsEvidence):
        return {}
    return {number: list(point.xy) for number, point in enumerate(found.points, start=1)}


def regions_drawn(names: Sequence[str], case: CaseKey) -> dict[int, str]:
    """Return the SVG path of each part of the lungs in ``names``, keyed by option number; {} for a case without masks.

    ``names`` has the parts in the order of the options.
    """
    parts = _regions(case)
    return {number: path_of(parts[name], _COARSE) for number, name in enumerate(names, start=1) if name in parts}


def path_of(mask: Mask, scale: int) -> str:
    """Return the borders of a mask as an SVG path through the centres of the border pixels.

    Each pixel of the mask is ``scale`` pixels wide.

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
