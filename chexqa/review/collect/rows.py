"""From the files that came back to rows with titles: which tabs hold work, where their titles are, what is left out.

Nothing is judged here but whether a row can be read at all; :mod:`chexqa.review.collect.parse_rows` says what a row
means.
"""

from __future__ import annotations

import datetime
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from chexqa.files.errors import InputError
from chexqa.review import columns
from chexqa.review.collect.read_csv import read_csv
from chexqa.review.collect.read_xlsx import Sheet, read_workbook
from chexqa.review.collect.xlsx_parts import AS_XLSX
from chexqa.review.columns import CHECKSUM, ID, KEY_ID, OPTIMAL, TIME_TITLES, plain, title_of

# Titles stand in the first row; a reviewer may have put rows of their own above.
TITLE_ROWS = 20
_CHECKSUM = re.compile(r"k-[0-9a-f]{16}")
_READ = (".xlsx", ".csv")
# What a program saves a sheet as that cannot be read here; other files of a folder (pictures, pages) are no sheets.
_UNREAD = (".ods", ".xls", ".xlsm", ".xlsb", ".xltx", ".xltm", ".numbers", ".tsv", ".fods", ".gsheet")


class Problem(NamedTuple):
    """What is wrong and what to do, in one clause; ``row`` is ``None`` for a whole file or tab."""

    file: str
    tab: str
    row: int | None
    text: str


class Row(NamedTuple):
    """A row of a work tab: its cells by title (as :func:`chexqa.review.columns.title_of` has it), as they were read.

    ``titles``: those of the tab, with and without a cell below them in this row.
    """

    file: str
    tab: str
    number: int
    cells: dict[str, str]
    titles: frozenset[str]


class Returned(NamedTuple):
    """What files hold: rows in their order, seconds spent by (file, tab), and what could not be read."""

    rows: list[Row]
    seconds: dict[tuple[str, str], float]
    problems: list[Problem]


def sheet_files(paths: Iterable[Path]) -> dict[Path, Path | None]:
    """The files to read: those given, and all sheets in a folder, without what programs leave beside them.

    With each file the given folder that it was found in, ``None`` for one that was given itself.
    """
    files: dict[Path, Path | None] = {}
    for path in paths:
        if path.is_dir():
            inside = sorted(entry for entry in path.rglob("*") if entry.suffix.lower() in _READ + _UNREAD)
            found = (entry for entry in inside if entry.is_symlink() or not entry.is_dir())
            own = (entry for entry in found if not entry.name.startswith((".", "~$")))
            files = {**dict.fromkeys(own, path), **files}
        elif path.exists():
            files[path] = None
        else:
            raise InputError(f"{path}: no such file or folder; name the sheets that came back, or their folder.")
    if not files:
        raise InputError(f"{', '.join(map(str, paths))}: holds no .xlsx or .csv; name the sheets that came back.")
    return files


def read_files(files: Mapping[Path, Path | None]) -> Returned:
    """Every row of every work tab; a file that cannot be read is a problem, and the others are read on.

    ``files``: as :func:`sheet_files` gives them.
    """
    returned = Returned([], {}, [])
    for path, folder in files.items():
        try:
            sheets = _sheets(path, folder)
        except InputError as error:
            returned.problems.append(Problem(str(path), "", None, str(error).removeprefix(f"{path}: ").rstrip(".")))
            continue
        before = len(returned.rows)
        for sheet in sheets:
            _read_sheet(str(path), sheet, returned)
        if len(returned.rows) == before and not any(problem.file == str(path) for problem in returned.problems):
            returned.problems.append(
                Problem(str(path), "", None, "holds no tab with the title 'id'; send a sheet that chexqa wrote")
            )
    return returned


def _sheets(path: Path, folder: Path | None) -> list[Sheet]:
    ending = path.suffix.lower()
    if ending == ".csv":
        return [read_csv(path, {ID, CHECKSUM, KEY_ID, OPTIMAL, columns.VERDICT, columns.COMMENT}, folder)]
    if ending in _READ or ending in (".xlsm", ".xltm", ".ods", ".xls"):
        return read_workbook(path, folder)
    raise InputError(f"{path}: is no xlsx file; {AS_XLSX}.")


def _read_sheet(file: str, sheet: Sheet, returned: Returned) -> None:
    """Add a tab's rows, or its times, or the problem that its titles are gone."""
    for place, (number, cells) in enumerate(sheet.rows):
        titles = [title_of(cell) for cell in cells]
        if number <= TITLE_ROWS and (ID in titles or {KEY_ID, OPTIMAL} <= set(titles)):
            # A sort that took the titles along may have left rows above them.
            above = [entry for entry in sheet.rows[:place] if any(_CHECKSUM.fullmatch(cell) for cell in entry[1])]
            for row, values in (*above, *sheet.rows[place + 1 :]):
                _add_row(file, sheet.name, row, titles, values, returned)
            return
        if set(TIME_TITLES) <= set(titles):
            for row, values in _block(sheet.rows[place + 1 :], number + 1):
                _add_time(file, sheet.name, row, dict(zip(titles, values, strict=False)), returned)
            return
    lost = next((number for number, cells in sheet.rows if any(_CHECKSUM.fullmatch(cell) for cell in cells)), None)
    if lost is not None:
        text = "the titles of the tab are gone; copy its first row from the sheet as it was dealt"
        returned.problems.append(Problem(file, sheet.name, lost, text))


def _block(rows: Iterable[tuple[int, tuple[str, ...]]], first: int) -> Iterable[tuple[int, tuple[str, ...]]]:
    """The rows that follow each other without an empty one, from number ``first`` on."""
    return [row for expected, row in enumerate(rows, start=first) if row[0] == expected]


def _add_row(
    file: str, tab: str, number: int, titles: Sequence[str], values: Sequence[str], returned: Returned
) -> None:
    cells: dict[str, str] = {}
    # Columns of a reviewer's own have a title; beyond the last one nobody would look for an answer.
    for title, value in itertools.zip_longest(titles, values, fillvalue=""):
        if not value.strip():
            continue
        if not title:
            text = f"'{plain(value)[:60]}' stands in a column without a title; write the title back, or empty the cell"
            returned.problems.append(Problem(file, tab, number, text))
            continue
        if title in cells and plain(cells[title]) != plain(value):
            text = f"two columns are titled '{title}' and say different things; delete the one that does not count"
            returned.problems.append(Problem(file, tab, number, text))
            return
        cells[title] = value
    returned.rows.append(Row(file, tab, number, cells, frozenset(titles)))


def _add_time(file: str, tab: str, number: int, cells: dict[str, str], returned: Returned) -> None:
    """The seconds between the times a reader wrote for a tab; without both there is nothing to say."""
    name, *times = (plain(cells.get(title, "")) for title in TIME_TITLES)
    if not name or not all(times):
        return
    began, ended = (_moment(time) for time in times)
    if began is None or ended is None or (began.year == _NO_DAY.year) != (ended.year == _NO_DAY.year):
        text = f"'{times[0]}' to '{times[1]}' is no span of time; write both times like 14:05"
        returned.problems.append(Problem(file, tab, number, text))
        return
    seconds = (ended - began).total_seconds()
    # Times of day may run past midnight.
    returned.seconds[file, name] = seconds if seconds >= 0 else seconds % 86_400


_NO_DAY = datetime.date(1900, 1, 1)  # what strptime puts where a form has no date
_TIMES = ("%H:%M", "%H:%M:%S", "%H.%M", "%I:%M %p", "%I:%M:%S %p")


def _moment(text: str) -> datetime.datetime | None:
    """A time of day (on no day), or a date and time, as programs and people write them."""
    for form in _TIMES:
        try:
            return datetime.datetime.strptime(text, form)
        except ValueError:
            continue
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        return None


def fold(problems: Iterable[Problem]) -> list[str]:
    """The problems as lines, in order, rows with the same one in the same file together."""
    places: dict[tuple[str, str], dict[str, list[int]]] = {}
    for problem in problems:
        rows = places.setdefault((problem.file, problem.text), {}).setdefault(problem.tab, [])
        if problem.row is not None:
            rows.append(problem.row)
    lines = []
    for (file, text), tabs in places.items():
        where = "; ".join(filter(None, (_place(tab, rows) for tab, rows in tabs.items())))
        lines.append(f"{file}{', ' if where else ''}{where}: {text}.")
    return lines


def _place(tab: str, rows: list[int]) -> str:
    """``tab 'Work 1', rows 2-5, 9``."""
    runs: list[list[int]] = []
    for row in sorted(set(rows)):
        if runs and row == runs[-1][1] + 1:
            runs[-1][1] = row
        else:
            runs.append([row, row])
    named = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
    numbers = f"row{'s' if len(set(rows)) > 1 else ''} {named}" if rows else ""
    return ", ".join(filter(None, (f"tab '{tab}'" if tab else "", numbers)))
