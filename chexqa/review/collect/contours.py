"""Outlines that reviewers redrew on a page: checked, measured against the mask before, and stored as masks.

They are stored in ``contours.jsonl`` beside the verdicts. A redrawn mask does not replace a mask by itself:
:mod:`chexqa.review.resolve.redrawn` puts it into a manifest, where it waits for a second reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np

from chexqa.contract.cases import Case, read_manifest
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, read_jsonl, write_jsonl
from chexqa.files.opening import sha256_of
from chexqa.imaging import mask_source, masks
from chexqa.imaging.read import Mask, read_radiograph
from chexqa.review.collect.read_page import SavedPage
from chexqa.review.collect.title_rows import Problem
from chexqa.review.collect.verdicts import Batch, Verdict, reviewed_folder
from chexqa.review.columns import FIX, ID, mask_row_id

CONTOURS = "contours.jsonl"
ContourKey = tuple[str, str, str]


class Redrawing(NamedTuple):
    """Difference between a redrawn mask and the mask before.

    The fields are the number of changed pixels, their share of the mask before, and the Hausdorff distance of the two
    borders in pixels.
    """

    edited_px: int
    edited_share: float
    hausdorff_px: float


def compare(before: Mask, after: Mask) -> Redrawing:
    """Return the difference between two masks ``(H, W)``, neither of them empty.

    >>> square = np.zeros((20, 20), bool); square[5:15, 5:15] = True
    >>> wider = square.copy(); wider[5:15, 15:18] = True
    >>> compare(square, wider)
    Redrawing(edited_px=30, edited_share=0.3, hausdorff_px=3.0)
    """
    edited = int(np.count_nonzero(before != after))
    around = masks.window(before | after, 2)
    first, second = _border(before[around]), _border(after[around])
    far = max(_farthest(first, second), _farthest(second, first))
    return Redrawing(edited, round(edited / int(np.count_nonzero(before)), 4), round(far, 2))


def _border(mask: Mask) -> Mask:
    """Return the pixels of a mask that touch its outside."""
    padded = np.pad(mask, 1).view(np.uint8)
    inner = cv2.erode(padded, cv2.getStructuringElement(cv2.MORPH_CROSS, (3, 3)))
    return np.asarray((padded != inner)[1:-1, 1:-1])


def _farthest(these: Mask, others: Mask) -> float:
    """Return the largest distance from a pixel of ``these`` to the nearest pixel of ``others``."""
    distance = cv2.distanceTransform((~others).view(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    return float(distance[these].max())


class ContourOptions(NamedTuple):
    """Options for reading redrawn masks.

    They are the manifest (by default the one in the batch file), the folder that its paths start in, the masks imported
    before, and whether new masks may replace these.
    """

    manifest: Path | None
    image_root: Path | None
    known: Mapping[ContourKey, Record]
    replace: bool


def read_contours(
    batch: Batch, pages: Iterable[SavedPage], verdicts: Iterable[Verdict], order: ContourOptions,
    problems: list[Problem],
) -> list[Record]:  # fmt: skip
    """Return the redrawn masks of cases with the verdict "fix".

    Append a problem for each faulty mask to ``problems``.
    """
    fixed = {verdict.row: verdict for verdict in verdicts if verdict.kind == "masks" and verdict.verdict == FIX}
    drawn = [
        (page, row, fixed[row["cells"][ID]])
        for page in pages
        for row in page.about["rows"]
        if row["contour"] is not None and row["cells"].get(ID) in fixed
    ]
    if not drawn:
        return []
    cases = _cases(batch, order.manifest, order.image_root)
    found = []
    for page, row, verdict in drawn:
        try:
            record = _checked(row, verdict, cases[verdict.row])
            old = order.known.get(verdict.key)
            if old is not None and old["mask"] != record["mask"] and not order.replace:
                raise InputError(f"'{verdict.row}' has a different outline from an earlier import; give --replace")
            found.append(record)
        except InputError as error:
            problems.append(Problem(page.file, row["tab"], row["row"], str(error).rstrip(".")))
    return found


def _cases(batch: Batch, given: Path | None, image_root: Path | None) -> Mapping[str, Case]:
    path = reviewed_folder(batch, given)
    manifest = read_manifest(path, image_root)
    file = manifest[0].manifest
    if sha256_of(file) != batch.hash:
        raise InputError(
            f"{file}: has changed since the masks were exported from it; give the original manifest as --benchmark."
        )
    return {mask_row_id(case.case_id): case for case in manifest}


def _checked(row: Record, verdict: Verdict, case: Case) -> Record:
    """Return the record of a redrawn mask; raise ``InputError`` if the mask does not fit its picture."""
    height, width = read_radiograph(case.image).shape
    contour, where = row["contour"], f"the redrawn outline of '{verdict.row}'"
    if contour["size"] != [height, width]:
        told = f"{where} is for {contour['size'][1]} x {contour['size'][0]} px, but its picture is {width} x {height}"
        raise InputError(f"{told}; send what the page saved")
    after = masks.from_rle(contour, where)
    if case.mask is None:
        raise InputError(f"{where} has no mask to redraw; say '{FIX}' without an outline")
    before = mask_source.read(case.mask, (height, width), f"the mask of '{verdict.row}'", case.mask_frame)
    if not after.any():
        raise InputError(f"{where} is empty; put 'reject' if the finding is absent")
    measured = compare(before, after)
    spacing = case.pixel_spacing_mm
    return {
        "batch": verdict.batch, "sheet": verdict.sheet, "reviewer": verdict.reviewer, "row": verdict.row,
        "case_id": case.case_id, "mask": masks.to_rle(after), **measured._asdict(),
        "hausdorff_mm": None if spacing is None else round(measured.hausdorff_px * sum(spacing) / 2, 2),
        "changes": contour["changes"], "imported": verdict.imported,
    }  # fmt: skip


def load_contours(folder: Path) -> dict[ContourKey, Record]:
    """Return the redrawn masks in a folder of verdicts, by (batch, sheet, row)."""
    path = folder / CONTOURS
    if not path.exists():
        return {}
    return {(one["batch"], one["sheet"], one["row"]): one for _, one in read_jsonl(path, "contour")}


def keep_contours(
    folder: Path, known: Mapping[ContourKey, Record], found: Iterable[Record], pages: Iterable[SavedPage]
) -> None:
    """Write redrawn masks to ``folder``.

    ``known`` are the earlier ones, which are dropped if their row has no outline now. An unchanged outline keeps the
    time of its first import.
    """
    kept = dict(known)
    for page in pages:
        for row in page.about["rows"]:
            if row["contour"] is None:
                kept.pop((page.about["batch"], page.about["sheet"], row["cells"].get(ID, "")), None)
    for record in found:
        key = record["batch"], record["sheet"], record["row"]
        if key not in known or known[key]["mask"] != record["mask"]:
            kept[key] = record
    if kept != known:
        write_jsonl(folder / CONTOURS, (kept[key] for key in sorted(kept)), "contour")
