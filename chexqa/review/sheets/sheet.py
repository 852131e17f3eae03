"""Writer of a review workbook: a first tab with instructions, and work tabs with pictures, drop-downs and locks.

All text is written as text, never as a formula. Sheets are protected against accidental changes, without a password.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import xlsxwriter
from xlsxwriter.utility import xl_col_to_name

from chexqa.files.errors import InputError, unwritable
from chexqa.review import columns as layout
from chexqa.review.columns import Column, SheetKind
from chexqa.review.sheets import cover_tab
from chexqa.review.sheets.cell_checks import CellChecks, is_one_of, quoted, small_letters

# A row may be at most 409 points high in Excel.
_MAX_CELL, _MAX_ROW_PX, _PX_TO_PT, _LINE_PX, _CHAR_PX = 32_767, 534, 0.75, 15, 5.6
_PAD, _LEAST_PX = 3, 160
# Largest size in pixels of a row's picture.
PICTURE_BOX = (layout.PICTURE_PX - 2 * _PAD, _MAX_ROW_PX - 2 * _PAD)
_GREY, _LINE, _YELLOW, _RED, _ORANGE = "#E4E7EB", "#C3C9D0", "#FFFBE0", "#FFC9C2", "#FFB347"
# Shares of the free width that columns get if pictures are narrow.
_GROWS = {layout.QUESTION: 0.45, layout.OPTIONS: 0.25, layout.COMMENT: 0.3}
_WORKBOOK = {
    "strings_to_formulas": False,
    "strings_to_urls": False,
    "strings_to_numbers": False,
    # Without this option, every picture is first written to a temporary file.
    "in_memory": True,
    # Every system has Arial or a font of the same widths, so columns have the same width in LibreOffice and Excel.
    "default_format_properties": {"font_name": "Arial", "font_size": 10},
}
# Sorting is not allowed: in a protected tab, Excel could sort the yellow cells alone.
_PROTECTION = {"autofilter": True, "format_columns": True, "format_rows": True}


class Feedback(NamedTuple):
    """Feedback that a training row shows once it is answered.

    ``right`` has the texts of right answers; it is empty if answers are not compared with the key.
    """

    text: str
    right: tuple[str, ...] = ()


@dataclass(frozen=True)
class SheetRow:
    """Item or case as a row of a sheet.

    - ``cells``: texts of the locked columns, keyed by column title.
    - ``choices``: the entries of the answer's drop-down list.
    - ``options``: the number of yes/no columns, one for each option; 0 if only one option can be right.
    - ``typed``: words that a reviewer may type instead of a choice.
    - ``none_words``: the words for "no option is right", such as "none".
    - ``is_cell``: True if the answer is a cell of the grid.
    - ``entries``: texts already written into the reviewer's columns.
    """

    row_id: str
    cells: Mapping[str, str]
    choices: tuple[str, ...] = ()
    options: int = 0
    typed: tuple[str, ...] = ()
    none_words: tuple[str, ...] = ()
    is_cell: bool = False
    entries: Mapping[str, str] = field(default_factory=dict)
    feedback: Feedback | None = None


class Tab(NamedTuple):
    """Work tab: its name and at most 100 rows."""

    name: str
    rows: Sequence[SheetRow]


class ShownItem(NamedTuple):
    """Picture in a row of a sheet: a JPEG and its size in pixels."""

    path: Path
    width: int
    height: int


@dataclass(frozen=True)
class Book:
    """Workbook to write.

    - ``marks``: the texts of the columns benchmark, reviewer and batch in every row.
    - ``votes``: the number of verdicts that an adjudication sheet shows.
    - ``failed_import``: None for new rows; for rows that an import could not read, the import's number, from 1.
    """

    kind: SheetKind
    tabs: Sequence[Tab]
    marks: Mapping[str, str]
    about: cover_tab.About
    votes: int = 0
    failed_import: int | None = None

    @property
    def looks(self) -> SheetKind:
        """The kind of sheet whose columns and reasons are used: ``"masks"`` if any row is a mask, else ``kind``."""
        return "masks" if any(layout.is_mask_row(row.row_id) for tab in self.tabs for row in tab.rows) else self.kind

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the workbook's work tabs."""
        options = max((row.options for tab in self.tabs for row in tab.rows), default=0)
        shown = layout.columns(self.looks, options, self.votes)
        if not any(row.cells.get(layout.EVIDENCE) for tab in self.tabs for row in tab.rows):
            shown = tuple(column for column in shown if column.title != layout.EVIDENCE)
        shown = layout.with_feedback(shown) if self.kind == "training" else shown
        return shown if self.failed_import is None else layout.with_problems(shown, self.failed_import)

    @property
    def picture_box(self) -> tuple[int, int]:
        """The largest (width, height) in pixels of a row's picture."""
        wide, high = PICTURE_BOX
        beside = layout.PROBLEM_PX * (self.failed_import is not None) + layout.FEEDBACK_PX * (self.kind == "training")
        return wide - beside, high


def feedback_formula(feedback: Feedback, cells: Sequence[str]) -> str:
    """Return the formula of a training row's feedback; it shows nothing before the row is answered.

    ``cells`` are the sheet's cells of the answer.
    """
    text = quoted(layout.clean(feedback.text)[:1500])
    if feedback.right:
        right = is_one_of(small_letters(cells[0]), feedback.right)
        text = f'IF({right},"Right. ","The key says otherwise. ")&{text}'
    given = "&".join(cells)
    return f'IF({given}="","",{text})'


def fill_tabs(groups: Iterable[Sequence[SheetRow]], name: str) -> list[Tab]:
    """Return tabs ``name 1``, ``name 2``, … of at most 100 rows; a group of up to 100 rows stays in one tab."""
    parts: list[list[SheetRow]] = [[]]
    for group in groups:
        if len(parts[-1]) + len(group) > layout.MAX_ROWS and parts[-1]:
            parts.append([])
        for row in group:
            if len(parts[-1]) == layout.MAX_ROWS:
                parts.append([])
            parts[-1].append(row)
    parts = [part for part in parts if part]
    return [Tab(f"{name} {number}", part) for number, part in enumerate(parts, start=1)]


def marked_cells(book: Book, row: SheetRow) -> dict[str, str]:
    """Return the texts of a row's locked columns, keyed by title."""
    cells = {title: layout.clean(text) for title, text in row.cells.items()}
    cells |= {layout.ID: row.row_id, layout.SHEET: book.kind, **book.marks}
    return cells | {layout.CHECKSUM: layout.checksum(cells), layout.CELL_SUMS: layout.cell_sums(cells)}


def write_workbook(
    path: Path,
    book: Book,
    picture: Callable[[SheetRow], ShownItem | None],
    viewer: str | None,
    advance: Callable[[], None],
) -> None:
    """Write one workbook.

    - ``picture``: returns the picture of a row.
    - ``viewer``: the name of the HTML viewer beside the workbook.
    - ``advance``: called once per row.
    """
    workbook = xlsxwriter.Workbook(str(path), _WORKBOOK)
    formats = _Formats(workbook)
    first = workbook.add_worksheet(layout.FIRST_TAB)
    columns = book.columns
    for tab in book.tabs:
        _TabWriter(workbook.add_worksheet(tab.name), book, columns, formats).write(tab, picture, viewer, advance)
    progress = [cover_tab.Progress(tab.name, len(tab.rows), _done_formula(tab, columns)) for tab in book.tabs]
    cover_tab.write(workbook, first, book.about, progress)
    first.activate()
    try:
        workbook.close()
    except xlsxwriter.exceptions.FileCreateError as error:
        raise unwritable(path, error.args[0]) from None


def _done_formula(tab: Tab, columns: Sequence[Column]) -> str:
    """Return the formula that counts the rows of a tab with a verdict, an answer or a yes/no."""
    titles = [column.title for column in columns]
    counted = [layout.VERDICT] if layout.VERDICT in titles else [
        title for title in titles if title == layout.ANSWER or layout.option_number(title)
    ]  # fmt: skip
    ranges = []
    for title in counted:
        letter = xl_col_to_name(titles.index(title))
        ranges.append(f"'{tab.name}'!${letter}$2:${letter}${len(tab.rows) + 1}")
    if len(ranges) == 1:
        return f"=COUNTA({ranges[0]})"
    return "=SUMPRODUCT(--((" + "+".join(f'({cells}<>"")' for cells in ranges) + ")>0))"


def _widened(shown: Sequence[Column], picture: int) -> tuple[Column, ...]:
    """Return the columns with the picture column made ``picture`` pixels wide.

    The columns ``question``, ``options`` and ``comment`` become wider, so that the columns up to ``comment`` still fill
    the visible width :data:`~chexqa.review.columns.VIEW_PX`.
    """
    narrowed = [column._replace(width=picture) if column.title == layout.PICTURE else column for column in shown]
    last = max(place for place, column in enumerate(narrowed) if column.title == layout.COMMENT)
    free = max(0, layout.VIEW_PX - sum(column.width for column in narrowed[: last + 1]))
    return tuple(
        column._replace(width=column.width + int(free * _GROWS[column.title])) if column.title in _GROWS else column
        for column in narrowed
    )


class _Formats:
    """Cell formats of a workbook."""

    def __init__(self, workbook: Any) -> None:
        base = {"font_size": 10, "text_wrap": True, "valign": "top", "border": 1, "border_color": _LINE}
        self.head = workbook.add_format(
            {**base, "font_size": 8, "bold": True, "font_color": "white", "bg_color": "#34495E"}
        )
        self.head_fill_in = workbook.add_format({**base, "font_size": 8, "bold": True, "bg_color": "#FFE38A"})
        small = {**base, "font_size": 9, "align": "left"}
        self.text = workbook.add_format(small)
        # With the quote prefix, text that looks like a formula stays text when somebody edits the cell.
        self.quoted = workbook.add_format({**small, "quote_prefix": True})
        self.link = workbook.add_format({**base, "font_color": "#1155CC", "underline": 1, "align": "center"})
        self.number = workbook.add_format({**base, "align": "center"})
        self.strong = workbook.add_format({**small, "bold": True})
        self.flag = workbook.add_format({**small, "font_color": "#A33B00"})
        self.problem = workbook.add_format({**small, "bold": True, "bg_color": _RED})
        self.told = workbook.add_format({**small, "bg_color": "#E3F1E5", "hidden": True})
        mark = {**base, "font_size": 8, "font_color": "#707780"}
        self.mark = workbook.add_format(mark)
        yellow = {**base, "bg_color": _YELLOW, "locked": False, "num_format": "@"}
        self.ids, self.fill_in = {}, {}
        for number in range(1, layout.MAX_ROWS + 1):
            left, right = layout.row_lines(number)
            own = {"left_color": f"#{left}", "right_color": f"#{right}"}
            self.ids[number], self.fill_in[number] = workbook.add_format(mark | own), workbook.add_format(yellow | own)
        self.blocked = workbook.add_format({**base, "bg_color": _GREY})
        self.missing = workbook.add_format({"bg_color": _RED})
        self.unknown = workbook.add_format({"bg_color": _ORANGE, "font_color": "#7A2600", "bold": True})
        self.head_turned = workbook.add_format(
            {**base, "font_size": 8, "bg_color": "#FFE38A", "rotation": 90, "valign": "top", "align": "left"}
        )


class _TabWriter:
    """Writer of one work tab."""

    def __init__(self, sheet: Any, book: Book, columns: Sequence[Column], formats: _Formats) -> None:
        self.sheet = sheet
        self.book = book
        self.columns = columns
        self.formats = formats
        self.place = {column.title: number for number, column in enumerate(columns)}
        self.widest = _LEAST_PX

    def write(
        self, tab: Tab, picture: Callable[[SheetRow], ShownItem | None], viewer: str | None, advance: Callable[[], None]
    ) -> None:
        """Write titles, rows and drop-downs, and set the lock and the page layout."""
        for number, column in enumerate(self.columns):
            look = self.formats.head_fill_in if column.fill_in else self.formats.head
            if layout.option_number(column.title):
                look = self.formats.head_turned
            self.sheet.write_string(0, number, column.title, look)
        self.sheet.set_row_pixels(0, 46)
        for number, row in enumerate(tab.rows, start=1):
            self._row(number, row, picture(row), viewer)
            advance()
        for number, column in enumerate(_widened(self.columns, self.widest + 2 * _PAD)):
            self.sheet.set_column_pixels(number, number, column.width)
        CellChecks(self.sheet, self.book.looks, self.columns, self.formats.unknown, self.formats.missing).write(
            tab.rows
        )
        self._page(len(tab.rows))

    def _row(self, number: int, row: SheetRow, shown: ShownItem | None, viewer: str | None) -> None:
        cells = marked_cells(self.book, row)
        for place, column in enumerate(self.columns):
            if column.title == layout.NUMBER:
                self._number(number, row, viewer)
            elif column.fill_in:
                applies = self._applies(column.title, row)
                look = self.formats.fill_in[number] if applies else self.formats.blocked
                entry = layout.clean(row.entries.get(column.title, ""))[:_MAX_CELL]
                write = self.sheet.write_string if entry else self.sheet.write_blank
                write(number, place, entry or None, look)
            elif column.title == layout.FEEDBACK and row.feedback is not None:
                given = [
                    f"${xl_col_to_name(self.place[c.title])}{number + 1}" for c in self.columns
                    if c.title == layout.ANSWER or layout.option_number(c.title)
                ]  # fmt: skip
                self.sheet.write_formula(
                    number, place, f"={feedback_formula(row.feedback, given)}", self.formats.told, ""
                )
            else:
                self._text(number, place, column.title, cells.get(column.title, ""))
        height = self._text_height(cells)
        if shown is not None:
            wide, high = self.book.picture_box
            scale = min(1.0, wide / shown.width, high / shown.height)
            self.widest = max(self.widest, round(shown.width * scale))
            height = max(height, round(shown.height * scale) + 2 * _PAD)
            how = {"x_offset": _PAD, "y_offset": _PAD, "x_scale": scale, "y_scale": scale, "object_position": 1}
            self.sheet.insert_image(
                number, self.place[layout.PICTURE], str(shown.path), {**how, "description": row.row_id}
            )
        self.sheet.set_row(number, min(height, _MAX_ROW_PX) * _PX_TO_PT)

    def _number(self, number: int, row: SheetRow, viewer: str | None) -> None:
        if viewer is None:
            self.sheet.write_number(number, 0, number, self.formats.number)
        else:
            # XlsxWriter turns every "/" of an external link into a backslash, so the fragment must not contain "/".
            address = f"external:{viewer}#{layout.anchor(row.row_id)}"
            self.sheet.write_url(number, 0, address, self.formats.link, str(number), "Open in the viewer")

    def _applies(self, title: str, row: SheetRow) -> bool:
        option = layout.option_number(title)
        if option is not None:
            return option <= row.options
        return True

    def _text(self, number: int, place: int, title: str, text: str) -> None:
        if len(text) > _MAX_CELL:
            raise InputError(
                f"column '{title}': the text '{text[:40]}…' has {len(text):,} characters, but a cell holds "
                f"{_MAX_CELL:,}; shorten it."
            )
        look = {layout.PROPOSED: self.formats.strong, layout.FLAGS: self.formats.flag}.get(title, self.formats.text)
        if layout.problem_number([title]):
            look = self.formats.problem
        if title in layout.MARKS:
            look = self.formats.ids[number] if title == layout.ID else self.formats.mark
        if layout.is_dangerous(text):
            look = self.formats.quoted
        if text:
            self.sheet.write_string(number, place, text, look)
        else:
            self.sheet.write_blank(number, place, None, look)

    def _text_height(self, cells: Mapping[str, str]) -> int:
        """Return the row height in pixels that the row's longest text needs."""
        lines = 1
        for column in self.columns:
            if column.fill_in or column.title in layout.MARKS:
                continue
            letters = max(1, int((column.width - 18) / _CHAR_PX))
            text = cells.get(column.title, "")
            lines = max(lines, sum(max(1, -(-len(line) // letters)) for line in text.split("\n")))
        return lines * _LINE_PX + 6

    def _page(self, last: int) -> None:
        sheet = self.sheet
        sheet.freeze_panes(1, self.place.get(layout.PICTURE, 0) + 1)
        sheet.autofilter(0, 0, last, len(self.columns) - 1)
        sheet.protect("", _PROTECTION)
        sheet.set_landscape()
        sheet.set_paper(9)
        sheet.set_margins(0.3, 0.3, 0.4, 0.5)
        sheet.fit_to_pages(1, 0)
        sheet.repeat_rows(0)
        # With the columns that only programs need, everything else would be too small on paper.
        sheet.print_area(0, 0, last, self.place[layout.MARKS[0]] - 1)
        sheet.set_footer(f"&L{self.book.about.reviewer.replace('&', '&&')}&C&A&R&P / &N")
