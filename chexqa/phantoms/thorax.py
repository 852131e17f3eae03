"""Attenuation of the complete body: the sum of soft tissue, air, heart, bones and vessels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chexqa.phantoms.body import Frame, Patient
from chexqa.phantoms.bones import clavicles, ribs, skeleton
from chexqa.phantoms.outlines import SIDES, Change, Outlines, draw_outlines
from chexqa.phantoms.raster import (
    Field,
    Shape,
    blur,
    cover,
    curve,
    depth_inside,
    fill,
    ramp,
    smooth_noise,
    soften,
    upsample,
)
from chexqa.phantoms.vessels import hilum, vessels

_COARSE = 256  # longer side in pixels of the coarse grid for smooth fields


def coarse_frame(patient: Patient, frame: Frame) -> Frame:
    """Return the coordinate system of the same body in a small picture (coarse grid) with a longer side of 256
    pixels.
    """
    tall, wide = patient.shape_ratio
    return frame.resized((round(_COARSE * tall), round(_COARSE * wide)))


def _body(patient: Patient, small: Frame) -> Field:
    """Return the thickness (0..1) of the soft tissue of trunk, neck and arms; it decreases towards the skin."""
    rng = patient.stream("body")
    tall = patient.lung_height
    fat = patient.fat
    neck = 0.33 + 0.08 * fat + rng.normal(0, 0.015)
    flank = 1.15 + 0.16 * fat
    slope = rng.normal(0, 0.02)
    sides, gaps = [], []
    for side in SIDES:
        skin = [
            (0.0, -3.0),
            (neck - 0.01, -3.0),
            (neck, -0.6),
            (neck + 0.02, -0.32),
            (neck + 0.10, -0.205 + slope),
            (neck + 0.36, -0.145 + slope),
            (1.02, -0.095 + slope),
            (1.30, -0.05 + slope),
            (1.52, 0.04),
            (1.68, 0.30),
            (1.85, 1.0),
            (1.95, 3.0),
            (0.0, 3.0),
        ]
        sides.append(small.pixels(curve(np.array(skin) * [side, tall])))
        top = rng.uniform(0.62, 0.95) + 0.25 * fat
        gap = [(flank + 0.05, top), (flank + 0.015, top + 0.2), (flank + 0.03, 1.15), (flank + 0.06, 3.0)]
        arm = [(flank + 0.75, 3.0), (flank + 0.36, 1.3), (flank + 0.17, top + 0.22)]
        gaps.append(small.pixels(curve(np.array(gap + arm) * [side, tall], closed=True)))
    solid = fill(small.shape, *sides) * (1 - fill(small.shape, *gaps))
    depth = depth_inside(np.asarray(solid > 0.5, dtype=np.bool_)) / np.float32(small.unit)
    thickness: Field = (1 - 0.8 * np.exp(-depth / np.float32(0.14))) * blur(solid, 1.0)
    return thickness


@dataclass(frozen=True)
class Air:
    """Air and organs in the chest; every field except ``small`` is float32 ``(H, W)`` with values 0..1.

    - ``heart``, ``vessels`` (the great vessels), ``abdomen``: the shares of air that these organs displace.
    - ``cage``: 1 inside the chest and 0 outside.
    - ``remaining``: the share of air that these organs do not displace.
    - ``depth``: the thickness of the air, divided by its thickness far from the chest wall.
    - ``room``: the thickness of the air that a lesion can replace, in the same unit as ``depth``.
    - ``small``: the body's outlines on a coarser grid, whose longer side has 256 pixels.
    """

    heart: Field
    vessels: Field
    abdomen: Field
    cage: Field
    remaining: Field
    depth: Field
    room: Field
    small: Outlines


def draw_air(patient: Patient, frame: Frame, outlines: Outlines, change: Change) -> Air:
    """Return the air of both lungs; its thickness decreases towards the sides of the lungs.

    ``change`` is a finding's effect on the outlines; ``outlines`` must have been drawn with the same ``change``.
    """
    low = coarse_frame(patient, frame)
    small = draw_outlines(patient, low, change)
    unit, coarse = frame.unit, low.unit
    heart = _solid(outlines.heart_cover, small.heart_cover, 0.008 * unit, 0.80, 0.10 * coarse)
    great = _solid(outlines.mediastinum, small.mediastinum, 0.012 * unit, 0.45, 0.05 * coarse)
    abdomen = _solid(outlines.abdomen, small.abdomen, 0.006 * unit, 0.86, 0.08 * coarse)
    remaining = (1 - heart) * (1 - abdomen)
    remaining *= 1 - np.float32(0.95) * great
    cage = np.maximum(outlines.cage[-1], outlines.cage[1])
    both = np.asarray((small.cage[-1] > 0.5) | (small.cage[1] > 0.5), dtype=np.bool_)
    inward = depth_inside(both) / np.float32(coarse)
    rounded = upsample(0.42 + 0.58 * (1 - np.exp(-inward / np.float32(0.10))), frame.shape)
    inside = blur(cage, 0.004 * unit) * remaining
    # A lesion replaces air, so no seam appears where heart or diaphragm overlap the lung. A lesion thins out less than
    # air does along the chest wall, since the mask has to reach the wall.
    return Air(heart, great, abdomen, cage, remaining, inside * rounded, inside * np.sqrt(rounded), small)


def _solid(cover: Field, small: Field, sigma: float, edge: float, thick: float) -> Field:
    """Return the share of air that an organ displaces: ``edge`` at its border, and 1 from ``thick`` pixels inwards.

    ``cover`` is the organ in the full picture, blurred by ``sigma`` pixels. ``small`` is the organ on the coarse grid.
    """
    core = edge + (1 - edge) * ramp(blur(small, thick), 0.5, 1.0)
    return blur(cover, sigma) * upsample(core.astype(np.float32), (cover.shape[0], cover.shape[1]))


def _breasts(patient: Patient, low: Frame) -> Field:
    """Return the shadows (0..1) of breasts and chest-wall muscles, whose lower borders are the sharpest."""
    rng = patient.stream("breast")
    total = np.zeros(low.shape, np.float32)
    x, y = low.grid()
    for side in SIDES:
        jitter = rng.normal(0, 0.03, 3)
        muscle_x, muscle_y = side * x - 0.95, y / patient.lung_height - (0.30 + jitter[2])
        total += 0.30 * np.exp(-((muscle_x / 0.32) ** 2) - ((muscle_y - 0.35 * muscle_x) / 0.16) ** 2)
        if patient.breast <= 0:
            continue
        wide, tall = 0.34 + 0.14 * patient.breast, 0.30 + 0.18 * patient.breast
        u = (side * x - 0.60 - jitter[0]) / wide
        v = (y / patient.lung_height - 0.58 - 0.16 * patient.breast - jitter[1]) / (tall / patient.lung_height)
        round_part = np.sqrt(np.clip(1 - u * u - v * v, 0, 1))
        total += patient.breast * round_part * ramp(v, -1.0, 0.6)
    return blur(total, 1.2)


def _gas(patient: Patient, low: Frame) -> Field:
    """Return the gas in the stomach and the colon under the left diaphragm, 0..1."""
    rng = patient.stream("gas")
    x, y = low.grid()
    tall = patient.lung_height
    total = np.zeros(low.shape, np.float32)
    base = (1.0 - patient.dome[1]) * tall
    bubbles = [
        (rng.uniform(0.38, 0.58), base + rng.uniform(0.10, 0.16), rng.uniform(0.09, 0.2), rng.uniform(0.04, 0.09))
    ]
    for _ in range(int(rng.integers(0, 5))):
        bubbles.append(
            (rng.uniform(-0.9, 0.9), base + rng.uniform(0.42, 0.9), rng.uniform(0.06, 0.14), rng.uniform(0.04, 0.08))
        )
    warp = smooth_noise(rng, low.shape, 24)
    for place, height, wide, high in bubbles:
        reach = ((x - np.float32(place)) / np.float32(wide)) ** 2 + ((y - np.float32(height)) / np.float32(high)) ** 2
        total = np.maximum(total, ramp(1.0 - reach + 0.45 * warp, 0.0, 0.9) * np.float32(rng.uniform(0.25, 1.0)))
    return total


def _airways(patient: Patient, frame: Frame) -> Field:
    """Return the air in the trachea and the main bronchi, 0..1."""
    rng = patient.stream("airways")
    half = rng.uniform(0.050, 0.064)
    drift = -0.015 - 0.035 * patient.aorta + rng.normal(0, 0.01)
    tall = patient.lung_height
    fork = 0.30
    left = curve(
        [(-half, -1.0), (-half, -0.1), (drift - half, 0.12), (drift - half, 0.25), (-0.12, 0.36), (-0.20, 0.44)]
    )
    inner = curve([(-0.15, 0.455), (-0.08, 0.385), (drift, fork + 0.03), (0.10, 0.385), (0.20, 0.425)])
    right = curve([(0.22, 0.39), (0.12, 0.345), (drift + half, 0.25), (drift + half, 0.12), (half, -0.1), (half, -1.0)])
    tube = cover(frame.shape, frame.pixels(np.vstack([left, inner, right]) * [1, tall]))
    _, y = coarse_frame(patient, frame).grid()
    fade = 1 - 0.75 * ramp(y / np.float32(tall), 0.22, 0.42)
    return soften(tube, 0.013 * frame.unit, 1.0) * upsample(fade.astype(np.float32), frame.shape)


def _hila(patient: Patient, low: Frame) -> Field:
    """Return hilar vessels and nodes as soft densities, 0..1."""
    rng = patient.stream("hila")
    x, y = low.grid()
    total = np.zeros(low.shape, np.float32)
    for side in SIDES:
        centre_x, centre_y = hilum(patient, side)
        for _ in range(5):
            at_x = centre_x + side * rng.uniform(-0.03, 0.10)
            at_y = centre_y + rng.uniform(-0.16, 0.22)
            size = rng.uniform(0.045, 0.085)
            spot = ((x - np.float32(at_x)) / np.float32(size)) ** 2 + (
                (y - np.float32(at_y)) / np.float32(1.7 * size)
            ) ** 2
            total += np.float32(rng.uniform(0.3, 0.6)) * np.exp(-spot)
    return np.minimum(total, np.float32(1.2))


def draw_thorax(
    patient: Patient, frame: Frame, air: Air, filled: Field | None = None, bare: Field | None = None
) -> Field:
    """Return the attenuation (float32 (H, W)) of one body: about 0 for air, 0.15 for lung, 1 for the densest tissue.

    ``filled`` (0..1) is the share of the lung's air that a lesion has replaced. Vessels fade in a filled lung, since
    only air around them makes them visible. Ribs lose contrast there through scatter. ``bare`` (0..1) is pleural air,
    in which there are no vessels.
    """
    low = coarse_frame(patient, frame)
    shape = frame.shape
    total = upsample(_slow(patient, low, air.small), shape)
    fading, flank, flank_tissue = (upsample(field, shape) for field in _spread(patient, low))
    belly = air.abdomen * (1 - flank) + flank_tissue
    # Heart and liver touch and are equally dense. No border is visible between them, so they do not add up.
    dense = 0.19 + 0.05 * patient.fat
    total += np.maximum(dense * air.heart * fading + 0.05 * air.vessels, dense * belly)
    # Products are computed in place: at this size, allocating a temporary array costs as much as the product.
    clear = air.remaining if filled is None else air.remaining * (1 - filled)
    tree = vessels(patient, frame)
    tree *= air.cage
    shown = 0.10 + 0.90 * air.remaining
    tree *= shown if filled is None else shown * (1 - np.float32(0.85) * filled)
    if bare is not None:
        tree *= 1 - bare
    total += tree
    bones = ribs(patient, frame)
    bones *= 0.40 + 0.60 * clear
    total += bones
    rng = patient.stream("grain")
    texture = upsample(np.float32(0.014) * smooth_noise(rng, low.shape, 110), shape)
    texture -= np.float32(0.44 + 0.025 * float(np.clip(rng.normal(), -2, 2)))
    texture *= air.depth
    total += texture
    total -= upsample(0.11 * _airways(patient, frame.resized(_half(shape))), shape)
    total += upsample(skeleton(patient, frame.resized(_half(shape))), shape)
    total += clavicles(patient, frame)
    return total


def _half(shape: Shape) -> Shape:
    """Return the shape of a picture half as large; parts of the body without sharp edges are drawn at this size."""
    return (shape[0] + 1) // 2, (shape[1] + 1) // 2


def _spread(patient: Patient, low: Frame) -> tuple[Field, Field, Field]:
    """Return three fields of soft tissue, each 0..1: the heart, the tissue outside the chest wall, and the flanks.

    The heart's field is its thickness, which increases downwards.
    """
    x, y = low.grid()
    height = y / np.float32(patient.lung_height)
    thickening = 0.15 + 0.85 * ramp(height, patient.heart_top, 1.0 - patient.dome[1])
    beyond = ramp(np.abs(x), 0.93, 1.04)
    tissue = beyond * ramp(height, 0.70, 1.35) * (1 - ramp(np.abs(x), 1.0, 1.40))
    return thickening.astype(np.float32), beyond, tissue.astype(np.float32)


def _slow(patient: Patient, low: Frame, small: Outlines) -> Field:
    """Return the attenuation of all parts without fine detail, on the coarse grid."""
    rng = patient.stream("texture")
    x, y = low.grid()
    body = _body(patient, low)
    uneven = 0.024 * smooth_noise(rng, low.shape, 6) + 0.007 * smooth_noise(rng, low.shape, 20)
    slow = (0.54 + 0.09 * patient.fat) * body + uneven * ramp(body, 0.1, 0.6)
    slow = slow + (0.06 + 0.11 * patient.breast) * _breasts(patient, low) * (1 - 0.55 * small.abdomen)
    slow = slow + 0.09 * _hila(patient, low) * (1 - small.abdomen) * (1 - small.heart_cover)
    # More tissue lies behind and in front of the lungs towards the spine and the base.
    slow = slow + 0.055 * np.exp(-((x / np.float32(0.24)) ** 2)) * ramp(y, -0.5, 0.4)
    slow = slow + 0.055 * np.exp(-((x / np.float32(0.6)) ** 2)) * ramp(y, 0.2, 1.1)
    return np.asarray(slow - 0.16 * _gas(patient, low) * small.abdomen, dtype=np.float32)
