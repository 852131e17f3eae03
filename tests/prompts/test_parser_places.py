"""Coordinates in replies: syntaxes, frames, and what is no place."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from chexqa.eval.places.coordinate_systems import FRAMES, UNITS, Frame
from chexqa.eval.prompts import parser_places
from chexqa.eval.prompts.parser_places import read

SIZE = (1024, 832)
PIXELS = FRAMES["pixels"]
Numbers = list[str]

BOXES: dict[str, Callable[[Numbers], str]] = {
    "a list": lambda n: f"Answer: [{', '.join(n)}]",
    "round brackets": lambda n: f"Answer: ({', '.join(n)})",
    "bare numbers": lambda n: f"Answer: {', '.join(n)}",
    "two corners": lambda n: f"Answer: ({n[0]}, {n[1]}), ({n[2]}, {n[3]})",
    "JSON with a key": lambda n: f'{{"bbox_2d": [{", ".join(n)}], "label": "effusion"}}',
    "JSON list in a fence": lambda n: f'```json\n[{{"bbox_2d": [{", ".join(n)}], "label": "pleural effusion"}}]\n```',
    "box tag": lambda n: f"The effusion is here: <box>{n[0]}, {n[1]}, {n[2]}, {n[3]}</box>",
    "box tag with corners": lambda n: f"<box>({n[0]},{n[1]}),({n[2]},{n[3]})</box>",
    "special tokens": lambda n: (
        f"<|object_ref_start|>effusion<|object_ref_end|><|box_start|>({n[0]},{n[1]}),({n[2]},{n[3]})<|box_end|>"
    ),
    "words before": lambda n: (
        f"There are 2 lungs and 1 heart.\nThe box holds the fluid.\nFinal answer: [{', '.join(n)}]."
    ),
    "reasoning": lambda n: f"<think>Perhaps [1, 2, 3, 4]?</think>Answer: [{', '.join(n)}]",
    "nested list": lambda n: f"Answer: [[{', '.join(n)}]]",
    "with their unit": lambda n: f"Answer: [{' px, '.join(n)}px]",
}


def written(frame: Frame, box: Sequence[float], digits: int) -> Numbers:
    return [f"{number:.{digits}f}" for number in frame.from_pixels(box, "box", SIZE)]


@pytest.mark.parametrize("syntax", BOXES)
@pytest.mark.parametrize("name", ["pixels", "fraction-xywh", "percent-yxyx", "thousand"])
def test_boxes_in_every_syntax_and_frame_are_read_to_a_pixel(syntax: str, name: str) -> None:
    frame, random = FRAMES[name], np.random.default_rng(1)
    for _ in range(200):
        x0, x1 = np.sort(random.uniform(0, SIZE[0], 2))
        y0, y1 = np.sort(random.uniform(0, SIZE[1], 2))
        box = (x0, y0, min(x1 + 1, SIZE[0]), min(y1 + 1, SIZE[1]))
        text = BOXES[syntax](written(frame, box, frame.digits(SIZE)))
        found = read("box", text, frame, SIZE)
        assert found.parsed == (1,), text
        assert found.shapes is not None
        assert found.shapes[0] == pytest.approx(box, abs=1.0)


@pytest.mark.parametrize("syntax", BOXES)
@pytest.mark.parametrize(("name", "digits"), [("pixels", 0), ("fraction", 2), ("percent-yxyx", 0), ("thousand", 0)])
def test_coarser_numbers_are_read_within_half_their_unit(syntax: str, name: str, digits: int) -> None:
    frame, random = FRAMES[name], np.random.default_rng(2)
    half = 0.5 * 10.0**-digits * (1 if frame.unit == "pixels" else np.array(SIZE * 2) / UNITS[frame.unit])
    for _ in range(50):
        corner, side = random.uniform(0, 0.7, 2) * SIZE, random.uniform(0.05, 0.3, 2) * SIZE
        box = np.array([*corner, *(corner + side)])
        text = BOXES[syntax](written(frame, box, digits))
        found = read("box", text, frame, SIZE)
        assert found.shapes is not None, text
        assert (np.abs(found.shapes[0] - box) <= half + 1e-9).all(), text


@pytest.mark.parametrize(
    "text",
    [
        "Answer: [300, 400]", "Answer: (300, 400)", "Answer: 300, 400", "The point is at x=300, y=400.",
        'Answer: {"x": 300, "y": 400}', 'Answer: {"y": 400, "x": 300}', '{"point_2d": [300, 400], "label": "fluid"}',
        '<point x="300" y="400" alt="effusion">effusion</point>', "<point>300 400</point>",
        'I looked at both lungs.\n```json\n{"point": {"x": 300, "y": 400}}\n```', "**Answer:** [300, 400]",
        "Answer: [x=300, y=400]",
    ],
)  # fmt: skip
def test_a_point_is_read_in_every_syntax(text: str) -> None:
    found = read("point", text, PIXELS, SIZE)
    assert (found.parsed, found.shapes) == ((1,), ((300.0, 400.0),))


@pytest.mark.parametrize(
    "text",
    [
        "Answer: nowhere", "Answer: nowhere.", "The lungs are clear.\nAnswer: **nowhere**", "Answer: not visible",
        "There is no effusion of 20 mm or more.\nAnswer: none", "Answer: []", '{"bbox_2d": null}', "Answer: N/A",
        "No finding is seen, so there is nothing to point at.", "Answer: absent", "Nowhere",
        "No pleural effusion.", "There is no focal lung opacity visible in this radiograph.", '{"boxes": []}',
        '```json\n{"finding": "effusion", "bbox_2d": []}\n```',
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", ["point", "box", "boxes", "outline"])
def test_nowhere_is_read_in_many_words(text: str, form: str) -> None:
    found = read(form, text, PIXELS, SIZE)
    assert (found.parsed, found.shapes) == ((2,), ())


@pytest.mark.parametrize(
    ("form", "text", "problem"),
    [
        ("box", "Answer: [300, 400, 200, 500]", "reversed"),
        ("box", "Answer: [300, 400, 300, 500]", "reversed"),
        ("box", "Answer: [300, 400, 1200, 500]", "outside"),
        ("point", "Answer: [2000, 400]", "outside"),
        ("point", "Answer: [-200, 400]", "outside"),
        ("point", '{"x": NaN, "y": 400}', "not_finite"),
        ("point", "Answer: x=nan, y=400", "not_finite"),
        ("point", "Answer: [300]", "count"),
        ("box", "Answer: [300, 400, 500]", "count"),
        ("outline", "Answer: [[300, 400], [500, 600]]", "count"),
        ("point", "Answer: [[300, 400], [500, 600]]", "several"),
        ("box", "Answer: [[1, 2, 3, 4], [5, 6, 7, 8]]", "several"),
        ("box", "1. [1, 2, 3, 4]\n2. [5, 6, 7, 8]", "several"),
    ],
)
def test_what_is_no_place_is_a_problem_and_never_a_guess(form: str, text: str, problem: str) -> None:
    assert read(form, text, PIXELS, SIZE) == parser_places.Place(None, None, problem)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "No pneumothorax, but an effusion.",
        "There is no image.",
        "I see no effusion; a nodule is at the left.",
        "The effusion measures 3 by 4 cm.",
        "Both lungs show 2 opacities; the heart is 50 % wide.",
        "I cannot say.",
    ],
)
def test_numbers_in_prose_are_no_place(text: str) -> None:
    assert read("point", text, PIXELS, SIZE).parsed is None


def test_several_boxes_and_outlines_with_several_areas_are_read() -> None:
    two = ((10.0, 20.0, 30.0, 40.0), (50.0, 60.0, 70.0, 80.0))
    for text in (
        "Answer: [[10, 20, 30, 40], [50, 60, 70, 80]]",
        "Answer: [10, 20, 30, 40], [50, 60, 70, 80]",
        '[{"bbox_2d": [10, 20, 30, 40]}, {"bbox_2d": [50, 60, 70, 80]}]',
        "<box>10,20,30,40</box> and <box>50,60,70,80</box>",
        "1. [10, 20, 30, 40]\n2. [50, 60, 70, 80]",
        "The lesions:\n- right base: [10, 20, 30, 40]\n\n- **left apex**: [50, 60, 70, 80]",
    ):
        assert read("boxes", text, PIXELS, SIZE).shapes == two, text
    triangle = (10.0, 10.0, 50.0, 10.0, 50.0, 60.0)
    for text in (
        "Answer: [[10, 10], [50, 10], [50, 60]]",
        "Answer: (10, 10), (50, 10), (50, 60)",
        '{"polygon": [{"x": 10, "y": 10}, {"x": 50, "y": 10}, {"x": 50, "y": 60}]}',
        "Answer: [10, 10, 50, 10, 50, 60]",
    ):
        assert read("outline", text, PIXELS, SIZE).shapes == (triangle,), text
    assert len(read("outline", "Answer: [[[1,1],[5,1],[5,6]], [[9,9],[20,9],[20,30]]]", PIXELS, SIZE).shapes or ()) == 2


@pytest.mark.parametrize("name", ["pixels", "pixels-yxyx", "pixels-xywh"])
@pytest.mark.parametrize(
    "text",
    [
        '{"top_left": [A], "bottom_right": [C]}', '{"box": {"topLeft": [A], "bottomRight": [C]}}',
        '[{"label": "effusion", "bottom-right": [C], "Upper left": [A]}]', "Answer: [[A], [B], [C], [D]]",
        "Answer: [[C], [D], [A], [B]]", "Answer: [[A], [D], [C], [B], [A]]", "Answer: (A), (B), (C), (D)",
        '{"polygon": [[A], [B], [C], [D]], "label": "effusion"}', "<quad>(A),(B),(C),(D)</quad>",
    ],
)  # fmt: skip
def test_a_box_by_two_named_corners_or_by_four_is_read(text: str, name: str) -> None:
    corners = {"A": (10, 20), "B": (40, 20), "C": (40, 60), "D": (10, 60)}
    for letter, (x, y) in corners.items():
        text = re.sub(rf"\b{letter}\b", f"{y}, {x}" if name == "pixels-yxyx" else f"{x}, {y}", text)
    for form in ("box", "boxes"):
        assert read(form, text, FRAMES[name], SIZE).shapes == ((10.0, 20.0, 40.0, 60.0),), text


def test_four_corners_are_the_smallest_box_around_them_and_several_such_outlines_are_several_boxes() -> None:
    tilted = "[[12, 20], [42, 24], [40, 60], [10, 56]]"
    assert read("box", f"Answer: {tilted}", PIXELS, SIZE).shapes == ((10.0, 20.0, 42.0, 60.0),)
    vertices = ", ".join(f'{{"x": {x}, "y": {y}}}' for x, y in ((12, 20), (42, 24), (40, 60), (10, 56)))
    assert read("box", f'{{"points": [{vertices}]}}', PIXELS, SIZE).shapes == ((10.0, 20.0, 42.0, 60.0),)
    found = read("boxes", f"Answer: [{tilted}, [[100, 20], [140, 20], [140, 60], [100, 60]]]", PIXELS, SIZE).shapes
    assert found == ((10.0, 20.0, 42.0, 60.0), (100.0, 20.0, 140.0, 60.0))
    found = read("boxes", "Answer: [[10, 20], [42, 60], [100, 20], [140, 60]]", PIXELS, SIZE).shapes
    assert found == ((10.0, 20.0, 42.0, 60.0), (100.0, 20.0, 140.0, 60.0)), "two boxes by two corners each"
    assert read("box", "Answer: [12, 20, 42, 24, 40, 60, 10, 56]", PIXELS, SIZE).problem == "count"
    assert read("outline", f"Answer: {tilted}", PIXELS, SIZE).shapes == ((12, 20, 42, 24, 40, 60, 10, 56),)


@pytest.mark.parametrize("text", ["Answer: [0, 0, 0, 0]", '{"bbox_2d": [0, 0, 0, 0]}', "<box>0,0,0,0</box>",
                                  "Answer: [[0.0, 0.0, 0.0, 0.0]]"])  # fmt: skip
def test_a_box_of_zeros_is_nowhere(text: str) -> None:
    for form in ("box", "boxes"):
        assert read(form, text, PIXELS, SIZE) == parser_places.Place((2,), ())
    assert read("width", text, PIXELS, SIZE).parsed == (1,)
    assert read("boxes", "Answer: [[0, 0, 0, 0], [10, 20, 30, 40]]", PIXELS, SIZE).problem == "reversed"


@pytest.mark.parametrize("name", ["pixels", "pixels-yxyx", "pixels-xywh"])
def test_named_coordinates_say_their_order_themselves(name: str) -> None:
    def shapes(form: str, text: str) -> object:
        return read(form, text, FRAMES[name], SIZE).shapes

    assert shapes("point", '{"y": 400, "x": 300}') == ((300.0, 400.0),)
    assert shapes("box", '{"ymin": 20, "xmin": 10, "ymax": 60, "xmax": 40}') == ((10.0, 20.0, 40.0, 60.0),)
    corners = '{"top_left_x": 10, "top_left_y": 20, "bottomRightX": 40, "bottomRightY": 60}'
    assert shapes("box", corners) == ((10.0, 20.0, 40.0, 60.0),)
    assert shapes("box", '{"x": 10, "y": 20, "width": 30, "height": 40}') == ((10.0, 20.0, 40.0, 60.0),)
    corners = '<points y1="1" x1="2" y2="3" x2="40" y3="50" x3="6">area</points>'
    assert shapes("outline", corners) == ((2.0, 1.0, 40.0, 3.0, 6.0, 50.0),)


def test_a_place_a_little_outside_is_moved_to_the_border() -> None:
    assert read("point", "Answer: [1030, 400]", PIXELS, SIZE).shapes == ((1024.0, 400.0),)


def test_the_last_answer_counts() -> None:
    assert read("point", "Answer: [1, 2]\nNo, again.\nAnswer: [300, 400]", PIXELS, SIZE).shapes == ((300.0, 400.0),)


@pytest.mark.long
def test_hostile_text_takes_little_time() -> None:
    for text in ("[" * 50_000, "<box>" * 10_000, "Answer: " * 10_000, "{" + '"x":' * 9_000, "1,2 " * 20_000):
        assert len(read("boxes", text, PIXELS, SIZE).shapes or ()) <= 200


def test_coordinates_that_are_tokens_of_their_own_are_read() -> None:
    found = read("box", "effusion<loc_100><loc_0250><loc_300><loc_500>", FRAMES["thousand"], (1000, 800))
    assert found.shapes == ((100.0, 200.0, 300.0, 400.0),)
