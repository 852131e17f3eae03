"""Checks of one case's masks against each other: lungs lie side by side, and a lesion lies in the given anatomy."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from chexqa.contract.findings import Finding
from chexqa.files.errors import InputError
from chexqa.imaging.read import Mask

# Largest overlap of the lungs, as a share of the smaller lung: lungs drawn separately overlap behind the heart.
LUNG_OVERLAP = 0.1
# Limits beyond which lung masks are doubtful: the overlap divided by the smaller lung, the smaller lung divided by the
# larger lung, and the length cut off by the picture's edge divided by the lung's height.
_MUCH_OVERLAP, _SMALL_LUNG, _CUT_EDGE = 0.02, 0.4, 0.1


def check_lungs(anatomy: Mapping[str, Mask]) -> None:
    """Raise ``InputError`` if the lungs overlap too much, or if the right lung is not on the left of the picture."""
    if "right_lung" not in anatomy or "left_lung" not in anatomy:
        return
    right, left = anatomy["right_lung"], anatomy["left_lung"]
    shared = int((right & left).sum()) / max(1, min(int(right.sum()), int(left.sum())))
    if shared > LUNG_OVERLAP:
        raise InputError(
            f"right_lung and left_lung overlap in {shared:.0%} of the smaller lung; give each lung its own mask."
        )
    if right.any() and left.any() and _middle(right) > _middle(left):
        raise InputError(
            "right_lung lies to the right of left_lung, but the patient's right lung is on the left of the picture; "
            "exchange the two masks."
        )


def doubts(right: Mask, left: Mask) -> list[str]:
    """Return the reasons to doubt two lung masks ``(H, W)``, each as a clause; an empty mask counts as missing."""
    found = []
    sizes = {side: int(lung.sum()) for side, lung in (("right", right), ("left", left)) if lung.any()}
    if len(sizes) == 2:
        small, large = sorted(sizes, key=lambda side: sizes[side])
        shared = int((right & left).sum()) / sizes[small]
        if shared > _MUCH_OVERLAP:
            found.append(f"the lungs overlap by {shared:.0%} of the smaller one")
        if sizes[small] < _SMALL_LUNG * sizes[large]:
            found.append(f"the {small} lung has {sizes[small] / sizes[large]:.0%} of the area of the {large} one")
    for side in sizes:
        lung = right if side == "right" else left
        height = np.count_nonzero(lung.any(axis=1))
        if max(map(np.count_nonzero, (lung[0], lung[-1], lung[:, 0], lung[:, -1]))) > _CUT_EDGE * height:
            found.append(f"the {side} lung is cut off by the picture's edge")
    return found


def _middle(mask: Mask) -> float:
    columns = np.count_nonzero(mask, axis=0)
    return float((columns * np.arange(len(columns))).sum() / columns.sum())


def check_lesion(finding: Finding, lesion: Mask, anatomy: Mapping[str, Mask]) -> None:
    """Raise ``InputError`` if a lesion's mask is empty, or if it touches no mask of ``anatomy`` although it must.

    All masks have the size of the working image. ``finding`` says whether its lesions must touch a lung or the heart.
    This is checked only if ``anatomy`` has the masks needed: both lungs or, for a finding outside the lungs, the heart.
    """
    if not lesion.any():
        raise InputError(
            "the mask is so small that it vanishes when the picture is resized to 1024 px; draw it "
            "larger, or leave out the case."
        )
    needed = {"heart"} if finding.field == "any" else {"right_lung", "left_lung"}
    if not finding.anchored or not needed <= anatomy.keys():
        return
    if not any((lesion & mask).any() for mask in anatomy.values()):
        raise InputError(
            f"the lesion's mask overlaps none of {', '.join(anatomy)}; check that these masks belong to this image and "
            "that none of them is mirrored; if each pixel has only one label, so that the lesion is cut out of the "
            "organs, give organ masks that include the lesion."
        )
