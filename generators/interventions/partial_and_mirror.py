"""Keys of pictures with a part of the lesion filled, and of mirrored pictures.

The options stay the same. The keys follow from the recipe's rules and the changed masks. A question is asked again only
if its key changes and is clear.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from chexqa.generators.attributes import attribute_keys, stability
from chexqa.generators.attributes.attribute_keys import AttributeRules, Attributes, Judgement, Part
from chexqa.imaging.anatomy import SIDES, Lungs, grow_lungs, regions
from chexqa.imaging.masks import window

Gray = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
Keys = dict[str, tuple[int, ...]]
# Kinds of question that are asked of a part of the lesion, and of a mirrored picture.
KINDS = attribute_keys.OF_SIDES
_MARGIN = 0.12  # width of the margin around the lungs that a mirrored picture shows, in units of the lungs' width


@dataclass(frozen=True)
class Asked:
    """The attribute questions of a case, the key of each kind, and the recipe's rules."""

    drawn: Attributes
    right: Keys
    rules: AttributeRules


class PartialTarget(NamedTuple):
    """Part of a lesion that is filled in to make an altered picture.

    - ``filled``: the mask ``(H, W)`` of the part.
    - ``part``: the name of the part.
    - ``rest``: the mask ``(H, W)`` of the rest of the lesion.
    - ``keys``: the key of each kind of question for the altered picture.
    """

    filled: Mask
    part: str
    rest: Mask
    keys: Keys


def partial_target(lesion: Mask, lungs: Lungs, asked: Asked) -> PartialTarget | None:
    """Return the part of the lesion that changes the most keys if it is removed; None if no part changes a key clearly.

    If the lesion lies in both lungs, a part is everything in one lung. Otherwise a part is one component.
    """
    parts = attribute_keys.parts_of(lesion)
    least = attribute_keys.least_pixels(lesion.shape, asked.rules)
    # Stability takes most of the time, so the candidates that can change the most keys come first.
    candidates = []
    for place, (name, chosen) in enumerate(_removals(parts, lungs, least)):
        rest_parts = [part for part in parts if not any(part is one for one in chosen)]
        if not any(part.pixels >= least for part in rest_parts):
            continue
        rest = _joined(rest_parts, lesion.shape)
        new = _new_keys(rest, lungs, asked)
        candidates.append((-len(new.keys), place, name, rest, new))
    best: tuple[int, int, PartialTarget] | None = None
    for least_cost, place, name, rest, new in sorted(candidates, key=lambda one: one[:2]):
        if best is not None and (least_cost, place) > best[:2]:
            break
        keys = _stable(rest, lungs, asked, new)
        if keys and (best is None or (-len(keys), place) < best[:2]):
            best = -len(keys), place, PartialTarget(lesion & ~rest, name, rest, keys)
    return None if best is None else best[2]


def _removals(parts: list[Part], lungs: Lungs, least: float) -> list[tuple[str, list[Part]]]:
    """Return the sets of components that may be filled, each with its name."""
    sides = [attribute_keys.touched_sides(part, lungs) for part in parts]
    found = []
    for side in SIDES:
        of_side = [part for part, touched in zip(parts, sides, strict=True) if touched == (side,)]
        others = [touched for touched in sides if touched and touched != (side,)]
        if of_side and others and SIDES not in others:
            found.append((side, of_side))
    counted = [part for part in parts if part.pixels >= least]
    if len(counted) > 1:
        found += [("component", [part]) for part in counted]
    return found


def _joined(parts: list[Part], shape: tuple[int, ...]) -> Mask:
    made = np.zeros(shape, bool)
    for part in parts:
        made[part.around] |= part.mask
    return made


class _NewKeys(NamedTuple):
    """Clear keys that differ from the original item's keys, keyed by kind, and the judgement from which they follow."""

    keys: Keys
    judged: Judgement


def changed_keys(lesion: Mask, lungs: Lungs, asked: Asked) -> Keys:
    """Return the keys that the asked questions have for a changed lesion, keyed by kind.

    Keys that are the same as before, not clear, or not stable under noise in the masks are left out.
    """
    return _stable(lesion, lungs, asked, _new_keys(lesion, lungs, asked))


def _new_keys(lesion: Mask, lungs: Lungs, asked: Asked) -> _NewKeys:
    """Return the keys that differ from the original's keys and are clear."""
    rules, drawn = asked.rules, asked.drawn
    judged = attribute_keys.judge(attribute_keys.measure(lesion, lungs, rules), rules)
    keys = attribute_keys.options_of_the_rest(drawn, judged, rules)
    new = {kind: key for kind, key in keys.items() if kind in asked.right and key != asked.right[kind]}
    if "location" in new and not _is_clear(lesion, lungs, judged, asked):
        del new["location"]
    return _NewKeys(new, judged)


def _stable(lesion: Mask, lungs: Lungs, asked: Asked, new: _NewKeys) -> Keys:
    """Return the new keys that are stable."""
    if not new.keys:
        return {}
    right = attribute_keys.right_options(asked.drawn, new.judged, asked.rules)
    stable = stability.stable_attributes(lesion, lungs, asked.drawn, right, asked.rules)
    return {kind: answer for kind, answer in new.keys.items() if stable.get(kind)}


def _is_clear(lesion: Mask, lungs: Lungs, judged: Judgement, asked: Asked) -> bool:
    """Return True if every region that the location question shows is clearly involved or clearly free."""
    rules, shown = asked.rules, asked.drawn.location or ()
    if rules.rule == "component":
        return True
    union = judged.measures.union
    distances = attribute_keys.clearances(lesion, regions(grow_lungs(lungs, lesion)))
    return all(
        name in judged.involved or (union.get(name) == 0 and distances.get(name, 0.0) >= rules.clear_distance)
        for name in shown
    )


def mirrored_keys(lesion: Mask, lungs: Lungs, asked: Asked) -> Keys:
    """Return the keys of the mirrored picture as :func:`changed_keys` does."""
    return changed_keys(np.ascontiguousarray(lesion[:, ::-1]), mirrored_lungs(lungs), asked)


def mirrored_lungs(lungs: Lungs) -> Lungs:
    """Return the lungs of the picture mirrored left to right; the left lung becomes the right lung, and vice versa."""
    return Lungs(np.ascontiguousarray(lungs.left[:, ::-1]), np.ascontiguousarray(lungs.right[:, ::-1]))


def mirrored(image: Gray, lungs: Lungs) -> Gray:
    """Return the radiograph ``(H, W)`` mirrored left to right, black beyond a margin around the lungs."""
    both = lungs.right | lungs.left
    points = cv2.convexHull(np.argwhere(both)[:, ::-1].astype(np.int32))
    hull = cv2.fillConvexPoly(np.ones(both.shape, np.uint8), points, 0)
    columns = window(both)[1]
    # Side markers lie above the shoulders or beside the chest, so they are hidden.
    shown = cv2.distanceTransform(hull, cv2.DIST_L2, 5) <= _MARGIN * (columns.stop - columns.start)
    return np.ascontiguousarray(np.where(shown, image, 0)[:, ::-1])
