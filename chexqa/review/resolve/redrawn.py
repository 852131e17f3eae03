"""Redrawn masks in a manifest, which replace the old masks and then wait for a second reader's approval.

They come from review pages, or as files ``FOLDER/AUTHOR/CASE.png`` of the radiograph's own size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from chexqa.contract.cases import Case, load_case
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, is_folder
from chexqa.imaging.masks import from_rle, read_mask_png, to_rle
from chexqa.imaging.read import resample
from chexqa.review.collect.contours import compare
from chexqa.review.collect.verdicts import Verdict
from chexqa.review.columns import ACCEPT, check_name
from chexqa.review.resolve.mask_hashes import ManifestMasks

APPROVED, TO_FIX, DOUBTED = "approved", "fix", "unsure"


def by_case(contours: Iterable[Record]) -> dict[str, list[Record]]:
    """Return the redrawn masks (records of ``contours.jsonl``), keyed by case id."""
    found: dict[str, list[Record]] = {}
    for contour in contours:
        found.setdefault(contour["case_id"], []).append(contour)
    return found


def with_redrawn(record: Record, state: str | None, contours: Iterable[Record]) -> Record:
    """Return a manifest's line, with the redrawn mask if the case's review state is "fix".

    If a mask was redrawn in several ways, it is not replaced.
    """
    drawn = list(contours)
    # Readers who drew different masks have to agree on one of them first.
    if state != TO_FIX or not drawn or any(one["mask"] != drawn[0]["mask"] for one in drawn):
        return record
    return replaced(record, drawn[0])


def replaced(record: Record, new: Record) -> Record:
    """Return a manifest's line with a new mask that nobody has approved yet."""
    told: dict[str, Any] = {name: new[name] for name in ("edited_px", "edited_share", "hausdorff_px")}
    kept = {name: value for name, value in record.items() if name != "review_seen"}
    redrawn = {"by": new["reviewer"], **told, "signed_by": None}
    return {**kept, "review": TO_FIX, "mask": new["mask"], "redrawn": redrawn}


def at_source(contour: Record, case: Case) -> Record:
    """Return a redrawn mask at the size of the case's radiograph."""
    old = load_case(case).source_mask
    if old is None or contour["mask"]["size"] == list(old.shape):
        return contour
    after = from_rle(contour["mask"], f"the redrawn outline of '{case.case_id}'")
    # The mask was redrawn on a benchmark's smaller picture: only the pixels that the reviewer changed are taken over.
    changed = resample(after != resample(old, after.shape), old.shape)
    new = np.where(changed, resample(after, old.shape), old)
    return {**contour, "mask": to_rle(new), **compare(old, new)._asdict()}


def is_own(record: Mapping[str, Any], verdict: Verdict) -> bool:
    """Return True if a verdict is by the person who redrew the mask; such a verdict does not count.

    ``record`` is the manifest's line of the case.
    """
    redrawn = record.get("redrawn")
    return redrawn is not None and redrawn["by"].casefold() == verdict.reviewer.casefold()


def signed(record: Record, state: str | None, verdicts: Iterable[Verdict]) -> Record:
    """Return a manifest's line with the name of the person who approved its redrawn mask."""
    redrawn = record.get("redrawn")
    if redrawn is None or state != APPROVED:
        return record
    names = [verdict.reviewer for verdict in verdicts if verdict.verdict == ACCEPT]
    return {**record, "redrawn": {**redrawn, "signed_by": names[0]}} if names else record


def is_unsigned(record: Mapping[str, Any]) -> bool:
    """Return True if a manifest's line has a redrawn mask that nobody has approved."""
    redrawn = record.get("redrawn")
    return redrawn is not None and redrawn["signed_by"] is None


def read_folder(folder: Path, masks: ManifestMasks) -> dict[str, Record]:
    """Return the redrawn masks in ``folder``, keyed by case id; raise ``InputError`` for a mask that does not fit."""
    if not is_folder(folder):
        raise InputError(f"{folder}: is not a folder; give a folder with the masks as AUTHOR/CASE.png.")
    files = sorted(path for path in folder.glob("*/*.png") if path.is_file())
    if not files:
        raise InputError(
            f"{folder}: contains no AUTHOR/CASE.png; put each new mask into a folder named after its author."
        )
    found: dict[str, Record] = {}
    for path in files:
        case_id, author = path.stem, check_name(path.parent.name, str(path.parent))
        if case_id not in masks.places:
            raise InputError(f"{path}: '{case_id}' is not a case of {masks.path}; name the file after the case id.")
        if case_id in found:
            raise InputError(
                f"{path}: the case '{case_id}' has another mask, {folder / found[case_id]['reviewer'] / path.name}; "
                "remove one of the two files."
            )
        found[case_id] = _read(path, case_id, author, masks)
    return found


def _read(path: Path, case_id: str, author: str, masks: ManifestMasks) -> Record:
    old = load_case(masks.cases[masks.places[case_id]]).source_mask
    if old is None:
        raise InputError(
            f"{path}: the finding is absent in case '{case_id}', so there is no mask to redraw; remove the file."
        )
    new = read_mask_png(path)
    if new.shape != old.shape:
        raise InputError(
            f"{path}: the mask is {new.shape[1]} x {new.shape[0]} px, but the radiograph of case '{case_id}' has "
            f"{old.shape[1]} x {old.shape[0]} px; draw it at that size."
        )
    if not new.any():
        raise InputError(
            f"{path}: the mask is empty; draw the finding or, if the finding is absent, remove the file and reject "
            "the mask in a review."
        )
    return {"case_id": case_id, "reviewer": author, "mask": to_rle(new), **compare(old, new)._asdict()}
