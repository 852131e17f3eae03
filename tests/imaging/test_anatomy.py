"""Zones and regions against a second implementation in plain loops, written from the definitions alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import shapes
from rest_long import rest_long
from slow_anatomy import pixels_of, slow_core, slow_growth, slow_regions

from chexqa.imaging import anatomy
from chexqa.imaging.anatomy import (
    REGIONS,
    Lungs,
    Mask,
    frames,
    grow_lungs,
    lung_cores,
    region_pixels,
    regions,
    side_of,
    zone_of,
)
from chexqa.imaging.masks import window


def assert_agrees(right: Mask, left: Mask, lesion: Mask) -> None:
    grown = grow_lungs(Lungs(right, left), lesion)
    assert pixels_of(grown.right) == slow_growth(pixels_of(right), pixels_of(lesion))
    assert pixels_of(grown.left) == slow_growth(pixels_of(left), pixels_of(lesion))
    fast = regions(grown)
    slow = slow_regions(pixels_of(grown.right), pixels_of(grown.left), lesion.shape)
    assert list(fast) == [name for name in REGIONS if name in slow]
    for name, mask in fast.items():
        assert pixels_of(mask) == slow[name], name
    counted = {}
    for side, frame in frames(grown).items():
        inside = grown.side(side) & lesion
        counts = region_pixels(frame, inside, np.s_[0 : inside.shape[0], 0 : inside.shape[1]])
        if inside.any():
            assert region_pixels(frame, inside[window(inside)], window(inside)) == counts
        counted |= counts
    assert counted == {name: len(pixels & pixels_of(lesion)) for name, pixels in slow.items()}


@pytest.mark.parametrize("seed", rest_long(range(40), keep=20))
def test_drawn_lungs_agree_with_plain_loops_to_the_pixel(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = int(rng.integers(40, 90)), int(rng.integers(40, 90))
    right, left = shapes.two_lungs(rng, shape)
    assert_agrees(right, left, shapes.some_lesion(rng, shape))


@pytest.mark.parametrize("seed", range(12))
def test_scattered_pixels_agree_with_plain_loops_to_the_pixel(seed: int) -> None:
    """Nothing like a lung: every rule has to hold for any two masks."""
    rng = np.random.default_rng(seed)
    shape = int(rng.integers(3, 14)), int(rng.integers(3, 14))
    assert_agrees(*(rng.random(shape) < rng.uniform(0.1, 0.9) for _ in range(3)))


def test_real_jsrt_lungs_agree_with_plain_loops_to_the_pixel(real_data: Path) -> None:
    rng = np.random.default_rng(1)
    for right, left in list(shapes.jsrt(real_data, 96).values())[:8]:
        assert_agrees(right, left, shapes.some_lesion(rng, right.shape))


def test_real_chexmask_lungs_agree_with_plain_loops_to_the_pixel(real_data: Path) -> None:
    rng = np.random.default_rng(2)
    for right, left in list(shapes.chexmask(real_data, 12).values())[:8]:
        assert_agrees(right, left, shapes.some_lesion(rng, right.shape))


def odd_anatomies() -> Iterator[tuple[str, Mask, Mask, Mask]]:
    shape = (60, 50)
    nothing = np.zeros(shape, bool)
    lung, other = nothing.copy(), nothing.copy()
    lung[10:50, 5:20], other[8:52, 28:46] = True, True
    pixel, row, edge = nothing.copy(), nothing.copy(), nothing.copy()
    pixel[30, 12], row[30, 3:22], edge[:, :20] = True, True, True
    yield "no lung", nothing, nothing, lung
    yield "right lung alone", lung, nothing, nothing
    yield "left lung alone", nothing, other, nothing
    yield "a lung of one pixel", pixel, other, nothing
    yield "both lungs of one pixel", pixel, np.roll(pixel, 20, axis=1), nothing
    yield "a lung of one row", row, other, nothing
    yield "a lung of one column", row[:, :1] | (nothing | (np.arange(50) == 8)), other, nothing
    yield "a lung along three borders", edge, np.roll(edge, 30, axis=1), nothing
    yield "lungs over the whole picture", ~nothing, ~nothing, nothing
    comb = lung.copy()
    comb[::2] = False
    yield "a lung without core", comb, other, nothing
    two = lung.copy()
    two[28:31] = False
    yield "a lung in two parts", two, other, nothing
    bridge = nothing.copy()
    bridge[35:40, 15:35] = True
    yield "a lesion that joins both lungs", lung, other, bridge
    corner = nothing.copy()
    corner[50:56, 20:26] = True
    yield "a lesion that meets a lung at a corner only", lung, other, corner
    beyond = nothing.copy()
    beyond[40:58, 2:10] = True
    yield "a lesion that lengthens a lung", lung, other, beyond


@pytest.mark.parametrize("case", list(odd_anatomies()), ids=lambda case: case[0])
def test_odd_anatomies_agree_with_plain_loops_to_the_pixel(case: tuple[str, Mask, Mask, Mask]) -> None:
    assert_agrees(*case[1:])


def test_a_lung_grows_by_a_lesion_that_shares_one_pixel_and_by_no_other() -> None:
    right, lesion = np.zeros((20, 20), bool), np.zeros((20, 20), bool)
    right[2:18, 2:8] = True
    lesion[5, 7:12] = True  # one pixel shared
    lesion[10, 8:12] = True  # beside the lung, none shared
    grown = grow_lungs(Lungs(right, np.zeros_like(right)), lesion)
    assert grown.right[5, 11]
    assert not grown.right[10, 8]
    assert not grown.left.any()


def test_a_missing_lung_has_no_regions_and_the_other_all_ten() -> None:
    left = np.zeros((60, 50), bool)
    left[8:52, 28:46] = True
    found = regions(Lungs(np.zeros_like(left), left))
    assert {side_of(name) for name in found} == {"left"}
    assert len(found) == 10
    assert found["left_upper_lateral"][8, 45]
    assert found["left_upper_medial"][8, 28]


def test_medial_and_lateral_parts_of_all_zones_are_the_lung() -> None:
    right, left = shapes.two_lungs(np.random.default_rng(5), (90, 80))
    found = regions(Lungs(right, left))
    for side, lung in (("right", right), ("left", left)):
        names = [f"{side}_{zone}_{part}" for zone in anatomy.ZONES for part in ("medial", "lateral")]
        assert np.array_equal(sum(found[name].astype(int) for name in names), lung.astype(int))


def test_of_two_equal_cores_the_first_in_reading_order_is_kept() -> None:
    """The second begins further left and one row lower, in the same pair of rows."""
    right = np.zeros((12, 30), bool)
    right[1:4, 2:4], right[0:3, 8:10] = True, True
    right[0, 20] = right[11, 20] = True  # thin rows at the thirds: a square of one pixel erodes nothing
    core = lung_cores(Lungs(right, np.zeros_like(right))).right
    assert pixels_of(core) == slow_core(pixels_of(right), pixels_of(right), 1, right.shape)
    assert core[0, 8]


@pytest.mark.parametrize("places", [[(2, 9), (5, 3)], [(2, 3), (2, 9), (7, 1)]])
def test_of_single_pixels_that_do_not_touch_the_first_is_the_core(places: list[tuple[int, int]]) -> None:
    right = np.zeros((10, 12), bool)
    right[tuple(zip(*places, strict=True))] = True
    core = lung_cores(Lungs(right, np.zeros_like(right))).right
    assert pixels_of(core) == {(places[0][1], places[0][0])}


def test_a_costophrenic_angle_counts_as_lower_zone() -> None:
    assert len(REGIONS) == 20
    assert {zone_of(name) for name in REGIONS} == {
        f"{side}_{zone}" for side in ("right", "left") for zone in ("upper", "mid", "lower")
    }
    assert zone_of("right_costophrenic_angle") == "right_lower"
