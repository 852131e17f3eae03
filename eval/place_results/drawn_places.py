"""Places drawn over a radiograph: the key in red, and each answer in its own colour with its own letter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from chexqa.eval.places.frames import Shape
from chexqa.eval.places.target import Target

Picture = npt.NDArray[np.uint8]
KEY_RGB = (230, 40, 40)
# Colours that stay apart in the three common forms of colour blindness (Okabe and Ito), for answers A, B, C, …
ANSWER_RGB = ((86, 180, 233), (240, 228, 66), (0, 158, 115), (230, 159, 0), (204, 121, 167), (255, 255, 255))
_LINE, _DOT, _TEXT = 3, 9, 26


def letter_of(number: int) -> str:
    """Return the letter of answer ``number``, counted from 0: A to Z, then AA, AB, …

    >>> letter_of(0), letter_of(27)
    ('A', 'AB')
    """
    return chr(65 + number) if number < 26 else letter_of(number // 26 - 1) + letter_of(number % 26)


def drawn_places(picture: Picture, form: str, target: Target | None, answers: Mapping[str, Sequence[Shape]]) -> Picture:
    """Return an RGB picture ``(H, W, 3)`` with the place of the key and the places of the answers.

    ``target`` is None if the finding is absent. ``answers`` maps each letter to shapes in pixels of the picture.
    """
    canvas = picture.copy()
    if target is not None and target.mask.any():
        _draw_key(canvas, form, target)
    image = Image.fromarray(canvas)
    pen = ImageDraw.Draw(image)
    for number, (letter, shapes) in enumerate(answers.items()):
        rgb = ANSWER_RGB[number % len(ANSWER_RGB)]
        for shape in shapes:
            _draw_shape(pen, form, shape, rgb)
            _label(pen, letter, shape, rgb, image.size)
    return np.asarray(image)


def _draw_key(canvas: Picture, form: str, target: Target) -> None:
    outlines, _ = cv2.findContours(target.mask.view(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
    cv2.drawContours(canvas, outlines, -1, KEY_RGB, _LINE, cv2.LINE_AA)
    for box in {"box": (target.box,), "boxes": target.boxes}.get(form, ()):
        x0, y0, x1, y1 = map(round, box)
        cv2.rectangle(canvas, (x0, y0), (x1 - 1, y1 - 1), KEY_RGB, _LINE)


def _draw_shape(pen: ImageDraw.ImageDraw, form: str, shape: Shape, rgb: tuple[int, int, int]) -> None:
    if form == "point":
        x, y = shape
        pen.ellipse((x - _DOT, y - _DOT, x + _DOT, y + _DOT), outline=rgb, width=_LINE)
        pen.line((x - _DOT, y, x + _DOT, y), fill=rgb, width=_LINE)
        pen.line((x, y - _DOT, x, y + _DOT), fill=rgb, width=_LINE)
    elif form in ("box", "boxes"):
        pen.rectangle(shape, outline=rgb, width=_LINE)
    elif form == "outline":
        pen.line([*shape, *shape[:2]], fill=rgb, width=_LINE)
    else:
        pen.line(shape, fill=rgb, width=_LINE)


def _label(
    pen: ImageDraw.ImageDraw, letter: str, shape: Shape, rgb: tuple[int, int, int], size: tuple[int, int]
) -> None:
    """Write an answer's letter beside the first corner of its shape, inside the picture."""
    x = min(max(shape[0] + _DOT, 2), size[0] - _TEXT * len(letter))
    y = min(max(shape[1] - _TEXT - _DOT, 2), size[1] - _TEXT - 2)
    pen.text((x, y), letter, fill=rgb, font=ImageFont.load_default(_TEXT), stroke_width=2, stroke_fill=(0, 0, 0))
