"""Lines that a review page draws over a radiograph, and that a reader can hide: lesion outline, lungs, zones, regions.

Coordinates are in pixels of the shown picture. The lines are simplified for display and are never turned into a mask.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import cv2
import numpy as np

from chexqa.imaging import anatomy, masks
from chexqa.imaging.anatomy import Lungs
from chexqa.imaging.hand_drawn import Line, smooth_outlines
from chexqa.imaging.read import Mask
from chexqa.review.sheets.panels import PART_RGB

OUTLINE, ZONES = "outline", "zones"
PLACES = "places"  # the places that a row shows; they belong to the row, not to its case
_EXACT, _ROUGH = 0.4, 1.0  # largest distance of a simplified line from the border, in pixels


class Layer(NamedTuple):
    """Lines of one colour.

    - ``kind``: :data:`OUTLINE` or :data:`ZONES`; all layers of a kind are shown or hidden together.
    - ``lines``: closed lines, each in the form ``x, y, x, y, …``.
    - ``part``: the part of the lungs that the lines surround; it decides the colour. Empty for the default colour.
    """

    kind: str
    lines: list[list[float]]
    part: str = ""

    def to_record(self) -> dict[str, Any]:
        """Return the JSON form."""
        color = "#{:02x}{:02x}{:02x}".format(*PART_RGB[self.part]) if self.part else ""
        return {"kind": self.kind, "lines": self.lines, "color": color}


def outline(mask: Mask) -> Layer:
    """Return the layer with the outline of a lesion."""
    return Layer(OUTLINE, [_short(line, _EXACT) for line in smooth_outlines(mask)])


def lungs_and_regions(lungs: Lungs, lesion: Mask | None) -> list[Layer]:
    """Return layers with the borders of both lungs and of their regions.

    For the regions, a lesion that touches a lung counts as part of this lung.
    """
    grown = lungs if lesion is None else anatomy.grow_lungs(lungs, lesion)
    parts: dict[str, list[list[float]]] = {part: [] for part in PART_RGB}
    for name, area in anatomy.regions(grown).items():
        parts[anatomy.part_of(name)] += [_short(line, _ROUGH) for line in _borders(area)]
    whole = [_short(line, _ROUGH) for lung in (lungs.right, lungs.left) for line in _borders(lung)]
    return [*(Layer(ZONES, lines, part) for part, lines in parts.items() if lines), Layer(ZONES, whole)]


def stored_layers(stored: Mapping[str, Any], where: str) -> list[Layer]:
    """Return the layers (drawn lines) of the masks in an answer key.

    ``stored`` has the masks, run-length encoded at the size of the working image, keyed by name. Raises ``InputError``,
    whose message begins with ``where``, if the run lengths are damaged.
    """
    found = {name: masks.from_rle(rle, f"{where}, mask '{name}'") for name, rle in stored.items() if rle is not None}
    lesion = found.get("lesion")
    layers = [] if lesion is None else [outline(lesion)]
    sides = [found.get(f"{side}_lung") for side in anatomy.SIDES]
    known = next((side for side in sides if side is not None), None)
    if known is not None:
        right, left = (np.zeros_like(known) if side is None else side for side in sides)
        layers += lungs_and_regions(Lungs(right, left), lesion)
    return layers


def _borders(mask: Mask) -> list[Line]:
    contours, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
    return [contour.reshape(-1, 2).astype(float) for contour in contours]


def _short(line: Line, reach: float) -> list[float]:
    """Return a line as ``x, y, x, y, …`` with fewer points; it moves by at most ``reach`` pixels.

    The coordinates are those of the middle of pixels.
    """
    points = cv2.approxPolyDP(line.astype(np.float32).reshape(-1, 1, 2), reach, True).reshape(-1, 2) + 0.5
    return [round(float(value), 1) for value in points.ravel()]
