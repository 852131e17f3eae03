"""Coloured points of a revision: true points, which mark an edit, and other points that look the same.

Their number, sides, isolation and distances from the outline do not show which points are true.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chexqa.generators.contour.edit_sampler import EditSampler
from chexqa.generators.contour.edit_sets import Errors
from chexqa.generators.contour.edits import Edit, Field, Mask, depth_of, distance_to
from chexqa.generators.contour.raking import rake
from chexqa.imaging.colors import POINT_COLORS, Palette
from chexqa.imaging.hand_drawn import hand_drawn
from chexqa.imaging.masks import pixels

Pixel = tuple[int, int]  # x, y
Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.floating[Any]]
_FREE = 16  # places considered on either side of the outline
_MISS = 3  # largest error of a place's depth in pixels; places with a larger error are used only if there are no others
_UNLIKE = 1.1  # largest random factor on an edit's depth; without it, two points would be equally deep
_BESIDE = 1.2  # factor on the least distance between points
_HANDS = 60  # sets of places considered
_DRAWN = 4  # number of outlines drawn to estimate the distance of a place from a drawn outline
# Probability with which each of the other points lies outside. 55 % of true points are outside, because a lesion offers
# more to remove than room to add.
_OUTSIDE = 0.55
_HALVINGS = 12  # number of bisection steps in which a probability is found


@dataclass(frozen=True)
class PointRules:
    """A recipe's settings for points; distances are divided by the picture's longer side.

    - ``max``, ``min``: the largest and the smallest number of points.
    - ``min_distance``: the least distance between two points.
    - ``min_clearance``: the least distance between an edit and a point that marks no edit.
    - ``palette``: the set of colours.
    """

    max: int
    min: int
    min_distance: float
    min_clearance: float
    palette: Palette = "safe"


class RankCount(NamedTuple):
    """Counts that compare a measure, such as isolation, between points on one side of the outline.

    - ``true``: the number of points that mark true edits (true points).
    - ``others``: the number of other points.
    - ``above``: the number of pairs (true point, other point) in which the true point has the larger measure.
    """

    true: int
    others: int
    above: int


@dataclass(frozen=True)
class Point:
    """A coloured point; ``edit`` is the index of the edit that it marks, or None."""

    xy: Pixel
    color: str
    edit: int | None
    inside: bool
    distance: float


def draw_points(
    sampler: EditSampler, suboptimal: Mask, edits: Sequence[Edit], true: Errors, alike: Errors, rules: PointRules,
    side: int,
) -> tuple[Point, ...] | None:  # fmt: skip
    """Return the points to show: a true point for each true edit, and false points, which mark no edit.

    Return None if there is no room for a false point.

    - ``edits``: the true edits, which the suboptimal mask has, and other possible edits.
    - ``true``: the indices of the true edits in ``edits``.
    - ``alike``: ``true``, and the indices of other edits that a viewer could take for true edits.
    - ``rules``: the recipe's settings for points.
    - ``side``: the whole picture's longer side in pixels.
    """
    rng = sampler.rng
    wanted = int(rng.integers(max(len(true) + 1, rules.min), rules.max + 1))
    spacing = rules.min_distance * side
    to_outline: Field = np.where(suboptimal, depth_of(suboptimal), distance_to(suboptimal))
    own = [edits[number].point_xy for number in true]
    blocked = _near([edits[number] for number in true], rules.min_clearance * side, suboptimal.shape)
    free = sampler.field & ~blocked
    peers = [edits[number].point_xy for number in alike]
    places, together = _candidates(sampler, suboptimal, free, to_outline, own, peers, spacing)
    if not places:
        return None
    inside, depths = (np.array([array[y, x] for x, y in [*own, *places]]) for array in (suboptimal, to_outline))
    seen = _as_drawn(suboptimal, [*own, *places], rng)
    chosen = choose(own, places, together, inside, seen, wanted - len(own), rng)
    shown = [*range(len(own)), *(len(own) + number for number in chosen)]
    colors = sorted(rng.choice(len(POINT_COLORS), size=len(shown), replace=False))
    everything = [*own, *places]
    # Points are sorted by the colour table and colours are random, so neither order nor colour gives a true point away.
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


def _as_drawn(mask: Mask, places: Sequence[Pixel], rng: np.random.Generator) -> Numbers:
    """Return the distance of places from a hand-drawn outline in pixels, as the mean of a few drawings.

    A place in a hump is nearer to a drawn outline than to the mask's border: the drawn outline is smoothed, and a
    random deviation on any side of the place brings it nearer.
    """
    xy = np.array(places, float)
    drawings = [np.concatenate(hand_drawn(mask, rng)) for _ in range(_DRAWN)]
    found = [np.hypot(*(xy[:, None] - line[None, :]).transpose(2, 0, 1)).min(axis=1) for line in drawings]
    return np.asarray(np.mean(found, axis=0))


def _near(edits: Iterable[Edit], distance: float, shape: tuple[int, int]) -> Mask:
    """Return the pixels that are at most ``distance`` pixels from an edit."""
    near = np.zeros(shape, bool)
    for edit in edits:
        around, own = edit.within(distance, shape)
        near[around] |= own
    return near


def _candidates(
    sampler: EditSampler, suboptimal: Mask, free: Mask, to_outline: Field, own: list[Pixel], peers: list[Pixel],
    spacing: float,
) -> tuple[list[Pixel], Flags]:  # fmt: skip
    """Return places far enough from the true points and edits, and ``(N, N)`` flags.

    A flag is True if two places may be shown together.
    """
    found: list[tuple[Pixel, float]] = []
    for inside in (False, True):
        # Places are as deep as edits on this side could be; deeper or shallower places would stand out.
        beside = [(x, y) for x, y in peers if suboptimal[y, x] == inside] or peers
        depths = [float(to_outline[y, x]) for x, y in beside]
        found += _free_places(sampler, free & (suboptimal == inside), to_outline, own, spacing, depths)
    # If little room is left, the room is far from the outline, and fewer points are better than conspicuous ones.
    places = [xy for xy, miss in found if miss <= _MISS] or [xy for xy, _ in found]
    xy = np.array(places, float).reshape(-1, 2)
    return places, np.hypot(*(xy[:, None] - xy[None, :]).transpose(2, 0, 1)) >= spacing


def _free_places(
    sampler: EditSampler, free: Mask, to_outline: Field, own: list[Pixel], spacing: float, depths: list[float]
) -> list[tuple[Pixel, float]]:
    """Return places far from the true points and about as deep as one of ``depths``.

    Each place comes with its error of depth in pixels.
    """
    rng, limits = sampler.rng, sampler.limits
    rows, columns = pixels(free & (to_outline >= limits.min_depth / 2) & (to_outline <= limits.max_depth)).T
    deep, far = to_outline[rows, columns], np.min([(columns - x) ** 2 + (rows - y) ** 2 for x, y in own], axis=0)
    found: list[tuple[Pixel, float]] = []
    # Half of the places are barely far enough from a true point; otherwise the true point would be the most isolated
    # one.
    for most in (_BESIDE * spacing, np.inf):
        fits = np.flatnonzero((far >= spacing**2) & (far <= most**2))
        for _ in range(_FREE // 2 if len(fits) else 0):
            wanted = depths[int(rng.integers(len(depths)))] * rng.uniform(1 / _UNLIKE, _UNLIKE)
            cost = np.abs(deep[fits] - wanted)
            index = rng.choice(fits[cost <= cost.min() + 1])
            found.append(((int(columns[index]), int(rows[index])), float(cost.min())))
    return found


def choose(
    true_points: list[Pixel], places: list[Pixel], together: Flags, inside: Flags, depths: Numbers, wanted: int,
    rng: np.random.Generator,
) -> tuple[int, ...]:  # fmt: skip
    """Choose random positions for the points that mark no edit; return their indices in ``places``, at least one.

    - ``true_points``: the positions of the points that mark an edit.
    - ``places``: the possible positions; at most ``wanted`` are chosen.
    - ``together (N, N)``: True for two of ``places`` that can both be shown.
    - ``inside``, ``depths``: whether each position is inside the outline, and its distance from the outline in pixels;
      first for each of ``true_points``, then for each of ``places``.
    """
    xy = np.array([*true_points, *places], float)
    distances = np.hypot(*(xy[:, None] - xy[None, :]).transpose(2, 0, 1))
    np.fill_diagonal(distances, np.inf)
    candidate_sets = sorted({_hand(inside[len(true_points) :], together, wanted, rng) for _ in range(_HANDS)})
    # The largest sets are so tightly packed that the true points stand apart, so one point fewer is allowed.
    most = max(len(candidate_set) for candidate_set in candidate_sets)
    candidate_sets = [candidate_set for candidate_set in candidate_sets if len(candidate_set) >= max(1, most - 1)]
    compared = [
        _compared(len(true_points), candidate_set, inside, depths, distances, rng) for candidate_set in candidate_sets
    ]
    rank_counts, leaning = zip(*compared, strict=True)
    # The most isolated point of a side is then a true point as often as the least isolated one, and the farthest from
    # the outline as often as the nearest. The number of points on a side shows nothing either.
    columns = [_as_by_chance(column) for column in zip(*rank_counts, strict=True)]
    others = [inside[len(true_points) + np.array(candidate_set)] for candidate_set in candidate_sets]
    columns.append(_sides_by_chance(inside[: len(true_points)], others))
    levels, shares = zip(*columns, strict=True)
    weights = rake(np.stack(levels, axis=1), shares, np.array(leaning))
    return candidate_sets[int(rng.choice(len(candidate_sets), p=weights))]


def _as_by_chance(rank_counts: Sequence[RankCount]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]:
    """Return the index of each candidate set's rank count, and the wanted share of each rank count.

    The wanted share is the share that the rank count would have if true points were like other points. The frequencies
    of the numbers of points on a side are kept.
    """
    found = sorted(set(rank_counts))
    sizes = Counter((true, others) for true, others, _ in rank_counts)
    shares = [sizes[true, others] / len(rank_counts) * _chances(true, others)[above] for true, others, above in found]
    return np.array([found.index(one) for one in rank_counts]), np.array(shares)


def _sides_by_chance(
    true_inside: Flags, others_inside: Sequence[Flags]
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]:
    """Return the index of each candidate set's level, and the wanted share of each level.

    A level is two numbers: the points in the set, and how many of them lie inside. ``true_inside`` has flags of the
    true points, ``others_inside`` of each set's points.
    """
    counts = [(len(flags), int(np.count_nonzero(flags))) for flags in others_inside]
    found, sizes = sorted(set(counts)), Counter(size for size, _ in counts)
    own = int(np.count_nonzero(true_inside))
    most_inside = own + max(inside for _, inside in counts)
    most_outside = len(true_inside) - own + max(size - inside for size, inside in counts)
    # Each point lies outside with one probability, independently of the other points. The frequencies of the numbers of
    # points are kept.
    shares: list[float] = []
    for size in sorted(sizes):
        rate = _rate_inside(len(true_inside) + size, most_inside, most_outside)
        chances = [
            math.comb(size, inside) * rate**inside * (1 - rate) ** (size - inside)
            for own_size, inside in found
            if own_size == size
        ]
        shares += [sizes[size] / len(counts) * chance / sum(chances) for chance in chances]
    return np.array([found.index(one) for one in counts]), np.array(shares)


@functools.cache
def _rate_inside(points: int, most_inside: int, most_outside: int) -> float:
    """Return the probability at which a point must be put inside, so that the wanted share of all points lies inside.

    ``most_inside`` and ``most_outside``: the largest numbers of points that fit inside and outside. This room limits
    the number of points on a side, so the probability can differ from the share.
    """
    inside = np.arange(max(0, points - most_outside), min(points, most_inside) + 1)
    ways = np.array([math.comb(points, int(number)) for number in inside])
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        rate = (low + high) / 2
        weights = ways * rate**inside * (1 - rate) ** (points - inside)
        enough = float(weights @ inside / weights.sum()) >= (1 - _OUTSIDE) * points
        low, high = (low, rate) if enough else (rate, high)
    return (low + high) / 2


@functools.cache
def _chances(true: int, others: int) -> tuple[float, ...]:
    """Return the probabilities that the true points have the larger value in 0, 1, 2 … of all (true, other) pairs.

    All orders are equally likely (Mann and Whitney 1947).
    """
    counts = Counter(
        sum(places) - true * (true - 1) // 2 for places in itertools.combinations(range(true + others), true)
    )
    return tuple(counts[above] / counts.total() for above in range(true * others + 1))


def _hand(inside: Flags, together: Flags, wanted: int, rng: np.random.Generator) -> tuple[int, ...]:
    """Return random places that fit together.

    Places are drawn one by one, each on a random side of the outline, or on the other side if the drawn side has no
    room.
    """
    left = rng.permutation(len(inside)).tolist()
    wanted -= int(wanted > 1 and rng.random() < 0.3)
    chosen: list[int] = []
    while left and len(chosen) < wanted:
        side = bool(rng.random() >= _OUTSIDE)
        number = next((number for number in left if inside[number] == side), left[0])
        chosen.append(number)
        left = [other for other in left if together[number, other]]
    return tuple(sorted(chosen))


def _compared(
    true: int,
    candidate_set: tuple[int, ...],
    inside: Flags,
    depths: Numbers,
    distances: Numbers,
    rng: np.random.Generator,
) -> tuple[list[RankCount], list[float]]:
    """Compare isolation and distance from the outline between true points and the other points on their side.

    Return four rank counts and four mean differences of logarithms: isolation outside and inside, then distance outside
    and inside.
    """
    shown = np.array([*range(true), *(true + number for number in candidate_set)])
    rank_counts, leaning = [], []
    for values in (np.log(distances[np.ix_(shown, shown)].min(axis=1)), np.log(depths[shown])):
        for side in (False, True):
            beside = inside[shown] == side
            mine, others = values[:true][beside[:true]], values[true:][beside[true:]]
            if not len(mine) or not len(others):
                rank_counts.append(RankCount(len(mine), len(others), 0))
                leaning.append(0.0)
                continue
            more = mine[:, None] - others[None, :]
            # Two points that are nearest to each other are equally isolated: the order of such a tie is random.
            above = (more > 0) | ((more == 0) & (rng.random(more.shape) < 0.5))
            rank_counts.append(RankCount(len(mine), len(others), int(np.count_nonzero(above))))
            leaning.append(float(more.mean()))
    return rank_counts, leaning
