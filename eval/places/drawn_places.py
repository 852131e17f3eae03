"""Drawings of places over a radiograph: the key in red, and each answer's place in its own colour, with a letter.

A drawing is a list of strokes (:class:`Stroke`). :func:`painted` paints strokes on a picture; pages draw them as SVG. A
model or reader has the same letter and colour on all pictures (:func:`answerers`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from chexqa.contract.read_run import Run, Turn
from chexqa.eval.places.coordinate_systems import BOXES, Shape, Size
from chexqa.eval.places.target import Box, Target
from chexqa.imaging.colors import RGB

Picture = npt.NDArray[np.uint8]
KEY, KEY_RGB = "key", (255, 64, 64)
# Colours that stay apart in the three common forms of colour blindness (Okabe and Ito), for answers A, B, C, …
ANSWER_RGB = ((86, 180, 233), (240, 228, 66), (0, 200, 150), (230, 159, 0), (224, 150, 200), (255, 255, 255))
# Sizes as shares of the picture's longer side: width of a line, radius of a point, height of a letter.
LINE, DOT, LETTER = 1 / 340, 1 / 90, 1 / 32
_KEY_WIDER, _EDGE = 1.7, 1 / 500  # so that the key's lines show on both sides of an answer's line above them
_SHIFT = 4  # cv2 takes coordinates in sixteenths of a pixel


class Answerer(NamedTuple):
    """Model or reader whose places are drawn, with the letter, colour and name that a drawing's legend shows."""

    letter: str
    rgb: RGB
    name: str


class Label(NamedTuple):
    """A letter in a drawing, with the position of its middle in pixels."""

    text: str
    x: float
    y: float


@dataclass(frozen=True)
class Stroke:
    """Lines that draw one answer, or the key, over a picture.

    - ``letter``: the letter of the model or reader whose answer is drawn; ``key`` for the key.
    - ``rgb``: the colour of the lines and labels.
    - ``lines``: the lines, each as ``x, y, x, y, …`` in pixels of the picture.
    - ``labels``: the text and the position of the label beside each shape; the text is always ``letter``.
    """

    letter: str
    rgb: RGB
    lines: tuple[Shape, ...]
    labels: tuple[Label, ...]

    def to_record(self) -> dict[str, Any]:
        """Return the JSON form, with coordinates to a tenth of a pixel."""
        lines = [[round(number, 1) for number in line] for line in self.lines]
        labels = [[label.text, round(label.x, 1), round(label.y, 1)] for label in self.labels]
        return {"letter": self.letter, "color": hex_of(self.rgb), "lines": lines, "labels": labels}


def hex_of(rgb: RGB) -> str:
    """Return a colour as ``#rrggbb``."""
    return "#{:02x}{:02x}{:02x}".format(*rgb)


def letter_of(number: int) -> str:
    """Return the letter of answer ``number``, counted from 0: A to Z, then AA, AB, …

    >>> letter_of(0), letter_of(27)
    ('A', 'AB')
    """
    return chr(65 + number) if number < 26 else letter_of(number // 26 - 1) + letter_of(number % 26)


def answerer(number: int, name: str) -> Answerer:
    """Return the letter and colour of the model or reader with this number, counted from 0."""
    return Answerer(letter_of(number), ANSWER_RGB[number % len(ANSWER_RGB)], name)


def answerers(runs: Iterable[Run]) -> dict[tuple[str, str], Answerer]:
    """Return the letter, colour and name of each model or reader, keyed by its name and its run's protocol."""
    rows = list(dict.fromkeys((model, str(run.about["protocol"])) for run in runs for model in run.models))
    several = len({protocol for _, protocol in rows}) > 1
    return {
        (model, protocol): answerer(number, f"{model}, {protocol}" if several else model)
        for number, (model, protocol) in enumerate(rows)
    }


def first_turns(runs: Sequence[Run]) -> dict[str, list[tuple[Answerer, Turn]]]:
    """Return the first turn of each model and reader on each item, keyed by item id.

    The turns on an item are in the order of :func:`answerers`: first the turn of the model or reader with the letter
    A, then the turn of B.
    """
    found: dict[str, dict[tuple[str, str], Turn]] = {}
    for run in runs:
        for turn in run.counted_turns:
            if not turn.repeat and not turn.rotation:
                found.setdefault(turn.item_id, {}).setdefault((turn.model, str(run.about["protocol"])), turn)
    known = answerers(runs)
    return {item_id: [(known[who], turns[who]) for who in known if who in turns] for item_id, turns in found.items()}


def legend_text(who: Answerer, turn: Turn) -> str:
    """Return the name of a model or reader for a legend, with "nowhere" or a turn's state if it gave no place."""
    return who.name if turn.place else f"{who.name}: {'nowhere' if turn.place == () else turn.state}"


def strokes(
    form: str, size: Size, target: Target | None, answers: Iterable[tuple[Answerer, Sequence[Shape] | None]]
) -> list[Stroke]:
    """Return the strokes of a drawing: the key's place first, then the place of each answer.

    - ``size``: the picture's width and height.
    - ``target``: the right place; None or an empty mask if the finding is absent.

    Each place is labelled ``key``, or with the letter of who answered. An answer without a place has no stroke.
    """
    letters = _Letters(size)
    drawn = []
    if target is not None and (lines := _key_lines(form, target)):
        around = target.box if target.mask.any() else _around(lines)
        drawn.append(Stroke(KEY, KEY_RGB, tuple(lines), (letters.beside(KEY, _corners(around)),)))
    for who, shapes in answers:
        if shapes:
            lines_of = [list(_answer_lines(form, shape, max(size))) for shape in shapes]
            labels = tuple(letters.beside(who.letter, _corners(_around(lines))) for lines in lines_of)
            drawn.append(Stroke(who.letter, who.rgb, tuple(line for lines in lines_of for line in lines), labels))
    return drawn


def _key_lines(form: str, target: Target) -> list[Shape]:
    """Return the key's lines: the outlines of the mask, its boxes, or two verticals at the heart's ends."""
    if form == "width":
        height = float(target.mask.shape[0])
        return [(x, 0.0, x, height) for x in target.heart or ()]
    if not target.mask.any():
        return []
    found, _ = cv2.findContours(target.mask.view(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
    short = [cv2.approxPolyDP(outline, 0.7, True).reshape(-1, 2) + 0.5 for outline in found]
    boxes = {"box": (target.box,), "boxes": target.boxes}.get(form, ())
    return [_closed(outline.ravel()) for outline in short] + [_box_line(box) for box in boxes]


def _answer_lines(form: str, shape: Shape, side: int) -> Iterator[Shape]:
    """Yield the lines of one shape; a point is a ring with a cross, and a width has a bar at each end."""
    radius = DOT * side
    if form == "point":
        x, y = shape
        turns = np.linspace(0, 2 * np.pi, 25)
        yield tuple(np.stack([x + radius * np.cos(turns), y + radius * np.sin(turns)], axis=1).ravel().tolist())
        yield x - radius, y, x + radius, y
        yield x, y - radius, x, y + radius
    elif form in BOXES:
        yield _box_line(shape)
    elif form == "outline":
        yield _closed(shape)
    else:
        yield shape
        for x, y in (shape[:2], shape[2:]):
            yield x, y - radius, x, y + radius


def _box_line(box: Sequence[float]) -> Shape:
    x0, y0, x1, y1 = box
    return _closed((x0, y0, x1, y0, x1, y1, x0, y1))


def _closed(line: Sequence[float] | npt.NDArray[Any]) -> Shape:
    return tuple(float(number) for number in (*line, *line[:2]))


def _around(lines: Sequence[Shape]) -> Box:
    across, down = ([number for line in lines for number in line[start::2]] for start in (0, 1))
    return min(across), min(down), max(across), max(down)


def _corners(box: Box) -> list[tuple[float, float, int, int]]:
    """Return the places for a letter, two for each corner of a box: x, y, and the direction in x and y (-1 or 1)."""
    x0, y0, x1, y1 = box
    return [(x0, y0, 1, -1), (x1, y0, -1, -1), (x0, y1, 1, 1), (x1, y1, -1, 1), (x0, y0, 1, 1), (x1, y1, -1, -1),
            (x1, y0, 1, 1), (x0, y1, -1, -1)]  # fmt: skip


class _Letters:
    """Placement of the letters of one drawing; letters do not cover each other if there is room."""

    def __init__(self, size: Size) -> None:
        self._size, self._height = size, LETTER * max(size)
        self._taken: list[Box] = []

    def beside(self, text: str, corners: Sequence[tuple[float, float, int, int]]) -> Label:
        wide, high = 0.62 * self._height * len(text), self._height
        places = []
        for x, y, across, down in corners:
            middle = [x + across * wide / 2, y + down * 0.75 * high]
            for axis, half in enumerate((wide / 2, high / 2)):
                middle[axis] = min(max(middle[axis], half), self._size[axis] - half)
            places.append((middle[0] - wide / 2, middle[1] - high / 2, middle[0] + wide / 2, middle[1] + high / 2))
        place = min(places, key=lambda one: sum(_shared(one, other) for other in self._taken))
        self._taken.append(place)
        return Label(text, (place[0] + place[2]) / 2, (place[1] + place[3]) / 2)


def _shared(one: Box, other: Box) -> float:
    across = min(one[2], other[2]) - max(one[0], other[0])
    down = min(one[3], other[3]) - max(one[1], other[1])
    return max(across, 0.0) * max(down, 0.0)


def painted(picture: Picture, drawn: Sequence[Stroke]) -> Picture:
    """Return a copy of an RGB picture ``(H, W, 3)`` with strokes; each line and letter has a dark edge."""
    canvas, side = picture.copy(), max(picture.shape)
    for stroke in drawn:
        width = LINE * side * (_KEY_WIDER if stroke.letter == KEY else 1)
        lines = [np.round(np.reshape(line, (-1, 2)) * (1 << _SHIFT)).astype(np.int32) for line in stroke.lines]
        for rgb, wide in (((0, 0, 0), width + 2 * _EDGE * side), (stroke.rgb, width)):
            cv2.polylines(canvas, lines, False, rgb, max(1, round(wide)), cv2.LINE_AA, _SHIFT)
    image = Image.fromarray(canvas)
    pen, font = ImageDraw.Draw(image), ImageFont.load_default(LETTER * side)
    for stroke in drawn:
        for label in stroke.labels:
            edge = max(1, round(_EDGE * side))
            pen.text((label.x, label.y), label.text, fill=stroke.rgb, font=font, anchor="mm", stroke_width=edge,
                     stroke_fill=(0, 0, 0))  # fmt: skip
    return np.asarray(image)


def with_legend(picture: Picture, entries: Sequence[tuple[RGB, str]]) -> Picture:
    """Return an RGB picture with a legend below it: for each entry, a coloured patch and the text."""
    side, width = max(picture.shape), picture.shape[1]
    font, high = ImageFont.load_default(LETTER * side), round(1.35 * LETTER * side)
    strip = Image.new("RGB", (width, high * len(entries)), "white")
    pen = ImageDraw.Draw(strip)
    for number, (rgb, words) in enumerate(entries):
        top, edge = number * high, round(0.18 * high)
        pen.rectangle((edge, top + edge, high - edge, top + high - edge), fill=rgb, outline="black")
        pen.text((high + edge, top + high / 2), words, fill="black", font=font, anchor="lm")
    return np.concatenate([picture, np.asarray(strip)])
