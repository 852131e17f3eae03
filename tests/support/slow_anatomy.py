"""Second implementation of zones and regions in plain loops, written from the definitions: slow but easy to check.

A pixel is ``(x, y)``, and a mask is the set of its pixels.
"""

from __future__ import annotations

import numpy as np

from chexqa.imaging.anatomy import Mask

Pixel = tuple[int, int]
Pixels = set[Pixel]
AROUND_4 = ((1, 0), (-1, 0), (0, 1), (0, -1))
AROUND_8 = (*AROUND_4, (1, 1), (1, -1), (-1, 1), (-1, -1))


def pixels_of(mask: Mask) -> Pixels:
    """Return ``(x, y)`` of every True pixel."""
    return {(int(x), int(y)) for y, x in np.argwhere(mask)}


def parts_of(pixels: Pixels, around: tuple[Pixel, ...]) -> list[Pixels]:
    """Return the connected components, sorted by their first pixel in reading order."""
    left = set(pixels)
    parts = []
    for start in sorted(pixels, key=lambda pixel: (pixel[1], pixel[0])):
        if start not in left:
            continue
        left.discard(start)
        part, border = {start}, [start]
        while border:
            x, y = border.pop()
            for dx, dy in around:
                near = (x + dx, y + dy)
                if near in left:
                    left.discard(near)
                    part.add(near)
                    border.append(near)
        parts.append(part)
    return parts


def slow_growth(lung: Pixels, lesion: Pixels) -> Pixels:
    grown = set(lung)
    for part in parts_of(lesion, AROUND_4):
        if part & lung:
            grown |= part
    return grown


def mirrored(index: int, length: int) -> int:
    """Return the index inside the picture for an index outside it: indices are reflected, and the edge pixel is
    repeated.
    """
    while not 0 <= index < length:
        index = -1 - index if index < 0 else 2 * length - 1 - index
    return index


def slow_core(lung: Pixels, union: Pixels, square: int, shape: tuple[int, int]) -> Pixels:
    height, width = shape
    first = (square - 1) // 2

    def survives(x: int, y: int) -> bool:
        for row in range(y - first, y - first + square):
            for column in range(x - first, x - first + square):
                if (mirrored(column, width), mirrored(row, height)) not in union:
                    return False
        return True

    parts = parts_of({(x, y) for x, y in lung if survives(x, y)}, AROUND_8)
    return max(parts, key=len, default=set())


def slow_square(lung: Pixels) -> int:
    rows = [y for _, y in lung]
    top, bottom = min(rows), max(rows)
    third, two_thirds = top + (bottom - top) // 3, top + 2 * (bottom - top) // 3
    count = rows.count(third) + rows.count(two_thirds)
    # Half the mean of two counts, rounded down. A square of side 0 would erode nothing, as a square of side 1 does.
    return max(1, count // 4)


def slow_rim(lung: Pixels, core: Pixels, right: bool) -> Pixels:
    if not core:
        return set(lung)
    if not right:
        return {(-x, y) for x, y in slow_rim({(-x, y) for x, y in lung}, {(-x, y) for x, y in core}, True)}
    core_left: dict[int, int] = {}
    for x, y in core:
        core_left[y] = min(x, core_left.get(y, x))
    top, bottom = min(core_left), max(core_left)
    rim = set()
    for x, y in lung:
        if y <= top:
            inside = x <= core_left[top]
        elif y >= bottom:
            inside = x <= core_left[bottom]
        else:
            inside = x < core_left[y]
        if inside:
            rim.add((x, y))
    return rim


def slow_regions(right: Pixels, left: Pixels, shape: tuple[int, int]) -> dict[str, Pixels]:
    found: dict[str, Pixels] = {}
    if not right and not left:
        return found
    square = slow_square(right or left)
    for side, lung in (("right", right), ("left", left)):
        if not lung:
            continue
        y_min, y_max = min(y for _, y in lung), max(y for _, y in lung)
        cut = (min(x for x, _ in lung) + max(x for x, _ in lung)) // 2
        height = y_max - y_min + 1
        rim = slow_rim(lung, slow_core(lung, right | left, square, shape), side == "right")
        for zone in ("upper", "mid", "lower"):
            for part in ("medial", "lateral", "peripheral"):
                found[f"{side}_{zone}_{part}"] = set()
        found[f"{side}_costophrenic_angle"] = set()
        for x, y in lung:
            if y <= y_min + height // 3:
                zone = "upper"
            elif y <= y_min + (2 * height) // 3:
                zone = "mid"
            else:
                zone = "lower"
            lateral = x < cut if side == "right" else x >= cut
            found[f"{side}_{zone}_{'lateral' if lateral else 'medial'}"].add((x, y))
            if (x, y) in rim:
                found[f"{side}_{zone}_peripheral"].add((x, y))
                if y >= y_min + (3 * (y_max - y_min)) // 4:
                    found[f"{side}_costophrenic_angle"].add((x, y))
    return found
