"""Stability of keys: an item is stable if slightly larger or smaller masks give the same answer.

Lesion and lungs are each grown, kept or shrunk by a disc of 3 px (in a picture of 1024 px): nine combinations.
"""

from __future__ import annotations

import itertools

import cv2
import numpy as np
import numpy.typing as npt

from chexqa.generators.attributes import attribute_keys, grid
from chexqa.generators.attributes.attribute_keys import AttributeRules, Attributes, Ground, Part
from chexqa.imaging.anatomy import Lungs
from chexqa.imaging.masks import disc, window

Mask = npt.NDArray[np.bool_]

NOISE = 3 / 1024  # share of the longer side
SHRUNK, KEPT, GROWN = VARIANTS = (-1, 0, 1)


def noise_radius(shape: tuple[int, ...]) -> int:
    """Return the radius in pixels of the disc that grows or shrinks the masks of a picture of ``shape``."""
    return max(1, round(NOISE * max(shape)))


def variants(mask: Mask, radius: int) -> dict[int, Mask]:
    """Return the mask ``(H, W)`` shrunk (-1), kept (0) and grown (1) by a disc of the given radius."""
    if not mask.any():
        return dict.fromkeys(VARIANTS, mask)
    around = window(mask, radius + 1)
    plain, kernel = mask[around].view(np.uint8), disc(radius)
    shrunk, grown = np.zeros_like(mask), np.zeros_like(mask)
    # Nothing is known outside the picture, so the picture's edge neither grows nor shrinks the mask.
    shrunk[around] = cv2.erode(plain, kernel, borderValue=1).view(np.bool_)
    grown[around] = cv2.dilate(plain, kernel, borderValue=0).view(np.bool_)
    return {SHRUNK: shrunk, KEPT: mask, GROWN: grown}


def stable_attributes(
    lesion: Mask, lungs: Lungs, drawn: Attributes, right: dict[str, tuple[int, ...]], rules: AttributeRules
) -> dict[str, bool]:
    """Return, for each kind, True if its ``right`` options stay the same when masks become slightly larger or smaller.

    Lesion and lungs are each shrunk, kept or grown: nine combinations. All kinds are False if a component of the lesion
    vanishes, appears, splits or merges.
    """
    radius, least = noise_radius(lesion.shape), attribute_keys.least_pixels(lesion.shape, rules)
    # The window holds the largest masks plus one row of background, since the erosion of the cores must meet
    # background.
    around = window(lesion | lungs.right | lungs.left, radius + 1)
    lesions = {name: attribute_keys.parts_of(mask) for name, mask in variants(lesion[around], radius).items()}
    stable = dict.fromkeys(right, True)
    if not _same_parts(lesions, least):
        return dict.fromkeys(right, False)
    pairs = zip(*(variants(lung[around], radius).values() for lung in (lungs.right, lungs.left)), strict=True)
    for drawn_lungs, pair in zip(VARIANTS, pairs, strict=True):
        plain = Lungs(*pair)
        # A lesion inside the lungs does not change the lungs, so their ground is measured only once.
        ground_of_plain: Ground | None = None
        for drawn_lesion, all_parts in lesions.items():
            if (drawn_lesion, drawn_lungs) == (KEPT, KEPT) or not any(stable.values()):
                continue
            parts = [(part, attribute_keys.touched_sides(part, plain)) for part in all_parts]
            grown = attribute_keys.grow(plain, parts)
            if grown is plain:
                ground = ground_of_plain = ground_of_plain or Ground.of(plain)
            else:
                ground = Ground.of(grown)
            judged = attribute_keys.judge(attribute_keys.measure_parts(parts, ground, least), rules)
            other = attribute_keys.right_options(drawn, judged, rules)
            stable = {kind: same and other.get(kind) == right[kind] for kind, same in stable.items()}
    return stable


def _same_parts(lesions: dict[int, list[Part]], least: float) -> bool:
    """Return True if every part that counts matches exactly one part of each variant, and vice versa."""
    counting = {name: [part for part in parts if part.pixels >= least] for name, parts in lesions.items()}
    # The shrunk lesion lies in the kept one, which lies in the grown one, so each part lies in one larger part.
    return all(_one_to_one(counting[inner], counting[outer]) for inner, outer in itertools.pairwise(VARIANTS))


def _one_to_one(inner: list[Part], outer: list[Part]) -> bool:
    homes = {next(number for number, home in enumerate(outer) if _holds(home, part)) for part in inner}
    return len(homes) == len(inner) == len(outer)


def _holds(home: Part, part: Part) -> bool:
    """Return True if the part ``home`` contains the first pixel of ``part``."""
    y, x = part.around[0].start, part.around[1].start + int(np.argmax(part.mask[0]))
    (rows, columns), mask = home.around, home.mask
    inside = rows.start <= y < rows.stop and columns.start <= x < columns.stop
    return inside and bool(mask[y - rows.start, x - columns.start])


def stable_grid(source_mask: Mask, hit_share: float) -> bool:
    """Return True if the same cells of the grid are hits for the shrunk, the unchanged and the grown mask."""
    masks = variants(source_mask, noise_radius(source_mask.shape)).values()
    return len({grid.hits(grid.coverage(mask), hit_share) for mask in masks}) == 1
