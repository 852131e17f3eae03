"""Findings as fields of added attenuation in the lungs, and their effects on the outlines.

A finding is planned on a small picture of fixed size, so that a phantom has the same lesion at any picture size. The
finding's field has values 0..1. It is multiplied by the finding's density and by the lungs of the full picture.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from chexqa.phantoms.grid_lesions import air_edge, enlarged_cardiomediastinum, lung_lesion, pneumothorax
from chexqa.phantoms.lesion_plan import Canvas, LesionPlan, between, half_peak, mottle, place
from chexqa.phantoms.outlines import NO_CHANGE, SIDES, Change, dome_line, draw_outlines, wall_at
from chexqa.phantoms.patient import Frame, Patient
from chexqa.phantoms.raster import Field, blur, polylines, ramp, upsample

_SMALLEST, _LARGEST = 0.0045, 0.30  # smallest and largest share of the small picture's area
_TINY = {"lung_lesion": 0.0011}  # smallest share for the findings that may be smaller
_TRIES = 60


def _opacity(canvas: Canvas) -> LesionPlan:
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


def _pneumonia(canvas: Canvas) -> LesionPlan:
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


def _consolidation(canvas: Canvas) -> LesionPlan:
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
    """Return air-filled bronchi (0..1) that fan out from each root (side, y as fraction, heading, reach)."""
    canvas = np.zeros(frame.shape, np.uint8)
    for side, y, heading, reach in roots:
        for fan in (-0.45, 0.0, 0.4):
            along = np.linspace(0, 1, 8)
            angle = heading + fan * along
            x = 0.24 + reach * 1.3 * along * np.cos(angle)
            line = np.stack([side * x, y * patient.lung_height + reach * 1.3 * along * np.sin(angle)], axis=1)
            polylines(canvas, frame.pixels(line)[None], 0.030 * frame.unit, 255.0)
    return blur(canvas.astype(np.float32) / np.float32(255), 0.010 * frame.unit)


def _edema(canvas: Canvas) -> LesionPlan:
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
    """Return short horizontal lines at the lower chest wall (thickened septa), up to 0.4 of the peak."""
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


def _effusion(canvas: Canvas) -> LesionPlan:
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


def _atelectasis(canvas: Canvas) -> LesionPlan:
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


def _cardiomegaly(canvas: Canvas) -> LesionPlan:
    return LesionPlan(Change(ctr=float(canvas.rng.uniform(0.54, 0.72))))


_DRAW: dict[str, Callable[[Canvas], LesionPlan]] = {
    "atelectasis": _atelectasis,
    "cardiomegaly": _cardiomegaly,
    "consolidation": _consolidation,
    "edema": _edema,
    "effusion": _effusion,
    "opacity": _opacity,
    "pneumonia": _pneumonia,
    "enlarged_cardiomediastinum": enlarged_cardiomediastinum,
    "lung_lesion": lung_lesion,
    "pneumothorax": pneumothorax,
}


def plan_lesion(patient: Patient, small: Frame, finding: str) -> LesionPlan:
    """Plan the lesion of ``finding`` in this patient; repeat until it is neither too small nor too large."""
    x, y = small.grid()
    height = y / np.float32(patient.lung_height)
    for attempt in range(_TRIES):
        plan = _DRAW[finding](Canvas(patient, small, patient.stream("lesion", finding, attempt), x, height))
        if plan.field is None:
            return plan
        outlines = draw_outlines(patient, small, plan.change)
        share = float(half_peak(plan.field * (outlines.lungs[-1] | outlines.lungs[1])).mean())
        if _TINY.get(finding, _SMALLEST) <= share <= _LARGEST:
            return plan
    raise AssertionError(f"no acceptable {finding} in {_TRIES} tries: phantom {patient.index} of seed {patient.seed}")


def added_signal(plan: LesionPlan, room: Field, frame: Frame) -> Field | None:
    """Return the attenuation (float32 (H, W)) that the planned lesion adds to the body; None if only outlines change.

    For a pneumothorax it is the attenuation removed. ``room`` (H, W), 0..1, is the share of air that a lesion can
    replace.
    """
    if plan.field is None:
        return None
    if plan.pleural is not None:
        signal, _ = air_edge(upsample(plan.pleural.depth, frame.shape))
    else:
        signal = upsample(plan.field, frame.shape)
    if plan.fine is not None:
        signal = np.maximum(signal, plan.fine(frame))
    return np.asarray(np.float32(plan.density) * signal * room, dtype=np.float32)


def collapsed(plan: LesionPlan, room: Field, frame: Frame) -> tuple[Field, Field] | None:
    """Return two fields of a pneumothorax: air that hides vessels (0..1), and attenuation of pleura and denser lung.

    Return None for every other finding.
    """
    if plan.pleural is None:
        return None
    air, line = air_edge(upsample(plan.pleural.depth, frame.shape))
    dense = upsample(plan.pleural.denser, frame.shape) + np.float32(0.045) * line
    return air, np.asarray(dense * room, dtype=np.float32)
