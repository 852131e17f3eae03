"""Local edits of a mask: large enough to see, inside their field, apart, and never a change of the lesion's parts."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import plans
import pytest
import shapes
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import Drawn
from rest_long import rest_long
from scipy import ndimage

from chexqa.generators.contour import plan as contour
from chexqa.generators.contour.edit_sampler import KINDS, EditSampler, Kind
from chexqa.generators.contour.edit_sets import draw_edits
from chexqa.generators.contour.edits import Edit, Limits, apply, deepest_xy, depth_of, distance_to, part_count
from chexqa.imaging.hand_drawn import smooth_outlines

SIDE = 1024
LIMITS = Limits.of(plans.RECIPE.deformation, SIDE)
FOUR, EIGHT = ndimage.generate_binary_structure(2, 1), ndimage.generate_binary_structure(2, 2)


def assert_edit(edit: Edit, altered: shapes.Mask, field: shapes.Mask, lesion_area: int) -> None:
    """Everything one edit of a mask promises, measured anew and with another library."""
    area = edit.paint(altered.shape)
    x, y = edit.point_xy
    assert area[y, x]
    window = shapes.around(altered, area)
    area, altered, field = area[window], altered[window], field[window]
    if edit.over:
        assert not (area & altered).any()
        assert not (area & ~field).any()
        depth = ndimage.distance_transform_edt(~altered)[area].max()
    else:
        assert not (area & ~altered).any()
        depth = ndimage.distance_transform_edt(~(altered & ~area))[area].max()
    assert depth == pytest.approx(edit.depth, abs=0.01)
    assert depth >= 12
    assert edit.share == pytest.approx(area.sum() / lesion_area)
    assert 0.05 <= edit.share <= LIMITS.max_share
    inside = ndimage.distance_transform_edt(np.pad(area, 1))[1:-1, 1:-1]
    assert inside[y - window[0].start, x - window[1].start] == pytest.approx(inside.max(), abs=0.01)


def assert_same_parts(before: shapes.Mask, afters: Sequence[shapes.Mask], what: str) -> None:
    """Every part of one mask meets just one of the other, and so does every part of the ground (so no new holes)."""
    window = shapes.around(before, *afters)
    before, cropped = np.pad(before[window], 1), [np.pad(after[window], 1) for after in afters]
    for joined, inside in ((FOUR, True), (EIGHT, True), (FOUR, False)):
        labels, count = ndimage.label(before == inside, joined)
        for after in cropped:
            others, other_count = ndimage.label(after == inside, joined)
            both = (labels > 0) & (others > 0)
            met = np.unique(labels[both].astype(np.int64) * (other_count + 1) + others[both])
            assert len(met) == count == other_count, what


def some_edits(lesion: shapes.Mask, field: shapes.Mask, seed: int, modest: bool = False) -> list[Edit]:
    """A case's pool of edits."""
    return [drawn.edit for drawn in draw_edits(EditSampler(lesion, field, LIMITS, np.random.default_rng(seed)), modest)]


def assert_edits(drawn: Drawn) -> None:
    plan = drawn.plan
    assert len(plan.edits) >= 2
    for number, edit in enumerate(plan.edits):
        assert_edit(edit, drawn.altered_by(number), drawn.field, int(drawn.optimal.sum()))
    # What is shown together: the true ones, and each picture of the result.
    shown = {plan.true, *plan.results}
    for chosen in shown if drawn.is_square else ():
        for one, other in itertools.combinations(chosen, 2):
            first, second = (plan.edits[number].paint(drawn.optimal.shape) for number in (one, other))
            window = shapes.around(first, second)
            assert ndimage.distance_transform_edt(~first[window])[second[window]].min() > LIMITS.min_gap
    masks = [apply(drawn.optimal, [plan.edits[number] for number in chosen]) for chosen in shown]
    assert_same_parts(drawn.optimal, masks, drawn.name)


@pytest.mark.parametrize(
    "index",
    [
        pytest.param(index, marks=pytest.mark.long) if index % 4 else index
        for index in range(len(shapes.KINDS) * len(plans.SEEDS))
    ],
)
def test_edits_of_drawn_lesions_keep_every_promise(index: int) -> None:
    assert_edits(plans.of_drawn_shapes()[index])


def test_edits_of_real_lesions_keep_every_promise(real_data: Path) -> None:
    """Some of the lesions that cover at least half a percent of the picture: each can be deformed."""
    found = plans.of_real_shapes(real_data)
    assert len(found) > 8
    for drawn in found:
        assert_edits(drawn)


@pytest.mark.long
@settings(max_examples=8, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(KINDS))
def test_any_blobs_give_edits_that_keep_every_promise_or_none(seed: int, kind: Kind) -> None:
    """Lesions of several blobs, some touching by a corner, some too small for any edit."""
    rng = np.random.default_rng(seed)
    lesion = shapes.some_lesion(rng, (512, 512)).repeat(2, axis=0).repeat(2, axis=1)
    field = lesion | shapes.some_lesion(rng, (SIDE, SIDE))
    sampler = EditSampler(lesion, field, LIMITS, rng)
    for edit in [sampler.edit(kind, modest) for modest in (False, True) for _ in range(4)]:
        if edit is not None:
            assert edit.over == (kind in ("bump", "fill"))
            assert_edit(edit, lesion, field, int(lesion.sum()))
            assert_same_parts(lesion, [apply(lesion, [edit])], f"seed {seed}")


def test_a_field_that_is_the_lesion_itself_allows_only_missed_parts() -> None:
    lesion = shapes.lesion_of_kind(np.random.default_rng(4), "round")
    found = [some_edits(lesion, lesion, seed) for seed in range(3)]
    assert all(len(edits) >= 3 for edits in found)
    assert not any(edit.over for edits in found for edit in edits)


def test_edits_do_not_depend_on_where_in_the_picture_the_lesion_lies() -> None:
    lesion = np.zeros((SIDE, SIDE), bool)
    lesion[400:560, 380:600] = True
    moved = np.roll(lesion, (36, -52), axis=(0, 1))
    rules = plans.RECIPE
    plans_of = [
        contour.draw_plan(mask, np.ones_like(mask), rules.deformation, rules.points, np.random.default_rng(8))
        for mask in (lesion, moved)
    ]
    first, second = (
        [edit.point_xy for edit in plan.edits] for plan in plans_of if isinstance(plan, contour.ContourPlan)
    )
    assert [(x - 52, y + 36) for x, y in first] == second


@pytest.mark.parametrize("kind", ["cut", "fill"])
def test_a_cut_or_fill_makes_the_outline_shorter(kind: Kind) -> None:
    """A square with a notch: there are corners to leave off, and a bay to fill."""
    lesion = np.zeros((SIDE, SIDE), bool)
    lesion[400:640, 400:640] = True
    lesion[400:500, 480:560] = False
    sampler = EditSampler(lesion, np.ones_like(lesion), LIMITS, np.random.default_rng(1))
    found = [edit for _ in range(40) if (edit := sampler.edit(kind)) is not None]
    assert len(found) > 5
    lengths = [
        sum(cv2.arcLength(line.astype(np.float32), True) for line in smooth_outlines(apply(lesion, [edit])))
        for edit in found
    ]
    before = sum(cv2.arcLength(line.astype(np.float32), True) for line in smooth_outlines(lesion))
    assert max(lengths) < before


@pytest.mark.parametrize(
    "what", rest_long(["one pixel", "the whole picture", "one row", "a speck", "all but one pixel"])
)
def test_hopeless_masks_give_fewer_edits_and_no_error(what: str) -> None:
    lesion = np.zeros((SIDE, SIDE), bool)
    if what == "one pixel":
        lesion[0, 0] = True
    elif what == "one row":
        lesion[1023, :] = True
    elif what == "a speck":
        lesion[500:510, 500:512] = True
    else:
        lesion[:] = True
        lesion[512, 512] = what == "the whole picture"
    for edit in some_edits(lesion, np.ones_like(lesion), 0):
        assert_edit(edit, lesion, np.ones_like(lesion), int(lesion.sum()))


def test_both_kinds_of_edit_are_drawn() -> None:
    kinds = {edit.over for drawn in plans.of_drawn_shapes() for edit in drawn.plan.edits}
    assert kinds == {True, False}


def test_the_deepest_place_of_an_area_is_its_first_in_reading_order() -> None:
    area = np.zeros((20, 20), bool)
    area[3:8, 10:15], area[5:10, 2:7] = True, True
    assert deepest_xy(area) == (12, 5)
    assert deepest_xy(~np.zeros((1, 1), bool)) == (0, 0)


@pytest.mark.parametrize("seed", range(6))
def test_distances_are_exact_to_the_last_bit(seed: int) -> None:
    """OpenCV's own differ in the last bits from call to call, which would draw other edits from the same seed."""
    rng = np.random.default_rng(seed)
    mask = shapes.some_lesion(rng, (int(rng.integers(30, 400)), int(rng.integers(30, 400))))
    exact = ndimage.distance_transform_edt(~mask).astype(np.float32)
    for shift in range(4):
        memory = np.zeros(mask.size + 64, bool)[shift * 7 : shift * 7 + mask.size].reshape(mask.shape)
        memory[:] = mask
        assert np.array_equal(distance_to(memory), exact)


@given(st.integers(0, 10**6))
def test_the_depth_of_a_mask_is_that_of_the_whole_picture(seed: int) -> None:
    """It is looked for about the mask alone, which may touch the picture's border: what lies beyond is no ground."""
    rng = np.random.default_rng(seed)
    mask = np.zeros(rng.integers(3, 40, 2), bool)
    for _ in range(3):
        y, x = (int(rng.integers(0, side)) for side in mask.shape)
        mask[y : y + int(rng.integers(1, 30)), x : x + int(rng.integers(1, 30))] = True
    if not mask.all():
        assert np.array_equal(depth_of(mask), ndimage.distance_transform_edt(mask).astype(np.float32))


@given(st.integers(0, 10**6), st.sampled_from([0.5, 1, 2.5, 6.144, 7.9, 8.1, 20.48]))
def test_what_is_near_an_edit_is_what_its_distance_says(seed: int, distance: float) -> None:
    rng = np.random.default_rng(seed)
    area = rng.random(rng.integers(1, 9, 2)) < 0.6
    area[0, 0] = True
    x, y = (int(value) for value in rng.integers(0, 30, 2))
    around, near = Edit(True, (x, y), area, (x, y), 1.0, 0.1).within(distance, (40, 40))
    whole = np.zeros((40, 40), bool)
    whole[y : y + area.shape[0], x : x + area.shape[1]] = area
    assert np.array_equal(near, (ndimage.distance_transform_edt(~whole) <= distance)[around])


@given(st.integers(0, 10**6))
def test_parts_are_counted_in_the_whole_picture(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mask = np.zeros((12, 14), bool)
    mask[3:9, 2:12] = rng.random((6, 10)) < rng.uniform(0.1, 0.9)
    ground = np.pad(~mask, 1, constant_values=True)
    counts = (ndimage.label(mask, FOUR)[1], ndimage.label(mask, EIGHT)[1], ndimage.label(ground, FOUR)[1])
    assert part_count(mask) == counts
