"""One phantom: a drawn chest radiograph with its exact masks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chexqa.contract.findings import PHANTOM_FINDINGS
from chexqa.files.errors import InputError, suggest
from chexqa.phantoms.film import expose
from chexqa.phantoms.lesion_plan import half_peak
from chexqa.phantoms.lesions import added_signal, collapsed, plan_lesion
from chexqa.phantoms.outlines import LUNGS, NO_CHANGE, SIDES, draw_outlines, silhouette
from chexqa.phantoms.patient import draw_patient, frame_of
from chexqa.phantoms.raster import Mask
from chexqa.phantoms.thorax import coarse_frame, draw_air, draw_thorax

SMALLEST_SIZE, LARGEST_SIZE = 256, 2048
_AIRLESS = np.float32(0.42)  # added attenuation at which no air is left in the lung


@dataclass(frozen=True, eq=False)
class Phantom:
    """Drawn chest radiograph with its masks.

    ``image`` is uint8 ``(H, W)``; its longer side is the requested size. ``anatomy`` holds the bool ``(H, W)`` masks
    ``right_lung`` (the patient's right, on the left of the picture), ``left_lung`` and ``heart``. A lung mask is drawn
    as an annotator would: everything between chest wall, diaphragm and heart, whether air, opacity or fluid.

    ``lesion`` is the mask of the finding: the pixels where the attenuation added by the lesion exceeds half its peak.
    For cardiomegaly ``lesion`` is the heart, for an enlarged cardiomediastinum heart and mediastinum. If the finding is
    absent, ``lesion`` is None. ``signal`` is the added attenuation (float32 ``(H, W)``), for a pneumothorax the removed
    attenuation; None if nothing was added. ``ctr`` is the cardiothoracic ratio measured on the masks, never between
    0.48 and 0.52.
    """

    image: NDArray[np.uint8]
    anatomy: dict[str, Mask]
    lesion: Mask | None
    signal: NDArray[np.float32] | None
    finding: str
    present: bool
    view: str
    sex: str
    age: int
    ctr: float


def check_size(size: int) -> None:
    """Raise ``InputError`` unless phantoms can be drawn at ``size``, the longer side in pixels."""
    if not SMALLEST_SIZE <= size <= LARGEST_SIZE:
        raise InputError(f"phantoms have {SMALLEST_SIZE} to {LARGEST_SIZE} pixels on their longer side, not {size}.")


def draw(seed: int, index: int, finding: str, present: bool, size: int = 1024) -> Phantom:
    """Draw phantom ``index`` of ``seed`` with or without ``finding``; ``size`` is the longer side in pixels.

    Patient, exposure and noise depend only on ``seed`` and ``index``. A present finding changes only its own signs.
    Most findings add attenuation to the lungs, where vessels and ribs fade, as they do in lungs without air. An
    atelectasis raises the diaphragm on its side, a cardiomegaly enlarges the heart, and the mediastinum can widen. A
    pneumothorax removes vessels and attenuation and draws the line of the pleura.
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
    fallen = collapsed(plan, air.room, frame) if plan else None
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
        lesion=lesion,
        signal=signal,
        finding=finding,
        present=present,
        view=patient.view,
        sex=patient.sex,
        age=patient.age,
        ctr=outlines.ctr,
    )
