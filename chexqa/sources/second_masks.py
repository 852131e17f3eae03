"""Masks of a second reader for the cases of a benchmark, from a manifest or a folder of PNG files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.cases import MANIFEST, load_case, read_manifest
from chexqa.contract.items import CaseKey
from chexqa.files.errors import InputError
from chexqa.imaging.mask_source import is_box
from chexqa.imaging.read import mask_to_working, read_mask_png

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class SecondMask:
    """Mask ``(H, W)`` at the working size, all False if the second reader calls the finding absent; or a box."""

    mask: Mask
    is_box: bool = False


def read_second_masks(folder: Path, benchmark: Benchmark, image_root: Path | None = None) -> dict[str, SecondMask]:
    """Return the second masks by the benchmark's case ids.

    ``folder`` is a manifest, or holds ``cases.jsonl``, or PNG files named like the source's case ids. Cases that the
    benchmark lacks are passed over. Raises ``InputError`` if nothing fits, for a mask that was redrawn in a review
    (its reader saw the first mask), and for a mask of another radiograph or size.
    """
    _, cases = benchmark.key("--second-masks")
    wanted = {case.source_case_id: case for case in cases.values()}
    if folder.is_file() or (folder / MANIFEST).is_file():
        found = _of_manifest(folder, wanted, image_root)
    else:
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder; name the second reader's masks.")
        found = {
            wanted[path.stem].case_id: SecondMask(_sized(path, wanted[path.stem]))
            for path in sorted(folder.glob("*.png"))
            if path.stem in wanted
        }
    if not found:
        raise InputError(
            f"{folder}: has no mask of a case of {benchmark.folder}; give a manifest with the same case ids, or files "
            "CASE.png named like these."
        )
    return found


def _of_manifest(path: Path, wanted: Mapping[str, CaseKey], image_root: Path | None) -> dict[str, SecondMask]:
    found = {}
    for case in read_manifest(path, image_root):
        key = wanted.get(case.case_id)
        if key is None:
            continue
        where = f"{case.manifest}, line {case.line}"
        if case.redrawn is not None:
            raise InputError(
                f"{where}: this mask was redrawn in a review, so its reader saw the first one; give masks drawn blind."
            )
        loaded = load_case(case)
        if loaded.image_key != key.measures.get("image_key"):
            raise InputError(f"{where}: is of another radiograph than case '{case.case_id}' of the benchmark.")
        mask = np.zeros(loaded.working.shape, bool) if loaded.lesion is None else loaded.lesion
        found[key.case_id] = SecondMask(mask, is_box(case.mask))
    return found


def _sized(path: Path, key: CaseKey) -> Mask:
    mask = mask_to_working(read_mask_png(path))
    first = next(iter(key.measures.get("masks", {}).values()), None)
    if first is not None and tuple(first["size"]) != mask.shape:
        height, width = first["size"]
        raise InputError(
            f"{path}: has {mask.shape[1]} x {mask.shape[0]} pixels at the working size, but the benchmark's masks have "
            f"{width} x {height}; give the mask in the radiograph's own size."
        )
    return mask
