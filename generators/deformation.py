"""Local edits of a mask: bumps and dents of its signed distance, as a careless annotator would make them.

An edit either over-segments (it adds an area, so that the mask must be contracted there) or under-segments (it takes
an area away, so that the mask must be expanded there). Lengths are pixels of the working image; masks ``(H, W)`` bool.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from chexqa.masks import window

Mask = npt.NDArray[np.bool_]
Field = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Limits:
    """A recipe's limits of an edit in pixels of the working image; shares are of the lesion's area."""

    min_depth: float
    max_depth: float
    depth_to_size: tuple[float, float]
    reach_to_depth: tuple[float, float]
    min_share: float
    max_share: float
    min_gap: float
    iou: tuple[float, float]
    tries: int

    @classmethod
    def of(cls, recipe: dict[str, Any], side: int) -> Limits:
        """From a recipe's ``deformation`` table for pictures whose longer side is ``side`` pixels."""
        return cls(
            min_depth=recipe["min_depth"] * side,
            max_depth=recipe["max_depth"] * side,
            depth_to_size=tuple(recipe["depth_to_size"]),
            reach_to_depth=tuple(recipe["reach_to_depth"]),
            min_share=recipe["min_share"],
            max_share=recipe["max_share"],
            min_gap=recipe["min_gap"] * side,
            iou=tuple(recipe["iou"]),
            tries=recipe["tries"],
        )


@dataclass(frozen=True)
class Edit:
    """One edit: the changed area as a crop, where it lies, and what it measures.

    ``over``: adds the area (else takes it away). ``corner_xy``: x, y of the crop's first pixel. ``point_xy``: the
    deepest place of the changed area (farthest from its border). ``depth``: how far the contour moves at the most.
    ``share``: changed area over the lesion's area.
    """

    over: bool
    corner_xy: tuple[int, int]
    area: Mask
    point_xy: tuple[int, int]
    depth: float
    share: float

    def paint(self, shape: tuple[int, int]) -> Mask:
        """The changed area in a mask of ``shape``."""
        mask = np.zeros(shape, bool)
        mask[self.slices] = self.area
        return mask

    def within(self, distance: float, shape: tuple[int, int]) -> tuple[tuple[slice, slice], Mask]:
        """A crop of a picture of ``shape``, and where in it the changed area is at most ``distance`` pixels away."""
        around = _grown(self.slices, int(np.ceil(distance)) + 1, shape)
        area = np.zeros((around[0].stop - around[0].start, around[1].stop - around[1].start), bool)
        row, column = self.slices[0].start - around[0].start, self.slices[1].start - around[1].start
        area[row : row + self.area.shape[0], column : column + self.area.shape[1]] = self.area
        return around, distance_to(area) <= distance

    @property
    def slices(self) -> tuple[slice, slice]:
        """Rows and columns of the crop."""
        x, y = self.corner_xy
        height, width = self.area.shape
        return slice(y, y + height), slice(x, x + width)


def apply(mask: Mask, edits: Iterable[Edit]) -> Mask:
    """The mask with these edits made; edits do not meet, so their order is of no account."""
    result = mask.copy()
    for edit in edits:
        if edit.over:
            result[edit.slices] |= edit.area
        else:
            result[edit.slices] &= ~edit.area
    return result


def iou(first: Mask, second: Mask) -> float:
    """Intersection over union; two empty masks agree."""
    union = int(np.count_nonzero(first | second))
    return int(np.count_nonzero(first & second)) / union if union else 1.0


def part_count(mask: Mask) -> tuple[int, int, int]:
    """Number of 4-connected parts, of 8-connected ones, and of parts of the ground (so that a new hole counts too).

    Attributes count 4-connected parts, an eye sees 8-connected ones; they differ where two parts meet at a corner.
    """
    lesion, ground = mask.astype(np.uint8), np.pad(~mask, 1, constant_values=True).astype(np.uint8)
    return (
        int(cv2.connectedComponents(lesion, connectivity=4)[0]) - 1,
        int(cv2.connectedComponents(lesion, connectivity=8)[0]) - 1,
        int(cv2.connectedComponents(ground, connectivity=4)[0]) - 1,
    )


def distance_to(mask: Mask) -> Field:
    """Euclidean distance in pixels of every pixel to the nearest True one; the mask must not be empty."""
    return _exact_distance(~mask)


def deepest_xy(area: Mask) -> tuple[int, int]:
    """The pixel of a non-empty area that lies farthest from its border (the first in reading order of several)."""
    inside = _exact_distance(np.pad(area, 1))
    y, x = divmod(int(np.argmax(inside)), inside.shape[1])
    return x - 1, y - 1


def _exact_distance(inside: Mask) -> Field:
    """Distance of every True pixel to the nearest False one.

    OpenCV's last bits change from call to call with where the array lies in memory, and with them the first of several
    deepest places: the squares are whole numbers, so they are rounded to them.
    """
    distance = cv2.distanceTransform(inside.astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    return np.sqrt(np.rint(np.square(distance, dtype=np.float64))).astype(np.float32)


class Surgeon:
    """Draws edits of one mask, each a random bump or dent somewhere along its boundary.

    ``field``: where an outline may lie; bumps are clipped to it. Edits drawn by :meth:`edits` keep the recipe's gap
    from each other; those of :meth:`edit` keep it from whatever :meth:`keep_clear_of` names.
    """

    def __init__(self, mask: Mask, field: Mask, limits: Limits, rng: np.random.Generator) -> None:
        self.mask, self.field, self.limits, self.rng = mask, field, limits, rng
        self.area = int(np.count_nonzero(mask))
        # Half a pixel on either side puts the zero of the signed distance on the border between pixels.
        inside, outside = distance_to(~np.pad(self.mask, 1))[1:-1, 1:-1], distance_to(self.mask)
        signed = inside - outside
        self.signed: Field = signed + np.where(self.mask, np.float32(-0.5), np.float32(0.5))
        _, self.labels, stats, _ = cv2.connectedComponentsWithStats(self.mask.astype(np.uint8), connectivity=8)
        self.part_area = stats[:, cv2.CC_STAT_AREA]
        self.avoid = np.zeros_like(self.mask)
        border = self.mask & (self.signed < 1)
        room = cv2.dilate((self.field & ~self.mask).astype(np.uint8), _BESIDE).astype(bool)
        # Where an edit may begin, by whether it adds: along a wall of the field nothing can be added.
        self.starts = {False: border, True: border & room}
        self.keep_clear_of([])

    def edits(self, wanted: int) -> list[Edit]:
        """Up to ``wanted`` edits; fewer where the lesion has no room for more.

        Where the first ones leave no room for the rest, it starts anew, with small edits only.
        """
        best: list[Edit] = []
        for modest_from in (self.limits.tries // 2, 0, 0, 0, 0):
            found = self._round(wanted, modest_from)
            best = max(best, found, key=len)
            if len(best) == wanted:
                break
        return best

    def _round(self, wanted: int, modest_from: int) -> list[Edit]:
        self.keep_clear_of([])
        found: list[Edit] = []
        for attempt in range(self.limits.tries):
            edit = self.edit(modest=attempt >= modest_from)
            if edit is None:
                continue
            found.append(edit)
            self.keep_clear_of(found)
            if len(found) == wanted:
                break
        return found

    def edit(self, modest: bool = False, over: bool | None = None) -> Edit | None:
        """One random edit that keeps every limit; None where the try fails.

        ``modest`` asks for a small edit: where large ones did not fit, small ones may. ``over``: whether it is to add,
        else drawn.
        """
        limits, rng = self.limits, self.rng
        over = bool(rng.random() < 0.5) if over is None else over
        starts_yx = self.starts_yx[over]
        if not len(starts_yx):
            return None
        y, x = (int(value) for value in starts_yx[rng.integers(len(starts_yx))])
        radius = float(np.sqrt(self.part_area[self.labels[y, x]] / np.pi))
        slimness = float(rng.uniform(*limits.reach_to_depth))
        wanted = radius * float(rng.uniform(*limits.depth_to_size))
        # On a straight border a bump of depth d and reach s d holds about s d^2 pixels: this deep it is large enough.
        least = float(np.sqrt(1.25 * limits.min_share * self.area / slimness))
        # The bump falls short of what is asked where the border is curved: ask for a little more.
        least = max(least, 1.15 * limits.min_depth)
        depth = least if modest else min(max(wanted, least), max(limits.max_depth, least))
        changed = self._changed((x, y), over, depth, depth * slimness)
        if changed is None:
            return None
        slices, area = changed
        if bool((area & self.avoid[slices]).any()):
            return None
        return self._measured(over, slices, area)

    def keep_clear_of(self, edits: Sequence[Edit]) -> None:
        """From now on draw edits that keep the recipe's gap from these, and no others."""
        self.avoid[:] = False
        for edit in edits:
            slices, near = edit.within(self.limits.min_gap, self.mask.shape)
            self.avoid[slices] |= near
        self.starts_yx = {over: np.argwhere(starts & ~self.avoid) for over, starts in self.starts.items()}

    def _changed(
        self, center_xy: tuple[int, int], over: bool, depth: float, width: float
    ) -> tuple[tuple[slice, slice], Mask] | None:
        """Crop and changed area of a bump (or dent) of ``depth`` that ends ``width`` pixels from a border pixel."""
        x, y = center_xy
        reach = int(np.ceil(width)) + 2
        height, breadth = self.mask.shape
        slices = (
            slice(max(0, y - reach), min(height, y + reach + 1)),
            slice(max(0, x - reach), min(breadth, x + reach + 1)),
        )
        rows = np.arange(slices[0].start, slices[0].stop, dtype=np.float32) - y
        columns = np.arange(slices[1].start, slices[1].stop, dtype=np.float32) - x
        far = (rows**2)[:, None] + (columns**2)[None, :]
        bump = np.square(np.maximum(0, 1 - far / np.float32(width**2)))
        # At the distance `depth` from the centre the bump is worth `depth`, so that the zero moves just there.
        bump *= np.float32(depth / (1 - (depth / width) ** 2) ** 2)
        mask, signed = self.mask[slices], self.signed[slices]
        area = ~mask & (signed + bump > 0) & self.field[slices] if over else mask & (signed - bump <= 0)
        # Rounding adds little: what is far from the limits now is given up before the slower steps.
        least, most = 0.8 * self.limits.min_share * self.area, self.limits.max_share * self.area
        if np.count_nonzero(area) < least:
            return None
        found = _nearest_part(area, (x - slices[1].start, y - slices[0].start))
        if found is None:
            return None
        part, seed_yx = found
        if not least <= np.count_nonzero(part) <= most or bool((part & self.avoid[slices]).any()):
            return None
        # No crack between a bump and the mask, no thorn beside a dent: neither is what a hand would draw.
        if over:
            rounded = _morph(mask | part, cv2.MORPH_CLOSE) & ~mask & self.field[slices]
        else:
            rounded = mask & ~_morph(mask & ~part, cv2.MORPH_OPEN)
        part = _part_at(rounded | part, seed_yx)
        crop = window(part)
        row, column = slices[0].start + crop[0].start, slices[1].start + crop[1].start
        area = part[crop]
        return (slice(row, row + area.shape[0]), slice(column, column + area.shape[1])), area

    def _measured(self, over: bool, slices: tuple[slice, slice], area: Mask) -> Edit | None:
        """The edit, measured; None where it breaks a limit, splits, merges or removes a part, or makes a hole."""
        limits = self.limits
        share = int(np.count_nonzero(area)) / self.area
        if not limits.min_share <= share <= limits.max_share:
            return None
        if not self._keeps_parts(over, slices, area):
            return None
        # How far the area reaches from what stays: from the mask, or from what is left of it.
        depth = float((0.5 - self.signed[slices])[area].max()) if over else self._depth_of_cut(slices, area)
        if depth < limits.min_depth:
            return None
        corner = slices[1].start, slices[0].start
        dx, dy = deepest_xy(area)
        return Edit(over, corner, area, (corner[0] + dx, corner[1] + dy), depth, share)

    def _keeps_parts(self, over: bool, slices: tuple[slice, slice], area: Mask) -> bool:
        """Whether the parts of the lesion and of the ground stay as they are, as :func:`part_count` counts them.

        All that changes lies in the crop, and the pixels round it stay: if within them each part before is one part
        after and the other way round, so it is in the whole picture.
        """
        around = _grown(slices, 1, self.mask.shape)
        before = self.mask[around]
        changed = np.zeros_like(before)
        row, column = slices[0].start - around[0].start, slices[1].start - around[1].start
        changed[row : row + area.shape[0], column : column + area.shape[1]] = area
        # One more row and column on every side: beyond the picture all is ground.
        small, large = (before, before | changed) if over else (before & ~changed, before)
        less, more = np.pad(~large, 1, constant_values=True), np.pad(~small, 1, constant_values=True)
        return _same_parts(small, large, 4) and _same_parts(small, large, 8) and _same_parts(less, more, 4)

    def _depth_of_cut(self, slices: tuple[slice, slice], area: Mask) -> float:
        """The farthest distance of an area that is taken away from what is left of the mask."""
        depth = 1.0
        while True:
            # Within `depth` of the area nothing is left out: a distance of no more than that is the true one.
            margin = int(np.ceil(depth))
            around = _grown(slices, margin, self.mask.shape)
            after = self.mask[around].copy()
            row, column = slices[0].start - around[0].start, slices[1].start - around[1].start
            inner = slice(row, row + area.shape[0]), slice(column, column + area.shape[1])
            after[inner] &= ~area
            found = float(distance_to(after)[inner][area].max()) if after.any() else 2 * depth
            if found <= margin or after.shape == self.mask.shape:
                return found
            depth = found


def _grown(slices: tuple[slice, slice], margin: int, shape: tuple[int, int]) -> tuple[slice, slice]:
    """A crop with a margin, clipped to the picture."""
    rows, columns = slices
    return (
        slice(max(0, rows.start - margin), min(shape[0], rows.stop + margin)),
        slice(max(0, columns.start - margin), min(shape[1], columns.stop + margin)),
    )


def _same_parts(small: Mask, large: Mask, connectivity: int) -> bool:
    """Whether each part of ``large`` holds just one part of ``small``, which lies within it."""
    counts = []
    for mask in (small, large):
        count, labels = cv2.connectedComponents(mask.astype(np.uint8), connectivity=connectivity)
        counts.append(count)
    return counts[0] == counts[1] and len(np.unique(labels[small])) == counts[1] - 1


_BESIDE = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (7, 7))
_SMALL = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (5, 5))
_LARGE = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (11, 11))
_ENDS = cv2.getStructuringElement(cv2.MORPH_RECT, (27, 27))


def _morph(mask: Mask, operation: int) -> Mask:
    return np.asarray(cv2.morphologyEx(mask.astype(np.uint8), operation, _LARGE).astype(bool))


def _part_at(area: Mask, yx: tuple[int, int]) -> Mask:
    """The 4-connected part of an area that holds a pixel."""
    _, labels = cv2.connectedComponents(area.astype(np.uint8), connectivity=4)
    return np.asarray(labels == labels[yx])


def _nearest_part(area: Mask, center_xy: tuple[int, int]) -> tuple[Mask, tuple[int, int]] | None:
    """The one part of a changed area, slivers left out, that is nearest to a place, and a pixel (y, x) of it.

    None where there is none.
    """
    opened = cv2.morphologyEx(area.astype(np.uint8), cv2.MORPH_OPEN, _SMALL)
    yx = np.argwhere(opened)
    if not len(yx):
        return None
    offset = yx - np.array(center_xy[::-1])
    y, x = yx[int(np.argmin(np.square(offset).sum(axis=1)))]
    seed = int(y), int(x)
    part = _part_at(opened.astype(bool), seed)
    # Opening cuts off the thin ends, where the area runs out along the outline, and leaves a step: grow them back.
    grown = cv2.dilate(part.astype(np.uint8), _ENDS).astype(bool)
    return _part_at(area & grown, seed), seed
