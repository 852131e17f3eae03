"""Reader of MIMIC-ILS: masks of seven findings on MIMIC-CXR-JPG, with instructions; credentialed data of PhysioNet.

``mimic_ils_instruction_answer.json`` has the studies of each split, keyed by split and then by study. A study has
``subject_id``, ``dicom_id``, ``image_path`` and ``instruction_answer_pairs``: the lists ``positive_pairs`` and
``negative_pairs``. A pair has ``type`` (``global``, ``basic``, ``lesion_inference``), ``target`` (the finding) and
``seg_mask_path``. The masks are in ``lesion_mask``; the pictures are those of MIMIC-CXR-JPG. Source:
https://github.com/checkoneee/ROSALIA.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, TextIO

from chexqa.contract.findings import CHEXPERCEPT_FINDINGS
from chexqa.files.errors import InputError, suggest
from chexqa.files.jsonio import Record, is_file, reading, refuse_halves
from chexqa.files.opening import open_text
from chexqa.files.terminal import progress
from chexqa.imaging.mask_source import proportional
from chexqa.sources.anatomy import Anatomy, Options, tails
from chexqa.sources.case_records import Outcome, Places, Tally, Terms, record, size_of

FILE, MASKS = "mimic_ils_instruction_answer.json", "lesion_mask"
# The file is too large for memory. The library ijson is not used: it takes four times as long, does not limit the
# length and depth of a value, and reads a damaged character (half of a surrogate pair) as "?".
_CHUNK = 1 << 20
# Longest value in characters. An entry of a data set takes kilobytes, so a longer value is damaged.
_LONGEST_VALUE = 32 * _CHUNK
_SPACE = " \t\r\n"


def ingest(root: Path, manifest: Path, terms: Terms, images: Path, masks: Path | None, anatomy: Options) -> Outcome:
    """Write a manifest of the data set in ``root``, whose pictures are in the folder ``images``.

    - ``masks``: the folder of masks; None for ``lesion_mask`` in ``root``.
    - ``anatomy``: the source of masks of lungs and heart; it must name each picture by its ``dicom_id``.

    A study has positive and negative pairs of an instruction and an answer; each pair is about one finding and has a
    type, such as ``global``.

    - A finding with a positive ``global`` or ``basic`` pair is present. Its mask is that of the ``global`` pair or, if
      there is none, of the first ``basic`` pair.
    - A finding with a negative ``global`` pair is absent.

    Problems in single studies are returned as faults of the outcome.
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
            frame = _frame_of(self._masks / mask, self._images / found)
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


def _frame_of(mask: Path, picture: Path) -> dict[str, str]:
    """Return ``{"mask_frame": "stretched"}`` if a mask is square but its picture is not, otherwise ``{}``."""
    size, shape = size_of(mask), size_of(picture)
    if size is None or shape is None:
        return {}  # a damaged mask is reported when its pixels are read
    return {"mask_frame": "stretched"} if size[0] == size[1] and not proportional(size, shape) else {}


def grandchildren(path: Path, inside: Path | None = None) -> Iterator[tuple[str, str, Any]]:
    """Yield ``(outer key, inner key, value)`` of a file ``{outer: {inner: value, …}, …}``, one value at a time.

    ``inside`` is the folder that the file belongs to; a link that leads out of it is an error. Raises ``InputError`` if
    the file cannot be read, has another form or is damaged; the message names the last key that was read.
    """
    with reading(path), open_text(path, inside) as file:
        size = os.fstat(file.fileno()).st_size
        with progress(f"reading {path.name} (MB)", size // _CHUNK) as step:
            text = _Text(path, file, step)
            for outer in text.members():
                for inner in text.members():
                    yield outer, inner, text.value()
            text.finish()


class _Text:
    """Part of the file's text that is in memory; values are taken from its front, and text is added at its end."""

    def __init__(self, path: Path, file: TextIO, step: Callable[[], None]) -> None:
        self._path, self._file, self._step = path, file, step
        self._text, self._place, self._ended = "", 0, False
        self._decoder = json.JSONDecoder()
        self._last = "the beginning"

    def members(self) -> Iterator[str]:
        """Yield the keys of the object at the current position.

        The caller must read a key's value before it requests the next key.
        """
        self._expect("{", "an object")
        if self._next() == "}":
            self._place += 1
            return
        while True:
            key = self.value()
            if not isinstance(key, str):
                raise self._error("a key is not text")
            self._expect(":", "a colon")
            self._last = f"'{key}'"
            yield key
            if self._next() == "}":
                self._place += 1
                return
            self._expect(",", "a comma or the end of the object")

    def finish(self) -> None:
        """Raise ``InputError`` if anything but white space follows the value that was read."""
        if self._next():
            raise self._error("more follows after the end of the object")

    def value(self) -> Any:
        """Return the decoded JSON value that begins at the current position; read more text if it is incomplete."""
        self._next()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._place)
            except (ValueError, RecursionError) as error:
                if self._ended or len(self._text) - self._place > _LONGEST_VALUE:
                    raise self._error(f"not valid JSON ({getattr(error, 'msg', error)})") from None
            else:
                if end < len(self._text) or self._ended:  # a number at the window's end may continue in the next block
                    refuse_halves(value, self._text[self._place : end], f"{self._path}, near {self._last}")
                    self._place = end
                    return value
            self._read()

    def _next(self) -> str:
        """Return the next character that is not white space, without taking it; "" at the end of the file."""
        while True:
            while self._place < len(self._text) and self._text[self._place] in _SPACE:
                self._place += 1
            if self._place < len(self._text):
                return self._text[self._place]
            if self._ended:
                return ""
            self._read()

    def _expect(self, character: str, name: str) -> None:
        if self._next() != character:
            found = self._next()
            raise self._error(f"{name} is expected, not {found!r}" if found else "the file ends too early")
        self._place += 1

    def _read(self) -> None:
        """Drop the text that was taken, and read about as much as is left, so that a long value needs few reads."""
        self._text = self._text[self._place :]
        self._place = 0
        for _ in range(max(1, len(self._text) // _CHUNK)):
            chunk = self._file.read(_CHUNK)
            self._text += chunk
            self._ended = not chunk
            self._step()

    def _error(self, reason: str) -> InputError:
        return InputError(f"{self._path}, near {self._last}: {reason}; check that the file is complete.")
