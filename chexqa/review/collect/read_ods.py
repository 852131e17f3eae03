"""Reader of a returned OpenDocument spreadsheet (.ods).

Only values are read, with the same limits of size as for an xlsx file. Only ``content.xml`` is unpacked. Nothing in the
file is run, and no other file is opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chexqa.files.errors import InputError
from chexqa.review.collect.xlsx_parts import (
    FORMULA,
    MAX_CELL,
    MAX_COLUMNS,
    MAX_ROWS,
    MERGED,
    NOTE,
    ROW,
    START,
    STRUCK,
    TEXT,
    BrokenError,
    Parts,
    Remark,
)  # fmt: skip
from chexqa.review.columns import row_of

CONTENT = "content.xml"
_SKIPPED = {"shapes", "tracked-changes", "frame", "g", "custom-shape", "forms", "line", "rect", "ellipse", "image"}
# Parts of a note beside its text: its day and its author. Elsewhere, such elements are text of a cell.
_NOT_OF_NOTE = {"date", "creator", "date-string", "creator-initials", "sender-initials"}
# LibreOffice writes both properties for a cell and only the second one for words inside a cell.
_LINES_THROUGH = ("style:text-line-through-style", "style:text-line-through-type")


@dataclass
class Tab:
    """Tab: its name, its non-empty rows ``(number from 1, cells as text)``, and remarks such as notes."""

    name: str
    rows: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)


def read_content(parts: Parts) -> list[Tab]:
    """Return all tabs of a spreadsheet.

    Raises ``InputError`` if the spreadsheet is too large, and ``BrokenError`` if its format is broken.
    """
    reader = _Reader(parts)
    for kind, tag, values in parts.events(CONTENT):
        reader.take(kind, tag, values)
    if not reader.tabs:
        raise BrokenError("it has no table")
    return reader.tabs


class _Reader:
    """Reader of the events of ``content.xml``."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.tabs: list[Tab] = []
        self._struck: set[str] = set()
        self._row_styles: dict[str, str] = {}
        self._style = ""
        self._depth = 0  # depth inside a skipped element, such as a drawing
        self._row, self._repeat = 0, 1
        self._cells: list[str] = []
        self._cell: Mapping[str, str] | None = None
        self._text: list[str] = []
        self._note: list[str] | None = None
        self._length = 0
        self._is_struck = False

    def take(self, kind: int, tag: str, values: Mapping[str, str]) -> None:
        if kind == TEXT:
            self._add(tag)
        elif self._depth or tag in _SKIPPED or (self._note is not None and tag in _NOT_OF_NOTE):
            self._depth += 1 if kind == START else -1
        elif kind == START:
            self._start(tag, values)
        else:
            self._end(tag)

    def _add(self, text: str) -> None:
        """Append text to the open cell or note."""
        if self._cell is None or self._depth or self._length > MAX_CELL:
            return
        self._length += len(text)
        (self._text if self._note is None else self._note).append(text)

    def _start(self, tag: str, values: Mapping[str, str]) -> None:
        if tag == "style":
            self._style = values.get("style:name", "")
        elif tag == "text-properties" and any(values.get(name, "none") != "none" for name in _LINES_THROUGH):
            self._struck.add(self._style)
        elif tag == "table-cell-properties":
            whole = values.get("fo:border", "")
            row = row_of(*(values.get(f"fo:border-{side}", whole) for side in ("left", "right")))
            self._row_styles[self._style] = row
        elif tag == "table":
            self.tabs.append(Tab(values.get("table:name", "")))
            self._row = 0
        elif tag == "table-row":
            self._repeat, self._cells = _count(values, "table:number-rows-repeated"), []
        elif tag in ("table-cell", "covered-table-cell"):
            self._cell, self._text, self._length = values, [], 0
            self._is_struck = values.get("table:style-name", "") in self._struck
        elif tag == "annotation" and self._cell is not None:
            self._note = []
        elif tag == "p" and self._cell is not None and (self._text if self._note is None else self._note):
            self._add("\n")
        elif tag == "s":
            self._add(" " * min(MAX_CELL, _count(values, "text:c")))
        elif tag in ("tab", "line-break"):
            self._add("\t" if tag == "tab" else "\n")
        elif tag == "span" and values.get("text:style-name", "") in self._struck:
            self._is_struck = True

    def _end(self, tag: str) -> None:
        if tag == "annotation" and self._note is not None:
            self._remark(NOTE, "".join(self._note))
            self._note = None
        elif tag in ("table-cell", "covered-table-cell") and self._cell is not None:
            self._close_cell(self._cell)
            self._cell = None
        elif tag == "table-row":
            self._close_row()

    def _remark(self, what: str, text: str, rows: int = 1, columns: int = 1) -> None:
        place = len(self._cells) + 1
        if self.tabs and place <= MAX_COLUMNS:
            row = self._row + 1
            self.tabs[-1].remarks.append(Remark(row, place, row + rows - 1, place + columns - 1, what, text))

    def _close_cell(self, values: Mapping[str, str]) -> None:
        text = _value(values, "".join(self._text))[:MAX_CELL]
        rows, wide = _count(values, "table:number-rows-spanned"), _count(values, "table:number-columns-spanned")
        if rows > 1 or wide > 1:
            self._remark(MERGED, text, min(rows, MAX_ROWS), min(wide, MAX_COLUMNS))
        if self._is_struck and text:
            self._remark(STRUCK, text)
        if values.get("table:formula") and not text and "office:value-type" not in values:
            self._remark(FORMULA, "")
        repeat = min(_count(values, "table:number-columns-repeated"), MAX_COLUMNS + 1 - len(self._cells))
        if row := self._row_styles.get(values.get("table:style-name", "")):
            self._remark(ROW, row, columns=max(1, repeat))
        self._cells += [text] * max(0, repeat)
        del self._cells[MAX_COLUMNS:]
        self._parts.cells += max(0, repeat)
        self._parts.characters += len(text) * max(1, repeat)
        self._parts.check()

    def _close_row(self) -> None:
        while self._cells and not self._cells[-1]:
            self._cells.pop()
        if self._cells and self.tabs:
            if self._row + self._repeat > MAX_ROWS:
                raise InputError(
                    f"{self._parts.path}, tab '{self.tabs[-1].name}': has content in row {self._row + self._repeat:,}, "
                    f"but a tab may have at most {MAX_ROWS:,} rows; delete the rows that do not belong there."
                )
            self._parts.cells += len(self._cells) * (self._repeat - 1)
            self._parts.characters += sum(map(len, self._cells)) * (self._repeat - 1)
            self._parts.check()
            cells = tuple(self._cells)
            self.tabs[-1].rows += [(self._row + number, cells) for number in range(1, self._repeat + 1)]
        self._row += self._repeat


def _count(values: Mapping[str, str], name: str) -> int:
    count = int(values.get(name, "1"))
    if count < 0:
        raise BrokenError(f"{name} is {count}")
    return count


def _value(values: Mapping[str, str], text: str) -> str:
    """Return a cell as text: the stored value of a number, date or truth value; the shown text of any other cell."""
    kind = values.get("office:value-type", "")
    if kind == "boolean":
        return "yes" if values.get("office:boolean-value") == "true" else "no"
    if kind == "date":
        day, _, time = values.get("office:date-value", text).partition("T")
        return f"{day}T{time}" if time.strip("0:.") else day
    if kind in ("float", "percentage", "currency") and "office:value" in values:
        number = float(values["office:value"])
        return str(int(number)) if number.is_integer() else str(number)
    return text
