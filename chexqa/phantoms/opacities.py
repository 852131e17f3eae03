"""Findings that make the lung denser: opacity, pneumonia, consolidation, edema, effusion, atelectasis, nodules.

A finding is first drawn on a small picture of fixed size, as values 0..1 (its plan), so that a phantom has the same
lesion at any picture size. Later the plan is enlarged, multiplied by the finding's density, and limited to the lungs of
the full picture.
"""

from __future__ import annotations

import numpy as np

from chexqa.phantoms.body import Frame, Patient
from chexqa.phantoms.lesion_plan import Canvas, LesionPlan, between, mottle, place
from chexqa.phantoms.outlines import NO_CHANGE, SIDES, Change, dome_line, wall_at
from chexqa.phantoms.raster import Field, blur, polylines, ramp


def opacity(canvas: Canvas) -> LesionPlan:
    """Plan one to three dense areas anywhere in the lungs."""
    rng = canvas.rng
    field = np.zeros(canvas.frame.shape, np.float32)
    count = int(rng.choice([1, 1, 1, 2, 3]))
    for _ in range(count):
        side, y = canvas.side(), float(rng.uniform(0.14, 0.84))
        size = between(rng, 0.075, 0.52)
        x = place(canvas, side, y, float(rng.uniform(0.05, 0.85)))
        blob = canvas.blob(x, y, size * rng.uniform(0.8, 1.3), size * rng.uniform(0.8, 1.3), rng.uniform(0.14, 0.46))
        field = np.maximum(field, ramp(blob, -0.25, rng.uniform(0.25, 0.75)))
    return LesionPlan(NO_CHANGE, field * mottle(canvas, 40, 0.2), float(rng.uniform(0.14, 0.30)))


def pneumonia(canvas: Canvas) -> LesionPlan:
    """Plan one to four mottled dense areas, most of them in the lower lungs."""
    rng = canvas.rng
    field = np.zeros(canvas.frame.shape, np.float32)
    count = int(rng.choice([1, 1, 2, 3, 4]))
    home = canvas.side()
    for number in range(count):
        side = home if number == 0 or rng.random() < 0.5 else canvas.side()
        y = float(rng.uniform(0.52, 0.90) if rng.random() < 0.65 else rng.uniform(0.15, 0.55))
        size = between(rng, 0.13, 0.62)
        x = place(canvas, side, y, float(rng.uniform(0.1, 0.8)))
        blob = canvas.blob(x, y, size * rng.uniform(0.8, 1.25), size * rng.uniform(0.8, 1.25), rng.uniform(0.2, 0.42))
        field = np.maximum(field, ramp(blob, -0.35, 0.50))
    return LesionPlan(NO_CHANGE, field * mottle(canvas, 32, 0.36), float(rng.uniform(0.20, 0.34)))


def consolidation(canvas: Canvas) -> LesionPlan:
    """Plan a dense segment or lobe on one or both sides, with air-filled bronchi in it."""
    rng, patient = canvas.rng, canvas.patient
    field = np.zeros(canvas.frame.shape, np.float32)
    sides = SIDES if rng.random() < 0.3 else (canvas.side(),)
    roots: list[tuple[int, float, float, float]] = []
    for side in sides:
        kind = rng.choice(["segment", "upper", "lower"])
        if kind == "segment":
            y, share, size = rng.uniform(0.2, 0.85), rng.uniform(0.1, 0.8), between(rng, 0.15, 0.7)
            part = ramp(
                canvas.blob(
                    place(canvas, side, y, share), y, size, size * rng.uniform(0.7, 1.2), rng.uniform(0.18, 0.4)
                ),
                -0.2,
                0.4,
            )
        else:
            # Lobes end at a fissure, a rather sharp, slightly tilted border.
            upper = kind == "upper"
            y = float(rng.uniform(0.30, 0.75) if upper else rng.uniform(0.16, 0.76))
            tilt = float(rng.uniform(-0.10, 0.06) if upper else rng.uniform(-0.05, 0.20))
            beyond = (canvas.y - np.float32(y) - np.float32(tilt) * (np.abs(canvas.x) - 0.5)) * (-1 if upper else 1)
            part = ramp(beyond + 0.020 * canvas.noise(9), -0.03, rng.uniform(0.04, 0.11))
            inner = float(rng.uniform(-0.3, 0.35))
            part = part * ramp(side * canvas.x + 0.25 * (canvas.y - 0.5) + 0.07 * canvas.noise(7), inner, inner + 0.35)
        field = np.maximum(field, part * (side * canvas.x > 0))
        roots.append(
            (side, float(rng.uniform(0.36, 0.56)), float(rng.uniform(-0.7, 1.1)), float(rng.uniform(0.2, 0.4)))
        )
    density = float(rng.uniform(0.28, 0.39))
    field = field * mottle(canvas, 18, 0.22) * (1 - 0.28 * _bronchogram(patient, canvas.frame, roots))
    return LesionPlan(NO_CHANGE, np.asarray(field, dtype=np.float32), density)


def _bronchogram(patient: Patient, frame: Frame, roots: list[tuple[int, float, float, float]]) -> Field:
    """Return a field 0..1 of air-filled bronchi that fan out from ``roots``.

    A root has a side, a height (fraction), a heading and a reach.
    """
    canvas = np.zeros(frame.shape, np.uint8)
    for side, y, heading, reach in roots:
        for fan in (-0.45, 0.0, 0.4):
            along = np.linspace(0, 1, 8)
            angle = heading + fan * along
            x = 0.24 + reach * 1.3 * along * np.cos(angle)
            line = np.stack([side * x, y * patient.lung_height + reach * 1.3 * along * np.sin(angle)], axis=1)
            polylines(canvas, frame.pixels(line)[None], 0.030 * frame.unit, 255.0)
    return blur(canvas.astype(np.float32) / np.float32(255), 0.010 * frame.unit)


def edema(canvas: Canvas) -> LesionPlan:
    """Plan a haze around both hila, and short lines at the lower chest wall."""
    rng = canvas.rng
    field = np.zeros(canvas.frame.shape, np.float32)
    wide, tall = between(rng, 0.22, 0.75), between(rng, 0.26, 1.0)
    level = float(rng.uniform(0.46, 0.60))
    for side in SIDES:
        uneven = rng.uniform(0.8, 1.15, 2)
        blob = canvas.blob(
            side * (0.30 + 0.25 * wide), level, wide * uneven[0], tall * uneven[1], rng.uniform(0.15, 0.32)
        )
        field = np.maximum(field, ramp(blob, -0.30, 0.40) * (side * canvas.x > 0))
    density = float(rng.uniform(0.18, 0.30))
    lines = canvas.patient.stream("edema", "septa").integers(1 << 31)

    def septa(frame: Frame) -> Field:
        return _septa(canvas.patient, frame, np.random.Generator(np.random.PCG64(int(lines))))

    return LesionPlan(NO_CHANGE, field * mottle(canvas, 34, 0.30), density, septa)


def _septa(patient: Patient, frame: Frame, rng: np.random.Generator) -> Field:
    """Return short horizontal lines at the lower chest wall (thickened septa), with values up to 0.4."""
    canvas = np.zeros(frame.shape, np.uint8)
    for side in SIDES:
        for y in np.arange(0.60, 0.90, 0.017):
            if rng.random() < 0.5:
                continue
            wall = wall_at(patient, side, y * patient.lung_height) - 0.012
            inner = wall - rng.uniform(0.03, 0.11)
            line = np.array([[side * wall, y + rng.normal(0, 0.005)], [side * inner, y + rng.normal(0, 0.006)]])
            polylines(canvas, frame.pixels(line * [1, patient.lung_height])[None], 0.006 * frame.unit, 140.0)
    return blur(canvas.astype(np.float32) / np.float32(255), 0.004 * frame.unit) * np.float32(0.4)


def effusion(canvas: Canvas) -> LesionPlan:
    """Plan fluid above the diaphragm on one or both sides; its surface is higher at the chest wall."""
    rng, patient = canvas.rng, canvas.patient
    field = np.zeros(canvas.frame.shape, np.float32)
    sides = SIDES if rng.random() < 0.38 else (canvas.side(),)
    grade = float(rng.uniform(0, 1))
    for side in sides:
        amount = float(np.clip(grade + (rng.normal(0, 0.25) if len(sides) == 2 else 0.0), 0.0, 1.0))
        # The surface lies anywhere from the costophrenic angle to above the middle of the lung.
        level = 1.0 - patient.dome[0 if side < 0 else 1] * 0.55 - 0.90 * amount**1.5
        climb = float(rng.uniform(0.14, 0.24))
        across = np.clip((side * canvas.x - 0.2) / 0.8, 0, 1.1)
        # A small effusion gathers at the side only; the surface of a large one is nearly level towards the spine.
        dip = 0.035 + 0.30 * max(0.0, 0.35 - amount)
        surface = level - climb * across**4 + dip * (1 - across) + 0.010 * canvas.noise(8)
        field = np.maximum(field, ramp(canvas.y - surface.astype(np.float32), -0.045, 0.075) * (side * canvas.x > 0))
    return LesionPlan(NO_CHANGE, field * mottle(canvas, 8, 0.12), float(rng.uniform(0.38, 0.45)))


def atelectasis(canvas: Canvas) -> LesionPlan:
    """Plan collapsed lung on one side (a band, a wedge or the upper lobe) and a raised diaphragm."""
    rng, patient = canvas.rng, canvas.patient
    side = canvas.side()
    kind = rng.choice(["band", "band", "wedge", "top"])
    raised = float(rng.uniform(0.035, 0.10))
    change = Change(raised=(raised, 0.0) if side < 0 else (0.0, raised))
    lateral = side * canvas.x
    if kind == "band":
        field = np.zeros(canvas.frame.shape, np.float32)
        for _ in range(int(rng.choice([1, 1, 2]))):
            y, share = float(rng.uniform(0.48, 0.80)), float(rng.uniform(0.25, 0.65))
            long, thin = between(rng, 0.22, 0.60), between(rng, 0.045, 0.15)
            angle = side * float(rng.normal(0.15, 0.25))
            blob = canvas.blob(place(canvas, side, y, share), y, long, thin, 0.16, angle)
            field = np.maximum(field, ramp(blob, -0.1, 0.5))
        density = float(rng.uniform(0.17, 0.30))
    elif kind == "top":
        # The upper lobe shrinks upwards and inwards under a lifted, hollow fissure.
        edge = (
            rng.uniform(0.20, 0.58)
            + 0.10 * np.clip(lateral, 0, 1) ** 2
            - rng.uniform(0.10, 0.28) * np.clip(lateral - 0.15, 0, 1)
        )
        field = ramp(edge.astype(np.float32) - canvas.y + 0.006 * canvas.noise(12), -0.012, 0.035)
        density = float(rng.uniform(0.26, 0.38))
        change = Change(raised=(0.6 * raised, 0.0) if side < 0 else (0.0, 0.6 * raised))
    else:
        # The lower lobe shrinks to a triangle beside the spine, its long side the displaced fissure.
        dome = dome_line(patient, side, raised)[:, 1].min() / patient.lung_height
        top, foot = float(rng.uniform(0.28, 0.60)), float(rng.uniform(0.45, 1.1))
        slope = (canvas.y - np.float32(top)) / np.float32(dome + 0.06 - top)
        field = ramp(foot * np.clip(slope, 0, 1.2) ** 0.8 - lateral + 0.15 + 0.02 * canvas.noise(12), -0.03, 0.06)
        field = field * ramp(slope, 0.0, 0.08)
        density = float(rng.uniform(0.26, 0.36))
    field = field * (lateral > 0) * mottle(canvas, 20, 0.2)
    return LesionPlan(change, np.asarray(field, dtype=np.float32), density)


def lung_lesion(canvas: Canvas) -> LesionPlan:
    """Plan one or several round lesions (nodules or masses) in the form of a ball, thickest in the middle."""
    rng = canvas.rng
    field = np.zeros(canvas.frame.shape, np.float32)
    count = int(rng.choice([1, 1, 1, 1, 2, 3, 5]))
    for _ in range(count):
        side, y = canvas.side(), float(rng.uniform(0.13, 0.80))
        size = between(rng, 0.055, 0.30 if count == 1 else 0.14)
        x = place(canvas, side, y, float(rng.uniform(0.12, 0.82)))
        round_ = rng.uniform(0.85, 1.18)
        blob = canvas.blob(x, y, size * round_, size / round_, float(rng.uniform(0.03, 0.20)), rng.uniform(0, np.pi))
        ball = np.sqrt(np.clip(1 - np.clip(1 - blob, 0, None) ** 2, 0, 1))
        field = np.maximum(field, ball * (side * canvas.x > 0))
    soft = blur(np.asarray(field, dtype=np.float32), float(rng.uniform(0.5, 0.9)))
    return LesionPlan(NO_CHANGE, soft, float(rng.uniform(0.20, 0.36)))
