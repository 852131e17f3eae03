"""Frames of coordinates: what a model's numbers mean in pixels."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chexqa import question_banks
from chexqa.eval.places.coordinate_systems import FRAMES, Frame, ask_line, named
from chexqa.files.errors import InputError

SIZE = (1024, 832)


@pytest.mark.parametrize(
    ("name", "numbers", "form", "pixels"),
    [
        ("pixels", (10, 20), "point", (10, 20)),
        ("fraction", (0.5, 0.25), "point", (512, 208)),
        ("percent", (50, 25), "point", (512, 208)),
        ("thousand", (500, 250), "point", (512, 208)),
        ("thousand-yxyx", (250, 500), "point", (512, 208)),
        ("pixels-xywh", (10, 20), "point", (10, 20)),
        ("pixels-xywh", (10, 20, 30, 40), "box", (10, 20, 40, 60)),
        ("percent-xywh", (50, 25, 25, 50), "box", (512, 208, 768, 624)),
        ("pixels-yxyx", (20, 10, 60, 40), "box", (10, 20, 40, 60)),
        ("pixels-xywh", (0, 0, 8, 0, 8, 8), "outline", (0, 0, 8, 0, 8, 8)),
    ],
)
def test_numbers_of_a_frame_are_these_pixels(
    name: str, numbers: tuple[float, ...], form: str, pixels: tuple[float, ...]
) -> None:
    assert FRAMES[name].to_pixels(numbers, form, SIZE) == pytest.approx(pixels)


@given(st.sampled_from(sorted(FRAMES)), st.lists(st.floats(0, 800), min_size=4, max_size=4))
def test_a_place_written_in_a_frame_comes_back(name: str, shape: list[float]) -> None:
    frame = FRAMES[name]
    assert frame.to_pixels(frame.from_pixels(shape, "box", SIZE), "box", SIZE) == pytest.approx(shape)


def test_an_unknown_frame_is_one_sentence_that_names_the_units() -> None:
    with pytest.raises(InputError, match=r"^model 'm': there is no coordinate system .*'pixel'.*'pixels'.*thousand"):
        named("pixel", "model 'm'")


@pytest.mark.parametrize("form", ["point", "box", "boxes", "outline", "width"])
@pytest.mark.parametrize("name", FRAMES)
def test_the_question_says_units_and_order(form: str, name: str) -> None:
    line = ask_line(question_banks.place_wordings("en"), form, FRAMES[name], SIZE)
    assert "{" not in line
    assert ("1024 wide and 832 high" in line) == name.startswith("pixels")
    assert ("y, x" in line or "y1, x1" in line) == name.endswith("yxyx")
    if form in ("box", "boxes"):
        assert ("width, height" in line) == name.endswith("xywh")


def test_decimals_reach_a_tenth_of_a_pixel() -> None:
    assert [Frame(unit).digits(SIZE) for unit in ("pixels", "fraction", "percent", "thousand")] == [1, 5, 3, 2]
