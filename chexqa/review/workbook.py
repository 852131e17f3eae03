"""Reading a workbook that somebody sends back: bounded, values only, and nothing in it is ever run or written.

A file's parts are counted and read through in small pieces before openpyxl sees them, so that a file that unpacks to
more than it should, or says less of itself than is true, is refused and never held in memory. Macros and links to
other workbooks are refused: nothing of what the sheets ask needs them.
"""

from __future__ import annotations

import datetime
import itertools
import struct
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from chexqa.errors import InputError

# Bounds on one file: bytes on the disk, parts, bytes of all parts unpacked, bytes of the parts that are read (XML), and
# how many times larger than packed one of these may be once it is large at all.
MAX_BYTES = 400 * 2**20
MAX_PARTS = 50_000
MAX_UNPACKED = 2**30
MAX_XML = 200 * 2**20
MAX_RATIO, RATIO_FROM = 200, 4 * 2**20
# Bounds on one tab; what is asked fills 100 rows.
MAX_ROWS, MAX_COLUMNS = 20_000, 300
MAX_CELL = 32_767
LAST_ROW = 1_048_576
_PIECE = 2**16

OLE = bytes.fromhex("d0cf11e0a1b11ae1")
_STRICT = b"http://purl.oclc.org/ooxml/spreadsheetml/main"
# Parts that run something or read other files, and what they are called for the sentence.
_REFUSED = (
    ("xl/externallinks/", "links to other workbooks"),
    ("xl/connections.xml", "data connections"),
    ("xl/macrosheets/", "macros"),
    ("xl/dialogsheets/", "macros"),
    ("xl/activex/", "ActiveX controls"),
    ("xl/embeddings/", "embedded files"),
)
AS_XLSX = "open it in LibreOffice or Excel and save it as 'Excel Workbook (.xlsx)'"


class Sheet(NamedTuple):
    """A tab's rows that hold anything: ``(row number from 1, cells as text)``. A csv is one sheet without a name."""

    name: str
    rows: list[tuple[int, tuple[str, ...]]]


def read_workbook(path: Path) -> list[Sheet]:
    """All tabs of an xlsx file, hidden ones too; ``InputError`` for what is none, too large, or not to be trusted."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"{path}: is larger than {MAX_BYTES // 2**20} MB, so it is no sheet of chexqa's.")
        with path.open("rb") as file:
            _check_container(path, file)
            file.seek(0)
            return _read(path, file)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file.") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}).") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, struct.error):
        raise InputError(f"{path}: is damaged or no xlsx file; {AS_XLSX}, or ask for it again.") from None


def _check_container(path: Path, file: IO[bytes]) -> None:
    """Refuse what is no plain xlsx, by the parts it says it has and by what they really unpack to."""
    if file.read(len(OLE)) == OLE:
        raise InputError(f"{path}: has a password or is an old .xls; {AS_XLSX}, without a password.")
    with zipfile.ZipFile(file) as archive:
        parts = archive.infolist()
        names = {part.filename.lower() for part in parts}
        _check_kind(path, archive, names)
        if len(parts) > MAX_PARTS or sum(part.file_size for part in parts) > MAX_UNPACKED:
            raise InputError(f"{path}: unpacks to more than a sheet may hold, so it was not opened; ask for it again.")
        read = 0
        for part in parts:
            if part.filename.lower().endswith((".xml", ".rels")):
                read += _check_part(path, archive, part)
            if read > MAX_XML:
                raise InputError(f"{path}: holds more text than a sheet may, so it was not opened; ask for it again.")


def _check_kind(path: Path, archive: zipfile.ZipFile, names: set[str]) -> None:
    """An xlsx without macros, controls, or links to other files."""
    if "mimetype" in names and b"opendocument" in archive.open("mimetype").read(100):
        raise InputError(f"{path}: is an OpenDocument file; {AS_XLSX}.")
    if "[content_types].xml" not in names or not any(name.startswith("xl/") for name in names):
        raise InputError(f"{path}: is no xlsx file; {AS_XLSX}.")
    kind = path.suffix.lower()
    if kind in (".xlsm", ".xltm", ".xlam") or any(name.endswith("vbaproject.bin") for name in names):
        raise InputError(f"{path}: holds macros, which are never opened; {AS_XLSX}, which leaves them out.")
    if any(name.startswith("xl/") and name.endswith(".bin") and "workbook" in name for name in names):
        raise InputError(f"{path}: is a binary workbook (.xlsb); {AS_XLSX}.")
    for start, what in _REFUSED:
        if any(name.startswith(start) for name in names):
            raise InputError(f"{path}: holds {what}, which are never opened; remove them and save it again.")


def _check_part(path: Path, archive: zipfile.ZipFile, part: zipfile.ZipInfo) -> int:
    """Read a part through in pieces; returns its true size in bytes."""
    size, tail = 0, b""
    name = part.filename.lower()
    with archive.open(part) as stream:
        while piece := stream.read(_PIECE):
            size += len(piece)
            if size > MAX_XML or (size > RATIO_FROM and size > MAX_RATIO * max(1, part.compress_size)):
                raise InputError(
                    f"{path}: its part '{part.filename}' unpacks to far more than a sheet's text, so it was not "
                    "opened; ask for the file again."
                )
            seen = tail + piece
            if b"<!DOCTYPE" in seen or b"<!ENTITY" in seen:
                raise InputError(f"{path}: its part '{part.filename}' declares entities, so it was not opened.")
            if name == "[content_types].xml" and b"macroenabled" in seen.lower():
                raise InputError(f"{path}: holds macros, which are never opened; {AS_XLSX}, which leaves them out.")
            if name == "xl/workbook.xml" and _STRICT in seen:
                raise InputError(f"{path}: is saved as 'Strict Open XML'; {AS_XLSX}.")
            tail = piece[-len(_STRICT) :]
    return size


def _read(path: Path, file: IO[bytes]) -> list[Sheet]:
    """The tabs by openpyxl, which raises many kinds of errors on files that are not as it expects."""
    import openpyxl

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of features that are not read: validations, dates out of range, headers
        try:
            book = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)
            return [Sheet(tab.title, list(_rows(path, tab))) for tab in book.worksheets]
        except (InputError, OSError, MemoryError):
            raise
        except Exception as error:
            raise InputError(
                f"{path}: cannot be read as xlsx ({type(error).__name__}: {str(error)[:120]}); {AS_XLSX}, or save its "
                "tabs as csv."
            ) from None


def _rows(path: Path, tab: Any) -> Iterator[tuple[int, tuple[str, ...]]]:
    # What a file says of its own extent is often wrong (and read_only would believe it).
    tab.reset_dimensions()
    rows = tab.iter_rows(min_row=1, min_col=1, values_only=True)
    for number, whole in enumerate(itertools.islice(rows, LAST_ROW + 1), start=1):
        if not whole:  # a gap may be a million rows long
            continue
        row = whole[:MAX_COLUMNS]
        last = next((at for at in range(len(row) - 1, -1, -1) if row[at] not in (None, "")), None)
        if last is None:
            continue
        if number > MAX_ROWS:
            raise InputError(
                f"{path}, tab '{tab.title}': has content in row {number:,}, and a tab may have {MAX_ROWS:,} rows; "
                "delete what does not belong there."
            )
        yield number, tuple(as_text(value) for value in row[: last + 1])


def as_text(value: object) -> str:
    """A cell as the text a person sees: whole numbers without a fraction, dates as in ISO 8601, cut at the limit."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        return value.date().isoformat()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return str(value)[:MAX_CELL]
