"""Masks of lungs and heart for any source: PNG files that a model or CXAS wrote, or CheXmask's csv files.

A csv can have hundreds of thousands of rows of about 20 kB. To save memory, a first pass records only the byte at which
each row begins; a row is read again when its picture is processed.

Sources of the layouts: https://github.com/ngaggion/CheXmask-Database,
https://github.com/ConstantinSeibold/ChestXRayAnatomySegmentation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from chexqa.contract import cases
from chexqa.files.errors import InputError
from chexqa.files.jsonio import is_file
from chexqa.imaging import masks
from chexqa.imaging.read import MAX_PIXELS, Mask
from chexqa.sources.case_records import MASKS, NO_MASKS, PICTURES, Outcome, Places, Tally, folder_named
from chexqa.sources.tables import Table

Structures = dict[str, Any]

_COLUMNS = {"right_lung": "Right Lung", "left_lung": "Left Lung", "heart": "Heart"}
_HEIGHT, _WIDTH = "Height", "Width"
# The key columns of CheXmask's tables (ChestX-Ray8, CheXpert, MIMIC-CXR-JPG, PadChest, VinDr-CXR, CANDID-PTX).
KEY_COLUMNS = ("Image Index", "Path", "dicom_id", "ImageID", "image_id", "Image ID", "Image")
_LUNGS = ("right_lung", "left_lung")


@dataclass(frozen=True)
class Options:
    """Source of the masks of lungs and heart (the anatomy) of a data set.

    - ``path``: a folder of ``<picture>/<structure>.png``, or a CheXmask ``.csv``.
    - ``key_column``: the csv's column that has the pictures' names.
    - ``key_map``: a csv with the columns ``image`` (a picture's name in the data set) and ``key`` (its name in
      ``path``).
    - ``others``: further folders or csv files. If several sources have a mask of a structure, the intersection of these
      masks is used.
    """

    path: Path | None = None
    key_column: str | None = None
    key_map: Path | None = None
    others: tuple[Path, ...] = ()

    @property
    def paths(self) -> list[Path]:
        """All folders and csv files: ``path`` and ``others``."""
        return [path for path in (self.path, *self.others) if path is not None]

    @property
    def folders(self) -> list[Path]:
        """The folders among :attr:`paths`, as an argument for :class:`Places`."""
        return [path for path in self.paths if path.suffix.lower() != ".csv" and not is_file(path)]


def bare(name: str) -> str:
    """Return a picture's name without its file suffix, which some of CheXmask's tables include and others leave out."""
    return name[: -len(suffix)] if (suffix := PurePosixPath(name).suffix).lower() in PICTURES else name


def tails(name: str) -> list[str]:
    """Return the names under which a picture is looked up: its path without suffix, then shorter and shorter ends of
    it.

    For ``a/b/c.png`` these are ``a/b/c``, ``b/c`` and ``c``.
    """
    parts = [part for part in bare(name).replace("\\", "/").split("/") if part not in ("", ".", "..")]
    return ["/".join(parts[start:]) for start in range(len(parts))]


class Anatomy:
    """Lookup of the masks of lungs and heart of a data set's pictures; it counts the pictures without masks."""

    def __init__(self, options: Options, places: Places, outcome: Outcome, normal: Callable[[str], str] = bare) -> None:
        """Open the tables and folders of ``options``.

        ``normal`` turns a key of the csv or key map into a picture's name.
        """
        if options.path is None and (options.key_column or options.key_map):
            raise InputError("--anatomy-key-column and --key-map need --anatomy; give --anatomy too.")
        self._outcome, self._normal = outcome, normal
        folders = options.folders
        if options.key_column and folders == options.paths:
            raise InputError(
                "--anatomy-key-column is for a csv, but --anatomy is a folder; leave out --anatomy-key-column."
            )
        self._finders: list[Callable[[str], Structures | None]] = [
            _Folders(path, places) if path in folders else _RunLengths(path, options.key_column, normal, outcome)
            for path in options.paths
        ]
        self._map = None if options.key_map is None else _read_map(options.key_map)
        self._missing, self._one_lung, self._alone = Tally(), Tally(), Tally()

    def of(self, *names: str) -> Structures | None:
        """Return the path or the run lengths of each structure's mask, for the picture with one of these ``names``.

        Return ``None`` if there is no mask for this picture. A damaged entry counts as missing, and is recorded among
        the outcome's faults.
        """
        if not self._finders:
            return None
        found: Structures | None = None
        for name in names:
            key: str | None = name
            if self._map is not None:
                key = self._map.get(name)
            try:
                found = self._joined(self._normal(key)) if key is not None else None
            except InputError as error:
                self._outcome.fault(error)
                break
            if found is not None:
                break
        if not found:
            self._missing.add(names[0] if names else "one without a name")
        elif sum(lung in found for lung in _LUNGS) == 1:
            self._one_lung.add(names[0])
        return found or None

    def _joined(self, name: str) -> Structures | None:
        """Return the masks of a picture from all sources, keyed by structure.

        A structure that several sources have gets the intersection of their masks.
        """
        having = [found for found in (find(name) for find in self._finders) if found]
        if not having:
            return None
        if len(having) < len(self._finders):
            self._alone.add(name)
        masks_of = {part: [found[part] for found in having if part in found] for part in cases.STRUCTURES}
        return {part: own[0] if len(own) == 1 else {"all_of": own} for part, own in masks_of.items() if own}

    def remark(self) -> None:
        """Add remarks to the outcome: how many radiographs lack which masks."""
        self._alone.remark(self._outcome.remarks, "radiograph", "without anatomy masks in at least one of the sources")
        self._missing.remark(self._outcome.remarks, "radiograph", "without anatomy masks")
        self._one_lung.remark(self._outcome.remarks, "radiograph", "with a mask of one lung only")


def _read_map(path: Path) -> dict[str, str]:
    keys: dict[str, str] = {}
    for row in Table(path, ("image", "key")).rows():
        image, key = row.cells["image"], row.cells["key"]
        if image and key and keys.setdefault(bare(image), key) != key:
            raise InputError(
                f"{path}, line {row.line}: the column 'key' has '{key}' for the image '{image}', but "
                f"'{keys[bare(image)]}' in an earlier line; remove one of the two lines."
            )
    return keys


class _Folders:
    """Lookup in a folder of ``<picture>/<structure>.png``; a structure's name can have spaces, as in CXAS."""

    def __init__(self, root: Path, places: Places) -> None:
        self._root, self._places = root, places

    def __call__(self, name: str) -> Structures | None:
        folder = folder_named(self._root, name)
        if folder is None:
            return None
        found: Structures = {}
        for path in sorted((self._root / folder).iterdir()):
            structure = path.stem.replace(" ", "_").lower()
            if structure not in cases.STRUCTURES:
                continue  # masks of findings, or of structures that only CXAS has
            if path.suffix.lower() in NO_MASKS:
                raise InputError(f"{path}: a mask must be a PNG; save it as one.")
            if path.suffix.lower() in MASKS:
                if structure in found:
                    raise InputError(f"{path}: the picture '{name}' has another mask of this structure; remove one.")
                found[structure] = self._places.relative(self._root, f"{folder}/{path.name}")
        return {name: found[name] for name in cases.STRUCTURES if name in found}


class _RunLengths:
    """Lookup in a CheXmask csv; a row is decoded only when its picture is asked for."""

    def __init__(self, path: Path, key_column: str | None, normal: Callable[[str], str], outcome: Outcome) -> None:
        self._table = Table(path, [*_COLUMNS.values(), _HEIGHT, _WIDTH])
        self._key_column = _key_column(self._table, key_column)
        self._offsets: dict[str, int] = {}
        for row in self._table.rows(outcome.fault):
            key = normal(row.cells[self._key_column])
            if self._offsets.setdefault(key, row.offset) != row.offset:
                outcome.fault(f"{path}, line {row.line}: '{key}' appears twice in the table; the first row is used")

    def __call__(self, name: str) -> Structures | None:
        offset = self._offsets.get(name)
        if offset is None:
            return None
        cells = self._table.row_at(offset)
        where = f"{self._table.path}, {cells[self._key_column]}"
        shape = _shape(cells, where)
        return {
            structure: masks.to_rle(from_runs(cells[column], shape, f"{where}, {column}"))
            for structure, column in _COLUMNS.items()
            if cells[column]
        }


def _key_column(table: Table, wanted: str | None) -> str:
    if wanted is not None and wanted not in table.columns:
        raise InputError(f"{table.path}: there is no column '{wanted}'; the first line has {table.listed}.")
    column = wanted or next((name for name in KEY_COLUMNS if name in table.columns), None)
    if column is None:
        raise InputError(
            f"{table.path}: it is not known which column has the pictures' names; name this column with "
            f"--anatomy-key-column: one of {table.listed}."
        )
    return column


def _shape(cells: dict[str, str], where: str) -> tuple[int, int]:
    try:
        height, width = (int(float(cells[name])) for name in (_HEIGHT, _WIDTH))
    except (ValueError, OverflowError):
        height = width = 0
    if height < 1 or width < 1 or height * width > MAX_PIXELS:
        raise InputError(
            f"{where}: Height '{cells[_HEIGHT]}' and Width '{cells[_WIDTH]}' are not a picture's size in pixels; "
            "correct them."
        )
    return height, width


def from_runs(runs: str, shape: tuple[int, int], where: str) -> Mask:
    """Return the mask ``(H, W)`` of CheXmask's run lengths: ``start length start length …`` along the rows.

    The start is a pixel's number from 1, as in CheXmask's own code; the masks then agree with CheXmask's landmarks to
    the pixel. Raises ``InputError`` for text in another form, and for runs that overlap, go backwards or leave the
    picture.
    """
    try:
        numbers = np.array(runs.split(), dtype=np.str_).astype(np.int64)
    except (ValueError, OverflowError):
        raise InputError(
            f"{where}: run lengths must be pairs of whole numbers, 'start length start length …'."
        ) from None
    size = shape[0] * shape[1]
    if len(numbers) % 2:
        raise InputError(
            f"{where}: the run lengths are cut off: they must be pairs, but {len(numbers)} numbers are given; export "
            "the mask again."
        )
    edges = np.empty(len(numbers) + 2, np.int64)
    edges[0], edges[-1] = 0, size
    edges[1:-1:2] = numbers[::2] - 1
    edges[2:-1:2] = edges[1:-1:2] + numbers[1::2]
    counts = np.diff(edges)
    if (numbers < 0).any() or (numbers > size).any() or (counts < 0).any() or (counts[1::2] == 0).any():
        raise InputError(
            f"{where}: the run lengths overlap or do not fit {shape[1]} x {shape[0]} px; Height and Width must "
            f"be the size of the encoded mask."
        )
    return np.repeat(np.arange(len(counts)) % 2 == 1, counts).reshape(shape)
