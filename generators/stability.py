"""Would the answer be the same had the masks been drawn a little larger or smaller?

Lesion and lungs are each grown, kept or shrunk by a disc of 3 px of 1024: nine combinations, the lungs before they
grow by the lesion. An item is stable when its right options are the same in all nine.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from chexqa.anatomy import Lungs
from chexqa.generators import attributes, localization
from chexqa.generators.attributes import Attributes

Mask = npt.NDArray[np.bool_]

NOISE = 3 / 1024  # of the longer side
KEPT = 0


def variants(mask: Mask) -> dict[int, Mask]:
    """The mask shrunk (-1), kept (0) and grown (1)."""
    radius = max(1, round(NOISE * max(mask.shape)))
    disc = np.hypot(*np.mgrid[-radius : radius + 1, -radius : radius + 1]) <= radius
    kernel = disc.astype(np.uint8)
    plain = mask.astype(np.uint8)
    # Outside the picture nothing is known: its edge neither grows nor eats the mask.
    return {
        -1: cv2.erode(plain, kernel, borderValue=1).astype(bool),
        0: mask,
        1: cv2.dilate(plain, kernel, borderValue=0).astype(bool),
    }


def stable_attributes(lesion: Mask, lungs: Lungs, drawn: Attributes, recipe: dict[str, Any]) -> dict[str, bool]:
    """For every attribute question that is asked, whether its right options are the same in all nine combinations.

    Where a component vanishes, appears, splits or merges, none is.
    """
    lesions = variants(lesion)
    rights, lefts = variants(lungs.right), variants(lungs.left)

    def right(grown: int, lung: int) -> dict[str, tuple[int, ...]]:
        if not lesions[grown].any():
            return {}
        measures = attributes.measure(lesions[grown], Lungs(rights[lung], lefts[lung]), recipe)
        return attributes.right_options(drawn, attributes.judge(measures, recipe), recipe)

    base = right(KEPT, KEPT)
    if not _same_components(lesions, recipe["min_component"] * max(lesion.shape) ** 2):
        return dict.fromkeys(base, False)
    others = [right(grown, lung) for grown in lesions for lung in rights if (grown, lung) != (KEPT, KEPT)]
    return {kind: all(other.get(kind) == options for other in others) for kind, options in base.items()}


def _same_components(lesions: dict[int, Mask], least: float) -> bool:
    """Whether every component that counts overlaps exactly one of each variant, and the other way round."""

    def labels(mask: Mask) -> npt.NDArray[np.int32]:
        _, found, stats, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=4)
        small = np.flatnonzero(stats[:, cv2.CC_STAT_AREA] < least)
        found[np.isin(found, small)] = 0
        return np.asarray(found)

    kept = labels(lesions[KEPT])
    return all(_one_to_one(kept, labels(mask)) for name, mask in lesions.items() if name != KEPT)


def _one_to_one(first: npt.NDArray[np.int32], second: npt.NDArray[np.int32]) -> bool:
    both = (first > 0) & (second > 0)
    pairs = np.unique(np.stack([first[both], second[both]]), axis=1)
    sides = (pairs[0], pairs[1], first[first > 0], second[second > 0])
    return all(len(np.unique(labels)) == pairs.shape[1] for labels in sides)


def stable_grid(source_mask: Mask, hit_share: float) -> bool:
    """Whether the hit cells are the same with the mask shrunk, kept and grown."""
    hits = {localization.hits(localization.coverage(mask), hit_share) for mask in variants(source_mask).values()}
    return len(hits) == 1
