"""Reading a tab that somebody saved as csv, in whatever encoding and with whatever delimiter their program uses."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path

from chexqa.files.errors import InputError
from chexqa.files.opening import read_whole
from chexqa.review.collect.read_xlsx import Sheet
from chexqa.review.collect.xlsx_parts import MAX_CELL, MAX_COLUMNS, MAX_ROWS

# As many short cells as this has bytes take a few hundred megabytes once they are text.
MAX_BYTES = 16 * 2**20
# The csv module has one limit a process, which other readers raise.
_LONGEST_CELL = 4 * MAX_CELL
_TOP = 2**20
DELIMITERS = ",;\t"
_BOMS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))


def read_csv(path: Path, known: Iterable[str], inside: Path | None = None) -> Sheet:
    """The rows of a csv; ``known`` are the column names by which its header and delimiter are told.

    ``inside``: the folder it was found in, out of which no link may lead.
    UTF-8 with or without a mark, UTF-16 with one, else Windows-1252, the encoding of Excel's plain "CSV" in the West.
    """
    text = _decode(path, read_whole(path, MAX_BYTES, inside))
    return Sheet("", _parse(path, text, _delimiter(text, known)))


def _decode(path: Path, data: bytes) -> str:
    marked = [encoding for mark, encoding in _BOMS if data.startswith(mark)]
    for name in marked or ("utf-8", "cp1252"):
        try:
            return data.decode(name)
        except UnicodeDecodeError:
            continue
    raise InputError(f"{path}: is text in an encoding nobody expects; save it as 'CSV UTF-8'.")


def _delimiter(text: str, known: Iterable[str]) -> str:
    """The delimiter that makes the most known columns in any of the first lines; a first line ``sep=;`` says it."""
    if text[:4].lower() == "sep=" and text[4:5] in DELIMITERS:
        return text[4]
    names = set(known)
    lines = text[:_TOP].splitlines()[:20]

    def found(delimiter: str) -> int:
        return max((len(names & {cell.strip(' "') for cell in line.split(delimiter)}) for line in lines), default=0)

    return max(DELIMITERS, key=found)


def _parse(path: Path, text: str, delimiter: str) -> list[tuple[int, tuple[str, ...]]]:
    """Rows that hold anything, numbered as a spreadsheet program that opens the file numbers them."""
    rows = []
    try:
        csv.field_size_limit(_LONGEST_CELL)
        for number, row in enumerate(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), start=1):
            if not any(row):
                continue
            if number > MAX_ROWS:
                raise InputError(f"{path}: has more than {MAX_ROWS:,} rows; keep only those of the sheet.")
            rows.append((number, tuple(cell[:MAX_CELL] for cell in row[:MAX_COLUMNS])))
    except csv.Error as error:
        raise InputError(f"{path}: is no csv a spreadsheet writes ({error}); save it again as 'CSV UTF-8'.") from None
    return rows
