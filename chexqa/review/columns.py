"""What a review sheet looks like to a program: tabs, columns, words, ids, checksums and the batch file.

Five kinds of sheet share it. ``items`` shows proposals and asks for verdicts, ``blind`` asks the same questions without
proposals, ``readers`` is a reader study, ``masks`` asks whether a case's mask is good, ``adjudication`` shows what the
reviewers said where they disagree. Every work tab has its titles in its first row and one item or case in each further
row; a tab is a work tab because it has the title ``id``, whatever its name.

An answer to a question with one right option is one of :func:`choices`; a question with several has the columns
``option 1`` to ``option n``, where ``yes`` marks a right one and an empty cell means ``no``: an answer is given as soon
as one of them says ``yes``, since "none" is an option too.
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

# Titles of columns; what a reviewer fills in, then what import needs.
NUMBER, PICTURE, FINDING, QUESTION, OPTIONS = "no.", "picture", "finding", "question", "options"
PROPOSED, EVIDENCE, FLAGS, STATE = "proposed answer", "evidence", "flags", "said to be"
VERDICT, CORRECTED, ANSWER, REASON, COMMENT = "verdict", "corrected answer", "answer", "reason", "comment"
ID, BENCHMARK, CHECKSUM, SHEET, REVIEWER, BATCH = "id", "benchmark", "checksum", "sheet", "reviewer", "batch"
MARKS = (ID, BENCHMARK, SHEET, REVIEWER, BATCH, CHECKSUM)
# Of the published mask sheets, in csv: y or n under "optimal?".
KEY_ID, DICOM_ID, TARGET, PLOT_PATH, OPTIMAL = "key_id", "dicom_id", "target", "plot_path", "optimal?"
OPTIMAL_WORDS = {"y": ACCEPT, "yes": ACCEPT, "n": FIX, "no": FIX}
# On the first tab of a reader study, one row for each work tab.
TIME_TITLES = ("tab", "started", "ended")

_DANGEROUS = ("=", "+", "-", "@", "\t", "\n", "\r")
_UNWRITABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_OPTION_TITLE = re.compile(r"option (\d+)")
_VOTE_TITLE = re.compile(r"reviewer (\d+)")


class Column(NamedTuple):
    """A column: its title, its width in pixels, and whether the reviewer fills it in (all others are locked)."""

    title: str
    width: int
    fill_in: bool = False


def option_title(number: int) -> str:
    """The title over option ``number`` (from 1) of questions with several right options."""
    return f"option {number}"


def option_number(title: str) -> int | None:
    """The option that a title is over, ``None`` for another title."""
    found = _OPTION_TITLE.fullmatch(title)
    return int(found[1]) if found else None


def vote_title(number: int) -> str:
    """The title over the verdict of reviewer ``number`` (from 1) in an adjudication sheet."""
    return f"reviewer {number}"


def columns(kind: SheetKind, options: int = 0, votes: int = 0) -> tuple[Column, ...]:
    """The columns of a work tab from left to right.

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
    """The titles of a mask sheet in csv: the published ones, then reason, comment and what import needs."""
    return (KEY_ID, DICOM_ID, TARGET, PLOT_PATH, OPTIMAL, REASON, COMMENT, *MARKS)


def reasons(kind: SheetKind) -> tuple[str, ...]:
    """The reason codes of a kind of sheet."""
    return MASK_REASONS if kind == "masks" else ITEM_REASONS


def sheet_name(reviewer: str, kind: SheetKind, with_blind: bool) -> str:
    """A sheet's file name without its ending; ``with_blind``: the reviewer has a blind sheet to do first."""
    if kind == "items":
        return f"{reviewer}-2" if with_blind else reviewer
    return reviewer + {"blind": "-1-blind", "readers": "-reader", "masks": "-masks", "adjudication": ""}[kind]


def item_row_id(item_id: str) -> str:
    """An item's id in a sheet; the letter keeps programs from making it a number, a date or a formula."""
    return f"i-{clean(item_id)}"


def mask_row_id(case_id: str) -> str:
    """A case's id in a mask sheet."""
    return f"m-{clean(case_id)}"


def benchmark_mark(sha256: str) -> str:
    """What stands in the column ``benchmark``: of the hash of benchmark.json, or of a manifest's bytes."""
    return f"b-{sha256[:16]}"


def clean(text: str) -> str:
    """The text as a cell can hold it: no control characters but tab and newline, nothing XML has no place for."""
    return _UNWRITABLE.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def is_dangerous(text: str) -> bool:
    """Whether a spreadsheet program might take the text for a formula."""
    return text.startswith(_DANGEROUS)


def csv_cell(text: str) -> str:
    """Text for a csv file: an apostrophe stands before what a program might take for a formula."""
    text = clean(text)
    return f"'{text}" if is_dangerous(text) else text


def plain(text: str) -> str:
    """Text as it is compared: NFC, runs of white space as one space, without the apostrophe of :func:`csv_cell`."""
    if text.startswith("'") and is_dangerous(text[1:]):
        text = text[1:]
    return " ".join(unicodedata.normalize("NFC", clean(text)).split())


def checksum(cells: Mapping[str, str]) -> str:
    """The checksum of a row, from its cells by title.

    Counts the locked cells alone (what reviewers fill in, the running number, the picture and the checksum itself do
    not count, nor do columns of their own), whatever order the columns are in; an empty cell counts as none.
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
    """What the drop-down of an item with one right option offers, in the order of its options.

    A number leads ("2. No"), and a comma, which would part the list in two, becomes a semicolon; the grid's are its
    cells ("A1"). Bare numbers where the words together are longer than the 255 characters a list can have.
    """
    if not item.form.lists_options:
        return tuple(str(option.text) for option in item.options)
    words = tuple(f"{option.n}. {clean(option.text or f'picture {option.n}')}".replace(",", ";").replace('"', "'")
                  for option in item.options)  # fmt: skip
    return words if len(",".join(words)) <= 250 and "\n" not in "".join(words) else _numbers(item)


def _numbers(item: Item) -> tuple[str, ...]:
    return tuple(str(option.n) for option in item.options)


def parse_choice(item: Item, text: str) -> int | None:
    """The option number that a cell names, by its number or its words; ``None`` where it names none.

    "2", "2.0", "2. No", "no" and "NO " are the same answer; of a grid the cell's name alone is one.
    """
    wanted = plain(text).casefold()
    for option, choice in zip(item.options, choices(item), strict=True):
        if wanted in {plain(choice).casefold(), plain(option.text or f"picture {option.n}").casefold()}:
            return option.n
    number = re.fullmatch(r"(\d{1,2})(?:\.0*)?", wanted)
    if item.form.lists_options and number and 1 <= int(number[1]) <= len(item.options):
        return int(number[1])
    return None


def title_of(text: str) -> str:
    """A title as this module writes it, from one as a program or a person left it."""
    return plain(text).casefold()
