"""Local edits of a mask and their measures.

An edit adds an area (over-segments) or removes an area (under-segments). Lengths are pixels of the working image, and
masks are bool ``(H, W)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from chexqa.imaging.masks import disc, from_rle, to_rle, window

Mask = npt.NDArray[np.bool_]
Field = npt.NDArray[np.float32]
Window = tuple[slice, slice]  # rows and columns of a crop
_NEAR = 1.12  # factor by which the depth of an edit may differ from the depth wanted
_SMALL_DISC = 8  # pixels: up to this radius, growing an area by a disc is faster than measuring all distances


@dataclass(frozen=True)
class Deformation:
    """A recipe's settings for edits.

    - ``edit_count_weights``: the weights of one, two and three true edits.
    - ``min_depth``, ``max_depth``: the limits of an edit's depth, divided by the picture's longer side.
    - ``depth_to_size``: the range of an edit's depth before ``min_depth`` and ``max_depth`` limit it, in radii of a
      disc as large as the edited part of the lesion.
    - ``reach_to_depth``: the range of an edit's reach along the outline, divided by the edit's depth.
    - ``min_share``: the smallest area that an edit changes, divided by the lesion's area.
    - ``max_share``: the largest area that an edit adds, divided by the lesion's area.
    - ``min_gap``: the smallest distance between the changed areas of two edits, divided by the picture's longer side.
    - ``iou``: the range of the IoU of the suboptimal mask and the optimal mask.
    - ``tries``: the number of attempts to find edits of one kind.
    """

    edit_count_weights: tuple[float, float, float]
    min_depth: float
    max_depth: float
    depth_to_size: tuple[float, float]
    reach_to_depth: tuple[float, float]
    min_share: float
    max_share: float
    min_gap: float
    iou: tuple[float, float]
    tries: int


@dataclass(frozen=True)
class Limits:
    """A recipe's limits of an edit. Lengths are pixels of the working image, shares are fractions of the lesion's area.

    With ``exact`` an edit that is deeper than ``max_depth`` fails; otherwise ``max_depth`` is only a target.
    """

    side: int
    min_depth: float
    max_depth: float
    depth_to_size: tuple[float, float]
    reach_to_depth: tuple[float, float]
    min_share: float
    max_share: float
    min_gap: float
    iou: tuple[float, float]
    tries: int
    exact: bool = False

    @classmethod
    def at(cls, rules: Deformation, side: int, depth: float) -> Limits:
        """Return the limits for edits about as deep as ``depth`` (up to 12 % more or less).

        ``side`` is the longer side of the working image in pixels; ``depth`` is a fraction of it.
        """
        around = {"min_depth": depth * side / _NEAR, "max_depth": depth * side * _NEAR, "depth_to_size": (0.0, 0.0)}
        return replace(cls.of(rules, side), exact=True, **around)  # type: ignore[arg-type]

    @classmethod
    def of(cls, rules: Deformation, side: int) -> Limits:
        """Return the limits for pictures whose longer side has ``side`` pixels."""
        return cls(
            side=side,
            min_depth=rules.min_depth * side,
            max_depth=rules.max_depth * side,
            depth_to_size=rules.depth_to_size,
            reach_to_depth=rules.reach_to_depth,
            min_share=rules.min_share,
            max_share=rules.max_share,
            min_gap=rules.min_gap * side,
            iou=rules.iou,
            tries=rules.tries,
        )

    def most(self, over: bool) -> float:
        """Return the largest area that an edit may add (``over``) or remove, divided by the lesion's area."""
        return self.max_share if over else taken(self.max_share)


def taken(share: float) -> float:
    """Return the share of an enlarged lesion that must be removed to undo an increase by ``share``."""
    return share / (1 + share)


@dataclass(frozen=True)
class Edit:
    """One edit: the changed area as a crop, its position and its measures.

    - ``over``: True if the edit adds the area, False if it removes the area.
    - ``corner_xy``: x, y of the crop's first pixel.
    - ``point_xy``: the pixel of the changed area that is farthest from the area's border.
    - ``depth``: how far the contour moves at most, in pixels.
    - ``share``: the changed area divided by the lesion's area.
    """

    over: bool
    corner_xy: tuple[int, int]
    area: Mask
    point_xy: tuple[int, int]
    depth: float
    share: float

    def to_record(self) -> dict[str, Any]:
        """Return the JSON form, with the area as run lengths."""
        return {**vars(self), "corner_xy": list(self.corner_xy), "point_xy": list(self.point_xy),
                "area": to_rle(self.area)}  # fmt: skip

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Edit:
        """Return the edit from its JSON form."""
        return cls(**{**record, "corner_xy": tuple(record["corner_xy"]), "point_xy": tuple(record["point_xy"]),
                      "area": from_rle(record["area"], "a plan")})  # fmt: skip

    def paint(self, shape: tuple[int, int]) -> Mask:
        """Return the changed area as a mask of ``shape``."""
        mask = np.zeros(shape, bool)
        mask[self.slices] = self.area
        return mask

    def within(self, distance: float, shape: tuple[int, int]) -> tuple[Window, Mask]:
        """Return a crop, and the mask ``(h, w)`` of its pixels within ``distance`` pixels of the changed area.

        ``shape`` is the shape of the picture that is cropped.
        """
        around = grown(self.slices, int(np.ceil(distance)) + 1, shape)
        area = embedded(self.area, self.slices, around)
        if distance > _SMALL_DISC:
            return around, distance_to(area) <= distance
        return around, np.asarray(cv2.dilate(area.view(np.uint8), disc(distance)).view(np.bool_))

    @property
    def slices(self) -> Window:
        """Return the slices of the rows and columns of the crop."""
        x, y = self.corner_xy
        height, width = self.area.shape
        return slice(y, y + height), slice(x, x + width)


def apply(mask: Mask, edits: Iterable[Edit]) -> Mask:
    """Return the mask after the given edits, made in their order."""
    result = mask.copy()
    # The order matters: an edit may have been drawn on a mask that already had an earlier edit.
    for edit in edits:
        if edit.over:
            result[edit.slices] |= edit.area
        else:
            result[edit.slices] &= ~edit.area
    return result


def part_count(mask: Mask) -> tuple[int, int, int]:
    """Return three counts: 4-connected parts, 8-connected parts, and background parts."""
    # The background outside the mask's window is a single part.
    around = mask[window(mask, 1)]
    lesion, ground = around.view(np.uint8), framed(~around, True).view(np.uint8)
    # Attributes count 4-connected parts, but a viewer sees 8-connected parts. The two differ where parts meet at a
    # corner.
    return (
        int(cv2.connectedComponents(lesion, connectivity=4)[0]) - 1,
        int(cv2.connectedComponents(lesion, connectivity=8)[0]) - 1,
        int(cv2.connectedComponents(ground, connectivity=4)[0]) - 1,
    )


def depth_of(mask: Mask) -> Field:
    """Return the Euclidean distance in pixels of every True pixel to the nearest False pixel.

    The mask must have True and False pixels.
    """
    depth = np.zeros(mask.shape, np.float32)
    # The nearest False pixel lies in the mask's window or in the ring round it.
    around = window(mask, 1)
    depth[around] = exact_distance(mask[around])
    return depth


def distance_to(mask: Mask) -> Field:
    """Return the Euclidean distance in pixels of every pixel to the nearest True pixel; the mask must not be empty."""
    return exact_distance(~mask)


def deepest_xy(area: Mask) -> tuple[int, int]:
    """Return the pixel (x, y) of a non-empty area that is farthest from its border; the first one in reading order."""
    inside = exact_distance(framed(area, False))
    y, x = divmod(int(np.argmax(inside)), inside.shape[1])
    return x - 1, y - 1


def exact_distance(inside: Mask) -> Field:
    """Return the exact distance of every True pixel to the nearest False pixel; there must be a False pixel."""
    distance = cv2.distanceTransform(inside.view(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    # The last bits of OpenCV's result depend on the array's address in memory, and could decide which of several
    # equally deep pixels comes first. Squared distances are whole numbers below 2^24, which float32 holds exactly.
    np.multiply(distance, distance, out=distance)
    np.rint(distance, out=distance)
    return np.asarray(np.sqrt(distance, out=distance), np.float32)


def framed(mask: Mask, value: bool) -> Mask:
    """Return the mask with a border of one pixel on every side, filled with ``value``."""
    # Many times faster than np.pad.
    wider = cv2.copyMakeBorder(mask.view(np.uint8), 1, 1, 1, 1, cv2.BORDER_CONSTANT, value=int(value))
    return np.asarray(wider.view(np.bool_))


def grown(slices: Window, margin: int, shape: tuple[int, ...]) -> Window:
    """Return a crop with a margin, clipped to a picture of ``shape``."""
    rows, columns = slices
    return (
        slice(max(0, rows.start - margin), min(shape[0], rows.stop + margin)),
        slice(max(0, columns.start - margin), min(shape[1], columns.stop + margin)),
    )


def embedded(area: Mask, slices: Window, around: Window) -> Mask:
    """Return the mask of a crop as a mask of a larger crop, False outside the smaller one.

    ``slices`` and ``around`` are the windows of the smaller and of the larger crop in the picture.
    """
    mask = np.zeros((around[0].stop - around[0].start, around[1].stop - around[1].start), bool)
    row, column = slices[0].start - around[0].start, slices[1].start - around[1].start
    mask[row : row + area.shape[0], column : column + area.shape[1]] = area
    return mask
