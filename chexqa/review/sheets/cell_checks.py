"""Drop-down lists of a work tab, and colours that warn of entries that an import would reject.

A cell turns orange if its entry cannot be read. Cells of a row turn red if the row's verdict needs a corrected answer
and has none. The colours only warn: a reviewer can type any entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from xlsxwriter.utility import xl_col_to_name, xl_rowcol_to_cell

from chexqa.review import columns as layout
from chexqa.review.cell_words import MARK_WORDS, VERDICT_LETTERS
from chexqa.review.columns import Column, SheetKind

SEVERAL_PROMPT = "Type the numbers of all right options, such as 1, 3, or mark them under option 1, option 2, …"
# Excel allows 255 characters in a text of a formula; a list in a cell is read up to _MOST entries.
_MAX_FORMULA_TEXT, _MOST, _WIDE = 240, 16, 60
Span = tuple[int, int]


class AskedRow(Protocol):
    """Properties of a sheet row that decide which answers are valid.

    The names are as in :class:`chexqa.review.sheets.sheet.SheetRow`.
    """

    @property
    def choices(self) -> tuple[str, ...]:
        """The entries of the answer's drop-down list."""

    @property
    def options(self) -> int:
        """The number of options if several can be right, otherwise 0."""

    @property
    def typed(self) -> tuple[str, ...]:
        """The words that a reviewer may type for an option."""

    @property
    def none_words(self) -> tuple[str, ...]:
        """The words for "no option is right", such as "none"."""

    @property
    def is_cell(self) -> bool:
        """True if the answer is a cell of the grid."""


def is_one_of(formula: str, words: Iterable[str]) -> str:
    """Return a spreadsheet formula that is true if the result of ``formula`` is one of ``words``.

    ``formula`` must give a text in lower case.
    """
    known = _chunks(dict.fromkeys(word.casefold() for word in words))
    return f"OR({','.join(_among(formula, part) for part in known)})"


def _among(formula: str, words: str) -> str:
    """Return a formula that is true if the result of ``formula`` is one of ``words``, which are separated by bars."""
    return f'ISNUMBER(FIND("|"&{formula}&"|","|{words}|"))'


def _chunks(words: Iterable[str]) -> list[str]:
    """Return the words joined by bars, in texts short enough for a formula; quotes are doubled."""
    parts = [""]
    for word in words:
        text = word.replace('"', '""')
        if len(parts[-1]) + len(text) > _MAX_FORMULA_TEXT and parts[-1]:
            parts.append("")
        parts[-1] = f"{parts[-1]}|{text}" if parts[-1] else text
    return parts


def quoted(text: str) -> str:
    """Return a spreadsheet formula whose value is the given text, of any length."""
    parts = [text[start : start + _MAX_FORMULA_TEXT // 2] for start in range(0, len(text), _MAX_FORMULA_TEXT // 2)]
    doubled = (part.replace('"', '""') for part in parts or [""])
    return "&".join(f'"{part}"' for part in doubled)


def small_letters(cell: str) -> str:
    """Return a spreadsheet formula for a cell's text in lower case and with single spaces."""
    return f'LOWER(TRIM(SUBSTITUTE({cell},CHAR(10)," ")))'


def not_a_choice(cell: str, words: Iterable[str]) -> str:
    """Return a spreadsheet formula that is true if the sheet's cell has a text that is none of the words."""
    text = small_letters(cell)
    return f'AND({text}<>"",NOT({is_one_of(text, words)}))'


def not_cells(cell: str, several: bool) -> str:
    """Return a spreadsheet formula that is true if the sheet's cell has a text that names no cell of the grid.

    If ``several`` is True, a list of cells of the grid is also valid.
    """
    text = small_letters(cell)
    unread = f"{_wrong_cell(text)}>0"
    if several:
        unread = f'AND({unread},SUMPRODUCT(({_entries(text)}<>"")*({_wrong_cell(_entries(text))}))>0)'
    return f'AND({text}<>"",{unread})'


def _wrong_cell(text: str) -> str:
    """Return a formula that is 0 if a text names a cell of the grid (f4, f 4, 4-f), otherwise 1.

    The text can also be an array of texts.
    """

    def within(part: str, letters: str) -> str:
        return f'ISNUMBER(FIND({part},"{letters}"))'

    first, last = f"LEFT({text})", f"RIGHT({text})"
    letters, numbers = "abcdefgh", "12345678"
    named = f"({within(first, letters)}*{within(last, numbers)}+{within(first, numbers)}*{within(last, letters)})"
    middle = within(f"MID({text},2,1)", " -/.")
    length = f"((LEN({text})=2)+(LEN({text})=3)*{middle})"
    return f"1-({named}*{length}>0)"


def not_several(cell: str, words: Sequence[str], none_words: Sequence[str]) -> str:
    """Return a spreadsheet formula that is true if the text of a cell is not a valid list of options.

    A list that mixes ``none_words`` with other words, such as "none, 2", is not valid.

    - ``cell``: the sheet's cell, such as ``F4``.
    - ``words``: all words that are valid in a list, including those in ``none_words``.
    - ``none_words``: the words for "no option is right", such as "none".
    """
    text = small_letters(cell)
    entries = _entries(text)

    def count(names: Iterable[str]) -> str:
        known = "+".join(_among(entries, part) for part in _chunks(names))
        return f'SUMPRODUCT(({entries}<>"")*(({known})>0))'

    total = f'SUMPRODUCT(--({entries}<>""))'
    wrong = f"{count(words)}<{total}"
    mixed = f"AND({count(none_words)}>0,{total}>{count(none_words)})"
    return f'AND({text}<>"",NOT({is_one_of(text, words)}),OR({wrong},{mixed}))'


def _entries(text: str) -> str:
    """Return a formula that splits a list into an array of its entries, at commas or, without commas, at spaces."""
    parted = text
    for sign in (";", "/", "+", "&", " and "):
        parted = f'SUBSTITUTE({parted},"{sign}",",")'
    parted = f'IF(ISERROR(FIND(",",{parted})),SUBSTITUTE({parted}," ",","),{parted})'
    return f'TRIM(MID(SUBSTITUTE({parted},",",REPT(" ",{_WIDE})),(ROW($1:${_MOST})-1)*{_WIDE}+1,{_WIDE}))'


class CellChecks:
    """Writer of the drop-down lists and colours of one tab.

    - ``unknown``: the format of a sheet's cell in which no answer can be read.
    - ``missing``: the format of a sheet's cell that lacks the corrected answer.
    """

    def __init__(
        self, sheet: Any, kind: SheetKind, columns: Sequence[Column], unknown: object, missing: object
    ) -> None:
        self._sheet = sheet
        self._kind = kind
        self._columns = columns
        self._place: Mapping[str, int] = {column.title: number for number, column in enumerate(columns)}
        self._unknown = unknown
        self._missing = missing

    def write(self, rows: Sequence[AskedRow]) -> None:
        """Add the drop-down lists and colours of the rows; the first row is the tab's second line."""
        last = len(rows)
        marks = [column.title for column in self._columns if layout.option_number(column.title)]
        for title, words, typed in (
            (layout.VERDICT, layout.VERDICTS, tuple(VERDICT_LETTERS)),
            (layout.REASON, layout.reasons(self._kind), ()),
            *((title, (layout.YES, layout.NO), MARK_WORDS) for title in marks),
        ):
            if title in self._place:
                self._list([(1, last)], title, words)
                self._warn([(1, last)], title, not_a_choice(self._cell(title, 1), (*words, *typed)))
        answer = layout.ANSWER if layout.ANSWER in self._place else layout.CORRECTED
        alike: dict[tuple[object, ...], tuple[AskedRow, list[Span]]] = {}
        for number, row in enumerate(rows, start=1):
            asked = (row.choices, row.options, row.typed, row.none_words, row.is_cell)
            alike.setdefault(asked, (row, []))[1].append((number, number))
        for row, spans in alike.values():
            if answer in self._place:
                self._answer(answer, spans, row)
        if layout.CORRECTED in self._place:
            self._mark_missing(last)

    def _answer(self, title: str, spans: list[Span], row: AskedRow) -> None:
        cell = self._cell(title, spans[0][0])
        if row.choices:
            self._list(spans, title, row.choices)
        if row.is_cell:
            self._warn(spans, title, not_cells(cell, several=title == layout.CORRECTED))
        elif row.options:
            self._prompt(spans, title, "Several can be right", SEVERAL_PROMPT)
            self._warn(spans, title, not_several(cell, row.typed, row.none_words))
        elif row.typed:
            self._warn(spans, title, not_a_choice(cell, (*row.choices, *row.typed)))

    def _cell(self, title: str, row: int) -> str:
        return f"${xl_col_to_name(self._place[title])}{row + 1}"

    def _list(self, spans: list[Span], title: str, words: Sequence[str]) -> None:
        self._validate(spans, title, {"validate": "list", "source": list(words), "show_error": False})

    def _prompt(self, spans: list[Span], title: str, heading: str, text: str) -> None:
        self._validate(spans, title, {"validate": "any", "input_title": heading, "input_message": text})

    def _validate(self, spans: list[Span], title: str, rule: dict[str, Any]) -> None:
        place = self._place[title]
        ranges = [[first, place, last, place] for first, last in spans]
        if len(ranges) > 1:
            rule["other_cells"] = ranges[1:]
        self._sheet.data_validation(*ranges[0], rule)

    def _warn(self, spans: list[Span], title: str, formula: str) -> None:
        """Colour the cells for which a formula is true; the formula is written for the first cell."""
        place = self._place[title]
        ranges = " ".join(f"{xl_rowcol_to_cell(a, place)}:{xl_rowcol_to_cell(b, place)}" for a, b in spans)
        rule = {"type": "formula", "criteria": f"={formula}", "format": self._unknown, "multi_range": ranges}
        self._sheet.conditional_format(spans[0][0], place, spans[0][1], place, rule)

    def _mark_missing(self, last: int) -> None:
        """Colour a row red if its verdict is "fix" but the corrected answer is missing."""
        # A wrong mask needs no corrected answer.
        verdict, reason = self._cell(layout.VERDICT, 1), self._cell(layout.REASON, 1)
        titles = [layout.CORRECTED, *(c.title for c in self._columns if layout.option_number(c.title))]
        empty = ",".join(f'{self._cell(title, 1)}=""' for title in titles)
        rule = {
            "type": "formula",
            "criteria": (
                f'=AND(OR({verdict}="fix",{verdict}="f"),{reason}<>"wrong contour",{reason}<>"wrong lung",{empty})'
            ),
            "format": self._missing,
        }
        self._sheet.conditional_format(1, self._place[layout.VERDICT], last, self._place[layout.CORRECTED], rule)
