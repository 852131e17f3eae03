"""What reviewers type into cells, and that the sheet's panels show what made the key."""

from __future__ import annotations

import numpy as np
import pytest
from handmade import Handmade

from chexqa.contract import benchmark
from chexqa.contract.items import Item, Option
from chexqa.files.errors import InputError
from chexqa.imaging.anatomy import Lungs
from chexqa.imaging.masks import to_rle
from chexqa.review.cell_words import parse_answer, parse_choice, parse_mark, parse_word
from chexqa.review.columns import ITEM_REASONS, VERDICTS
from chexqa.review.sheets import panels


def item(kind: str, *texts: str, multi: bool = False, colors: tuple[str | None, ...] = ()) -> Item:
    shades = (*colors, *[None] * len(texts))
    options = tuple(Option(n, text, color=shades[n - 1]) for n, text in enumerate(texts, start=1))
    return Item(f"c/{kind}", "c", 1, kind, None, None, "edema", "?", options, multi, (), ())


GRID = item("grid_cell", *(f"{column}{row}" for row in range(1, 9) for column in "ABCDEFGH"))
YES_NO = item("contour_evaluation", "Yes, it needs a major revision", "No, it fits")
POINTS = item("revision_expansion", "the orange point (C)", "the blue point (A)", "the pink point (B)",
              "at none of the points", multi=True, colors=("orange", "blue", "pink"))  # fmt: skip
PLACES = item("location", "left costophrenic angle", "lateral part of the left mid zone", "none of the above",
              multi=True)  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "text", "number"),
    [(YES_NO, "no", 2), (YES_NO, "N", 2), (YES_NO, "yes", 1), (YES_NO, "2.", 2), (YES_NO, "(2)", 2),
     (YES_NO, "option 2", 2), (YES_NO, "no, it fits", 2), (YES_NO, "x", None), (YES_NO, "3", None),
     (YES_NO, "maybe", None), (GRID, "F 4", 30), (GRID, "f4", 30), (GRID, "4F", 30), (GRID, "F-4", 30),
     (GRID, "I4", None), (GRID, "4", None), (GRID, "F 4 G4", None), (POINTS, "blue", 2), (POINTS, "a", 2),
     (POINTS, "D", None), (POINTS, "none", 4), (PLACES, "none", 3), (PLACES, "left", None)],
)  # fmt: skip
def test_a_typed_answer_is_read_if_it_can_mean_one_thing_only(asked: Item, text: str, number: int | None) -> None:
    assert parse_choice(asked, text) == number


@pytest.mark.parametrize(
    ("asked", "text", "numbers"),
    [(POINTS, "1, 3", (1, 3)), (POINTS, "3 1", (1, 3)), (POINTS, "orange and pink", (1, 3)), (POINTS, "c; b", (1, 3)),
     (POINTS, "1\n3", (1, 3)), (POINTS, "1, 4", None), (POINTS, "1-3", None), (POINTS, "1.3", None),
     (POINTS, "1, 9", None), (POINTS, "", None), (POINTS, "at none of the points", (4,)), (PLACES, "2", (2,)),
     (PLACES, "left costophrenic angle, lateral part of the left mid zone", (1, 2)), (YES_NO, "1, 2", None)],
)  # fmt: skip
def test_several_right_options_go_into_one_cell(asked: Item, text: str, numbers: tuple[int, ...] | None) -> None:
    assert parse_answer(asked, text) == numbers


def test_a_grid_key_is_corrected_to_one_cell_or_several_and_answered_by_one() -> None:
    assert parse_answer(GRID, "G4, f 4", several_cells=True) == (30, 31)
    assert parse_answer(GRID, "F4 G4", several_cells=True) == (30, 31)
    assert parse_answer(GRID, "F 4", several_cells=True) == (30,)
    assert parse_answer(GRID, "F4 G9", several_cells=True) is None
    assert parse_answer(GRID, "G4, F4") is None


def test_verdicts_marks_and_reasons() -> None:
    assert [parse_word(text, VERDICTS) for text in ("Accept ", "f", "R", "unsure.", "ok", "")] == [
        "accept", "fix", "reject", "unsure", None, None,
    ]  # fmt: skip
    assert parse_word("Wrong  answer", ITEM_REASONS) == "wrong answer"
    assert parse_word("a", ITEM_REASONS) is None
    assert [parse_mark(text) for text in ("x", "✓", "✔\ufe0f", "Yes", "n", "no", "1", "3", "?")] == [
        True, True, True, True, False, False, None, None, None,
    ]  # fmt: skip


# What made the key, drawn.

SHAPE = (200, 240)
GREY = np.full(SHAPE, 90, np.uint8)
RIGHT, LEFT, LESION = (np.zeros(SHAPE, bool) for _ in range(3))
RIGHT[30:170, 30:100] = LEFT[30:170, 140:210] = LESION[120:190, 35:90] = True
CYAN = np.array((0, 255, 255))


def has(pixels: np.ndarray, where: np.ndarray, rgb: np.ndarray) -> bool:
    """True if a colour is drawn where the mask is."""
    return bool((np.abs(pixels[where].astype(int) - rgb) < 40).all(axis=1).any())


def border(mask: np.ndarray) -> np.ndarray:
    inner = mask.copy()
    inner[1:-1, 1:-1] = mask[1:-1, 1:-1] & mask[:-2, 1:-1] & mask[2:, 1:-1] & mask[1:-1, :-2] & mask[1:-1, 2:]
    return np.asarray(mask & ~inner)


def test_the_anatomy_panel_shows_lungs_as_the_key_counts_them_their_parts_and_the_lesion() -> None:
    drawn = panels.anatomy_panel(GREY, Lungs(RIGHT, LEFT), LESION)
    assert drawn.shape == (*SHAPE, 3)
    assert has(drawn, border(LESION), CYAN)
    grown = RIGHT | LESION  # an opaque lung is still lung
    assert has(drawn, border(grown) & ~border(LESION), np.array((255, 255, 255)))
    shades = {tuple(drawn[row, column]) for row, column in ((100, 95), (155, 205), (100, 205))}
    assert len(shades) == 3  # medial, the costophrenic angle, peripheral
    assert (drawn[:20] == 90).all()


def test_the_lungs_under_review_have_a_colour_each_and_a_missing_one_is_not_drawn() -> None:
    both, one = panels.lungs_panel(GREY, RIGHT, LEFT, LESION), panels.lungs_panel(GREY, RIGHT, None)
    for side, mask in (("right", RIGHT), ("left", LEFT)):
        assert has(both, border(mask), np.array(panels.LUNG_RGB[side]))
    assert has(both, border(LESION), CYAN)
    assert (one[:, 120:] == 90).all()


def test_a_stage_4_item_and_a_grid_item_have_a_panel_and_no_other_does(handmade: Handmade) -> None:
    shape = (64, 64)
    lung, lesion = np.zeros(shape, bool), np.zeros(shape, bool)
    lung[8:56, 8:30] = lesion[30:50, 10:24] = True
    stored = {"masks": {"lesion": to_rle(lesion), "right_lung": to_rle(lung)}}
    handmade.case("a", "edema", "revision_free", grid=(3,), measures=stored)
    handmade.case("b", "edema", "lesion_free", measures={"masks": {"right_lung": to_rle(lung)}})
    bench = benchmark.load(handmade.write())
    drawn = {item.kind: panels.item_panel(bench, item) for item in bench.items}
    assert {kind: panel.label for kind, panel in drawn.items() if panel} == {
        **dict.fromkeys(("distribution", "location", "severity", "comparison"), panels.ANATOMY),
        "grid_cell": panels.GRID,
    }
    grid = drawn["grid_cell"]
    assert grid is not None
    assert has(grid.pixels, border(lesion), CYAN)


def test_masks_of_another_size_than_the_picture_are_named(handmade: Handmade) -> None:
    wrong = {"masks": {"lesion": to_rle(np.ones((30, 30), bool))}}
    handmade.case("a", "edema", "revision_free", measures=wrong)
    bench = benchmark.load(handmade.write())
    with pytest.raises(InputError, match=r"the mask lesion in the key is 30 x 30 px, but the picture is 64 x 64"):
        panels.item_panel(bench, next(item for item in bench.items if item.stage == 4))
