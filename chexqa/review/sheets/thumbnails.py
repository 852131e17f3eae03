"""Pictures for a sheet: an item's thumbnails on one white background with the item's id in the margin.

A picture floats over its cell and does not always follow a sort, so each one shows the id of its row.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFont

from chexqa.files.text import shown
from chexqa.imaging.read import open_thumb

MARGIN, LABEL, GAP = 22, 20, 6  # at a scale of 1
_QUALITY = 80
_MAX_TEXT = 760
_INK, _PALE = 20, 90


class Thumb(NamedTuple):
    """A small JPEG and the words above it (an option's number, "radiograph", or nothing)."""

    label: str
    jpeg: bytes


@cache
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


def rows_of(count: int) -> int:
    """Return the number of rows for ``count`` thumbnails: one for up to three, otherwise two."""
    return 1 if count <= 3 else 2


def compose(row_id: str, thumbs: Sequence[Thumb]) -> tuple[bytes, tuple[int, int]]:
    """Return a JPEG of the thumbnails (four as two by two) under the row's id, and its ``(width, height)``."""
    images = [open_thumb(thumb.jpeg, f"a thumbnail of {row_id}") for thumb in thumbs]
    rows = rows_of(len(images))
    across = -(-len(images) // rows)
    wide, high = max(image.width for image in images), max(image.height for image in images)
    # Two or more side by side are shown smaller, so their words must be larger.
    scale = (1.0, 1.2)[across > 1] if rows == 1 else 1.6
    words, text_width = _lines(shown(row_id), round(14 * scale))
    margin, label = round(MARGIN * scale) * len(words), round(LABEL * scale) if any(t.label for t in thumbs) else 0
    width = max(across * (wide + GAP) - GAP, text_width)
    size = (width, margin + rows * (label + high + GAP) - GAP)
    mode = "L" if all(image.mode == "L" for image in images) else "RGB"
    canvas = Image.new(mode, size, "white")
    pen = ImageDraw.Draw(canvas)
    ink = _PALE if mode == "L" else (_PALE,) * 3
    for number, line in enumerate(words):
        pen.text((2, 2 + number * margin // len(words)), line, fill=ink, font=_font(round(14 * scale)))
    for place, (thumb, image) in enumerate(zip(thumbs, images, strict=True)):
        left, top = (place % across) * (wide + GAP), margin + (place // across) * (label + high + GAP)
        if thumb.label:
            canvas.paste(_label(shown(thumb.label), round(16 * scale)), (left, top))
        canvas.paste(image, (left, top + label))
    buffer = io.BytesIO()
    canvas.save(buffer, "JPEG", quality=_QUALITY)
    return buffer.getvalue(), size


@lru_cache(64)
def _label(text: str, size: int) -> Image.Image:
    """Return the drawn words above a thumbnail; cached, since they are few and slow to draw."""
    _, _, right, bottom = _font(size).getbbox(text)
    picture = Image.new("L", (int(right) + 6, int(bottom) + 2), 255)
    ImageDraw.Draw(picture).text((2, 0), text, fill=_INK, font=_font(size))
    return picture


def _lines(text: str, size: int) -> tuple[list[str], int]:
    """Return the text in lines of at most :data:`_MAX_TEXT` pixels, so that nothing is cut off, and their width."""
    width = _font(size).getlength(text) + 4
    letters = max(1, int(len(text) * _MAX_TEXT / width))
    return [text[start : start + letters] for start in range(0, len(text), letters)], min(int(width) + 1, _MAX_TEXT)
