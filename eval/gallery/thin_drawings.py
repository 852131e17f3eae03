"""Thin drawings over a radiograph, such as outlines, points and grids, stored without the radiograph.

A drawing alone takes half the bytes of a picture, and half the time to make.
"""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

from chexqa.imaging import png

# A pixel counts as drawn if it differs by more than _DRAWN grey levels, and as unchanged up to _SAME levels. At most a
# share _MOST_DRAWN of a picture may be drawn. Changed pixels away from the drawing may number at most the share
# _MOST_ELSE of the drawn pixels. JPEG changes pixels around a line by up to about 20 levels.
_DRAWN, _SAME = 28, 12
_MOST_DRAWN, _MOST_ELSE = 0.15, 0.25
_AROUND = np.ones((9, 9), np.uint8)
# Four levels of each colour; the first colour of the palette is transparent.
_STEP, _LEVELS = 85, 4
_PALETTE = [(0, 0, 0)] + [
    (number // _LEVELS**2 * _STEP, number // _LEVELS % _LEVELS * _STEP, number % _LEVELS * _STEP)
    for number in range(_LEVELS**3)
]
_NEAREST = [
    np.array([(value + _STEP // 2) // _STEP * weight + first for value in range(256)], np.uint8)
    for weight, first in ((_LEVELS**2, 1), (_LEVELS, 0), (1, 0))
]


def thin_drawing(below: npt.NDArray[np.uint8], picture: npt.NDArray[np.uint8]) -> bytes | None:
    """Return the lines drawn in ``picture`` over the radiograph ``below``, as a PNG that is transparent elsewhere.

    Both pictures are RGB ``(H, W, 3)``. Return None if their sizes differ, if more than 15 % of the pixels differ
    clearly, or if many pixels away from the lines differ slightly.
    """
    if below.shape != picture.shape:
        return None
    red, green, blue = cv2.split(cv2.absdiff(below, picture))
    apart = cv2.max(cv2.max(red, green), blue)
    drawn = cv2.threshold(apart, _DRAWN, 255, cv2.THRESH_BINARY)[1]
    elsewhere = cv2.subtract(apart, cv2.dilate(drawn, _AROUND))
    changed = cv2.countNonZero(cv2.threshold(elsewhere, _SAME, 255, cv2.THRESH_BINARY)[1])
    if (count := cv2.countNonZero(drawn)) > _MOST_DRAWN * drawn.size or changed > _MOST_ELSE * count:
        return None
    colors = [cv2.LUT(part, table) for part, table in zip(cv2.split(picture), _NEAREST, strict=True)]
    return png.encode_drawing(np.asarray(cv2.bitwise_and(colors[0] + colors[1] + colors[2], drawn)), _PALETTE)
