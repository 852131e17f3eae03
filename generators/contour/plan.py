"""Plan of a case's questions on outlines: the errors of the suboptimal mask, the points and the four outlines."""

from __future__ import annotations

import string
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from chexqa.generators.contour.edit_sampler import EditSampler
from chexqa.generators.contour.edit_sets import Choice, EditSets, draw_edits
from chexqa.generators.contour.edits import Deformation, Edit, Limits, Mask, apply
from chexqa.generators.contour.points import Point, PointRules, draw_points
from chexqa.generators.contour.small_lesions import draw_revisions
from chexqa.imaging import masks

LEAST_EDITS = 3
# If the edits found cannot be combined, new and smaller edits are drawn; if these fail too, the conditions are relaxed.
_MODEST = (False, True, True)


@dataclass(frozen=True)
class ContourPlan:
    """All random choices for a case's questions on outlines.

    - ``true``: the indices of the edits in the suboptimal mask (its errors).
    - ``results``: the errors of each of the four pictures, in the order shown, as indices of edits; the right picture
      has none.
    - ``overlap``: the IoU of the suboptimal mask with the optimal mask.
    """

    edits: tuple[Edit, ...]
    true: tuple[int, ...]
    points: tuple[Point, ...]
    results: tuple[tuple[int, ...], ...]
    overlap: float

    def suboptimal(self, optimal: Mask) -> Mask:
        """Return the suboptimal mask: the optimal mask with all true edits (errors) applied."""
        return self.with_errors(optimal, self.true)

    def with_errors(self, optimal: Mask, errors: tuple[int, ...]) -> Mask:
        """Return the optimal mask after the edits with the indices ``errors``."""
        return apply(optimal, [self.edits[number] for number in errors])

    def moved(self, by_xy: tuple[int, int]) -> ContourPlan:
        """Return this plan of a crop in coordinates of the full picture.

        ``by_xy`` is the position ``(x, y)`` of the crop's top left pixel in the full picture.
        """

        def shift(xy: tuple[int, int]) -> tuple[int, int]:
            return xy[0] + by_xy[0], xy[1] + by_xy[1]

        edits = [replace(edit, corner_xy=shift(edit.corner_xy), point_xy=shift(edit.point_xy)) for edit in self.edits]
        points = [replace(point, xy=shift(point.xy)) for point in self.points]
        return replace(self, edits=tuple(edits), points=tuple(points))

    @property
    def right_result(self) -> int:
        """Return the option number of the right revision."""
        return 1 + self.results.index(())

    @property
    def letters(self) -> tuple[str, ...]:
        """Return each point's letter, in the order of ``points``.

        The letters run from left to right, so the leftmost point is A; in the same column, they run from top to bottom.
        """
        order = sorted(range(len(self.points)), key=lambda number: self.points[number].xy)
        return tuple(string.ascii_uppercase[order.index(number)] for number in range(len(self.points)))

    def marked(self, over: bool) -> tuple[int, ...]:
        """Return the numbers of the right options: points where the mask must be contracted (``over``) or expanded."""
        return tuple(
            number
            for number, point in enumerate(self.points, start=1)
            if point.edit is not None and self.edits[point.edit].over == over
        )


def draw_plan(
    optimal: Mask, field: Mask, edits: Deformation, points: PointRules, rng: np.random.Generator,
    depth: float | None = None,
) -> ContourPlan | str:  # fmt: skip
    """Draw a random plan for a non-empty mask; return a short reason instead if no plan is possible.

    - ``field``: the pixels that an outline may cover.
    - ``edits``, ``points``: the settings of these names in a perception recipe.
    - ``depth``: the depth of every edit, as a fraction of the picture's longer side; None for the recipe's range.
    """
    side = max(optimal.shape)
    limits = Limits.of(edits, side) if depth is None else Limits.at(edits, side, depth)
    # Work only on the part of the picture within the deepest edit's reach of the lesion.
    rows, columns = around = masks.window(optimal, int(1.5 * limits.max_depth))
    sampler = EditSampler(optimal[around], field[around], limits, rng)
    found: ContourPlan | str = ""
    for choice in _choices(sampler, points.min_distance * side, edits.edit_count_weights):
        found = choice if isinstance(choice, str) else _plan_of(choice, sampler, points, side)
        if isinstance(found, ContourPlan):
            return found.moved((columns.start, rows.start))
    return found


def _choices(sampler: EditSampler, spacing: float, weights: tuple[float, float, float]) -> Iterator[Choice | str]:
    """Yield choices of edits and four pictures under ever easier conditions; yield a reason if no choice is possible.

    The caller takes the first choice that gives a plan. ``spacing`` is the least distance of two points in pixels.
    ``weights`` are the weights of one, two and three true edits. If every case has one true edit, each picture revises
    the suboptimal mask at one place, since only then could any of the four pictures be right.
    """
    single = not any(weights[1:])
    pools: list[EditSets] = []
    for modest in _MODEST:
        edits = draw_edits(sampler, modest)
        if len(edits) >= LEAST_EDITS:
            pools.append(EditSets(sampler, edits))
            if not single:
                yield pools[-1].draw(spacing, weights, strict=True)
            yield draw_revisions(pools[-1], spacing, modest)
        elif not pools:
            yield f"the outline has no room for {LEAST_EDITS} visible edits ({len(edits)} found)"
    for pool in pools if not single else ():
        yield pool.draw(spacing, weights, strict=False)


def _plan_of(choice: Choice, sampler: EditSampler, rules: PointRules, side: int) -> ContourPlan | str:
    """Return a plan in the sampler's crop, with as many of the recipe's points as fit.

    If there is no plan, the reason is returned. ``side`` is the whole picture's longer side in pixels, which the
    lengths of ``rules`` refer to.
    """
    edits, true, results = choice
    # The edits by which the suboptimal mask differs from any of the four pictures, and the true edits: for a viewer,
    # each of these sets could be the true one.
    alike = tuple(sorted({number for errors in results for number in {*errors} ^ {*true}} | {*true}))
    suboptimal = apply(sampler.mask, [edits[number] for number in true])
    points = draw_points(sampler, suboptimal, edits, true, alike, rules, side)
    if points is None:
        return "there is no room for a point that marks no edit"
    return _without_unused(ContourPlan(edits, true, points, results, masks.iou(suboptimal, sampler.mask)))


def _without_unused(plan: ContourPlan) -> ContourPlan:
    """Return the plan without edits that appear in no picture; the other edits get new numbers."""
    used = sorted({number for errors in (plan.true, *plan.results) for number in errors})
    new = {number: place for place, number in enumerate(used)}
    return ContourPlan(
        edits=tuple(plan.edits[number] for number in used),
        true=tuple(new[number] for number in plan.true),
        points=tuple(replace(point, edit=None if point.edit is None else new[point.edit]) for point in plan.points),
        results=tuple(tuple(new[number] for number in errors) for errors in plan.results),
        overlap=plan.overlap,
    )
