"""Description of one phantom's body by numbers, and the transformation that places the body in a picture.

Body coordinates are x, measured from the midline and positive towards the right of the picture (the patient's left),
and y, measured downwards from the lung apices. The unit of x and y (body unit) is half the inner thoracic width. A
height called a "fraction" is 0 at the apex and 1 at the costophrenic angle; y is this fraction times
``Patient.lung_height``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chexqa.files.seeds import stream
from chexqa.phantoms.raster import Field, Points, Shape


@dataclass(frozen=True)
class Patient:
    """Properties of a body and of its exposure; they are the same with and without a finding."""

    seed: int
    index: int
    view: str
    sex: str
    age: int
    aspect: float  # height / width of the picture
    half_width: float  # half the width of the inner thorax, in picture widths
    lung_height: float  # distance from apex to costophrenic angle, in body units
    rise: float  # height above the apices, as a share of the picture's height above and below the lungs
    shift: float  # distance of the midline from the picture's centre, in picture widths
    tilt: float  # radians
    fat: float  # 0 thin .. 1 obese
    breast: float  # 0 none .. 1 large
    dome: tuple[float, float]  # heights of the right and left dome above the costophrenic angle, in lung heights
    dome_peak: tuple[float, float]  # distances of the domes' highest points from the midline, in body units
    ctr: float  # cardiothoracic ratio without cardiomegaly
    heart_left: float  # share of the heart's width left of the midline
    heart_top: float  # height of the heart's upper border (fraction)
    aorta: float  # size of the aortic knob, 0..1
    bulge: tuple[float, ...]  # small deviations of the rib cage's outline, first for the right side, then for the left

    @property
    def shape_ratio(self) -> tuple[float, float]:
        """Height and width of the picture as shares of its longer side."""
        return (1.0, 1.0 / self.aspect) if self.aspect >= 1 else (self.aspect, 1.0)

    def stream(self, *purpose: object) -> np.random.Generator:
        """Return the random generator of this phantom for ``purpose``."""
        return stream(self.seed, "phantom", self.index, *purpose)


def draw_patient(seed: int, index: int) -> Patient:
    """Choose at random the body of patient ``index`` of ``seed``; finding and picture size have no influence."""
    rng = stream(seed, "phantom", index, "patient")
    view = "AP" if rng.random() < 0.3 else "PA"
    sex = "F" if rng.random() < 0.47 else "M"
    age = int(np.clip(rng.normal(57, 17), 18, 90))
    portable = view == "AP"
    fat = float(np.clip(rng.beta(2, 3), 0, 1))
    right_dome = float(rng.uniform(0.13, 0.22)) + (0.03 if portable else 0.0)
    ctr = float(rng.uniform(0.375, 0.45)) + (0.012 if portable else 0.0)
    return Patient(
        seed=seed,
        index=index,
        view=view,
        sex=sex,
        age=age,
        aspect=float(rng.uniform(0.85, 1.2)),
        half_width=float(rng.uniform(0.335, 0.425)),
        lung_height=float(rng.uniform(1.45, 1.72)) - (0.13 if portable else 0.0) - 0.08 * fat,
        rise=float(rng.uniform(0.3, 0.48)),
        shift=float(rng.normal(0, 0.012)),
        tilt=float(np.clip(rng.normal(0, 0.016), -0.04, 0.04)),
        fat=fat,
        breast=float(rng.uniform(0.25, 1.0)) if sex == "F" else float(max(0.0, rng.uniform(-0.3, 0.35))),
        dome=(right_dome, right_dome - float(rng.uniform(0.025, 0.06))),
        dome_peak=(float(rng.uniform(0.42, 0.56)), float(rng.uniform(0.44, 0.58))),
        ctr=ctr,
        heart_left=float(rng.uniform(0.62, 0.72)),
        heart_top=float(rng.uniform(0.34, 0.46)),
        aorta=float(np.clip((age - 25) / 55 + rng.normal(0, 0.2), 0, 1)),
        bulge=tuple(rng.normal(0, 0.012, 12).tolist()),
    )


@dataclass(frozen=True)
class Frame:
    """Coordinate system of a body in a picture of ``shape``; ``unit`` pixels are half the inner thoracic width."""

    shape: Shape
    unit: float
    x0: float
    y0: float
    tilt: float

    def resized(self, shape: Shape) -> Frame:
        """Return the coordinates of the same body in a picture of another ``shape``, whose proportions must be nearly
        the same.
        """
        scale = max(shape) / max(self.shape)
        return Frame(shape, self.unit * scale, (self.x0 + 0.5) * scale - 0.5, (self.y0 + 0.5) * scale - 0.5, self.tilt)

    def pixels(self, points: Points | list[tuple[float, float]]) -> Points:
        """Return body coordinates (N, 2) as pixels (N, 2)."""
        x, y = np.asarray(points, dtype=np.float64).T
        c, s = np.cos(self.tilt), np.sin(self.tilt)
        return np.stack([self.x0 + self.unit * (c * x - s * y), self.y0 + self.unit * (s * x + c * y)], axis=1)

    def grid(self) -> tuple[Field, Field]:
        """Return the body coordinates x and y of every pixel, each ``(H, W)``."""
        rows = (np.arange(self.shape[0]) - self.y0)[:, None] / self.unit
        columns = (np.arange(self.shape[1]) - self.x0)[None, :] / self.unit
        c, s = np.cos(self.tilt), np.sin(self.tilt)
        return (c * columns + s * rows).astype(np.float32), (c * rows - s * columns).astype(np.float32)


def frame_of(patient: Patient, size: int) -> Frame:
    """Return the coordinate system of a body in a picture whose longer side has ``size`` pixels."""
    tall, wide = patient.shape_ratio
    # A picture of little height gets a smaller thorax, so that the lungs fit.
    unit = min(patient.half_width * wide, 0.76 * tall / patient.lung_height)
    free = tall - unit * patient.lung_height
    x0 = wide * (0.5 + patient.shift)
    y0 = free * patient.rise
    shape = (round(size * tall), round(size * wide))
    return Frame(shape, unit * size, x0 * size - 0.5, y0 * size - 0.5, patient.tilt)
