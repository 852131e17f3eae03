"""Findings that only the grid task asks about: wide mediastinum, nodules and masses, pneumothorax."""

from __future__ import annotations

import numpy as np

from chexqa.phantoms.lesion_plan import Canvas, LesionPlan, PleuralAir, between, place
from chexqa.phantoms.outlines import NO_CHANGE, Change, Widening, cage_of
from chexqa.phantoms.raster import Field, Mask, blur, depth_inside, ramp

_EDGE = 0.006  # width of the soft border of pleural air, in body units


def enlarged_cardiomediastinum(canvas: Canvas) -> LesionPlan:
    """Plan a mediastinum widened above the heart: on both sides, on the right, or on the left by a wide aorta."""
    rng = canvas.rng
    kind = rng.choice(["both", "both", "aorta", "right"])
    amount = float(rng.uniform(0.14, 0.28))
    share = {"both": float(rng.uniform(0.35, 0.65)), "aorta": float(rng.uniform(0.1, 0.3)), "right": 0.8}[str(kind)]
    centre = float(rng.uniform(0.20, 0.34))
    widening = Widening(
        right=1.4 * amount * share,
        left=1.4 * amount * (1 - share),
        centre=centre,
        reach=float(rng.uniform(0.75, 1.15)) * (centre + 0.06),
        waves=tuple(rng.normal(0, 0.07, 4).tolist()),
    )
    return LesionPlan(Change(widening=widening))


def lung_lesion(canvas: Canvas) -> LesionPlan:
    """Plan one or several round lesions, from a nodule to a mass, each with the thickness profile of a ball."""
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


def pneumothorax(canvas: Canvas) -> LesionPlan:
    """Plan air between chest wall and lung.

    The air is a rim at apex and side, surrounds a lung collapsed to its hilum, or lies below the lung.
    """
    rng, patient = canvas.rng, canvas.patient
    side = canvas.side()
    mine = np.asarray(side * canvas.x > 0, dtype=np.bool_)
    inward = _from_wall(canvas, side)
    kind = rng.choice(["rim", "rim", "rim", "fallen", "base" if patient.view == "AP" else "rim"])
    share = np.float32(0)
    if kind == "fallen":
        # The collapsed lung hangs on the hilum; its outer border bulges.
        share = np.float32(rng.uniform(0.25, 0.6))
        wide, tall = float(0.78 - 0.55 * share), float(0.85 - 0.45 * share)
        rest = canvas.blob(side * 0.16, float(rng.uniform(0.48, 0.58)), wide, tall, 0.06)
        depth = -rest * np.float32(min(wide, tall))
    else:
        gap = between(rng, 0.09, 0.42)
        if kind == "rim":
            along = np.clip(1 - canvas.y / np.float32(rng.uniform(0.55, 1.15)), 0, 1.1)
        else:
            along = np.clip((canvas.y - np.float32(rng.uniform(0.25, 0.6))) / np.float32(0.55), 0, 1)
        # The lung touches the wall again at the end of the air.
        width = np.float32(gap) * along ** np.float32(rng.uniform(0.45, 0.8))
        depth = width * (1 + 0.06 * canvas.noise(7)) - inward - np.float32(0.02) * (along <= 0)
    depth = blur(np.asarray(np.where(mine, depth, np.float32(-0.2)), dtype=np.float32), 0.8)
    field = ramp(depth, -_EDGE, _EDGE)
    denser = np.asarray(np.float32(0.02 + 0.22 * share) * (mine * (1 - field)), dtype=np.float32)
    if kind != "fallen":
        denser = np.zeros_like(denser)
    return LesionPlan(NO_CHANGE, field, float(rng.uniform(0.075, 0.115)), pleural=PleuralAir(depth, denser))


def _from_wall(canvas: Canvas, side: int) -> Field:
    """Return each pixel's distance from the chest wall of one side, in body units.

    The midline does not count as wall.
    """
    inside: Mask = cage_of(canvas.patient, canvas.frame, side) > 0.5
    inside = inside | (side * canvas.x <= 0) & (canvas.y > 0.10)
    # Smoothing rounds off the ridge between apex and side, as on a lung's border.
    return blur(depth_inside(np.asarray(inside, dtype=np.bool_)), 4.0) / np.float32(canvas.frame.unit)


def air_edge(depth: Field) -> tuple[Field, Field]:
    """Return pleural air and the line of the pleura at the lung's border, each 0..1, from ``depth`` (body units)."""
    air = ramp(depth, -_EDGE, _EDGE)
    line = np.exp(-(((depth + np.float32(_EDGE)) / np.float32(0.0065)) ** 2))
    return air, np.asarray(line, dtype=np.float32)
