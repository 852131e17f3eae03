"""What is drawn over a radiograph: where, in which colour, and nothing else.

``CHEXQA_UPDATE_GOLDENS=1 pytest tests/imaging/test_overlays.py`` draws the golden pictures anew; look at them first.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import shapes
from rest_long import rest_long
from scipy import ndimage
from scipy.spatial import cKDTree

from chexqa.imaging.colors import PALETTES
from chexqa.imaging.colors import POINT_COLORS as COLORS
from chexqa.imaging.grid import cell_edges, draw_grid
from chexqa.imaging.hand_drawn import hand_drawn, smooth_outlines
from chexqa.imaging.overlays import (
    Mark,
    draw_label,
    draw_outline,
    draw_points,
    to_rgb,
)

GOLDENS = Path(__file__).parents[1] / "goldens" / "pictures"
CYAN = np.array([0, 255, 255])
PUBLISHED = PALETTES["published"]


def marks(places: list[tuple[int, int]], letters: str = "") -> list[Mark]:
    """A mark at each place, in the order of the colours."""
    named = enumerate(zip(places, COLORS, strict=False))
    return [Mark(xy, PUBLISHED[color], letters[n : n + 1]) for n, (xy, color) in named]


def line_at(y: float) -> np.ndarray:
    """A closed outline whose upper side runs across the picture at this height."""
    across = np.arange(100.0, 900.0)
    return np.stack([np.r_[across, across[::-1]], np.r_[np.full(800, y), np.full(800, 900.0)]], axis=1)


def ground(height: int, width: int) -> np.ndarray:
    """A grey ramp, dark to bright, so that every drawing is seen over every shade."""
    return np.add.outer(np.linspace(0, 120, height), np.linspace(0, 130, width)).astype(np.uint8)


def lesion(kind: str, seed: int, side: int = 1024) -> shapes.Mask:
    return shapes.lesion_of_kind(np.random.default_rng(seed), kind, side)


def border_rings(mask: shapes.Mask) -> list[np.ndarray]:
    """The borders as they are, one vertex a pixel."""
    contours, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
    return [contour.reshape(-1, 2).astype(float) for contour in contours]


def by_hand(mask: shapes.Mask, seed: int = 0) -> list[np.ndarray]:
    return hand_drawn(mask, np.random.default_rng(seed))


def densely(line: np.ndarray) -> np.ndarray:
    """Points all along a closed line, at most a fifth of a pixel apart."""
    steps = np.linspace(0, 1, 8, endpoint=False)[None, :, None]
    return (line[:, None] + steps * (np.roll(line, -1, axis=0) - line)[:, None]).reshape(-1, 2)


@pytest.mark.parametrize("outlines", [smooth_outlines, by_hand])
@pytest.mark.parametrize("kind", shapes.KINDS)
def test_an_outline_is_drawn_within_two_pixels_of_the_border(
    kind: str, outlines: Callable[[shapes.Mask], list[np.ndarray]]
) -> None:
    mask = lesion(kind, 11)
    rings, drawn = border_rings(mask), outlines(mask)
    assert len(rings) == len(drawn)
    moved = 0.0
    for ring, line in zip(rings, drawn, strict=True):
        first, second = densely(ring), densely(line)
        # Hausdorff: the farthest way from either line to the other one.
        far = max(cKDTree(first).query(second)[0].max(), cKDTree(second).query(first)[0].max())
        assert far <= 2.05
        moved = max(moved, far)
    assert moved > 0.2, "corners of pixels are smoothed"


def test_the_same_stream_draws_the_same_outline_and_another_stream_another() -> None:
    mask = lesion("round", 3)
    first, again, other = (by_hand(mask, seed)[0] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert 0.5 < np.hypot(*(first - other).T).mean() < 2


def unsteadiness(lines: list[np.ndarray]) -> float:
    """How far lines lie on average from themselves smoothed over 17 vertices."""
    weights = np.ones(17) / 17
    off = [
        line - np.stack([ndimage.convolve1d(column, weights, mode="wrap") for column in line.T], axis=1)
        for line in lines
    ]
    return float(np.hypot(*np.concatenate(off).T).mean())


@pytest.mark.parametrize("seed", range(3))
def test_a_smooth_border_and_a_ragged_one_look_alike_when_drawn_by_hand(seed: int) -> None:
    smooth = lesion("round", seed)
    rng = np.random.default_rng(seed)
    noise = ndimage.gaussian_filter(rng.standard_normal(smooth.shape), 2.5)
    signed = ndimage.distance_transform_edt(smooth) - ndimage.distance_transform_edt(~smooth)
    ragged = ndimage.binary_fill_holes(signed + 1.2 * noise / noise.std() > 0)
    assert unsteadiness(border_rings(ragged)) > 1.7 * unsteadiness(border_rings(smooth))
    drawn = [[unsteadiness(by_hand(mask, 100 * number + other)) for other in range(40)] for number, mask in
             enumerate((smooth, ragged))]  # fmt: skip
    rougher = np.less.outer(*map(np.array, drawn)).mean()
    assert 0.4 < rougher < 0.75, "of two drawings, the ragged border's is the rougher one little more often than not"


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_tiny_masks_keep_an_outline_where_they_are(size: int) -> None:
    mask = np.zeros((64, 64), bool)
    mask[30 : 30 + size, 20 : 20 + size] = True
    lines = smooth_outlines(mask)
    assert len(lines) == 1
    assert np.abs(lines[0] - (np.array([20, 30]) + (size - 1) / 2)).max() <= size / 2
    drawn = np.argwhere((draw_outline(np.zeros((64, 64), np.uint8), by_hand(mask)) != 0).any(axis=2))
    assert len(drawn) > 0
    assert np.abs(drawn - (np.array([30, 20]) + (size - 1) / 2)).max() <= size / 2 + 2


def test_an_empty_mask_draws_nothing() -> None:
    image = ground(64, 80)
    assert np.array_equal(draw_outline(image, by_hand(np.zeros(image.shape, bool))), to_rgb(image))


@pytest.mark.parametrize("kind", ["round", "with a hole", "at the border", "crumbs"])
def test_an_outline_changes_nothing_but_a_thin_line_along_the_border(kind: str) -> None:
    image, mask = ground(1024, 1024), lesion(kind, 5)
    drawn = draw_outline(image, by_hand(mask))
    changed = (drawn != to_rgb(image)).any(axis=2)
    inside, outside = ndimage.distance_transform_edt(np.pad(mask, 1))[1:-1, 1:-1], ndimage.distance_transform_edt(~mask)
    to_border = np.where(mask, inside, outside)
    # Two pixels of straying, half the line's width, its soft edge and tips, to the nearest pixel.
    assert to_border[changed].max() < 6.5
    full = (drawn == CYAN).all(axis=2)
    border = np.zeros(mask.shape, bool)
    for ring in border_rings(mask):
        border[ring[:, 1].astype(int), ring[:, 0].astype(int)] = True
    assert ndimage.distance_transform_edt(~full)[border].max() <= 4, "the line is all around"
    assert changed.mean() < 0.02
    assert np.array_equal(image, ground(1024, 1024)), "the radiograph itself is left alone"


def test_every_colour_of_a_point_is_drawn_at_its_place_and_nothing_beyond_its_rim() -> None:
    image = to_rgb(ground(1024, 900))
    places = [(100 + 110 * (n % 4), 200 + 300 * (n // 4)) for n in range(8)]
    drawn = draw_points(image, marks(places))
    far = np.full(image.shape[:2], np.inf)
    rows, columns = np.ogrid[:1024, :900]
    for (x, y), color in zip(places, COLORS, strict=True):
        distance = np.hypot(columns - x, rows - y)
        assert (drawn[distance <= 8] == PUBLISHED[color]).all(), color
        assert (drawn[distance <= 16] == 255).all(axis=1).sum() > 50, "a white rim"
        far = np.minimum(far, distance)
    assert np.array_equal(drawn[far > 16], image[far > 16])


def test_points_at_the_border_of_a_picture_are_cut_off_and_not_moved() -> None:
    image = to_rgb(ground(200, 300))
    drawn = draw_points(image, marks([(0, 0), (299, 199)]))
    assert tuple(drawn[0, 0]) == PUBLISHED["red"]
    assert tuple(drawn[199, 299]) == PUBLISHED["orange"]


def test_a_disc_near_the_outline_is_small_and_leaves_the_outline_visible() -> None:
    for distance in (7, 10, 14, 18, 40):
        image = np.full((1024, 1024), 90, np.uint8)
        line = line_at(512.0 + distance)
        plain = draw_outline(image, [line])
        drawn = draw_points(plain, [Mark((512, 512), PUBLISHED["red"], "A", distance)], [line])
        assert np.array_equal(drawn[512 + distance], plain[512 + distance]), f"at {distance} px"
        assert tuple(drawn[512, 512]) == PUBLISHED["red"]


def test_a_letter_stands_beside_its_disc_and_away_from_the_outline_and_other_discs() -> None:
    image = np.full((1024, 1024), 90, np.uint8)
    line = line_at(540)
    plain = draw_outline(image, [line])
    points = [Mark((512, 512), PUBLISHED["red"], "A", 28), Mark((512, 470), PUBLISHED["blue"], "B", 70)]
    lettered = draw_points(plain, points, [line])
    bare = draw_points(plain, [replace(point, letter="") for point in points], [line])
    rows, columns = np.nonzero((lettered != bare).any(axis=2))
    letters = (lettered[rows, columns] >= 250).all(axis=1)
    assert letters.any(), "white letters"
    for point in points:
        gap = np.hypot(columns - point.xy[0], rows - point.xy[1])
        assert gap.min() > 11, "no letter covers a disc"
        assert gap.min() < 35
    assert rows.max() < 538, "nor the outline"


@pytest.mark.parametrize("shade", rest_long([255, 90, 170], keep=1))
def test_a_letter_has_a_closed_dark_edge_on_every_ground(shade: int) -> None:
    for letter in "ABCDEFGH":
        alone, drawn = (np.full((1024, 1024, 3), one, np.uint8) for one in (0, shade))
        for canvas in (alone, drawn):
            draw_label(canvas, letter, (512, 512), 0.75)
        white = (alone > 250).all(axis=2)
        assert white.sum() > 20
        assert (drawn[white] > 250).all()
        assert ndimage.binary_fill_holes((drawn < 100).all(axis=2))[white].all(), letter


def test_a_letter_at_the_picture_s_edge_stays_inside() -> None:
    plain = to_rgb(np.full((512, 512), 90, np.uint8))
    for xy in ((3, 3), (508, 3), (3, 508), (508, 508)):
        bare, drawn = (draw_points(plain, [Mark(xy, PUBLISHED["red"], letter)]) for letter in ("", "D"))
        rows, columns = np.nonzero((drawn != bare).any(axis=2))
        assert len(rows) > 20
        assert min(rows.min(), columns.min(), 511 - rows.max(), 511 - columns.max()) > 0, "nothing is cut off"


def test_point_colours_are_the_eight_of_the_items_and_far_apart() -> None:
    for palette in PALETTES.values():
        assert tuple(palette) == COLORS
        rgb = np.array(list(palette.values()), float)
        apart = np.linalg.norm(rgb[:, None] - rgb[None], axis=2)
        assert apart[~np.eye(8, dtype=bool)].min() > 75
        assert np.linalg.norm(rgb - CYAN, axis=1).min() > 130, "none is taken for the outline"


# Machado, Oliveira and Fernandes 2009, severity 1.0, on linear RGB.
BLIND = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
    "no form": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
}


def cie76(palette: dict[str, tuple[int, int, int]], seen_by: list[list[float]]) -> float:
    """The least difference of two colours of a palette as somebody sees them, by CIE76."""
    coded = np.array(list(palette.values())) / 255
    linear = np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4) @ np.array(seen_by).T
    to_xyz = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175],
                       [0.0193339, 0.119192, 0.9503041]])  # fmt: skip
    xyz = np.clip(linear, 0, 1) @ to_xyz.T / (0.95047, 1, 1.08883)
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    lab = np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=1)
    apart = np.linalg.norm(lab[:, None] - lab[None], axis=2)
    return float(apart[~np.eye(len(lab), dtype=bool)].min())


@pytest.mark.parametrize("form", BLIND)
def test_the_safe_colours_differ_to_the_colour_blind_as_the_published_ones_do_not(form: str) -> None:
    assert cie76(PALETTES["safe"], BLIND[form]) >= (40 if form == "no form" else 30)
    if form == "protanopia":
        assert cie76(PUBLISHED, BLIND[form]) < 5, "red and brown"


@pytest.mark.parametrize("shape", [(1024, 1024), (840, 1024), (1024, 617), (1024, 100)])
def test_grid_lines_are_at_the_rounded_eighths(shape: tuple[int, int]) -> None:
    image = ground(*shape)
    drawn = draw_grid(image)
    changed = (drawn != to_rgb(image)).any(axis=2)
    rows, columns = cell_edges(shape[0]), cell_edges(shape[1])
    for x in columns[1:-1]:
        assert (drawn[:, x] == 255).mean() > 0.85, "labels cover more of the lines of a narrow picture"
    for y in rows[1:-1]:
        assert (drawn[y] == 255).mean() > 0.9
    # Below and right of the labels nothing but the lines is drawn.
    lines = np.zeros(shape, bool)
    for x in columns[1:-1]:
        lines[:, max(0, x - 2) : x + 3] = True
    for y in rows[1:-1]:
        lines[max(0, y - 2) : y + 3] = True
    clear = np.zeros(shape, bool)
    clear[rows[1] :, columns[1] :] = True
    if shape[1] > 600:
        assert not (changed & clear & ~lines).any()


def test_every_cell_of_the_first_row_and_column_has_its_label() -> None:
    image = np.full((1024, 1024), 90, np.uint8)
    drawn = draw_grid(image)
    edges = cell_edges(1024)
    for n in range(8):
        top = drawn[3:60, edges[n] + 35 : edges[n + 1] - 35]
        side = drawn[edges[n] + 35 : edges[n + 1] - 35, 3:60]
        assert (top == 255).any(), f"column {'ABCDEFGH'[n]}"
        assert (side == 255).any(), f"row {n + 1}"


def picture(name: str) -> np.ndarray:
    """The golden pictures: small, over a ramp from dark to bright."""
    image = ground(192, 224) // 50 * 50  # few shades, so that the file is small
    rng = np.random.default_rng(1)
    mask = shapes.blob(rng, image.shape, (120, 100), (55, 40)) & ~shapes.blob(rng, image.shape, (120, 100), (12, 9))
    if name == "outline":
        return draw_outline(image, by_hand(mask))
    if name == "points":
        places = [(30 + 50 * (n % 4), 60 + 70 * (n // 4)) for n in range(8)]
        return draw_points(draw_outline(image, by_hand(mask)), marks(places, "ABCDEFGH"), by_hand(mask))
    return draw_grid(image)


@pytest.mark.parametrize("name", ["outline", "points", "grid"])
def test_pictures_look_as_they_did(name: str) -> None:
    path = GOLDENS / f"{name}.png"
    drawn = picture(name)
    if os.environ.get("CHEXQA_UPDATE_GOLDENS"):
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), cv2.cvtColor(drawn, cv2.COLOR_RGB2BGR))
    golden = cv2.imread(str(path), cv2.IMREAD_COLOR)
    assert golden is not None, f"{path} is not there; draw it with CHEXQA_UPDATE_GOLDENS=1"
    difference = np.abs(drawn.astype(int) - cv2.cvtColor(golden, cv2.COLOR_BGR2RGB))
    # Soft edges may differ by a shade between builds of OpenCV; lines may not move.
    assert difference.max() <= 8, f"{path} differs; draw it anew with CHEXQA_UPDATE_GOLDENS=1 if that is meant"


def test_drawing_is_the_same_every_time() -> None:
    assert all(np.array_equal(picture(name), picture(name)) for name in ("outline", "points", "grid"))


def test_the_line_grows_with_the_picture() -> None:
    """About two pixels at 1024: visible, and the lesion under it too."""
    for side, low, high in ((1024, 2, 4.5), (512, 1, 3)):
        image, mask = np.zeros((side, side), np.uint8), np.zeros((side, side), bool)
        mask[side // 4 : side // 2, side // 4 : side // 2] = True
        column = draw_outline(image, by_hand(mask))[:, int(0.375 * side), 1].astype(float)
        assert low <= column[: int(0.375 * side)].sum() / 255 <= high
