"""First tab of a review workbook: instructions, worked examples, the words to use, and the reviewer's progress."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from chexqa.files.terminal import PHANTOM_NOTICE, plural
from chexqa.review import columns
from chexqa.review.columns import SheetKind
from chexqa.review.sheets import instructions
from chexqa.review.sheets.evidence_text import FLAG_WORDS

_WIDTHS = (170, 90, 90, 150, 420)
_CHARS, _LINE_PX = 126, 19
_PHANTOM = f"{PHANTOM_NOTICE[0].upper()}{PHANTOM_NOTICE[1:]}."


@dataclass(frozen=True)
class About:
    """Facts about a workbook that its first tab states.

    - ``viewer``: the name of the HTML file beside the workbook.
    - ``is_correction``: True if the workbook returns unreadable rows to the reviewer.
    - ``told``: further paragraphs, such as the information for the readers of a study.
    - ``part``: the number of this part of the sheet, from 1, and the number of parts.
    """

    kind: SheetKind
    reviewer: str
    benchmark: str
    rows: int
    phantom: bool
    credentialed: bool
    viewer: str | None = None
    canary: str = ""
    is_correction: bool = False
    told: tuple[str, ...] = ()
    part: tuple[int, int] = (1, 1)


class Progress(NamedTuple):
    """Line of the progress table: a tab, the number of its rows, and the formula that counts the finished ones."""

    tab: str
    rows: int
    done: str


def notices(about: About) -> list[str]:
    """Return the notices at the top of the tab: terms of credentialed radiographs, and a notice on drawn phantoms."""
    texts = ((about.credentialed, instructions.CREDENTIALED), (about.phantom, _PHANTOM))
    return [text for applies, text in texts if applies]


class _Writer:
    """Writer of the first tab, line by line."""

    def __init__(self, workbook: Any, sheet: Any) -> None:
        base = {"font_size": 11, "text_wrap": True, "valign": "top"}
        self.sheet = sheet
        self.row = 0
        self.title = workbook.add_format({"font_size": 18, "bold": True})
        self.head = workbook.add_format({**base, "font_size": 13, "bold": True, "bottom": 1, "font_color": "#34495E"})
        self.text = workbook.add_format(base)
        self.bold = workbook.add_format({**base, "bold": True})
        self.small = workbook.add_format({**base, "font_size": 9, "font_color": "#707780"})
        self.alarm = workbook.add_format(
            {**base, "bold": True, "font_color": "#9C1C00", "bg_color": "#FDE6DF", "border": 1}
        )
        self.table = workbook.add_format({**base, "bold": True, "bg_color": "#34495E", "font_color": "white"})
        self.cell = workbook.add_format({**base, "border": 1, "border_color": "#C3C9D0"})
        self.percent = workbook.add_format({**base, "border": 1, "border_color": "#C3C9D0", "num_format": "0 %"})
        self.link = workbook.add_format({**base, "border": 1, "border_color": "#C3C9D0", "font_color": "#1155CC"})
        self.own = workbook.add_format({**base, "border": 1, "bg_color": "#FFFBE0", "locked": False, "num_format": "@"})
        self.time = workbook.add_format(
            {**base, "border": 1, "bg_color": "#FFFBE0", "locked": False, "num_format": "yyyy-mm-dd hh:mm"}
        )

    def line(self, text: str, look: Any, chars: int = _CHARS) -> None:
        """Write a paragraph across all columns, in a row high enough for its text."""
        self.sheet.merge_range(self.row, 0, self.row, len(_WIDTHS) - 1, "", look)
        self.sheet.write_string(self.row, 0, text, look)
        self._next(text, chars)

    def pair(self, name: str, text: str) -> None:
        """Write a word and its meaning."""
        self.sheet.write_string(self.row, 0, name, self.bold)
        self.sheet.merge_range(self.row, 1, self.row, len(_WIDTHS) - 1, "", self.text)
        self.sheet.write_string(self.row, 1, text, self.text)
        self._next(text, round(_CHARS * 0.8))

    def _next(self, text: str, chars: int) -> None:
        self.sheet.set_row_pixels(self.row, _LINE_PX * -(-max(1, len(text)) // chars) + 4)
        self.row += 1

    def skip(self) -> None:
        """Leave a line empty."""
        self.row += 1


def write(workbook: Any, sheet: Any, about: About, progress: Sequence[Progress]) -> None:
    """Write and lock the first tab; in a reader study the cells for times stay unlocked."""
    for number, width in enumerate(_WIDTHS):
        sheet.set_column_pixels(number, number, width)
    pen = _Writer(workbook, sheet)
    _heading(pen, about)
    _how(pen, about)
    if about.kind == "readers" and about.part[0] == 1:
        _questions(pen)
    _table(pen, about, progress)
    pen.skip()
    if about.canary:
        pen.line(columns.clean(about.canary), pen.small)
    sheet.hide_gridlines(2)
    sheet.protect("", {"format_columns": True, "format_rows": True})
    sheet.set_portrait()
    sheet.set_paper(9)
    sheet.fit_to_pages(1, 0)


def _heading(pen: _Writer, about: About) -> None:
    pen.sheet.write_string(0, 0, instructions.TITLES[about.kind], pen.title)
    pen.sheet.set_row_pixels(0, 34)
    pen.row = 1
    number, count = about.part
    part = f", part {number} of {count}" if count > 1 else ""
    pen.line(
        f"For {about.reviewer}{part}: {plural(about.rows, 'row')}. Benchmark: {columns.clean(about.benchmark)}.",
        pen.bold,
    )
    for text in notices(about):
        pen.line(text, pen.alarm, round(_CHARS * 0.92))
    pen.skip()


def _how(pen: _Writer, about: About) -> None:
    pen.line("What to do", pen.head)
    answer = columns.ANSWER if about.kind in columns.ASKING else columns.CORRECTED
    lines = [*instructions.CORRECTION * about.is_correction, *instructions.TASKS[about.kind], *about.told]
    if about.part[1] > 1:
        lines.append(instructions.PART.format(number=about.part[0], count=about.part[1]))
    if about.kind not in ("masks", "wordings"):
        lines += [instructions.SINGLE.format(answer=answer) + " " + instructions.MULTI]
    lines += instructions.COMMON[:1] if about.kind == "wordings" else instructions.COMMON
    if about.viewer:
        lines.append(instructions.VIEWER.format(viewer=about.viewer))
    for text in lines:
        pen.line(text, pen.text)
    pen.skip()
    if about.kind not in columns.ASKING:
        pen.line("Verdicts", pen.head)
        own = {"masks": instructions.MASK_VERDICTS, "wordings": instructions.WORDING_VERDICTS}
        for name, text in own.get(about.kind, instructions.VERDICTS):
            pen.pair(name, text)
        pen.skip()
    pen.line("Worked examples", pen.head)
    for name, text in instructions.EXAMPLES[about.kind]:
        pen.pair(name, text)
    pen.skip()
    if about.kind in ("items", "adjudication"):
        pen.line("Flags", pen.head)
        for name, text in FLAG_WORDS.items():
            pen.pair(name, text)
        pen.skip()


def _questions(pen: _Writer) -> None:
    """Write the questions about the reader and the reading, with a cell for each answer."""
    pen.line("You and your reading", pen.head)
    pen.line(
        "Please answer these questions once, in your own words; your answers are reported with the study, "
        "without your name.",
        pen.text,
    )
    last = len(_WIDTHS) - 1

    def across(text: str, look: Any) -> None:
        pen.sheet.merge_range(pen.row, 2, pen.row, last, "", look)
        pen.sheet.write(pen.row, 2, text or None, look)

    for name, text in [columns.ABOUT_TITLES, *((question, "") for question in columns.ABOUT_QUESTIONS)]:
        head = name == columns.ABOUT_TITLES[0]
        pen.sheet.merge_range(pen.row, 0, pen.row, 1, "", pen.table if head else pen.cell)
        pen.sheet.write_string(pen.row, 0, name, pen.table if head else pen.cell)
        across(text, pen.table if head else pen.own)
        pen.sheet.set_row_pixels(pen.row, 2 * _LINE_PX + 4)
        pen.row += 1
    pen.skip()


def _table(pen: _Writer, about: About, progress: Sequence[Progress]) -> None:
    """Write the progress of each tab and, in a reader study, the cells for its times."""
    pen.line("Your progress", pen.head)
    timed = about.kind == "readers"
    titles = (columns.TIME_TITLES[0], "rows", "done", *(columns.TIME_TITLES[1:] if timed else ("share",)))
    for place, title in enumerate(titles):
        pen.sheet.write_string(pen.row, place, title, pen.table)
    pen.row += 1
    first = pen.row + 1
    for entry in progress:
        pen.sheet.write_url(pen.row, 0, f"internal:'{entry.tab}'!A2", pen.link, entry.tab)
        pen.sheet.write_number(pen.row, 1, entry.rows, pen.cell)
        pen.sheet.write_formula(pen.row, 2, entry.done, pen.cell, 0)
        if timed:
            pen.sheet.write_blank(pen.row, 3, None, pen.time)
            pen.sheet.write_blank(pen.row, 4, None, pen.time)
        pen.row += 1
    pen.sheet.write_string(pen.row, 0, "all", pen.bold)
    pen.sheet.write_formula(pen.row, 1, f"=SUM(B{first}:B{pen.row})", pen.cell, sum(entry.rows for entry in progress))
    pen.sheet.write_formula(pen.row, 2, f"=SUM(C{first}:C{pen.row})", pen.cell, 0)
    pen.sheet.write_formula(pen.row, 3, f"=C{pen.row + 1}/B{pen.row + 1}", pen.percent, 0)
    pen.row += 1
