"""Parts of an xlsx file, read as a stream; limits of size are checked while reading.

The parts with cells are found by their relationships to other parts, not by name. Of the formatting of cells, only
date formats, strike-through and row marks (:class:`Remark`) are read. Formulas, drawings and validations are skipped.
"""

from __future__ import annotations

import datetime
import functools
import posixpath
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

# Document type and entity declarations raise an error as soon as they begin.
from xml.parsers import expat  # nosec B407

from chexqa.files.errors import InputError
from chexqa.review.columns import row_of

# Bounds on the parts that are read: bytes unpacked, number of elements, depth of nesting, bytes of a tag.
MAX_XML = 64 * 2**20
MAX_ELEMENTS = 1_000_000
MAX_DEPTH = 64
MAX_TAG = 2**20
# Bounds on all tabs together: cells (including empty ones left of a filled one) and characters.
MAX_CELLS = 2_000_000
MAX_TEXT = 64 * 2**20
# Bounds on one tab; an exported tab has at most 100 rows.
MAX_ROWS, MAX_COLUMNS = 20_000, 300
MAX_CELL = 32_767
MAX_REMARKS = 10_000
_PIECE = 2**16
_LONGEST_FORMAT = 255

_STRICT = "http://purl.oclc.org/ooxml/"
START, END, TEXT = range(3)
_NOTHING: Mapping[str, str] = {}
_REFERENCE = re.compile(r"\$?([A-Z]{1,3})\$?[0-9]{1,7}")
AS_XLSX = "open it in LibreOffice or Excel and save it as 'Excel Workbook (.xlsx)'"
SAVED_ANEW = "ask the reviewer to save the workbook anew and send it"

# Kinds of remarks on a cell.
NOTE, MERGED, STRUCK, FORMULA, ROW = "note", "merged", "struck", "formula", "row"
Event = tuple[int, str, Mapping[str, str]]
Value = str | int | float | bool | datetime.date | datetime.time | datetime.timedelta | None


class Remark(NamedTuple):
    """Property of cells that their text does not show.

    - ``row``, ``column``, ``to_row``, ``to_column``: the first and the last cell, counted from 1.
    - ``what``: a note, merged cells, struck-out text, a formula without its result, or a row mark. A row mark is a pair
      of coloured lines that chexqa draws beside a cell to say which row the cell belongs to
      (:func:`chexqa.review.columns.row_lines`).
    - ``text``: the text of the note or of the struck-out cell, the range of the merged cells, or the number of the row.
    """

    row: int
    column: int
    to_row: int
    to_column: int
    what: str
    text: str


class BrokenError(ValueError):
    """Error for a part that breaks the format."""


class Link(NamedTuple):
    """A relationship of the format xlsx: the kind of part that it points to, and this part's name in the archive."""

    kind: str
    target: str


@dataclass
class _Found:
    """Collector of the XML events of a part; entities and deep nesting raise ``InputError`` in any encoding."""

    where: str
    events: list[Event] = field(default_factory=list)
    elements: int = 0
    depth: int = 0

    def parser(self) -> expat.XMLParserType:
        # Namespace processing is off, since it would copy a long namespace for every element.
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = self._refuse
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler = self._text
        return parser

    def _start(self, tag: str, values: dict[str, str]) -> None:
        self.elements += 1
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise InputError(f"{self.where}: its XML nests more than {MAX_DEPTH} levels; {SAVED_ANEW}.")
        self.events.append((START, tag.rpartition(":")[2], values))

    def _end(self, tag: str) -> None:
        self.depth -= 1
        self.events.append((END, tag.rpartition(":")[2], _NOTHING))

    def _text(self, text: str) -> None:
        self.events.append((TEXT, text, _NOTHING))

    def _refuse(self, *_: object) -> None:
        raise InputError(
            f"{self.where} declares entities in its XML, which can do harm, so it was not opened; {SAVED_ANEW}."
        )


@dataclass
class Parts:
    """Parts of an xlsx file, and how much has been read from them so far.

    - ``names``: the parts, keyed by their names in lower case.
    - ``size``: the number of unpacked bytes read.
    - ``elements``, ``cells``, ``characters``: the numbers of XML elements, cells and characters of text read.
    """

    path: Path
    archive: zipfile.ZipFile
    names: Mapping[str, zipfile.ZipInfo]
    size: int = 0
    elements: int = 0
    cells: int = 0
    characters: int = 0

    def events(self, name: str) -> Iterator[Event]:
        """Yield a part's events in order: starts of elements, texts and ends; tag names have no namespace prefix."""
        found = _Found(f"{self.path}: its part '{name}'")
        parser = found.parser()
        fed = 0
        for piece in self._pieces(name):
            try:
                parser.Parse(piece, not piece)
            except expat.ExpatError as error:
                raise BrokenError(str(error)) from None
            fed += len(piece)
            if fed - max(parser.CurrentByteIndex, 0) > MAX_TAG:
                raise InputError(f"{found.where} has a tag or text over the {MAX_TAG:,} bytes allowed; {SAVED_ANEW}.")
            self.elements += found.elements
            self.check()
            yield from found.events
            found.events.clear()
            found.elements = 0

    def _pieces(self, name: str) -> Iterator[bytes]:
        """Yield a part's bytes in blocks, and an empty block at the end."""
        part = self.names.get(name.lower())
        if part is None:
            raise BrokenError(f"there is no part '{name}'")
        with self.archive.open(part) as stream:
            while piece := stream.read(_PIECE):
                self.size += len(piece)
                if self.size > MAX_XML:
                    raise InputError(
                        f"{self.path}: its part '{name}' is far larger, once unpacked, than a sheet can be, so reading "
                        f"stopped; {SAVED_ANEW}."
                    )
                yield piece
        yield b""

    def check(self) -> None:
        """Raise ``InputError`` if the parts read so far have more elements, cells or text than a sheet may have."""
        if self.elements > MAX_ELEMENTS or self.cells > MAX_CELLS or self.characters > MAX_TEXT:
            raise InputError(
                f"{self.path}: has more cells or text than a sheet may have, so reading stopped; delete the cells that "
                f"do not belong there, or {SAVED_ANEW}."
            )

    def links(self, source: str) -> dict[str, Link]:
        """Return the relationships of the part ``source``, keyed by id; ``""`` stands for the xlsx file as a whole."""
        folder, name = posixpath.split(source)
        found = {}
        for kind, tag, values in self.events(posixpath.join(folder, "_rels", f"{name}.rels")):
            if (kind, tag) == (START, "Relationship"):
                target = posixpath.normpath(posixpath.join("/", folder, values.get("Target", "")))
                found[values.get("Id", "")] = Link(values.get("Type", "").rpartition("/")[2], target.lstrip("/"))
        return found


@dataclass
class Workbook:
    """Workbook without its cells: each tab's name and file in the xlsx archive, and data that cells refer to."""

    tabs: list[tuple[str, str]]
    texts: list[str] = field(default_factory=list)
    formats: list[str] = field(default_factory=list)
    from_1904: bool = False
    struck_texts: set[int] = field(default_factory=set)
    struck_styles: set[int] = field(default_factory=set)
    row_styles: dict[int, str] = field(default_factory=dict)
    remarks: list[Remark] = field(default_factory=list)

    def number(self, text: str, style: int) -> Value:
        """Return the number in a cell; if its format is a date format, return the date."""
        value = int(text) if text.lstrip("-").isdecimal() else float(text)
        shown = self.formats[style] if 0 <= style < len(self.formats) else ""
        if not shown or not _is_date(shown):
            return value
        from openpyxl.styles.numbers import is_timedelta_format
        from openpyxl.utils.datetime import MAC_EPOCH, WINDOWS_EPOCH, from_excel

        epoch = MAC_EPOCH if self.from_1904 else WINDOWS_EPOCH
        try:
            date: Value = from_excel(value, epoch, timedelta=is_timedelta_format(shown))
        except (OverflowError, ValueError):
            return "#VALUE!"
        return date


@functools.lru_cache(1024)
def _is_date(shown: str) -> bool:
    from openpyxl.styles.numbers import is_date_format

    return len(shown) <= _LONGEST_FORMAT and bool(is_date_format(shown))


def open_workbook(parts: Parts) -> Workbook:
    """Read a workbook without the cells of its tabs."""
    main = next((link.target for link in parts.links("").values() if link.kind == "officeDocument"), None)
    if main is None:
        raise BrokenError("no workbook in it")
    links = parts.links(main)
    book = Workbook([])
    for kind, tag, values in parts.events(main):
        if kind == START and any(value.startswith(_STRICT) for value in values.values()):
            raise InputError(f"{parts.path}: is saved as 'Strict Open XML', which cannot be read; {AS_XLSX}.")
        if (kind, tag) == (START, "workbookPr") and values.get("date1904") in ("1", "true"):
            book.from_1904 = True
        if (kind, tag) == (START, "sheet"):
            link = links.get(next((value for key, value in values.items() if key.endswith(":id")), ""))
            if link is None or link.kind == "worksheet":
                book.tabs.append((values.get("name", ""), link.target if link else ""))
    for link in links.values():
        if link.kind == "sharedStrings" and not book.texts:
            book.texts = list(_texts(parts, link.target, book.struck_texts))
        elif link.kind == "styles" and not book.formats:
            _read_styles(parts, link.target, book)
    places = [target.lower() for _, target in book.tabs]
    if len(set(places)) < len(places):
        raise InputError(f"{parts.path}: has two tabs that refer to the same data, so it is damaged; {AS_XLSX}.")
    return book


@dataclass
class CellText:
    """Text of one cell, collected from XML events; it is cut at the limit, and phonetic hints are left out."""

    tags: tuple[str, ...]
    pieces: list[str] = field(default_factory=list)
    length: int = 0
    open: bool = False
    spoken: bool = False

    def take(self, kind: int, text: str) -> None:
        """Take an event of the XML parser; ``text`` is its text, or the name of the tag that opens or closes."""
        if kind == TEXT:
            if self.open and self.length < MAX_CELL:
                self.pieces.append(text)
                self.length += len(text)
        elif text == "rPh":
            self.spoken = kind == START
        elif text in self.tags:
            self.open = kind == START and not self.spoken

    def __str__(self) -> str:
        return "".join(self.pieces)[:MAX_CELL]


def _texts(parts: Parts, name: str, struck: set[int]) -> Iterator[str]:
    """Yield the shared texts in order; add the numbers of texts with struck-out words to ``struck``."""
    text, number = CellText(("t",)), -1
    for kind, what, values in parts.events(name):
        if (kind, what) == (START, "si"):
            text, number = CellText(("t",)), number + 1
        elif (kind, what) == (START, "strike") and is_on(values):
            struck.add(number)
        elif (kind, what) == (END, "si"):
            # An underscore that could be mistaken for the start of an escape sequence is itself escaped.
            yield str(text).replace("x005F_", "")
        else:
            text.take(kind, what)


def is_on(values: Mapping[str, str]) -> bool:
    """Return True if an element such as ``strike`` is on: it has no value, or its value means true."""
    return values.get("val", "1") not in ("0", "false")


def _read_styles(parts: Parts, name: str, book: Workbook) -> None:
    """Read the number format of each style, the styles that strike text out, and the styles with a row mark."""
    from openpyxl.styles.numbers import BUILTIN_FORMATS

    own: dict[str, str] = {}
    styles: list[str] = []
    inside, in_fonts, font, struck_fonts = False, False, -1, set[str]()
    borders, side = list[dict[str, str]](), ""
    for kind, tag, values in parts.events(name):
        if tag == "fonts":
            in_fonts = kind == START
        elif in_fonts and (kind, tag) == (START, "font"):
            font += 1
        elif in_fonts and (kind, tag) == (START, "strike") and is_on(values):
            struck_fonts.add(str(font))
        if (kind, tag) == (START, "border") and not styles:
            borders.append({})
        elif borders and tag in ("left", "right"):
            side = tag if kind == START else ""
        elif side and (kind, tag) == (START, "color"):
            borders[-1][side] = values.get("rgb", "")
        if tag == "cellXfs":
            inside = kind == START
            marks = {str(n): row_of(one.get("left", ""), one.get("right", "")) for n, one in enumerate(borders)}
        elif (kind, tag) == (START, "numFmt"):
            own[values.get("numFmtId", "")] = values.get("formatCode", "")
        elif (kind, tag) == (START, "xf") and inside:
            if values.get("fontId", "0") in struck_fonts:
                book.struck_styles.add(len(styles))
            if row := marks.get(values.get("borderId", "0")):
                book.row_styles[len(styles)] = row
            styles.append(values.get("numFmtId", "0"))
    known = {str(number): shown for number, shown in BUILTIN_FORMATS.items()} | own
    book.formats = [known.get(style, "") for style in styles]


def merge_remark(reference: str) -> Remark:
    """Return the remark on merged cells, such as ``E2:E5``."""
    first, _, last = reference.partition(":")
    corners = [(int(place.lstrip("$").lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ").lstrip("$")), column_number({"r": place}, 0))
               for place in (first, last or first)]  # fmt: skip
    return Remark(*corners[0], *corners[1], MERGED, reference)


def column_number(values: Mapping[str, str], before: int) -> int:
    """Return a cell's column number, from 1; a cell without a reference is in the column after ``before``."""
    if "r" not in values:
        return before + 1
    found = _REFERENCE.fullmatch(values["r"])
    if found is None:
        raise BrokenError(f"a cell's reference is invalid: {values['r'][:20]!r}")
    column = 0
    for letter in found[1]:
        column = column * 26 + ord(letter) - ord("A") + 1
    return column
