"""Drawing of one phantom: the plan of its finding, its chest radiograph, and its exact masks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chexqa.contract.findings import PHANTOM_FINDINGS
from chexqa.files.errors import InputError, suggest
from chexqa.phantoms import opacities, pneumothorax
from chexqa.phantoms.body import Frame, Patient, draw_patient, frame_of
from chexqa.phantoms.film import expose
from chexqa.phantoms.lesion_plan import Canvas, LesionPlan, half_peak
from chexqa.phantoms.outlines import (
    LUNGS,
    NO_CHANGE,
    SIDES,
    Change,
    draw_outlines,
    enlarged_heart,
    silhouette,
    widened_mediastinum,
)
from chexqa.phantoms.raster import Field, Mask, upsample
from chexqa.phantoms.thorax import coarse_frame, draw_air, draw_thorax

SMALLEST_SIZE, LARGEST_SIZE = 256, 2048
_SMALLEST, _LARGEST = 0.0045, 0.30  # smallest and largest lesion, as a share of the small picture's area
_TINY = {"lung_lesion": 0.0011}  # smallest lesion of the findings that may be smaller
_TRIES = 60
_AIRLESS = np.float32(0.42)  # added attenuation at which no air is left in the lung
# Findings drawn in the lungs, and findings that only change outlines.
_IN_LUNGS: dict[str, Callable[[Canvas], LesionPlan]] = {
    "atelectasis": opacities.atelectasis,
    "consolidation": opacities.consolidation,
    "edema": opacities.edema,
    "effusion": opacities.effusion,
    "lung_lesion": opacities.lung_lesion,
    "opacity": opacities.opacity,
    "pneumonia": opacities.pneumonia,
    "pneumothorax": pneumothorax.pneumothorax,
}
_OF_OUTLINES: dict[str, Callable[[np.random.Generator], Change]] = {
    "cardiomegaly": enlarged_heart,
    "enlarged_cardiomediastinum": widened_mediastinum,
}


@dataclass(frozen=True, eq=False)
class Phantom:
    """Drawn chest radiograph with its masks.

    - ``image``: uint8 ``(H, W)``; its longer side has the requested size.
    - ``anatomy``: the bool masks ``(H, W)`` ``right_lung`` (the patient's right, on the left of the picture),
      ``left_lung`` and ``heart``. A lung mask is what an annotator would outline: everything between chest wall,
      diaphragm and heart, whether air, opacity or fluid.
    - ``signal``: the attenuation that the lesion adds (for a pneumothorax: removes), float32 ``(H, W)``; None if the
      lesion changes only outlines or the finding is absent.
    - ``lesion``: the finding's mask: the pixels where ``signal`` exceeds half of its maximum; for cardiomegaly the
      heart; for an enlarged cardiomediastinum heart and mediastinum. None if the finding is absent.
    - ``ctr``: the cardiothoracic ratio measured on the masks; never between 0.48 and 0.52.
    """

    image: NDArray[np.uint8]
    anatomy: dict[str, Mask]
    signal: NDArray[np.float32] | None
    lesion: Mask | None
    finding: str
    present: bool
    view: str
    sex: str
    age: int
    ctr: float


def check_size(size: int) -> None:
    """Raise ``InputError`` if phantoms cannot be drawn at ``size``, the longer side in pixels."""
    if not SMALLEST_SIZE <= size <= LARGEST_SIZE:
        raise InputError(
            f"the size of phantoms (longer side) must be {SMALLEST_SIZE} to {LARGEST_SIZE} pixels, not {size}."
        )


def plan_lesion(patient: Patient, small: Frame, finding: str) -> LesionPlan:
    """Plan a lesion of ``finding`` in this patient, again and again until it is neither too small nor too large.

    ``small`` is the patient's coordinate system in the small picture on which lesions are planned.
    """
    if finding in _OF_OUTLINES:
        return LesionPlan(_OF_OUTLINES[finding](patient.stream("lesion", finding, 0)))
    x, y = small.grid()
    height = y / np.float32(patient.lung_height)
    for attempt in range(_TRIES):
        canvas = Canvas(patient, small, patient.stream("lesion", finding, attempt), x, height)
        plan = _IN_LUNGS[finding](canvas)
        assert plan.field is not None
        outlines = draw_outlines(patient, small, plan.change)
        share = float(half_peak(plan.field * (outlines.lungs[-1] | outlines.lungs[1])).mean())
        if _TINY.get(finding, _SMALLEST) <= share <= _LARGEST:
            return plan
    raise AssertionError(f"no acceptable {finding} in {_TRIES} tries: phantom {patient.index} of seed {patient.seed}")


def added_signal(plan: LesionPlan, room: Field, frame: Frame) -> Field | None:
    """Return the attenuation (float32 (H, W)) that the planned lesion adds to the body; None if only outlines change.

    For a pneumothorax, return the attenuation that it removes. ``room`` (H, W), 0..1, is the air that a lesion can
    replace.
    """
    if plan.field is None:
        return None
    if plan.pleural is not None:
        signal, _ = pneumothorax.air_edge(upsample(plan.pleural.depth, frame.shape))
    else:
        signal = upsample(plan.field, frame.shape)
    if plan.fine is not None:
        signal = np.maximum(signal, plan.fine(frame))
    return np.asarray(np.float32(plan.density) * signal * room, dtype=np.float32)


def draw(seed: int, index: int, finding: str, present: bool, size: int = 1024) -> Phantom:
    """Draw phantom ``index`` of ``seed`` with or without ``finding``; ``size`` is the longer side in pixels.

    Patient, exposure and noise depend only on ``seed`` and ``index``, so the same phantom with and without the finding
    differs only in the signs of the finding:

    - Most findings add attenuation to the lungs, and vessels and ribs fade there, as they do in lungs without air.
    - An atelectasis also raises the diaphragm on its side.
    - A cardiomegaly enlarges the heart, and an enlarged cardiomediastinum widens the mediastinum.
    - A pneumothorax removes attenuation and vessels, and shows the line of the pleura.
    """
    if finding not in PHANTOM_FINDINGS:
        raise InputError(f"unknown finding '{finding}'{suggest(finding, PHANTOM_FINDINGS)}.")
    check_size(size)
    patient = draw_patient(seed, index)
    frame = frame_of(patient, size)
    plan = plan_lesion(patient, coarse_frame(patient, frame), finding) if present else None
    change = plan.change if plan else NO_CHANGE
    outlines = draw_outlines(patient, frame, change)
    air = draw_air(patient, frame, outlines, change)
    signal = added_signal(plan, air.room, frame) if plan else None
    fallen = pneumothorax.collapsed(plan, air.room, frame) if plan else None
    lesion: Mask | None = None
    if fallen is not None and signal is not None:
        bare, denser = fallen
        attenuation = draw_thorax(patient, frame, air, bare=bare)
        attenuation += denser - signal
    else:
        filled = None if signal is None else np.minimum(1, signal / _AIRLESS)
        attenuation = draw_thorax(patient, frame, air, filled)
        if signal is not None:
            attenuation += signal
    if signal is not None:
        lesion = half_peak(signal)
    elif present:
        lesion = silhouette(outlines, patient, frame) if change.widening else outlines.heart
    return Phantom(
        image=expose(attenuation, patient, frame),
        anatomy={**{LUNGS[side]: outlines.lungs[side] for side in SIDES}, "heart": outlines.heart},
        signal=signal,
        lesion=lesion,
        finding=finding,
        present=present,
        view=patient.view,
        sex=patient.sex,
        age=patient.age,
        ctr=outlines.ctr,
    )
