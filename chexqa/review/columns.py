"""Format of a review sheet: tabs, columns, words, ids, checksums and the batch file.

There are eight kinds of sheet. ``items`` shows proposals and asks for verdicts, ``blind`` asks the same questions
without proposals, ``readers`` asks the questions of a reader study, ``training`` shows readers other items with
feedback, ``repeat`` asks some of the study's items again, ``masks`` asks whether a case's mask is good,
``adjudication`` shows the verdicts of reviewers who disagree, and ``wordings`` asks whether a question in other words
asks the same. A work tab has its titles in the first row and one item
or case in each further row. Any tab with the title ``id`` is a work tab, whatever its name.

An answer to a question with one right option is one of :func:`choices`. A question with several right options is
answered in the same cell by their numbers ("1, 3"), or in the columns ``option 1`` to ``option n``: ``yes`` marks a
right option, and an empty cell means ``no``. At least one cell must hold ``yes``, since "none" is an option too.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from chexqa.contract.cases import Case
from chexqa.contract.items import Item
from chexqa.files.errors import InputError

SheetKind = Literal["items", "blind", "readers", "training", "repeat", "masks", "adjudication", "wordings"]
# Sheets that ask for an answer and show no proposal; the answers that count in statistics; those of a reader study.
ASKING: tuple[SheetKind, ...] = ("blind", "readers", "training", "repeat")
# Kinds of sheet that are divided into rounds (:mod:`chexqa.review.assignment`).
IN_ROUNDS: tuple[SheetKind, ...] = ("blind", "readers", "repeat")
COUNTED: tuple[SheetKind, ...] = ("blind", "readers")
STUDY: tuple[SheetKind, ...] = ("readers", "training", "repeat")
BATCH_FILE = "review.json"
PAGES = "pages"  # the folder of review pages
FIRST_TAB = "Start here"
MAX_ROWS = 100

ACCEPT, FIX, REJECT, UNSURE = "accept", "fix", "reject", "unsure"
VERDICTS = (ACCEPT, FIX, REJECT, UNSURE)
YES, NO = "yes", "no"
ITEM_REASONS = (
    "wrong answer",
    "wrong contour",
    "wrong lung",
    "unclear question",
    "poor picture",
    "borderline",
    "cannot tell",
    "other",
)
MASK_REASONS = (
    "too large",
    "too small",
    "part missing",
    "wrong place",
    "wrong lung",
    "finding absent",
    "finding present",
    "poor picture",
    "other",
)

# Titles of columns: shown columns, columns that a reviewer fills in, columns that the import needs.
NUMBER, PICTURE, FINDING, QUESTION, OPTIONS = "no.", "picture", "finding", "question", "options"
OTHER = "in other words"
PROPOSED, EVIDENCE, FLAGS, STATE = "proposed answer", "evidence", "flags", "said to be"
VERDICT, CORRECTED, ANSWER, REASON, COMMENT = "verdict", "corrected answer", "answer", "reason", "comment"
# In a sheet of rows to correct: what was wrong with each row. The number in the title tells the newest of these sheets.
PROBLEM = "problem"
PROBLEM_PX = 150
ID, BENCHMARK, CHECKSUM, SHEET, REVIEWER, BATCH = "id", "benchmark", "checksum", "sheet", "reviewer", "batch"
CELL_SUMS = "cell checksums"
MARKS = (ID, BENCHMARK, SHEET, REVIEWER, BATCH, CELL_SUMS, CHECKSUM)
# Titles of the published mask sheets, which are csv files with y or n under "optimal?".
KEY_ID, DICOM_ID, TARGET, PLOT_PATH, OPTIMAL = "key_id", "dicom_id", "target", "plot_path", "optimal?"
OPTIMAL_WORDS = {"y": ACCEPT, "yes": ACCEPT, "n": FIX, "no": FIX}
# Titles on the first tab of a reader study, which has one row for each work tab.
TIME_TITLES = ("tab", "started", "ended")
# On the same tab: what a reader says of himself and of the reading.
ABOUT_TITLES = ("about you and your reading", "your words")
ABOUT_QUESTIONS = (
    "years of reading chest radiographs",
    "specialty, and training in chest imaging",
    "display (make, size, resolution, calibration)",
    "conditions (light, place, breaks, zoom and contrast used)",
)
# In training, what the key says, once an answer is given.
FEEDBACK = "feedback"
FEEDBACK_PX = 190

# Pixels for columns in a window of 1366 px at 100 % in LibreOffice, which draws columns 2 % wider than they are set,
# beside its row numbers, scroll bar and side bar.
VIEW_PX = 1240
PICTURE_PX = 646
_GROWS = {QUESTION: 0.45, OPTIONS: 0.25, COMMENT: 0.3}

# A reviewer's name is part of the names of files and folders, so it has no separators, quotes or other signs.
_NAME = re.compile(r"\w(?:[\w .-]{0,38}[\w-])?")
_DANGEROUS = ("=", "+", "-", "@", "\t", "\n", "\r")
_UNWRITABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_OPTION_TITLE = re.compile(r"option (\d+)")
_VOTE_TITLE = re.compile(r"reviewer (\d+)")
_PROBLEM_TITLE = re.compile(r"problem (\d{1,6})")


class Column(NamedTuple):
    """Column of a sheet: title, width in pixels, and True if the reviewer fills it in (other columns are locked)."""

    title: str
    width: int
    fill_in: bool = False


def option_title(number: int) -> str:
    """Return the title of the column for option ``number`` (from 1) of questions with several right options."""
    return f"option {number}"


def option_number(title: str) -> int | None:
    """Return the option number in a column title, or ``None`` for another title."""
    found = _OPTION_TITLE.fullmatch(title)
    return int(found[1]) if found else None


def vote_title(number: int) -> str:
    """Return the title of the column with the verdict of reviewer ``number`` (from 1) in an adjudication sheet."""
    return f"reviewer {number}"


def problem_title(number: int) -> str:
    """Return the title of the column that states each row's problem, in the sheets of faulty rows from import
    ``number``.
    """
    return f"{PROBLEM} {number}"


def problem_number(titles: Iterable[str]) -> int:
    """Return the number of the import that returned a tab's rows for correction; 0 for an exported tab."""
    found = [_PROBLEM_TITLE.fullmatch(title) for title in titles]
    return max((int(one[1]) for one in found if one), default=0)


def with_problems(shown: Sequence[Column], number: int) -> tuple[Column, ...]:
    """Return the columns with a column of problems added after the picture."""
    place = next(place for place, column in enumerate(shown) if column.title == PICTURE) + 1
    return (*shown[:place], Column(problem_title(number), PROBLEM_PX), *shown[place:])


def with_feedback(shown: Sequence[Column]) -> tuple[Column, ...]:
    """Return the columns with a column of feedback added after the answer."""
    place = next(place for place, column in enumerate(shown) if column.title == ANSWER) + 1
    return (*shown[:place], Column(FEEDBACK, FEEDBACK_PX), *shown[place:])


def columns(kind: SheetKind, options: int = 0, votes: int = 0) -> tuple[Column, ...]:
    """Return the columns of a work tab from left to right.

    The columns to work with come first, then the columns that explain. ``options``: the number of yes/no columns that
    its questions need. ``votes``: the number of reviewers that an adjudication sheet shows. Columns up to ``comment``
    together fill the visible width :data:`VIEW_PX`; :func:`widened` gives these columns the room that a picture leaves
    free.
    """
    marks = [Column(title, 150 if title == ID else 110) for title in MARKS]
    choice = [Column(option_title(number), 30, True) for number in range(1, options + 1)]
    start = [Column(NUMBER, 28), Column(PICTURE, PICTURE_PX)]
    finding = Column(FINDING, 96)
    if kind == "wordings":
        words = [Column(VERDICT, 64, True), Column(COMMENT, 268, True)]
        return (Column(NUMBER, 28), Column(QUESTION, 440), Column(OTHER, 440), *words, *marks)
    if kind == "masks":
        words = [Column(VERDICT, 60, True), Column(REASON, 76, True), Column(COMMENT, 100, True)]
        said = [Column(vote_title(number), 113) for number in range(1, votes + 1)]
        return (*start, Column(QUESTION, 110), Column(STATE, 56), *said, *words, finding, *marks)
    if kind in ASKING:
        asked = [Column(QUESTION, 170), Column(OPTIONS, 140)]
        words = [Column(ANSWER, 84, True), Column(REASON, 76, True), Column(COMMENT, 96, True)]
        return (*start, *asked, *words, *choice, finding, *marks)
    asked = [Column(QUESTION, 122), Column(OPTIONS, 104), Column(PROPOSED, 72)]
    said = [Column(vote_title(number), 113) for number in range(1, votes + 1)]
    words = [
        Column(VERDICT, 52, True),
        Column(CORRECTED, 78, True),
        Column(REASON, 68, True),
        Column(COMMENT, 70, True),
    ]
    return (*start, *asked, *said, *words, *choice, Column(EVIDENCE, 210), Column(FLAGS, 90), finding, *marks)


def widened(shown: Sequence[Column], picture: int) -> tuple[Column, ...]:
    """Return the columns with a picture column ``picture`` pixels wide.

    Text columns share the rest of :data:`VIEW_PX`.
    """
    narrowed = [column._replace(width=picture) if column.title == PICTURE else column for column in shown]
    last = max(place for place, column in enumerate(narrowed) if column.title == COMMENT)
    free = max(0, VIEW_PX - sum(column.width for column in narrowed[: last + 1]))
    return tuple(
        column._replace(width=column.width + int(free * _GROWS[column.title])) if column.title in _GROWS else column
        for column in narrowed
    )


def mask_csv_titles() -> tuple[str, ...]:
    """Return the titles of a mask sheet in csv: CheXpercept's titles, reason, comment, and the titles that an import
    needs.
    """
    return (KEY_ID, DICOM_ID, TARGET, PLOT_PATH, OPTIMAL, REASON, COMMENT, *MARKS)


def reasons(kind: SheetKind) -> tuple[str, ...]:
    """Return the reason codes of a kind of sheet."""
    return MASK_REASONS if kind == "masks" else ITEM_REASONS


def check_name(name: str, where: str) -> str:
    """Return a reviewer's name; if it could not be part of a file's name, raise ``InputError`` that begins with
    ``where``.
    """
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{where}: '{plain(name)}' cannot be a reviewer's name; use up to 40 letters, digits, '-' and spaces."
        )
    return name


def check_authors(cases: Iterable[Case]) -> None:
    """Raise ``InputError`` if a manifest names an author or signer of a redrawn mask whose name is not allowed."""
    for case in cases:
        for name in ("by", "signed_by"):
            if case.redrawn is not None and case.redrawn[name] is not None:
                check_name(case.redrawn[name], f"{case.manifest}, line {case.line}, redrawn.{name}")


def sheet_name(reviewer: str, kind: SheetKind, with_blind: bool) -> str:
    """Return a sheet's file name without extension.

    ``with_blind`` is True if the reviewer has a blind sheet to do first.
    """
    if kind == "items":
        return f"{reviewer}-2" if with_blind else reviewer
    return reviewer + {
        "blind": "-1-blind", "readers": "-reader", "training": "-training", "repeat": "-again", "masks": "-masks",
        "adjudication": "", "wordings": "-wordings",
    }[kind]  # fmt: skip


def sheet_folder(reviewer: str, kind: SheetKind, with_blind: bool) -> str:
    """Return the name of a sheet's folder; a sheet that reveals answers of the blind sheet is in a separate folder."""
    if kind in ("training", "repeat"):
        return sheet_name(reviewer, kind, with_blind)
    return f"{reviewer}-2" if kind == "items" and with_blind else reviewer


def part_names(name: str, count: int) -> list[str]:
    """Return the names of a sheet's parts; the part's folder and saved page have the same name."""
    return [name] if count == 1 else [f"{name}-part-{number}" for number in range(1, count + 1)]


def anchor(row_id: str) -> str:
    """Return a row's name in links to the viewer; it has no separators, since spreadsheet programs change them in
    links.
    """
    return "r-" + hashlib.sha256(row_id.encode()).hexdigest()[:16]


def item_row_id(item_id: str) -> str:
    """Return the row id of an item in a sheet; it begins with a letter, so no program reads it as a number or date."""
    return f"i-{clean(item_id)}"


def is_mask_row(row_id: str) -> bool:
    """Return True if a row is about a mask."""
    return row_id.startswith("m-")


def mask_row_id(case_id: str) -> str:
    """Return the row id of a case's mask in a mask sheet."""
    return f"m-{clean(case_id)}"


def benchmark_mark(sha256: str) -> str:
    """Return the text of the column ``benchmark``: a mark made from the SHA-256 of benchmark.json or of a manifest."""
    return f"b-{sha256[:16]}"


def clean(text: str) -> str:
    """Return the text without characters that XML forbids and without control characters except tab and newline."""
    return _UNWRITABLE.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def is_dangerous(text: str) -> bool:
    """Return True if a spreadsheet program might read the text as a formula."""
    return text.startswith(_DANGEROUS)


def csv_cell(text: str) -> str:
    """Return the text for a csv file, with an apostrophe in front if a program might read it as a formula."""
    text = clean(text)
    return f"'{text}" if is_dangerous(text) else text


def plain(text: str) -> str:
    """Return the text for comparison: NFC, white space as single spaces, no apostrophe of :func:`csv_cell`."""
    if text.startswith("'") and is_dangerous(text[1:]):
        text = text[1:]
    return " ".join(unicodedata.normalize("NFC", clean(text)).split())


def checksum(cells: Mapping[str, str]) -> str:
    """Return the checksum of a row, from its cells by title.

    Only non-empty locked cells count, in any order of columns. Columns that reviewers fill in or add, the running
    number, the picture and the checksum itself do not count.
    """
    locked = sorted((title, plain(text)) for title, text in cells.items() if _is_locked(title) and plain(text))
    text = json.dumps(locked, ensure_ascii=False, separators=(",", ":"))
    return "k-" + hashlib.sha256(text.encode()).hexdigest()[:16]


_LOCKED = {FINDING, QUESTION, OTHER, OPTIONS, PROPOSED, EVIDENCE, FLAGS, STATE, KEY_ID, DICOM_ID, TARGET, PLOT_PATH} | (
    set(MARKS) - {CHECKSUM, CELL_SUMS}
)


def cell_sums(cells: Mapping[str, str]) -> str:
    """Return the row's short checksums, one for each non-empty locked cell, joined into one text.

    Each checksum has ten letters. The first four are a checksum of the cell's title, the other six a checksum of the
    cell's text.
    """
    locked = sorted(title for title, text in cells.items() if _is_locked(title) and plain(text))
    return " ".join(_short_sum(title, 4) + _short_sum(plain(cells[title]), 6) for title in locked)


def _short_sum(text: str, letters: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:letters]


def changed_titles(cells: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the titles of locked cells that differ from the exported ones according to the row's checksums.

    A locked cell that was deleted or emptied is not compared. Returns ``None`` if the row has no checksums to compare.
    """
    if cells.get(CHECKSUM) and plain(cells[CHECKSUM]) == checksum(cells):
        return ()
    sums = {part[:4]: part[4:] for part in plain(cells.get(CELL_SUMS, "")).split()}
    if not sums:
        return None
    present = [title for title, text in cells.items() if _is_locked(title) and plain(text)]
    return tuple(title for title in present if sums.get(_short_sum(title, 4)) != _short_sum(plain(cells[title]), 6))


def is_fill_in(title: str) -> bool:
    """Return True for the title of a column that the reviewer fills in."""
    return title in (VERDICT, CORRECTED, ANSWER, REASON, COMMENT, OPTIMAL) or option_number(title) is not None


def _is_locked(title: str) -> bool:
    return title in _LOCKED or _VOTE_TITLE.fullmatch(title) is not None


def choices(item: Item) -> tuple[str, ...]:
    """Return the drop-down choices of an item with one right option, in the order of its options.

    A choice begins with its number ("2. No"). A comma in it becomes a semicolon, since a comma would split the list.
    The grid's choices are its cells ("A1"). If the list would exceed the 255 characters that are allowed, choices are
    bare numbers.
    """
    if not item.form.lists_options:
        return tuple(str(option.text) for option in item.options)
    words = tuple(f"{option.n}. {clean(option.text or f'picture {option.n}')}".replace(",", ";").replace('"', "'")
                  for option in item.options)  # fmt: skip
    return words if len(",".join(words)) <= 250 and "\n" not in "".join(words) else _numbers(item)


def _numbers(item: Item) -> tuple[str, ...]:
    return tuple(str(option.n) for option in item.options)


def title_of(text: str) -> str:
    """Return a column title in this module's spelling, from a title in any case and spacing."""
    return plain(text).casefold()
