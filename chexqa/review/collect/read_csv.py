"""Reader of a tab saved as csv, in any usual encoding and with any usual delimiter."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path

from chexqa.files.errors import InputError
from chexqa.files.opening import read_whole
from chexqa.review.collect.read_xlsx import SheetCells
from chexqa.review.collect.xlsx_parts import MAX_CELL, MAX_COLUMNS, MAX_ROWS

# A file of this size that has only short cells takes a few hundred megabytes of memory.
MAX_BYTES = 16 * 2**20
# The csv module has one limit for the whole process, and other readers raise it.
_LONGEST_CELL = 4 * MAX_CELL
_TOP = 2**20
DELIMITERS = ",;\t"
_BOMS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))


def read_csv(path: Path, known: Iterable[str], inside: Path | None = None) -> SheetCells:
    """Return the rows of a csv file.

    The delimiter is recognized by the column titles ``known``. The encoding is UTF-8 with or without a byte order mark,
    UTF-16 with a byte order mark, or Windows-1252 (Excel's plain "CSV" in Western countries). ``inside`` is the folder
    in which the file was found; a link that leads out of this folder raises ``InputError``.
    """
    text = _decode(path, read_whole(path, MAX_BYTES, inside))
    return SheetCells("", _parse(path, text, _delimiter(text, known)))


def _decode(path: Path, data: bytes) -> str:
    marked = [encoding for mark, encoding in _BOMS if data.startswith(mark)]
    for name in marked or ("utf-8", "cp1252"):
        try:
            return data.decode(name)
        except UnicodeDecodeError:
            continue
    raise InputError(f"{path}: is in an unknown text encoding; save it as 'CSV UTF-8'.")


def _delimiter(text: str, known: Iterable[str]) -> str:
    """Return the delimiter from a first line ``sep=;``, otherwise the delimiter that gives the most known columns."""
    if text[:4].lower() == "sep=" and text[4:5] in DELIMITERS:
        return text[4]
    names = set(known)
    lines = text[:_TOP].splitlines()[:20]

    def found(delimiter: str) -> int:
        return max((len(names & {cell.strip(' "') for cell in line.split(delimiter)}) for line in lines), default=0)

    return max(DELIMITERS, key=found)


def _parse(path: Path, text: str, delimiter: str) -> list[tuple[int, tuple[str, ...]]]:
    """Return the rows that are not empty, each with its number as a spreadsheet program shows it."""
    rows = []
    try:
        csv.field_size_limit(_LONGEST_CELL)
        for number, row in enumerate(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), start=1):
            if not any(row):
                continue
            if number > MAX_ROWS:
                raise InputError(
                    f"{path}: has more than {MAX_ROWS:,} rows; delete rows that the sheet of chexqa does not have."
                )
            rows.append((number, tuple(cell[:MAX_CELL] for cell in row[:MAX_COLUMNS])))
    except csv.Error as error:
        raise InputError(f"{path}: cannot be read as csv ({error}); save it again as 'CSV UTF-8'.") from None
    return rows
