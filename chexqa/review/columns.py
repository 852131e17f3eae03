"""Format of a review sheet: tabs, columns, words, ids, checksums and the batch file.

There are eight kinds of sheet:

- ``items`` shows proposed answers and asks for verdicts.
- ``blind`` asks the same questions without proposals.
- ``readers`` asks the questions of a reader study.
- ``training`` asks readers about other items and gives feedback.
- ``repeat`` asks some items of the study again.
- ``masks`` asks whether a case's mask is good.
- ``adjudication`` shows the verdicts of reviewers who disagree.
- ``wordings`` asks whether another wording of a question has the same meaning.

A work tab has its titles in the first row and one item or case in each further row. Any tab with the title ``id`` is a
work tab, whatever its name.

A question with one right option is answered by one of its :func:`choices`. A question with several right options is
answered by the numbers of the right ones in one cell ("1, 3"), or in the columns ``option 1`` to ``option n``: ``yes``
marks a right option, and an empty cell means ``no``. At least one option must be marked, because "none" is an option.
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
# Kinds of sheet that ask for an answer and show no proposal. COUNTED below: those whose answers count in statistics.
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
OF_PROPOSALS = WRONG_ANSWER, WRONG_CONTOUR, WRONG_LUNG = "wrong answer", "wrong contour", "wrong lung"
ITEM_REASONS = (
    *OF_PROPOSALS,
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
    WRONG_LUNG,
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
# Title in a correction sheet, followed by a number. The correction sheet with the largest number is the newest.
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
# Titles on the same tab, of the reader's answers about experience, display and conditions.
ABOUT_TITLES = ("about you and your reading", "your words")
ABOUT_QUESTIONS = (
    "years of reading chest radiographs",
    "specialty, and training in chest imaging",
    "display (make, size, resolution, calibration)",
    "conditions (light, place, breaks, zoom and contrast used)",
)
# Title in a training sheet: the key, shown once an answer is given.
FEEDBACK = "feedback"
FEEDBACK_PX = 190

# Width in pixels that columns can fill in a window of 1366 px at 100 % in LibreOffice. Row numbers, scroll bar and side
# bar take the rest, and LibreOffice draws columns 2 % wider than they are set.
VIEW_PX = 1240
PICTURE_PX = 646
# Each row's id and cells to fill in have lines of slightly other colours, which nobody can tell apart. LibreOffice
# sorts the unlocked cells of a protected tab alone, but takes the lines along. It saves 56 colours at most.
_LINE, _SHADES = 0xC3C9D0, 11

# A reviewer's name is part of the names of files and folders, so it has no separators, quotes or other signs.
_NAME = re.compile(r"\w(?:[\w .-]{0,38}[\w-])?")
_DANGEROUS = ("=", "+", "-", "@", "\t", "\n", "\r")
_UNWRITABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_OPTION_TITLE = re.compile(r"option (\d+)")
_VOTE_TITLE = re.compile(r"reviewer (\d+)")
_PROBLEM_TITLE = re.compile(r"problem (\d{1,6})")


class Column(NamedTuple):
    """Column of a sheet: title, width in pixels, and True if the reviewer fills it in; all other columns are locked."""

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
    """Return the title of the column that says what is wrong with each row: "problem 2" for correction round 2."""
    return f"{PROBLEM} {number}"


def problem_number(titles: Iterable[str]) -> int:
    """Return the largest N among a tab's column titles ``problem N``, or 0 if no column has such a title."""
    found = [_PROBLEM_TITLE.fullmatch(title) for title in titles]
    return max((int(one[1]) for one in found if one), default=0)


def with_problems(shown: Sequence[Column], number: int) -> tuple[Column, ...]:
    """Return the columns with the column ``problem N`` added after the picture, where N is ``number``."""
    place = next(place for place, column in enumerate(shown) if column.title == PICTURE) + 1
    return (*shown[:place], Column(problem_title(number), PROBLEM_PX), *shown[place:])


def with_feedback(shown: Sequence[Column]) -> tuple[Column, ...]:
    """Return the columns with a column of feedback added after the answer."""
    place = next(place for place, column in enumerate(shown) if column.title == ANSWER) + 1
    return (*shown[:place], Column(FEEDBACK, FEEDBACK_PX), *shown[place:])


def columns(kind: SheetKind, options: int = 0, votes: int = 0) -> tuple[Column, ...]:
    """Return the columns of a work tab from left to right.

    The columns to work with come first, then the columns that explain.

    - ``options``: the number of yes/no columns that the questions need.
    - ``votes``: the number of reviewers whose verdicts an adjudication sheet shows.

    The columns up to ``comment`` together fill the visible width :data:`VIEW_PX`.
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


def mask_csv_titles() -> tuple[str, ...]:
    """Return the column titles of a mask sheet that is a csv file, in their order."""
    # CheXpercept's columns, then reason and comment, then the columns that the import needs.
    return (KEY_ID, DICOM_ID, TARGET, PLOT_PATH, OPTIMAL, REASON, COMMENT, *MARKS)


def reasons(kind: SheetKind) -> tuple[str, ...]:
    """Return the reasons that a kind of sheet offers; only sheets that show proposals offer :data:`OF_PROPOSALS`."""
    known = MASK_REASONS if kind == "masks" else ITEM_REASONS
    return tuple(reason for reason in known if kind not in ASKING or reason not in OF_PROPOSALS)


def check_name(name: str, where: str) -> str:
    """Return ``name`` if it is valid as a reviewer's name; otherwise raise ``InputError`` that begins with ``where``.

    A valid name can be part of a file name.
    """
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{where}: '{plain(name)}' cannot be a reviewer's name; use up to 40 letters, digits, '-' and spaces."
        )
    return name


def check_authors(cases: Iterable[Case]) -> None:
    """Raise ``InputError`` if the author or signer of a redrawn mask in a manifest has a name that is not valid."""
    for case in cases:
        for name in ("by", "signed_by"):
            if case.redrawn is not None and case.redrawn[name] is not None:
                check_name(case.redrawn[name], f"{case.manifest}, line {case.line}, redrawn.{name}")


def sheet_name(reviewer: str, kind: SheetKind, with_blind: bool) -> str:
    """Return a sheet's file name without extension.

    ``with_blind`` is True if the reviewer does a blind sheet first.
    """
    if kind == "items":
        return f"{reviewer}-2" if with_blind else reviewer
    return reviewer + {
        "blind": "-1-blind", "readers": "-reader", "training": "-training", "repeat": "-again", "masks": "-masks",
        "adjudication": "", "wordings": "-wordings",
    }[kind]  # fmt: skip


def sheet_folder(reviewer: str, kind: SheetKind, with_blind: bool) -> str:
    """Return the name of a sheet's folder; arguments as for :func:`sheet_name`.

    A sheet with proposals has a separate folder if its questions are asked blind first.
    """
    if kind in ("training", "repeat"):
        return sheet_name(reviewer, kind, with_blind)
    return f"{reviewer}-2" if kind == "items" and with_blind else reviewer


def part_names(name: str, count: int) -> list[str]:
    """Return the names of the ``count`` parts of a sheet; a part's folder and page have the same name."""
    return [name] if count == 1 else [f"{name}-part-{number}" for number in range(1, count + 1)]


def anchor(row_id: str) -> str:
    """Return a row's name for links to the viewer.

    The name has no separators such as "/", because spreadsheet programs change them in links.
    """
    return "r-" + hashlib.sha256(row_id.encode()).hexdigest()[:16]


def item_row_id(item_id: str) -> str:
    """Return the row id of an item; it begins with a letter, so that no program takes it for a number or a date."""
    return f"i-{clean(item_id)}"


def is_mask_row(row_id: str) -> bool:
    """Return True if a row is about a mask."""
    return row_id.startswith("m-")


def mask_row_id(case_id: str) -> str:
    """Return the row id of a case's mask in a mask sheet."""
    return f"m-{clean(case_id)}"


def benchmark_mark(sha256: str) -> str:
    """Return the text of the column ``benchmark``, made from the SHA-256 of ``benchmark.json`` or of a manifest."""
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
    """Return the text in a form for comparison.

    It is in Unicode's form NFC, with single spaces as white space, and without the apostrophe of :func:`csv_cell`.
    """
    if text.startswith("'") and is_dangerous(text[1:]):
        text = text[1:]
    return " ".join(unicodedata.normalize("NFC", clean(text)).split())


def checksum(cells: Mapping[str, str]) -> str:
    """Return the checksum of a row's cells, which are keyed by column title.

    It covers the locked cells that are not empty; the order of the columns does not matter. It does not cover columns
    that reviewers fill in or add, the running number, the picture, and the checksums themselves.
    """
    locked = sorted((title, plain(text)) for title, text in cells.items() if _is_locked(title) and plain(text))
    text = json.dumps(locked, ensure_ascii=False, separators=(",", ":"))
    return "k-" + hashlib.sha256(text.encode()).hexdigest()[:16]


_LOCKED = {FINDING, QUESTION, OTHER, OPTIONS, PROPOSED, EVIDENCE, FLAGS, STATE, KEY_ID, DICOM_ID, TARGET, PLOT_PATH} | (
    set(MARKS) - {CHECKSUM, CELL_SUMS}
)


def cell_sums(cells: Mapping[str, str]) -> str:
    """Return a short checksum for each locked, non-empty cell of a row, joined by spaces.

    Each checksum has ten letters: four from the hash of the cell's title, then six from the hash of the cell's text.
    """
    locked = sorted(title for title, text in cells.items() if _is_locked(title) and plain(text))
    return " ".join(_short_sum(title, 4) + _short_sum(plain(cells[title]), 6) for title in locked)


def _short_sum(text: str, letters: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:letters]


def changed_titles(cells: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the titles of the locked cells that were changed after the export, as the row's checksums show.

    Cells that were deleted or emptied are not among them. Returns ``None`` if the row's checksum does not match and the
    row has no checksums of single cells.
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

    A choice begins with its number ("2. No"). Commas become semicolons, because a comma would split the list. The
    grid's choices are the names of its cells ("A1"). If the choices are too long for a drop-down list, which has room
    for 255 characters, only the options' numbers are returned.
    """
    if not item.form.lists_options:
        return tuple(str(option.text) for option in item.options)
    words = tuple(f"{option.n}. {clean(option.text or f'picture {option.n}')}".replace(",", ";").replace('"', "'")
                  for option in item.options)  # fmt: skip
    return words if len(",".join(words)) <= 250 and "\n" not in "".join(words) else _numbers(item)


def _numbers(item: Item) -> tuple[str, ...]:
    return tuple(str(option.n) for option in item.options)


def row_lines(number: int) -> tuple[str, str]:
    """Return the colours (six hexadecimal digits) of the left and right borders that mark cells of row ``number``."""
    left, right = divmod(number, _SHADES)
    return f"{_LINE - left:06X}", f"{_LINE - right:06X}"


_ROWS = {row_lines(number): str(number) for number in range(1, _SHADES**2)}


def row_of(left: str, right: str) -> str:
    """Return the number of the row that the colours of a left and a right border mark; "" if they mark no row."""
    return _ROWS.get((left[-6:].upper(), right[-6:].upper()), "")


def title_of(text: str) -> str:
    """Return a column title in this module's spelling: lower case, single spaces."""
    return plain(text).casefold()
