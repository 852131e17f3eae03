"""Zones, regions and the share of them that a lesion covers.

All rules come from the two lung masks alone, in pixels of the working image, x to the right, y down; "right" is the
patient's right, the left of the picture (definitions: CheXpercept, arXiv 2606.21020). Masks are ``(H, W)`` bool.
Policy for what is missing: a lung that is absent has no regions; a lung without a core is peripheral throughout.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

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
ZONE_NAMES: tuple[str, ...] = tuple(f"{side}_{zone}" for side in SIDES for zone in ZONES)


def side_of(region: str) -> str:
    """``"right"`` or ``"left"``."""
    return region.split("_", 1)[0]


def zone_of(region: str) -> str:
    """The zone a region lies in, such as ``"right_upper"``; a costophrenic angle counts as lower zone."""
    side, rest = region.split("_", 1)
    return f"{side}_lower" if rest == ANGLE else f"{side}_{rest.split('_')[0]}"


@dataclass(frozen=True)
class Lungs:
    """Two lung masks ``(H, W)``; a missing one is all False."""

    right: Mask
    left: Mask

    def side(self, side: str) -> Mask:
        """The lung of one side."""
        return self.right if side == "right" else self.left


def grow_lungs(lungs: Lungs, lesion: Mask) -> Lungs:
    """Each lung with every lesion component (4-connected) that shares a pixel with it: an opaque lung is still lung."""
    count, labels = cv2.connectedComponents(lesion.astype(np.uint8), connectivity=4)

    def grown(lung: Mask) -> Mask:
        touched = np.zeros(count, bool)
        touched[np.unique(labels[lung])] = True
        touched[0] = False
        return np.asarray(lung | touched[labels])

    return Lungs(grown(lungs.right), grown(lungs.left))


def _row_range(mask: Mask) -> tuple[int, int]:
    rows = np.flatnonzero(mask.any(axis=1))
    return int(rows[0]), int(rows[-1])


def zone_rows(lung: Mask) -> tuple[int, int]:
    """Last row of the upper and of the mid zone of a non-empty lung."""
    top, bottom = _row_range(lung)
    height = bottom - top + 1
    return top + height // 3, top + 2 * height // 3


def _erosion_side(lung: Mask) -> int:
    """The erosion square's side in pixels: half the mean width of the lung at one and two thirds of its height."""
    top, bottom = _row_range(lung)
    rows = (top + (bottom - top) // 3, top + 2 * (bottom - top) // 3)
    return int(float(np.mean([np.count_nonzero(lung[row]) for row in rows])) / 2)


def lung_cores(lungs: Lungs) -> Lungs:
    """What is left of each lung after eroding both by a square about half a lung wide; all False where nothing is."""
    empty = np.zeros_like(lungs.right)
    reference = lungs.right if lungs.right.any() else lungs.left
    if not reference.any():
        return Lungs(empty, empty)
    side = max(1, _erosion_side(reference))
    anchor = (side - 1) // 2
    union = (lungs.right | lungs.left).astype(np.uint8)
    # BORDER_REFLECT repeats the edge pixel; the pad makes the rule hold whatever erode does at its own border.
    pad = min(side, *union.shape)
    padded = cv2.copyMakeBorder(union, pad, pad, pad, pad, cv2.BORDER_REFLECT)
    eroded = cv2.erode(padded, np.ones((side, side), np.uint8), anchor=(anchor, anchor))
    inner = eroded[pad : pad + union.shape[0], pad : pad + union.shape[1]].astype(bool)
    return Lungs(_largest(inner & lungs.right), _largest(inner & lungs.left))


def _largest(mask: Mask) -> Mask:
    """The largest 8-connected component; the first in reading order where two are equal."""
    count, labels, stats, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=8)
    if count == 1:
        return mask
    return np.asarray(labels == 1 + int(np.argmax(stats[1:, cv2.CC_STAT_AREA])))


def _peripheral(lung: Mask, core: Mask, side: str) -> Mask:
    """The rim of a lung lateral to its core; the whole lung where the core is empty."""
    if side == "left":
        return _peripheral(lung[:, ::-1], core[:, ::-1], "right")[:, ::-1]
    if not core.any():
        return lung.copy()
    top, bottom = _row_range(core)
    leftmost = np.argmax(core, axis=1)
    limit = leftmost - 1
    limit[: top + 1] = leftmost[top]
    limit[bottom:] = leftmost[bottom]
    columns = np.arange(lung.shape[1])
    return np.asarray(lung & (columns[None, :] <= limit[:, None]))


def regions(lungs: Lungs) -> dict[str, Mask]:
    """The regions of both lungs by name (up to 20, in the order of ``REGIONS``), each ``(H, W)`` bool; may be empty.

    Medial and lateral parts split a zone; the peripheral part and the costophrenic angle overlap them.
    """
    cores = lung_cores(lungs)
    found: dict[str, Mask] = {}
    for side in SIDES:
        lung = lungs.side(side)
        if lung.any():
            found.update(_side_regions(lung, cores.side(side), side))
    return found


def _side_regions(lung: Mask, core: Mask, side: str) -> dict[str, Mask]:
    height, width = lung.shape
    top, bottom = _row_range(lung)
    columns = np.flatnonzero(lung.any(axis=0))
    cut = (int(columns[0]) + int(columns[-1])) // 2
    upper_end, mid_end = zone_rows(lung)
    bands = {
        "upper": slice(top, upper_end + 1),
        "mid": slice(upper_end + 1, mid_end + 1),
        "lower": slice(mid_end + 1, height),
    }
    x = np.arange(width)
    lateral = lung & ((x < cut) if side == "right" else (x >= cut))
    parts = {"medial": lung & ~lateral, "lateral": lateral, "peripheral": _peripheral(lung, core, side)}
    found = {}
    for zone, band in bands.items():
        for part, mask in parts.items():
            region = np.zeros_like(lung)
            region[band] = mask[band]
            found[f"{side}_{zone}_{part}"] = region
    angle = np.zeros_like(lung)
    first = top + int(0.75 * (bottom - top))
    angle[first:] = parts["peripheral"][first:]
    found[f"{side}_{ANGLE}"] = angle
    return found


def share(region: Mask, lesion: Mask) -> float:
    """Covered pixels over the pixels of the region; 0 for an empty region."""
    total = int(np.count_nonzero(region))
    return int(np.count_nonzero(region & lesion)) / total if total else 0.0
