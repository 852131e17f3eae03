"""Reader of MIMIC-ILS: masks of seven findings on MIMIC-CXR-JPG, with instructions; credentialed data of PhysioNet.

``mimic_ils_instruction_answer.json`` has the studies of each split, keyed by split and then by study. A study has
``subject_id``, ``dicom_id``, ``image_path`` and ``instruction_answer_pairs``: the lists ``positive_pairs`` and
``negative_pairs``. A pair has ``type`` (``global``, ``basic``, ``lesion_inference``), ``target`` (the finding) and
``seg_mask_path``. The masks are in ``lesion_mask``; the pictures are those of MIMIC-CXR-JPG. Source:
https://github.com/checkoneee/ROSALIA.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from chexqa.contract.findings import CHEXPERCEPT_FINDINGS
from chexqa.files.errors import InputError, suggest
from chexqa.files.jsonio import Record, is_file
from chexqa.sources.anatomy import Anatomy, Options, tails
from chexqa.sources.case_records import Outcome, Places, Tally, Terms, frame_of, record
from chexqa.sources.json_stream import grandchildren

FILE, MASKS = "mimic_ils_instruction_answer.json", "lesion_mask"


def ingest(root: Path, manifest: Path, terms: Terms, images: Path, masks: Path | None, anatomy: Options) -> Outcome:
    """Write a manifest of the data set in ``root``, whose pictures are in the folder ``images``.

    - ``masks``: the folder of masks; None for ``lesion_mask`` in ``root``.
    - ``anatomy``: the source of masks of lungs and heart, in which a picture's name is its ``dicom_id``.

    A finding with a positive pair (an instruction and a mask) is present; its mask is that of the ``global`` pair or,
    without one, of the first ``basic`` pair. A finding with a negative ``global`` pair is absent. A problem in one
    study is recorded among the outcome's faults.
    """
    if not is_file(root / FILE):
        raise InputError(f"{root}: contains no {FILE}; name the folder that contains this file.")
    masks = masks or root / MASKS
    places = Places(manifest, [images, masks, *anatomy.folders])
    outcome = Outcome(image_root=places.image_root)
    reader = _Reader(images, masks, places, terms, Anatomy(anatomy, places, outcome), outcome)
    outcome.write(manifest, reader.records(root / FILE))
    return outcome


class _Reader:
    """Reader of the data set, one study at a time."""

    def __init__(
        self, images: Path, masks: Path, places: Places, terms: Terms, anatomy: Anatomy, outcome: Outcome
    ) -> None:
        self._images, self._masks, self._places, self._terms = images, masks, places, terms
        self._anatomy, self._outcome = anatomy, outcome
        self._lost, self._lost_masks = Tally(), Tally()

    def records(self, file: Path) -> Iterator[Record]:
        for split, study, entry in grandchildren(file, file.parent):
            where = f"{file}, {study or split}"
            try:
                if not study:
                    raise InputError(f"{where}: the name of a study is empty; write the study's name there.")
                yield from self._one(study, entry, where)
            except InputError as error:
                self._outcome.fault(error)
        self._lost.remark(self._outcome.remarks, "radiograph", "not found and left out")
        self._lost_masks.remark(self._outcome.remarks, "mask", "not found and its case left out")
        self._anatomy.remark()

    def _one(self, study: str, entry: Any, where: str) -> Iterator[Record]:
        """Yield the cases of one study."""
        path, dicom = _text(entry, "image_path", where), _text(entry, "dicom_id", where)
        positive, negative = _pairs(entry, "positive_pairs", where), _pairs(entry, "negative_pairs", where)
        shown, absent = _masks_by_finding(positive, where), _absent(negative)
        flat = (f"{dicom}{suffix}" for suffix in (".png", ".jpg"))
        found = next((name for name in (path, *flat) if is_file(self._images / name)), None)
        if found is None:
            self._lost.add(path)
            return
        image = self._places.relative(self._images, found)
        details = {
            "patient_id": _subject(entry, where) or PurePosixPath(path).parent.parent.name or None,
            "study_id": study,
            "anatomy": self._anatomy.of(*tails(dicom)) or {},
        }
        for finding, names in shown.items():
            mask = next((name for name in names if is_file(self._masks / name)), None)
            if mask is None:
                self._lost_masks.add(names[0])
                continue
            # A square mask of a picture that is not square was drawn on the picture stretched to a square.
            frame = frame_of(self._masks / mask, self._images / found)
            mask = self._places.relative(self._masks, mask)
            if self._outcome.is_first(f"{study}/{finding}", where):
                yield record(f"{study}/{finding}", image, finding, mask, self._terms, **details, **frame)
        targets = {pair["target"] for pair in positive}
        kind = "other" if targets else "normal"
        for finding in absent:
            if finding in targets:
                self._outcome.fault(
                    f"{where}: '{finding}' has a positive pair and a negative global pair, so no case without the "
                    "finding is made"
                )
                continue
            if self._outcome.is_first(f"{study}/{finding}", where):
                yield record(f"{study}/{finding}", image, finding, None, self._terms, **details, negative_kind=kind)


def _text(entry: Any, name: str, where: str) -> str:
    value = entry.get(name) if isinstance(entry, dict) else None
    if not isinstance(value, str) or not value:
        raise InputError(f"{where}: has no '{name}'; add it.")
    return value


def _subject(entry: dict[str, Any], where: str) -> str | None:
    """Return the patient's id as text; in MIMIC-CXR's own tables the id is a whole number."""
    value = entry.get("subject_id")
    if value is not None and type(value) not in (str, int):
        raise InputError(f"{where}: 'subject_id' is {value}, neither text nor a whole number; correct it.")
    return None if value is None else str(value)


def _pairs(entry: dict[str, Any], name: str, where: str) -> list[dict[str, Any]]:
    """Return the pairs in the list ``name``; raise ``InputError`` if the target of a pair is an unknown finding."""
    pairs = entry.get("instruction_answer_pairs")
    listed = pairs.get(name) if isinstance(pairs, dict) else None
    if not isinstance(listed, list) or not all(isinstance(pair, dict) for pair in listed):
        raise InputError(f"{where}: has no list '{name}' in 'instruction_answer_pairs'; add it.")
    for pair in listed:
        if pair.get("target") not in CHEXPERCEPT_FINDINGS:
            target = pair.get("target")
            raise InputError(
                f"{where}: '{target}' is not one of MIMIC-ILS's findings{suggest(str(target), CHEXPERCEPT_FINDINGS)}; "
                "correct the name."
            )
    return listed


def _masks_by_finding(pairs: list[dict[str, Any]], where: str) -> dict[str, list[str]]:
    """Return the possible paths of each finding's mask: those of its ``global`` pair, or of its first ``basic`` pair.

    Each pair has two possible paths: the path in the data set, and the path at which ROSALIA's scripts write a
    predicted mask, ``<target>/<pair_id>/pred_mask.png``.
    """
    chosen: dict[str, list[str]] = {}
    for kind in ("global", "basic"):
        for pair in pairs:
            if pair.get("type") == kind and pair["target"] not in chosen:
                drawn = _text(pair, "seg_mask_path", f"{where}, {pair.get('pair_id')}")
                number = pair.get("pair_id")
                plain = isinstance(number, (str, int)) and not {"/", "\\"} & {*str(number)} and str(number) != ".."
                chosen[pair["target"]] = [drawn, *[f"{pair['target']}/{number}/pred_mask.png"] * plain]
    return chosen


def _absent(pairs: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(pair["target"] for pair in pairs if pair.get("type") == "global"))
