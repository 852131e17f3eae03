"""Reader of a returned workbook: sizes are limited, only values are read, and nothing in the file is run.

The zip's directory is checked before anything is unpacked. Only the parts with cells are unpacked, as a stream
(:mod:`chexqa.review.collect.xlsx_parts`). Files with macros or links to other workbooks are refused, because a review
sheet needs neither.
"""

from __future__ import annotations

import datetime
import io
import posixpath
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from chexqa.files.errors import InputError, unreadable
from chexqa.files.opening import open_binary
from chexqa.review.collect.read_ods import read_content
from chexqa.review.collect.xlsx_parts import (
    AS_XLSX,
    END,
    FORMULA,
    MAX_CELL,
    MAX_COLUMNS,
    MAX_REMARKS,
    MAX_ROWS,
    NOTE,
    ROW,
    SAVED_ANEW,
    START,
    STRUCK,
    TEXT,
    BrokenError,
    CellText,
    Parts,
    Remark,
    Value,
    Workbook,
    column_number,
    is_on,
    merge_remark,
    open_workbook,
)  # fmt: skip

# Bounds on one file: bytes on disk, bytes of the zip's directory, number of parts, bytes of all parts unpacked, and
# ratio of unpacked to packed bytes for a part of at least RATIO_FROM bytes.
MAX_BYTES = 400 * 2**20
MAX_DIRECTORY = 16 * 2**20
MAX_PARTS = 50_000
MAX_UNPACKED = 2**30
MAX_RATIO, RATIO_FROM = 200, 4 * 2**20

OLE = bytes.fromhex("d0cf11e0a1b11ae1")
_TYPES = "[content_types].xml"
# Parts that can run code or read other files: folder, content type, and words for the message.
_REFUSED = (
    ("xl/externallinks/", "externallink", "links to other workbooks"),
    ("xl/connections.xml", "spreadsheetml.connections", "data connections"),
    ("xl/macrosheets/", "macrosheet", "macros"),
    ("xl/dialogsheets/", "dialogsheet", "macros"),
    ("xl/activex/", "activex", "ActiveX controls"),
    ("xl/embeddings/", "oleobject", "embedded files"),
)


class SheetCells(NamedTuple):
    """One tab of a sheet; a csv file is one tab without a name.

    - ``rows``: the non-empty rows ``(row number from 1, cells as text)``.
    - ``remarks``: properties of cells that ``rows`` does not show, such as notes and struck-out text.
    """

    name: str
    rows: list[tuple[int, tuple[str, ...]]]
    remarks: Sequence[Remark] = ()


class _Container(io.FileIO):
    """File that raises an error if too much is read at once, such as a zip directory that lists very many parts."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > MAX_DIRECTORY:
            raise zipfile.BadZipFile("a zip directory that is too large")
        return super().read(-1 if size is None else size)


def read_workbook(path: Path, inside: Path | None = None) -> list[SheetCells]:
    """Return all tabs of an xlsx or ods file, including hidden ones.

    ``inside`` is the folder in which the file was found. Raises ``InputError`` if the file is too large or unsafe, or
    is a link that leads out of this folder.
    """
    try:
        with open_binary(path, MAX_BYTES, inside) as opened, _Container(opened.fileno(), closefd=False) as file:
            if file.read(len(OLE)) == OLE:
                raise InputError(f"{path}: has a password or is an old .xls; {AS_XLSX}, without a password.")
            with zipfile.ZipFile(file) as archive:
                if _is_ods(archive):
                    return _read_ods(path, _bounded(path, archive))
                return _read(path, _checked(path, archive))
    except OSError as error:
        raise unreadable(path, error) from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, struct.error):
        raise InputError(f"{path}: is damaged or not an xlsx file; {AS_XLSX}, or ask for it again.") from None


def _is_ods(archive: zipfile.ZipFile) -> bool:
    """Return True for an OpenDocument spreadsheet."""
    if "mimetype" not in archive.namelist():
        return False
    return archive.open("mimetype").read(100).startswith(b"application/vnd.oasis.opendocument.spreadsheet")


def _read_ods(path: Path, parts: Parts) -> list[SheetCells]:
    try:
        return [SheetCells(tab.name, tab.rows, tuple(tab.remarks)) for tab in read_content(parts)]
    except (ValueError, LookupError, OverflowError) as error:
        reason = f"{type(error).__name__}: {str(error)[:120]}"
        raise InputError(f"{path}: cannot be read as ods ({reason}); {AS_XLSX}, without a password.") from None


def _checked(path: Path, archive: zipfile.ZipFile) -> Parts:
    """Return the parts of an xlsx file; raise ``InputError`` if it is of another kind, too large, or has macros."""
    _check_kind(path, archive, {part.filename.lower(): part for part in archive.infolist()})
    return _bounded(path, archive)


def _bounded(path: Path, archive: zipfile.ZipFile) -> Parts:
    """Return a file's parts; raise ``InputError`` if the sizes in the zip's directory are too large.

    Unpacking a part never gives more bytes than the directory says.
    """
    whole = archive.infolist()
    named = {part.filename.lower(): part for part in whole}
    if len(whole) > MAX_PARTS or sum(part.file_size for part in whole) > MAX_UNPACKED:
        raise InputError(f"{path}: is too large when unpacked, so it was not opened; {SAVED_ANEW}.")
    for part in whole:
        if part.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise zipfile.BadZipFile("a compression that no spreadsheet program uses")
        if part.file_size > RATIO_FROM and part.file_size > MAX_RATIO * max(1, part.compress_size):
            raise InputError(
                f"{path}: its part '{part.filename}' is compressed far more than a sheet's text can be, so it was "
                f"not opened; {SAVED_ANEW}."
            )
    if len(named) < len(whole):
        twice = next(name for name, count in Counter(part.filename.lower() for part in whole).items() if count > 1)
        raise InputError(f"{path}: contains two parts named '{twice}', so it was not opened; {SAVED_ANEW}.")
    return Parts(path, archive, named)


def _check_kind(path: Path, archive: zipfile.ZipFile, names: Mapping[str, zipfile.ZipInfo]) -> None:
    """Raise ``InputError`` if the file is not an xlsx, or has macros, controls or links to other files."""
    if "mimetype" in names and b"opendocument" in archive.open(names["mimetype"]).read(100):
        raise InputError(f"{path}: is an OpenDocument file, but not a spreadsheet; {AS_XLSX}.")
    if _TYPES not in names or not any(name.startswith("xl/") for name in names):
        raise InputError(f"{path}: is not an xlsx file; {AS_XLSX}.")
    kind = path.suffix.lower()
    if kind in (".xlsm", ".xltm", ".xlam") or any(name.endswith("vbaproject.bin") for name in names):
        raise InputError(f"{path}: contains macros, so it was not read; {AS_XLSX}, which leaves the macros out.")
    if any(name.startswith("xl/") and name.endswith(".bin") and "workbook" in name for name in names):
        raise InputError(f"{path}: is a binary workbook (.xlsb); {AS_XLSX}.")
    for start, _, what in _REFUSED:
        if any(name.startswith(start) for name in names):
            raise InputError(f"{path}: contains {what}, so it was not read; remove the {what} and save the file again.")


def _check_types(parts: Parts) -> None:
    """Raise ``InputError`` if the content type of a part shows macros, controls or links to other files.

    :func:`_check_kind` looks for the same by the names of the parts.
    """
    types = [values.get("ContentType", "").lower() for _, _, values in parts.events(_TYPES)]
    if any("macroenabled" in kind or "vbaproject" in kind for kind in types):
        raise InputError(f"{parts.path}: contains macros, so it was not read; {AS_XLSX}, which leaves the macros out.")
    for _, word, what in _REFUSED:
        if any(word in kind for kind in types):
            raise InputError(
                f"{parts.path}: contains {what}, so it was not read; remove the {what} and save the file again."
            )


def _read(path: Path, parts: Parts) -> list[SheetCells]:
    """Return the tabs of a workbook; raise ``InputError`` if it breaks the format."""
    try:
        _check_types(parts)
        book = open_workbook(parts)
        sheets = []
        for name, part in book.tabs:
            book.remarks = []
            found = list(_rows(parts, book, name, part))
            sheets.append(SheetCells(name, found, (*book.remarks, *_notes(parts, part))))
        return sheets
    except (ValueError, LookupError, OverflowError) as error:
        reason = f"{type(error).__name__}: {str(error)[:120]}"
        raise InputError(f"{path}: cannot be read as xlsx ({reason}); {AS_XLSX}, or save its tabs as csv.") from None


def _notes(parts: Parts, name: str) -> Iterator[Remark]:
    """Yield a remark for each note or comment on a cell of a tab."""
    for link in parts.links(name).values() if _links_of(name) in parts.names else ():
        if link.kind not in ("comments", "threadedComment"):
            continue
        text, place = CellText(("t", "text")), ""
        for kind, tag, values in parts.events(link.target):
            if kind == START and tag in ("comment", "threadedComment"):
                text, place = CellText(("t",) if tag == "comment" else ("text",)), values.get("ref", "")
            elif kind == END and tag in ("comment", "threadedComment"):
                yield merge_remark(place)._replace(what=NOTE, text=str(text))
            else:
                text.take(kind, tag)


def _links_of(name: str) -> str:
    folder, file = posixpath.split(name)
    return posixpath.join(folder, "_rels", f"{file}.rels").lower()


def _rows(parts: Parts, book: Workbook, tab: str, part: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    for number, row in _cells(parts, book, part):
        if number > MAX_ROWS:
            raise InputError(
                f"{parts.path}, tab '{tab}': has content in row {number:,}, but a tab may have at most {MAX_ROWS:,} "
                "rows; delete the rows that do not belong there."
            )
        cells = tuple(as_text(value) for value in row)
        parts.characters += sum(map(len, cells))
        parts.check()
        yield number, cells


def _cells(parts: Parts, book: Workbook, name: str) -> Iterator[tuple[int, list[Value]]]:
    """Yield a tab's rows ``(number from 1, cells from the first column)`` in their order, without empty rows."""
    number, column, cells = 0, 0, list[Value]()
    about: Mapping[str, str] = {}
    text: CellText | None = None
    done = struck = formula = False
    for kind, tag, values in parts.events(name):
        if done:
            if (kind, tag) == (START, "mergeCell") and len(book.remarks) < MAX_REMARKS:
                book.remarks.append(merge_remark(values.get("ref", "")))
        elif text is not None and (kind, tag) != (END, "c"):
            struck = struck or ((kind, tag) == (START, "strike") and is_on(values))
            formula = formula or (kind, tag) == (START, "f")
            text.take(kind, tag)
        elif kind == TEXT:
            continue
        elif tag == "row" and kind == START:
            number, column, cells = _row_number(values, number), 0, []
        elif tag == "row":
            parts.cells += len(cells)
            parts.check()
            if cells:
                yield number, cells
        elif tag == "c" and kind == START:
            column, about = column_number(values, column), values
            struck = formula = False
            text = CellText(("t",) if values.get("t") == "inlineStr" else ("v",))
        elif tag == "c":
            text_given = str(text)
            value, text = _value(book, about, text_given), None
            row = book.row_styles.get(int(about.get("s", 0)))
            if row and column <= MAX_COLUMNS and len(book.remarks) < MAX_REMARKS:
                book.remarks.append(Remark(number, column, number, column, ROW, row))
            if column <= MAX_COLUMNS and value not in (None, ""):
                cells.extend([None] * (column - len(cells)))
                cells[column - 1] = value
                if struck or _is_struck(book, about, text_given):
                    book.remarks.append(Remark(number, column, number, column, STRUCK, str(value)[:MAX_CELL]))
            elif formula and about.get("t") != "str":  # a stored result that is empty has the type "str"
                book.remarks.append(Remark(number, column, number, column, FORMULA, ""))
        elif tag == "sheetData" and kind == END:
            done = True


def _is_struck(book: Workbook, about: Mapping[str, str], text: str) -> bool:
    """Return True if a cell's style strikes text out, or if a word of its shared text is struck out."""
    if int(about.get("s", 0)) in book.struck_styles:
        return True
    return about.get("t") == "s" and int(text) in book.struck_texts


def _row_number(values: Mapping[str, str], before: int) -> int:
    number = int(float(values["r"])) if "r" in values else before + 1
    if number <= before:
        raise BrokenError(f"row {number} after row {before}")
    return number


def _value(book: Workbook, about: Mapping[str, str], text: str) -> Value:
    """Return a cell's value from its type and text; ``None`` for an empty cell."""
    kind = about.get("t", "n")
    if not text:
        return None
    if kind == "n":
        return book.number(text, int(about.get("s", 0)))
    if kind == "s":
        return book.texts[int(text)]
    if kind == "b":
        return bool(int(text))
    if kind == "d":
        from openpyxl.utils.datetime import from_ISO8601

        date: Value = from_ISO8601(text)
        return date
    return text


def as_text(value: object) -> str:
    """Return a cell as text of at most :data:`MAX_CELL` characters.

    Whole numbers have no fraction, and dates are in ISO 8601.
    """
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
