"""The grid: its cells, what covers them, which of them are hits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chexqa.contract import cases
from chexqa.contract.forms import FORMS
from chexqa.generators.attributes import grid as localization
from chexqa.generators.attributes.grid import CELL_NAMES, coverage, hits, plausible_cells
from chexqa.generators.pipeline import recipe
from chexqa.imaging import grid
from chexqa.imaging.grid import cell_edges
from chexqa.imaging.masks import read_mask_png


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(1, 3000))
def test_edges_are_the_rounded_eighths_of_a_side(length: int) -> None:
    edges = cell_edges(length)
    assert edges == [round(i * length / 8) for i in range(9)]
    assert (edges[0], edges[8]) == (0, length)
    assert edges == sorted(edges)


def slow_coverage(mask: np.ndarray) -> list[float]:
    height, width = mask.shape
    shares = []
    for j in range(8):
        for i in range(8):
            inside = total = 0
            for y in range(round(j * height / 8), round((j + 1) * height / 8)):
                for x in range(round(i * width / 8), round((i + 1) * width / 8)):
                    total += 1
                    inside += bool(mask[y, x])
            shares.append(inside / total if total else 0.0)
    return shares


@settings(max_examples=40, deadline=None, derandomize=True)
@given(height=st.integers(1, 60), width=st.integers(1, 60), seed=st.integers(0, 999), share=st.floats(0, 1))
def test_coverage_agrees_with_counting_pixel_by_pixel(height: int, width: int, seed: int, share: float) -> None:
    mask = np.random.default_rng(seed).random((height, width)) < share
    assert coverage(mask) == slow_coverage(mask)


def test_cells_are_numbered_by_row_from_a1_to_h8() -> None:
    assert (len(CELL_NAMES), CELL_NAMES[0], CELL_NAMES[1], CELL_NAMES[8], CELL_NAMES[-1]) == (
        64,
        "A1",
        "B1",
        "A2",
        "H8",
    )
    mask = np.zeros((80, 160), bool)
    mask[10:20, 140:160] = True  # second row, last column
    shares = coverage(mask)
    assert [CELL_NAMES[n] for n, value in enumerate(shares) if value] == ["H2"]
    assert hits(shares, 0.5) == (16,)


def test_a_cell_is_hit_from_just_half_of_it() -> None:
    mask = np.zeros((80, 80), bool)
    mask[0:10, 0:5] = True
    assert hits(coverage(mask), 0.5) == (1,)
    mask[9, 4] = False
    assert hits(coverage(mask), 0.5) == ()


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (7, 200)])
def test_a_picture_smaller_than_the_grid_has_cells_without_pixels_that_are_no_hits(shape: tuple[int, int]) -> None:
    full = np.ones(shape, bool)
    shares = coverage(full)
    assert len(shares) == 64
    filled = sum(a != b for a, b in zip(cell_edges(shape[0]), cell_edges(shape[0])[1:], strict=False))
    filled *= sum(a != b for a, b in zip(cell_edges(shape[1]), cell_edges(shape[1])[1:], strict=False))
    assert len(hits(shares, 0.5)) == filled


def test_chance_is_the_share_of_cells_that_are_hits() -> None:
    assert FORMS["cell"].chance(64, 4) == 1 / 16
    assert FORMS["cell"].chance(64, 0) == 0


def anatomy() -> dict[str, np.ndarray]:
    right, left, heart = (np.zeros((80, 80), bool) for _ in range(3))
    right[10:60, 10:30], left[20:70, 50:70], heart[40:60, 32:48] = True, True, True
    return {"right_lung": right, "left_lung": left, "heart": heart}


def test_plausible_cells_hold_a_pixel_of_the_named_anatomy_or_of_the_lesion() -> None:
    lesion = np.zeros((80, 80), bool)
    lesion[79, 79] = True
    right_cells = {f"{column}{row}" for column in "BC" for row in range(2, 7)}
    found = plausible_cells(["right_lung"], anatomy(), lesion)
    assert found is not None
    assert {CELL_NAMES[n - 1] for n in found} == right_cells | {"H8"}


def test_the_mediastinum_lies_between_the_lungs_in_the_rows_that_both_have() -> None:
    nothing = np.zeros((80, 80), bool)
    found = plausible_cells(["mediastinum"], anatomy(), nothing)
    assert found is not None
    # columns 30 to 49, rows 20 to 59
    assert {CELL_NAMES[n - 1] for n in found} == {f"{column}{row}" for column in "DE" for row in range(3, 7)}


@pytest.mark.parametrize("missing", ["right_lung", "heart", "left_lung"])
def test_nothing_is_said_of_plausible_cells_where_an_anatomy_is_not_given(missing: str) -> None:
    parts = {name: mask for name, mask in anatomy().items() if name != missing}
    nothing = np.zeros((80, 80), bool)
    assert plausible_cells(["heart", "mediastinum"], parts, nothing) is None
    assert plausible_cells(["right_lung", "left_lung", "heart"], parts, nothing) is None


def test_lungs_that_overlap_or_cross_leave_no_mediastinum_and_raise_nothing() -> None:
    parts = anatomy()
    parts["left_lung"] = np.roll(parts["right_lung"], 5, axis=1)
    found = plausible_cells(["mediastinum"], parts, np.zeros((80, 80), bool))
    assert found == []


def test_the_recipe_asks_of_nine_pathologies_and_knows_where_each_may_lie() -> None:
    grid = recipe.load("grid")
    assert isinstance(grid, recipe.GridRecipe)
    assert len(grid.findings) == 9
    assert "support_devices" not in grid.findings
    assert set(grid.plausible_anatomy) == set(grid.findings)


def test_a_real_small_nodule_fills_no_cell(real_data: Path) -> None:
    folder = real_data / "radiographs" / "masks" / "nih_00027426_000"
    mask = read_mask_png(folder / "opacity.png")
    shares = coverage(mask)
    assert 0 < max(shares) < 0.5
    assert hits(shares, 0.5) == ()
    assert localization.hits(shares, max(shares))


def test_cases_module_keeps_source_pixels_for_the_grid(real_data: Path) -> None:
    """The grid is computed on source pixels, so a loaded case has the mask at the picture's own size."""
    manifest = real_data / "radiographs"
    case = cases.Case(
        "x", manifest / "images" / "nih_00027426_000.png", "opacity", True,
        manifest / "masks" / "nih_00027426_000" / "opacity.png", {}, None, None, None, None, None, None, None,
        "open", None, manifest / "cases.jsonl", 1,
    )  # fmt: skip
    loaded = cases.load_case(case)
    assert loaded.source_mask is not None
    assert loaded.source_mask.shape == (512, 512)
    assert loaded.working.shape == (1024, 1024)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(1, 40), st.integers(1, 40))
def test_every_pixel_lies_in_the_cell_whose_share_it_counts_for(height: int, width: int) -> None:
    rows, columns = np.divmod(np.arange(height * width), width)
    for row, column, number in zip(rows, columns, grid.cells_at(rows, columns, (height, width)), strict=True):
        alone = np.zeros((height, width), bool)
        alone[row, column] = True
        assert [place for place, share in enumerate(coverage(alone), start=1) if share] == [number]


def test_maps_are_graded_by_the_recipe_s_rule_of_a_hit() -> None:
    loaded = recipe.load("grid")
    assert isinstance(loaded, recipe.GridRecipe)
    assert grid.HIT_SHARE == loaded.hit_share == 0.5
    assert hits([0.5, 0.4999, 1.0], grid.HIT_SHARE) == (1, 3)
