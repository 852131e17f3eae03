"""Places against their targets, on masks small enough to count by hand."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from chexqa.eval.places import score as scores
from chexqa.eval.places.score import box_iou, filled, matches, score, surface_distance
from chexqa.eval.places.target import Box, Target, make_target
from chexqa.imaging.read import Mask


def square(x: int, y: int, side: int, size: int = 200) -> Mask:
    mask = np.zeros((size, size), bool)
    mask[y : y + side, x : x + side] = True
    return mask


@pytest.mark.parametrize(
    ("point", "right"),
    [
        ((60.0, 60.0), True),  # the first pixel of the mask
        ((99.9, 99.9), True),  # the last one
        ((57.0, 80.0), True),  # 3 px outside: 1.5 % of 200 px
        ((55.9, 80.0), False),  # 5 px outside
        ((150.0, 150.0), False),
    ],
)
def test_a_point_may_lie_a_little_outside_the_mask(point: tuple[float, float], right: bool) -> None:
    assert score("point", [point], make_target({"lesion": square(60, 60, 40)})).right is right


def test_one_box_holds_all_areas_and_several_boxes_hold_one_each() -> None:
    target = make_target({"lesion": square(10, 10, 40) | square(120, 120, 60)})
    assert target.box == (10, 10, 180, 180)
    assert target.boxes == ((10, 10, 50, 50), (120, 120, 180, 180))


def test_areas_closer_than_two_percent_are_one_and_specks_count_in_no_box() -> None:
    near = make_target({"lesion": square(10, 10, 40) | square(52, 10, 40)})
    assert near.boxes == ((10, 10, 92, 50),)
    apart = make_target({"lesion": square(10, 10, 40) | square(56, 10, 40)})
    assert apart.boxes == ((10, 10, 50, 50), (56, 10, 96, 50))
    speck = make_target({"lesion": square(10, 10, 40) | square(150, 150, 3)})
    assert speck.boxes == ((10, 10, 50, 50),)
    assert make_target({"lesion": square(150, 150, 3)}).boxes == ((150, 150, 153, 153),)  # nothing else is there


@pytest.mark.parametrize(
    ("box", "right"), [((10, 10, 50, 50), True), ((10, 10, 50, 31), True), ((10, 10, 50, 29), False)]
)
def test_a_box_is_right_from_half_of_the_common_area(box: Box, right: bool) -> None:
    assert score("box", [box], make_target({"lesion": square(10, 10, 40)})).right is right


def test_several_boxes_are_matched_one_to_one() -> None:
    target = make_target({"lesion": square(10, 10, 40) | square(120, 120, 60)})
    one, other = target.boxes
    assert score("boxes", [other, one], target).right
    doubled = score("boxes", [one, one], target)
    assert (doubled.right, doubled.precision, doubled.recall, doubled.f1_30) == (False, 0.5, 0.5, 0.5)
    x, y, right, bottom = one
    loose = score("boxes", [(x, y, right, y + 0.2 * (bottom - y)), other], target)
    assert (loose.right, loose.f1_10, loose.f1_30) == (False, 1.0, 0.5)
    missed = score("boxes", [one], target)
    assert (missed.right, missed.precision, missed.recall) == (False, 1.0, 0.5)


coordinates, sides = (st.integers(*ends).map(lambda number: number / 10) for ends in ((0, 1000), (5, 600)))
boxes = st.tuples(coordinates, coordinates, sides, sides).map(
    lambda box: (box[0], box[1], box[0] + box[2], box[1] + box[3])
)


@given(boxes, boxes)
def test_the_overlap_of_boxes_is_that_of_fine_pixels(one: Box, other: Box) -> None:
    grid = (np.arange(1600) + 0.5) / 10  # the sides lie between these
    inside = [np.outer((grid > box[1]) & (grid < box[3]), (grid > box[0]) & (grid < box[2])) for box in (one, other)]
    union = np.count_nonzero(inside[0] | inside[1])
    assert box_iou(one, other) == pytest.approx(np.count_nonzero(inside[0] & inside[1]) / union)


@settings(max_examples=50)
@given(st.lists(boxes, min_size=1, max_size=4), st.lists(boxes, min_size=1, max_size=4), st.sampled_from([0.1, 0.3]))
def test_matching_finds_as_many_pairs_as_trying_all(given_boxes: list[Box], wanted: list[Box], least: float) -> None:
    short, long = sorted((given_boxes, wanted), key=len)
    best = max(
        sum(box_iou(box, other) >= least for box, other in zip(short, order, strict=False))
        for order in permutations(long, len(short))
    )
    assert matches(given_boxes, wanted, least) == best


def test_an_outline_is_compared_by_its_pixels_and_by_its_border() -> None:
    target = make_target({"lesion": square(60, 60, 40)})
    exact = score("outline", target.outlines, target)
    assert (exact.right, exact.dice, exact.distance) == (True, 1.0, 0.0)
    shifted = score("outline", [(70, 60, 110, 60, 110, 100, 70, 100)], target)
    assert (shifted.iou, shifted.dice) == (pytest.approx(0.6, abs=1e-9), pytest.approx(0.75, abs=1e-9))
    both = score("outline", [(60, 60, 80, 60, 80, 100, 60, 100), (80, 60, 100, 60, 100, 100, 80, 100)], target)
    assert both.dice == pytest.approx(1.0)


def test_the_surface_distance_is_the_mean_over_both_borders() -> None:
    one, other = square(10, 10, 20, 60), square(14, 12, 25, 60)

    def border(mask: Mask) -> np.ndarray:
        padded = np.pad(mask, 1)
        inner = np.logical_and.reduce([padded[1 + y : y + 61, 1 + x : x + 61] for y in (-1, 0, 1) for x in (-1, 0, 1)])
        return np.argwhere(mask & ~inner)

    apart = cdist(border(one), border(other))
    plain = np.concatenate([apart.min(axis=0), apart.min(axis=1)]).mean()
    assert surface_distance(one, other) == pytest.approx(plain, abs=1e-3)
    assert surface_distance(one, np.zeros_like(one)) is None


def test_a_polygon_fills_the_pixels_whose_middle_it_holds() -> None:
    expected = np.zeros((10, 10), bool)
    expected[3:5, 2:6] = True
    assert (filled([(2, 3, 6, 3, 6, 5, 2, 5)], (10, 10)) == expected).all()
    assert (filled([(1.6, 2.6, 6.4, 2.6, 6.4, 5.4, 1.6, 5.4)], (10, 10)) == expected).all()
    assert filled([(-5, -5, 20, -5, 20, 20, -5, 20)], (10, 10)).all()


@pytest.mark.parametrize(
    ("ends", "right"), [((60, 0, 140, 0), True), ((140, 0, 60, 0), True), ((60, 0, 146, 0), False)]
)
def test_the_width_of_the_heart_is_judged_by_the_ratio(ends: tuple[float, ...], right: bool) -> None:
    # The heart is 80 px wide and the chest 160: an end 6 px off is 0.0375 of the chest.
    target = Target(np.zeros((200, 200), bool), None, heart=(60, 140), chest=(20, 180))
    found = score("width", [ends], target)
    assert found.right is right
    assert found.error == pytest.approx(0.0 if right else 6 / 160)


@pytest.mark.parametrize(
    "mask", [square(0, 0, 200), square(0, 0, 5), square(195, 195, 5), square(100, 100, 1)],
    ids=["the whole picture", "a corner", "the last corner", "one pixel"],
)  # fmt: skip
@pytest.mark.parametrize("form", ["point", "box", "boxes"])
def test_the_right_place_is_right_at_every_edge(mask: Mask, form: str) -> None:
    target = make_target({"lesion": mask})
    places = {"point": [target.inner_point], "box": [target.box], "boxes": target.boxes}
    assert score(form, places[form], target).right
    assert scores.is_hit(target.inner_point, target)
