"""The consensus of several readers' places: medians of coordinates, or the areas that most readers marked."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np

from chexqa.eval.places.coordinate_systems import BOXES, Shape, Size


def common_place(form: str, places: Sequence[Sequence[Shape]], size: Size) -> tuple[Shape, ...] | None:
    """Return the consensus of the readers' places, in pixels of a picture of ``size``; None if there is none.

    - For one point, box or width (two ends): the median of each coordinate.
    - For several boxes or outlines: the areas that more than half of the readers marked.

    >>> common_place("point", [[(10.0, 20.0)], [(30.0, 20.0)], [(11.0, 90.0)]], (100, 100))
    ((11.0, 20.0),)
    """
    if not places:
        return None
    if form in ("point", "box", "width"):
        numbers = [_left_first(shape) if form == "width" else shape for (shape,) in places]
        return (tuple(float(number) for number in np.median(np.array(numbers), axis=0)),)
    votes = sum(_filled(form, shapes, size).astype(int) for shapes in places)
    shared = np.asarray(2 * votes > len(places), np.uint8)
    found, _ = cv2.findContours(shared, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    areas = [outline.reshape(-1, 2) for outline in found if len(outline) >= 3]
    if form in BOXES:
        shapes = [(*map(float, area.min(axis=0)), *map(float, area.max(axis=0) + 1)) for area in areas]
    else:
        shapes = [tuple(map(float, area.ravel() + 0.5)) for area in areas]
    return tuple(shapes) or None


def _left_first(shape: Shape) -> Shape:
    return shape if shape[0] <= shape[2] else (*shape[2:], *shape[:2])


def _filled(form: str, shapes: Sequence[Shape], size: Size) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """Return a picture ``(H, W)`` that is 1 inside the shapes and 0 elsewhere."""
    area = np.zeros((size[1], size[0]), np.uint8)
    for shape in shapes:
        if form in BOXES:
            x0, y0, x1, y1 = (round(number) for number in shape)
            area[y0:y1, x0:x1] = 1
        else:
            cv2.fillPoly(area, [np.round(np.array(shape).reshape(-1, 2) - 0.5).astype(np.int32)], 1)
    return area
