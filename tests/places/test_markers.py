"""Marks prove a frame: the declared one, only that one, or none."""

from __future__ import annotations

import numpy as np
import pytest

from chexqa.eval.places import markers
from chexqa.eval.places.coordinate_systems import FRAMES, Frame, Shape
from chexqa.eval.places.target import Target, make_target
from chexqa.eval.prompts import parser_places

TARGETS = [make_target({"lesion": markers.draw(7, number).mask}) for number in range(markers.COUNT)]
SIZE = (markers.WIDTH, markers.HEIGHT)


def reply(form: str, target: Target, frame: Frame, off: float = 0.0) -> str:
    """The answer of a model that sees the mark and writes it in a frame, ``off`` pixels to the right."""
    shape: tuple[float, ...] = target.inner_point if form == "point" else target.box
    moved = [number + off * (place % 2 == 0) for place, number in enumerate(shape)]
    numbers = frame.from_pixels(moved, form, SIZE)
    return "Answer: [" + ", ".join(f"{number:.{frame.digits(SIZE)}f}" for number in numbers) + "]"


def proof(form: str, declared: Frame, replies: list[str | None]) -> markers.Proof:
    def read(text: str, frame: Frame) -> tuple[Shape, ...] | None:
        return parser_places.read(form, text, frame, SIZE).shapes

    return markers.proof(form, declared, list(zip(replies, TARGETS, strict=False)), read)


def test_marks_lie_apart_from_the_diagonal_and_have_no_equal_sides() -> None:
    for target in TARGETS:
        x0, y0, x1, y1 = target.box
        assert abs((x0 + x1) / 2 / SIZE[0] - (y0 + y1) / 2 / SIZE[1]) > 0.1
        assert abs((x1 - x0) - (y1 - y0)) > 5
    assert len({target.box for target in TARGETS}) == markers.COUNT


@pytest.mark.parametrize("form", ["point", "box"])
@pytest.mark.parametrize("declared", FRAMES)
def test_a_model_that_answers_in_its_declared_frame_is_proved(form: str, declared: str) -> None:
    frame = FRAMES[declared]
    found = proof(form, frame, [reply(form, target, frame) for target in TARGETS])
    assert (found.verdict, found.found, found.fitting) == ("proved", markers.COUNT, (declared,))


@pytest.mark.parametrize("form", ["point", "box"])
@pytest.mark.parametrize("spoken", FRAMES)
def test_a_model_that_answers_in_another_frame_is_told_which(form: str, spoken: str) -> None:
    declared = FRAMES["pixels" if FRAMES[spoken].unit != "pixels" else "thousand"]
    found = proof(form, declared, [reply(form, target, FRAMES[spoken]) for target in TARGETS])
    assert found.verdict == "another fits"
    assert [FRAMES[name].unit for name in found.fitting] == [FRAMES[spoken].unit]


def test_one_mark_may_be_missed_but_not_two() -> None:
    frame = FRAMES["pixels"]
    replies: list[str | None] = [reply("point", target, frame) for target in TARGETS]
    replies[0] = "Answer: [5, 5]"
    assert proof("point", frame, replies).verdict == "proved"
    replies[1] = "I see no mark."
    assert proof("point", frame, replies).verdict == "not proved"


def test_a_place_more_than_three_percent_off_finds_no_mark() -> None:
    frame = FRAMES["pixels"]
    near, far = ([reply("point", target, frame, off) for target in TARGETS] for off in (25.0, 40.0))
    assert proof("point", frame, near).verdict == "proved"
    assert proof("point", frame, far).verdict == "not proved"


def test_two_frames_that_fit_are_ambiguous() -> None:
    square = np.zeros((1000, 1000), bool)
    square[100:110, 300:310] = True
    target = make_target({"lesion": square})

    def read(text: str, frame: Frame) -> tuple[Shape, ...] | None:
        return parser_places.read("point", text, frame, (1000, 1000)).shapes

    found = markers.proof("point", FRAMES["pixels"], [("Answer: [305, 105]", target)] * markers.COUNT, read)
    assert (found.verdict, set(found.fitting)) == ("ambiguous", {"pixels", "thousand"})


def test_marks_that_were_not_asked_leave_the_proof_unfinished() -> None:
    assert proof("point", FRAMES["pixels"], []).verdict == "unfinished"
    assert proof("point", FRAMES["pixels"], [None] * markers.COUNT).verdict == "unfinished"
