"""Attributes of a lesion from its overlap with the lungs: distribution, location, severity, comparison.

A recipe chooses one of two rules:

- ``component`` (CheXpercept, arXiv 2606.21020) judges the lesion's 4-connected components one by one.
- ``union`` judges them together, and asks only about regions that are clearly involved or clearly free.

A share is the covered pixels of a region or lung divided by all its pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import cv2
import numpy as np
import numpy.typing as npt

from chexqa.contract.evidence import Component
from chexqa.generators.attributes import location_options
from chexqa.generators.contour.edits import distance_to
from chexqa.imaging.anatomy import REGIONS, SIDES, Frame, Lungs, frames, region_pixels, side_of, zone_of
from chexqa.imaging.masks import window

Mask = npt.NDArray[np.bool_]
Window = tuple[slice, slice]

SIMILAR, LEFT, RIGHT, SINGLE = 1, 2, 3, 4
# The kinds whose key depends on the side.
OF_SIDES = ("location", "severity", "comparison")
COMPARISON = ("similar", "left", "right", "single")


@dataclass(frozen=True)
class AttributeRules:
    """A recipe's settings for attributes.

    - ``rule``: ``component`` to measure each component of the lesion alone, ``union`` to measure all together.
    - ``min_component``: the smallest area of a component that counts, divided by the picture's longer side squared.
    - ``involved_share``: the smallest share of a region that a lesion must cover to involve the region.
    - ``clear_distance``: the smallest distance of a clearly free region from the lesion, divided by the longer side.
    - ``lung_share``: the smallest share of a lung that a lesion must cover to count for severity and comparison.
    - ``location_options``: the number of regions among the options.
    - ``severity_cuts``: the two covered shares of a lung at which the second and the third grade of severity begin.
    - ``larger_ratio``: the smallest ratio of the covered areas of both lungs at which one side counts as larger.
    """

    rule: Literal["component", "union"]
    min_component: float
    involved_share: float
    clear_distance: float
    lung_share: float
    location_options: int
    severity_cuts: tuple[float, float]
    larger_ratio: float


@dataclass(frozen=True)
class Measures:
    """Measures of one case, ready for JSON; without empty regions and missing lungs.

    - ``components``: the components that are large enough. Each has its number of ``pixels``, the covered share of each
      region (``regions``, without zeros), and its number of pixels in each lung (``lungs``).
    - ``regions``, ``lungs``: the number of pixels of each region and of each lung.
    """

    components: tuple[Component, ...]
    regions: dict[str, int]
    lungs: dict[str, int]

    @property
    def union(self) -> dict[str, float]:
        """Return the covered share of each region, summed over all components; keyed by the region's name."""
        return {name: sum(part.regions.get(name, 0.0) for part in self.components) for name in self.regions}


@dataclass(frozen=True)
class Part:
    """A 4-connected component of a lesion, with its number of ``pixels``.

    - ``around``: the smallest window of the picture that contains the component.
    - ``mask``: the component within this window, bool ``(h, w)``.
    """

    around: Window
    mask: Mask
    pixels: int


def parts_of(lesion: Mask) -> list[Part]:
    """Return the components of a lesion ``(H, W)``, which may be empty."""
    if not lesion.any():
        return []
    rows, columns = window(lesion)
    crop = lesion[rows, columns].view(np.uint8)
    _, labels, stats, _ = cv2.connectedComponentsWithStats(crop, connectivity=4)
    parts = []
    for label, (x, y, width, height, pixels) in enumerate(stats.tolist()[1:], start=1):
        box = labels[y : y + height, x : x + width]
        top, left = rows.start + y, columns.start + x
        parts.append(Part((slice(top, top + height), slice(left, left + width)), box == label, pixels))
    return parts


@dataclass(frozen=True)
class Ground:
    """The lungs that a lesion is measured on, each grown by the parts of the lesion that touch it.

    - ``frames``: the dividing lines between each lung's regions (:class:`Frame`), keyed by side.
    - ``regions``: the number of pixels of each region that is not empty, keyed by name.
    - ``lungs``: the number of pixels of each lung, keyed by side.
    """

    frames: dict[str, Frame]
    regions: dict[str, int]
    lungs: dict[str, int]

    @classmethod
    def of(cls, lungs: Lungs) -> Ground:
        """Return the ``Ground`` of two lung masks ``(H, W)`` that already contain the lesion parts (:func:`grow`)."""
        lines = frames(lungs)
        sizes: dict[str, int] = {}
        pixels: dict[str, int] = {}
        for side, frame in lines.items():
            lung = lungs.side(side)
            pixels[side] = int(np.count_nonzero(lung))
            around = window(lung)
            counts = region_pixels(frame, lung[around], around)
            sizes |= {name: count for name, count in counts.items() if count}
        return cls(lines, sizes, pixels)


def touched_sides(part: Part, lungs: Lungs) -> tuple[str, ...]:
    """Return the sides of the lungs that share a pixel with a lesion part."""
    return tuple(side for side in SIDES if (part.mask & lungs.side(side)[part.around]).any())


def grow(lungs: Lungs, parts: Iterable[tuple[Part, tuple[str, ...]]]) -> Lungs:
    """Return new masks of the lungs, each enlarged by the lesion parts that touch it.

    ``parts`` pairs each part with the sides (``right``, ``left``) of the lungs that it touches. If the lungs already
    contain all parts, the object ``lungs`` itself is returned.
    """
    grown: dict[str, Mask] = {}
    for part, sides in parts:
        for side in sides:
            if (part.mask & ~lungs.side(side)[part.around]).any():
                if side not in grown:
                    grown[side] = lungs.side(side).copy()
                grown[side][part.around] |= part.mask
    return Lungs(grown.get("right", lungs.right), grown.get("left", lungs.left)) if grown else lungs


def measure(lesion: Mask, lungs: Lungs, rules: AttributeRules) -> Measures:
    """Return the measures of a lesion ``(H, W)`` on the given lungs.

    ``rules`` is the ``attributes`` table of a recipe.
    """
    parts = [(part, touched_sides(part, lungs)) for part in parts_of(lesion)]
    return measure_parts(parts, Ground.of(grow(lungs, parts)), least_pixels(lesion.shape, rules))


def least_pixels(shape: tuple[int, ...], rules: AttributeRules) -> float:
    """Return the least number of pixels with which a part of a lesion counts, in a picture of ``shape``."""
    return float(rules.min_component * max(shape) ** 2)


def measure_parts(parts: Iterable[tuple[Part, tuple[str, ...]]], ground: Ground, least: float) -> Measures:
    """Return the measures of a lesion; parts of fewer than ``least`` pixels are left out.

    - ``parts``: each part of the lesion with the sides (right, left) that it touches.
    - ``ground``: the lungs, which must already include these parts.
    """
    components = tuple(_component(part, sides, ground) for part, sides in parts if part.pixels >= least)
    return Measures(components, ground.regions, ground.lungs)


def _component(part: Part, sides: tuple[str, ...], ground: Ground) -> Component:
    shares: dict[str, float] = {}
    for side in sides:
        pixels = region_pixels(ground.frames[side], part.mask, part.around)
        shares.update({name: count / ground.regions[name] for name, count in pixels.items() if count})
    inside = {side: part.pixels if side in sides else 0 for side in ground.frames}
    return Component(pixels=part.pixels, regions=shares, lungs=inside)


@dataclass(frozen=True)
class Judgement:
    """Regions and lungs of a case that count as affected under a recipe's rules.

    With the rule ``component``, a component may be too small to cover the threshold share of any region. Then one
    region counts as affected: the region of which it covers the largest share.

    - ``involved``: the affected regions in the order of ``REGIONS``.
    - ``lung_area``: the number of covered pixels of each given lung, keyed by side.
    - ``lung_share``: the covered share of each given lung, keyed by side.
    - ``by_small_components``: with the rule ``component``, the affected regions in which no component reaches the
      threshold share; otherwise empty.
    """

    measures: Measures
    involved: tuple[str, ...]
    lung_area: dict[str, int]
    lung_share: dict[str, float]
    by_small_components: tuple[str, ...] = ()

    @property
    def zones(self) -> int:
        """Return the number of zones, out of six, with an involved region."""
        return len({zone_of(region) for region in self.involved})


def judge(measures: Measures, rules: AttributeRules) -> Judgement:
    """Return the regions and lungs that count as affected under a recipe's rules; ``measures`` are those of a case."""
    least = rules.involved_share
    most: set[str] = set()
    if rules.rule == "component":
        reached = {name for part in measures.components for name, value in part.regions.items() if value >= least}
        most = {name for part in measures.components for name in _region_of_small(part.regions, least)} - reached
        involved = reached | most
        parts = [part.lungs for part in measures.components]
    else:
        involved = {name for name, value in measures.union.items() if value >= least}
        parts = [{side: sum(part.lungs[side] for part in measures.components) for side in measures.lungs}]
    area = _counted_area(parts, measures.lungs, rules.lung_share)
    share = {side: pixels / measures.lungs[side] for side, pixels in area.items()}
    in_order, by_most = (tuple(name for name in REGIONS if name in names) for names in (involved, most))
    return Judgement(measures, in_order, area, share, by_most)


def _region_of_small(touched: Mapping[str, float], least: float) -> set[str]:
    """Return the region that a component covers most; empty if it covers a share of ``least`` or more of a region."""
    if not touched or max(touched.values()) >= least:
        return set()
    return {max(touched, key=lambda name: (touched[name], -REGIONS.index(name)))}


def _counted_area(parts: Sequence[Mapping[str, int]], lungs: dict[str, int], least: float) -> dict[str, int]:
    """Return the covered pixels of each lung by the lesion parts that cover at least the share ``least`` of it.

    If no part reaches this share of any lung, all parts count.
    """
    counted = {side: [part[side] for part in parts if part[side] >= least * size] for side, size in lungs.items()}
    if not any(counted.values()):
        counted = {side: [part[side] for part in parts] for side in lungs}
    return {side: sum(pixels) for side, pixels in counted.items()}


@dataclass(frozen=True)
class Attributes:
    """The random choices for one case's attribute questions.

    - ``distribution``: False if the question cannot be asked fairly.
    - ``location``: the region names shown; None if the question cannot be asked fairly.
    - ``severity``: the side (right or left) that is asked about.
    - ``comparison``: the options in the order shown; empty if only one lung is given.
    """

    distribution: bool
    location: tuple[str, ...] | None
    severity: str
    comparison: tuple[str, ...]


def right_options(drawn: Attributes, judged: Judgement, rules: AttributeRules) -> dict[str, tuple[int, ...]]:
    """Return the correct option numbers of every question that is asked, keyed by kind."""
    right: dict[str, tuple[int, ...]] = {}
    if drawn.distribution:
        right["distribution"] = (min(judged.zones, 4),)
    if drawn.location is not None:
        named = tuple(number for number, name in enumerate(drawn.location, start=1) if name in judged.involved)
        right["location"] = named or (len(drawn.location) + 1,)
    covered = judged.lung_share.get(drawn.severity, 0.0)
    right["severity"] = (1 + sum(covered >= cut for cut in rules.severity_cuts),)
    if drawn.comparison:
        larger = COMPARISON[compare(judged.lung_area, rules.larger_ratio) - 1]
        right["comparison"] = (1 + drawn.comparison.index(larger),)
    return right


def options_of_the_rest(drawn: Attributes, judged: Judgement, rules: AttributeRules) -> dict[str, tuple[int, ...]]:
    """Return the correct options of a changed lesion for the kinds in :data:`OF_SIDES`, keyed by kind.

    The changed lesion is a part or the mirror image of the original lesion. Severity is left out if its question asks
    about a lung that the changed lesion does not reach.
    """
    right = right_options(drawn, judged, rules)
    if not judged.lung_share.get(drawn.severity):
        del right["severity"]
    return {kind: right[kind] for kind in OF_SIDES if kind in right}


def compare(area: dict[str, int], larger_ratio: float) -> int:
    """Return the answer to the comparison of the two lungs: RIGHT, LEFT, SIMILAR or SINGLE (only one lung is covered).

    ``area`` has the number of covered pixels, keyed by side.
    """
    right, left = area.get("right", 0), area.get("left", 0)
    if right == 0 or left == 0:
        return SINGLE
    if left >= larger_ratio * right:
        return LEFT
    return RIGHT if right >= larger_ratio * left else SIMILAR


def margins(drawn: Attributes, judged: Judgement, rules: AttributeRules) -> dict[str, float]:
    """Return the margin of each question: how far its deciding number is from the nearest threshold.

    A margin is ``abs(number - threshold) / threshold``.
    """
    shares = judged.measures.union
    if rules.rule == "component":
        parts = judged.measures.components
        shares = {name: max((part.regions.get(name, 0.0) for part in parts), default=0.0) for name in shares}
    of_zone: dict[str, float] = {}
    for name, share in shares.items():
        of_zone[zone_of(name)] = max(share, of_zone.get(zone_of(name), 0.0))
    least = rules.involved_share
    covered = judged.lung_share.get(drawn.severity, 0.0)
    return {
        "distribution": min(_off(share, least) for share in of_zone.values()),
        "location": min((_off(shares[name], least) for name in drawn.location or ()), default=1.0),
        "severity": min(_off(covered, cut) for cut in rules.severity_cuts),
        "comparison": _comparison_margin(judged, rules),
    }


def _off(value: float, threshold: float) -> float:
    return round(abs(value / threshold - 1), 4)


def _comparison_margin(judged: Judgement, rules: AttributeRules) -> float:
    """Return the margin of the comparison, the smallest over its numbers.

    These are each lung's covered share and, if both lungs are covered, the ratio of the two areas.
    """
    measures = judged.measures
    parts = [part.lungs for part in measures.components]
    if rules.rule == "union":
        parts = [{side: sum(part[side] for part in parts) for side in measures.lungs}]
    least = rules.lung_share
    found = [_off(max(part[side] for part in parts) / pixels, least) for side, pixels in measures.lungs.items()]
    areas = sorted(judged.lung_area.values())
    if len(areas) == len(SIDES) and areas[0] > 0:
        found.append(_off(areas[1] / areas[0], rules.larger_ratio))
    return min(found)


def draw(
    judged: Judgement, clearance: dict[str, float], rules: AttributeRules, rng: np.random.Generator
) -> Attributes | str:
    """Draw the attribute questions of a case at random; return a short reason instead if no question can be asked.

    ``clearance`` is the distance from the lesion to each region, as :func:`clearances` gives it.
    """
    measures = judged.measures
    if not measures.components:
        return "every part of the lesion is smaller than 1,000 px in a picture of 1024 x 1024 px"
    if not judged.involved:
        return "the lesion involves no region of a lung" + (" clearly" if rules.rule == "union" else "")
    both = len(measures.lungs) == len(SIDES)  # questions on both lungs have no known answer if one lung is missing
    if rules.rule == "component":
        if len(measures.regions) < rules.location_options:
            return "the given lungs have too few regions for a location question"
        # Only regions that exist are offered, because a lesion may or may not lie in a missing lung.
        others = [name for name in measures.regions if name not in judged.involved]
        union = measures.union
        free, touched = ([name for name in others if (union[name] > 0) == is_touched] for is_touched in (False, True))
        shown = location_options.draw(judged.involved, (free, touched), rules.location_options, rng)
        severity = _severity_side(shown, judged, rng)
        return Attributes(both, shown, severity, COMPARISON if both else ())
    union = measures.union
    clear = [name for name in union if union[name] == 0 and clearance[name] >= rules.clear_distance]
    doubtful = {zone_of(name) for name in union if name not in judged.involved and name not in clear}
    shown_or_none = location_options.draw_apart(judged.involved, clear, rules.location_options, rng)
    return Attributes(
        distribution=both and doubtful <= {zone_of(name) for name in judged.involved},
        location=shown_or_none,
        severity=_severity_side(shown_or_none or (), judged, rng),
        comparison=tuple(COMPARISON[index] for index in rng.permutation(len(COMPARISON))) if both else (),
    )


def _severity_side(shown: Iterable[str], judged: Judgement, rng: np.random.Generator) -> str:
    """Return a random side for the severity question: the side of one of the right location options.

    If no location option is right, return the side of one of the involved regions.
    """
    right = {side_of(name) for name in shown if name in judged.involved}
    sides = sorted(right or {side_of(name) for name in judged.involved})
    return sides[0] if len(sides) == 1 else sides[int(rng.integers(len(sides)))]


def clearances(lesion: Mask, regions: dict[str, Mask]) -> dict[str, float]:
    """Return the distance of a non-empty lesion to each non-empty region, in units of the picture's longer side."""
    distance = distance_to(lesion) / max(lesion.shape)
    return {name: float(distance[mask].min()) for name, mask in regions.items() if mask.any()}
