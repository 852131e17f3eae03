"""Vessels of both lungs as added attenuation: arteries and veins that branch from the hila and become narrower."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chexqa.phantoms.body import Frame, Patient
from chexqa.phantoms.outlines import SIDES
from chexqa.phantoms.raster import Field, Points, polylines, soften, strokes

_FULL = 0.25  # attenuation that the canvas stores as grey 255
_STEPS = 6  # number of straight pieces of one branch
_THINNEST = 0.0042  # smallest width in body units; narrower vessels are invisible on a radiograph

# Main branches of one lung as they leave the hilum: direction in degrees (0 lateral, 90 down), width, length.
_TRUNKS = np.array(
    [
        (-78, 0.026, 0.20),
        (-58, 0.034, 0.24),
        (-36, 0.032, 0.24),
        (-14, 0.026, 0.22),
        (8, 0.026, 0.22),
        (26, 0.036, 0.26),
        (44, 0.042, 0.28),
        (60, 0.050, 0.30),
        (75, 0.046, 0.30),
        (92, 0.034, 0.24),
    ]
)

Values = NDArray[np.float64]


@dataclass(frozen=True)
class _Shoots:
    """N branches to draw: their starts (N, 2), headings (N,), widths (N,) and lengths (N,).

    A heading is in radians: 0 is lateral, and positive headings point downwards.
    """

    start: Points
    heading: Values
    width: Values
    length: Values


def hilum(patient: Patient, side: int) -> tuple[float, float]:
    """Return the centre of the hilum on one side, in body coordinates; the left hilum lies slightly higher."""
    return side * 0.24, (0.475 if side < 0 else 0.445) * patient.lung_height


def _trunks(rng: np.random.Generator, x: float, y: float) -> _Shoots:
    count = len(_TRUNKS)
    heading = np.radians(_TRUNKS[:, 0] + rng.normal(0, 7, count))
    start = np.stack(
        [x + rng.uniform(-0.06, 0.02, count), y + rng.normal(0, 0.035, count) + 0.10 * np.sin(heading)], axis=1
    )
    width = _TRUNKS[:, 1] * rng.uniform(0.55, 0.85, count)
    return _Shoots(start, heading, width, _TRUNKS[:, 2] * rng.uniform(0.85, 1.15, count))


def _children(rng: np.random.Generator, shoots: _Shoots, lines: Points, headings: Values) -> _Shoots:
    """Return the next branches: two at the end of every branch, and some at its side, without those that are
    too narrow.
    """
    count = len(shoots.width)
    parts: list[_Shoots] = []
    for sign in (-1, 1):
        # The wider child continues nearly straight; the narrower one turns away.
        share = rng.uniform(0.55, 0.86, count)
        away = sign * rng.uniform(0.18, 0.62, count) * (1.35 - share)
        length = shoots.length * rng.uniform(0.62, 0.9, count)
        parts.append(_Shoots(lines[:, -1], headings[:, -1] + away, shoots.width * share, length))
    for place in (2, 4):
        away = rng.choice([-1.0, 1.0], count) * rng.uniform(0.5, 1.0, count)
        share = rng.uniform(0.28, 0.45, count) * (rng.random(count) < 0.6)
        length = shoots.length * rng.uniform(0.5, 0.8, count)
        parts.append(_Shoots(lines[:, place], headings[:, place] + away, shoots.width * share, length))
    start, heading, width, length = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("start", "heading", "width", "length")
    )
    keep = width > _THINNEST
    return _Shoots(start[keep], heading[keep], width[keep], length[keep])


def _tree(rng: np.random.Generator, x: float, y: float) -> tuple[Points, Values]:
    """Return the N branches of one lung: their centre lines (N, 7, 2) and their widths (N,).

    Lines and widths are in body units; x is positive in the lateral direction.
    """
    shoots = _trunks(rng, x, y)
    lines: list[Points] = []
    widths: list[Values] = []
    while len(shoots.width):
        count = len(shoots.width)
        turns = rng.normal(0, 0.10, (count, _STEPS)) + rng.normal(0, 0.05, (count, 1))
        headings = shoots.heading[:, None] + np.cumsum(turns, axis=1)
        steps = np.stack([np.cos(headings), np.sin(headings)], axis=2) * (shoots.length / _STEPS)[:, None, None]
        grown = shoots.start[:, None] + np.concatenate([np.zeros((count, 1, 2)), np.cumsum(steps, axis=1)], axis=1)
        lines.append(grown)
        widths.append(shoots.width)
        shoots = _children(rng, shoots, grown, np.concatenate([headings[:, :1], headings], axis=1))
    return np.concatenate(lines), np.concatenate(widths)


def vessels(patient: Patient, frame: Frame) -> Field:
    """Return the attenuation of the vessels and of bronchi seen end-on; the air in the bronchi has been subtracted."""
    canvas = np.zeros(frame.shape, np.uint8)
    ends = np.zeros(frame.shape, np.uint8)
    for side in SIDES:
        rng = patient.stream("vessels", side)
        x, y = hilum(patient, side)
        lines, widths = _tree(rng, abs(x), y)
        pixels = frame.pixels(lines.reshape(-1, 2) * [side, 1]).reshape(lines.shape)
        # Wide vessels last, so that they stay on top of the narrow ones they meet.
        class_of = np.round(np.log2(widths / _THINNEST) * 4).astype(int)
        for number in range(class_of.max() + 1):
            width = _THINNEST * 2 ** (number / 4)
            level = min(255.0, (0.022 + 2.7 * width) / _FULL * 255)
            polylines(canvas, pixels[class_of == number], width * frame.unit, level)
        for _ in range(2):
            spot = np.array([[abs(x) + rng.uniform(0.03, 0.13), y + rng.uniform(-0.2, 0.12)]])
            _ring(canvas, ends, frame, spot * [side, 1], rng.uniform(0.009, 0.014))
    fine = 0.004 * frame.unit
    # Vessels far from the detector are less sharp, so a sharp and a soft picture of the tree are mixed.
    tree = soften(canvas, fine, 0.65 * _FULL) + soften(canvas, 2.8 * fine, 0.45 * _FULL)
    return np.asarray(tree - soften(ends, fine, _FULL), dtype=np.float32)


def _ring(canvas: NDArray[np.uint8], ends: NDArray[np.uint8], frame: Frame, centre: Points, radius: float) -> None:
    """Draw a bronchus seen end-on: a dark dot in a pale wall."""
    turn = np.linspace(0, 2 * np.pi, 16)
    circle = np.stack([np.cos(turn), np.sin(turn)], axis=1) * radius
    strokes(canvas, frame.pixels(centre + circle), 0.011 * frame.unit, np.full(16, 75.0))
    dot = frame.pixels(np.vstack([centre, np.add(centre, [1e-3, 0])]))
    strokes(ends, dot, 1.5 * radius * frame.unit, np.full(2, 45.0))
