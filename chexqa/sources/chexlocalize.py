"""Reader of CheXlocalize: radiologists' outlines of ten findings on CheXpert's validation and test radiographs.

``gt_segmentations_<split>.json`` has run lengths. ``gt_annotations_<split>.json`` has polygons and ``img_size``,
``[height, width]``. Both files have the findings of each radiograph, keyed by ``patientX_studyY_viewZ_side``. The
pictures are ``CheXpert/<split>/patientX/studyY/viewZ_side.jpg``. Source: https://github.com/rajpurkarlab/cheXlocalize.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from chexqa.files.errors import InputError, WrongParts, suggest
from chexqa.files.jsonio import Record, is_file, is_folder, parse_json, read_text
from chexqa.imaging import masks
from chexqa.imaging.read import MAX_PIXELS
from chexqa.sources.anatomy import Anatomy, Options, bare
from chexqa.sources.case_records import Outcome, Places, Tally, Terms, parse_age, parse_sex, record
from chexqa.sources.tables import Table

FINDINGS = {
    "Atelectasis": "atelectasis",
    "Cardiomegaly": "cardiomegaly",
    "Consolidation": "consolidation",
    "Edema": "edema",
    "Pleural Effusion": "effusion",
    "Airspace Opacity": "opacity",
    "Lung Opacity": "opacity",
    "Pneumonia": "pneumonia",
    "Enlarged Cardiomediastinum": "enlarged_cardiomediastinum",
    "Lung Lesion": "lung_lesion",
    "Pneumothorax": "pneumothorax",
    "Support Devices": "support_devices",
}
# Labels of CheXpert that make a radiograph abnormal and have no finding in chexqa.
_OTHER_LABELS = ("Pleural Other", "Fracture")
SPLITS = ("val", "test")


@dataclass(frozen=True)
class Labels:
    """Row of a label file.

    - ``absent``: the findings with the label 0.
    - ``abnormal``: True if any finding has the label 1 (present) or -1 (uncertain).
    - ``details``: sex, age and view, if known.
    """

    absent: tuple[str, ...]
    abnormal: bool
    details: dict[str, Any]


def ingest(root: Path, manifest: Path, terms: Terms, anatomy: Options, labels: Path | None) -> Outcome:
    """Write a manifest of the data set in ``root``: one case for each outlined finding of each radiograph.

    - ``anatomy``: the source of masks of lungs and heart. In it, a radiograph's name must be
      ``patientX_studyY_viewZ_side`` or a path that ends in ``patientX/studyY/viewZ_side``.
    - ``labels``: a CSV with CheXpert's labels and a column ``Path`` or ``Study``. A radiograph's label 0 becomes a case
      without the finding.

    Masks are written into the manifest as run lengths. A damaged outline is recorded among the outcome's faults.
    """
    # Masks come from the split's file of run lengths, or from its polygons if that is missing; the pixels are the same.
    places = Places(manifest, [root, *anatomy.folders])
    outcome = Outcome(image_root=places.image_root)
    reader = _Reader(root, places, terms, Anatomy(anatomy, places, outcome, _key), outcome)
    outcome.write(manifest, reader.records(labels))
    return outcome


def read_outlines(path: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the outlines in a ``gt_…`` or ``hb_…`` file as run lengths, keyed by radiograph and then by finding.

    The file has run lengths or polygons. Empty outlines are left out. Raises ``InputError`` that lists the first
    damaged outlines and unknown findings.
    """
    outlines: dict[str, dict[str, dict[str, Any]]] = {}
    wrong = WrongParts(path, "outlines")
    for key, truth in _read_truth(path).items():
        outlines[key] = {}
        for name, outline in truth.items():
            if name == "img_size":
                continue
            with wrong.collected():
                finding = finding_of(name, f"{path}, {key}")
                rle = _run_lengths(outline, truth.get("img_size"), f"{path}, {key}, {name}")
                if rle is not None:
                    outlines[key][finding] = rle
    wrong.conclude()
    return outlines


def finding_of(name: str, where: str) -> str:
    """Return chexqa's name of a finding in CheXlocalize.

    For an unknown finding, ``InputError`` is raised; its message begins with ``where``.
    """
    if name not in FINDINGS:
        raise InputError(
            f"{where}: '{name}' is not one of CheXlocalize's findings{suggest(name, FINDINGS)}; correct the name."
        )
    return FINDINGS[name]


class _Reader:
    """Reader of the data set, one radiograph at a time."""

    def __init__(self, root: Path, places: Places, terms: Terms, anatomy: Anatomy, outcome: Outcome) -> None:
        self._root, self._places, self._terms, self._anatomy = root, places, terms, anatomy
        self._outcome, self._lost = outcome, Tally()
        self._files = {split: file for split in SPLITS if (file := _truth_file(root, split)) is not None}
        if not self._files:
            raise InputError(
                f"{root}: contains no gt_segmentations_*.json and no gt_annotations_*.json (* is val or test); name "
                "the data set's folder."
            )

    def records(self, labels: Path | None) -> Iterator[Record]:
        known = _read_labels(labels, self._root) if labels else {}
        for split, file in self._files.items():
            truth = _read_truth(file, self._root)
            for key in sorted(truth.keys() | {key for key in known if is_file(_picture(self._root, split, key))}):
                picture = _picture(self._root, split, key)
                if not is_file(picture):
                    self._lost.add(key)
                    continue
                yield from self._one(file, key, picture, truth.get(key, {}), known.get(key))
        self._lost.remark(self._outcome.remarks, "radiograph", "not found and left out")
        self._anatomy.remark()

    def _one(
        self, file: Path, key: str, picture: Path, truth: dict[str, Any], labels: Labels | None
    ) -> Iterator[Record]:
        """Yield the cases of one radiograph: one with the finding for each outline, one without for each label 0."""
        image = self._places.relative(self._root, str(picture.relative_to(self._root)))
        patient, study, side = key.split("_", 2)
        outlined = self._outlines(truth, f"{file}, {key}")
        absent = [finding for finding in (labels.absent if labels else ()) if finding not in outlined]
        shown = {finding: mask for finding, mask in outlined.items() if mask is not None}
        if not shown and not absent:
            return
        details: dict[str, Any] = {
            "anatomy": self._anatomy.of(key) or {},
            "patient_id": patient,
            "study_id": f"{patient}_{study}",
            "view": side.rpartition("_")[2],
            **(labels.details if labels else {}),
        }
        for finding, mask in shown.items():
            yield record(f"{key}/{finding}", image, finding, mask, self._terms, **details)
        kind = "other" if outlined or (labels and labels.abnormal) else "normal"
        for finding in absent:
            yield record(f"{key}/{finding}", image, finding, None, self._terms, **details, negative_kind=kind)

    def _outlines(self, truth: dict[str, Any], where: str) -> dict[str, dict[str, Any] | None]:
        """Return the run lengths of each outlined finding of one radiograph, keyed by finding.

        A damaged outline gives ``None``; an empty outline is left out.
        """
        outlined: dict[str, dict[str, Any] | None] = {}
        for name, outline in truth.items():
            if name == "img_size":
                continue
            try:
                finding_of(name, where)
                rle = _run_lengths(outline, truth.get("img_size"), f"{where}, {name}")
            except InputError as error:
                self._outcome.fault(error)
                outlined[FINDINGS.get(name, name)] = None
                continue
            if rle is not None:
                outlined[FINDINGS[name]] = rle
        return outlined


def _key(name: str) -> str:
    """Return ``patientX_studyY_viewZ_side`` from a path that ends in these parts, as in CheXpert and CheXmask."""
    return "_".join(bare(name).split("/")[-3:])


def _truth_file(root: Path, split: str) -> Path | None:
    names = (f"gt_segmentations_{split}.json", f"gt_annotations_{split}.json")
    return next((root / name for name in names if is_file(root / name)), None)


def _picture(root: Path, split: str, key: str) -> Path:
    patient, study, view = key.split("_", 2)
    return root / "CheXpert" / split / patient / study / f"{view}.jpg"


def _read_truth(path: Path, inside: Path | None = None) -> dict[str, dict[str, Any]]:
    truth = parse_json(read_text(path, inside=inside), str(path))
    if not isinstance(truth, dict) or not all(isinstance(entry, dict) for entry in truth.values()):
        raise InputError(
            f"{path}: is not a JSON object of findings keyed by radiograph; give one of CheXlocalize's files."
        )
    for key in truth:
        if key.count("_") < 2 or not all(key.split("_")) or "/" in key or ".." in key:
            raise InputError(f"{path}: the key '{key}' is not of the form patientX_studyY_viewZ_side; correct it.")
    return truth


def _run_lengths(outline: Any, size: Any, where: str) -> dict[str, Any] | None:
    """Return the run lengths of an outline, which is given as run lengths or polygons; ``None`` if it is empty.

    ``size`` is the picture's ``[height, width]``.
    """
    if isinstance(outline, dict):
        rle = {"size": outline.get("size"), "counts": outline.get("counts")}
        _check_size(rle["size"], where)
        if not isinstance(rle["counts"], str):
            raise InputError(f"{where}: 'counts' must be a string of compressed run lengths.")
        return rle if masks.rle_area(rle, where) else None
    mask = masks.from_polygons(_polygons(outline, where), _check_size(size, where), where)
    return masks.to_rle(mask) if mask.any() else None


def _check_size(size: Any, where: str) -> tuple[int, int]:
    if not (isinstance(size, list) and len(size) == 2 and all(type(side) is int and side > 0 for side in size)):
        raise InputError(f"{where}: the size must be [height, width] in pixels, not {size}.")
    if size[0] * size[1] > MAX_PIXELS:
        raise InputError(f"{where}: the size {size} has more than {MAX_PIXELS:,} pixels; correct it.")
    return size[0], size[1]


def _polygons(value: Any, where: str) -> list[list[list[float]]]:
    """Return the polygons that enclose an area; those with fewer than three points (clicks and lines) are left out."""
    try:
        arrays = [np.asarray(polygon, np.float64) for polygon in value]
    except (TypeError, ValueError, OverflowError):
        arrays = [np.zeros(0)]
    if not all(array.ndim == 2 and array.shape[1] == 2 for array in arrays):
        raise InputError(f"{where}: must be a list of polygons, each a list of [x, y].")
    return [array.tolist() for array in arrays if len(array) > 2]


def _read_labels(path: Path, root: Path) -> dict[str, Labels]:
    """Return the labels of the radiographs under ``root``; a study's row applies to each of its radiographs."""
    known: dict[str, Labels] = {}
    for line, _, row in Table(path).rows():
        where = f"{path}, line {line}"
        column = next((name for name in ("Path", "Study") if row.get(name)), None)
        if column is None:
            raise InputError(
                f"{where}: neither 'Path' nor 'Study' is filled in, so the radiograph is unknown; fill in one of them."
            )
        parts = PurePosixPath(row[column].removesuffix(".jpg")).parts
        if ".." in parts or "/" in parts or len(parts) < (3 if column == "Path" else 2):
            raise InputError(f"{where}: '{row[column]}' is not the path of a CheXpert radiograph or study; correct it.")
        keys = ["_".join(parts[-3:])]
        if column == "Study":
            folders = [root / "CheXpert" / split / parts[-2] / parts[-1] for split in SPLITS]
            there = [file for folder in folders if is_folder(folder) for file in sorted(folder.glob("*.jpg"))]
            keys = ["_".join((*parts[-2:], file.stem)) for file in there]
        labels = _row_labels(row, where)
        known.update(dict.fromkeys((key for key in keys if _is_there(root, key)), labels))
    return known


def _is_there(root: Path, key: str) -> bool:
    """Return True if the folder of a split has the radiograph; CheXpert's label files list many more radiographs."""
    return any(is_file(_picture(root, split, key)) for split in SPLITS)


def _row_labels(row: dict[str, str], where: str) -> Labels:
    values: dict[str, float] = {}
    for name in (*FINDINGS, *_OTHER_LABELS):
        if row.get(name):
            try:
                values[name] = float(row[name])
            except ValueError:
                values[name] = float("nan")
            if values[name] not in (1, 0, -1):
                raise InputError(f"{where}: '{name}' is '{row[name]}'; labels are 1, 0, -1 or empty; correct it.")
    details = {"sex": parse_sex(row.get("Sex", ""), where), "age": parse_age(row.get("Age", ""), where)}
    if row.get("AP/PA"):
        details["view"] = row["AP/PA"]
    # An uncertain label (-1) makes the radiograph abnormal; support devices do not.
    abnormal = any(value != 0 for name, value in values.items() if name != "Support Devices")
    absent = dict.fromkeys(FINDINGS[name] for name, value in values.items() if name in FINDINGS and value == 0)
    return Labels(tuple(absent), abnormal, details)
