"""Conversion of a body's attenuation into an 8-bit picture, with noise, blur, collimation and a side marker."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from chexqa.phantoms.body import Frame, Patient
from chexqa.phantoms.raster import Field, blur


def _noise(patient: Patient, frame: Frame, grain: float) -> Field:
    """Return detector noise with a standard deviation of about 1, slightly correlated between neighbouring pixels."""
    rng = patient.stream("noise")
    white = rng.standard_normal(frame.shape, dtype=np.float32)
    soft = blur(white, grain)
    return soft / np.float32(max(1e-6, float(soft[::7, ::7].std())))


def _collimate(picture: Field, rng: np.random.Generator, unit: float) -> Field:
    """Return the picture with dark unexposed borders on some sides."""
    height, width = picture.shape
    edges = np.where(rng.random(4) < 0.3, rng.uniform(0.004, 0.035, 4), 0.0) * (rng.random() < 0.45)
    black = float(rng.uniform(0.0, 0.06))
    rows = _window(height, edges[0], edges[1], 0.012 * unit)
    columns = _window(width, edges[2], edges[3], 0.012 * unit)
    exposed: Field = rows[:, None] * columns[None, :]
    result: Field = picture * exposed + np.float32(black) * (1 - exposed)
    return result


def _window(length: int, first: float, last: float, soft: float) -> Field:
    """Return an array ``(length,)`` that is 1 where a side is exposed and 0 at its two ends.

    ``first`` and ``last`` are the shares of the length that are not exposed at the beginning and at the end.
    """
    place = np.arange(length)
    window = np.ones(length, np.float32)
    for share, distance in ((first, place), (last, place[::-1])):
        if share:
            window *= np.clip((distance - share * length) / soft, 0, 1).astype(np.float32)
    return window


def _marker(picture: Field, rng: np.random.Generator, frame: Frame) -> Field:
    """Return the picture, in most cases with a lead letter (R or L) beside the shoulder of that side."""
    if rng.random() < 0.3:
        return picture
    left = rng.random() < 0.7
    height, width = picture.shape
    scale = 0.0042 * frame.unit * float(rng.uniform(0.8, 1.2))
    across = rng.uniform(0.88, 0.93) if left else rng.uniform(0.04, 0.08)
    at = (round(width * across), round(height * rng.uniform(0.05, 0.11)))
    canvas = np.zeros(picture.shape, np.uint8)
    thick = max(1, round(0.014 * frame.unit))
    cv2.putText(canvas, "L" if left else "R", at, cv2.FONT_HERSHEY_SIMPLEX, scale, 255, thick, cv2.LINE_AA)
    cover = blur(canvas.astype(np.float32) / np.float32(255), 0.004 * frame.unit)
    return picture * (1 - cover) + np.float32(rng.uniform(0.75, 1.0)) * cover


def expose(attenuation: Field, patient: Patient, frame: Frame) -> NDArray[np.uint8]:
    """Return the 8-bit picture (H, W) of an attenuation field.

    The exposure depends on the patient and not on the finding.
    """
    rng = patient.stream("film")
    contrast, centre = float(rng.uniform(3.9, 5.4)), float(rng.uniform(0.36, 0.50))
    strength, grain = float(rng.uniform(0.006, 0.016)), float(rng.uniform(0.5, 0.9))
    enhance = float(rng.uniform(0.1, 0.6)) if rng.random() < 0.5 else 0.0
    unit = frame.unit
    seen = attenuation + np.float32(0.2 * enhance) * (attenuation - blur(attenuation, 0.25 * unit))
    seen = seen + np.float32(0.8 * enhance) * (seen - blur(seen, 0.02 * unit))
    # Fewer photons reach the detector behind dense tissue, so noise is higher there.
    seen += _noise(patient, frame, grain * max(frame.shape) / 1024) * (
        np.float32(strength) * (0.5 + np.clip(seen, 0, 1.2))
    )
    floor = 1 / (1 + np.exp(contrast * centre))
    top = 1 / (1 + np.exp(-contrast * (1.10 - centre)))
    tone = (1 / (1 + np.exp(np.float32(-contrast) * (seen - np.float32(centre)))) - np.float32(floor)) / np.float32(
        top - floor
    )
    tone = np.float32(rng.uniform(0.0, 0.03)) + np.float32(rng.uniform(0.88, 0.97)) * tone
    tone = _marker(_collimate(tone, rng, unit), rng, frame)
    tone *= 255
    return np.clip(np.round(tone), 0, 255).astype(np.uint8)
