"""The seven findings as fields of added attenuation in the lungs, and their effects on the outlines.

A finding is planned on a small picture of fixed size, so that a phantom has the same lesion at any picture size. Its
field is 0..1 and is multiplied by its density and by the lungs of the full picture.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from chexqa.phantoms.outlines import NO_CHANGE, SIDES, Change, dome_line, draw_outlines, wall_at
from chexqa.phantoms.patient import Frame, Patient
from chexqa.phantoms.raster import Field, Mask, blur, polylines, ramp, smooth_noise, upsample

HALF_PEAK = 0.5
_SMALLEST, _LARGEST = 0.0045, 0.30  # of the picture's area, as planned on the small picture
_TRIES = 60


@dataclass(frozen=True)
class LesionPlan:
    """One lesion: its field on the small picture (None for cardiomegaly), its density and the changed outlines."""

    change: Change
    field: Field | None = None
    density: float = 0.0
    fine: Callable[[Frame], Field] | None = None  # thin details drawn at full size, 0..0.4 of the peak


@dataclass(frozen=True)
class _Canvas:
    """Drawing area of a finding: body coordinates of the small picture and one random stream."""

    patient: Patient
    frame: Frame
    rng: np.random.Generator
    x: Field
    y: Field  # as a fraction of the lung's height

    def side(self) -> int:
        return int(self.rng.choice(SIDES))

    def noise(self, cells: int) -> Field:
        return smooth_noise(self.rng, self.frame.shape, cells)

    def blob(self, x: float, y: float, wide: float, tall: float, ragged: float, angle: float = 0.0) -> Field:
        """Return 1 at the centre, 0 on a ragged ellipse, less outside; ``y`` is a fraction, radii are in body units."""
        dx, dy = self.x - np.float32(x), (self.y - np.float32(y)) * np.float32(self.patient.lung_height)
        c, s = np.float32(np.cos(angle)), np.float32(np.sin(angle))
        reach = np.sqrt(((c * dx + s * dy) / np.float32(wide)) ** 2 + ((c * dy - s * dx) / np.float32(tall)) ** 2)
        cells = int(np.clip(4.0 / max(wide, tall), 5, 40))
        rough = self.noise(cells) + 0.4 * self.noise(2 * cells)
        # Far from the ellipse the roughness fades, so that no stray islands appear.
        return np.asarray(1 - reach + ragged * rough * np.exp(-((reach / 1.25) ** 4)), dtype=np.float32)


def _mottle(canvas: _Canvas, cells: int, depth: float) -> Field:
    """Return uneven filling between ``1 - depth`` and 1; a depth under 0.45 never cuts holes into the mask."""
    return np.asarray(1 - depth * ramp(canvas.noise(cells), -1.1, 1.1), dtype=np.float32)


def _between(rng: np.random.Generator, least: float, most: float) -> float:
    """Draw a size, uniform in its logarithm, since lesions are of all sizes."""
    return float(np.exp(rng.uniform(np.log(least), np.log(most))))


def _place(canvas: _Canvas, side: int, y: float, share: float) -> float:
    """Return the x at height ``y`` (fraction) at ``share`` of the way from the hilum's line to the chest wall."""
    wall = wall_at(canvas.patient, side, y * canvas.patient.lung_height)
    return side * (0.22 + share * (wall - 0.22))


def _opacity(canvas: _Canvas) -> LesionPlan:
    rng = canvas.rng
    field = np.zeros(canvas.frame.shape, np.float32)
    count = int(rng.choice([1, 1, 1, 2, 3]))
    for _ in range(count):
        side, y = canvas.side(), float(rng.uniform(0.14, 0.84))
        size = _between(rng, 0.075, 0.52)
        x = _place(canvas, side, y, float(rng.uniform(0.05, 0.85)))
        blob = canvas.blob(x, y, size * rng.uniform(0.8, 1.3), size * rng.uniform(0.8, 1.3), rng.uniform(0.14, 0.46))
        field = np.maximum(field, ramp(blob, -0.25, rng.uniform(0.25, 0.75)))
    return LesionPlan(NO_CHANGE, field * _mottle(canvas, 40, 0.2), float(rng.uniform(0.14, 0.30)))


def _pneumonia(canvas: _Canvas) -> LesionPlan:
    rng = canvas.rng
    field = np.zeros(canvas.frame.shape, np.float32)
    count = int(rng.choice([1, 1, 2, 3, 4]))
    home = canvas.side()
    for number in range(count):
        side = home if number == 0 or rng.random() < 0.5 else canvas.side()
        y = float(rng.uniform(0.52, 0.90) if rng.random() < 0.65 else rng.uniform(0.15, 0.55))
        size = _between(rng, 0.13, 0.62)
        x = _place(canvas, side, y, float(rng.uniform(0.1, 0.8)))
        blob = canvas.blob(x, y, size * rng.uniform(0.8, 1.25), size * rng.uniform(0.8, 1.25), rng.uniform(0.2, 0.42))
        field = np.maximum(field, ramp(blob, -0.35, 0.50))
    return LesionPlan(NO_CHANGE, field * _mottle(canvas, 32, 0.36), float(rng.uniform(0.20, 0.34)))


def _consolidation(canvas: _Canvas) -> LesionPlan:
    rng, patient = canvas.rng, canvas.patient
    field = np.zeros(canvas.frame.shape, np.float32)
    sides = SIDES if rng.random() < 0.3 else (canvas.side(),)
    roots: list[tuple[int, float, float, float]] = []
    for side in sides:
        kind = rng.choice(["segment", "upper", "lower"])
        if kind == "segment":
            y, share, size = rng.uniform(0.2, 0.85), rng.uniform(0.1, 0.8), _between(rng, 0.15, 0.7)
            part = ramp(
                canvas.blob(
                    _place(canvas, side, y, share), y, size, size * rng.uniform(0.7, 1.2), rng.uniform(0.18, 0.4)
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
    field = field * _mottle(canvas, 18, 0.22) * (1 - 0.28 * _bronchogram(patient, canvas.frame, roots))
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


def _edema(canvas: _Canvas) -> LesionPlan:
    rng = canvas.rng
    field = np.zeros(canvas.frame.shape, np.float32)
    wide, tall = _between(rng, 0.22, 0.75), _between(rng, 0.26, 1.0)
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

    return LesionPlan(NO_CHANGE, field * _mottle(canvas, 34, 0.30), density, septa)


def _septa(patient: Patient, frame: Frame, rng: np.random.Generator) -> Field:
    """Return short level lines at the lower chest wall (thickened septa), up to 0.4 of the peak."""
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


def _effusion(canvas: _Canvas) -> LesionPlan:
    rng, patient = canvas.rng, canvas.patient
    field = np.zeros(canvas.frame.shape, np.float32)
    sides = SIDES if rng.random() < 0.38 else (canvas.side(),)
    grade = float(rng.uniform(0, 1))
    for side in sides:
        amount = float(np.clip(grade + (rng.normal(0, 0.25) if len(sides) == 2 else 0.0), 0.0, 1.0))
        # From a blunted angle to fluid above the middle of the lung.
        level = 1.0 - patient.dome[0 if side < 0 else 1] * 0.55 - 0.90 * amount**1.5
        climb = float(rng.uniform(0.14, 0.24))
        across = np.clip((side * canvas.x - 0.2) / 0.8, 0, 1.1)
        # A small effusion gathers at the side only; the surface of a large one is nearly level towards the spine.
        dip = 0.035 + 0.30 * max(0.0, 0.35 - amount)
        surface = level - climb * across**4 + dip * (1 - across) + 0.010 * canvas.noise(8)
        field = np.maximum(field, ramp(canvas.y - surface.astype(np.float32), -0.045, 0.075) * (side * canvas.x > 0))
    return LesionPlan(NO_CHANGE, field * _mottle(canvas, 8, 0.12), float(rng.uniform(0.38, 0.45)))


def _atelectasis(canvas: _Canvas) -> LesionPlan:
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
            long, thin = _between(rng, 0.22, 0.60), _between(rng, 0.045, 0.15)
            angle = side * float(rng.normal(0.15, 0.25))
            blob = canvas.blob(_place(canvas, side, y, share), y, long, thin, 0.16, angle)
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
    field = field * (lateral > 0) * _mottle(canvas, 20, 0.2)
    return LesionPlan(change, np.asarray(field, dtype=np.float32), density)


def _cardiomegaly(canvas: _Canvas) -> LesionPlan:
    return LesionPlan(Change(ctr=float(canvas.rng.uniform(0.54, 0.72))))


_DRAW: dict[str, Callable[[_Canvas], LesionPlan]] = {
    "atelectasis": _atelectasis,
    "cardiomegaly": _cardiomegaly,
    "consolidation": _consolidation,
    "edema": _edema,
    "effusion": _effusion,
    "opacity": _opacity,
    "pneumonia": _pneumonia,
}


def plan_lesion(patient: Patient, small: Frame, finding: str) -> LesionPlan:
    """Plan the lesion of ``finding`` in this patient, again until it is neither too small nor too large."""
    x, y = small.grid()
    height = y / np.float32(patient.lung_height)
    for attempt in range(_TRIES):
        plan = _DRAW[finding](_Canvas(patient, small, patient.stream("lesion", finding, attempt), x, height))
        if plan.field is None:
            return plan
        outlines = draw_outlines(patient, small, plan.change)
        share = float(half_peak(plan.field * (outlines.lungs[-1] | outlines.lungs[1])).mean())
        if _SMALLEST <= share <= _LARGEST:
            return plan
    raise AssertionError(f"no acceptable {finding} in {_TRIES} tries: phantom {patient.index} of seed {patient.seed}")


def added_signal(plan: LesionPlan, room: Field, frame: Frame) -> Field | None:
    """Return the attenuation (float32 (H, W)) that the planned lesion adds to the body; None for cardiomegaly.

    ``room`` (H, W) is how much air a lesion can replace, 0..1.
    """
    if plan.field is None:
        return None
    signal = upsample(plan.field, frame.shape)
    if plan.fine is not None:
        signal = np.maximum(signal, plan.fine(frame))
    return np.asarray(np.float32(plan.density) * signal * room, dtype=np.float32)


def half_peak(signal: Field) -> Mask:
    """Return the mask where ``signal`` exceeds half its peak, the rule for every lesion mask."""
    return np.asarray(signal > np.float32(HALF_PEAK) * signal.max(), dtype=np.bool_)
