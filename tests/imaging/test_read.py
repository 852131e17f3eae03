"""Pictures as they come: formats, depths, sizes, damage; the working image."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import ExifTags, Image, ImageOps
from source_files import peak

from chexqa.files.errors import InputError
from chexqa.imaging import mask_source, masks, png
from chexqa.imaging import read as imaging

RAMP = np.add.outer(np.arange(40), np.arange(50) * 2).astype(np.uint8)


def save(path: Path, picture: Image.Image | np.ndarray, **options: Any) -> Path:
    """Write a picture and return its path."""
    image = picture if isinstance(picture, Image.Image) else Image.fromarray(picture)
    image.save(path, **options)
    return path


def png_header(width: int, height: int) -> bytes:
    """A PNG that claims a size and holds next to nothing."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    about = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", about) + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")
    )


def without_palette(data: bytes) -> bytes:
    """A palette PNG that lost its palette."""
    start = data.index(b"PLTE") - 4
    return data[:start] + data[start + 12 + int.from_bytes(data[start : start + 4], "big") :]


def gray_forms() -> dict[str, Image.Image]:
    """The same grey picture in the ways a PNG can hold it."""
    gray = Image.fromarray(RAMP)
    palette = gray.convert("P")
    return {
        "one channel": gray,
        "three equal channels": gray.convert("RGB"),
        "a palette": palette,
        "grey and opaque alpha": gray.convert("LA"),
        "colour and opaque alpha": gray.convert("RGBA"),
    }


@pytest.mark.parametrize("form", gray_forms())
def test_a_grey_picture_is_read_the_same_in_every_form(tmp_path: Path, form: str) -> None:
    path = save(tmp_path / "x.png", gray_forms()[form])
    image = imaging.read_radiograph(path)
    assert image.dtype == np.uint8
    assert np.array_equal(image, RAMP)


def test_a_jpeg_is_read(tmp_path: Path) -> None:
    image = imaging.read_radiograph(save(tmp_path / "x.jpg", RAMP, quality=95))
    assert image.shape == RAMP.shape
    assert np.abs(image.astype(int) - RAMP).max() < 6


def test_colour_becomes_luminance(tmp_path: Path) -> None:
    colours = np.zeros((32, 64, 3), np.uint8)
    colours[:, :32, 1] = 255
    colours[:, 32:, 2] = 255
    image = imaging.read_radiograph(save(tmp_path / "x.png", colours))
    assert (image[0, 0], image[0, 40]) == (150, 29)


def test_transparent_parts_are_black(tmp_path: Path) -> None:
    rgba = np.dstack([RAMP + 1, RAMP + 1, RAMP + 1, np.full_like(RAMP, 255)])
    rgba[:10, :, 3] = 0
    image = imaging.read_radiograph(save(tmp_path / "x.png", rgba))
    assert not image[:10].any()
    assert np.array_equal(image[10:], RAMP[10:] + 1)


@pytest.mark.parametrize("suffix", ["jpg", "png"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_an_exif_rotation_is_applied(tmp_path: Path, suffix: str, orientation: int) -> None:
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    path = save(tmp_path / f"x.{suffix}", RAMP, exif=exif)
    with Image.open(path) as picture:
        upright = np.asarray(ImageOps.exif_transpose(picture))
    assert np.array_equal(imaging.read_radiograph(path), upright)
    assert (upright.shape == (50, 40)) == (orientation > 4)


def test_a_damaged_tag_beside_the_rotation_changes_nothing(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation], exif[ExifTags.Base.ResolutionUnit] = 6, 2
    damaged = bytearray(exif.tobytes())
    damaged[damaged.index(ExifTags.Base.ResolutionUnit.to_bytes(2, "big")) + 3] = 2  # a text where a number belongs
    path = save(tmp_path / "x.png", RAMP, exif=bytes(damaged))
    assert np.array_equal(imaging.read_radiograph(path), np.rot90(RAMP, -1))


@pytest.mark.parametrize("orientation", [3, 6])
def test_a_mask_is_turned_before_its_size_is_compared(tmp_path: Path, orientation: int) -> None:
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    mask = np.zeros((100, 200), np.uint8)
    mask[10:30, 20:90] = 255
    path = save(tmp_path / "x.png", mask, exif=exif)
    with Image.open(path) as picture:
        upright = np.asarray(ImageOps.exif_transpose(picture)) > 0
    assert np.array_equal(masks.read_mask_png(path), upright)
    if upright.shape != mask.shape:
        with pytest.raises(InputError, match="the mask is 100 x 200 px and its image 200 x 100 px"):
            mask_source.read(path, mask.shape, "the mask")


def test_sixteen_bits_are_windowed_between_percentiles(tmp_path: Path) -> None:
    deep = (np.arange(64 * 64).reshape(64, 64) + 20_000).astype(np.uint16)
    deep[0, 0], deep[63, 63] = 0, 65_535  # a dead pixel and a burnt-in one
    image = imaging.read_radiograph(save(tmp_path / "x.png", deep))
    assert (image[0, 0], image[63, 63]) == (0, 255)
    middle = image[1:63].astype(int).ravel()
    assert middle[0] < 6
    assert middle[-1] > 249
    assert (np.diff(middle) >= 0).all()


def test_twelve_bits_in_sixteen_use_the_whole_range(tmp_path: Path) -> None:
    deep = np.tile(np.linspace(0, 4095, 256).astype(np.uint16), (64, 1))
    image = imaging.read_radiograph(save(tmp_path / "x.png", deep))
    assert image.min() == 0
    assert image.max() == 255
    assert abs(int(image[0, 128]) - 128) <= 1


def test_sixteen_bits_of_one_value_but_few_pixels_are_not_flat(tmp_path: Path) -> None:
    deep = np.zeros((64, 64), np.uint16)
    deep[5, 5] = 900
    image = imaging.read_radiograph(save(tmp_path / "x.png", deep))
    assert image[5, 5] == 255
    assert image.sum() == 255


def bad_files() -> dict[str, tuple[bytes, str]]:
    """Files that are no radiograph, and the words that say so."""

    def coded(picture: Image.Image, form: str, **options: Any) -> bytes:
        buffer = io.BytesIO()
        picture.save(buffer, form, **options)
        return buffer.getvalue()

    gray = Image.fromarray(RAMP)
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 255, (200, 200), np.uint8))
    return {
        "empty": (b"", "the file is empty"),
        "text": (b"not a picture at all", "not a PNG or JPEG picture"),
        "gif": (coded(gray, "GIF"), "not a PNG or JPEG picture"),
        "no palette": (without_palette(coded(gray.convert("P"), "PNG")), "truncated or damaged"),
        "truncated png": (coded(noise, "PNG")[:20_000], "truncated or damaged"),
        "truncated jpeg": (coded(noise, "JPEG")[:9_000], "truncated or damaged"),
        "header only": (coded(noise, "PNG")[:30], "damaged"),
        "cmyk": (coded(gray.convert("CMYK"), "JPEG"), "CMYK"),
        "animated": (coded(gray, "PNG", save_all=True, append_images=[noise.resize(gray.size)]), "animated"),
        "bomb": (png_header(30_000, 30_000), "more than 64,000,000 pixels"),
        "large": (png_header(9_000, 9_000), "9000 x 9000 px has more than 64,000,000 pixels"),
        "tiny": (coded(gray.resize((20, 400)), "PNG"), "20 x 400 px, but each side needs at least 32"),
        "black": (coded(Image.new("L", (64, 64)), "PNG"), "every pixel has the same value"),
        "flat deep": (
            coded(Image.fromarray(np.full((64, 64), 700, np.uint16)), "PNG"),
            "every pixel has the same value",
        ),
        "deep colour": (
            cv2.imencode(".png", np.zeros((64, 64, 3), np.uint16))[1].tobytes(),
            "16 bits in several channels",
        ),
    }


@pytest.mark.parametrize("name", bad_files())
@pytest.mark.filterwarnings("error")
def test_what_is_no_radiograph_gets_one_sentence(tmp_path: Path, name: str) -> None:
    data, words = bad_files()[name]
    path = tmp_path / "x.png"
    path.write_bytes(data)
    with pytest.raises(InputError) as error:
        imaging.read_radiograph(path)
    assert str(error.value).startswith(f"{path}: ")
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"x\.png: no such file"):
        imaging.read_radiograph(tmp_path / "x.png")
    with pytest.raises(InputError, match="is a folder; give a file"):
        imaging.read_radiograph(tmp_path)


def test_a_bomb_is_not_decoded(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(png_header(30_000, 30_000))

    def read() -> None:
        with pytest.raises(InputError):
            imaging.read_radiograph(tmp_path / "x.png")

    assert peak(read) < 1_000_000


@given(st.sampled_from(["PNG", "JPEG"]), st.lists(st.tuples(st.integers(0, 1_400), st.integers(0, 255)), max_size=6))
@settings(max_examples=150, deadline=None)
def test_damaged_bytes_give_a_picture_or_an_input_error(
    tmp_path_factory: pytest.TempPathFactory, form: str, changes: list[tuple[int, int]]
) -> None:
    buffer = io.BytesIO()
    Image.fromarray(RAMP).save(buffer, form)
    data = bytearray(buffer.getvalue())
    for place, value in changes:
        data[place % len(data)] = value
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(data)
    try:
        image = imaging.read_radiograph(path)
    except InputError:
        return
    assert image.dtype == np.uint8
    assert image.ndim == 2


@pytest.mark.parametrize(
    ("source", "working"),
    [((2320, 2828), (840, 1024)), ((885, 1036), (875, 1024)), ((512, 512), (1024, 1024)), ((32, 9000), (4, 1024))],
)
def test_the_longer_side_becomes_1024_and_the_aspect_is_kept(source: tuple[int, int], working: tuple[int, int]) -> None:
    assert imaging.working_shape(*source) == working
    assert imaging.to_working(np.zeros(source, np.uint8)).shape == working
    assert imaging.mask_to_working(np.zeros(source, np.bool_)).shape == working
    assert imaging.working_shape(*source[::-1]) == working[::-1]


@given(st.integers(1, 300), st.integers(1, 300))
@settings(max_examples=25, deadline=None)
def test_a_working_mask_takes_the_pixel_under_each_centre(height: int, width: int) -> None:
    source = np.random.default_rng(height * 1000 + width).random((height, width)) < 0.5
    working = imaging.mask_to_working(source)
    for y, x in [(0, 0), (working.shape[0] // 2, 700 % working.shape[1]), (working.shape[0] - 1, working.shape[1] - 1)]:
        centre_y, centre_x = (y + 0.5) * height / working.shape[0], (x + 0.5) * width / working.shape[1]
        assert working[y, x] == source[int(centre_y + 1e-9), int(centre_x + 1e-9)]


def test_picture_and_mask_stay_on_each_other() -> None:
    mask = np.zeros((2320, 2828), np.bool_)
    mask[700:1300, 900:1500] = True
    image = imaging.to_working(np.where(mask, 255, 0).astype(np.uint8))
    assert ((image > 127) != imaging.mask_to_working(mask)).sum() == 0


def mask_forms() -> dict[str, Image.Image]:
    """The mask of :data:`RAMP` above 70, in the ways a PNG can hold it."""
    inside = RAMP > 70
    white = Image.fromarray(np.where(inside, 255, 0).astype(np.uint8))
    return {
        "0 and 1": Image.fromarray(inside.astype(np.uint8)),
        "0 and 255": white,
        "one bit": white.convert("1"),
        "three channels": white.convert("RGB"),
        "alpha": white.convert("RGBA"),
        "palette": white.convert("P"),
        "16 bits": Image.fromarray(np.where(inside, 65535, 0).astype(np.uint16)),
    }


@pytest.mark.parametrize("form", mask_forms())
def test_a_two_valued_mask_is_read_in_every_form(tmp_path: Path, form: str) -> None:
    mask = masks.read_mask_png(save(tmp_path / "x.png", mask_forms()[form]))
    assert mask.dtype == np.bool_
    assert np.array_equal(mask, RAMP > 70)


def test_an_empty_and_a_full_mask_are_read(tmp_path: Path) -> None:
    assert not masks.read_mask_png(save(tmp_path / "x.png", np.zeros((5, 6), np.uint8))).any()
    assert masks.read_mask_png(save(tmp_path / "x.png", np.full((5, 6), 255, np.uint8))).all()


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (RAMP, r"this file has \d+ values \(0, 1, 2, 3, 4, …\); apply a threshold"),
        (np.where(RAMP > 70, 128, 0).astype(np.uint8), r"2 values \(0, 128\)"),
        (np.where(RAMP > 70, 255, 1).astype(np.uint8), r"2 values \(1, 255\)"),
        (np.dstack([RAMP > 70] * 2 + [RAMP > 30]).astype(np.uint8), "has colours"),
        (np.dstack([RAMP > 70] * 4).astype(np.uint8), "transparent"),
    ],
)
def test_a_mask_that_is_not_two_valued_is_refused(tmp_path: Path, mask: np.ndarray, words: str) -> None:
    with pytest.raises(InputError, match=words):
        masks.read_mask_png(save(tmp_path / "x.png", mask))


def test_a_jpeg_is_no_mask(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must be a PNG, but this is a JPEG"):
        masks.read_mask_png(save(tmp_path / "x.jpg", RAMP))


def test_a_thumbnail_is_small_keeps_colours_and_is_the_same_from_the_png() -> None:
    """A picture wider than 384 px is averaged down, a smaller one keeps its size."""
    colours = np.full((512, 768, 3), (200, 60, 20), np.uint8)
    for array, size in ((colours, (384, 256)), (colours[:, :, 0].copy(), (384, 256)), (colours[:30, :50], (50, 30))):
        data = imaging.encode_thumb(array)
        picture = Image.open(io.BytesIO(data))
        assert picture.format == "JPEG"
        assert picture.size == size
        assert np.abs(np.asarray(picture).astype(int) - array[0, 0]).max() <= 3
        assert imaging.thumb_of_png(png.encode(array)) == data


@pytest.mark.parametrize("shape", [(1, 3000), (3000, 1), (7, 2048), (1, 1), (3, 2000, 3)])
def test_a_strip_of_a_picture_is_read_and_made_small(shape: tuple[int, ...]) -> None:
    strip = np.full(shape, 90, np.uint8)
    data = png.encode(strip)
    assert (imaging.decode_png(data, "it") == strip).all()
    assert imaging.decode_png(data, "it", cv2.IMREAD_REDUCED_GRAYSCALE_8).size
    small = imaging.open_thumb(imaging.encode_thumb(strip), "it")
    assert min(small.size) == 1 or shape[:2] == (7, 2048)
