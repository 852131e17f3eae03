"""Bones of a phantom as added attenuation: ribs, clavicles, scapulae with the shoulder joint, and the spine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chexqa.phantoms.body import Frame, Patient
from chexqa.phantoms.outlines import SIDES, wall_at
from chexqa.phantoms.raster import Field, Points, curve, paint, polylines, ribbon, soften, strokes

Canvas = NDArray[np.uint8]

_FULL = 0.30  # attenuation that the canvas stores as grey 255

# Points (x, y as a fraction) of one side's shoulder blade, its ridge and the upper arm.
_BLADE = [
    (0.74, 0.05),
    (0.72, 0.17),
    (0.755, 0.32),
    (0.83, 0.455),
    (0.885, 0.47),
    (0.935, 0.38),
    (1.03, 0.225),
    (1.12, 0.15),
    (1.17, 0.08),
    (1.10, 0.045),
    (0.95, 0.015),
]
_RIDGE = [(0.77, 0.12), (0.95, 0.055), (1.12, 0.0), (1.27, -0.01)]
_SHAFT = [(1.27, 0.14), (1.38, 0.12), (1.50, 0.9), (1.40, 0.9)]


def _canvas(frame: Frame) -> Canvas:
    return np.zeros(frame.shape, np.uint8)


def _grey(attenuation: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.clip(attenuation / _FULL * 255, 0, 255)


def _level(attenuation: float) -> float:
    return attenuation / _FULL * 255


def _rim(canvas: Canvas, outline: Points, width: float, level: float) -> None:
    polylines(canvas, np.vstack([outline, outline[:1]])[None], width, level)


def _attenuation(canvas: Canvas, sigma: float) -> Field:
    return soften(canvas, sigma, _FULL)


def _banks(line: Points, half: NDArray[np.float64]) -> tuple[Points, Points]:
    """Return the two edges of a band around ``line`` (N, 2), each (N, 2); ``half`` (N,) is half the band's width."""
    step = np.gradient(line, axis=0)
    normal = np.stack([-step[:, 1], step[:, 0]], axis=1) / np.maximum(np.hypot(*step.T), 1e-9)[:, None]
    return line - normal * half[:, None], line + normal * half[:, None]


def _rib_line(
    patient: Patient, side: int, number: int, wobble: NDArray[np.float64]
) -> tuple[Points, NDArray[np.float64]]:
    """Return two arrays for one rib: the points (N, 2) of its centre line, and the angle (N,) of each around the body.

    The line runs from the spine to the anterior end.
    """
    end = np.radians(min(150.0, 163 - 4.0 * number) - 5 * abs(wobble[2]))
    angle = np.linspace(np.radians(4), end, 42)
    start = -0.045 + 0.0945 * (number - 1) + 0.006 * wobble[0] + (0.045 if number == 1 else 0.0)
    drop = 0.085 + 0.0255 * number + 0.010 * wobble[1]
    if patient.view == "AP":
        drop *= 0.85  # the beam comes from the front and the patient leans back: ribs look flatter
    # From the spine a rib runs level or rises slightly, then falls along the side and to the front.
    turn = (1 - np.cos(angle)) / 2
    level = 0.03 + 0.008 * min(number, 4)
    y = start + drop * 1.75 * turn - level * np.sin(2 * np.minimum(angle, np.pi / 2)) + 0.03 * (angle / np.pi) ** 2
    lateral = wall_at(patient, side, float(np.interp(np.pi / 2, angle, y)) * patient.lung_height) + 0.004
    lateral = max(lateral, 0.46 + 0.02 * wobble[1])
    x = 0.11 + (lateral - 0.11) * np.sin(angle) ** 0.92
    return np.stack([side * x, y * patient.lung_height], axis=1), angle


def ribs(patient: Patient, frame: Frame) -> Field:
    """Return the attenuation of all ribs, posterior and anterior; a rib's rim is denser than its marrow."""
    rng = patient.stream("ribs")
    density = float(rng.uniform(0.75, 1.1)) * (1.08 - 0.004 * max(0, patient.age - 50))
    back, front, rims = _canvas(frame), _canvas(frame), _canvas(frame)
    for side in SIDES:
        spread = rng.normal(0, 0.6, (10, 3))
        for number in range(1, 11):
            line, angle = _rib_line(patient, side, number, spread[number - 1])
            body, rim = _rib_levels(angle, number)
            girth = 0.030 + 0.0022 * min(number, 5) + 0.012 * np.clip((angle - 1.75) / 0.8, 0, 1)
            girth = girth * (1 - 0.42 * np.sin(angle) ** 8)
            upper, lower = _banks(frame.pixels(line), girth * frame.unit)
            turned = int(np.searchsorted(angle, np.pi / 2)) + 1
            ribbon(back, upper[:turned], lower[:turned], _grey(density * body[:turned]))
            ribbon(front, upper[turned - 1 :], lower[turned - 1 :], _grey(density * body[turned - 1 :]))
            width = 0.0075 * frame.unit
            strokes(rims, upper, width, _grey(0.75 * density * rim))
            strokes(rims, lower, width, _grey(density * rim))
    fine = 0.0042 * frame.unit
    return _attenuation(back, 1.4 * fine) + _attenuation(front, 2.0 * fine) + _attenuation(rims, 0.75 * fine)


def _rib_levels(angle: NDArray[np.float64], number: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return two arrays (N,), the attenuation of a rib's body and of its rims, at the rib's points."""
    # Where the rib turns forward, the beam runs along it and the shadow is densest.
    tangent = 0.030 * np.sin(angle) ** 10
    anterior = np.clip((angle - 1.7) / 0.5, 0, 1)
    fade = np.clip((angle[-1] - angle) / 0.35, 0, 1) ** 0.7
    body = (0.052 * (1 - anterior) + 0.024 * anterior + tangent) * fade
    rim = (0.058 * (1 - anterior) + 0.036 * anterior + 0.15 * tangent) * fade
    if number == 1:
        body, rim = 1.1 * body, 1.1 * rim
    return body, rim


def clavicles(patient: Patient, frame: Frame) -> Field:
    """Return the attenuation of both clavicles, S-shaped, from the sternum to the shoulders."""
    rng = patient.stream("clavicles")
    body, rims = _canvas(frame), _canvas(frame)
    portable = patient.view == "AP"
    inner_y = rng.normal(0.045 if portable else 0.145, 0.02)
    outer_y = rng.normal(-0.055 if portable else -0.015, 0.02)
    for side in SIDES:
        wobble = rng.normal(0, 0.010, 4)
        inner, outer = inner_y + wobble[0], outer_y + wobble[1]
        share = np.array([0.0, 0.10, 0.36, 0.66, 0.90, 1.0, 1.03])
        bow = np.array([0.0, -0.004, -0.008 + wobble[2], -0.030 + wobble[3], -0.018, 0.0, 0.006])
        x = np.array([0.085, 0.20, 0.42, 0.66, 0.88, 1.06, 1.20])
        line = curve(np.stack([side * x, (inner + (outer - inner) * share + bow) * patient.lung_height], axis=1))
        along = np.linspace(0, 1, len(line))
        half = 0.026 + 0.020 * np.exp(-((along / 0.12) ** 2)) + 0.010 * ((along - 0.7) / 0.3).clip(0, 1)
        upper, lower = _banks(frame.pixels(line), half * frame.unit)
        ends = np.clip(along / 0.12, 0.25, 1) * np.clip((1 - along) / 0.15, 0, 1) ** 0.6
        ribbon(body, upper, lower, _grey(0.070 * ends))
        for bank, level in ((upper, 0.045), (lower, 0.060)):
            strokes(rims, bank, 0.012 * frame.unit, _grey(level * ends))
    return _attenuation(body, 0.009 * frame.unit) + _attenuation(rims, 0.006 * frame.unit)


def _shoulders(patient: Patient, frame: Frame, bodies: Canvas, rims: Canvas) -> None:
    """Draw both scapulae and both humeri (head and shaft) onto the canvases."""
    rng = patient.stream("shoulders")
    # Hands on the hips and shoulders rolled forward turn the blades off the lungs; a lying patient cannot do that.
    out = rng.uniform(0.0, 0.06) if patient.view == "AP" else rng.uniform(0.10, 0.22)
    lift = rng.normal(0.0, 0.02)
    turn = np.linspace(0, 2 * np.pi, 40)
    width = 0.016 * frame.unit
    for side in SIDES:
        scale = np.array([side, patient.lung_height])
        blade = frame.pixels(curve(np.add(_BLADE, [out, lift]), closed=True) * scale)
        paint(bodies, blade, _level(0.030))
        # The border beside the lung is the most visible one.
        border = np.vstack([blade, blade[:1]])
        strokes(rims, border, width, _grey(0.032 * (0.35 + 0.65 * np.linspace(1, 0, len(border)))))
        ridge = frame.pixels(curve(np.add(_RIDGE, [out, lift])) * scale)
        upper, lower = _banks(ridge, np.full(len(ridge), 0.02 * frame.unit))
        ribbon(bodies, upper, lower, _grey(np.full(len(ridge), 0.06)))
        head = np.stack([1.28 + out + 0.125 * np.cos(turn), 0.11 + lift + 0.085 * np.sin(turn)], axis=1)
        for part in (head, np.add(_SHAFT, [out, lift])):
            outline = frame.pixels(part * scale)
            paint(bodies, outline, _level(0.085))
            _rim(rims, outline, width, _level(0.022))


def _vertebra(centre: float, top: float, height: float, half: float) -> tuple[Points, list[tuple[Points, float]]]:
    """Return the outline of a vertebra's body, and the outlines of its pedicles and spinous process.

    Each pedicle or process comes with its attenuation. Points are (x, y), with y as a fraction.
    """
    turn = np.linspace(0, 2 * np.pi, 20)
    middle, foot, waist = top + height / 2, top + height, 0.92 * half
    left = [(centre - half, top), (centre - waist, middle), (centre - half, foot), (centre, foot - 0.006)]
    right = [(centre + half, foot), (centre + waist, middle), (centre + half, top), (centre, top + 0.006)]
    rings: list[tuple[Points, float]] = []
    for x, y, wide, tall, level in (
        (-0.62 * half, middle, 0.016, 0.017, 0.026),
        (0.62 * half, middle, 0.016, 0.017, 0.026),
        (0.0, middle + 0.030, 0.012, 0.026, 0.030),
    ):
        rings.append((np.stack([centre + x + wide * np.cos(turn), y + tall * np.sin(turn)], axis=1), level))
    return curve(left + right, closed=True, steps=5), rings


def _spine(patient: Patient, frame: Frame, bodies: Canvas, rims: Canvas) -> None:
    """Draw the vertebrae, from the neck to below the diaphragm, onto the canvases."""
    rng = patient.stream("spine")
    bend, phase = rng.normal(0, 0.018), rng.uniform(0, 2 * np.pi)
    strength = float(rng.uniform(0.8, 1.15))
    scale = np.array([1.0, patient.lung_height])
    top, number = -0.46, 0
    while top < 1.7:
        height = 0.058 + 0.0024 * number
        block, rings = _vertebra(bend * np.sin(2.2 * top + phase), top, height, 0.098 + 0.0022 * number)
        paint(bodies, frame.pixels(block * scale), _level(0.034 * strength))
        _rim(rims, frame.pixels(block * scale), 0.011 * frame.unit, _level(0.042 * strength))
        for ring, level in rings:
            _rim(rims, frame.pixels(ring * scale), 0.012 * frame.unit, _level(level * strength))
        top += height + 0.0165
        number += 1


def skeleton(patient: Patient, frame: Frame) -> Field:
    """Return the attenuation of the spine and of the shoulders."""
    bodies, rims = _canvas(frame), _canvas(frame)
    _spine(patient, frame, bodies, rims)
    _shoulders(patient, frame, bodies, rims)
    return _attenuation(bodies, 0.016 * frame.unit) + _attenuation(rims, 0.009 * frame.unit)
