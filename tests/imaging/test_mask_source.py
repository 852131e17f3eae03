"""Masks as manifests name them: other sizes, stretched frames, boxes, intersections."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from chexqa.files.errors import InputError
from chexqa.imaging import mask_source, masks

IMAGE = (120, 200)


def png(path: Path, mask: np.ndarray) -> Path:
    Image.fromarray(mask.astype(np.uint8) * 255).save(path)
    return path


def disc(shape: tuple[int, int], x: float, y: float, radius: float) -> np.ndarray:
    """A disc, as an ellipse where the shape has other proportions; all numbers are shares of a side."""
    rows, columns = np.mgrid[: shape[0], : shape[1]]
    return np.asarray(np.hypot((columns + 0.5) / shape[1] - x, (rows + 0.5) / shape[0] - y) <= radius)


@pytest.mark.parametrize("factor", [0.5, 2, 3.7])
def test_a_mask_of_another_size_and_the_same_proportions_covers_the_same_place(tmp_path: Path, factor: float) -> None:
    size = (round(IMAGE[0] * factor), round(IMAGE[1] * factor))
    drawn = disc(size, 0.3, 0.6, 0.2)
    for source in (png(tmp_path / "m.png", drawn), masks.to_rle(drawn)):
        found = mask_source.read(source, IMAGE, "the mask")
        assert found.shape == IMAGE
        assert np.mean(found != disc(IMAGE, 0.3, 0.6, 0.2)) < 0.01


def test_a_square_mask_needs_the_stretched_frame_and_is_stretched_back(tmp_path: Path) -> None:
    path = png(tmp_path / "m.png", disc((512, 512), 0.3, 0.6, 0.2))
    with pytest.raises(
        InputError, match=r"512 x 512 px and its image 200 x 120 px; .* or set mask_frame to 'stretched'"
    ):
        mask_source.read(path, IMAGE, "the mask")
    found = mask_source.read(path, IMAGE, "the mask", "stretched")
    assert np.mean(found != disc(IMAGE, 0.3, 0.6, 0.2)) < 0.01


@given(
    shape=st.tuples(st.integers(64, 4096), st.integers(64, 4096)),
    factor=st.floats(0.1, 1),
    rounding=st.sampled_from([round, math.floor, math.ceil]),
)
def test_a_scaled_size_fits_however_its_sides_were_rounded(
    shape: tuple[int, int], factor: float, rounding: Callable[[float], int]
) -> None:
    scaled = (rounding(shape[0] * factor), rounding(shape[1] * factor))
    assert mask_source.proportional(scaled, shape)
    assert mask_source.proportional(shape, scaled)


def test_a_mask_may_be_one_pixel_smaller_but_not_taller_and_narrower(tmp_path: Path) -> None:
    fits = png(tmp_path / "fits.png", disc((1023, 1024), 0.5, 0.5, 0.2))
    assert mask_source.read(fits, (1024, 1024), "the mask").shape == (1024, 1024)
    wrong = png(tmp_path / "wrong.png", disc((1025, 1023), 0.5, 0.5, 0.2))
    with pytest.raises(InputError, match=r"the mask is 1023 x 1025 px and its image 1024 x 1024 px"):
        mask_source.read(wrong, (1024, 1024), "the mask")


def test_a_mask_of_neither_shape_is_refused_in_the_stretched_frame(tmp_path: Path) -> None:
    path = png(tmp_path / "m.png", disc((300, 100), 0.5, 0.5, 0.2))
    with pytest.raises(InputError, match="give a mask that is square or has the image's proportions"):
        mask_source.read(path, IMAGE, "the mask", "stretched")


def test_of_several_sources_what_all_have_counts(tmp_path: Path) -> None:
    one, other = disc(IMAGE, 0.4, 0.5, 0.3), disc((60, 100), 0.6, 0.5, 0.3)
    both = {"all_of": [png(tmp_path / "m.png", one), masks.to_rle(other)]}
    found = mask_source.read(both, IMAGE, "the right_lung mask")
    assert np.mean(found != (one & disc(IMAGE, 0.6, 0.5, 0.3))) < 0.01
    assert list(mask_source.files(both)) == [tmp_path / "m.png"]


def test_sources_without_a_common_pixel_are_named() -> None:
    apart = {"all_of": [masks.to_rle(disc(IMAGE, 0.2, 0.5, 0.1)), masks.to_rle(disc(IMAGE, 0.8, 0.5, 0.1))]}
    with pytest.raises(InputError, match="the right_lung mask, of 2 sources: the mask is empty"):
        mask_source.read(apart, IMAGE, "the right_lung mask")


@given(
    st.tuples(*[st.floats(-20, 190), st.floats(-20, 110), st.floats(1, 90), st.floats(1, 90)]).map(list),
)
@settings(max_examples=60, deadline=None)
def test_a_box_is_filled_to_the_nearest_pixel_and_cut_off_at_the_edge(box: list[float]) -> None:
    x, y, width, height = box
    rows, columns = np.mgrid[: IMAGE[0], : IMAGE[1]]
    expected = (columns >= round(x)) & (columns < round(x + width)) & (rows >= round(y)) & (rows < round(y + height))
    if not expected.any():
        with pytest.raises(InputError):
            mask_source.read({"box": box}, IMAGE, "the mask")
        return
    assert np.array_equal(mask_source.read({"box": box}, IMAGE, "the mask"), expected)
    two = mask_source.read({"box": [box, [0, 0, 5, 5]]}, IMAGE, "the mask")
    assert np.array_equal(two, expected | ((columns < 5) & (rows < 5)))


def test_a_box_outside_the_picture_is_named_with_the_picture_s_size() -> None:
    with pytest.raises(InputError, match=r"the box \[300, 5, 10, 10\] lies outside the image of 200 x 120 px"):
        mask_source.read({"box": [300, 5, 10, 10]}, IMAGE, "the mask")
