"""Writing PNG files: what two other decoders read is what was written, and a file's length tells nothing."""

from __future__ import annotations

import io

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from chexqa import png


def by_pillow(data: bytes) -> np.ndarray:
    """The pixels as Pillow reads them, which checks every chunk; nothing but pixels may be there."""
    with Image.open(io.BytesIO(data)) as picture:
        picture.verify()
    with Image.open(io.BytesIO(data)) as picture:
        picture.load()
        assert picture.info == {}
        return np.array(picture)


def by_opencv(data: bytes) -> np.ndarray:
    array = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    assert array is not None
    return array if array.ndim == 2 else cv2.cvtColor(array, cv2.COLOR_BGR2RGB)


@given(st.integers(1, 70), st.integers(1, 70), st.sampled_from([(), (3,)]), st.integers(1, 256), st.integers(0, 99))
def test_two_other_decoders_read_what_was_written(
    height: int, width: int, channels: tuple[int, ...], shades: int, seed: int
) -> None:
    array = np.random.default_rng(seed).integers(0, shades, (height, width, *channels)).astype(np.uint8)
    data = png.encode(array)
    assert np.array_equal(by_pillow(data), array)
    assert np.array_equal(by_opencv(data), array)
    assert png.encode(array) == data


def test_a_part_of_a_larger_array_is_written_as_it_looks() -> None:
    whole = np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8)
    for part in (whole[5:30, 7:50], whole[::-1], whole[:, ::2], whole[..., 0], np.asfortranarray(whole)):
        assert np.array_equal(by_pillow(png.encode(part)), part)


def test_a_large_picture_comes_back_and_is_smaller_than_its_pixels() -> None:
    smooth = cv2.resize(np.random.default_rng(0).integers(0, 256, (16, 16, 3), np.uint8), (1024, 1024))
    data = png.encode(np.asarray(smooth, np.uint8))
    assert np.array_equal(by_opencv(data), smooth)
    assert len(data) < smooth.size / 3


@pytest.mark.parametrize("sides", [(8, 8), (180, 40, 181), (300, 700)])
def test_files_of_a_set_are_of_one_length_and_show_what_they_did(sides: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (side, side, 3), dtype=np.uint8) for side in sides]
    files = png.of_one_length([png.encode(image) for image in images])
    assert len({len(file) for file in files}) == 1
    assert len(files[0]) % 65536 == 0
    assert files == png.of_one_length([png.encode(image) for image in images])
    for image, file in zip(images, files, strict=True):
        assert np.array_equal(by_pillow(file), image)
        assert np.array_equal(by_opencv(file), image)


@pytest.mark.parametrize("short_by", range(14))
def test_a_file_that_nearly_fills_a_length_takes_it_or_the_next(short_by: int) -> None:
    """A chunk takes twelve bytes at least."""
    head, end = png.encode(np.zeros((1, 1), np.uint8))[:-12], png.encode(np.zeros((1, 1), np.uint8))[-12:]
    chunk = bytes(65536 - len(head) - len(end) - short_by)
    (padded,) = png.of_one_length([head + chunk + end])
    assert len(padded) == (65536 if short_by >= 12 else 131072)
