"""Masks that a reader drew anew: read from a folder, compared with the old ones, put into a manifest.

``FOLDER/AUTHOR/CASE.png`` is a mask of the radiograph's own size, white on black. A new mask is not approved until
somebody other than its author has judged it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from chexqa.contract.cases import load_case
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, is_folder
from chexqa.imaging.masks import to_rle
from chexqa.imaging.read import Mask, read_mask_png
from chexqa.review.resolve.mask_hashes import ManifestMasks


@dataclass(frozen=True)
class Redrawn:
    """A new mask of a case, as run lengths of the source image, with its author and what changed.

    ``edit``: ``area_px`` (pixels that were added or removed), ``share`` (of the old mask's area), ``hausdorff_px`` (the
    largest distance of an outline from the other), in pixels of the source image.
    """

    case_id: str
    author: str
    mask: dict[str, Any]
    edit: dict[str, float]

    def placed(self, record: Record) -> Record:
        """Return a manifest's line with the new mask, its author and no review."""
        kept = {name: value for name, value in record.items() if name not in ("review", "review_seen")}
        return {**kept, "mask": self.mask, "mask_author": self.author, "mask_edit": self.edit}


def read_redrawn(folder: Path, masks: ManifestMasks) -> dict[str, Redrawn]:
    """Return the new masks in a folder by case id; raise ``InputError`` for one that does not fit its case."""
    if not is_folder(folder):
        raise InputError(f"{folder}: is no folder; give one with a folder for each author, AUTHOR/CASE.png in it.")
    files = sorted(path for path in folder.glob("*/*.png") if path.is_file())
    if not files:
        raise InputError(f"{folder}: holds no AUTHOR/CASE.png; put each new mask into a folder named after its author.")
    found: dict[str, Redrawn] = {}
    for path in files:
        case_id, author = path.stem, path.parent.name
        if case_id not in masks.places:
            raise InputError(f"{path}: '{case_id}' is no case of {masks.path}; name the file after the case id.")
        if case_id in found:
            raise InputError(f"{path}: {found[case_id].author} drew this mask anew too; keep one of the two.")
        found[case_id] = _redrawn(path, case_id, author, masks)
    return found


def _redrawn(path: Path, case_id: str, author: str, masks: ManifestMasks) -> Redrawn:
    loaded = load_case(masks.cases[masks.places[case_id]])
    if loaded.source_mask is None:
        raise InputError(f"{path}: the finding is absent in case '{case_id}', so it has no mask to draw anew.")
    new = read_mask_png(path)
    if new.shape != loaded.source_mask.shape:
        height, width = loaded.source_mask.shape
        raise InputError(
            f"{path}: the mask is {new.shape[1]} x {new.shape[0]} px, but the radiograph of case '{case_id}' has "
            f"{width} x {height} px; draw it at that size."
        )
    if not new.any():
        raise InputError(f"{path}: the mask is empty; reject the mask in a review if the finding is absent.")
    return Redrawn(case_id, author, to_rle(new), edit_of(loaded.source_mask, new))


def edit_of(old: Mask, new: Mask) -> dict[str, float]:
    """Return what distinguishes two masks ``(H, W)`` with pixels, in pixels of the image.

    >>> old = np.zeros((9, 9), bool)
    >>> old[2:5, 2:5] = True
    >>> new = old.copy()
    >>> new[2:5, 5:7] = True
    >>> edit_of(old, new)
    {'area_px': 6, 'share': 0.666667, 'hausdorff_px': 2.0}
    """
    area = int(np.count_nonzero(old ^ new))
    distance = max(_farthest(old, new), _farthest(new, old))
    return {
        "area_px": area,
        "share": round(area / int(np.count_nonzero(old)), 6),
        "hausdorff_px": round(distance, 3),
    }


def _farthest(one: Mask, other: Mask) -> float:
    """Return the largest distance of a pixel of the first outline from the nearest one of the second."""
    away = cv2.distanceTransform((~_outline(other)).astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    return float(away[_outline(one)].max())


def _outline(mask: Mask) -> Mask:
    """Return the pixels of a mask with a neighbour outside of it; the border of the image counts as outside."""
    inner = cv2.erode(mask.astype(np.uint8), np.ones((3, 3), np.uint8), borderType=cv2.BORDER_CONSTANT, borderValue=0)
    return np.asarray(mask & (inner == 0), np.bool_)
