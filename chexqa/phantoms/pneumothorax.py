"""Plan and parts of a pneumothorax: the place and darkness of its air, the line of the pleura, the collapsed lung."""

from __future__ import annotations

import numpy as np

from chexqa.phantoms.body import Frame
from chexqa.phantoms.lesion_plan import Canvas, LesionPlan, PleuralAir, between
from chexqa.phantoms.outlines import NO_CHANGE, cage_of
from chexqa.phantoms.raster import Field, Mask, blur, depth_inside, ramp, upsample

_EDGE = 0.006  # width of the soft border of pleural air, in body units


def pneumothorax(canvas: Canvas) -> LesionPlan:
    """Plan air between chest wall and lung.

    The air is a rim at the apex and the side of the lung, or surrounds a lung that has collapsed to its hilum, or lies
    below the lung.
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
    """Return each pixel's distance from the chest wall of one side, in body units; the midline is no wall."""
    inside: Mask = cage_of(canvas.patient, canvas.frame, side) > 0.5
    inside = inside | (side * canvas.x <= 0) & (canvas.y > 0.10)
    # Smoothing rounds off the ridge between apex and side, as on a lung's border.
    return blur(depth_inside(np.asarray(inside, dtype=np.bool_)), 4.0) / np.float32(canvas.frame.unit)


def air_edge(depth: Field) -> tuple[Field, Field]:
    """Return two fields 0..1: the pleural air, and the visible line of the pleura.

    ``depth`` is each pixel's depth in the air, in body units: 0 at the border of the collapsed lung, negative in the
    lung.
    """
    air = ramp(depth, -_EDGE, _EDGE)
    line = np.exp(-(((depth + np.float32(_EDGE)) / np.float32(0.0065)) ** 2))
    return air, np.asarray(line, dtype=np.float32)


def collapsed(plan: LesionPlan, room: Field, frame: Frame) -> tuple[Field, Field] | None:
    """Return two fields ``(H, W)`` of a pneumothorax, or None for any other finding.

    The first field is the pleural air (0..1), in which no vessels are drawn. The second is the attenuation added by the
    pleura and by the denser lung.
    """
    if plan.pleural is None:
        return None
    air, line = air_edge(upsample(plan.pleural.depth, frame.shape))
    dense = upsample(plan.pleural.denser, frame.shape) + np.float32(0.045) * line
    return air, np.asarray(dense * room, dtype=np.float32)
