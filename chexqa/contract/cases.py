"""Cases: the reader of manifests (one radiograph and one finding per line), and the loader of one case's pixels.

A wrong field, id or path in the manifest stops the reading. Wrong files of a case are found only by :func:`load_case`.
"""

from __future__ import annotations

import hashlib
import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any, Literal, overload

from chexqa.contract import findings
from chexqa.contract.anatomy_checks import check_lesion, check_lungs
from chexqa.files import limits
from chexqa.files.errors import InputError
from chexqa.files.jsonio import (
    Record,
    bounded_lines,
    check,
    exists,
    is_file,
    is_folder,
    parse_json,
    reading,
    write_lines,
)
from chexqa.files.opening import MissingError, open_binary
from chexqa.imaging import mask_source
from chexqa.imaging.mask_source import MaskFrame, MaskSource
from chexqa.imaging.read import (
    Gray,
    Mask,
    mask_to_working,
    read_radiograph,
    to_working,
)

MANIFEST = "cases.jsonl"
STRUCTURES = ("right_lung", "left_lung", "heart")
# Advice beside a missing file: the files may lie elsewhere.
IMAGE_ROOT_HINT = "if the data lies elsewhere, give --image-root, the folder that the manifest's paths are relative to"
# Fields that a line may leave out. Without the field 'access' the pictures stay on this machine.
_LEFT_OUT: Record = {
    "mask": None,
    "anatomy": {},
    **dict.fromkeys(("patient_id", "study_id", "view", "sex", "age", "source", "license", "negative_kind")),
    "access": "credentialed",
}


def is_lateral(view: str | None) -> bool:
    """Return True if a view is taken from the side; lateral decubitus views (LLD, RLD) are frontal."""
    return view is not None and (view.upper().startswith("LAT") or view.upper() in ("L", "LL", "RL", "LLAT", "RLAT"))


@dataclass(frozen=True)
class Case:
    """One line of a manifest; paths are absolute and inside the manifest's folder or the image root.

    - ``mask``: the lesion's mask as :mod:`chexqa.imaging.mask_source` reads it; ``None`` if the finding is absent.
    - ``anatomy``: the other masks in the same form, keyed by structure.
    - ``negative_kind``: ``normal`` or ``other`` (another finding is present); ``None`` if the finding is present.
    - ``mask_frame``: the picture that the masks were drawn on (see the schema).
    - ``reference``: how the mask was made: drawn by a reader, taken from a report, or predicted by a model.
    - ``review``, ``review_seen``: the result of a mask review, and the hash of the reviewed files.
    - ``pixel_spacing_mm``: the distances between rows and between columns of the source image.
    - ``redrawn``: who redrew and who signed the mask in a review, and how much was changed; ``None`` for an original
      mask.
    - ``predicted``: the model that made each mask that no person drew, keyed by structure.
    """

    case_id: str
    image: Path
    finding: str
    present: bool
    mask: MaskSource | None
    anatomy: dict[str, MaskSource]
    patient_id: str | None
    study_id: str | None
    view: str | None
    sex: str | None
    age: float | None
    source: str | None
    license: str | None
    access: str
    negative_kind: Literal["normal", "other"] | None
    manifest: Path
    line: int
    review: Literal["approved", "rejected", "fix", "unsure"] | None = None
    pixel_spacing_mm: tuple[float, float] | None = None
    reference: Literal["drawn", "report", "model"] | None = None
    device: str | None = None
    site: str | None = None
    mask_frame: MaskFrame = "image"
    review_seen: str | None = None
    redrawn: Record | None = None
    predicted: dict[str, str] | None = None

    @property
    def acquisition(self) -> Record:
        """Return the known facts on how the image was taken and on the mask's origin, keyed by field name."""
        known = {name: getattr(self, name) for name in ("pixel_spacing_mm", "reference", "device", "site", "predicted")}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in known.items() if value}


@dataclass(frozen=True, eq=False)
class LoadedCase:
    """Case with its pixels.

    - At the source image's size ``(H, W)``: ``image`` (uint8), ``source_mask`` and ``source_anatomy`` (bool).
    - At the working image's size: ``working``, ``lesion``, ``right_lung``, ``left_lung`` and ``heart``.

    Masks of an absent finding, and of a structure without a mask in the manifest, are ``None``.
    """

    case: Case
    image: Gray
    source_mask: Mask | None
    working: Gray
    lesion: Mask | None
    right_lung: Mask | None
    left_lung: Mask | None
    heart: Mask | None
    source_anatomy: dict[str, Mask]

    @cached_property
    def image_key(self) -> str:
        """SHA-256 of the radiograph's size and pixels: the same for all files that show the same picture."""
        return _pixel_hash(self.image)


def image_key(case: Case) -> str:
    """Return :attr:`LoadedCase.image_key` without loading the masks; raise ``InputError`` for an unreadable picture."""
    return _pixel_hash(read_radiograph(case.image))


def _pixel_hash(image: Gray) -> str:
    digest = hashlib.sha256(f"{image.shape[0]} {image.shape[1]} ".encode())
    digest.update(image.tobytes())
    return digest.hexdigest()


class Manifest(Sequence[Case]):
    """Sequence of the cases of a checked manifest; every access reads a case from the file."""

    def __init__(self, path: Path, folders: Folders, inside: Path | None = None) -> None:
        """Open a manifest; ``inside`` is the manifest's folder if the user named the folder instead of the file."""
        self._path, self._folders, self._inside = path, folders, inside
        self._starts, self._numbers, self._normal = array("Q"), array("Q"), array("Q")
        self._ill: set[str] = set()

    def add(self, record: Record, start: int, number: int) -> None:
        """Add the line that begins at the byte ``start``, and check its paths; its ``record`` was checked before."""
        case = _case(record, self._folders, self._path, number)
        if case.present:
            self._ill.add(str(case.image))
        elif case.negative_kind == "normal":
            self._normal.append(len(self))
        self._starts.append(start)
        self._numbers.append(number)

    def check(self) -> None:
        """Raise ``InputError`` if a line calls an image normal, but another line has a finding present in it."""
        for case in map(self.__getitem__, self._normal):
            if str(case.image) in self._ill:
                raise InputError(
                    f"{case.manifest}, line {case.line}: 'negative_kind' is 'normal', but another line has a "
                    "finding in the same image; write 'other' instead."
                )

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, index: int) -> Case: ...
    @overload
    def __getitem__(self, index: slice) -> list[Case]: ...
    def __getitem__(self, index: int | slice) -> Case | list[Case]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        with reading(self._path), open_binary(self._path, inside=self._inside) as file:
            file.seek(self._starts[index])
            return self._made(file.readline(limits.MAX_LINE_CHARACTERS), self._numbers[index])

    def __iter__(self) -> Iterator[Case]:
        with reading(self._path), open_binary(self._path, inside=self._inside) as file:
            for start, number in zip(self._starts, self._numbers, strict=True):
                file.seek(start)
                yield self._made(file.readline(limits.MAX_LINE_CHARACTERS), number)

    def _made(self, line: bytes, number: int) -> Case:
        record = parse_json(line.decode("utf-8-sig"), f"{self._path}, line {number}")
        case = _case(record, self._folders, self._path, number)
        if not case.present and case.negative_kind is None:
            return replace(case, negative_kind="other" if str(case.image) in self._ill else "normal")
        return case


def read_manifest(path: Path, image_root: Path | None = None) -> Manifest:
    """Read and check a manifest: a file, or a folder that contains ``cases.jsonl``.

    The paths of images and masks are looked up first in the manifest's folder, then in ``image_root``. Images and masks
    are not opened. A missing ``negative_kind`` of an absent finding becomes ``other`` if another line of the manifest
    says that a finding is present in the same image, otherwise ``normal``.
    """
    inside = path if is_folder(path) else None
    if inside is not None:
        if not is_file(path / MANIFEST):
            raise InputError(f"{path}: contains no {MANIFEST}; make one with 'chexqa ingest' or 'chexqa synth'.")
        path = path / MANIFEST
    if image_root is not None and not is_folder(image_root):
        raise InputError(f"{image_root}: the image root is not a folder; give a folder as --image-root.")
    manifest = Manifest(path, Folders(path, image_root), inside)
    rules, start = _Rules(path), 0
    with reading(path), open_binary(path, inside=inside) as file:
        for number, line in enumerate(bounded_lines(file, path), start=1):
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            if text.strip():
                record = parse_json(text, f"{path}, line {number}")
                rules.admit(record, number)
                manifest.add(record, start, number)
            start += len(line)
    if not manifest:
        raise InputError(f"{path}: contains no case; write one case per line.")
    manifest.check()
    return manifest


def write_manifest(path: Path, records: Iterable[Record]) -> int:
    """Write records as a manifest and return their number; if a record is wrong, raise an error and write nothing."""
    rules, count = _Rules(path), 0
    if not is_folder(path.parent):
        raise InputError(f"{path}: the folder {path.parent} does not exist; make it first.")

    def admitted() -> Iterator[Record]:
        nonlocal count
        for count, record in enumerate(records, start=1):
            rules.admit(record, count)
            yield record
        if not count:
            raise InputError(f"{path}: not written: there is no case to write.")

    write_lines(path, admitted())
    return count


class _Rules:
    """Check of a manifest's lines against rules that its schema cannot express."""

    def __init__(self, manifest: Path) -> None:
        self._manifest = manifest
        self._first_lines: dict[str, int] = {}
        self._states: dict[str, int] = {}

    def admit(self, record: Any, line: int) -> None:
        """Raise ``InputError`` if the record is not a case or contradicts an earlier record."""
        where = f"{self._manifest}, line {line}"
        check(record, "case", where)
        case_id, present, finding = record["case_id"], record["present"], record["finding"]
        first = self._first_lines.setdefault(case_id, line)
        if first != line:
            raise InputError(f"{where}: the case id '{case_id}' is given twice, first in line {first}; rename one.")
        findings.find(finding, where)
        if present and record.get("mask") is None:
            raise InputError(f"{where}: the finding is present but has no 'mask'; give it, or set 'present' to false.")
        if not present and record.get("mask") is not None:
            raise InputError(f"{where}: the finding is absent but has a mask; set 'mask' to null or 'present' to true.")
        if present and record.get("negative_kind") is not None:
            raise InputError(
                f"{where}: 'negative_kind' is only for absent findings, but this finding is "
                f"present; leave the field out."
            )
        # Normalized, so that ./a.png equals a.png.
        image = PurePath(record["image"]).as_posix()
        # The first line with this finding and image; negative if it says that the finding is absent.
        first = self._states.setdefault(f"{finding} {image}", line if present else -line)
        if (first > 0) != present:
            said = f"'present' of '{finding}' differs from that in line {abs(first)} for the same image '{image}'"
            raise InputError(f"{where}: {said}; remove one of the two lines.")


class Folders:
    """Folders that a manifest's paths are relative to; a path that leads outside them is an error."""

    def __init__(self, manifest: Path, image_root: Path | None) -> None:
        """Look for files in the manifest's folder first, then in the image root."""
        folders = (manifest.parent,) if image_root is None else (manifest.parent, image_root)
        self._folders = [os.path.realpath(folder) for folder in folders]
        self._real: dict[str, str] = {}

    def find(self, text: str, where: str) -> Path:
        """Return the absolute path of the file ``text`` in the first folder that has it.

        If no folder has the file, return its path in the manifest's folder.
        """
        pure = PurePath(text)
        if pure.is_absolute() or ".." in pure.parts or "\0" in text:
            raise InputError(
                f"{where}: the path '{text}' leaves the manifest's folder; move the file into that folder and write "
                "its path relative to it, or give --image-root FOLDER and write the path relative to FOLDER."
            )
        candidates = [os.path.join(folder, *pure.parts) for folder in self._folders]  # noqa: PTH118 - hot loop
        path = next((name for name in candidates if os.path.lexists(name)), candidates[0])
        if not any(self._real_path(path).startswith(folder.rstrip(os.sep) + os.sep) for folder in self._folders):
            raise InputError(
                f"{where}: the path '{text}' leaves the manifest's folder through a link; replace the link with the "
                "file, or give the linked file's folder with --image-root."
            )
        return Path(path)

    def _real_path(self, path: str) -> str:
        """Return ``realpath(path)``; folders' paths are cached, since a manifest names many files in few folders."""
        if os.path.islink(path):  # noqa: PTH114 - hot loop
            return os.path.realpath(path)
        folder, name = os.path.split(path)
        if folder not in self._real:
            self._real[folder] = os.path.realpath(folder)
        return os.path.join(self._real[folder], name)  # noqa: PTH118 - hot loop


def _case(record: Record, folders: Folders, manifest: Path, line: int) -> Case:
    where = f"{manifest}, line {line}"

    def source(value: str | dict[str, Any]) -> MaskSource:
        return mask_source.located(value, lambda text: folders.find(text, where))

    fields = {**_LEFT_OUT, **record}
    fields["image"] = folders.find(fields["image"], where)
    fields["mask"] = None if fields["mask"] is None else source(fields["mask"])
    fields["anatomy"] = {name: source(value) for name, value in fields["anatomy"].items()}
    if fields.get("pixel_spacing_mm") is not None:
        fields["pixel_spacing_mm"] = tuple(fields["pixel_spacing_mm"])
    return Case(**fields, manifest=manifest, line=line)


def load_case(case: Case) -> LoadedCase:
    """Return a case with its picture and masks, checked against each other.

    Raise ``InputError`` if they do not fit together or cannot be read, and ``MissingError`` if a file is missing. The
    error's message begins with the manifest's name and the number of the case's line.
    """
    files = _files(case)
    try:
        lost = missing_file(case)
        if lost is not None:
            raise MissingError(f"{lost}: no such file; {IMAGE_ROOT_HINT}.")
        return _load(case)
    except InputError as error:
        reason = str(error)
        again = MissingError if isinstance(error, MissingError) else InputError
        for path in files:
            reason = reason.replace(str(path), path.name)
        raise again(f"{case.manifest.name}, line {case.line}: {reason}") from None


def missing_file(case: Case) -> Path | None:
    """Return the first of a case's files (picture, mask, anatomy) that does not exist; None if all exist."""
    return next((path for path in _files(case) if not exists(path)), None)


def _files(case: Case) -> list[Path]:
    return [case.image, *(path for mask in (case.mask, *case.anatomy.values()) for path in mask_source.files(mask))]


def _load(case: Case) -> LoadedCase:
    image = read_radiograph(case.image)
    shape = (image.shape[0], image.shape[1])
    source_mask = None if case.mask is None else mask_source.read(case.mask, shape, "the mask", case.mask_frame)
    anatomy = {
        name: mask_source.read(value, shape, f"the {name} mask", case.mask_frame)
        for name, value in case.anatomy.items()
    }
    working = {name: mask_to_working(mask) for name, mask in anatomy.items()}
    lesion = None if source_mask is None else mask_to_working(source_mask)
    check_lungs(working)
    if lesion is not None:
        check_lesion(findings.FINDINGS[case.finding], lesion, working)
    return LoadedCase(
        case=case,
        image=image,
        source_mask=source_mask,
        working=to_working(image),
        lesion=lesion,
        right_lung=working.get("right_lung"),
        left_lung=working.get("left_lung"),
        heart=working.get("heart"),
        source_anatomy=anatomy,
    )
