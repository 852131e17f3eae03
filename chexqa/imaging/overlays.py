"""Overlays drawn on a radiograph: outlines, coloured points, labels (:mod:`chexqa.imaging.grid` draws the grid).

Pictures are ``(H, W, 3)`` RGB uint8 at the size of the working image. Only lines, points and labels are drawn, so the
lesion stays visible. :mod:`chexqa.imaging.hand_drawn` computes the lines of outlines.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from chexqa.imaging.colors import RGB
from chexqa.imaging.hand_drawn import Line

Image = npt.NDArray[np.uint8]

OUTLINE_RGB = (0, 255, 255)
_LETTER_SIZE, _LETTER_GAP = 0.75, 15 / 1024  # gap between a point's letter and its disc, as a share of the longer side
_LETTER_EDGE = 3  # width in pixels of the black edge around a letter of size 1, in a picture of 1024 px
_SHIFT = 4  # cv2 takes coordinates in sixteenths of a pixel


def to_rgb(image: Image) -> Image:
    """Return a grey picture ``(H, W)`` as RGB."""
    return np.asarray(cv2.cvtColor(image, cv2.COLOR_GRAY2RGB), np.uint8)


def draw_outline(image: Image, lines: Iterable[Line]) -> Image:
    """Return an RGB copy of a grey picture ``(H, W)`` with ``lines`` in cyan, about 2 px wide at 1024 px."""
    canvas = to_rgb(image)
    width = max(1, round(max(image.shape) / 450))
    rounded = [np.round(line * (1 << _SHIFT)).astype(np.int32) for line in lines]
    cv2.polylines(canvas, rounded, True, OUTLINE_RGB, width, cv2.LINE_AA, _SHIFT)
    return canvas


@dataclass(frozen=True)
class Mark:
    """Coloured point to draw, with its position, its letter, and its distance in pixels from the nearest outline."""

    xy: tuple[int, int]
    rgb: RGB
    letter: str = ""
    distance: float = math.inf


def draw_points(image: Image, marks: Sequence[Mark], lines: Sequence[Line] = ()) -> Image:
    """Return a copy of an RGB picture with a disc and a letter for each coloured point of ``marks``.

    A disc has a white rim with a dark edge. A disc near an outline is smaller and has a thinner rim, so that the
    outline stays visible. The letter is beside the disc, as far as possible from ``lines`` (outlines) and other discs.
    """
    canvas = image.copy()
    side = max(image.shape[:2])
    outline = np.concatenate([line[::4] for line in lines]) if lines else np.empty((0, 2))
    discs = [_disc(mark, side) for mark in marks]
    for mark, (radius, rim) in zip(marks, discs, strict=True):
        for size, rgb in ((radius + rim + 1, (0, 0, 0)), (radius + rim, (255, 255, 255)), (radius, mark.rgb)):
            cv2.circle(canvas, mark.xy, size, rgb, -1, cv2.LINE_AA)
    for mark, (radius, rim) in zip(marks, discs, strict=True):
        if mark.letter:
            blocked = np.concatenate([outline, [other.xy for other in marks if other is not mark] or outline[:0]])
            place = _beside(mark.xy, radius + rim + side * _LETTER_GAP, blocked, image.shape)
            draw_label(canvas, mark.letter, place, _LETTER_SIZE)
    return canvas


def _disc(mark: Mark, side: int) -> tuple[int, int]:
    """Return the radius of a mark's disc and the width of its rim, in pixels."""
    radius = max(4, round(side / 105))
    rim = max(2, round(radius / 3.5))
    room = mark.distance - side / 512  # the outline's own width
    if radius + rim + 1 > room:
        rim = 1
        radius = max(round(side / 340), min(radius, int(room) - rim - 1))
    return radius, rim


def _beside(
    xy: tuple[int, int], distance: float, blocked: npt.NDArray[np.float64], shape: tuple[int, ...]
) -> tuple[int, int]:
    """Return the point in the picture at ``distance`` from ``xy`` that is farthest from the ``blocked`` points."""
    angles = np.arange(8) * np.pi / 4
    places = np.round(np.array(xy) + distance * np.stack([np.cos(angles), np.sin(angles)], axis=1)).astype(int)
    edge = distance / 2
    inside = ((places >= edge) & (places <= np.array(shape[1::-1]) - edge)).all(axis=1)
    gaps = np.array([np.hypot(*(blocked - place).T).min(initial=np.inf) for place in places])
    best = places[int(np.argmax(np.where(inside, gaps, -1)))]
    return int(best[0]), int(best[1])


def draw_label(canvas: Image, text: str, center_xy: tuple[int, int], size: float = 1.0) -> None:
    """Draw ``text``, white with a black edge, centred at ``center_xy``.

    With ``size`` 1, the text is 22 px high in a picture whose longer side has 1024 px.
    """
    scale = size * max(canvas.shape[:2]) / 1024
    edge = max(2, round(_LETTER_EDGE * scale))
    (width, height), below = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, scale, 1)
    left, base = center_xy[0] - width // 2, center_xy[1] + height // 2
    # The black edge is made by dilating the letters on a small patch: drawing them in a bolder font adds hardly any
    # width.
    reach = 2 * edge + 2
    top, start = max(0, base - height - reach), max(0, left - reach)
    patch = canvas[top : base + below + reach, start : left + width + reach]
    letters = np.zeros(patch.shape[:2], np.uint8)
    thickness = max(1, round(2.4 * scale))
    cv2.putText(letters, text, (left - start, base - top), cv2.FONT_HERSHEY_SIMPLEX, scale, 255, thickness, cv2.LINE_AA)
    around = cv2.dilate(letters, cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * edge + 1,) * 2))
    behind = cv2.multiply(patch, cv2.merge([cv2.bitwise_not(around)] * 3), scale=1 / 255)
    patch[:] = cv2.max(behind, cv2.merge([letters] * 3))
