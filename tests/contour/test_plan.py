"""Plans of contour items: what is asked has one right answer, and nothing but the radiograph gives it away."""

from __future__ import annotations

import functools
import itertools
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import plans
import pytest
import shapes
from plans import Drawn
from rest_long import rest_long
from scipy import ndimage, stats

from chexqa.contract import codec
from chexqa.generators.contour import edit_sets, points, small_lesions
from chexqa.generators.contour import plan as contour
from chexqa.generators.contour.edit_sampler import EditSampler
from chexqa.generators.contour.edit_sets import draw_edits
from chexqa.generators.contour.edits import Limits
from chexqa.generators.contour.plan import ContourPlan
from chexqa.generators.contour.points import Point
from chexqa.generators.contour.raking import rake
from chexqa.imaging.colors import POINT_COLORS
from chexqa.imaging.hand_drawn import smooth_outlines
from chexqa.imaging.masks import iou

pytestmark = pytest.mark.xdist_group("plan")

SIDE = 1024


def mask_with(drawn: Drawn, errors: tuple[int, ...]) -> shapes.Mask:
    """The optimal mask with these edits, put together pixel by pixel."""
    mask = drawn.optimal.copy()
    for number in errors:
        edit = drawn.plan.edits[number]
        mask[edit.paint(mask.shape)] = edit.over
    return mask


def assert_points(drawn: Drawn) -> None:
    plan, optimal = drawn.plan, drawn.optimal
    suboptimal = mask_with(drawn, plan.true)
    changed = optimal ^ suboptimal
    assert [POINT_COLORS.index(point.color) for point in plan.points] == sorted(
        {POINT_COLORS.index(point.color) for point in plan.points}
    ), "every colour once, in the order of the table"
    marks = sorted(point.edit for point in plan.points if point.edit is not None)
    assert marks == sorted(plan.true)
    assert 1 <= len(marks) < len(plan.points) <= 8
    for first, second in itertools.combinations(plan.points, 2):
        assert np.hypot(first.xy[0] - second.xy[0], first.xy[1] - second.xy[1]) >= 0.1 * max(optimal.shape)
    marked = np.zeros_like(optimal)
    for point in plan.points:
        marked[point.xy[1], point.xy[0]] = True
    window = shapes.around(optimal, suboptimal, marked)
    suboptimal, changed = suboptimal[window], changed[window]
    to_change = ndimage.distance_transform_edt(~changed)
    to_outline = np.where(
        suboptimal, ndimage.distance_transform_edt(suboptimal), ndimage.distance_transform_edt(~suboptimal)
    )
    for point in plan.points:
        x, y = point.xy[0] - window[1].start, point.xy[1] - window[0].start
        assert point.inside == suboptimal[y, x]
        assert point.distance == pytest.approx(to_outline[y, x], abs=0.06)
        if point.edit is None:
            assert to_change[y, x] >= 0.02 * max(optimal.shape), "a point beside the edits lies near one"
        else:
            edit = plan.edits[point.edit]
            assert changed[y, x]
            assert point.xy == edit.point_xy
            assert suboptimal[y, x] == edit.over, "what leaked lies inside the outline, what was missed outside"


def assert_results(drawn: Drawn) -> None:
    plan = drawn.plan
    sets = [frozenset(errors) for errors in plan.results]
    assert len(sets) == 4
    assert sets.count(frozenset()) == 1
    if drawn.is_square:
        assert max(sets, key=len) == frozenset().union(*sets), "two by two: one has the errors of both others"
    else:
        assert_revisions(drawn)
    masks = [plan.with_errors(drawn.optimal, errors) for errors in plan.results]
    for mask, errors in zip(masks, plan.results, strict=True):
        assert np.array_equal(mask, mask_with(drawn, errors))
    assert np.array_equal(masks[plan.right_result - 1], drawn.optimal)
    assert sum(np.array_equal(mask, drawn.optimal) for mask in masks) == 1
    for first, second in itertools.combinations([*masks, plan.suboptimal(drawn.optimal)], 2):
        assert (first ^ second).sum() >= 0.05 * drawn.optimal.sum()


def assert_revisions(drawn: Drawn) -> None:
    """Each picture differs from the suboptimal one by one edit, and hardly two of them in the same place."""
    plan = drawn.plan
    suboptimal = plan.suboptimal(drawn.optimal)
    changed = []
    for errors in plan.results:
        (number,) = {*errors} ^ {*plan.true}
        changed.append(plan.edits[number].paint(suboptimal.shape))
        assert np.array_equal(plan.with_errors(drawn.optimal, errors) ^ suboptimal, changed[-1])
        assert 0.45 <= iou(suboptimal, suboptimal ^ changed[-1]) <= 0.95
    for first, second in itertools.combinations(changed, 2):
        assert (first & second).sum() <= 0.25 * min(first.sum(), second.sum())


def assert_plan(drawn: Drawn) -> None:
    plan = drawn.plan
    suboptimal = mask_with(drawn, plan.true)
    assert np.array_equal(plan.suboptimal(drawn.optimal), suboptimal)
    overlap = (suboptimal & drawn.optimal).sum() / (suboptimal | drawn.optimal).sum()
    assert plan.overlap == pytest.approx(overlap)
    assert 0.45 <= overlap <= 0.95
    under = {n for n, point in enumerate(plan.points, 1) if point.edit is not None and not plan.edits[point.edit].over}
    over = {n for n, point in enumerate(plan.points, 1) if point.edit is not None and plan.edits[point.edit].over}
    assert (set(plan.marked(over=False)), set(plan.marked(over=True))) == (under, over)
    assert under | over
    assert_points(drawn)
    assert_results(drawn)


@pytest.mark.parametrize(
    "index",
    [
        pytest.param(index, marks=pytest.mark.long) if index % 4 else index
        for index in range(len(shapes.KINDS) * len(plans.SEEDS))
    ],
)
def test_plans_of_drawn_lesions_keep_every_promise(index: int) -> None:
    assert_plan(plans.of_drawn_shapes()[index])


def test_plans_of_real_lesions_keep_every_promise(real_data: Path) -> None:
    for drawn in plans.of_real_shapes(real_data):
        assert_plan(drawn)


@functools.cache
def roomy_plans() -> tuple[Drawn, ...]:
    """Many plans of lobed lesions in small pictures: room for everything, so that one sees how often it is drawn."""
    found = []
    for seed in range(80):
        rng = np.random.default_rng(seed)
        optimal = np.zeros((256, 256), bool)
        for _ in range(3):
            optimal |= shapes.blob(rng, optimal.shape, tuple(rng.uniform(90, 166, 2)), tuple(rng.uniform(22, 60, 2)))
        drawn = plans.draw(f"roomy {seed}", optimal, np.ones_like(optimal), seed)
        if isinstance(drawn, Drawn):
            found.append(drawn)
    assert len(found) > 73
    return tuple(found)


def assert_even(counts: Counter[int], values: int) -> None:
    """All ``values`` values are equally likely, as far as one can tell (generous: 1 in 10,000)."""
    assert len(counts) <= values
    assert stats.chisquare([counts[n] for n in sorted(counts)] + [0] * (values - len(counts))).pvalue > 1e-4


@pytest.mark.long
def test_the_right_picture_is_anywhere_equally_often() -> None:
    assert_even(Counter(drawn.plan.right_result for drawn in roomy_plans()), 4)


def ranks_of_the_right_picture(measure: Callable[[Drawn, tuple[int, ...]], float]) -> Counter[int]:
    """How often the right picture has the lowest value of the four, the second lowest and so on."""
    ranks = Counter[int]()
    for drawn in roomy_plans():
        values = [measure(drawn, errors) for errors in drawn.plan.results]
        ranks[sum(value < values[drawn.plan.right_result - 1] for value in values)] += 1
    return ranks


def area(drawn: Drawn, errors: tuple[int, ...]) -> float:
    return float(mask_with(drawn, errors).sum())


def length(drawn: Drawn, errors: tuple[int, ...]) -> float:
    lines = smooth_outlines(mask_with(drawn, errors))
    return sum(cv2.arcLength(line.astype(np.float32), True) for line in lines)


def compactness(drawn: Drawn, errors: tuple[int, ...]) -> float:
    return length(drawn, errors) ** 2 / area(drawn, errors)


def difference(drawn: Drawn, errors: tuple[int, ...]) -> float:
    """From the suboptimal picture, which has been shown."""
    return float((mask_with(drawn, errors) ^ drawn.plan.suboptimal(drawn.optimal)).sum())


@pytest.mark.long
def test_choosing_by_size_gains_little_where_steps_between_the_pictures_are_small_and_where_they_are_large() -> None:
    by_step = []
    for drawn in roomy_plans():
        areas = [area(drawn, errors) for errors in drawn.plan.results]
        right = areas[drawn.plan.right_result - 1]
        areas.sort()
        by_step.append((areas[1] / areas[0], areas.index(right)))
    by_step.sort()
    for half in (by_step[: len(by_step) // 2], by_step[len(by_step) // 2 :]):
        ranks = Counter(rank for _, rank in half)
        assert max(ranks.values()) < 0.4 * ranks.total(), "one size is right so often that it tells the answer"
        assert min(ranks[rank] for rank in range(4)) > 0.1 * ranks.total(), "one size can be ruled out"


def test_every_rank_in_area_gets_its_share_where_steps_are_small_and_where_they_are_large() -> None:
    by_rank = np.array([[0.05, 0.05, 0.1], [-0.05, 0.06, 0.01], [0.05, -0.06, -0.01], [-0.05, -0.05, -0.1]])
    small, large = np.repeat(by_rank, [4, 1, 1, 1], axis=0), 4 * np.repeat(by_rank, [1, 1, 1, 4], axis=0)
    columns = edit_sets.area_categories(np.concatenate([small, large]))
    shares = [edit_sets.wanted_shares(column, np.tile(edit_sets.EVEN, (3, 1))) for column in columns.T]
    weights = rake(columns, shares)
    assert weights[:4] == pytest.approx(4 * [1 / 32])
    assert weights[4:11].tolist() == pytest.approx([*6 * [1 / 8], 1 / 32])
    assert weights[11:] == pytest.approx(3 * [1 / 32])


def test_large_steps_from_the_right_picture_lead_up_as_often_as_down() -> None:
    steps = []
    for drawn in roomy_plans():
        logs = [np.log(area(drawn, errors)) for errors in drawn.plan.results]
        change = np.array(logs) - logs[drawn.plan.right_result - 1]
        steps.append((change * np.abs(change)).sum())
    assert stats.ttest_1samp(steps, 0).pvalue > 1e-4


@pytest.mark.parametrize("measure", rest_long([length, compactness, difference], keep=1))
def test_the_right_picture_has_every_rank_equally_often(measure: Callable[[Drawn, tuple[int, ...]], float]) -> None:
    assert_even(ranks_of_the_right_picture(measure), 4)


def test_each_of_the_four_pictures_could_be_the_right_one_by_the_suboptimal_outline() -> None:
    least, most = plans.RECIPE.deformation.iou
    could = []
    for drawn in roomy_plans():
        edits = [set(drawn.plan.true) ^ set(errors) for errors in drawn.plan.results]
        overlaps = [iou(mask_with(drawn, tuple(numbers)), drawn.optimal) for numbers in edits]
        could.append(
            all(1 <= len(numbers) <= 3 for numbers in edits) and all(least <= each <= most for each in overlaps)
        )
    assert np.mean(could) > 0.9


def test_half_of_the_edits_in_the_pictures_shorten_the_outline() -> None:
    shorter = [
        length(drawn, errors) < length(drawn, ()) for drawn in roomy_plans() for errors in drawn.plan.results if errors
    ]
    assert 0.4 < np.mean(shorter) < 0.6


@pytest.mark.long
def test_one_two_and_three_true_edits_are_as_frequent_as_the_recipe_says() -> None:
    counts = Counter(len(drawn.plan.true) for drawn in roomy_plans())
    expected = np.array(plans.RECIPE.deformation.edit_count_weights) * counts.total()
    assert stats.chisquare([counts[1], counts[2], counts[3]], expected).pvalue > 1e-4


def test_colours_and_places_in_the_list_tell_nothing_of_a_point() -> None:
    shown = [point for drawn in roomy_plans() for point in drawn.plan.points]
    assert_even(Counter(POINT_COLORS.index(point.color) for point in shown if point.edit is not None), 8)
    assert_even(Counter(POINT_COLORS.index(point.color) for point in shown if point.edit is None), 8)


def test_other_points_lie_inside_and_outside_as_those_of_edits_do() -> None:
    inside = Counter((point.edit is not None, point.inside) for drawn in roomy_plans() for point in drawn.plan.points)
    table = [[inside[edited, within] for within in (True, False)] for edited in (True, False)]
    shares = [row[0] / sum(row) for row in table]
    assert abs(shares[0] - shares[1]) < 0.15, shares


@pytest.mark.long
def test_the_number_of_points_on_a_side_does_not_tell_where_the_true_one_is() -> None:
    # One true point anywhere, and twelve places on both sides of the outline.
    together, sides = ~np.eye(12, dtype=bool), np.arange(12) % 2 == 0
    more, expected = [], []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        inside = np.append(rng.random() < 0.45, sides)
        own, *places = [(int(x), int(y)) for x, y in rng.integers(0, 1000, (13, 2))]
        chosen = points.choose([own], places, together, inside, rng.uniform(10, 30, 13), 4, rng)
        alike = 1 + sum(inside[1 + number] == inside[0] for number in chosen)
        if 2 * alike != 1 + len(chosen):
            more.append(2 * alike > 1 + len(chosen))
            expected.append(max(alike, 1 + len(chosen) - alike) / (1 + len(chosen)))
    assert abs(np.mean(more) - np.mean(expected)) < 0.1, "the true point is on the side with more points too often"


@pytest.mark.long
def test_other_points_lie_as_far_from_the_outline_as_those_of_edits_do() -> None:
    farther = [
        one.distance > other.distance
        for drawn in roomy_plans()
        for one, other in itertools.product(drawn.plan.points, repeat=2)
        if one.edit is not None and other.edit is None and one.inside == other.inside
    ]
    assert 0.4 < np.mean(farther) < 0.6


@pytest.mark.long
def test_the_true_one_of_four_points_is_at_each_rank_by_distance_equally_often() -> None:
    # Twelve places as deep as the true point or less or more, all on one side and far from each other.
    ranks = Counter[int]()
    places = [(100 * n, 0) for n in range(1, 13)]
    together = ~np.eye(12, dtype=bool)
    for seed in range(400):
        rng = np.random.default_rng(seed)
        depths = rng.uniform(10, 30, 13)
        chosen = points.choose([(0, 0)], places, together, np.ones(13, bool), depths, 3, rng)
        if len(chosen) == 3:
            ranks[sum(depths[1 + number] < depths[0] for number in chosen)] += 1
    assert ranks.total() > 200
    assert_even(ranks, 4)


@functools.cache
def small_plans() -> tuple[Drawn, ...]:
    """Plans of small lesions, a hundredth of the picture, each of which has one."""
    found = []
    for seed in range(60):
        optimal = shapes.blob(np.random.default_rng(seed), (512, 512), (250, 250), (31, 22))
        drawn = plans.draw(f"small {seed}", optimal, np.ones_like(optimal), seed)
        assert isinstance(drawn, Drawn), drawn
        found.append(drawn)
    return tuple(found)


@pytest.mark.long
def test_on_a_small_lesion_each_of_the_four_pictures_could_be_the_right_one() -> None:
    # Squares of errors would make the right one the nearest to the outline shown in half of the cases.
    ranks = Counter[int]()
    for drawn in small_plans():
        far = [difference(drawn, errors) for errors in drawn.plan.results]
        ranks[sum(one < far[drawn.plan.right_result - 1] for one in far)] += 1
        if not drawn.is_square:
            assert [len({*errors} ^ {*drawn.plan.true}) for errors in drawn.plan.results] == [1] * 4
    assert_even(ranks, 4)
    assert ranks[0] < 25


@pytest.mark.parametrize("left", rest_long([2, 0, 1], keep=1))
def test_a_lesion_whose_altered_mask_has_room_for_few_edits_or_none_still_has_a_plan_or_a_reason(
    left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_lesions, "draw_edits", lambda sampler, modest: draw_edits(sampler, modest)[:left])
    optimal = shapes.blob(np.random.default_rng(3), (1024, 1024), (500, 500), (62, 44))
    drawn = plans.draw("small", optimal, np.ones_like(optimal), 3)
    assert isinstance(drawn, Drawn), drawn
    assert drawn.is_square, "there were no three other edits to choose from"
    assert_plan(drawn)


def points_drawn_again(drawn: Drawn, times: int) -> list[tuple[Point, ...]]:
    """Other random points of the same plan."""
    plan, limits = drawn.plan, Limits.of(plans.RECIPE.deformation, max(drawn.optimal.shape))
    sampler = EditSampler(drawn.optimal, drawn.field, limits, np.random.default_rng(len(plan.points)))
    alike = tuple(range(len(plan.edits)))
    drawings = [
        points.draw_points(
            sampler, plan.suboptimal(drawn.optimal), plan.edits, plan.true, alike, plans.RECIPE.points,
            max(drawn.optimal.shape),
        )
        for _ in range(times)
    ]  # fmt: skip
    return [drawing for drawing in drawings if drawing is not None]


@pytest.mark.long
def test_on_a_small_lesion_the_other_points_lie_no_farther_from_the_outline_either() -> None:
    # A tenth of the picture from the point of an edit there may be nothing but the far end of such a lesion. Most other
    # points lie on the other side of the outline, since there is room for one point inside. Only one drawing in five
    # has a true point and another one on the same side, so the points of each plan are drawn several times.
    ratios = []
    for drawn in small_plans():
        for shown in [drawn.plan.points, *points_drawn_again(drawn, 3)]:
            for inside in (False, True):
                beside = [point for point in shown if point.inside == inside]
                own = [point.distance for point in beside if point.edit is not None]
                others = [point.distance for point in beside if point.edit is None]
                if own and others:
                    ratios.append(max(others) / min(own))
    assert len(ratios) > 30, "too few to tell a share of nine in ten"
    assert np.mean(np.array(ratios) < 2) > 0.9


def test_a_plan_survives_being_written_and_read() -> None:
    for drawn in plans.of_drawn_shapes()[:6]:
        record = json.loads(json.dumps(codec.encode(drawn.plan)))
        again = codec.decode(ContourPlan, record)
        assert again.results == drawn.plan.results
        assert again.points == drawn.plan.points
        assert (again.true, again.overlap) == (drawn.plan.true, drawn.plan.overlap)
        assert np.array_equal(again.suboptimal(drawn.optimal), drawn.plan.suboptimal(drawn.optimal))
        assert codec.encode(again) == codec.encode(drawn.plan)


def test_the_same_stream_draws_the_same_plan_and_another_stream_another() -> None:
    optimal = roomy_plans()[0].optimal
    records = []
    for seed in (1, 1, 2):
        drawn = plans.draw("round", optimal, np.ones_like(optimal), seed)
        assert isinstance(drawn, Drawn)
        records.append(codec.encode(drawn.plan))
    assert records[0] == records[1] != records[2]


@pytest.mark.parametrize("size", [1, 12])
def test_a_lesion_without_room_for_edits_says_so_in_words(size: int) -> None:
    optimal = np.zeros((SIDE, SIDE), bool)
    optimal[500 : 500 + size, 300 : 300 + size] = True
    edits, points_rules = plans.RECIPE.deformation, plans.RECIPE.points
    plan = contour.draw_plan(optimal, np.ones_like(optimal), edits, points_rules, np.random.default_rng(0))
    assert isinstance(plan, str)
    assert "no room for 3 visible edits" in plan
