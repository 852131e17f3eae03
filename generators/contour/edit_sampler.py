"""Sampler of random edits of one mask, like the errors of a careless annotator.

There are four kinds of edit:

- *bump*: a smooth hump added outside the outline.
- *dent*: a smooth hump removed inside the outline.
- *cut*: a part that juts out is removed.
- *fill*: the outline runs straight across a bay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from chexqa.generators.contour.edits import (
    Edit,
    Field,
    Limits,
    Mask,
    Window,
    deepest_xy,
    depth_of,
    distance_to,
    embedded,
    framed,
    grown,
)
from chexqa.imaging.masks import components, pixels, window

Kind = Literal["bump", "dent", "cut", "fill"]
KINDS: tuple[Kind, ...] = ("bump", "dent", "cut", "fill")
ADDING: tuple[Kind, Kind] = ("bump", "fill")
TAKING: tuple[Kind, Kind] = ("dent", "cut")
_FLAT = ("cut", "fill")
_COARSE_RADIUS = 24  # coarse pixels across half a lesion
_MOST_STEP = 4
_COARSE_DEPTH = 5  # coarse pixels across an edit of an exact depth
_THIN = 6  # pixels; an edit with an exact depth below this would be a sliver
_SLACK = 0.7  # factor that relaxes the limits of a share in a coarse try, since its share is approximate
_TILT = np.radians(20)  # largest angle (about) between a cut or fill and the perpendicular to the outward direction
_TURNED = 0.03  # an outline is bent if the mask's share of the neighbourhood differs from 0.5 by more than this
_SLIM = 1.3, 1.8  # reach of a slim hump as a multiple of its depth
_EVERY = 5  # step between the border pixels that are considered as places of points
_SMOOTH = 0.4  # share of its depth over which a cut or fill is rounded into the outline

_WAVE = 10  # distance between the knots of every edit's unevenness, in pixels of a picture of 1024
_MOST_WAVE = 0.002  # largest amplitude of the unevenness (standard deviation), as a share of the side
_WAVE_OF_DEPTH = 0.1  # largest amplitude of the unevenness, as a share of an exact depth

# Function that returns the changed pixels. Its arguments, for each pixel: the distances down and right from the start,
# the signed distance from the outline, and the unevenness.
Change = Callable[[Field, Field, Field, Field], Mask]


class _Try(NamedTuple):
    """An edit to try.

    ``over`` is True if the edit adds an area. ``start`` is the row and column of a border pixel. ``reach`` is the
    distance in pixels from the start to the farthest pixel that may change.
    """

    over: bool
    start: tuple[int, int]
    reach: float
    change: Change


class EditSampler:
    """Sampler of edits of ``mask (H, W)``; ``field (H, W)`` has the pixels that an outline may cover.

    Two sampled edits may overlap.
    """

    def __init__(self, mask: Mask, field: Mask, limits: Limits, rng: np.random.Generator) -> None:
        self.mask, self.field, self.limits, self.rng = mask, field, limits, rng
        self.area = int(np.count_nonzero(mask))
        # Half a pixel on either side puts the zero of the signed distance on the border between pixels.
        inside, outside = depth_of(framed(mask, False))[1:-1, 1:-1], distance_to(mask)
        self.signed: Field = inside - outside + np.where(mask, np.float32(-0.5), np.float32(0.5))
        _, self.labels, stats, _ = cv2.connectedComponentsWithStats(mask.view(np.uint8), connectivity=8)
        self.part_area = stats[:, cv2.CC_STAT_AREA]
        radius = float(np.sqrt(self.part_area[1:].max() / np.pi))
        self.step = int(np.clip(radius / _COARSE_RADIUS, 1, _MOST_STEP))
        if limits.exact:
            self.step = min(self.step, max(1, int(limits.max_depth / _COARSE_DEPTH)))
        self.coarse_mask, self.coarse_field = (self._coarse(array) for array in (mask, field))
        self.coarse_signed: Field = np.ascontiguousarray(self.signed[:: self.step, :: self.step])
        self.waves = self._draw_waves()
        self.coarse_waves: Field = np.ascontiguousarray(self.waves[:: self.step, :: self.step])
        self._starts = self._find_starts(radius)
        # A sample of the border pixels (row, column) with room outside.
        self.places = self._starts["bump"][::_EVERY]

    def _draw_waves(self) -> Field:
        """Return smooth noise of standard deviation 1, which makes an edited piece uneven like a lesion's outline."""
        height, width = self.mask.shape
        cells = max(2, round(_WAVE * self.limits.side / 1024))
        knots = self.rng.standard_normal((height // cells + 3, width // cells + 3)).astype(np.float32)
        size = knots.shape[1] * cells, knots.shape[0] * cells
        waves = cv2.resize(knots, size, interpolation=cv2.INTER_CUBIC)[:height, :width]
        return np.asarray(waves / waves.std(), np.float32)

    def _wave(self) -> np.float32:
        """Return a random amplitude of an edit's unevenness in pixels, positive or negative."""
        most = _MOST_WAVE * self.limits.side
        if self.limits.exact:
            most = min(most, _WAVE_OF_DEPTH * self.limits.max_depth)
        return np.float32(self.rng.uniform(-1, 1) * most)

    def _find_starts(self, radius: float) -> dict[Kind, npt.NDArray[np.intp]]:
        """Return the border pixels ``(N, 2)``, row and column, at which an edit of each kind may start."""
        # Parts smaller than the smallest edit cannot be edited, so these parts are left out if there are larger parts.
        large = self.part_area >= self.limits.min_share * self.area
        large[0] = not large[1:].any()
        border = self.mask & (self.signed < 1)
        border[border] = large[self.labels[border]] | large[0]
        # At the field's border nothing can be added.
        room = cv2.dilate((self.field & ~self.mask).view(np.uint8), _BESIDE).view(bool)
        width = 2 * int(np.clip(radius / 4, 6, 40)) + 1
        # The mask's share of the neighbourhood: half along a straight outline, more in a bay.
        share = cv2.blur(self.mask.astype(np.float32), (width, width), borderType=cv2.BORDER_CONSTANT)
        juts, bays = border & (share < 0.5 - _TURNED), border & room & (share > 0.5 + _TURNED)
        starts = {"bump": border & room, "dent": border, "cut": juts, "fill": bays}
        return {kind: pixels(starts[kind]) for kind in KINDS}

    def _coarse(self, mask: Mask) -> Mask:
        """Return the mask sampled on every few pixels."""
        return np.ascontiguousarray(mask[:: self.step, :: self.step])

    def edit(self, kind: Kind, modest: bool = False, slim: bool = False) -> Edit | None:
        """Return a random edit of the given kind within all limits; None if the try fails.

        - ``modest``: True for a small edit.
        - ``slim``: True for a narrow and deep bump or dent, which makes the outline longer.
        """
        starts = self._starts[kind]
        if not len(starts):
            return None
        y, x = (int(value) for value in starts[self.rng.integers(len(starts))])
        attempt = self._flat(kind, (y, x), modest) if kind in _FLAT else self._bell(kind, (y, x), modest, slim)
        # A coarse grid of pixels is a cheap check of size and place before the edit is made on every pixel.
        found = self._coarsely(attempt)
        return None if found is None else self._finely(attempt, *found)

    def _bell(self, kind: Kind, start: tuple[int, int], modest: bool, slim: bool) -> _Try:
        """Return a hump of the signed distance, highest at the start and 0 at its reach."""
        limits, rng = self.limits, self.rng
        radius = float(np.sqrt(self.part_area[self.labels[start]] / np.pi))
        slimness = float(rng.uniform(*(_SLIM if slim else limits.reach_to_depth)))
        wanted = radius * float(rng.uniform(*limits.depth_to_size))
        # On a straight border a bump of depth d and reach s d has about s d^2 pixels, which gives the least depth.
        least = float(np.sqrt(1.25 * limits.min_share * self.area / slimness))
        # On a curved border the bump is smaller than intended, so the intended size is a little larger.
        least = max(least, 1.15 * limits.min_depth)
        depth = least if modest else min(max(wanted, least), max(limits.max_depth, least))
        width, over = depth * slimness, kind in ADDING
        # At the distance `depth` from the start the hump's height is `depth`, so the outline moves by exactly `depth`.
        height, wave = np.float32(depth / (1 - (depth / width) ** 2) ** 2), self._wave()

        def change(down: Field, right: Field, signed: Field, waves: Field) -> Mask:
            hump = np.maximum(0, 1 - (down * down + right * right) / np.float32(width**2))
            # The unevenness ends with the hump.
            hump = hump * hump * (height + wave * waves)
            return np.asarray(signed + hump > 0 if over else signed - hump <= 0)

        return _Try(over, start, width, change)

    def _flat(self, kind: Kind, start: tuple[int, int], modest: bool) -> _Try:
        """Return a cut (outside a line across the outward direction) or a fill (inside it), with rounded ends."""
        limits, rng, over = self.limits, self.rng, kind in ADDING
        share = float(rng.uniform(1.2, 1.5) * limits.min_share if modest else rng.uniform(0.06, 0.6 * limits.max_share))
        out_down, out_right = self._way_out(start)
        # A flat piece is longer along the outline than it is deep.
        reach = 2.5 * float(np.sqrt(share * self.area)) + limits.min_depth
        least = 1.1 * limits.min_depth
        depth = float(rng.uniform(least, max(limits.max_depth / (2 if modest else 1), least)))
        if not over and not limits.exact:
            depth = max(least, self._depth_of_share(start, (out_down, out_right), reach, share))
        round_over, wave = np.float32(max(_SMOOTH * depth, 4)), self._wave()

        def change(down: Field, right: Field, signed: Field, waves: Field) -> Mask:
            out = np.float32(out_down) * down + np.float32(out_right) * right + wave * waves
            # One sign for both kinds: a fill is a cut of the background.
            near, line = (-signed, out - np.float32(depth)) if over else (signed, -np.float32(depth) - out)
            blend = np.maximum(round_over - np.abs(near - line), 0)
            return np.asarray(np.minimum(near, line) - blend * blend / (4 * round_over) <= 0)

        return _Try(over, start, reach, change)

    def _way_out(self, start: tuple[int, int]) -> tuple[float, float]:
        """Return the unit vector (down, right) that points away from the lesion at ``start``, with a random tilt."""
        y, x = start
        far = 6
        height, breadth = self.mask.shape
        down = self.signed[max(0, y - far), x] - self.signed[min(height - 1, y + far), x]
        right = self.signed[y, max(0, x - far)] - self.signed[y, min(breadth - 1, x + far)]
        angle = float(np.arctan2(down, right)) + float(self.rng.uniform(-_TILT, _TILT))
        return float(np.sin(angle)), float(np.cos(angle))

    def _depth_of_share(self, start: tuple[int, int], out: tuple[float, float], reach: float, share: float) -> float:
        """Return the distance from the start to the line that cuts off the given share of the lesion."""
        around, down, right = self._coarse_window(start, reach)
        lesion = self.coarse_mask[around]
        outward = (np.float32(out[0]) * down + np.float32(out[1]) * right)[lesion]
        wanted = int(share * self.area / self.step**2)
        if not 0 < wanted < len(outward):
            return 0.0
        return -float(np.partition(outward, len(outward) - wanted)[len(outward) - wanted])

    def _coarse_window(self, start: tuple[int, int], reach: float) -> tuple[Window, Field, Field]:
        """Return a square window of coarse pixels around a pixel, and the distances from this pixel, down and right."""
        slices, offsets = [], []
        for place, length in zip(start, self.coarse_mask.shape, strict=True):
            low = max(0, int((place - reach) // self.step))
            high = min(length, int((place + reach) // self.step) + 2)
            slices.append(slice(low, high))
            offsets.append(np.arange(low, high, dtype=np.float32) * self.step - place)
        return (slices[0], slices[1]), offsets[0][:, None], offsets[1][None, :]

    def _coarsely(self, attempt: _Try) -> tuple[Window, tuple[int, int]] | None:
        """Return the window of the edit and a pixel deep inside the edit.

        Returns None if the edit's approximate size or place is wrong.
        """
        around, down, right = self._coarse_window(attempt.start, attempt.reach)
        mask, field = self.coarse_mask[around], self.coarse_field[around]
        area = attempt.change(down, right, self.coarse_signed[around], self.coarse_waves[around])
        area = area & field & ~mask if attempt.over else area & mask
        found = np.flatnonzero(area)
        least = _SLACK * self.limits.min_share * self.area / self.step**2
        if len(found) < least:
            return None
        far = down * down + right * right
        nearest = divmod(int(found[int(np.argmin(far.ravel()[found]))]), area.shape[1])
        part = _part_at(area, nearest)
        most = self.limits.max_share * self.area / self.step**2 / _SLACK
        if not least <= np.count_nonzero(part) <= most:
            return None
        # A hump ends by itself; a straight line that does not meet the outline within its reach never does.
        if bool((part & (far > (attempt.reach - self.step) ** 2)).any()):
            return None
        crop = window(part)
        deep = deepest_xy(part[crop])
        rows, columns = (
            slice(
                max(0, (own.start + inner.start) * self.step - 2 * self.step - 8),
                min(length, (own.start + inner.stop) * self.step + 2 * self.step + 8),
            )
            for own, inner, length in zip(around, crop, self.mask.shape, strict=True)
        )
        seed = around[0].start + crop[0].start + deep[1], around[1].start + crop[1].start + deep[0]
        return (rows, columns), (seed[0] * self.step, seed[1] * self.step)

    def _finely(self, attempt: _Try, around: Window, seed: tuple[int, int]) -> Edit | None:
        """Make and measure an edit on every pixel of a crop, and return the edit; None if it fails.

        ``seed``: a pixel (row, column) in the edit.
        """
        mask = self.mask[around]
        down = np.arange(around[0].start, around[0].stop, dtype=np.float32)[:, None] - attempt.start[0]
        right = np.arange(around[1].start, around[1].stop, dtype=np.float32)[None, :] - attempt.start[1]
        own = seed[0] - around[0].start, seed[1] - around[1].start
        allowed = self.field[around] & ~mask if attempt.over else mask
        changed = attempt.change(down, right, self.signed[around], self.waves[around]) & allowed
        is_thin = self.limits.exact and self.limits.min_depth < _THIN
        part = _part_or_none(changed, own) if is_thin else _without_slivers(changed, own)
        if part is None:
            return None
        # Remove cracks between a bump and the mask, and thorns beside a dent, which a drawing hand does not make.
        rounded = _morph(mask | part, cv2.MORPH_CLOSE) if attempt.over else ~_morph(mask & ~part, cv2.MORPH_OPEN)
        part = _part_at((rounded & allowed) | part, own)
        crop = window(part)
        row, column = around[0].start + crop[0].start, around[1].start + crop[1].start
        area = np.ascontiguousarray(part[crop])
        return self._measured(
            attempt.over, (slice(row, row + area.shape[0]), slice(column, column + area.shape[1])), area
        )

    def _measured(self, over: bool, slices: Window, area: Mask) -> Edit | None:
        """Return the measured edit; None if it breaks a limit, splits, merges or removes a part, or makes a hole."""
        limits = self.limits
        share = int(np.count_nonzero(area)) / self.area
        if not limits.min_share <= share <= limits.most(over):
            return None
        if not self._keeps_parts(over, slices, area):
            return None
        # The largest distance of the area from the mask (an addition), or from the rest of the mask (a removal).
        depth = float((0.5 - self.signed[slices])[area].max()) if over else self._depth_of_cut(slices, area)
        if depth < limits.min_depth or (limits.exact and depth > limits.max_depth):
            return None
        corner = slices[1].start, slices[0].start
        dx, dy = deepest_xy(area)
        return Edit(over, corner, area, (corner[0] + dx, corner[1] + dy), depth, share)

    def _keeps_parts(self, over: bool, slices: Window, area: Mask) -> bool:
        """Return True if the edit keeps the parts of the lesion and of the background, counted as in ``part_count``.

        Parts that correspond one to one in the crop and its margin correspond in the whole picture, since all changes
        lie in the crop.
        """
        around = grown(slices, 1, self.mask.shape)
        before, changed = self.mask[around], embedded(area, slices, around)
        # One more row and column on every side: everything outside the picture is background.
        small, large = (before, before | changed) if over else (before & ~changed, before)
        less, more = framed(~large, True), framed(~small, True)
        kept = _parts_kept(small, large, 4)
        # A single 4-connected part is also 8-connected; only with several parts may two meet at a corner.
        return kept > 0 and (kept == 1 or _parts_kept(small, large, 8) > 0) and _parts_kept(less, more, 4) > 0

    def _depth_of_cut(self, slices: Window, area: Mask) -> float:
        """Return the largest distance of a removed area from the rest of the mask, in pixels."""
        depth = 2 * self.limits.min_depth  # pixels; enough for most edits
        while True:
            # The crop holds everything within `depth` of the area, so a distance up to that is exact.
            margin = int(np.ceil(depth))
            around = grown(slices, margin, self.mask.shape)
            gone = embedded(area, slices, around)
            after = self.mask[around] & ~gone
            found = float(distance_to(after)[gone].max()) if after.any() else 2 * depth
            if found <= margin or after.shape == self.mask.shape:
                return found
            depth = found


_BESIDE = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (7, 7))
_SMALL = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (5, 5))
_LARGE = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (11, 11))
_ENDS = cv2.getStructuringElement(cv2.MORPH_RECT, (27, 27))
_FILLED = 2  # a value that marks neither the inside nor the outside of an area


def _morph(mask: Mask, operation: int) -> Mask:
    return np.asarray(cv2.morphologyEx(mask.view(np.uint8), operation, _LARGE).view(bool))


def _part_at(area: Mask, yx: tuple[int, int]) -> Mask:
    """Return the 4-connected part of an area that contains the pixel ``yx``, a pixel of the area."""
    filled = area.view(np.uint8).copy()
    # Several times faster than labelling all parts.
    cv2.floodFill(filled, None, (yx[1], yx[0]), _FILLED, flags=4)
    return np.asarray(filled == _FILLED)


def _part_or_none(area: Mask, yx: tuple[int, int]) -> Mask | None:
    """Return the part of an area that contains the pixel ``yx``; None if the pixel is outside."""
    return _part_at(area, yx) if area[yx] else None


def _without_slivers(area: Mask, yx: tuple[int, int]) -> Mask | None:
    """Return the part of a changed area that contains ``yx``, without slivers.

    Returns None if the pixel ``yx`` is in a sliver.
    """
    opened = cv2.morphologyEx(area.view(np.uint8), cv2.MORPH_OPEN, _SMALL)
    if not opened[yx]:
        return None
    part = _part_at(opened.view(bool), yx)
    # Opening removes the thin ends along the outline and leaves a step there: grow the ends back.
    ends = cv2.dilate(part.view(np.uint8), _ENDS).view(bool)
    return _part_at(area & ends, yx)


def _parts_kept(small: Mask, large: Mask, connectivity: int) -> int:
    """Return the number of parts of ``large`` if each of them contains exactly one part of ``small``; otherwise 0.

    ``small`` is a subset of ``large``.
    """
    _, before = components(small, connectivity)
    labels, after = components(large, connectivity)
    if before != after:
        return 0
    # With one part each, nothing needs to be checked.
    held = np.bincount(labels[small], minlength=after + 1)[1:] if after > 1 else np.ones(after)
    return after if held.all() else 0
