"""Zones and regions of the lungs, and the pixels of a lesion in them.

All rules use only the two lung masks, bool ``(H, W)`` at the size of the working image. Columns (x) count to the right
and rows (y) down. "Right" is the patient's right, which is on the left of the picture. The definitions are those of
CheXpercept (arXiv 2606.21020). A missing lung has no regions. The peripheral part of a lung lies lateral to its core
(:func:`lung_cores`); if a lung has no core, all of it is peripheral.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from chexqa.imaging.masks import components, window

Mask = npt.NDArray[np.bool_]

SIDES = ("right", "left")
ZONES = ("upper", "mid", "lower")
PARTS = ("medial", "lateral", "peripheral")
ANGLE = "costophrenic_angle"
REGIONS: tuple[str, ...] = tuple(
    name
    for side in SIDES
    for name in (*(f"{side}_{zone}_{part}" for zone in ZONES for part in PARTS), f"{side}_{ANGLE}")
)


def side_of(region: str) -> str:
    """Return the side of a region, ``"right"`` or ``"left"``."""
    return region.split("_", 1)[0]


def zone_of(region: str) -> str:
    """Return the name of the zone in which a region lies; a costophrenic angle belongs to the lower zone."""
    side, rest = region.split("_", 1)
    return f"{side}_lower" if rest == ANGLE else f"{side}_{rest.split('_')[0]}"


def height_of(region: str) -> str:
    """Return the third of the lung that a region lies in: upper, mid or lower."""
    return zone_of(region).split("_", 1)[1]


def part_of(region: str) -> str:
    """Return which part of its zone a region is: an entry of ``PARTS``, or ``ANGLE`` for a costophrenic angle."""
    return ANGLE if region.endswith(ANGLE) else region.rsplit("_", 1)[1]


@dataclass(frozen=True)
class Lungs:
    """Two lung masks ``(H, W)``; a missing lung is all False."""

    right: Mask
    left: Mask

    def side(self, side: str) -> Mask:
        """Return the mask of the lung on ``side``, ``"right"`` or ``"left"``."""
        return self.right if side == "right" else self.left


def grow_lungs(lungs: Lungs, lesion: Mask) -> Lungs:
    """Return the lungs, each enlarged by the 4-connected lesion components that touch it.

    A lung mask can leave out parts of the lung that a lesion makes opaque; the enlarged mask includes these parts.
    """
    if not lesion.any():
        return lungs
    around = window(lesion)

    def grown(lung: Mask) -> Mask:
        result = lung.copy()
        result[around] |= touching(lesion[around], lung[around])
        return result

    return Lungs(grown(lungs.right), grown(lungs.left))


def touching(area: Mask, part: Mask) -> Mask:
    """Return the 4-connected components of ``area`` that share a pixel with ``part``."""
    labels, count = components(area, 4)
    touched = np.zeros(count + 1, bool)
    touched[labels[part]] = True
    touched[0] = False
    return np.asarray(touched[labels])


def _row_range(mask: Mask) -> tuple[int, int]:
    rows = np.flatnonzero(mask.any(axis=1))
    return int(rows[0]), int(rows[-1])


def zone_rows(lung: Mask) -> tuple[int, int]:
    """Return the index of the upper zone's last row and of the mid zone's last row; the lung must not be empty."""
    top, bottom = _row_range(lung)
    height = bottom - top + 1
    return top + height // 3, top + 2 * height // 3


def _erosion_side(lung: Mask) -> int:
    """Return the side of the eroding square in pixels: half the lung's mean width at 1/3 and 2/3 of its height."""
    top, bottom = _row_range(lung)
    rows = (top + (bottom - top) // 3, top + 2 * (bottom - top) // 3)
    return int(float(np.mean([np.count_nonzero(lung[row]) for row in rows])) / 2)


def lung_cores(lungs: Lungs) -> Lungs:
    """Return the core of each lung: the largest component that remains of the lung after an erosion.

    The union of both lungs is eroded by a square. The side of the square is half the mean width of the right lung, or
    of the left lung if the right one is missing. A core can be all False.
    """
    reference = lungs.right if lungs.right.any() else lungs.left
    if not reference.any():
        return Lungs(reference, reference)
    side = max(1, _erosion_side(reference))
    anchor, reach = (side - 1) // 2, side // 2 + 1
    # The crop has a margin wide enough that no pixel reflected at its border is lung.
    around = _window_of_both(lungs, reach)
    union = (lungs.right[around] | lungs.left[around]).view(np.uint8)
    # BORDER_REFLECT repeats the edge pixel.
    after = side - 1 - anchor
    padded = cv2.copyMakeBorder(union, anchor, after, anchor, after, cv2.BORDER_REFLECT)
    inner = _erode(np.asarray(padded, np.uint8), side).view(np.bool_)

    def core(lung: Mask) -> Mask:
        result = np.zeros_like(lung)
        result[around] = _largest(inner & lung[around])
        return result

    return Lungs(core(lungs.right), core(lungs.left))


def _window_of_both(lungs: Lungs, margin: int) -> tuple[slice, slice]:
    """Return the rows and columns of the box around both lungs and a margin; at least one lung must not be empty."""
    rows, columns = zip(*(window(lung, margin) for lung in (lungs.right, lungs.left) if lung.any()), strict=True)
    return (
        slice(min(part.start for part in rows), max(part.stop for part in rows)),
        slice(min(part.start for part in columns), max(part.stop for part in columns)),
    )


def _erode(padded: npt.NDArray[np.uint8], side: int) -> npt.NDArray[np.uint8]:
    """Return a mask (0 or 1) of the upper left corners of all squares of ones that are ``side`` pixels wide.

    The result has ``side - 1`` fewer rows and columns. The function looks for runs of ones and doubles their length in
    each step, which takes a third of the time of ``cv2.erode``.
    """
    result, run = padded, 1
    while run < side:
        step = min(run, side - run)
        result = result[step:] & result[:-step]
        run += step
    run = 1
    while run < side:
        step = min(run, side - run)
        result = result[:, step:] & result[:, :-step]
        run += step
    return result


def _largest(mask: Mask) -> Mask:
    """Return the largest 8-connected component; among components of equal size, the first in reading order."""
    if not mask.any():
        return mask
    around = window(mask)
    result = np.zeros_like(mask)
    result[around] = _largest_within(mask[around])
    return result


def _largest_within(mask: Mask) -> Mask:
    labels, count = components(mask, 8)
    if count == 1:
        return mask
    sizes = np.bincount(labels.ravel())
    sizes[0] = 0
    largest = np.flatnonzero(sizes == sizes.max())
    if len(largest) == 1:
        return np.asarray(labels == largest[0])
    # cv2 numbers components by pairs of rows, so the first in reading order must be found separately.
    equals = np.isin(labels, largest)
    return np.asarray(labels == labels.ravel()[int(np.argmax(equals))])


@dataclass(frozen=True)
class Frame:
    """Lines that divide one lung into regions; a pixel's row and column determine its regions.

    - ``zone_of_row`` (H,): 0 for upper, 1 for mid, 2 for lower zone.
    - ``cut``: the column between the medial and the lateral part.
    - ``rim`` (H,): the innermost column of the peripheral part in each row.
    - ``angle_row``: the first row of the costophrenic angle.
    """

    side: str
    zone_of_row: npt.NDArray[np.intp]
    cut: int
    rim: npt.NDArray[np.intp]
    angle_row: int

    def parts(self, rows: npt.NDArray[np.intp], columns: npt.NDArray[np.intp]) -> tuple[Mask, Mask]:
        """Return two bool arrays for the pixels at ``rows`` and ``columns``.

        The first array is True for lateral pixels, and the second for peripheral pixels. The values are valid only for
        pixels in the lung.
        """
        if self.side == "right":
            return np.asarray(columns < self.cut), np.asarray(columns <= self.rim[rows])
        return np.asarray(columns >= self.cut), np.asarray(columns >= self.rim[rows])

    @property
    def names(self) -> list[str]:
        """Return the names of the regions on the lung's side, in the order of ``REGIONS``."""
        return [name for name in REGIONS if side_of(name) == self.side]


def frames(lungs: Lungs) -> dict[str, Frame]:
    """Return the lines (:class:`Frame`) that divide each non-empty lung into regions, keyed by ``right`` and
    ``left``.
    """
    cores = lung_cores(lungs)
    return {side: _frame(lungs.side(side), cores.side(side), side) for side in SIDES if lungs.side(side).any()}


def _frame(lung: Mask, core: Mask, side: str) -> Frame:
    lung_rows, lung_columns = window(lung)
    top, bottom = lung_rows.start, lung_rows.stop - 1
    upper_end, mid_end = zone_rows(lung)
    rows = np.arange(lung.shape[0])
    return Frame(
        side=side,
        zone_of_row=(rows > upper_end).astype(np.intp) + (rows > mid_end),
        cut=(lung_columns.start + lung_columns.stop - 1) // 2,
        rim=_rim(core, side),
        angle_row=top + int(0.75 * (bottom - top)),
    )


def _rim(core: Mask, side: str) -> npt.NDArray[np.intp]:
    """Return the innermost peripheral column of each row ``(H,)``; with an empty core all columns are peripheral."""
    height, width = core.shape
    outwards = -1 if side == "right" else 1
    if not core.any():
        return np.full(height, width - 1 if side == "right" else 0)
    rows, columns = window(core)
    inside = core[rows, columns]
    if side == "right":
        outermost = columns.start + np.argmax(inside, axis=1)
    else:
        outermost = columns.stop - 1 - np.argmax(inside[:, ::-1], axis=1)
    rim = np.empty(height, np.intp)
    rim[rows] = outermost + outwards
    # Rows above and below the core take the column of the core's first and last row.
    rim[: rows.start + 1] = outermost[0]
    rim[rows.stop - 1 :] = outermost[-1]
    return rim


def regions(lungs: Lungs) -> dict[str, Mask]:
    """Return the masks ``(H, W)`` of up to 20 regions of both lungs, keyed by name, in the order of ``REGIONS``.

    A region can be empty. Each lung has three zones, each divided into a medial and a lateral part. A zone's peripheral
    part and the costophrenic angle overlap these two parts.
    """
    found = {}
    for side, frame in frames(lungs).items():
        lung = lungs.side(side)
        rows, columns = window(lung)
        inside = lung[rows, columns]
        lateral, peripheral = frame.parts(*np.ogrid[rows, columns])
        parts = (inside & ~lateral, inside & lateral, inside & peripheral)
        bands = np.searchsorted(frame.zone_of_row[rows], [0, 1, 2, 3])
        areas = [(part, slice(*band)) for band in itertools.pairwise(bands) for part in parts]
        areas.append((parts[2], slice(frame.angle_row - rows.start, None)))
        for name, (part, band) in zip(frame.names, areas, strict=True):
            found[name] = np.zeros_like(lung)
            found[name][rows, columns][band] = part[band]
    return found


def region_pixels(frame: Frame, inside: Mask, around: tuple[slice, slice]) -> dict[str, int]:
    """Return how many pixels of a mask lie in each region of one lung, keyed by region.

    - ``frame``: the lines that divide the lung into regions.
    - ``inside``: the mask, cropped to ``around``; it must lie completely in the lung.
    - ``around``: the rows and columns of the crop in the picture.
    """
    rows, columns = around
    halves = np.split(inside, [np.clip(frame.cut - columns.start, 0, inside.shape[1])], axis=1)
    lateral, medial = halves if frame.side == "right" else halves[::-1]
    _, peripheral = frame.parts(*np.ogrid[rows, columns])
    # Zones and the angle are bands of rows, so counts by row are enough.
    by_row = [_row_counts(part) for part in (medial, lateral, inside & peripheral)]
    zone = frame.zone_of_row[rows]
    counts = [int(part[zone == number].sum()) for number in range(len(ZONES)) for part in by_row]
    counts.append(int(by_row[2][max(0, frame.angle_row - rows.start) :].sum()))
    return dict(zip(frame.names, counts, strict=True))


def _row_counts(mask: Mask) -> npt.NDArray[np.int32]:
    """Return the number of True pixels in each row, ``(H,)``; a mask without columns gives zeros."""
    if not mask.size:
        return np.zeros(mask.shape[0], np.int32)
    return np.asarray(cv2.reduce(mask.view(np.uint8), 1, cv2.REDUCE_SUM, dtype=cv2.CV_32S), np.int32).ravel()
