"""The coloured points of a revision: those that mark a true edit, and others that must not be told from them.

Others lie about as far from the outline as the deepest place of an edit that could as well have been true. Of many such
places a few are chosen: as many inside the outline as outside, and so that a true point is on its side of the outline
the most isolated as often as the least, and the farthest from the outline as often as the nearest.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chexqa.generators.contour.edit_sampler import Surgeon
from chexqa.generators.contour.edit_sets import Errors
from chexqa.generators.contour.edits import Edit, Field, Mask, depth_of, distance_to
from chexqa.generators.contour.raking import balanced
from chexqa.imaging import overlays
from chexqa.imaging.colors import POINT_COLORS
from chexqa.imaging.masks import pixels

Place = tuple[int, int]  # x, y
Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.floating[Any]]
_FREE = 16  # places looked at on either side of the outline
_MISS = 3  # pixels by which a place may miss the depth wanted of it, where there are others
_UNLIKE = 1.1  # times as deep as an edit's place at the most, so that no two are as deep to the pixel
_BESIDE = 1.2  # times the least distance between points
_HANDS = 60  # choices of places looked at
_DRAWN = 4  # outlines drawn to know how far from one a place will seem
# Share of the others to lie outside, as aimed at. 56 % of true points do, as there is more to take away from a lesion
# than room to add; the places that are left allow only part of the aim.
_OUTSIDE = 0.6


@dataclass(frozen=True)
class PointRules:
    """A recipe's numbers of points: how many, and the least distances over the picture's longer side.

    ``min_distance``: between two points. ``min_clearance``: between a point that marks no edit and every edit.
    """

    max: int
    min: int
    min_distance: float
    min_clearance: float


class Standing(NamedTuple):
    """Numbers of true points and of others on a side, and in how many pairs of the two sorts the true one is above."""

    true: int
    others: int
    above: int


@dataclass(frozen=True)
class Point:
    """A coloured point. ``edit``: the number of the true edit it marks, None where nothing is wrong."""

    xy: Place
    color: str
    edit: int | None
    inside: bool
    distance: float


def draw_points(
    surgeon: Surgeon, suboptimal: Mask, edits: Sequence[Edit], true: Errors, alike: Errors, rules: PointRules,
    side: int,
) -> tuple[Point, ...] | None:  # fmt: skip
    """The true points and as many others as are wanted and fit; None where not even one other fits.

    ``true``: the numbers of the suboptimal mask's edits; ``alike``: of those that could as well have been true, and of
    those that are; ``side``: the whole picture's longer side, which the lengths of the rules refer to.
    """
    rng = surgeon.rng
    wanted = int(rng.integers(max(len(true) + 1, rules.min), rules.max + 1))
    spacing = rules.min_distance * side
    to_outline: Field = np.where(suboptimal, depth_of(suboptimal), distance_to(suboptimal))
    own = [edits[number].point_xy for number in true]
    blocked = _near([edits[number] for number in true], rules.min_clearance * side, suboptimal.shape)
    free = surgeon.field & ~blocked
    peers = [edits[number].point_xy for number in alike]
    places, together = _candidates(surgeon, suboptimal, free, to_outline, own, peers, spacing)
    if not places:
        return None
    inside, depths = (np.array([array[y, x] for x, y in [*own, *places]]) for array in (suboptimal, to_outline))
    seen = _as_drawn(suboptimal, [*own, *places], rng)
    chosen = choose(own, places, together, inside, seen, wanted - len(own), rng)
    shown = [*range(len(own)), *(len(own) + number for number in chosen)]
    colors = sorted(rng.choice(len(POINT_COLORS), size=len(shown), replace=False))
    everything = [*own, *places]
    # In the order of the colour table, colours dealt at random, so that neither tells anything.
    return tuple(
        Point(
            xy=everything[place],
            color=POINT_COLORS[color],
            edit=true[place] if place < len(true) else None,
            inside=bool(inside[place]),
            distance=round(float(depths[place]), 1),
        )
        for color, place in zip(colors, rng.permutation(shown), strict=True)
    )


def _as_drawn(mask: Mask, places: Sequence[Place], rng: np.random.Generator) -> Numbers:
    """Distance of places from the outline as a hand draws it, in pixels, the mean of a few hands.

    A drawn outline runs nearer to a place in a hump than the mask's border does: it is smooth, and wherever it strays
    to that place on any side of it counts.
    """
    xy = np.array(places, float)
    hands = [np.concatenate(overlays.hand_drawn(mask, rng)) for _ in range(_DRAWN)]
    found = [np.hypot(*(xy[:, None] - line[None, :]).transpose(2, 0, 1)).min(axis=1) for line in hands]
    return np.asarray(np.mean(found, axis=0))


def _near(edits: Iterable[Edit], distance: float, shape: tuple[int, int]) -> Mask:
    """Where any of the edits is at most so many pixels away."""
    near = np.zeros(shape, bool)
    for edit in edits:
        around, own = edit.within(distance, shape)
        near[around] |= own
    return near


def _candidates(
    surgeon: Surgeon, suboptimal: Mask, free: Mask, to_outline: Field, own: list[Place], peers: list[Place],
    spacing: float,
) -> tuple[list[Place], Flags]:  # fmt: skip
    """Places that keep their distance from the true points and edits, and which of them may be shown together."""
    found: list[tuple[Place, float]] = []
    for inside in (False, True):
        # As deep as what is wrong on this side could be: places drawn deeper or flatter would tell them apart.
        beside = [(x, y) for x, y in peers if suboptimal[y, x] == inside] or peers
        depths = [float(to_outline[y, x]) for x, y in beside]
        found += _free_places(surgeon, free & (suboptimal == inside), to_outline, own, spacing, depths)
    # Where little room is left it is far from the outline: rather fewer points than such as stand out.
    places = [xy for xy, miss in found if miss <= _MISS] or [xy for xy, _ in found]
    xy = np.array(places, float).reshape(-1, 2)
    return places, np.hypot(*(xy[:, None] - xy[None, :]).transpose(2, 0, 1)) >= spacing


def _free_places(
    surgeon: Surgeon, free: Mask, to_outline: Field, own: list[Place], spacing: float, depths: list[float]
) -> list[tuple[Place, float]]:
    """Places about as far from the outline as one of ``depths`` (by how much not), and far from the true points."""
    rng, limits = surgeon.rng, surgeon.limits
    rows, columns = pixels(free & (to_outline >= limits.min_depth / 2) & (to_outline <= limits.max_depth)).T
    deep, far = to_outline[rows, columns], np.min([(columns - x) ** 2 + (rows - y) ** 2 for x, y in own], axis=0)
    found: list[tuple[Place, float]] = []
    # Half of them just far enough from a true point, which would else be the most isolated of all.
    for most in (_BESIDE * spacing, np.inf):
        fits = np.flatnonzero((far >= spacing**2) & (far <= most**2))
        for _ in range(_FREE // 2 if len(fits) else 0):
            wanted = depths[int(rng.integers(len(depths)))] * rng.uniform(1 / _UNLIKE, _UNLIKE)
            cost = np.abs(deep[fits] - wanted)
            index = rng.choice(fits[cost <= cost.min() + 1])
            found.append(((int(columns[index]), int(rows[index])), float(cost.min())))
    return found


def choose(
    own: list[Place], places: list[Place], together: Flags, inside: Flags, depths: Numbers, wanted: int,
    rng: np.random.Generator,
) -> tuple[int, ...]:  # fmt: skip
    """Numbers of the places to show, at least one.

    ``inside`` and ``depths`` (distance to the drawn outline in pixels): of the true points, then of all places.
    """
    xy = np.array([*own, *places], float)
    distances = np.hypot(*(xy[:, None] - xy[None, :]).transpose(2, 0, 1))
    np.fill_diagonal(distances, np.inf)
    hands = sorted({_hand(inside[len(own) :], together, wanted, rng) for _ in range(_HANDS)})
    # The most points that fit are packed so tightly that the true ones stand apart: one fewer will do.
    most = max(len(hand) for hand in hands)
    hands = [hand for hand in hands if len(hand) >= max(1, most - 1)]
    compared = [_compared(len(own), hand, inside, depths, distances, rng) for hand in hands]
    standings, leaning = zip(*compared, strict=True)
    levels, shares = zip(*(_as_by_chance(column) for column in zip(*standings, strict=True)), strict=True)
    weights = balanced(np.stack(levels, axis=1), shares, np.array(leaning))
    return hands[int(rng.choice(len(hands), p=weights))]


def _as_by_chance(standings: Sequence[Standing]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]:
    """Of every hand which standing it has, as a number, and each one's share if true points were like the others.

    How many points of either sort a hand has is left as often as it is.
    """
    found = sorted(set(standings))
    sizes = Counter((true, others) for true, others, _ in standings)
    shares = [sizes[true, others] / len(standings) * _chances(true, others)[above] for true, others, above in found]
    return np.array([found.index(one) for one in standings]), np.array(shares)


@functools.cache
def _chances(true: int, others: int) -> tuple[float, ...]:
    """How likely it is that 0, 1, 2 … of all pairs of a true point and another have the true one above.

    All orders are equally likely (Mann and Whitney 1947).
    """
    counts = Counter(
        sum(places) - true * (true - 1) // 2 for places in itertools.combinations(range(true + others), true)
    )
    return tuple(counts[above] / counts.total() for above in range(true * others + 1))


def _hand(inside: Flags, together: Flags, wanted: int, rng: np.random.Generator) -> tuple[int, ...]:
    """Places drawn at random, one after the other where there are fewer inside or outside, as far as they fit."""
    left = rng.permutation(len(inside)).tolist()
    wanted -= int(wanted > 1 and rng.random() < 0.3)
    chosen: list[int] = []
    counts = [0, 0]
    while left and len(chosen) < wanted:
        few = int(rng.integers(2)) if counts[0] == counts[1] else int(counts[1] < counts[0])
        number = next((number for number in left if inside[number] == few), left[0])
        chosen.append(number)
        counts[int(inside[number])] += 1
        left = [other for other in left if together[number, other]]
    return tuple(sorted(chosen))


def _compared(
    true: int, hand: tuple[int, ...], inside: Flags, depths: Numbers, distances: Numbers, rng: np.random.Generator
) -> tuple[list[Standing], list[float]]:
    """How isolated, and how far from the outline, the true points outside and inside are, as against the others there.

    Where they stand, and by how much more on the whole, as a logarithm; four of each: isolation outside and inside,
    then distance outside and inside. A fifth number: by how much the others are outside oftener than aimed at.
    """
    shown = np.array([*range(true), *(true + number for number in hand)])
    standings, leaning = [], []
    for values in (np.log(distances[np.ix_(shown, shown)].min(axis=1)), np.log(depths[shown])):
        for side in (False, True):
            beside = inside[shown] == side
            mine, others = values[:true][beside[:true]], values[true:][beside[true:]]
            more = mine[:, None] - others[None, :]
            # Two that are nearest to each other are equally isolated: either is as good as above.
            above = (more > 0) | ((more == 0) & (rng.random(more.shape) < 0.5))
            standings.append(Standing(len(mine), len(others), int(np.count_nonzero(above))))
            leaning.append(float(more.mean()) if more.size else 0.0)
    return standings, [*leaning, float(np.mean(~inside[shown[true:]])) - _OUTSIDE]
