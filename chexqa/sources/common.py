"""What the sources share: where a manifest's paths start, a case's record, tables in CSV, folders of structures."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chexqa import cases, findings
from chexqa.errors import InputError, suggest
from chexqa.records import Record

PICTURES = (".png", ".jpg", ".jpeg")
# Pictures that are no PNG, in a folder of masks: left there by mistake, so they are named and not passed over.
_NO_MASKS = (".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".npy", ".dcm")
SEXES = {"f": "F", "female": "F", "m": "M", "male": "M"}


@dataclass(frozen=True)
class Terms:
    """What holds for a whole data set: its name, its licence, and whether its pictures may leave this machine."""

    access: str
    license: str | None
    source: str | None


@dataclass
class Outcome:
    """What an ingest did: counts, where the manifest's paths start when not at its own folder, and what to look at."""

    cases: int = 0
    present: int = 0
    images: set[str] = field(default_factory=set)
    image_root: Path | None = None
    remarks: list[str] = field(default_factory=list)

    def count(self, records: Iterable[Record]) -> Iterator[Record]:
        """Pass records on and count them."""
        for record in records:
            self.cases += 1
            self.present += record["present"]
            self.images.add(record["image"])
            yield record


class Places:
    """Writes paths as a manifest needs them: relative to its folder or, for data elsewhere, to one image root.

    ``image_root`` is ``None`` when all data folders lie in the manifest's folder; else it is the nearest folder that
    holds those that do not.
    """

    def __init__(self, manifest: Path, folders: Sequence[Path]) -> None:
        """``folders`` are all the folders that :meth:`relative` will be asked about; each must exist."""
        self._home = Path(os.path.realpath(manifest.parent))
        real = [Path(os.path.realpath(_existing(folder))) for folder in folders]
        outside = [folder for folder in real if not folder.is_relative_to(self._home)]
        self.image_root = Path(os.path.commonpath(outside)) if outside else None
        if self.image_root is not None and self.image_root == Path(self.image_root.anchor):
            raise InputError(
                f"{manifest}: the data lies in folders with nothing in common ({', '.join(map(str, outside))}); write "
                "the manifest into a folder that holds one of them."
            )
        self._folders = cases.Folders(manifest, self.image_root)
        self._real = dict(zip(folders, real, strict=True))

    def relative(self, folder: Path, name: str) -> str:
        """The path of the file ``name`` of one of the data folders; ``InputError`` if it would be read elsewhere."""
        path = Path(os.path.normpath(self._real[folder].joinpath(name)))
        inside = self.image_root is None or path.is_relative_to(self._home)
        text = os.path.relpath(path, self._home if inside else self.image_root)
        found = self._folders.find(text, str(path))
        if found != path:
            raise InputError(f"{path}: would be read as {found}; write the manifest into another folder.")
        return Path(text).as_posix()


def _existing(folder: Path) -> Path:
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder.")
    return folder


def record(
    case_id: str, image: str, finding: str, mask: str | dict[str, Any] | None, terms: Terms, **details: Any
) -> Record:
    """One case's record; ``details`` are the fields that are known of it, the others become null."""
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
    return {**known, **details}


def structures(places: Places, root: Path, name: str) -> tuple[dict[str, str], dict[str, str]]:
    """``(anatomy, findings)`` of the folder ``root/name``, each name to its path; both empty where it is missing."""
    folder = root / name
    anatomy: dict[str, str] = {}
    lesions: dict[str, str] = {}
    if not folder.is_dir():
        return anatomy, lesions
    for path in sorted(folder.iterdir()):
        structure, suffix = path.stem, path.suffix.lower()
        if suffix in _NO_MASKS:
            raise InputError(f"{path}: a mask must be a PNG; save it as one.")
        if suffix != ".png" or path.name.startswith("."):
            continue
        if structure not in cases.STRUCTURES and structure not in findings.FINDINGS:
            known = [*cases.STRUCTURES, *findings.FINDINGS]
            raise InputError(f"{path}: '{structure}' is neither a finding nor a structure{suggest(structure, known)}.")
        group = anatomy if structure in cases.STRUCTURES else lesions
        group[structure] = places.relative(root, f"{name}/{path.name}")
    return {name: anatomy[name] for name in cases.STRUCTURES if name in anatomy}, lesions


def csv_rows(path: Path, needed: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """``(line number, row)`` of a UTF-8 CSV with a header, separated by comma, semicolon or tab; cells are stripped."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = file.readline()
            delimiter = max(",;\t", key=header.count)
            names = [name.strip() for name in next(csv.reader([header], delimiter=delimiter), [])]
            missing = [name for name in needed if name not in names]
            if missing:
                listed = ", ".join(names) or "nothing"
                raise InputError(f"{path}: the column '{missing[0]}' is missing; the first line holds {listed}.")
            reader = csv.reader(file, delimiter=delimiter, strict=True)
            for cells in reader:
                line = reader.line_num + 1
                if not any(cell.strip() for cell in cells):
                    continue
                if len(cells) != len(names):
                    raise InputError(f"{path}, line {line}: {len(cells)} cells under {len(names)} columns.")
                yield line, {name: cell.strip() for name, cell in zip(names, cells, strict=True)}
    except FileNotFoundError:
        raise InputError(f"{path}: no such file.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8 text; save it as CSV in UTF-8.") from None
    except csv.Error as error:
        raise InputError(f"{path}: not a CSV file ({error}).") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from None


def parse_age(text: str, where: str) -> float | None:
    """An age in years, ``None`` for an empty cell."""
    if not text:
        return None
    try:
        age = float(text)
    except ValueError:
        age = -1.0
    if not 0 <= age <= 130:
        raise InputError(f"{where}: the age '{text}' is no number of years from 0 to 130.")
    return age


def parse_sex(text: str, where: str) -> str | None:
    """``F`` or ``M``, ``None`` for an empty cell or "unknown"."""
    if not text or text.lower() == "unknown":
        return None
    if text.lower() not in SEXES:
        raise InputError(f"{where}: the sex '{text}' is not one of F, M, female, male, unknown or nothing.")
    return SEXES[text.lower()]
