"""The right place of a finding: its mask, the box around it, boxes around its areas, and the tolerance of a hit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from chexqa.imaging.masks import components, disc, from_rle, window
from chexqa.imaging.read import Mask

Box = tuple[float, float, float, float]
# Shares of the longer side: the largest distance of a hit from the mask; the distance below which areas share a box.
# SMALLEST is the area below which there is no box, as a share of the square of the longer side.
TOLERANCE, GAP, SMALLEST = 0.015, 0.02, 1000 / 1024**2


@dataclass(frozen=True, eq=False)
class Target:
    """Right place of a finding.

    - ``mask``, ``lungs``: the masks ``(H, W)`` of the finding and of both lungs.
    - ``heart``: the columns of the left and the right end of the heart, in pixels.
    - ``chest``: the columns of the left and the right end of both lungs, in pixels.

    ``lungs``, ``heart`` and ``chest`` are None if unknown.
    """

    mask: Mask
    lungs: Mask | None = None
    heart: tuple[float, float] | None = None
    chest: tuple[float, float] | None = None

    @property
    def size(self) -> tuple[int, int]:
        """Return the width and height of the picture in pixels."""
        height, width = self.mask.shape
        return width, height

    @property
    def tolerance(self) -> float:
        """Return the largest distance in pixels between the mask and a point that is still a hit."""
        return float(TOLERANCE * max(self.mask.shape))

    @cached_property
    def distance(self) -> npt.NDArray[np.float32]:
        """Return the distance of every pixel from the mask, ``(H, W)``, in pixels; it is 0 inside the mask."""
        return np.asarray(cv2.distanceTransform((~self.mask).view(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE))

    @property
    def near(self) -> Mask:
        """Return the pixels where a point is a hit, as bool ``(H, W)``."""
        return np.asarray(self.distance <= self.tolerance)

    @cached_property
    def boxes(self) -> tuple[Box, ...]:
        """Return a box around each large area of the mask, by its corners in pixels, from left to right.

        If no area is large, there is one box around the largest area.
        """
        joined = cv2.dilate(self.mask.view(np.uint8), disc(GAP / 2 * max(self.mask.shape))).view(bool)
        labels, count = components(joined, 8)
        areas = [self.mask & (labels == number) for number in range(1, count + 1)]
        least = SMALLEST * max(self.mask.shape) ** 2
        large = [area for area in areas if np.count_nonzero(area) >= least]
        return tuple(sorted(map(box_of, large or [max(areas, key=np.count_nonzero)])))

    @cached_property
    def box(self) -> Box:
        """Return the smallest box that contains all of :attr:`boxes`."""
        x0, y0, x1, y1 = zip(*self.boxes, strict=True)
        return min(x0), min(y0), max(x1), max(y1)

    @cached_property
    def inner_point(self) -> tuple[float, float]:
        """Return the pixel farthest inside the mask, given by the coordinates of the pixel's middle."""
        rows, columns = around = window(self.mask)
        padded = np.pad(self.mask[around], 1).view(np.uint8)
        depth = cv2.distanceTransform(padded, cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
        row, column = np.unravel_index(int(depth.argmax()), depth.shape)
        return float(columns.start + column) - 0.5, float(rows.start + row) - 0.5

    @cached_property
    def mask_box(self) -> Box:
        """Return the smallest box around the complete mask."""
        return box_of(self.mask)

    @property
    def outlines(self) -> tuple[tuple[float, ...], ...]:
        """Return the outer outline of each area of the mask, as ``x, y, x, y, …`` in pixels."""
        doubled = self.mask.repeat(2, axis=0).repeat(2, axis=1)  # so that the outline runs round the pixels' middles
        found, _ = cv2.findContours(doubled.view(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
        return tuple(tuple((float(number) + 0.5) / 2 for number in outline.ravel()) for outline in found)


def box_of(mask: Mask) -> Box:
    """Return the smallest box around a mask, by its corners in pixels."""
    rows, columns = window(mask)
    return float(columns.start), float(rows.start), float(columns.stop), float(rows.stop)


def ends(mask: Mask | None) -> tuple[float, float] | None:
    """Return the left and right end of a mask in pixels; None if there is no mask or it is empty."""
    if mask is None or not mask.any():
        return None
    x0, _, x1, _ = box_of(mask)
    return x0, x1


def target_of(measures: Mapping[str, Any], where: str) -> Target | None:
    """Return the place that is the correct answer for a case, from the masks in its key; None if the key has no masks.

    The mask of an absent finding is empty. Errors begin with ``where``.
    """
    found = {name: from_rle(runs, where) for name, runs in measures.get("masks", {}).items()}
    if not found:
        return None
    return make_target({"lesion": np.zeros_like(next(iter(found.values()))), **found})


def make_target(masks: Mapping[str, Mask]) -> Target:
    """Return the place that is the correct answer for a finding, made from masks.

    ``masks`` has the mask ``lesion`` and, if known, ``right_lung``, ``left_lung`` and ``heart``.
    """
    sides = [masks[name] for name in ("right_lung", "left_lung") if name in masks]
    lungs = np.logical_or.reduce(sides) if sides else None
    both = lungs if len(sides) == 2 else None
    return Target(masks["lesion"], lungs, ends(masks.get("heart")), ends(both))
