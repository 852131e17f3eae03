"""What the findings are planned with: a plan, the canvas it is drawn on, and the rule for masks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from chexqa.phantoms.outlines import SIDES, Change, wall_at
from chexqa.phantoms.patient import Frame, Patient
from chexqa.phantoms.raster import Field, Mask, ramp, smooth_noise

HALF_PEAK = 0.5


@dataclass(frozen=True)
class PleuralAir:
    """Air beside a collapsed lung: how deep in it a pixel lies, and where the lung is denser, on the small picture."""

    depth: Field  # body units, below 0 in the lung
    denser: Field  # attenuation that the collapsed lung gains


@dataclass(frozen=True)
class LesionPlan:
    """One lesion: its field on the small picture (None if only outlines change), its density and these outlines."""

    change: Change
    field: Field | None = None
    density: float = 0.0
    fine: Callable[[Frame], Field] | None = None  # thin details drawn at full size, 0..0.4 of the peak
    pleural: PleuralAir | None = None  # makes the field air, which takes attenuation away


@dataclass(frozen=True)
class Canvas:
    """Drawing area of a finding: body coordinates of the small picture and one random stream."""

    patient: Patient
    frame: Frame
    rng: np.random.Generator
    x: Field
    y: Field  # as a fraction of the lung's height

    def side(self) -> int:
        """Draw a side, -1 or 1."""
        return int(self.rng.choice(SIDES))

    def noise(self, cells: int) -> Field:
        """Return noise of mean 0 and spread about 1 with ``cells`` bumps along the longer side."""
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


def mottle(canvas: Canvas, cells: int, depth: float) -> Field:
    """Return uneven filling between ``1 - depth`` and 1; a depth under 0.45 never cuts holes into the mask."""
    return np.asarray(1 - depth * ramp(canvas.noise(cells), -1.1, 1.1), dtype=np.float32)


def between(rng: np.random.Generator, least: float, most: float) -> float:
    """Draw a size, uniform in its logarithm, since lesions are of all sizes."""
    return float(np.exp(rng.uniform(np.log(least), np.log(most))))


def place(canvas: Canvas, side: int, y: float, share: float) -> float:
    """Return the x at height ``y`` (fraction) at ``share`` of the way from the hilum's line to the chest wall."""
    wall = wall_at(canvas.patient, side, y * canvas.patient.lung_height)
    return side * (0.22 + share * (wall - 0.22))


def half_peak(signal: Field) -> Mask:
    """Return the mask where ``signal`` exceeds half its peak, the rule for every lesion mask."""
    return np.asarray(signal > np.float32(HALF_PEAK) * signal.max(), dtype=np.bool_)
