"""Plans of drawn lesions: what a plan contains, the canvas on which a lesion is drawn, and the rule for its mask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from chexqa.phantoms.body import Frame, Patient
from chexqa.phantoms.outlines import SIDES, Change, wall_at
from chexqa.phantoms.raster import Field, Mask, ramp, smooth_noise

HALF_PEAK = 0.5


@dataclass(frozen=True)
class PleuralAir:
    """Two fields ``(H, W)`` of a pneumothorax, at the size of the small picture on which lesions are planned.

    - ``depth``: each pixel's depth in the air, in body units; 0 at the border of the collapsed lung, negative in the
      lung.
    - ``denser``: the attenuation that is added to the collapsed lung.
    """

    depth: Field
    denser: Field


@dataclass(frozen=True)
class LesionPlan:
    """Plan of one lesion.

    - ``change``: the lesion's effect on the outlines of the body.
    - ``field``: the lesion's shape in a small picture, with values 0..1; None if only outlines change.
    - ``density``: the attenuation where ``field`` is 1.
    - ``fine``: a function that draws the lesion's thin details in a picture of full size, with values 0..0.4 on the
      scale of ``field``; None for a lesion without thin details.
    - ``pleural``: the air of a pneumothorax, which removes attenuation; None for all other findings.
    """

    change: Change
    field: Field | None = None
    density: float = 0.0
    fine: Callable[[Frame], Field] | None = None
    pleural: PleuralAir | None = None


@dataclass(frozen=True)
class Canvas:
    """Drawing area of a finding: a small picture with the body coordinates of its pixels, and one random stream."""

    patient: Patient
    frame: Frame
    rng: np.random.Generator
    x: Field
    y: Field  # as a fraction of the lung's height

    def side(self) -> int:
        """Choose a side of the body at random, and return -1 or 1."""
        return int(self.rng.choice(SIDES))

    def noise(self, cells: int) -> Field:
        """Return noise with mean 0, standard deviation about 1 and ``cells`` bumps along the picture's longer side."""
        return smooth_noise(self.rng, self.frame.shape, cells)

    def blob(self, x: float, y: float, wide: float, tall: float, ragged: float, angle: float = 0.0) -> Field:
        """Return a field of a ragged ellipse: 1 at its centre, 0 on its border, negative outside.

        ``x``, ``wide`` and ``tall`` are in body units. ``y`` is a fraction of the lung's height. ``ragged`` is the
        unevenness of the border; 0 gives a smooth ellipse.
        """
        dx, dy = self.x - np.float32(x), (self.y - np.float32(y)) * np.float32(self.patient.lung_height)
        c, s = np.float32(np.cos(angle)), np.float32(np.sin(angle))
        reach = np.sqrt(((c * dx + s * dy) / np.float32(wide)) ** 2 + ((c * dy - s * dx) / np.float32(tall)) ** 2)
        cells = int(np.clip(4.0 / max(wide, tall), 5, 40))
        rough = self.noise(cells) + 0.4 * self.noise(2 * cells)
        # The roughness fades far from the ellipse; otherwise separate islands would appear there.
        return np.asarray(1 - reach + ragged * rough * np.exp(-((reach / 1.25) ** 4)), dtype=np.float32)


def mottle(canvas: Canvas, cells: int, depth: float) -> Field:
    """Return an uneven field with values from ``1 - depth`` to 1, by which a lesion is multiplied.

    If ``depth`` is below 0.45, the lesion's mask never gets holes.
    """
    return np.asarray(1 - depth * ramp(canvas.noise(cells), -1.1, 1.1), dtype=np.float32)


def between(rng: np.random.Generator, least: float, most: float) -> float:
    """Return a random size between ``least`` and ``most``, drawn uniformly on a logarithmic scale."""
    return float(np.exp(rng.uniform(np.log(least), np.log(most))))


def place(canvas: Canvas, side: int, y: float, share: float) -> float:
    """Return the x (body units) of a point between the hilum and the chest wall.

    - ``y``: the point's height, as a fraction of the lung's height.
    - ``share``: the point's position from 0 (at the hilum) to 1 (at the chest wall).
    """
    wall = wall_at(canvas.patient, side, y * canvas.patient.lung_height)
    return side * (0.22 + share * (wall - 0.22))


def half_peak(signal: Field) -> Mask:
    """Return the mask of the pixels where ``signal`` exceeds half of its maximum."""
    return np.asarray(signal > np.float32(HALF_PEAK) * signal.max(), dtype=np.bool_)
