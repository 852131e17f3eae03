"""Attributes of a lesion from its overlap with the lungs: distribution, location, severity, comparison.

Rule ``component`` (CheXpercept, arXiv 2606.21020): the lesion's 4-connected components are judged one by one, small
ones dropped. Shares are covered pixels over pixels of the region or lung; lungs are grown by the lesion beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from chexqa.anatomy import REGIONS, SIDES, Lungs, grow_lungs, regions, side_of, zone_of

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Measures:
    """What was measured of one case; JSON-ready.

    ``components``: pixels and share of every region it touches, for each component kept. ``involved``: regions.
    ``lung_share``: covered share of each lung that exists. ``lung_area``: covered pixels of each such lung.
    """

    components: tuple[dict[str, Any], ...]
    involved: tuple[str, ...]
    lung_share: dict[str, float]
    lung_area: dict[str, int]

    @property
    def zones(self) -> int:
        """Number of zones, of six, with an involved region."""
        return len({zone_of(region) for region in self.involved})

    @property
    def sides(self) -> tuple[str, ...]:
        """Sides with an involved region, right first."""
        present = {side_of(region) for region in self.involved}
        return tuple(side for side in SIDES if side in present)


def measure(lesion: Mask, lungs: Lungs, recipe: dict[str, Any]) -> Measures:
    """Measure a lesion ``(H, W)`` against the lungs as drawn; ``recipe``: the ``attributes`` table of a recipe."""
    kept = _components(lesion, recipe["min_component"] * max(lesion.shape) ** 2)
    lungs = grow_lungs(lungs, lesion)
    areas = {name: mask for name, mask in regions(lungs).items() if mask.any()}
    flat = {name: (np.flatnonzero(mask), int(np.count_nonzero(mask))) for name, mask in areas.items()}
    components, involved = [], set()
    for component in kept:
        covered = component.ravel()
        shares = {name: int(np.count_nonzero(covered[at])) / size for name, (at, size) in flat.items()}
        touched = {name: value for name, value in shares.items() if value > 0}
        components.append({"pixels": int(np.count_nonzero(component)), "regions": touched})
        involved |= _involved_by(touched, recipe["involved_share"])
    lung_share, lung_area = _lung_cover(kept, lungs, recipe["lung_share"])
    ordered = tuple(name for name in REGIONS if name in involved)
    return Measures(tuple(components), ordered, lung_share, lung_area)


def _components(lesion: Mask, least: float) -> list[Mask]:
    """4-connected components of at least ``least`` pixels, in reading order."""
    count, labels, stats, _ = cv2.connectedComponentsWithStats(lesion.astype(np.uint8), connectivity=4)
    return [labels == label for label in range(1, count) if stats[label, cv2.CC_STAT_AREA] >= least]


def _involved_by(touched: dict[str, float], least: float) -> set[str]:
    """The regions one component involves; one that involves none adds the region it covers most."""
    involved = {name for name, value in touched.items() if value >= least}
    if not involved and touched:
        return {max(touched, key=lambda name: touched[name])}
    return involved


def _lung_cover(components: list[Mask], lungs: Lungs, least: float) -> tuple[dict[str, float], dict[str, int]]:
    """Covered share and pixels of each lung that exists, by the components that cover at least ``least`` of it.

    Where no component reaches that share of any lung, all count: a small lesion lies somewhere all the same.
    """
    sizes = {side: int(np.count_nonzero(lungs.side(side))) for side in SIDES if lungs.side(side).any()}
    covers = {side: [int(np.count_nonzero(component & lungs.side(side))) for component in components] for side in sizes}
    counted = {side: [pixels for pixels in covers[side] if pixels >= least * sizes[side]] for side in sizes}
    if not any(counted.values()):
        counted = covers
    area = {side: sum(counted[side]) for side in sizes}
    return {side: area[side] / sizes[side] for side in sizes}, area


@dataclass(frozen=True)
class Attributes:
    """The drawn questions of one case and their right answers (option numbers), with what location shows."""

    distribution: int
    location_regions: tuple[str, ...]
    location: tuple[int, ...]
    severity_side: str
    severity: int
    comparison: int


SIMILAR, LEFT, RIGHT, SINGLE = 1, 2, 3, 4


def draw(measures: Measures, recipe: dict[str, Any], rng: np.random.Generator) -> Attributes | str:
    """Draw the questions, or say in a few words why they cannot be asked."""
    if not measures.components:
        return "every part of the lesion is smaller than 1,000 px of 1024 x 1024"
    if not measures.involved:
        return "the lesion involves no region of a lung"
    shown, right = _draw_location(measures.involved, recipe["location_options"], rng)
    side = _severity_side([shown[number - 1] for number in right], measures, rng)
    cuts = recipe["severity_cuts"]
    return Attributes(
        distribution=min(measures.zones, 4),
        location_regions=shown,
        location=right or (recipe["location_options"] + 1,),
        severity_side=side,
        severity=1 + sum(measures.lung_share[side] >= cut for cut in cuts),
        comparison=compare(measures.lung_area, recipe["larger_ratio"]),
    )


def _draw_location(
    involved: tuple[str, ...], options: int, rng: np.random.Generator
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Region names as shown and the numbers of the right ones: as many right ones as are drawn, evenly from none up."""
    others = [name for name in REGIONS if name not in involved]
    wanted = int(rng.integers(0, min(options, len(involved)) + 1))
    wanted = max(wanted, options - len(others))
    chosen = [str(name) for name in rng.permutation(list(involved))[:wanted]]
    chosen += [str(name) for name in rng.permutation(others)[: options - wanted]]
    shown = tuple(chosen[index] for index in rng.permutation(options))
    return shown, tuple(number for number, name in enumerate(shown, start=1) if name in involved)


def _severity_side(right: list[str], measures: Measures, rng: np.random.Generator) -> str:
    """The lung that is asked about: the side of location's right options, else an involved one, drawn."""
    sides = sorted({side_of(name) for name in right}) or sorted(measures.sides)
    return sides[0] if len(sides) == 1 else sides[int(rng.integers(len(sides)))]


def compare(area: dict[str, int], larger_ratio: float) -> int:
    """Which lung has the larger covered area (pixels by side), as an option number."""
    right, left = area.get("right", 0), area.get("left", 0)
    if right == 0 or left == 0:
        return SINGLE
    if left >= larger_ratio * right:
        return LEFT
    return RIGHT if right >= larger_ratio * left else SIMILAR
