"""Import of outlines that reviewers redrew on a page: they are checked, compared with the original mask, and stored.

Redrawn outlines become masks in ``contours.jsonl`` beside the verdicts. An import does not change the manifest. Later,
:mod:`chexqa.review.resolve.redrawn` puts a redrawn mask into a manifest, where a second reader must approve it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np

from chexqa.contract.cases import IMAGE_ROOT_HINT, Case, load_case, missing_file, read_manifest
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, read_jsonl, write_jsonl
from chexqa.files.opening import sha256_of
from chexqa.imaging import mask_source, masks
from chexqa.imaging.read import Mask, read_radiograph
from chexqa.review.binding import LESION, shown_mask
from chexqa.review.collect.read_page import SavedPage
from chexqa.review.collect.title_rows import Problem
from chexqa.review.collect.verdicts import Batch, Verdict, load_reviewed, recorded_manifest, reviewed_folder
from chexqa.review.columns import FIX, ID, check_name, mask_row_id
from chexqa.review.sheets.questions import made_from

CONTOURS = "contours.jsonl"
ContourKey = tuple[str, str, str]


class Redrawing(NamedTuple):
    """Difference between a redrawn mask and the original mask.

    - ``edited_px``: the number of changed pixels.
    - ``edited_share``: ``edited_px`` divided by the number of pixels of the original mask.
    - ``hausdorff_px``: the Hausdorff distance of the two borders in pixels.
    """

    edited_px: int
    edited_share: float
    hausdorff_px: float


def compare(before: Mask, after: Mask) -> Redrawing:
    """Return the difference between two masks ``(H, W)`` that are not empty.

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
    """Return the largest distance between a pixel of ``these`` and its nearest pixel of ``others``."""
    distance = cv2.distanceTransform((~others).view(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    return float(distance[these].max())


class ContourOptions(NamedTuple):
    """Options for reading redrawn masks.

    - ``manifest``: the path of the manifest or benchmark; None for the path in the batch file.
    - ``image_root``: the folder that a manifest's paths are relative to.
    - ``known``: the masks imported earlier, keyed by batch, sheet and row.
    - ``replace``: True if a new mask may replace one imported earlier.
    """

    manifest: Path | None
    image_root: Path | None
    known: Mapping[ContourKey, Record]
    replace: bool


def read_contours(
    batch: Batch, pages: Iterable[SavedPage], verdicts: Iterable[Verdict], order: ContourOptions,
    problems: list[Problem],
) -> list[Record]:  # fmt: skip
    """Return the redrawn masks of the rows whose verdict is "fix", as records of ``contours.jsonl``.

    For a mask that cannot be used, a problem is appended to ``problems``.
    """
    fixed = {verdict.row: verdict for verdict in verdicts if verdict.is_on_mask and verdict.verdict == FIX}
    drawn = [
        (page, row, fixed[row["cells"][ID]])
        for page in pages
        for row in page.about["rows"]
        if row["contour"] is not None and row["cells"].get(ID) in fixed
    ]
    if not drawn:
        return []
    drawable = _drawables(batch, order)
    found = []
    for page, row, verdict in drawn:
        try:
            record = _checked(row, verdict, drawable(verdict, row["contour"]["size"]))
            old = order.known.get(verdict.key)
            if old is not None and old["mask"] != record["mask"] and not order.replace:
                raise InputError(
                    f"the outline of '{verdict.row}' differs from the one imported earlier; give --replace if the new "
                    "one counts"
                )
            found.append(record)
        except InputError as error:
            problems.append(Problem(page.file, row["tab"], row["row"], str(error).rstrip(".")))
    return found


class Drawable(NamedTuple):
    """Original of a redrawn mask: the case's id in the manifest, the mask, and millimetres per pixel if known."""

    case_id: str
    before: Mask | None
    spacing: float | None


def _drawables(batch: Batch, order: ContourOptions) -> Callable[[Verdict, Sequence[int]], Drawable]:
    """Return a function that finds the original mask; its arguments are the verdict and the redrawn mask's size
    ``[height, width]``.
    """
    path = reviewed_folder(batch, order.manifest)
    if batch.about["benchmark"]["version"] is None:
        by_row = _manifest(path, order.image_root, batch.hash)
        return lambda verdict, _: _of_case(by_row[verdict.row], verdict.row)
    bench = load_reviewed(batch, order.manifest)
    _, keys = bench.key("redrawn masks")
    by_id = {mask_row_id(case_id): key for case_id, key in keys.items()}
    sources: dict[str, Case] = {}

    def found(verdict: Verdict, size: Sequence[int]) -> Drawable:
        key = by_id[verdict.row]
        stored = key.measures.get("masks", {}).get(LESION)
        if stored is None or list(stored["size"]) == list(size) or "manifest" not in batch.about:
            small = None if stored is None else masks.from_rle(stored, f"the key's mask of '{verdict.row}'")
            return Drawable(key.source_case_id, small, None)
        if not sources:
            place = recorded_manifest(batch)
            if place is None:
                raise InputError(
                    f"the manifest {batch.about['manifest']}, which the export used, is missing; restore this file"
                )
            sources.update(made_from(bench, read_manifest(place, order.image_root)))
        case = sources[key.case_id]
        if verdict.seen is not None and shown_mask(load_case(case)).seen != verdict.seen:
            raise InputError(
                f"the mask of '{verdict.row}' in {case.manifest} has changed since it was exported; export it again, "
                "and have the reviewer correct the new outline"
            )
        return _of_case(case, verdict.row)

    return found


def _manifest(path: Path, image_root: Path | None, expected: str) -> Mapping[str, Case]:
    manifest = read_manifest(path, image_root)
    file = manifest[0].manifest
    if sha256_of(file) != expected:
        raise InputError(
            f"{file}: this manifest has changed since the masks were exported from it; give an unchanged copy with "
            "--benchmark (the option also takes a manifest)."
        )
    return {mask_row_id(case.case_id): case for case in manifest}


def _of_case(case: Case, row: str) -> Drawable:
    lost = missing_file(case)
    if lost is not None:
        raise InputError(f"'{row}' has a new outline, but {lost.name} was not found; {IMAGE_ROOT_HINT}")
    shape = read_radiograph(case.image).shape
    before = None if case.mask is None else mask_source.read(case.mask, shape, f"the mask of '{row}'", case.mask_frame)
    spacing = case.pixel_spacing_mm
    return Drawable(case.case_id, before, None if spacing is None else sum(spacing) / 2)


def _checked(row: Record, verdict: Verdict, shown: Drawable) -> Record:
    """Return the record of a redrawn mask for ``contours.jsonl``.

    Raises ``InputError`` if there is no original mask, the sizes differ, or the redrawn mask is empty.
    """
    contour, where = row["contour"], f"the redrawn outline of '{verdict.row}'"
    if shown.before is None:
        raise InputError(
            f"{where} cannot be used, because the case has no original mask; give the verdict '{FIX}' without an "
            "outline"
        )
    height, width = shown.before.shape
    if contour["size"] != [height, width]:
        told = f"{where} is for {contour['size'][1]} x {contour['size'][0]} px, but its picture is {width} x {height}"
        raise InputError(f"{told}; ask the reviewer for the unchanged file that the review page saved")
    after = masks.from_rle(contour, where)
    if not after.any():
        raise InputError(f"{where} is empty; draw an outline, or give the verdict 'reject' if the finding is absent")
    measured = compare(shown.before, after)
    return {
        "batch": verdict.batch, "sheet": verdict.sheet, "reviewer": verdict.reviewer, "row": verdict.row,
        "case_id": shown.case_id, "mask": masks.to_rle(after), **measured._asdict(),
        "hausdorff_mm": None if shown.spacing is None else round(measured.hausdorff_px * shown.spacing, 2),
        "changes": contour["changes"], "imported": verdict.imported,
    }  # fmt: skip


def load_contours(folder: Path) -> dict[ContourKey, Record]:
    """Read the redrawn masks from a folder of verdicts; return them keyed by batch, sheet and row."""
    path = folder / CONTOURS
    if not path.exists():
        return {}
    found: dict[ContourKey, Record] = {}
    for line, one in read_jsonl(path, "contour"):
        check_name(one["reviewer"], f"{path}, line {line}")
        found[one["batch"], one["sheet"], one["row"]] = one
    return found


def keep_contours(
    folder: Path, known: Mapping[ContourKey, Record], found: Iterable[Record], pages: Iterable[SavedPage]
) -> None:
    """Add the redrawn masks ``found`` to the store in ``folder``, which contains the masks ``known``.

    A stored mask is removed if a page in ``pages`` contains the mask's row without an outline. A mask that did not
    change keeps the time of its first import.
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
