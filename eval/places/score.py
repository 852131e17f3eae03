"""Scores that compare an answered place with the right one: hit, IoU, Dice, boxes, distance, cardiothoracic ratio."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from chexqa.eval.places.coordinate_systems import Shape
from chexqa.eval.places.target import Box, Target
from chexqa.imaging.masks import dice, iou, window
from chexqa.imaging.read import Mask

# Limits of a right place: the least IoU of one box, the least IoU of each of several boxes, the least Dice of an
# outline, and the largest error of a cardiothoracic ratio.
BOX, BOXES, OUTLINE, RATIO = 0.5, 0.3, 0.5, 0.03
# The least IoU at which a place counts as near the finding; no answer is right by it.
LOOSE = 0.1


@dataclass(frozen=True, kw_only=True)
class PlaceScore:
    """Scores of one answered place; a score that does not apply to the answer form is None.

    - ``iou``: of a box with the finding's box, or of an outline with the mask.
    - ``dice``: of an outline with the mask.
    - ``distance``: the mean distance between the borders of outline and mask, in pixels.
    - ``precision``, ``recall``: the share of the answered boxes, and of the key's boxes, that are matched (IoU of at
      least 0.3, one to one).
    - ``f1_10``, ``f1_30``, ``f1_50``: F1 at an IoU of 0.1, 0.3 and 0.5.
    - ``error``: the answered cardiothoracic ratio minus the true one.
    """

    right: bool
    iou: float | None = None
    dice: float | None = None
    distance: float | None = None
    precision: float | None = None
    recall: float | None = None
    f1_10: float | None = None
    f1_30: float | None = None
    f1_50: float | None = None
    error: float | None = None


def score(form: str, shapes: Sequence[Shape], target: Target) -> PlaceScore:
    """Return the score of a place, whose shapes are in pixels of the picture."""
    if form == "point":
        return PlaceScore(right=is_hit(shapes[0], target))
    if form == "box":
        overlap = box_iou(_corners(shapes[0]), target.box)
        return PlaceScore(right=overlap >= BOX, iou=overlap)
    if form == "boxes":
        return _matched([_corners(shape) for shape in shapes], target.boxes)
    if form == "outline":
        return _outlined(filled(shapes, target.mask.shape), target.mask)
    return _width(shapes[0], target)


def is_hit(point: Shape, target: Target) -> bool:
    """Return True if a point lies in the mask, or at most the tolerance away from it."""
    column, row = (int(np.floor(number)) for number in point)
    height, width = target.mask.shape
    return 0 <= row < height and 0 <= column < width and bool(target.distance[row, column] <= target.tolerance)


def box_iou(first: Box, second: Box) -> float:
    """Return the intersection over union of two boxes, given by their corners.

    >>> box_iou((0, 0, 2, 2), (1, 0, 3, 2)) == 1 / 3
    True
    """
    across = min(first[2], second[2]) - max(first[0], second[0])
    down = min(first[3], second[3]) - max(first[1], second[1])
    shared = max(across, 0.0) * max(down, 0.0)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (first, second)]
    return shared / (sum(areas) - shared) if shared else 0.0


def matches(boxes: Sequence[Box], right_boxes: Sequence[Box], least: float) -> int:
    """Return the largest number of box pairs that can be matched one to one with an IoU of at least ``least``."""
    from scipy.optimize import linear_sum_assignment  # takes a quarter of a second, and few runs have boxes to match

    good = np.array([[box_iou(box, other) >= least for other in right_boxes] for box in boxes], float)
    rows, columns = linear_sum_assignment(good, maximize=True)
    return int(good[rows, columns].sum())


def _matched(boxes: Sequence[Box], wanted: Sequence[Box]) -> PlaceScore:
    lowest, low, high = (matches(boxes, wanted, least) for least in (LOOSE, BOXES, BOX))
    total = len(boxes) + len(wanted)
    return PlaceScore(
        right=low == len(boxes) == len(wanted), precision=low / len(boxes), recall=low / len(wanted),
        f1_10=2 * lowest / total, f1_30=2 * low / total, f1_50=2 * high / total,
    )  # fmt: skip


def filled(shapes: Sequence[Shape], size: tuple[int, ...]) -> Mask:
    """Return the pixels inside the outlines as a mask of ``size`` ``(H, W)``.

    A pixel is inside if its middle is inside. An outline that crosses itself is filled by the even-odd rule.
    """
    height, width = size
    mask = np.zeros((height, width), bool)
    middles = np.arange(height) + 0.5
    for shape in shapes:
        start = np.asarray(shape, float).reshape(-1, 2)
        (x0, y0), (x1, y1) = start.T, np.roll(start, -1, axis=0).T
        edge, row = np.nonzero((y0[:, None] <= middles) != (y1[:, None] <= middles))
        across = x0[edge] + (middles[row] - y0[edge]) / (y1 - y0)[edge] * (x1 - x0)[edge]
        turns = np.zeros((height, width + 1), np.int64)
        np.add.at(turns, (row, np.clip(np.ceil(across - 0.5), 0, width).astype(np.int64)), 1)
        mask |= turns.cumsum(axis=1)[:, :width] % 2 == 1
    return mask


def _outlined(drawn: Mask, mask: Mask) -> PlaceScore:
    overlap = dice(drawn, mask)
    distance = surface_distance(drawn, mask)
    return PlaceScore(right=overlap >= OUTLINE, iou=iou(drawn, mask), dice=overlap, distance=distance)


def surface_distance(first: Mask, second: Mask) -> float | None:
    """Return the mean distance in pixels between the borders of two masks; None if one mask is empty."""
    if not first.any() or not second.any():
        return None
    around = window(first | second)
    borders = [_border(mask[around]) for mask in (first, second)]
    far = [cv2.distanceTransform((~border).view(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE) for border in borders]
    # From each border to the other one.
    both = np.concatenate([far[1][borders[0]], far[0][borders[1]]])
    return float(both.mean())


def _border(mask: Mask) -> Mask:
    inner = cv2.erode(mask.view(np.uint8), np.ones((3, 3), np.uint8), borderType=cv2.BORDER_CONSTANT, borderValue=0)
    return np.asarray(mask & ~inner.view(bool))


def _width(shape: Shape, target: Target) -> PlaceScore:
    """Return the score of two end points of the heart's width: the error of the cardiothoracic ratio."""
    assert target.heart is not None
    assert target.chest is not None
    chest = target.chest[1] - target.chest[0]
    error = (abs(shape[2] - shape[0]) - (target.heart[1] - target.heart[0])) / chest
    return PlaceScore(right=abs(error) <= RATIO + 1e-9, error=error)


def _corners(shape: Shape) -> Box:
    x0, y0, x1, y1 = shape
    return x0, y0, x1, y1
