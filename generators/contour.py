"""Contour evaluation and revision: which edits are true, which points are shown, and which four outlines.

A plan is drawn once for a case, before its path is known, from edits that are alike: some of the first three become the
true edits of the suboptimal mask, the others are spurious and appear in the four pictures of the result only.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from chexqa import masks
from chexqa.generators.deformation import Edit, Limits, Surgeon, apply, distance_to, iou, part_count
from chexqa.generators.results import MOST, draw_results

Mask = npt.NDArray[np.bool_]
COLORS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "brown")
EDITS = 3
_TRIES_PER_POINT = 10
_PLANS = 3  # how often to begin anew where the edits found do not go together


@dataclass(frozen=True)
class Point:
    """A coloured point. ``edit``: the number of the true edit it marks, None where nothing is wrong."""

    xy: tuple[int, int]
    color: str
    edit: int | None
    inside: bool
    distance: float


@dataclass(frozen=True)
class Plan:
    """Everything drawn for a case's contour items. ``true``: numbers of the edits that are in the suboptimal mask.

    ``results``: the errors (numbers of edits) that each of the four pictures has, in display order; the right one has
    none. ``overlap``: IoU of the suboptimal with the optimal mask.
    """

    edits: tuple[Edit, ...]
    true: tuple[int, ...]
    points: tuple[Point, ...]
    results: tuple[tuple[int, ...], ...]
    overlap: float

    def suboptimal(self, optimal: Mask) -> Mask:
        """The suboptimal mask."""
        return self.with_errors(optimal, self.true)

    def with_errors(self, optimal: Mask, errors: tuple[int, ...]) -> Mask:
        """The optimal mask with these edits made."""
        return apply(optimal, [self.edits[number] for number in errors])

    def moved(self, by_xy: tuple[int, int]) -> Plan:
        """The plan of a crop in coordinates of the whole picture; ``by_xy``: the crop's first pixel."""

        def shift(xy: tuple[int, int]) -> tuple[int, int]:
            return xy[0] + by_xy[0], xy[1] + by_xy[1]

        edits = [replace(edit, corner_xy=shift(edit.corner_xy), point_xy=shift(edit.point_xy)) for edit in self.edits]
        points = [replace(point, xy=shift(point.xy)) for point in self.points]
        return replace(self, edits=tuple(edits), points=tuple(points))

    @property
    def right_result(self) -> int:
        """Option number of the right revision."""
        return 1 + self.results.index(())

    def marked(self, over: bool) -> tuple[int, ...]:
        """Option numbers of the points where the mask must be contracted (``over``) or expanded."""
        return tuple(
            number
            for number, point in enumerate(self.points, start=1)
            if point.edit is not None and self.edits[point.edit].over == over
        )


def draw_plan(optimal: Mask, field: Mask, recipe: dict[str, Any], rng: np.random.Generator) -> Plan | str:
    """Draw a plan for a non-empty mask, or say in a few words why there is none.

    ``field``: where an outline may lie. ``recipe``: a perception recipe.
    """
    side = max(optimal.shape)
    limits = Limits.of(recipe["deformation"], side)
    # Nothing is drawn farther from the lesion than the deepest edit reaches: work on that part of the picture alone.
    rows, columns = around = masks.window(optimal, int(2.5 * limits.max_depth))
    surgeon = Surgeon(optimal[around], field[around], limits, rng)
    for _ in range(_PLANS):
        plan = _try_plan(surgeon, recipe, side)
        if isinstance(plan, Plan):
            return plan.moved((columns.start, rows.start))
    return plan


def _try_plan(surgeon: Surgeon, recipe: dict[str, Any], side: int) -> Plan | str:
    """A plan in the surgeon's crop; ``side``: the whole picture's longer side, which the recipe's lengths refer to."""
    optimal, rng = surgeon.mask, surgeon.rng
    edits = tuple(surgeon.edits(EDITS))
    if len(edits) < EDITS:
        return f"no room for {EDITS} visible edits of its outline ({len(edits)} found)"
    true = _draw_true(optimal, edits, recipe, side, rng)
    if true is None:
        return "no choice of edits keeps the overlap with the optimal mask and the parts of the lesion"
    suboptimal = apply(optimal, [edits[number] for number in true])
    points = _draw_points(surgeon, suboptimal, edits, true, recipe["points"], side)
    if points is None:
        return "no room for a point beside those that mark an edit"
    results = draw_results(surgeon, edits, true)
    if results is None:
        return "no four outlines keep the parts of the lesion"
    return Plan(results.edits, true, points, results.errors, iou(suboptimal, optimal))


def _distance(first: tuple[int, int], second: tuple[int, int]) -> float:
    return float(np.hypot(first[0] - second[0], first[1] - second[1]))


def _draw_true(
    optimal: Mask, edits: tuple[Edit, ...], recipe: dict[str, Any], side: int, rng: np.random.Generator
) -> tuple[int, ...] | None:
    """Which edits are true: a number drawn by the recipe's weights, fewer where their points would be too close."""
    spacing = recipe["points"]["min_distance"] * side
    low, high = recipe["deformation"]["iou"]
    numbers = range(len(edits))
    sets: list[tuple[int, ...]] = [
        chosen for size in range(1, MOST + 1) for chosen in itertools.combinations(numbers, size)
    ]
    parts = part_count(optimal)
    weights = np.asarray(recipe["deformation"]["edit_count_weights"], float)
    size = 1 + int(rng.choice(len(weights), p=weights / weights.sum()))
    order: list[tuple[int, ...]] = [sets[int(index)] for index in rng.permutation(len(sets))]
    for chosen in sorted(order, key=lambda chosen: (len(chosen) > size, abs(len(chosen) - size))):
        apart = all(
            _distance(edits[a].point_xy, edits[b].point_xy) >= spacing for a, b in itertools.combinations(chosen, 2)
        )
        if not apart:
            continue
        suboptimal = apply(optimal, [edits[number] for number in chosen])
        if low <= iou(suboptimal, optimal) <= high and part_count(suboptimal) == parts:
            return chosen
    return None


def _draw_points(
    surgeon: Surgeon, suboptimal: Mask, edits: tuple[Edit, ...], true: tuple[int, ...], recipe: dict[str, Any],
    side: int,
) -> tuple[Point, ...] | None:  # fmt: skip
    """The true points and as many others as are wanted and fit; None where not even one other fits.

    The place of an edit that was not made looks like that of one that was: every point keeps its distance from the
    areas of all the others' edits, made or not.
    """
    rng = surgeon.rng
    spacing, clearance = recipe["min_distance"] * side, recipe["min_clearance"] * side
    blocked = np.zeros_like(suboptimal)
    for number in true:
        slices, near = edits[number].within(clearance, blocked.shape)
        blocked[slices] |= near
    places = [edits[number].point_xy for number in true]
    wanted = int(rng.integers(max(len(true) + 1, recipe["min"]), recipe["max"] + 1))
    others = [edits[number] for number in rng.permutation(len(edits)) if number not in true]
    surgeon.keep_clear_of([edits[number] for number in true])
    for _ in range(_TRIES_PER_POINT * wanted):
        if len(places) == wanted:
            break
        edit = others.pop() if others else surgeon.edit()
        if edit is None or blocked[edit.point_xy[1], edit.point_xy[0]]:
            continue
        slices, near = edit.within(clearance, blocked.shape)
        own = np.zeros_like(blocked)
        own[slices] = near
        if all(_distance(edit.point_xy, xy) >= spacing and not own[xy[1], xy[0]] for xy in places):
            places.append(edit.point_xy)
            blocked |= own
    if len(places) == len(true):
        fallback = _free_xy(suboptimal, surgeon, ~blocked, places, spacing)
        if fallback is None:
            return None
        places.append(fallback)
    return _colored(suboptimal, places, true, rng)


def _free_xy(
    suboptimal: Mask, surgeon: Surgeon, free: Mask, places: list[tuple[int, int]], spacing: float
) -> tuple[int, int] | None:
    """For a lesion too small for a second edit: a free place about as far from the outline as one of the true points.

    None where all that is free is farther away than an edit can be deep.
    """
    to_outline = _to_outline(suboptimal)
    rows, columns = np.ogrid[: free.shape[0], : free.shape[1]]
    free = free & surgeon.field & (to_outline >= surgeon.limits.min_depth / 2)
    free &= to_outline <= surgeon.limits.max_depth
    for x, y in places:
        free &= np.hypot(columns - x, rows - y) >= spacing
    if not free.any():
        return None
    x, y = places[int(surgeon.rng.integers(len(places)))]
    cost = np.where(free, np.abs(to_outline - to_outline[y, x]), np.inf)
    best = np.flatnonzero(cost <= cost.min() + 0.5)
    y, x = divmod(int(best[surgeon.rng.integers(len(best))]), free.shape[1])
    return x, y


def _to_outline(mask: Mask) -> npt.NDArray[np.float32]:
    """Distance in pixels to the outline, from either side."""
    return np.where(mask, distance_to(~mask), distance_to(mask))


def _colored(
    suboptimal: Mask, places: list[tuple[int, int]], true: tuple[int, ...], rng: np.random.Generator
) -> tuple[Point, ...]:
    """Points in the order of the colour table, colours dealt at random, so that neither tells anything."""
    colors = sorted(rng.choice(len(COLORS), size=len(places), replace=False))
    order = rng.permutation(len(places))
    to_outline = _to_outline(suboptimal)
    return tuple(
        Point(
            xy=places[place],
            color=COLORS[color],
            edit=true[place] if place < len(true) else None,
            inside=bool(suboptimal[places[place][1], places[place][0]]),
            distance=round(float(to_outline[places[place][1], places[place][0]]), 1),
        )
        for color, place in zip(colors, order, strict=True)
    )


def plan_to_record(plan: Plan) -> dict[str, Any]:
    """The JSON form, from which :func:`plan_from_record` makes the same plan."""
    return {
        "edits": [
            {
                "over": edit.over,
                "corner_xy": list(edit.corner_xy),
                "area": masks.to_rle(edit.area),
                "point_xy": list(edit.point_xy),
                "depth": edit.depth,
                "share": edit.share,
            }
            for edit in plan.edits
        ],
        "true": list(plan.true),
        "points": [{**vars(point), "xy": list(point.xy)} for point in plan.points],
        "results": [list(errors) for errors in plan.results],
        "overlap": plan.overlap,
    }


def plan_from_record(record: dict[str, Any]) -> Plan:
    """From the JSON form."""
    edits = tuple(
        Edit(
            over=edit["over"],
            corner_xy=tuple(edit["corner_xy"]),
            area=masks.from_rle(edit["area"], "a plan"),
            point_xy=tuple(edit["point_xy"]),
            depth=edit["depth"],
            share=edit["share"],
        )
        for edit in record["edits"]
    )
    points = tuple(Point(**{**point, "xy": tuple(point["xy"])}) for point in record["points"])
    results = tuple(tuple(errors) for errors in record["results"])
    return Plan(edits, tuple(record["true"]), points, results, record["overlap"])
