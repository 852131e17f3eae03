"""Reading of returned files into rows whose cells are keyed by column title.

This module finds the work tabs, their title rows, and the rows that cannot be read.
:mod:`chexqa.review.collect.parse_rows` then finds the meaning of each row.
"""

from __future__ import annotations

import datetime
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from chexqa.files.errors import InputError
from chexqa.review import columns
from chexqa.review.collect import read_page
from chexqa.review.collect.read_csv import read_csv
from chexqa.review.collect.read_xlsx import SheetCells, read_workbook
from chexqa.review.collect.xlsx_parts import AS_XLSX, FORMULA, MERGED, NOTE, ROW, STRUCK, Remark
from chexqa.review.columns import (
    ABOUT_QUESTIONS,
    ABOUT_TITLES,
    CHECKSUM,
    ID,
    KEY_ID,
    OPTIMAL,
    TIME_TITLES,
    plain,
    title_of,
)

# Titles are in the first row, unless a reviewer added rows above it.
TITLE_ROWS = 20
MAX_SAID = 1_000  # characters that are kept of a reader's answer to a question on the first tab
_MOVED = "moved"  # kind of remark on cells that a sort moved to another row
# Advice on a file without rows: the first text is for a workbook, the second for a csv file.
_SHEET = "send a sheet that chexqa wrote"
_CSV = "a csv file holds one tab: save the tab with the rows, or send the whole workbook as xlsx"
_CHECKSUM = re.compile(r"k-[0-9a-f]{16}")
_READ = (".xlsx", ".csv", ".ods", ".tsv")
_PAGES = (read_page.ENDING,)
# Suffixes of spreadsheets that cannot be read here; other files in a folder (pictures, pages) are ignored.
_UNREAD = (".xls", ".xlsm", ".xlsb", ".xltx", ".xltm", ".numbers", ".fods", ".gsheet")


class Problem(NamedTuple):
    """Problem in a file; ``text`` also has the remedy, and ``row`` is ``None`` if a whole file or tab is affected."""

    file: str
    tab: str
    row: int | None
    text: str


class FilledRow(NamedTuple):
    """Row of a work tab: the texts of its filled cells, keyed by column title, and all titles of the tab.

    Titles are spelled as :func:`chexqa.review.columns.title_of` returns them.
    """

    file: str
    tab: str
    number: int
    cells: dict[str, str]
    titles: frozenset[str]


class SpoiltRow(NamedTuple):
    """Returned row that is not imported, because the reviewer added a note, or because an entry is unreadable.

    An entry is unreadable if its cell has struck-out words or a formula without a result, is merged, or was moved.

    - ``row``: the row without the unreadable entries, and with the texts of the notes added to its comment.
    - ``text``: the problem and the remedy.
    """

    row: FilledRow
    text: str


class Returned(NamedTuple):
    """Content of the files that reviewers and readers returned.

    - ``rows``: the rows that can be read, in the order of the files.
    - ``spoilt``: the rows that cannot be read, each with its problem.
    - ``problems``: all problems other than those of ``spoilt`` rows.
    - ``seconds``: the time that a reader spent on a tab, keyed by file and tab.
    - ``pages``: the files that were saved from review pages.
    - ``about``: the reader's answers on experience, display and conditions, keyed by file and then by question.
    """

    rows: list[FilledRow]
    seconds: dict[tuple[str, str], float]
    problems: list[Problem]
    pages: list[read_page.SavedPage]
    spoilt: list[SpoiltRow]
    about: dict[str, dict[str, str]]


def sheet_files(paths: Iterable[Path]) -> dict[Path, Path | None]:
    """Return the files to read: the given files, and all sheets in given folders except hidden and temporary files.

    The value of each file is the given folder in which it was found, or ``None`` if the file itself was given. Raises
    ``InputError`` if a path does not exist or if there is no file to read.
    """
    files: dict[Path, Path | None] = {}
    for path in paths:
        if path.is_dir():
            inside = sorted(entry for entry in path.rglob("*") if entry.suffix.lower() in _READ + _UNREAD + _PAGES)
            found = (entry for entry in inside if entry.is_symlink() or not entry.is_dir())
            own = (entry for entry in found if not entry.name.startswith((".", "~$")) and _is_meant(entry, path))
            files = {**dict.fromkeys(own, path), **files}
        elif path.exists():
            files[path] = None
        else:
            raise InputError(f"{path}: no such file or folder; name the returned sheets, or their folder.")
    if not files:
        raise InputError(
            f"{', '.join(map(str, paths))}: found no sheet (.xlsx, .ods, .csv, .tsv) and no file saved by a review "
            "page (.json); name the files that the reviewers returned."
        )
    return files


def _is_meant(path: Path, folder: Path) -> bool:
    """Return True if a file in a folder is to be read; of JSON files, only those saved by a page are."""
    return path.suffix.lower() not in _PAGES or read_page.is_saved_page(path, folder)


def read_files(files: Mapping[Path, Path | None]) -> Returned:
    """Read every row of every work tab of ``files``, the result of :func:`sheet_files`.

    A file that cannot be read becomes a problem; the other files are still read.
    """
    returned = Returned([], {}, [], [], [], {})
    for path, folder in files.items():
        try:
            sheets = _sheets(path, folder, returned)
        except InputError as error:
            returned.problems.append(Problem(str(path), "", None, str(error).removeprefix(f"{path}: ").rstrip(".")))
            continue
        before = len(returned.rows) + len(returned.spoilt)
        for sheet in sheets:
            _read_sheet(str(path), sheet, returned)
        if (
            len(returned.rows) + len(returned.spoilt) == before
            and path.suffix.lower() not in _PAGES
            and not any(problem.file == str(path) for problem in returned.problems)
        ):
            what = _CSV if path.suffix.lower() == ".csv" else _SHEET
            returned.problems.append(Problem(str(path), "", None, f"has no tab with a column 'id'; {what}"))
    return returned


def _sheets(path: Path, folder: Path | None, returned: Returned) -> list[SheetCells]:
    ending = path.suffix.lower()
    if ending in _PAGES:
        page = read_page.read_page(path, folder)
        returned.pages.append(page)
        for said in page.about.get("about", {}).items():
            _add_about(str(path), dict(zip(ABOUT_TITLES, said, strict=True)), returned)
        return read_page.as_sheets(page)
    if ending in (".csv", ".tsv"):
        return [read_csv(path, {ID, CHECKSUM, KEY_ID, OPTIMAL, columns.VERDICT, columns.COMMENT}, folder)]
    if ending in _READ or ending in (".xlsm", ".xltm", ".xls"):
        return read_workbook(path, folder)
    raise InputError(f"{path}: is not an xlsx file; {AS_XLSX}.")


def _read_sheet(file: str, sheet: SheetCells, returned: Returned) -> None:
    """Add the rows, times and answers of a tab to ``returned``; add a problem if a work tab has lost its titles."""
    for place, (number, cells) in enumerate(sheet.rows):
        titles = [title_of(cell) for cell in cells]
        if number <= TITLE_ROWS and (ID in titles or {KEY_ID, OPTIMAL} <= set(titles)):
            # Sorting a tab together with its titles may have put rows above them.
            bad = _remarked(file, sheet, number, titles, returned)
            if _is_index(titles, [values for _, values in sheet.rows[place + 1 :]]):
                titles[0] = "row"
            above = [entry for entry in sheet.rows[:place] if any(_CHECKSUM.fullmatch(cell) for cell in entry[1])]
            for row, values in (*above, *sheet.rows[place + 1 :]):
                if row in bad:
                    continue
                _add_row(file, sheet.name, row, titles, values, returned)
            return
        if set(TIME_TITLES) <= set(titles):
            for row, values in _block(sheet.rows[place + 1 :], number + 1):
                _add_time(file, sheet.name, row, dict(zip(titles, values, strict=False)), returned)
            return
        if set(ABOUT_TITLES) <= set(titles):
            for _, values in _block(sheet.rows[place + 1 :], number + 1):
                _add_about(file, dict(zip(titles, values, strict=False)), returned)
    lost = next((number for number, cells in sheet.rows if any(_CHECKSUM.fullmatch(cell) for cell in cells)), None)
    if lost is not None:
        text = "the titles of the tab are missing; copy its first row from the exported sheet"
        returned.problems.append(Problem(file, sheet.name, lost, text))


def _is_index(titles: Sequence[str], rows: Sequence[tuple[str, ...]]) -> bool:
    """Return True if the first column has no title and counts the rows, as pandas and R write it; it is no answer."""
    if titles[0] or not rows:
        return False
    counted = sorted(row[0] for row in rows)
    return any(counted == sorted(map(str, range(first, first + len(rows)))) for first in (0, 1))


def _remarked(file: str, sheet: SheetCells, head: int, titles: Sequence[str], returned: Returned) -> set[int]:
    """Add a :class:`SpoiltRow` to ``returned`` for each note, and for cells to fill in that cannot be read.

    Return the numbers of the affected rows.
    """
    found: dict[int, list[tuple[Remark, list[str]]]] = {}
    rows = dict(sheet.rows)
    for remark in (*sheet.remarks, *_moved(sheet, titles, rows)):
        under = [title for title in titles[remark.column - 1 : remark.to_column] if columns.is_fill_in(title)]
        if remark.what == ROW or (not under and remark.what != NOTE):
            continue
        for row in range(max(remark.row, head + 1), remark.to_row + 1):
            if row in rows:
                found.setdefault(row, []).append((remark, under))
    for row, remarks in found.items():
        cells = {title: value for title, value in zip(titles, rows[row], strict=False) if title and value.strip()}
        for remark, under in remarks:
            if remark.what == NOTE:
                cells[columns.COMMENT] = " ".join(filter(None, (cells.get(columns.COMMENT), plain(remark.text))))
            else:
                cells = {title: value for title, value in cells.items() if title not in under}
        spoilt = FilledRow(file, sheet.name, row, cells, frozenset(titles))
        texts = list(dict.fromkeys(_said(remark, under) for remark, under in remarks))
        returned.spoilt.extend(SpoiltRow(spoilt, text) for text in texts)
    return set(found)


def _said(remark: Remark, under: Sequence[str]) -> str:
    text = plain(remark.text)[:200]
    if remark.what == NOTE:
        return f"a cell has the note “{text}”, which is not read; put it under '{columns.COMMENT}' and delete the note"
    if remark.what == MERGED:
        names = ", ".join(repr(title) for title in under)
        return (
            f"its cells under {names} are merged, so it is unclear for which cells the entry is meant; undo the merge "
            "and fill in each cell"
        )
    if remark.what == FORMULA:
        return (
            f"the formula under '{under[0]}' has no stored result; save the file in LibreOffice or Excel, or type the "
            "entry itself"
        )
    if remark.what == STRUCK:
        return f"“{text}” under '{under[0]}' is struck out; empty the cell, or remove the strike-through"
    return (
        "yellow cells were sorted without the rest of their rows, so entries stand beside other questions; undo the "
        "sort, or fill in the row again"
    )


def _moved(sheet: SheetCells, titles: Sequence[str], rows: Mapping[int, Sequence[str]]) -> Iterable[Remark]:
    """Yield a remark for each cell to fill in that a sort gave another row's entry, or whose own entry it moved.

    A moved cell has a mark (:func:`chexqa.review.columns.row_lines`) that is not that of its row's id and that no other
    cell of its column has, while the row's own mark is elsewhere in the column. The mark of a copied cell occurs twice.
    A sort moves the cells of several columns, so in the rows of a moved cell's column, only cells of any column with
    their own mark are certain.
    """
    marks = {(column, remark.row): remark.text for remark in sheet.remarks if remark.what == ROW
             for column in range(remark.column, remark.to_column + 1)}  # fmt: skip
    home = titles.index(ID) if ID in titles else len(titles)
    own = {
        row: marks[home + 1, row] for row, cells in rows.items() if (home + 1, row) in marks and any(cells[home:][:1])
    }
    twice = Counter(own.values())  # rows of two tabs, or lines drawn by the reviewer
    own = {row: mark for row, mark in own.items() if twice[mark] == 1}
    certain, moved = dict[int, set[int]](), set[int]()
    for column in (place for place, title in enumerate(titles, start=1) if columns.is_fill_in(title)):
        found = {row: marks[column, row] for row in own if (column, row) in marks}
        count = Counter(found.values())
        certain[column] = {row for row, mark in found.items() if mark == own[row] and count[mark] == 1}
        if any(mark != own[row] and count[mark] == 1 and count[own[row]] for row, mark in found.items()):
            moved |= own.keys() - certain[column]
    for column, sure in certain.items():
        entries = {row: any(cell.strip() for cell in rows[row][column - 1 : column]) for row in own}
        lost = {marks.get((column, row)) for row, entry in entries.items() if entry}
        for row in sorted(moved - sure):
            if entries[row] or own[row] in lost:
                yield Remark(row, column, row, column, _MOVED, "")


def _block(rows: Iterable[tuple[int, tuple[str, ...]]], first: int) -> Iterable[tuple[int, tuple[str, ...]]]:
    """Return the rows from number ``first`` up to the first empty row."""
    return [row for expected, row in enumerate(rows, start=first) if row[0] == expected]


def _add_row(
    file: str, tab: str, number: int, titles: Sequence[str], values: Sequence[str], returned: Returned
) -> None:
    cells: dict[str, str] = {}
    # Columns added by reviewers have a title; a value without a title could be an answer that would be lost.
    for title, value in itertools.zip_longest(titles, values, fillvalue=""):
        if not value.strip():
            continue
        if not title:
            text = f"'{plain(value)[:60]}' is in a column without a title; restore the title, or empty the cell"
            returned.problems.append(Problem(file, tab, number, text))
            continue
        if title in cells and plain(cells[title]) != plain(value):
            text = f"two columns have the title '{title}' but different entries; delete one of the columns"
            returned.problems.append(Problem(file, tab, number, text))
            return
        cells[title] = value
    returned.rows.append(FilledRow(file, tab, number, cells, frozenset(titles)))


def _add_about(file: str, cells: dict[str, str], returned: Returned) -> None:
    """Add a reader's answer to one question of the first tab to ``returned``."""
    question, said = (plain(cells.get(title, "")) for title in ABOUT_TITLES)
    if question in ABOUT_QUESTIONS and said:
        returned.about.setdefault(file, {})[question] = said[:MAX_SAID]


def _add_time(file: str, tab: str, number: int, cells: dict[str, str], returned: Returned) -> None:
    """Add to ``returned`` the seconds between a reader's two times for a tab, if both are given."""
    name, *times = (plain(cells.get(title, "")) for title in TIME_TITLES)
    if not name or not all(times):
        return
    began, ended = (_moment(time) for time in times)
    if began is None or ended is None or (began.year == _NO_DAY.year) != (ended.year == _NO_DAY.year):
        text = f"'{times[0]}' to '{times[1]}' are not two times; write both like 14:05"
        returned.problems.append(Problem(file, tab, number, text))
        return
    seconds = (ended - began).total_seconds()
    # Two times without dates may have midnight between them.
    returned.seconds[file, name] = seconds if seconds >= 0 else seconds % 86_400


_NO_DAY = datetime.date(1900, 1, 1)  # the date that strptime assumes if a format has none
_TIMES = ("%H:%M", "%H:%M:%S", "%H.%M", "%I:%M %p", "%I:%M:%S %p")


def _moment(text: str) -> datetime.datetime | None:
    """Return the date and time that a text such as "14:05" or "2:05 PM" means, or ``None`` if it is no time.

    A time of day without a date gets the date 1900-01-01.
    """
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
    """Return the problems as lines of text, in their order; rows of one file with the same problem share a line."""
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
    """Return a place such as ``tab 'Work 1', rows 2-5, 9``."""
    runs: list[list[int]] = []
    for row in sorted(set(rows)):
        if runs and row == runs[-1][1] + 1:
            runs[-1][1] = row
        else:
            runs.append([row, row])
    named = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
    numbers = f"row{'s' if len(set(rows)) > 1 else ''} {named}" if rows else ""
    return ", ".join(filter(None, (f"tab '{tab}'" if tab else "", numbers)))
