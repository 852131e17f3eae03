"""Field of a lesion: the pixels that a changed outline of the lesion may cover."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from chexqa.contract.cases import LoadedCase
from chexqa.contract.findings import FINDINGS

Mask = npt.NDArray[np.bool_]


def allowed_field(loaded: LoadedCase) -> Mask | str:
    """Return the pixels ``(H, W)`` that an outline of the lesion may cover, or the reason why they are unknown.

    For lung findings, these are the lesion and the lungs without the heart; for other findings, all pixels.
    """
    assert loaded.lesion is not None, "only a case with a lesion has a field"
    lungs = [lung for lung in (loaded.right_lung, loaded.left_lung) if lung is not None]
    if FINDINGS[loaded.case.finding].field != "any" and not lungs:
        return "no lung masks are given, and the questions on this finding need them"
    return field_of(loaded.case.finding, loaded.lesion, lungs, loaded.heart)


def field_of(finding: str, lesion: Mask, lungs: Iterable[Mask], heart: Mask | None) -> Mask:
    """Return the pixels ``(H, W)`` that an outline of the lesion may cover (see :func:`allowed_field`)."""
    if FINDINGS[finding].field == "any":
        return np.ones_like(lesion)
    field = lesion.copy()
    for lung in lungs:
        field |= lung
    if heart is not None:
        field &= ~heart | lesion
    return field
