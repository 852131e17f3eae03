"""Panels: pictures that show how a key was computed, for sheets and pages.

- Stage 4: the lungs with their zones and regions.
- Grid: the lesion's outline over the grid.
- Places: the key's place and the places that models answered.
- Masks under review: the lungs.

Pictures are RGB uint8 ``(H, W, 3)``; masks are bool ``(H, W)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import cv2
import numpy as np
from PIL import Image as PILImage
from PIL import ImageDraw, ImageFont

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import CaseKey, Item
from chexqa.contract.read_run import Turn
from chexqa.eval.places.drawn_places import KEY, KEY_RGB, Answerer, Stroke, legend_text, painted, strokes, with_legend
from chexqa.eval.places.target import target_of
from chexqa.files.errors import InputError
from chexqa.imaging import masks
from chexqa.imaging.anatomy import ANGLE, SIDES, ZONES, Lungs, grow_lungs, part_of, regions, zone_rows
from chexqa.imaging.colors import RGB
from chexqa.imaging.hand_drawn import Line, smooth_outlines
from chexqa.imaging.overlays import OUTLINE_RGB, Image, draw_label, to_rgb
from chexqa.imaging.read import Mask, decode_png

ANATOMY, GRID, LUNGS = "lungs, zones and regions", "outline over the grid", "outline and lungs"
PLACES = "places"
# Answers of models and readers to one item.
GivenAnswers = Sequence[tuple[Answerer, Turn]]
LEGEND = "medial blue, lateral orange, peripheral green, costophrenic angle pink, lesion cyan"
SHORT_LEGEND = "medial blue, lateral orange, rim green, angle pink"
# Okabe and Ito's colours, which colour-blind readers can tell apart. Later parts cover earlier ones.
PART_RGB: dict[str, RGB] = {
    "medial": (86, 180, 233), "lateral": (230, 159, 0), "peripheral": (0, 158, 115), ANGLE: (204, 121, 167),
}  # fmt: skip
LUNG_RGB: dict[str, RGB] = {"right": (230, 159, 0), "left": (240, 228, 66)}
_TINT = 0.2
_WHITE: RGB = (255, 255, 255)
_LETTER = 0.85
_STEPS = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10**9)  # pixels between two numbers of a ruler
_SHIFT = 4  # cv2 takes coordinates in sixteenths of a pixel


class Panel(NamedTuple):
    """Drawn panel: the words above it, and its pixels."""

    label: str
    pixels: Image


def item_panel(bench: Benchmark, item: Item) -> Panel | None:
    """Return the panel that shows the masks behind an item's key; ``None`` if the item has no panel.

    The panel shows the lesion, so it must not be on a blind sheet. Raise ``InputError`` for damaged pictures or masks.
    """
    if not has_panel(bench, item):
        return None
    _, keys = bench.key("a panel of what made the key")
    image = _read(bench, item.alone_images[0 if item.stage == 4 else -1].image)
    found = stored_masks(keys[item.case_id], image)
    if item.stage == 4:
        return Panel(ANATOMY, anatomy_panel(image, _lungs(found, image), found["lesion"]))
    return Panel(GRID, outlined(image, smooth_outlines(found["lesion"]), OUTLINE_RGB))


def place_strokes(bench: Benchmark, item: Item, answers: GivenAnswers, with_key: bool) -> list[Stroke]:
    """Return the lines that show the answered places on an item's radiograph.

    If ``with_key`` is True, the key's place is shown, too. For a proposal that is wrong on purpose, leave ``with_key``
    False, because the key's place would show that the proposal is wrong.
    """
    _, keys = bench.key("a panel of places")
    case = keys[item.case_id]
    height, width = _read(bench, item.alone_images[0].image).shape[:2]
    target = target_of(case.measures, f"the key of case '{item.case_id}'") if with_key else None
    return strokes(item.form.name, (width, height), target, [(who, turn.place) for who, turn in answers])


def place_panel(bench: Benchmark, item: Item, answers: GivenAnswers, with_key: bool) -> Image:
    """Return the radiograph with the lines of :func:`place_strokes`, and with a legend if there are answers."""
    picture = painted(_rgb(_read(bench, item.alone_images[0].image)), place_strokes(bench, item, answers, with_key))
    key = [(KEY_RGB, KEY)] if with_key else []
    lines = [(who.rgb, f"{who.letter}  {legend_text(who, turn)}") for who, turn in answers]
    return with_legend(picture, [*key, *lines]) if answers else picture


def ruled_picture(image: Image) -> Image:
    """Return a radiograph as RGB with rulers in pixels outside its left and upper edge; the picture becomes larger."""
    picture = _rgb(image)
    height, width = picture.shape[:2]
    side = max(height, width)
    step = next(step for step in _STEPS if side <= 12 * step)
    size = max(10, side / 42)
    font = ImageFont.load_default(size)
    tick = max(4, side // 100)
    left, top = round(font.getlength(f" {height}")) + tick, round(size * 1.3) + tick
    page = PILImage.new("RGB", (left + width, top + height), "white")
    page.paste(PILImage.fromarray(picture), (left, top))
    pen = ImageDraw.Draw(page)
    for at in range(0, width, step):
        pen.line((left + at, top - tick, left + at, top - 1), fill="black", width=max(1, side // 500))
        half = font.getlength(str(at)) / 2
        middle = min(left + at, left + width - half)  # the last number stays on the picture
        pen.text((middle, top - tick), str(at), fill="black", font=font, anchor="ls" if at == 0 else "ms")
    for at in range(0, height, step):
        pen.line((left - tick, top + at, left - 1, top + at), fill="black", width=max(1, side // 500))
        pen.text((left - tick - 1, top + at), str(at), fill="black", font=font, anchor="rt" if at == 0 else "rm")
    return np.asarray(page)


def has_panel(bench: Benchmark, item: Item) -> bool:
    """Return True if an item has a panel (:func:`item_panel`).

    Only items of stage 4 and of the grid have a panel, and only if the key has the lesion's mask.
    """
    _, keys = bench.key("a panel of what made the key")
    if "lesion" not in keys[item.case_id].measures.get("masks", {}) or not item.alone_images:
        return False
    return not item.form.lists_options or (item.stage == 4 and item.alone_images[0].role == "radiograph")


def stored_masks(case: CaseKey, image: Image) -> dict[str, Mask]:
    """Return the masks in a case's answer key, keyed by name.

    Raises ``InputError`` if a mask and the picture differ in size.
    """
    found = {name: masks.from_rle(rle, f"the key's {name}") for name, rle in case.measures.get("masks", {}).items()}
    for name, mask in found.items():
        if mask.shape != image.shape[:2]:
            raise InputError(
                f"case '{case.case_id}': the mask {name} in the key is {mask.shape[1]} x {mask.shape[0]} px, but "
                f"the picture is {image.shape[1]} x {image.shape[0]}; generate the benchmark again."
            )
    return found


def _lungs(found: dict[str, Mask], image: Image) -> Lungs:
    empty = np.zeros(image.shape[:2], bool)
    return Lungs(found.get("right_lung", empty), found.get("left_lung", empty))


def _read(bench: Benchmark, image: str) -> Image:
    return decode_png(bench.image_bytes(image), f"{bench.folder / image}:")


def anatomy_panel(image: Image, lungs: Lungs, lesion: Mask) -> Image:
    """Return the picture with the outlines of lesion and lungs, the zones' borders, and tinted parts of the lungs.

    ``image`` is grey ``(H, W)`` or RGB. ``lungs`` are the masks in the key.
    """
    # A part of the lesion that touches a lung counts as a part of this lung, as in the key.
    grown = grow_lungs(lungs, lesion)
    canvas = _rgb(image)
    tints = np.zeros((*canvas.shape[:2], 3), np.uint8)
    areas = regions(grown)
    for name in sorted(areas, key=lambda name: list(PART_RGB).index(part_of(name))):
        tints[areas[name]] = PART_RGB[part_of(name)]
    tinted = tints.any(axis=2)
    canvas[tinted] = ((1 - _TINT) * canvas[tinted] + _TINT * tints[tinted]).astype(np.uint8)
    for side in SIDES:
        lung = grown.side(side)
        if lung.any():
            _draw_zones(canvas, lung, side)
            canvas = outlined(canvas, smooth_outlines(lung), _WHITE, 0.6)
    return outlined(canvas, smooth_outlines(lesion), OUTLINE_RGB)


def _draw_zones(canvas: Image, lung: Mask, side: str) -> None:
    """Draw the borders between a lung's zones, and each zone's name in its middle."""
    rows, columns = masks.window(lung)
    upper_end, mid_end = zone_rows(lung)
    for row in (upper_end, mid_end):
        inside = np.flatnonzero(lung[row])
        if inside.size:
            cv2.line(canvas, (int(inside[0]), row), (int(inside[-1]), row), _WHITE, _width(canvas, 0.5))
    edges = (rows.start, upper_end, mid_end, rows.stop)
    for zone, top, bottom in zip(ZONES, edges, edges[1:], strict=False):
        middle = (top + bottom) // 2
        inside = np.flatnonzero(lung[middle])
        center = int(inside.mean()) if inside.size else (columns.start + columns.stop) // 2
        draw_label(canvas, f"{side[0].upper()} {zone}", (center, middle), _LETTER)


def lungs_panel(image: Image, right: Mask | None, left: Mask | None, lesion: Mask | None = None) -> Image:
    """Return the picture with the outlines of the lungs (R orange, L yellow) and of the lesion."""
    canvas = _rgb(image)
    for side, lung in (("right", right), ("left", left)):
        if lung is not None and lung.any():
            canvas = outlined(canvas, smooth_outlines(lung), LUNG_RGB[side])
            rows, columns = masks.window(lung)
            place = (columns.start + columns.stop) // 2, rows.start + (rows.stop - rows.start) // 8
            draw_label(canvas, side[0].upper(), place, _LETTER)
    return canvas if lesion is None else outlined(canvas, smooth_outlines(lesion), OUTLINE_RGB)


def outlined(image: Image, lines: Iterable[Line], rgb: RGB, thickness: float = 1.0) -> Image:
    """Return an RGB copy of a picture with closed lines (arrays of x, y) drawn on it.

    A thickness of 1 is about 2 px in a picture of 1024 px.
    """
    canvas = _rgb(image)
    rounded = [np.round(line * (1 << _SHIFT)).astype(np.int32) for line in lines]
    cv2.polylines(canvas, rounded, True, rgb, _width(canvas, thickness), cv2.LINE_AA, _SHIFT)
    return canvas


def _width(canvas: Image, thickness: float) -> int:
    return max(1, round(thickness * float(max(canvas.shape)) / 450))


def _rgb(image: Image) -> Image:
    return to_rgb(image) if image.ndim == 2 else image.copy()
