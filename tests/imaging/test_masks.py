"""Run lengths, polygons and parts of masks, against plain loops and the radiologists' own files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from chexqa.files.errors import InputError
from chexqa.imaging import masks

small_masks = hnp.arrays(np.bool_, hnp.array_shapes(min_dims=2, max_dims=2, max_side=40))


def counts_by_loop(mask: np.ndarray) -> list[int]:
    """Run lengths down the columns, pixel by pixel."""
    counts, state = [0], False
    for x in range(mask.shape[1]):
        for y in range(mask.shape[0]):
            if bool(mask[y, x]) != state:
                counts.append(0)
                state = not state
            counts[-1] += 1
    return counts


def decode_by_loop(text: str) -> list[int]:
    """The counts of a compressed string, character by character."""
    counts: list[int] = []
    value = shift = 0
    for character in text:
        code = ord(character) - 48
        value |= (code & 31) << shift
        shift += 5
        if not code & 32:
            if code & 16:
                value -= 1 << shift
            counts.append(value + (counts[-2] if len(counts) > 2 else 0))
            value = shift = 0
    return counts


@given(small_masks)
def test_a_mask_comes_back_from_its_run_lengths(mask: np.ndarray) -> None:
    assert np.array_equal(masks.from_rle(masks.to_rle(mask), "here"), mask)


@given(small_masks)
def test_compressed_counts_are_those_of_the_plain_loops(mask: np.ndarray) -> None:
    rle = masks.to_rle(mask)
    assert rle["size"] == list(mask.shape)
    assert decode_by_loop(rle["counts"]) == counts_by_loop(mask)


@given(small_masks)
def test_plain_counts_are_read_as_the_compressed_ones(mask: np.ndarray) -> None:
    plain = {"size": list(mask.shape), "counts": counts_by_loop(mask)}
    assert np.array_equal(masks.from_rle(plain, "here"), mask)
    assert masks.rle_area(plain, "here") == mask.sum()


def test_runs_of_millions_of_pixels_survive() -> None:
    mask = np.zeros((3000, 4000), np.bool_)
    mask[1, 1] = mask[2999, 3999] = True
    mask[5:2000, 700:3500] = True
    rle = masks.to_rle(mask)
    assert decode_by_loop(rle["counts"])[:3] == [3001, 1, 2_097_003]
    assert np.array_equal(masks.from_rle(rle, "here"), mask)


@pytest.mark.parametrize(
    ("rle", "sentence"),
    [
        ({"size": [2, 3], "counts": [1, 2]}, "run lengths add up to 3 pixels, but a mask of 2 x 3 has 6"),
        ({"size": [2, 3], "counts": [4, 5]}, "run lengths add up to 9 pixels"),
        ({"size": [2, 3], "counts": [8, -2]}, "damaged (a run of -2 pixels)"),
        ({"size": [2, 3], "counts": [2**70]}, "damaged"),
        ({"size": [2, 3], "counts": "6\x7f"}, "characters that compressed COCO run lengths never have"),
        ({"size": [2, 3], "counts": "é"}, "characters that compressed COCO run lengths never have"),
        ({"size": [2, 3], "counts": "P"}, "cut off or damaged"),
        ({"size": [2, 3], "counts": "PPPPPPPP0"}, "cut off or damaged"),
        ({"size": [90_000, 90_000], "counts": [8_100_000_000]}, "more than 64,000,000 pixels"),
    ],
)
def test_damaged_run_lengths_are_named(rle: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as error:
        masks.from_rle(rle, "cases.jsonl, line 7")
    assert str(error.value).startswith("cases.jsonl, line 7: ")
    assert sentence in str(error.value)


@given(st.text(min_size=1, max_size=30), st.integers(1, 50), st.integers(1, 50))
def test_any_text_as_counts_is_a_mask_or_an_input_error(text: str, height: int, width: int) -> None:
    try:
        mask = masks.from_rle({"size": [height, width], "counts": text}, "here")
    except InputError:
        return
    assert mask.shape == (height, width)


@given(small_masks)
@settings(max_examples=30)
def test_a_mask_comes_back_from_polygons_around_its_runs(mask: np.ndarray) -> None:
    polygons = []
    for y, row in enumerate(mask):
        edges = np.flatnonzero(np.diff(np.concatenate(([0], row.astype(np.int8), [0]))))
        for start, stop in zip(edges[::2], edges[1::2], strict=True):
            polygons.append([[start, y], [stop - 1, y], [stop - 1, y]])
    assert np.array_equal(masks.from_polygons(polygons, mask.shape, "here"), mask)


def test_a_polygon_takes_in_the_pixels_of_its_outline() -> None:
    mask = masks.from_polygons([[[2, 1], [5, 1], [5, 3], [2, 3]]], (6, 8), "here")
    expected = np.zeros((6, 8), np.bool_)
    expected[1:4, 2:6] = True
    assert np.array_equal(mask, expected)


def test_polygons_are_joined_and_cut_at_the_picture() -> None:
    mask = masks.from_polygons([[[-1, -1], [2, -1], [2, 2], [-1, 2]], [[1, 1], [4, 1], [4, 4]]], (100, 100), "here")
    assert mask[0, 0]
    assert mask[2, 2]
    assert mask[4, 4]
    assert not mask[5:].any()


@pytest.mark.parametrize("point", [[300.0, 5.0], [5.0, -40.0], [float("nan"), 5.0]])
def test_a_polygon_of_another_picture_is_refused(point: list[float]) -> None:
    with pytest.raises(InputError, match=r"polygon 2 has the point .* outside the image of 200 x 100 px"):
        masks.from_polygons([[[1, 1], [5, 1], [5, 5]], [[1, 1], [5, 1], point]], (100, 200), "line 3")


def test_parts_that_meet_at_a_corner_are_one_by_eight_and_two_by_four() -> None:
    mask = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 0]], np.bool_)
    assert masks.components(mask, 4)[1] == 2
    labels, count = masks.components(mask, 8)
    assert count == 1
    assert np.array_equal(labels > 0, mask)
    assert masks.components(np.zeros((3, 3), np.bool_), 4)[1] == 0


@given(small_masks)
def test_pixels_are_told_row_by_row(mask: np.ndarray) -> None:
    assert np.array_equal(masks.pixels(mask), np.argwhere(mask))


def test_a_disc_is_round() -> None:
    assert masks.disc(0).tolist() == [[1]]
    assert masks.disc(1).tolist() == [[0, 1, 0], [1, 1, 1], [0, 1, 0]]
    assert masks.disc(3).sum() == 29


def test_iou_and_dice_by_counting() -> None:
    one, other = np.zeros((2, 20, 20), bool)
    one[:10, :10] = other[5:10, :] = True  # 100 and 100 pixels, 50 of them shared
    assert (masks.iou(one, other), masks.dice(one, other)) == (50 / 150, 100 / 200)
    assert (masks.iou(one, ~one), masks.dice(one, ~one)) == (0, 0)


def test_two_empty_masks_are_the_same_mask() -> None:
    none = np.zeros((4, 4), bool)
    assert (masks.iou(none, none), masks.dice(none, none)) == (1, 1)


def test_the_radiologists_polygons_and_run_lengths_agree_to_the_pixel(real_data: Path) -> None:
    folder = real_data / "chexlocalize_sample"
    runs = json.loads((folder / "gt_segmentations_val.json").read_text())
    outlines = json.loads((folder / "gt_annotations_val.json").read_text())
    compared = 0
    for key, findings in outlines.items():
        shape = tuple(findings.pop("img_size"))
        for name, polygons in findings.items():
            mask = masks.from_rle(runs[key][name], name)
            assert np.array_equal(masks.from_polygons(polygons, shape, name), mask)
            assert masks.to_rle(mask) == runs[key][name]
            compared += 1
    assert compared == 3
