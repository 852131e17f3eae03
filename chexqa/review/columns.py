"""Format of a review sheet: tabs, columns, words, ids, checksums and the batch file.

There are five kinds of sheet. ``items`` shows proposals and asks for verdicts, ``blind`` asks the same questions
without proposals, ``readers`` is a reader study, ``masks`` asks whether a case's mask is good, and ``adjudication``
shows the verdicts of reviewers who disagree. A work tab has its titles in the first row and one item or case in each
further row. Any tab with the title ``id`` is a work tab, whatever its name.

An answer to a question with one right option is one of :func:`choices`. A question with several right options has the
columns ``option 1`` to ``option n``: ``yes`` marks a right one and an empty cell means ``no``. At least one must say
``yes``, since "none" is an option too.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping
from typing import Literal, NamedTuple

from chexqa.contract.items import Item

SheetKind = Literal["items", "blind", "readers", "masks", "adjudication"]
BATCH_FILE = "review.json"
FIRST_TAB = "Start here"
MAX_ROWS = 100

ACCEPT, FIX, REJECT, UNSURE = "accept", "fix", "reject", "unsure"
VERDICTS = (ACCEPT, FIX, REJECT, UNSURE)
YES, NO = "yes", "no"
ITEM_REASONS = (
    "wrong answer",
    "wrong contour",
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
    "finding absent",
    "finding present",
    "poor picture",
    "other",
)

# Titles of columns: those shown, those a reviewer fills in, those that import needs.
NUMBER, PICTURE, FINDING, QUESTION, OPTIONS = "no.", "picture", "finding", "question", "options"
PROPOSED, EVIDENCE, FLAGS, STATE = "proposed answer", "evidence", "flags", "said to be"
VERDICT, CORRECTED, ANSWER, REASON, COMMENT = "verdict", "corrected answer", "answer", "reason", "comment"
ID, BENCHMARK, CHECKSUM, SHEET, REVIEWER, BATCH = "id", "benchmark", "checksum", "sheet", "reviewer", "batch"
MARKS = (ID, BENCHMARK, SHEET, REVIEWER, BATCH, CHECKSUM)
# Titles of the published mask sheets, in csv: y or n under "optimal?".
KEY_ID, DICOM_ID, TARGET, PLOT_PATH, OPTIMAL = "key_id", "dicom_id", "target", "plot_path", "optimal?"
OPTIMAL_WORDS = {"y": ACCEPT, "yes": ACCEPT, "n": FIX, "no": FIX}
# On the first tab of a reader study, one row for each work tab.
TIME_TITLES = ("tab", "started", "ended")

_DANGEROUS = ("=", "+", "-", "@", "\t", "\n", "\r")
_UNWRITABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_OPTION_TITLE = re.compile(r"option (\d+)")
_VOTE_TITLE = re.compile(r"reviewer (\d+)")


class Column(NamedTuple):
    """Column of a sheet: title, width in pixels, and whether the reviewer fills it in (other columns are locked)."""

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
    """Return the title of the column for reviewer ``number`` (from 1) in an adjudication sheet."""
    return f"reviewer {number}"


def columns(kind: SheetKind, options: int = 0, votes: int = 0) -> tuple[Column, ...]:
    """Return the columns of a work tab from left to right.

    ``options``: how many yes/no columns its questions need; ``votes``: how many reviewers an adjudication sheet shows.
    """
    shown = [Column(NUMBER, 44), Column(PICTURE, 640), Column(FINDING, 96), Column(QUESTION, 230)]
    marks = [Column(title, 150 if title == ID else 110) for title in MARKS]
    words = [Column(REASON, 110, True), Column(COMMENT, 220, True)]
    choice = [Column(option_title(number), 62, True) for number in range(1, options + 1)]
    if kind == "masks":
        return (*shown[:3], Column(STATE, 80), shown[3], Column(VERDICT, 80, True), *words, *marks)
    shown.append(Column(OPTIONS, 190))
    if kind in ("blind", "readers"):
        return (*shown, Column(ANSWER, 140, True), *choice, *words, *marks)
    shown += [Column(PROPOSED, 150), Column(EVIDENCE, 210), Column(FLAGS, 110)]
    shown += [Column(vote_title(number), 130) for number in range(1, votes + 1)]
    return (*shown, Column(VERDICT, 80, True), Column(CORRECTED, 140, True), *choice, *words, *marks)


def mask_csv_titles() -> tuple[str, ...]:
    """Return the titles of a mask sheet in csv: the published ones, reason, comment, and those that import needs."""
    return (KEY_ID, DICOM_ID, TARGET, PLOT_PATH, OPTIMAL, REASON, COMMENT, *MARKS)


def reasons(kind: SheetKind) -> tuple[str, ...]:
    """Return the reason codes of a kind of sheet."""
    return MASK_REASONS if kind == "masks" else ITEM_REASONS


def sheet_name(reviewer: str, kind: SheetKind, with_blind: bool) -> str:
    """Return a sheet's file name without extension; ``with_blind``: the reviewer has a blind sheet to do first."""
    if kind == "items":
        return f"{reviewer}-2" if with_blind else reviewer
    return reviewer + {"blind": "-1-blind", "readers": "-reader", "masks": "-masks", "adjudication": ""}[kind]


def item_row_id(item_id: str) -> str:
    """Return an item's id in a sheet; the letter keeps programs from reading it as a number, date or formula."""
    return f"i-{clean(item_id)}"


def mask_row_id(case_id: str) -> str:
    """Return a case's id in a mask sheet."""
    return f"m-{clean(case_id)}"


def benchmark_mark(sha256: str) -> str:
    """Return the text of the column ``benchmark``, from the hash of benchmark.json or of a manifest's bytes."""
    return f"b-{sha256[:16]}"


def clean(text: str) -> str:
    """Return the text without characters that XML forbids and without control characters but tab and newline."""
    return _UNWRITABLE.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def is_dangerous(text: str) -> bool:
    """Return True if a spreadsheet program might take the text for a formula."""
    return text.startswith(_DANGEROUS)


def csv_cell(text: str) -> str:
    """Return the text for a csv file, with an apostrophe in front if a program might take it for a formula."""
    text = clean(text)
    return f"'{text}" if is_dangerous(text) else text


def plain(text: str) -> str:
    """Return the text for comparison: NFC, white space as single spaces, no apostrophe of :func:`csv_cell`."""
    if text.startswith("'") and is_dangerous(text[1:]):
        text = text[1:]
    return " ".join(unicodedata.normalize("NFC", clean(text)).split())


def checksum(cells: Mapping[str, str]) -> str:
    """Return the checksum of a row, from its cells by title.

    Only non-empty locked cells count, in any order of columns. Cells that reviewers fill in, columns that they add,
    the running number, the picture and the checksum itself do not count.
    """
    locked = sorted((title, plain(text)) for title, text in cells.items() if _is_locked(title) and plain(text))
    text = json.dumps(locked, ensure_ascii=False, separators=(",", ":"))
    return "k-" + hashlib.sha256(text.encode()).hexdigest()[:16]


_LOCKED = {FINDING, QUESTION, OPTIONS, PROPOSED, EVIDENCE, FLAGS, STATE, KEY_ID, DICOM_ID, TARGET, PLOT_PATH} | (
    set(MARKS) - {CHECKSUM}
)


def _is_locked(title: str) -> bool:
    return title in _LOCKED or _VOTE_TITLE.fullmatch(title) is not None


def choices(item: Item) -> tuple[str, ...]:
    """Return the drop-down choices of an item with one right option, in the order of its options.

    A choice begins with its number ("2. No"); a comma would split the list, so it becomes a semicolon. The grid's
    choices are its cells ("A1"). Choices are bare numbers if the list would exceed the 255 characters it can have.
    """
    if not item.form.lists_options:
        return tuple(str(option.text) for option in item.options)
    words = tuple(f"{option.n}. {clean(option.text or f'picture {option.n}')}".replace(",", ";").replace('"', "'")
                  for option in item.options)  # fmt: skip
    return words if len(",".join(words)) <= 250 and "\n" not in "".join(words) else _numbers(item)


def _numbers(item: Item) -> tuple[str, ...]:
    return tuple(str(option.n) for option in item.options)


def title_of(text: str) -> str:
    """Return a title as this module writes it, whatever case and spacing a program or person gave it."""
    return plain(text).casefold()
