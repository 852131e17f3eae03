"""Reader of ChestX-Det: three radiologists' outlines of thirteen findings on 3,578 of NIH's radiographs; open data.

``ChestX_Det_train.json`` and ``ChestX_Det_test.json`` are lists of radiographs. An entry has ``file_name``, and lists
with a value for each outlined instance: ``syms`` (its finding), ``boxes`` and ``polygons`` (in pixels of 1024 x 1024).
The pictures' names differ from NIH's. Source: https://github.com/Deepwise-AILab/ChestX-Det-Dataset.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import shapely

from chexqa.contract.findings import find
from chexqa.files.errors import InputError, suggest
from chexqa.files.jsonio import Record, is_file, parse_json, read_text
from chexqa.files.terminal import progress
from chexqa.imaging import masks
from chexqa.sources.anatomy import Anatomy, Options, tails
from chexqa.sources.case_records import Outcome, Places, Tally, Terms, record

SPLITS = ("train", "test")
SIDE = 1024
FINDINGS = {
    "Atelectasis": "atelectasis",
    "Calcification": "calcification",
    "Cardiomegaly": "cardiomegaly",
    "Consolidation": "consolidation",
    "Diffuse Nodule": "diffuse_nodule",
    "Effusion": "effusion",
    "Emphysema": "emphysema",
    "Fibrosis": "fibrosis",
    "Fracture": "fracture",
    "Mass": "mass",
    "Nodule": "nodule",
    "Pleural Thickening": "pleural_thickening",
    "Pneumothorax": "pneumothorax",
}


def ingest(
    root: Path, manifest: Path, terms: Terms, images: Path | None, anatomy: Options, absent: Sequence[str]
) -> Outcome:
    """Write a manifest of the data set in ``root``: one case for each finding of each radiograph.

    A case's mask is the union of all instances of its finding. The pictures are in the folder ``images`` (default:
    ``root``), or in its subfolders ``train_data``, ``test_data``, ``train`` or ``test``. For each finding
    in ``absent``, a radiograph without any outline becomes a case in which this finding is absent. A damaged entry is
    left out and recorded among the outcome's faults.
    """
    images = images or root
    files = [(split, root / f"ChestX_Det_{split}.json") for split in SPLITS]
    if not any(is_file(file) for _, file in files):
        raise InputError(
            f"{root}: contains neither ChestX_Det_train.json nor ChestX_Det_test.json; name another folder."
        )
    for name in absent:
        find(name, "--findings")
    places = Places(manifest, [images, *anatomy.folders])
    outcome = Outcome(image_root=places.image_root)
    reader = _Reader(images, places, terms, Anatomy(anatomy, places, outcome), tuple(dict.fromkeys(absent)), outcome)
    outcome.write(manifest, reader.records([(split, file) for split, file in files if is_file(file)]))
    return outcome


class _Reader:
    """Reader of the annotation files, one radiograph at a time."""

    def __init__(
        self, images: Path, places: Places, terms: Terms, anatomy: Anatomy, absent: tuple[str, ...], outcome: Outcome
    ) -> None:
        self._images, self._places, self._terms, self._anatomy = images, places, terms, anatomy
        self._absent, self._outcome = absent, outcome
        self._lost, self._crossed = Tally(), Tally()

    def records(self, files: Sequence[tuple[str, Path]]) -> Iterator[Record]:
        for split, file in files:
            entries = parse_json(read_text(file, inside=file.parent), str(file))
            if not isinstance(entries, list):
                raise InputError(f"{file}: must be a list of radiographs, as ChestX-Det writes it.")
            first: dict[str, int] = {}
            with progress(f"reading {file.name}", len(entries)) as step:
                for number, entry in enumerate(entries, start=1):
                    where = f"{file}, entry {number}"
                    try:
                        name, instances = _checked(entry, where)
                        if first.setdefault(name, number) != number:
                            raise InputError(
                                f"{where}: the picture '{name}' is already in entry {first[name]}, and only that "
                                "entry is used"
                            )
                        yield from self._one(split, name, instances, f"{file}, {name}")
                    except InputError as error:
                        self._outcome.fault(error)
                    step()
        self._lost.remark(self._outcome.remarks, "radiograph", "not found and left out")
        self._crossed.remark(
            self._outcome.remarks, "outline", "with a line that crosses itself, filled by the even-odd rule"
        )
        self._anatomy.remark()

    def _one(self, split: str, name: str, instances: list[tuple[str, Any]], where: str) -> Iterator[Record]:
        """Yield the cases of one radiograph."""
        picture = self._picture(split, name)
        if picture is None:
            self._lost.add(name)
            return
        image = self._places.relative(self._images, picture)
        details = {"anatomy": self._anatomy.of(*tails(name)) or {}}
        stem = f"{split}/{tails(name)[-1]}"
        if not instances:
            for finding in self._absent:
                if self._outcome.is_first(f"{stem}/{finding}", where):
                    yield record(
                        f"{stem}/{finding}", image, finding, None, self._terms, **details, negative_kind="normal"
                    )
        for symptom in dict.fromkeys(symptom for symptom, _ in instances):
            polygons = [polygon for other, polygon in instances if other == symptom]
            try:
                mask = self._mask(polygons, f"{where}, {symptom}")
            except InputError as error:
                self._outcome.fault(error)
                continue
            if self._outcome.is_first(f"{stem}/{FINDINGS[symptom]}", where):
                yield record(f"{stem}/{FINDINGS[symptom]}", image, FINDINGS[symptom], mask, self._terms, **details)

    def _picture(self, split: str, name: str) -> str | None:
        """Return the picture's path inside the folder of pictures, or ``None`` if it is missing."""
        places = (name, f"{split}_data/{name}", f"{split}/{name}")
        return next((place for place in places if is_file(self._images / place)), None)

    def _mask(self, polygons: list[Any], where: str) -> dict[str, Any]:
        """Return the run lengths of the union of all instances of one finding.

        An outline that crosses itself is counted in a remark and filled by the even-odd rule. shapely's ``make_valid``
        is not used: it would change 35 of the 42 such outlines of the test split, by up to 91 pixels, and therefore the
        keys of existing benchmarks.
        """
        points = [_points(polygon, where) for polygon in polygons]
        mask = masks.from_polygons([outline.tolist() for outline in points], (SIDE, SIDE), where)
        for outline in points:
            if not shapely.Polygon(outline).is_valid:
                self._crossed.add(where)
        return masks.to_rle(mask)


def _checked(entry: Any, where: str) -> tuple[str, list[tuple[str, Any]]]:
    """Return ``(file name, [(finding's name, polygon), …])`` of one entry."""
    if not isinstance(entry, dict) or not isinstance(entry.get("file_name"), str) or not entry["file_name"]:
        raise InputError(f"{where}: has no 'file_name'; add it.")
    name = entry["file_name"]
    if name != PurePosixPath(name).name or "\0" in name or name == "..":
        raise InputError(f"{where}: 'file_name' must be a picture's name without a folder, not '{name}'.")
    symptoms, polygons = entry.get("syms"), entry.get("polygons")
    if not isinstance(symptoms, list) or not isinstance(polygons, list) or len(symptoms) != len(polygons):
        raise InputError(f"{where}, {name}: 'syms' and 'polygons' must be lists of the same length.")
    for symptom in symptoms:
        if not isinstance(symptom, str) or symptom not in FINDINGS:
            raise InputError(
                f"{where}, {name}: '{symptom}' is not one of ChestX-Det's findings{suggest(str(symptom), FINDINGS)}; "
                "correct the name."
            )
    return name, list(zip(symptoms, polygons, strict=True))


def _points(polygon: Any, where: str) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return the vertices of one instance's polygon, ``(number of vertices, 2)``; there must be at least three."""
    try:
        points = np.asarray(polygon, np.float64)
    except (TypeError, ValueError, OverflowError):
        points = np.zeros((0, 0))
    if points.ndim != 2 or points.shape[1] != 2 or len(points) < 3:
        raise InputError(f"{where}: a polygon must be a list of three or more [x, y].")
    return points.reshape(len(points), 2)
