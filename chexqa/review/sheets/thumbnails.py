"""Pictures for a sheet: an item's pictures on one white background, with the row's id in the margin.

The id shows which row a picture belongs to, because pictures do not always move when rows are sorted.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from chexqa.files.text import shown

MARGIN, LABEL, GAP = 20, 18, 6
_QUALITY = 80
_INK, _PALE = 20, 90
Pixels = npt.NDArray[np.uint8]


class Thumb(NamedTuple):
    """Picture, grey ``(H, W)`` or RGB, and the words above it (an option's number, "radiograph", or empty)."""

    label: str
    pixels: Pixels


@cache
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


def rows_of(count: int) -> int:
    """Return the number of rows for ``count`` pictures: one row for up to three pictures, otherwise two rows."""
    return 1 if count <= 3 else 2


def room_for(count: int, labelled: bool, box: tuple[int, int]) -> tuple[int, int]:
    """Return the width and height available to each of ``count`` pictures in a box of ``(width, height)`` pixels."""
    rows = rows_of(count)
    across = -(-count // rows)
    wide = (box[0] + GAP) // across - GAP
    high = (box[1] - MARGIN + GAP) // rows - GAP - (LABEL if labelled else 0)
    return wide, high


def fitted(pixels: Pixels, room: tuple[int, int]) -> Pixels:
    """Return a picture shrunk to fit ``(width, height)``; a smaller picture is returned unchanged."""
    height, width = pixels.shape[:2]
    scale = min(1.0, room[0] / width, room[1] / height)
    if scale == 1.0:
        return pixels
    size = max(1, int(width * scale)), max(1, int(height * scale))
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.uint8)


def compose(row_id: str, thumbs: Sequence[Thumb], box: tuple[int, int]) -> tuple[bytes, tuple[int, int]]:
    """Draw a row's id and, under it, the row's pictures; return the JPEG and its ``(width, height)`` in pixels.

    The JPEG fits into ``box`` (width, height) unless the id needs more than one line.
    """
    room = room_for(len(thumbs), any(thumb.label for thumb in thumbs), box)
    images = [Image.fromarray(fitted(thumb.pixels, room)) for thumb in thumbs]
    across = -(-len(images) // rows_of(len(images)))
    wide, high = max(image.width for image in images), max(image.height for image in images)
    words, text_width = _lines(shown(row_id), 14, box[0])
    margin, label = MARGIN * len(words), LABEL if any(thumb.label for thumb in thumbs) else 0
    width = max(across * (wide + GAP) - GAP, text_width)
    size = (width, margin + rows_of(len(images)) * (label + high + GAP) - GAP)
    mode = "L" if all(image.mode == "L" for image in images) else "RGB"
    canvas = Image.new(mode, size, "white")
    pen = ImageDraw.Draw(canvas)
    ink = _PALE if mode == "L" else (_PALE,) * 3
    for number, line in enumerate(words):
        pen.text((2, 1 + number * MARGIN), line, fill=ink, font=_font(14))
    for place, (thumb, image) in enumerate(zip(thumbs, images, strict=True)):
        left, top = (place % across) * (wide + GAP), margin + (place // across) * (label + high + GAP)
        if thumb.label:
            canvas.paste(_label(shown(thumb.label), 15), (left, top))
        canvas.paste(image, (left, top + label))
    buffer = io.BytesIO()
    canvas.save(buffer, "JPEG", quality=_QUALITY, subsampling=0 if mode == "RGB" else -1)
    return buffer.getvalue(), size


@lru_cache(64)
def _label(text: str, size: int) -> Image.Image:
    """Return a drawing of the words above a picture."""
    _, _, right, bottom = _font(size).getbbox(text)
    picture = Image.new("L", (int(right) + 6, int(bottom) + 2), 255)
    ImageDraw.Draw(picture).text((2, 0), text, fill=_INK, font=_font(size))
    return picture


def _lines(text: str, size: int, most: int) -> tuple[list[str], int]:
    """Break the text into lines of at most ``most`` pixels; return the lines and their width in pixels."""
    width = _font(size).getlength(text) + 4
    letters = max(1, int(len(text) * most / width))
    return [text[start : start + letters] for start in range(0, len(text), letters)], min(int(width) + 1, most)
