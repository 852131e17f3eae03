"""Contour evaluation and revision: which edits are true, which points are shown, and which four outlines.

A plan is drawn once for a case, before its path is known, from one pool of edits: some become the true edits of the
suboptimal mask, others are spurious and appear in the four pictures of the result only or lend a point its place.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from chexqa import masks
from chexqa.generators.deformation import Edit, Field, Limits, Mask, apply, distance_to, exact_distance, iou
from chexqa.generators.pool import Pool, draw_edits
from chexqa.generators.surgeon import ADDING, TAKING, Surgeon

COLORS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "brown")
LEAST_EDITS = 3
_TRIES_PER_POINT = 8
# Where the edits found do not go together: begin anew, with small ones.
_MODEST = (False, True, True, True)
_CROSS = cv2.getStructuringElement(cv2.MORPH_CROSS, (3, 3))


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
    rows, columns = around = masks.window(optimal, int(1.5 * limits.max_depth))
    surgeon = Surgeon(optimal[around], field[around], limits, rng)
    for modest in _MODEST:
        plan = _try_plan(surgeon, recipe, side, modest)
        if isinstance(plan, Plan):
            return plan.moved((columns.start, rows.start))
    return plan


def _try_plan(surgeon: Surgeon, recipe: dict[str, Any], side: int, modest: bool) -> Plan | str:
    """A plan in the surgeon's crop; ``side``: the whole picture's longer side, which the recipe's lengths refer to."""
    edits = draw_edits(surgeon, modest)
    if len(edits) < LEAST_EDITS:
        return f"no room for {LEAST_EDITS} visible edits of its outline ({len(edits)} found)"
    pool = Pool(surgeon, edits)
    spacing = recipe["points"]["min_distance"] * side
    drawn = pool.draw(spacing, recipe["deformation"]["edit_count_weights"])
    if isinstance(drawn, str):
        return drawn
    true, results = drawn
    points = _draw_points(pool, true, recipe["points"], side)
    if points is None:
        return "no room for a point beside those that mark an edit"
    return _without_unused(Plan(pool.edits, true, points, results, iou(pool.mask(true), surgeon.mask)))


def _without_unused(plan: Plan) -> Plan:
    """Only the edits that appear in a picture, numbered anew."""
    used = sorted({number for errors in (plan.true, *plan.results) for number in errors})
    new = {number: place for place, number in enumerate(used)}
    return Plan(
        edits=tuple(plan.edits[number] for number in used),
        true=tuple(new[number] for number in plan.true),
        points=tuple(replace(point, edit=None if point.edit is None else new[point.edit]) for point in plan.points),
        results=tuple(tuple(new[number] for number in errors) for errors in plan.results),
        overlap=plan.overlap,
    )


def _distance(first: tuple[int, int], second: tuple[int, int]) -> float:
    return float(np.hypot(first[0] - second[0], first[1] - second[1]))


def _draw_points(pool: Pool, true: tuple[int, ...], recipe: dict[str, Any], side: int) -> tuple[Point, ...] | None:
    """The true points and as many others as are wanted and fit; None where not even one other fits.

    The place of an edit that was not made looks like that of one that was: every point keeps its distance from the
    areas of all the others' edits, made or not.
    """
    surgeon, made = pool.surgeon, [pool.edits[number] for number in true]
    rng, shape = surgeon.rng, surgeon.mask.shape
    spacing, clearance = recipe["min_distance"] * side, recipe["min_clearance"] * side
    blocked = np.zeros(shape, bool)
    for edit in made:
        slices, near = edit.within(clearance, shape)
        blocked[slices] |= near
    places = [edit.point_xy for edit in made]
    wanted = int(rng.integers(max(len(true) + 1, recipe["min"]), recipe["max"] + 1))
    others = [pool.edits[number] for number in rng.permutation(len(pool.edits)) if number not in true]
    surgeon.keep_clear_of(made)
    suboptimal = pool.mask(true)
    free = _Free(suboptimal, surgeon, places)
    sides = {True: 0, False: 0}
    while len(places) < wanted:
        # As many others lie inside the outline as outside: the next one where there are fewer.
        inside = sides[True] < sides[False] if sides[True] != sides[False] else bool(rng.random() < 0.5)
        xy = _place(surgeon, not inside, others, places, blocked, spacing, clearance)
        xy = free.draw(inside, blocked, places, spacing) if xy is None else xy
        if xy is None and not any(sides.values()):
            inside = not inside
            xy = free.draw(inside, blocked, places, spacing)
        if xy is None:
            break
        places.append(xy)
        sides[inside] += 1
    return _colored(suboptimal, places, true, rng) if any(sides.values()) else None


def _place(
    surgeon: Surgeon, over: bool, others: list[Edit], places: list[tuple[int, int]], blocked: Mask, spacing: float,
    clearance: float,
) -> tuple[int, int] | None:  # fmt: skip
    """The point of an edit that is not made, of the edits left in ``others`` or a new one; None where none fits.

    ``over``: whether the edit would add. Around it, ``blocked`` is marked.
    """
    kinds = ADDING if over else TAKING
    own = [edit for edit in others if edit.over == over]
    for attempt in range(len(own) + _TRIES_PER_POINT):
        edit = own[attempt] if attempt < len(own) else surgeon.edit(kinds[attempt % 2], attempt % 4 < 2)
        if edit is None or blocked[edit.point_xy[1], edit.point_xy[0]]:
            continue
        if any(_distance(edit.point_xy, xy) < spacing for xy in places):
            continue
        slices, near = edit.within(clearance, blocked.shape)
        if any(_at(near, (y - slices[0].start, x - slices[1].start)) for x, y in places):
            continue
        blocked[slices] |= near
        return edit.point_xy
    return None


def _at(mask: Mask, yx: tuple[int, int]) -> bool:
    """The mask's value at a place; False outside it."""
    y, x = yx
    return 0 <= y < mask.shape[0] and 0 <= x < mask.shape[1] and bool(mask[y, x])


class _Free:
    """Places for points where there is no room for another edit: about as far from the outline as a true point is."""

    def __init__(self, suboptimal: Mask, surgeon: Surgeon, true_places: list[tuple[int, int]]) -> None:
        self.suboptimal, self.surgeon, self.true_places = suboptimal, surgeon, list(true_places)

    @functools.cached_property
    def to_outline(self) -> Field:
        """Distance of every pixel to the nearest one on the other side of the outline."""
        return np.where(self.suboptimal, exact_distance(self.suboptimal), distance_to(self.suboptimal))

    @functools.cached_property
    def near(self) -> Mask:
        """Where an outline may lie, as near to the one there is as an edit can be deep."""
        limits = self.surgeon.limits
        near = (self.to_outline >= limits.min_depth / 2) & (self.to_outline <= limits.max_depth)
        return np.asarray(near & self.surgeon.field)

    def draw(
        self, inside: bool, blocked: Mask, places: list[tuple[int, int]], spacing: float
    ) -> tuple[int, int] | None:
        """A free place on one side of the outline; None where what is free is farther away than an edit is deep."""
        rng = self.surgeon.rng
        free = self.near & ~blocked & (self.suboptimal == inside)
        rows, columns = np.nonzero(free)
        apart = np.ones(len(rows), bool)
        for x, y in places:
            apart &= (columns - x) ** 2 + (rows - y) ** 2 >= spacing**2
        if not apart.any():
            return None
        rows, columns = rows[apart], columns[apart]
        x, y = self.true_places[int(rng.integers(len(self.true_places)))]
        cost = np.abs(self.to_outline[rows, columns] - self.to_outline[y, x])
        best = np.flatnonzero(cost <= cost.min() + 0.5)
        index = best[rng.integers(len(best))]
        return int(columns[index]), int(rows[index])


def _colored(
    suboptimal: Mask, places: list[tuple[int, int]], true: tuple[int, ...], rng: np.random.Generator
) -> tuple[Point, ...]:
    """Points in the order of the colour table, colours dealt at random, so that neither tells anything."""
    colors = sorted(rng.choice(len(COLORS), size=len(places), replace=False))
    order = rng.permutation(len(places))
    borders = _borders(suboptimal)
    return tuple(
        Point(
            xy=places[place],
            color=COLORS[color],
            edit=true[place] if place < len(true) else None,
            inside=bool(suboptimal[places[place][1], places[place][0]]),
            distance=round(_to_outline(suboptimal, borders, places[place]), 1),
        )
        for color, place in zip(colors, order, strict=True)
    )


def _borders(mask: Mask) -> dict[bool, npt.NDArray[np.intp]]:
    """Pixels ``(N, 2)`` of row and column of the mask beside the ground (True) and of the ground beside the mask."""
    plain = mask.view(np.uint8)
    beside = cv2.dilate(plain, _CROSS) - plain, plain - cv2.erode(plain, _CROSS)
    return {inside: np.argwhere(beside[inside]) for inside in (False, True)}


def _to_outline(mask: Mask, borders: dict[bool, npt.NDArray[np.intp]], xy: tuple[int, int]) -> float:
    """Distance in pixels from a pixel to the nearest one on the other side of the outline."""
    inside = bool(mask[xy[1], xy[0]])
    return float(np.sqrt(np.square(borders[not inside] - np.array(xy[::-1])).sum(axis=1).min()))


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
