"""The gallery's work on pixels: thumbnails as base64, outlines, and options that are regions."""

from __future__ import annotations

import io
from base64 import b64encode
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from PIL import Image, features

from chexqa.contract.items import CaseKey
from chexqa.eval.gallery import drawings
from chexqa.eval.gallery.thin_drawings import thin_drawing
from chexqa.imaging.read import open_thumb

_QUALITY, _EFFORT = 45, 1


class Thumbs(Protocol):
    """Source of thumbnails, for example a benchmark."""

    def thumb_bytes(self, image: str) -> bytes:
        """Return the thumbnail of a picture as a JPEG."""


@dataclass(frozen=True)
class Task:
    """Pictures, outlines and regions to prepare for a few consecutive cases.

    - ``images``: the path of each picture, keyed by its number.
    - ``below``: the number and path of the radiograph below each drawing, keyed by the drawing's number.
    - ``regions``: for each item whose options are regions, keyed by item id: the case id, and the names of the regions.
    """

    thumbs: Thumbs
    images: Mapping[int, str]
    below: Mapping[int, tuple[int, str]]
    cases: Mapping[str, CaseKey]
    regions: Mapping[str, tuple[str, tuple[str, ...]]]


@dataclass(frozen=True)
class Done:
    """Result of a task.

    - ``pictures``: each picture as text (:func:`encoded`), keyed by its number.
    - ``outlines``: the outline of each case that has one, keyed by case id.
    - ``regions``: the SVG path of each region that is an option, keyed by item id and then by option number.
    """

    pictures: dict[int, str]
    outlines: dict[str, dict[str, Any]]
    regions: dict[str, dict[int, str]]


def do(task: Task) -> Done:
    """Return the result of a task; it depends on nothing but the task and the benchmark's files."""
    outlines = {name: found for name, case in task.cases.items() if (found := drawings.outline(case)) is not None}
    regions = {item: drawings.regions_drawn(names, task.cases[case]) for item, (case, names) in task.regions.items()}
    return Done(encoded(task.thumbs, task.images, task.below), outlines, regions)


def encoded(thumbs: Thumbs, images: Mapping[int, str], below: Mapping[int, tuple[int, str]]) -> dict[int, str]:
    """Return each picture encoded as text, keyed by number; ``images`` and ``below`` are as in :class:`Task`.

    The text is the base64 of a WebP (of a JPEG if Pillow lacks WebP). For a thin drawing over a radiograph it is the
    radiograph's number, a colon and the base64 of the drawing.
    """
    if not features.check("webp"):
        return {number: b64encode(thumbs.thumb_bytes(image)).decode() for number, image in images.items()}
    together: dict[tuple[int, str], list[int]] = defaultdict(list)
    for number, image in images.items():
        together[below.get(number, (number, image))].append(number)
    found = {}
    for (radiograph, path), numbers in together.items():
        under = _pixels(thumbs, path)
        grey = np.asarray(under)
        for number in numbers:
            picture = under if number == radiograph else _pixels(thumbs, images[number])
            drawing = None if number == radiograph else thin_drawing(grey, np.asarray(picture))
            found[number] = _webp(picture) if drawing is None else f"{radiograph}:{b64encode(drawing).decode()}"
    return {number: found[number] for number in images}


def _pixels(thumbs: Thumbs, image: str) -> Image.Image:
    return open_thumb(thumbs.thumb_bytes(image), f"the thumbnail of {image}").convert("RGB")


def _webp(picture: Image.Image) -> str:
    buffer = io.BytesIO()
    picture.save(buffer, "WEBP", quality=_QUALITY, method=_EFFORT)
    return b64encode(buffer.getvalue()).decode()
