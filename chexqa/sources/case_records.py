"""Parts that all sources share: an ingest's outcome, the paths in a manifest, a case's record, folders of masks."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from PIL import ExifTags, Image

from chexqa.contract import cases
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, is_file, is_folder
from chexqa.files.opening import open_binary
from chexqa.files.terminal import plural
from chexqa.imaging import dicom

PICTURES = (".png", ".jpg", ".jpeg", *dicom.SUFFIXES)
# Number of faults that are listed; further faults are only counted.
_MOST_FAULTS = 10
_MOST_REASONS = 3  # remarks in the error if there is no case
# Suffixes of pictures that are masks, and of those that are mistakes in a folder of masks, so that they are reported.
MASKS = (".png", ".tif", ".tiff")
_OTHERS = (".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".npy")
NO_MASKS = (*_OTHERS, ".dcm")
# Suffixes of files with pictures, masks or annotations that no reader of folders opens.
_FOREIGN_PICTURES = (".tif", ".tiff", ".webp", ".bmp", ".gif", ".jp2", ".nrrd", ".mha", ".nii", ".gz", ".img")
_FOREIGN_MASKS = (*_OTHERS, ".nrrd", ".mha", ".mhd", ".json", ".geojson", ".xml", ".txt", ".pfs")
POINT = " (decimals need a point)"
_MIRRORED = (
    "mirrored by the header (Patient Orientation begins with R): flip the picture and its masks, because the picture's "
    "left is taken for the patient's right"
)
_OF_ONE_PATIENT = (
    "with the Patient ID of an earlier one: fill in patient_id (in the manifest or as a column of --table), or else "
    "intervals count each radiograph as a patient of its own"
)
SEXES = {"f": "F", "female": "F", "m": "M", "male": "M"}
_QUARTER_TURNS = (5, 6, 7, 8)  # values of EXIF's Orientation


@dataclass(frozen=True)
class Terms:
    """Facts that are the same for all cases of a data set; ``source`` is the data set's name.

    ``access`` is ``credentialed`` if the pictures must not be sent to remote endpoints, otherwise ``open``.
    ``mask_frame`` says whether the masks were drawn on the original pictures or on pictures stretched to a square.
    """

    access: str
    license: str | None
    source: str | None
    mask_frame: str = "image"


class Tally:
    """Counter of one kind of event, such as a missing picture, for a remark to the user.

    It also keeps the name of the first item that was counted.
    """

    def __init__(self) -> None:
        self._count, self._first = 0, ""

    def add(self, name: str) -> None:
        """Count one more item, which has the name ``name``."""
        self._first = self._first or name
        self._count += 1

    def remark(self, remarks: list[str], noun: str, what: str) -> None:
        """Append a remark if the count is not 0, such as "3 pictures not found, the first is x.png".

        In this example, ``noun`` is "picture" and ``what`` is "not found".
        """
        if self._count:
            remarks.append(self._told(noun, what))

    def refuse(self, noun: str, what: str) -> None:
        """Raise ``InputError`` if the count is not 0, with a text such as "3 pictures not found, the first is x.png".

        In this example, ``noun`` is "picture" and ``what`` is "not found".
        """
        if self._count:
            raise InputError(f"{self._told(noun, what)}.")

    def _told(self, noun: str, what: str) -> str:
        return f"{plural(self._count, noun)} {what}, the first is {self._first}"


@dataclass
class Outcome:
    """Result of an ingest: counts, faults and remarks.

    - ``image_root``: the folder that the manifest's paths are relative to; ``None`` means the manifest's own folder.
    - ``layout``: the names of the expected files, for the error message if no case was found.
    - ``faults``: the reasons for the first left-out entries; ``more_faults``: the number of further left-out entries.
    - ``mirrored``: the radiographs that are mirrored according to their headers.
    - ``patients``: the Patient IDs found in headers, which are never shown or written.
    - ``again``: the radiographs whose Patient ID an earlier radiograph also has.
    - ``headers``: the fields of each DICOM header that was read (:func:`of_header`).
    """

    cases: int = 0
    present: int = 0
    images: set[str] = field(default_factory=set)
    image_root: Path | None = None
    layout: str = ""
    remarks: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    more_faults: int = 0
    mirrored: Tally = field(default_factory=Tally)
    patients: set[str | None] = field(default_factory=set, repr=False)
    again: Tally = field(default_factory=Tally)
    headers: dict[Path, Record] = field(default_factory=dict)
    _ids: set[str] = field(default_factory=set)
    _began: bool = False
    _some_unknown: bool = False  # a case without a patient

    def fault(self, error: InputError | str) -> None:
        """Record the reason why one entry is left out, so that the ingest can continue."""
        if len(self.faults) < _MOST_FAULTS:
            self.faults.append(str(error).removesuffix("."))
        else:
            self.more_faults += 1

    def is_first(self, case_id: str, where: str) -> bool:
        """Return True if no earlier case has this id; otherwise record a fault that begins with ``where``."""
        if case_id in self._ids:
            self.fault(f"{where}: the case '{case_id}' occurs twice; only the first case is used")
            return False
        self._ids.add(case_id)
        return True

    def write(self, manifest: Path, records: Iterable[Record]) -> None:
        """Write the records as a manifest and count them; if there are none, raise ``InputError`` with the reason why
        the first entry was left out.
        """
        try:
            cases.write_manifest(manifest, self._counted(records))
            self.mirrored.remark(self.remarks, "radiograph", _MIRRORED)
            if self._some_unknown:
                self.again.remark(self.remarks, "radiograph", _OF_ONE_PATIENT)
        except InputError as error:
            why = f"the first fault: {self.faults[0]}" if self.faults else "; ".join(self.remarks[:_MOST_REASONS])
            layout = f"chexqa looks for masks named {self.layout}" if self.layout else ""
            if self.cases or not self._began or not (why or layout):
                raise
            raise InputError(f"{'; '.join(filter(None, (str(error).removesuffix('.'), why, layout)))}.") from None

    def _counted(self, records: Iterable[Record]) -> Iterator[Record]:
        self._began = True
        for record in records:
            self.cases += 1
            self.present += record["present"]
            self._some_unknown |= record["patient_id"] is None
            self.images.add(record["image"])
            yield record


class Places:
    """Converter of file paths into a manifest's paths, relative to the manifest's folder or to one image root.

    ``image_root`` is the nearest common parent of all data folders that lie outside the manifest's folder; ``None`` if
    there is no such data folder.
    """

    def __init__(self, manifest: Path, folders: Sequence[Path]) -> None:
        """Choose the image root; ``folders`` are all data folders that :meth:`relative` will be called with.

        Raises ``InputError`` for a folder that does not exist.
        """
        self._home = Path(os.path.realpath(manifest.parent))
        real = [Path(os.path.realpath(_existing(folder))) for folder in folders]
        outside = [folder for folder in real if not folder.is_relative_to(self._home)]
        self.image_root = Path(os.path.commonpath(outside)) if outside else None
        if self.image_root is not None and self.image_root == Path(self.image_root.anchor):
            raise InputError(
                f"{manifest}: the data folders {', '.join(map(str, outside))} have no common parent folder, but a "
                "manifest can name only one folder besides its own; write the manifest into one of these data folders."
            )
        self._folders = cases.Folders(manifest, self.image_root)
        self._real = dict(zip(folders, real, strict=True))

    def relative(self, folder: Path, name: str) -> str:
        """Return the path that the manifest has for the file ``name`` in the data folder ``folder``.

        Raises ``InputError`` if this path leads to a different file when the manifest is read.
        """
        path = Path(os.path.normpath(self._real[folder].joinpath(name)))
        inside = self.image_root is None or path.is_relative_to(self._home)
        text = os.path.relpath(path, self._home if inside else self.image_root)
        found = self._find(text, path)
        if found != path:
            raise InputError(
                f"{path}: the manifest would list this file as '{text}', but the manifest's folder has another file of "
                f"that name ({found}); write the manifest into another folder."
            )
        return Path(text).as_posix()

    def _find(self, text: str, path: Path) -> Path:
        """Return the file that a reader of the manifest finds at the path ``text``; ``InputError`` if there is none."""
        try:
            text.encode()
        except UnicodeEncodeError:
            shown = str(path).encode("utf-8", "backslashreplace").decode()
            raise InputError(
                f"{shown}: the name is not UTF-8, so no manifest can have it; rename the file or its folder."
            ) from None
        try:
            return self._folders.find(text, str(path))
        except InputError:
            is_link = ".." not in PurePath(text).parts and "\0" not in text
            how = " through a link; put the file itself there" if is_link else "; name a file inside them"
            raise InputError(f"{path}: is outside the manifest's folder and the folders of the data{how}.") from None


def _existing(folder: Path) -> Path:
    if is_file(folder):
        raise InputError(
            f"{folder}: is a file, but a folder is needed here. CheXmask's csv goes to --anatomy, that of SIIM-ACR to "
            "'chexqa ingest siim', boxes to 'ingest boxes', COCO JSON to 'ingest coco'."
        )
    if not is_folder(folder):
        raise InputError(f"{folder}: no such folder; check the path.")
    return folder


def record(
    case_id: str, image: str, finding: str, mask: str | dict[str, Any] | None, terms: Terms, **details: Any
) -> Record:
    """Return one case's record for the manifest; ``details`` has further fields, such as ``age`` (default: null)."""
    known: Record = {
        "case_id": case_id,
        "image": image,
        "finding": finding,
        "present": mask is not None,
        "mask": mask,
        "anatomy": {},
        "patient_id": None,
        "study_id": None,
        "view": None,
        "sex": None,
        "age": None,
        "source": terms.source,
        "license": terms.license,
        "access": terms.access,
    }
    if terms.mask_frame != "image":
        known["mask_frame"] = terms.mask_frame
    return {**known, **details}


def of_header(picture: Path, outcome: Outcome) -> Record:
    """Return the fields ``pixel_spacing_mm`` and ``view`` that a picture's DICOM header states, if it has one.

    If the picture is mirrored, it is added to ``outcome.mirrored``. If a picture of the same patient was read before,
    it is added to ``outcome.again``.
    """
    if picture.suffix.lower() not in dicom.SUFFIXES:
        return {}
    if picture not in outcome.headers:
        found = dicom.about(picture)
        if found.mirrored:
            outcome.mirrored.add(picture.name)
        if found.patient in outcome.patients:
            outcome.again.add(picture.name)
        outcome.patients |= {found.patient} - {None}
        fields = {"pixel_spacing_mm": found.spacing and list(found.spacing), "view": found.view}
        outcome.headers[picture] = {name: value for name, value in fields.items() if value is not None}
    return outcome.headers[picture]


def size_of(path: Path) -> tuple[int, int] | None:
    """Return a picture's size ``(H, W)`` as displayed, from its header; None for a file that is not a picture.

    An EXIF rotation by a quarter turn exchanges height and width.
    """
    if path.suffix.lower() in dicom.SUFFIXES:
        return dicom.about(path).size
    try:
        with open_binary(path) as file, Image.open(file) as opened:
            turned = opened.getexif().get(ExifTags.Base.Orientation) in _QUARTER_TURNS
            return (opened.width, opened.height) if turned else (opened.height, opened.width)
    except (OSError, InputError, Image.DecompressionBombError):
        return None


def remark_unread(images: Path, masks: Path | None, outcome: Outcome) -> None:
    """Add remarks on files in the two folders that look like pictures, masks or annotations but are not read."""
    pictures, shapes = Tally(), Tally()
    together = masks is not None and images.samefile(masks)
    for path in sorted(images.rglob("*")):
        suffix = path.suffix.lower()
        if (
            not path.name.startswith(".")
            and suffix not in PICTURES
            and (masks is None or together or masks not in path.parents)
            and (suffix in _FOREIGN_PICTURES or (path.is_file() and dicom.is_dicom(path)))
        ):
            pictures.add(path.name)
    for path in sorted(masks.rglob("*")) if masks is not None else ():
        own = path.name.startswith(".") or (together and path.suffix.lower() in (*PICTURES, *_FOREIGN_PICTURES))
        if path.suffix.lower() in _FOREIGN_MASKS and not own:
            shapes.add(path.name)
    pictures.remark(
        outcome.remarks, "file", "not read: a picture is a .png, .jpg, .jpeg, .dcm or .dicom file, so save it as PNG, "
        "or add .dcm to the name of a DICOM file"
    )  # fmt: skip
    shapes.remark(
        outcome.remarks, "file", "not read: masks are PNG, TIFF or NIfTI files, and 'ingest coco' reads COCO JSON"
    )


def composed(name: str) -> str:
    """Return a file's name with each accented letter as one character.

    macOS and some archives write ``ü`` as ``u`` and an accent, so that equal names would differ.
    """
    return unicodedata.normalize("NFC", name)


def folder_named(root: Path, name: str) -> str | None:
    """Return the path in ``root`` of the folder ``name``, however its accents are written; None if it is missing."""
    if is_folder(root / name):
        return name
    if name.isascii():
        return None
    return next((path.name for path in root.iterdir() if composed(path.name) == composed(name) and path.is_dir()), None)


# Years in each unit of DICOM's ages.
_AGE_UNITS = {"D": 1 / 365.25, "W": 7 / 365.25, "M": 1 / 12, "Y": 1.0}


def parse_age(text: str, where: str) -> float | None:
    """Return an age from 0 to 130 years; raise ``InputError`` for any other text.

    DICOM's form with a unit is read too, such as ``063Y``. The age is ``None`` for an empty cell and for "unknown".
    """
    if not text or text.lower() == "unknown":
        return None
    unit = _AGE_UNITS.get(text[-1].upper()) if re.fullmatch(r"\d{1,3}[DWMYdwmy]", text) else None
    try:
        age = float(text) if unit is None else round(int(text[:-1]) * unit, 1)
    except ValueError:
        age = -1.0
    if not 0 <= age <= 130:
        raise InputError(
            f"{where}: the age '{text}' is not a number of years from 0 to 130; correct it{POINT}, or leave it empty."
        )
    return age


def parse_sex(text: str, where: str) -> str | None:
    """Return ``F`` or ``M``, or ``None`` for an empty cell or "unknown"; raise ``InputError`` for other text."""
    if not text or text.lower() == "unknown":
        return None
    if text.lower() not in SEXES:
        raise InputError(f"{where}: the sex '{text}' is not one of F, M, female, male, unknown or empty.")
    return SEXES[text.lower()]
