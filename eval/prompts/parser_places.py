"""Parser of localization answers: it reads coordinates, or the answer "nowhere", from a reply.

Coordinates are read in the model's coordinate system (its frame: unit and order of the numbers). A place is read from
the text after the last answer word; without an answer word, it is read from the entire reply. Four forms are tried in
this order: tags (``<box>``, ``<point x= y=>``), JSON, brackets, bare numbers. Bare numbers count only if the words
beside them are names of coordinates, so a measurement in prose is never taken for a place.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from chexqa.contract.forms import NOWHERE, SOMEWHERE
from chexqa.contract.items import Item
from chexqa.eval.places.coordinate_systems import Frame, Shape, Size
from chexqa.eval.prompts.answer_parser import Reading
from chexqa.eval.prompts.parser_clean_up import spoken

# Why coordinates are no place: not as many numbers as the form has, several places where one is asked for, a box whose
# corners are reversed, a place outside the picture, and no finite number.
PROBLEMS = ("count", "several", "reversed", "outside", "not_finite")
# How far outside the picture, as a share of its side, a coordinate is moved to the border instead of refused.
SLACK = 0.02
_MOST_SHAPES, _MOST_NUMBERS, _MOST_BETWEEN = 200, 4000, 100
_ONE_SHAPE = ("point", "box", "width")
_COUNTS = {"point": 2, "box": 4, "boxes": 4, "width": 4}

_ANSWER = re.compile(r"\b(?:final )?answer\b[*_\"' ]*(?:is\b|:|=)[*_ ]*|\\boxed|<answer>")
_NOWHERE = re.compile(
    r"\bnowhere\b|\bnot (?:visible|present|seen|found|detected|identified|applicable|localizable|there)\b|"
    r"\b(?:no|without) (?:visible |definite |evidence of |such )*(?:finding|lesion|abnormality|box|point|place|region)|"
    r"\babsent\b|\bnone\b|\bnull\b|\bn/a\b|\bcannot be (?:seen|localized|found)\b|不存在|没有|无|nirgends|nulle part|"
    r"^\s*(?:no|\[\s*\]|\{\s*\}|-)[\s.]*$|"
    r"^\s*(?:there (?:is|are) |i (?:can )?see |(?:the |this )?(?:image|radiograph|x-ray|picture|scan) shows )?no "
    r"(?:[a-z-]+ ){0,4}(?:effusions?|edema|opacit(?:y|ies)|consolidations?|pneumothorax|atelectasis|pneumonia|"
    r"cardiomegaly|nodules?|mass(?:es)?|enlargement)(?: (?:is|are))?(?: (?:visible|seen|present|identified|detected))?"
    r"(?: (?:in|on) (?:this|the) [a-z -]{1,30})?[\s.!]*$"
)
_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?"
_VALUE = re.compile(rf"(?<![\w.])(?:{_NUMBER}|[-+]?(?:nan|inf(?:inity)?)\b)")
_NAME = (
    r"x_?min|y_?min|x_?max|y_?max|left|top|right|bottom|width|height|[xy]_?[0-9]{0,3}|w|h|"
    r"(?:top|upper)_?left_?[xy]|(?:bottom|lower)_?right_?[xy]"
)
# The two corners of a box that objects name, such as top_left, topLeft and "upper left".
_CORNERS = (re.compile(r"(?:top|upper)[-_ ]?left"), re.compile(r"(?:bottom|lower)[-_ ]?right"))
_NAMED = re.compile(rf"(?<![a-z_])({_NAME})[\"']?\s*[:=]\s*[\"']?((?:{_NUMBER})|[-+]?(?:nan|inf(?:inity)?)\b)")
_TAG = re.compile(
    r"<points?\b([^<>]{3,20000}?)/?>|<\|?(?:box|bbox|point|quad|polygon)(?:_start)?\|?>(.*?)<[|/]{1,2}?(?:box|bbox|"
    r"point|quad|polygon)(?:_end)?\|?>", re.S,
)  # fmt: skip
_PAIR = re.compile(rf"[(\[]\s*({_NUMBER})\s*[,; ]\s*({_NUMBER})\s*[)\]]")
_JSON, _OPENING = json.JSONDecoder(strict=False), re.compile(r"[\[{]")
# Text between two shapes of one answer: a comma, or the beginning of a list's next line (its mark and its label).
_BETWEEN = re.compile(r"\s*(?:,|and|;)?\s*(?:(?<=\n)[ ]*(?:[-*•+]|\d{1,2}[.)])\s*(?:[^\n\d\[\]{}:]{1,60}:\s*)?)?")
# Coordinates as tokens of their own (<loc_100>, <loc0100>), and a unit after a number.
_TOKENS, _PIXELS = re.compile(r"(?:<loc_?\d{1,4}>\s*){2,}"), re.compile(r"(?<=\d)\s?px\b")
_WORDS = re.compile(r"[a-z_]{2,}|[^\x00-\x7f]")
_COORDINATE_WORDS = re.compile(
    rf"\b(?:{_NAME}|px|pixels?|and|to|by|at|nan|inf|the|box|bbox|point|is|from|corner|points)\b"
)
_KEYS = (
    "answer", "place", "point", "point_2d", "points", "coordinates", "coordinate", "coords", "location", "box", "bbox",
    "bbox_2d", "box_2d", "boxes", "bboxes", "bounding_box", "bounding_boxes", "outline", "polygon", "contour",
    "segmentation", "detections", "results", "ends", "end_points", "endpoints",
)  # fmt: skip
_BEFORE = {
    "left": "x1", "xmin": "x1", "x": "x1", "x0": "x1", "top": "y1", "ymin": "y1", "y": "y1", "y0": "y1",
    "topleftx": "x1", "toplefty": "y1", "upperleftx": "x1", "upperlefty": "y1", "bottomrightx": "x2",
    "bottomrighty": "y2", "lowerrightx": "x2", "lowerrighty": "y2",
    "right": "x2", "xmax": "x2", "bottom": "y2", "ymax": "y2", "width": "w", "height": "h",
}  # fmt: skip


class Place(NamedTuple):
    """The place that was read from a reply.

    ``parsed`` has the option number: 1 for a place, 2 for "nowhere". ``shapes`` has the shapes in pixels; it is empty
    for "nowhere". Both fields are None if no place can be read. ``problem`` is a member of :data:`PROBLEMS` if the
    reply has coordinates that cannot be used; otherwise it is None.
    """

    parsed: tuple[int, ...] | None
    shapes: tuple[Shape, ...] | None
    problem: str | None = None


UNREAD = Place(None, None)


class PlaceReading(NamedTuple):
    """The answer read from a turn; for an item that asks for a place, also the answered shapes in pixels."""

    reading: Reading
    place: tuple[Shape, ...] | None = None


def read_turn(item: Item, raw: str | None, finish_reason: str | None, frame: Frame, size: Size) -> PlaceReading:
    """Read a reply to an item that asks for a place.

    The states are those of :func:`chexqa.eval.prompts.answer_parser.read`.
    """
    cut = finish_reason == "length"
    if not (raw or "").strip():
        return PlaceReading(Reading(None, "truncated" if cut else "empty"))
    found = read(item.form.name, raw or "", frame, size)
    if found.parsed is None:
        return PlaceReading(Reading(None, "truncated" if cut else "unparsed"))
    return PlaceReading(Reading(found.parsed, "answered"), found.shapes)


def read(form: str, raw: str, frame: Frame, size: Size) -> Place:
    """Return the place that a reply names, in pixels of a picture of ``size`` (width, height).

    ``parsed`` is (1,) for a place and (2,) for "nowhere".

    >>> from chexqa.eval.places.coordinate_systems import FRAMES
    >>> read("box", "Answer: [100, 200, 300, 400]", FRAMES["thousand"], (1000, 500)).shapes
    ((100.0, 100.0, 300.0, 200.0),)
    >>> read("point", "The lungs are clear. Answer: nowhere", FRAMES["pixels"], (1000, 500)).parsed
    (2,)
    """
    text = _PIXELS.sub("", _TOKENS.sub(_listed, spoken(raw)))
    announced = [text[match.end() :] for match in _ANSWER.finditer(text)]
    for part in (*reversed(announced[-5:]), text):
        reading = _read(form, part, frame, size, part is not text)
        if reading is not UNREAD:
            return reading
    return UNREAD


def _listed(tokens: re.Match[str]) -> str:
    return str([int(number) for number in re.findall(r"\d+", tokens[0])])


def _read(form: str, text: str, frame: Frame, size: Size, announced: bool) -> Place:
    line = text.strip().partition("\n")[0]
    none = _NOWHERE.search(line if announced else text)
    found = list(_shapes(text, announced))
    if none and (not found or (announced and not _VALUE.search(line[: none.start()]))):
        return Place((NOWHERE,), ())
    if not found and any(isinstance(value, dict) and _is_empty(value) for value in _json_values(text)):
        return Place((NOWHERE,), ())
    return _checked(form, found, frame, size) if found else UNREAD


def _shapes(text: str, announced: bool) -> Iterator[list[float]]:
    """Yield the numbers of each shape in a text; only the first form that occurs in the text is read."""
    tags = [match[1] if match[1] is not None else match[2] for match in _TAG.finditer(text)]
    if tags:
        yield from (_numbers(tag) for tag in tags[:_MOST_SHAPES])
        return
    values = [value for value in _json_values(text) if _has_number(value)]
    if values:
        yield from (_named(shape) for shape in _of_value(values[-1]))
        return
    line = text.strip().partition("\n")[0] if announced else text
    pairs = _PAIR.findall(line)
    if pairs:
        yield _Pairs(float(number) for pair in pairs for number in pair)
    elif _VALUE.search(line) and not _WORDS.search(_COORDINATE_WORDS.sub("", line)):
        yield _numbers(line)


def _numbers(text: str) -> list[float]:
    """Return the numbers of one shape: sorted by the names of their coordinates, or, without names, in their own
    order.
    """
    named = _NAMED.findall(text)
    if named:
        return _named([(name, float(value)) for name, value in named])
    numbers = [float(value) for value in _VALUE.findall(text)[:_MOST_NUMBERS]]
    return _Pairs(numbers) if 2 * len(_PAIR.findall(text)) == len(numbers) else numbers


class _Named(list[float]):
    """Numbers that had names of coordinates; their order is x, y, x, y, whatever the model's usual order is."""


class _Pairs(list[float]):
    """Numbers that stood in pairs."""


class _Corners(list[float]):
    """Numbers of two corners of a box, whatever the model's usual box is; each corner has the model's usual order."""


def _named(shape: Sequence[Any]) -> list[float]:
    """Return the numbers of a shape, sorted by their names if the shape consists of pairs (name, number).

    A width and a height become the second corner. If the names do not form pairs of x and y, the numbers keep their
    order. A shape without names is returned as it is.
    """
    if not shape or not isinstance(shape[0], tuple):
        return shape if isinstance(shape, list) else list(shape)
    by_name = {_BEFORE.get(name.replace("_", ""), name.replace("_", "")): value for name, value in shape}
    if by_name.keys() == {"x1", "y1", "w", "h"}:
        by_name |= {"x2": by_name["x1"] + by_name.pop("w"), "y2": by_name["y1"] + by_name.pop("h")}
    places = sorted({name[1:] for name in by_name}, key=lambda number: (len(number), number))
    if by_name.keys() != {f"{axis}{number}" for axis in "xy" for number in places}:
        return [value for _, value in shape]
    return _Named(by_name[f"{axis}{number}"] for number in places for axis in "xy")


def _json_values(text: str) -> Iterator[Any]:
    """Yield the outermost JSON objects and lists of a text; adjacent ones are yielded together as one list."""
    found: list[Any] = []
    place = 0
    for _ in range(_MOST_SHAPES):
        start = _OPENING.search(text, place)
        if start is None:
            break
        try:
            value, end = _JSON.raw_decode(text, start.start())
        except (ValueError, RecursionError):
            place = start.end()
            continue
        if found and (start.start() - place > _MOST_BETWEEN or not _BETWEEN.fullmatch(text, place, start.start())):
            yield found if len(found) > 1 else found[0]
            found = []
        found.append(value)
        place = end
    if found:
        yield found if len(found) > 1 else found[0]


def _has_number(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_number, value.values()))
    return any(map(_has_number, value)) if isinstance(value, list) else _is_number(value)


def _is_empty(value: Any) -> bool:
    """Return True for an empty list or null, also as the value of a key that names a place."""
    if isinstance(value, dict):
        return any(_is_empty(value[key]) for key in _KEYS if key in value)
    return value is None or (isinstance(value, list) and all(map(_is_empty, value)))


def _is_number(value: Any) -> bool:
    return (isinstance(value, int | float) and not isinstance(value, bool)) or (
        isinstance(value, str) and re.fullmatch(_NUMBER, value.strip()) is not None
    )


def _of_value(value: Any) -> Iterator[list[Any]]:
    """Yield the shapes in a JSON value: lists of numbers, or pairs of a coordinate's name and its number."""
    if isinstance(value, dict):
        named = [(name, float(one)) for name, one in value.items() if re.fullmatch(_NAME, name) and _is_number(one)]
        if named:
            yield named
            return
        ends = [[one for name, one in value.items() if corner.fullmatch(name)] for corner in _CORNERS]
        if all(len(end) == 1 for end in ends):
            for shape in _of_value([end[0] for end in ends]):
                yield _Corners(shape) if isinstance(shape, _Pairs) else shape
            return
        inner = [value[key] for key in _KEYS if key in value] or [one for one in value.values() if _has_number(one)]
        for one in inner[:1]:
            yield from _of_value(one)
    elif isinstance(value, list):
        if value and all(map(_is_number, value)):
            yield [float(one) for one in value[:_MOST_NUMBERS]]
        elif value and all(isinstance(one, list) and len(one) == 2 and all(map(_is_number, one)) for one in value):
            yield _Pairs(float(number) for one in value[:_MOST_NUMBERS] for number in one)
        elif value and all(isinstance(one, dict) and _is_vertex(one) for one in value) and len(value) > 1:
            yield _Named(float(one[axis]) for one in value[:_MOST_NUMBERS] for axis in ("x", "y"))
        else:
            for one in value[:_MOST_SHAPES]:
                yield from _of_value(one)


def _is_vertex(value: dict[str, Any]) -> bool:
    return {"x", "y"} <= value.keys() <= {"x", "y", "label"} and _is_number(value["x"]) and _is_number(value["y"])


def _checked(form: str, found: Iterable[list[float]], frame: Frame, size: Size) -> Place:
    """Return the place that the numbers describe; if they do not fit the answer form, return the problem."""
    given = [shape for shape in found if shape]
    if form in ("box", "boxes") and given and all(len(shape) == 4 and not any(shape) for shape in given):
        return Place((NOWHERE,), ())
    parts = _by_count(form, [_around(shape) for shape in given] if form in ("box", "boxes") else given)
    if parts is None:
        return Place(None, None, "count")
    if len(parts) > 1 and form in _ONE_SHAPE:
        return Place(None, None, "several")
    if not all(math.isfinite(number) and abs(number) < 1e9 for shape in parts for number in shape):
        return Place(None, None, "not_finite")
    usual = Frame(frame.unit)
    orders = {_Named: usual, _Corners: usual if frame.order == "xywh" else frame}
    shapes = [orders.get(type(shape), frame).to_pixels(shape, form, size) for shape in parts]
    if form in ("box", "boxes") and any(x0 >= x1 or y0 >= y1 for x0, y0, x1, y1 in shapes):
        return Place(None, None, "reversed")
    if any(not _is_inside(shape, size) for shape in shapes):
        return Place(None, None, "outside")
    return Place((SOMEWHERE,), tuple(_clipped(shape, size) for shape in shapes))


def _around(shape: list[float]) -> list[float]:
    """Return the smallest box around an outline of four corners, or the shape itself if it is no such outline.

    Four corners in a row that are the opposite corners of two boxes stay two boxes.
    """
    closed = len(shape) == 10 and shape[:2] == shape[-2:]
    if not isinstance(shape, _Named | _Pairs) or not (len(shape) == 8 or closed):
        return shape
    first, second = shape[:4], shape[4:8]
    if all(x0 < x1 and y0 < y1 for x0, y0, x1, y1 in (first, second)):
        return shape
    across, down = shape[::2], shape[1::2]
    box = [min(across), min(down), max(across), max(down)]
    return _Named(box) if isinstance(shape, _Named) else _Corners(box)


def _by_count(form: str, shapes: list[list[float]]) -> list[list[float]] | None:
    """Return the shapes whose number of values fits the answer form, or None."""
    if form == "outline":
        return shapes if shapes and all(len(shape) >= 6 and len(shape) % 2 == 0 for shape in shapes) else None
    count = _COUNTS[form]
    if form in ("box", "width") and len(shapes) == 2 and all(len(shape) == 2 for shape in shapes):
        shapes = [shapes[0] + shapes[1]]  # two corners, or two ends
    if form in ("point", "boxes") and len(shapes) == 1 and len(shapes[0]) > count:
        shapes = [shapes[0][start : start + count] for start in range(0, len(shapes[0]), count)]
    return shapes if shapes and all(len(shape) == count for shape in shapes) else None


def fits_form(form: str, shapes: Sequence[Shape]) -> bool:
    """Return True if the number of shapes, and the number of values in each shape, are allowed for an answer form."""
    return _by_count(form, [list(shape) for shape in shapes]) == [list(shape) for shape in shapes] and (
        len(shapes) == 1 or form not in _ONE_SHAPE
    )


def _is_inside(shape: Shape, size: Size) -> bool:
    return all(-SLACK * size[at % 2] <= number <= (1 + SLACK) * size[at % 2] for at, number in enumerate(shape))


def _clipped(shape: Shape, size: Size) -> Shape:
    return tuple(min(max(number, 0.0), float(size[at % 2])) for at, number in enumerate(shape))
