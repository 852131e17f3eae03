"""Reader of radiographs with bounded sizes; working images and thumbnails.

A radiograph is a ``uint8`` array ``(H, W)`` as displayed (an EXIF rotation is applied), and a mask is a ``bool`` array
``(H, W)``. The working image is the radiograph resized to :data:`WORKING_SIDE` pixels on its longer side, with the same
proportions and without padding.
"""

from __future__ import annotations

import io
import struct
import warnings
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from chexqa.files.errors import InputError
from chexqa.files.limits import MAX_PICTURE_BYTES
from chexqa.files.opening import read_whole
from chexqa.imaging import dicom, percentile_window, png

WORKING_SIDE = 1024
# Thumbnails of review sheets: large enough to judge an outline, small enough for hundreds in one file.
THUMB_SIDE, THUMB_QUALITY = 384, 80
# Four times the largest detectors in use; without a bound a file of a few kilobytes could fill the memory.
MAX_PIXELS = 64_000_000
MIN_SIDE = 32
_TOO_LARGE = f"has more than {MAX_PIXELS:,} pixels, so it is not decoded; give a smaller radiograph."
# Offsets of width, height and bits per channel in a PNG file; the chunk with them is always the first.
_PNG_WIDTH, _PNG_HEIGHT, _PNG_BITS, _PNG_HEADER = slice(16, 20), slice(20, 24), 24, 33
_REDUCED_BY = 8  # largest divisor of OpenCV's IMREAD_REDUCED flags
# Keys under which Pillow keeps the file's raw EXIF and XMP.
_DETAILS = ("exif", "Raw profile type exif", "xmp", "XML:com.adobe.xmp")
_RESTORE = "restore the original picture."
# Errors that Pillow raises for damaged files, found by opening a hundred thousand of them.
_DAMAGED = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    LookupError,
    TypeError,
    AttributeError,
    AssertionError,
    struct.error,
    zlib.error,
)

Gray = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]


def read_radiograph(path: Path) -> Gray:
    """Read a PNG, JPEG or DICOM radiograph in its original size, ``(H, W)`` uint8.

    Colour becomes luminance (ITU-R BT.601), palettes are looked up, transparent parts become black, and an EXIF
    rotation is applied. 16 bits become 8 by a linear window from the 0.1st to the 99.9th percentile of the pixels. For
    DICOM see :func:`chexqa.imaging.dicom.read`. Raises ``InputError`` for any file that is not one complete radiograph
    of a permitted size.
    """
    image = dicom.read(path, MAX_PIXELS) if dicom.is_dicom(path) else _read_picture(path)
    if min(image.shape) < MIN_SIDE:
        height, width = image.shape
        raise InputError(
            f"{path}: the picture has only {width} x {height} px, but each side needs at least {MIN_SIDE}; give "
            "another file."
        )
    if image.min() == image.max():
        raise InputError(f"{path}: every pixel has the same value, so it is not a radiograph; give another file.")
    return image


def _read_picture(path: Path) -> Gray:
    values = _picture_samples(path)
    return values if values.dtype == np.uint8 else percentile_window.by_percentiles(values)


def _picture_samples(path: Path) -> npt.NDArray[Any]:
    """Return the samples of a PNG or JPEG, ``(H, W)``: uint16 for a file of 16 bits, otherwise the uint8 luminance."""
    picture, bits = open_picture(path)
    if picture.mode == "CMYK":
        raise InputError(f"{path}: the picture has CMYK colours; save it as grey or RGB.")
    picture = load_picture(path, picture)
    return np.asarray(picture, np.uint16) if bits == 16 else _gray(picture)


class Samples(NamedTuple):
    """Samples of a radiograph in its original size and bit depth.

    - ``values``: uint16 ``(H, W)``; the smallest value is 0, and brighter pixels have larger values.
    - ``shades``: for each value, the uint8 grey level that :func:`read_radiograph` shows.
    - ``low``, ``high``: the ends of the linear window that fits these grey levels best: ``low`` is shown as black, and
      ``high`` as white.
    """

    values: npt.NDArray[np.uint16]
    shades: Gray
    low: float
    high: float


def read_samples(path: Path) -> Samples:
    """Return a radiograph's samples at its file's bit depth; raise ``InputError`` as :func:`read_radiograph` does."""
    shown = read_radiograph(path)
    if dicom.is_dicom(path):
        stored, padding = dicom.samples(path, MAX_PIXELS)
    else:
        stored, padding = _picture_samples(path), np.zeros(shown.shape, np.bool_)
    seen = stored[~padding].astype(np.int32)
    shades = shown[~padding].astype(np.float64)
    falling = float(np.mean((seen - seen.mean()) * (shades - shades.mean()))) < 0
    first, last, around = int(seen.min()), int(seen.max()), int(padding.any())  # padding takes the value 0, black
    wide = (last - stored.astype(np.int32)) if falling else (stored.astype(np.int32) - first)
    values = np.where(padding, 0, np.minimum(wide + around, 65535)).astype(np.uint16)
    table = np.zeros(min(last - first + around, 65535) + 1, np.uint8)
    table[values[~padding]] = shown[~padding]
    return Samples(values, table, *_window(np.unique(values[~padding]), table))


def _window(used: npt.NDArray[np.uint16], table: Gray) -> tuple[float, float]:
    """Return the values that are shown as black and as white by the linear window that fits ``table`` best.

    ``table`` has the shade of each value. Only the values ``used`` count.
    """
    between = used[(table[used] > 0) & (table[used] < 255)]
    if len(between) < 2 or table[between].min() == table[between].max():
        return float(used.min()), float(used.max())
    slope, start = np.polyfit(between.astype(np.float64), table[between].astype(np.float64), 1)
    return float(-start / slope), float((255 - start) / slope)


def working_shape(height: int, width: int) -> tuple[int, int]:
    """Return the working image's ``(height, width)`` for a source size.

    The longer side becomes 1024 pixels. The other side is rounded.
    """
    longer = max(height, width)

    def scaled(side: int) -> int:
        return max(1, (2 * side * WORKING_SIDE + longer) // (2 * longer))

    return scaled(height), scaled(width)


def to_working(image: Gray) -> Gray:
    """Return the working image of a radiograph: shrunk by area averages, or enlarged by cubic interpolation."""
    height, width = working_shape(*image.shape)
    if (height, width) == image.shape:
        return image
    shrinks = height < image.shape[0] or width < image.shape[1]
    method = cv2.INTER_AREA if shrinks else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(image, (width, height), interpolation=method), np.uint8)


def mask_to_working(mask: Mask) -> Mask:
    """Return the mask at the working image's size, resampled by :func:`resample`."""
    return resample(mask, working_shape(*mask.shape))


def resample(mask: Mask, shape: tuple[int, int]) -> Mask:
    """Return the mask resampled to ``shape`` ``(H, W)``: each pixel has the value of the source pixel under its centre.

    The computation uses integers, because OpenCV's exact nearest neighbour takes the wrong pixel at some sizes.
    """
    if mask.shape == tuple(shape):
        return mask
    height, width = shape
    rows = (2 * np.arange(height) + 1) * mask.shape[0] // (2 * height)
    columns = (2 * np.arange(width) + 1) * mask.shape[1] // (2 * width)
    return np.ascontiguousarray(mask[rows][:, columns])


def encode_thumb(array: npt.NDArray[np.uint8]) -> bytes:
    """Return a grey ``(H, W)`` or RGB ``(H, W, 3)`` array as JPEG of at most 384 px; equal arrays give equal bytes."""
    height, width = array.shape[:2]
    scale = min(1.0, THUMB_SIDE / max(height, width))
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    small = array
    # Halving averages whole pixels, which is ten times as fast as averaging fractions of pixels.
    while max(small.shape) >= 2 * THUMB_SIDE:
        halved = max(1, small.shape[1] // 2), max(1, small.shape[0] // 2)
        # An odd last row or column is left out; otherwise every pixel would average fractions of pixels.
        even = small[: 2 * halved[1], : 2 * halved[0]]
        small = np.asarray(cv2.resize(even, halved, interpolation=cv2.INTER_AREA), np.uint8)
    small = np.asarray(cv2.resize(small, size, interpolation=cv2.INTER_LINEAR), np.uint8)
    ordered = cv2.cvtColor(small, cv2.COLOR_RGB2BGR) if small.ndim == 3 else small
    done, buffer = cv2.imencode(".jpg", ordered, [cv2.IMWRITE_JPEG_QUALITY, THUMB_QUALITY])
    assert done, "a uint8 array of one or three channels can always be encoded"
    return buffer.tobytes()


def decode_png(data: bytes, where: str, flag: int = cv2.IMREAD_UNCHANGED) -> npt.NDArray[np.uint8]:
    """Decode a PNG made by ``png.encode`` to an array ``(H, W)`` or ``(H, W, 3)`` RGB; ``flag`` is for cv2.imdecode.

    A PNG from elsewhere is converted to 8 bits and RGB. Raises ``InputError`` if ``data`` is not a PNG of a permitted
    size; the message begins with ``where``. The size is checked even if the picture's hash is right, since a benchmark
    made by others is not trusted.
    """
    if not data.startswith(png.MAGIC) or len(data) < _PNG_HEADER:
        raise InputError(f"{where} is not a PNG file; {_RESTORE}")
    width, height = (int.from_bytes(data[place], "big") for place in (_PNG_WIDTH, _PNG_HEIGHT))
    if not 0 < width * height <= MAX_PIXELS:
        raise InputError(
            f"{where} is {width} x {height} px, but a picture must have 1 to {MAX_PIXELS:,} pixels in all; {_RESTORE}"
        )
    reduced_to_nothing = min(width, height) < _REDUCED_BY  # OpenCV fails if a side has no pixels
    try:
        array = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED if reduced_to_nothing else flag)
    except cv2.error as error:
        raise InputError(f"{where} cannot be decoded ({error.err}); {_RESTORE}") from None
    if array is None:
        raise InputError(f"{where} is damaged; {_RESTORE}")
    if array.dtype == np.uint16:
        array = (np.asarray(array, np.uint16) >> 8).astype(np.uint8)
    if array.ndim == 3:
        array = cv2.cvtColor(array, cv2.COLOR_BGR2RGB if array.shape[2] == 3 else cv2.COLOR_BGRA2RGB)
    return np.asarray(array, np.uint8)


def thumb_of_png(data: bytes, where: str = "the picture") -> bytes:
    """Return the thumbnail (:func:`encode_thumb`) of ``data``, the output of ``png.encode``."""
    return encode_thumb(decode_png(data, where))


def open_thumb(data: bytes, where: str) -> Image.Image:
    """Open a thumbnail made by :func:`encode_thumb`; raise ``InputError`` for any other content."""
    try:
        picture = Image.open(io.BytesIO(data), formats=("JPEG",))
        if max(picture.size) > THUMB_SIDE:
            raise InputError(
                f"{where} is {picture.width} x {picture.height} px, but a side may have at most {THUMB_SIDE} px; "
                "remove the folder 'thumbs', and chexqa makes it again."
            )
        picture.load()
    except (Image.DecompressionBombError, *_DAMAGED) as error:
        raise InputError(
            f"{where} is not a complete JPEG ({error}); remove the folder 'thumbs', and chexqa makes it again."
        ) from None
    return picture


def _read_bytes(path: Path) -> bytes:
    data = read_whole(path, MAX_PICTURE_BYTES)
    if not data:
        raise InputError(f"{path}: the file is empty; give a complete file.")
    return data


def decode_rgb(data: bytes, where: str) -> npt.NDArray[np.uint8]:
    """Decode a PNG or JPEG file to ``(H, W, 3)`` RGB.

    Raises ``InputError`` for any other file; the message begins with ``where``.
    """
    if data.startswith(png.MAGIC):
        return decode_png(data, f"{where}:", cv2.IMREAD_COLOR)
    picture, _ = _opened(data, where)
    return np.array(load_picture(where, picture).convert("RGB"))


def open_picture(path: Path, more: tuple[str, ...] = ()) -> tuple[Image.Image, int]:
    """Open a picture without decoding it, check its size, and return the picture and its bits per channel.

    ``more`` has Pillow's names of the formats that are allowed besides PNG and JPEG.
    """
    return _opened(_read_bytes(path), path, more)


def count_pages(path: Path, picture: Image.Image) -> int:
    """Return the number of pages of a TIFF; 1 for other pictures. Raises ``InputError`` if the TIFF is damaged."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return int(getattr(picture, "n_frames", 1))
    except _DAMAGED as error:
        raise InputError(f"{path}: the list of pages is damaged ({error}); give a complete file.") from None


def load_page(path: Path, picture: Image.Image, number: int) -> Image.Image:
    """Return page ``number`` (from 0) of a picture, decoded as :func:`load_picture` does with ``indices``."""
    try:
        with warnings.catch_warnings(action="ignore"):
            picture.seek(number)
            _check_size(path, picture)
            picture.load()
            return load_picture(path, picture.copy(), indices=True)
    except _DAMAGED as error:
        raise InputError(
            f"{path}: page {number + 1} is truncated or damaged ({error}); give a complete file."
        ) from None


def _check_size(path: Path | str, picture: Image.Image) -> None:
    if picture.width * picture.height > MAX_PIXELS:
        raise InputError(f"{path}: the picture of {picture.width} x {picture.height} px {_TOO_LARGE}")


def _opened(data: bytes, path: Path | str, more: tuple[str, ...] = ()) -> tuple[Image.Image, int]:
    """Open the picture in ``data`` as :func:`open_picture` does; errors name ``path``."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of sizes, for which the bound below is stricter, and of damaged TIFFs
            picture = Image.open(io.BytesIO(data), formats=("PNG", "JPEG", *more))
    except Image.DecompressionBombError:
        raise InputError(f"{path}: the picture {_TOO_LARGE}") from None
    except UnidentifiedImageError:
        raise InputError(
            f"{path}: is not a PNG or JPEG picture, or its beginning is damaged; give another file."
        ) from None
    except _DAMAGED as error:
        raise InputError(f"{path}: the picture is damaged ({error}); give a complete file.") from None
    _check_size(path, picture)
    bits = 8
    if picture.format == "PNG":
        bits = data[_PNG_BITS]
        if getattr(picture, "n_frames", 1) > 1:
            raise InputError(f"{path}: the file is an animated picture; save the frame you need as a separate picture.")
        if bits == 16 and picture.mode != "I;16":
            raise InputError(f"{path}: the picture has 16 bits in several channels; save it with one channel.")
    return picture, bits


def load_picture(path: Path | str, picture: Image.Image, indices: bool = False) -> Image.Image:
    """Decode a picture, and apply an EXIF rotation.

    The indices of a palette are replaced by its colours, except with ``indices``.
    """
    try:
        picture.load()
        picture.getexif()  # the picture keeps the tags that it has read
        # Without this, Pillow would write the tags again, which fails if any of them is damaged.
        for name in _DETAILS:
            picture.info.pop(name, None)
        ImageOps.exif_transpose(picture, in_place=True)
        return picture if indices else without_palette(picture)
    except _DAMAGED as error:
        raise InputError(f"{path}: the picture is truncated or damaged ({error}); give a complete file.") from None


def without_palette(picture: Image.Image) -> Image.Image:
    """Return a decoded picture with the indices of a palette replaced by its colours."""
    return picture.convert("RGBA" if picture.has_transparency_data else "RGB") if picture.mode == "P" else picture


def _gray(picture: Image.Image) -> Gray:
    """Return the 8-bit luminance of a decoded picture."""
    if picture.has_transparency_data:
        front = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", front.size, (0, 0, 0, 255)), front)
    return np.array(picture.convert("L"))
