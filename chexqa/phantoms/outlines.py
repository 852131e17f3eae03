"""Outlines of the thorax in body coordinates, and the masks cut from them: lungs, heart, mediastinum, diaphragm."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from chexqa.phantoms.body import Frame, Patient
from chexqa.phantoms.raster import Field, Mask, Points, curve, fill

SIDES = (-1, 1)  # the right lung lies at negative x, the left one at positive x
LUNGS = {-1: "right_lung", 1: "left_lung"}

# Inner chest wall of one side as (x, fraction), from the medial apex to below the costophrenic angle.
_CAGE = [
    (0.13, 0.115),
    (0.185, 0.04),
    (0.31, 0.0),
    (0.46, 0.012),
    (0.61, 0.073),
    (0.72, 0.16),
    (0.81, 0.28),
    (0.88, 0.41),
    (0.932, 0.55),
    (0.972, 0.70),
    (0.997, 0.86),
    (1.0, 1.0),
    (0.985, 1.12),
]

_WAVE = 0.05  # size of the waves in an uneven outline, as a share of its radius


@dataclass(frozen=True)
class Widening:
    """Widening of the mediastinum.

    - ``right``, ``left``: the largest widening on each side, in body units.
    - ``centre``: the height at which the widening is largest, as a fraction of the lung's height.
    - ``reach``: the extent of the widening upwards and downwards from the centre, also as a fraction of the lung's
      height.
    - ``waves``: the unevenness of the border.
    """

    right: float
    left: float
    centre: float
    reach: float
    waves: tuple[float, ...]


@dataclass(frozen=True)
class Change:
    """Effect of a finding on the outlines: another cardiothoracic ratio, a raised diaphragm or a wider mediastinum."""

    ctr: float | None = None
    raised: tuple[float, float] = (0.0, 0.0)  # raise of the right and left diaphragm (fraction)
    widening: Widening | None = None


NO_CHANGE = Change()


def enlarged_heart(rng: np.random.Generator) -> Change:
    """Choose at random the cardiothoracic ratio of a cardiomegaly."""
    return Change(ctr=float(rng.uniform(0.54, 0.72)))


def widened_mediastinum(rng: np.random.Generator) -> Change:
    """Choose at random a widening of the mediastinum above the heart.

    The widening is on both sides, mainly on the right, or mainly on the left (a wide aorta).
    """
    kind = rng.choice(["both", "both", "aorta", "right"])
    amount = float(rng.uniform(0.14, 0.28))
    share = {"both": float(rng.uniform(0.35, 0.65)), "aorta": float(rng.uniform(0.1, 0.3)), "right": 0.8}[str(kind)]
    centre = float(rng.uniform(0.20, 0.34))
    return Change(
        widening=Widening(
            right=1.4 * amount * share,
            left=1.4 * amount * (1 - share),
            centre=centre,
            reach=float(rng.uniform(0.75, 1.15)) * (centre + 0.06),
            waves=tuple(rng.normal(0, 0.07, 4).tolist()),
        )
    )


@dataclass(frozen=True)
class Outlines:
    """Outlines of one body in one picture, as coverage fields (float32 (H, W), 0..1) and as masks (bool (H, W))."""

    cage: dict[int, Field]
    abdomen: Field
    heart_cover: Field
    mediastinum: Field
    lungs: dict[int, Mask]
    heart: Mask
    ctr: float


def cage_wall(patient: Patient, side: int) -> Points:
    """Return the line (N, 2) of the inner chest wall on one side, in body coordinates, from the apex downwards."""
    knots = np.array(_CAGE)
    bulge = patient.bulge[:6] if side < 0 else patient.bulge[6:]
    knots[:, 0] *= 1 + np.interp(knots[:, 1], np.linspace(0, 1.1, 6), bulge) * np.minimum(
        1, 3 * (1 - knots[:, 1]) + 0.2
    )
    knots[:, 0] *= side
    knots[:, 1] *= patient.lung_height
    return curve(knots)


def cage_of(patient: Patient, frame: Frame, side: int) -> Field:
    """Return a field ``(H, W)`` that is 1 inside one half of the chest and 0 outside."""
    wall = cage_wall(patient, side)
    medial = np.array([[0.0, wall[-1, 1]], [0.0, wall[0, 1]]])
    return fill(frame.shape, frame.pixels(np.vstack([wall, medial])))


def wall_at(patient: Patient, side: int, y: float) -> float:
    """Return the distance of the inner chest wall from the midline at height ``y``, both in body units."""
    wall = cage_wall(patient, side)
    return float(np.interp(y, wall[10:, 1], np.abs(wall[10:, 0])))


def dome_line(patient: Patient, side: int, raised: float = 0.0) -> Points:
    """Return the line (N, 2) of the diaphragm on one side, in body coordinates.

    The line begins beyond the midline and ends beyond the chest wall. ``raised`` moves it upwards.
    """
    which = 0 if side < 0 else 1
    height, peak = patient.dome[which] + raised, patient.dome_peak[which]
    x = np.concatenate([np.linspace(-0.15, 0.8, 30), np.linspace(0.81, 1.2, 40)])
    outer = np.clip((x - peak) / (1.0 - peak), 0, 1)
    inner = np.clip((peak - x) / peak, 0, None)
    lift = np.where(x > peak, (1 - outer**2) ** 0.8, 1 - 0.22 * inner**2)
    # A raised diaphragm slightly raises the outer sulcus too.
    y = 1.0 - height * lift - 0.15 * raised
    # Both domes meet behind the heart, where the diaphragm's centre is fixed.
    centre = 1.0 - 0.72 * (patient.dome[0] + patient.dome[1]) / 2
    y += (centre - y) * np.clip(1 - x / 0.22, 0, 1) ** 2
    return np.stack([side * x, y * patient.lung_height], axis=1)


def heart_outline(patient: Patient, ctr: float) -> Points:
    """Return the heart's outline (N, 2) in body coordinates; it is ``ctr`` times as wide as the inner thorax."""
    width = 2.0 * ctr
    left, right = width * patient.heart_left, width * (1 - patient.heart_left)
    enlarged = max(0.0, ctr - 0.48)
    top = patient.heart_top
    dome = patient.dome[1]
    base = 1.0 - dome + 0.045
    span = base - top
    knots = [
        (-0.45 * right, top + 0.05 * span),
        (-0.80 * right, top + 0.28 * span),
        (-1.00 * right, top + 0.56 * span),
        (-0.95 * right, top + 0.78 * span),
        (-0.66 * right, top + 0.93 * span),
        (0.05 * left, base + 0.012),
        (0.50 * left, base + 0.025),
        (0.84 * left, base + 0.012 - 0.02 * enlarged),
        (0.985 * left, base - 0.085),
        (0.975 * left, base - 0.16 - 0.1 * enlarged),
        (0.84 * left, top + (0.56 - 0.3 * enlarged) * span),
        (0.64 * left, top + (0.32 - 0.2 * enlarged) * span),
        (0.45 * left, top + 0.12 * span),
        (0.25 * left, top + 0.01 * span),
    ]
    outline = _uneven(curve(knots, closed=True), patient)
    outline[:, 0] *= width / np.ptp(outline[:, 0])
    outline[:, 1] *= patient.lung_height
    return outline


def _uneven(outline: Points, patient: Patient) -> Points:
    """Return a closed outline with a few shallow waves, like those of fat pads, heart chambers and vessels."""
    rng = patient.stream("heart", "waves")
    along = np.linspace(0, 2 * np.pi, len(outline), endpoint=False)[:, None]
    waves = np.arange(3, 10)
    height = rng.normal(0, _WAVE, len(waves)) / np.sqrt(waves)
    swell = (height * np.cos(along * waves + rng.uniform(0, 2 * np.pi, len(waves)))).sum(axis=1)
    middle = outline.mean(axis=0)
    return np.asarray(middle + (outline - middle) * (1 + swell)[:, None])


def mediastinum_outline(patient: Patient, widening: Widening | None = None) -> Points:
    """Return the outline (N, 2) of the mediastinum, in body coordinates.

    It encloses great vessels, aortic knob, hilar roots and paraspinal tissue.
    """
    knob = 0.035 + 0.06 * patient.aorta
    arch = 0.245 - 0.03 * patient.aorta
    right = [
        (-0.13, -0.12),
        (-0.15, 0.02),
        (-0.175, 0.13),
        (-0.195, 0.25),
        (-0.20, 0.34),
        (-0.245, 0.42),
        (-0.27, 0.48),
        (-0.22, 0.56),
        (-0.17, 0.68),
        (-0.16, 1.0),
    ]
    left = [
        (0.17, 1.0),
        (0.175, 0.68),
        (0.21, 0.53),
        (0.265, 0.455),
        (0.265, 0.40),
        (0.215, arch + 0.115),
        (0.20 + 0.9 * knob, arch + 0.065),
        (0.20 + knob, arch),
        (0.175 + 0.5 * knob, arch - 0.06),
        (0.165, arch - 0.12),
        (0.15, 0.02),
        (0.14, -0.12),
    ]
    outline = curve(right + left, closed=True)
    if widening is not None:
        outline[:, 0] += _widened(outline, widening)
    outline[:, 1] *= patient.lung_height
    return outline


def _widened(outline: Points, widening: Widening) -> NDArray[np.float64]:
    """Return how far (N,) the widening moves each point of the mediastinum's outline outwards, in body units."""
    x, y = outline.T
    away = (y - widening.centre) / widening.reach
    uneven = sum(
        height * np.sin((1 + 0.5 * k) * np.pi * away + (k + 1) * np.where(x < 0, 1.0, 2.0))
        for k, height in enumerate(widening.waves)
    )
    shape = np.exp(-(np.abs(away) ** 3)) * (1 + uneven)
    return np.asarray(np.where(x < 0, -widening.right * shape, widening.left * shape))


def silhouette(outlines: Outlines, patient: Patient, frame: Frame) -> Mask:
    """Return the mask of heart and mediastinum from the lung apices to the diaphragm, as an annotator outlines them."""
    _, y = frame.grid()
    vessels = (outlines.mediastinum > 0.5) & (outlines.abdomen <= 0.5) & (y > 0.01 * patient.lung_height)
    return _largest(np.asarray(outlines.heart | vessels, dtype=np.bool_))


def _largest(mask: Mask) -> Mask:
    """Return the largest 4-connected component of ``mask``; this removes slivers between heart and diaphragm."""
    columns = np.flatnonzero(mask.any(axis=0))
    inside = slice(int(columns[0]), int(columns[-1]) + 1)
    crop = np.ascontiguousarray(mask[:, inside]).view(np.uint8)
    count, labels, stats, _ = cv2.connectedComponentsWithStats(crop, connectivity=4, ltype=cv2.CV_16U)
    if count <= 2:
        return mask
    kept = np.zeros_like(mask)
    kept[:, inside] = labels == 1 + int(np.argmax(stats[1:, cv2.CC_STAT_AREA]))
    return kept


def _width(mask: Mask) -> int:
    columns = np.flatnonzero(mask.any(axis=0))
    return int(columns[-1] - columns[0] + 1)


def draw_outlines(patient: Patient, frame: Frame, change: Change = NO_CHANGE) -> Outlines:
    """Return the outlines of a patient's body in a picture; ``frame`` maps the body to the picture's pixels.

    A lung mask is the lung field as an annotator draws it. It includes air, and fluid or consolidation in place of air.
    It excludes the heart, the mediastinum and the recess behind the diaphragm.
    """
    deep = 3.0 * patient.lung_height
    cage = {side: cage_of(patient, frame, side) for side in SIDES}
    domes: list[Points] = []
    for side in SIDES:
        dome = dome_line(patient, side, change.raised[0 if side < 0 else 1])
        dome = dome[side * dome[:, 0] >= -0.02]
        below = np.array([[side * 2.5, dome[-1, 1]], [side * 2.5, deep], [dome[0, 0], deep]])
        domes.append(frame.pixels(np.vstack([dome, below])))
    abdomen = fill(frame.shape, *domes)
    mediastinum = fill(frame.shape, frame.pixels(mediastinum_outline(patient, change.widening)))
    ctr = patient.ctr if change.ctr is None else change.ctr
    heart_cover = fill(frame.shape, frame.pixels(heart_outline(patient, ctr)))
    heart = np.asarray(heart_cover > 0.5, dtype=np.bool_)
    solid = heart | (abdomen > 0.5) | (mediastinum > 0.5)
    lungs = {side: _largest(np.asarray((cage[side] > 0.5) & ~solid, dtype=np.bool_)) for side in SIDES}
    measured = _width(heart) / _width(lungs[-1] | lungs[1])
    return Outlines(cage, abdomen, heart_cover, mediastinum, lungs, heart, measured)
