"""Reading of what a reviewer typed into a cell: a verdict, a yes or no, or an answer.

Entries of spreadsheets and pages are read by these functions only. Upper and lower case, spacing, a full stop and
brackets around a number make no difference. Unclear text is never guessed: a text with two possible meanings is not
read. Places are read like those in replies of models.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from chexqa.contract.items import Item
from chexqa.eval.places.coordinate_systems import PIXELS, Size
from chexqa.eval.prompts import parser_places
from chexqa.review.columns import ACCEPT, FIX, REJECT, UNSURE, choices, plain

VERDICT_LETTERS = {"a": ACCEPT, "f": FIX, "r": REJECT, "u": UNSURE}
_MARKS = {
    **dict.fromkeys(("yes", "y", "x", "true", "✓", "✔", "☑", "✅", "☒", "√"), True),
    **dict.fromkeys(("no", "n", "false", "☐"), False),
}
MARK_WORDS = tuple(_MARKS)
_SELECTORS = re.compile("[\ufe0e\ufe0f]")  # variation selectors, which choose how a sign such as ✔ is drawn
_NUMBER = re.compile(r"(?:option |picture |no\. ?|#)?\(?(\d{1,2})(?:\.0*|\)|\.\))?")
_CELL = re.compile(r"([a-h])[ \-/.]?([1-8])|([1-8])[ \-/.]?([a-h])")
_LETTER = re.compile(r"\(([a-z])\)")
_BETWEEN = re.compile(r"\s*(?:[,;/+&\n]|\band\b)\s*")
# Messages, keyed by answer form: the format of a typed place. Then the reasons why typed numbers are not a place.
_HOW = {
    "point": "x, y, such as 120, 340",
    "box": "x1, y1, x2, y2 (left, top, right, bottom), such as 120, 340, 210, 400",
    "boxes": "x1, y1, x2, y2 of each box, such as [120, 340, 210, 400], [600, 80, 700, 150]",
    "outline": "x, y of each corner in order, such as 120, 340, 210, 360, 150, 420; several areas in brackets: "
    "[120, 340, 210, 360, 150, 420], [600, 80, 700, 90, 640, 150]",
    "width": "x1, y1, x2, y2 of the two ends, such as 240, 600, 730, 600",
}
_NO_PLACE = {
    "count": "the number of coordinates does not fit the question",
    "several": "the question asks for only one place",
    "reversed": "the second corner of a box must lie to the right of the first corner and below it",
    "outside": "it lies outside the picture",
    "not_finite": "its numbers are not coordinates",
}
_NONE = ("none", "none of them", "none of these", "none of the above")


def _folded(text: str) -> str:
    return _SELECTORS.sub("", plain(text)).casefold().strip()


def parse_word(text: str, known: Iterable[str]) -> str | None:
    """Return the word in ``known`` that a reviewer typed into a cell, or ``None`` if the text is none of these words.

    The words "accept", "fix", "reject" and "unsure" may be shortened to their first letter.

    >>> [parse_word(text, ["accept", "reject"]) for text in ("Accept.", "R", "fix")]
    ['accept', 'reject', None]
    """
    word, words = _folded(text).rstrip("."), tuple(known)
    if word in words:
        return word
    meant = VERDICT_LETTERS.get(word)
    return meant if meant in words else None


def parse_mark(text: str) -> bool | None:
    """Return True for yes, x or ✓, False for no, and ``None`` for any other text."""
    return _MARKS.get(_folded(text))


def parse_choice(item: Item, text: str) -> int | None:
    """Return the number of the option that a cell's text means, or ``None`` if it means no single option.

    "2", "2.0", "(2)", "2. No", "no" and "NO " are the same answer. The colour or letter of a point also names its
    option. For the grid, only the name of a grid cell is an answer; "F4", "f 4" and "4F" are the same grid cell.
    """
    wanted = _folded(text)
    if not wanted:
        return None
    if not item.form.lists_options:
        return _cell(item, wanted)
    for option, choice in zip(item.options, choices(item), strict=True):
        if wanted in {_folded(choice), _folded(option.text or f"picture {option.n}")}:
            return option.n
    number = _NUMBER.fullmatch(wanted)
    if number:
        return int(number[1]) if 1 <= int(number[1]) <= len(item.options) else None
    if item.form.takes_several and wanted in _NONE:
        return item.options[-1].n
    short = [option.n for option in item.options if wanted in _short_names(option.text or "", option.color)]
    return short[0] if len(short) == 1 else None


def _cell(item: Item, wanted: str) -> int | None:
    found = _CELL.fullmatch(wanted)
    if found is None:
        return None
    name = ((found[1] or found[4]) + (found[2] or found[3])).upper()
    return next((option.n for option in item.options if option.text == name), None)


def _short_names(text: str, color: str | None) -> set[str]:
    """Return an option's short names: its point's letter and colour, and "yes" and "y" if its text begins with "yes".

    For a text that begins with "no", they are "no" and "n".
    """
    words = plain(text).casefold()
    first = re.split(r"\W", words, maxsplit=1)[0]
    names = {first, first[0]} if first in ("yes", "no") else set()
    letter = _LETTER.search(words)
    if color is not None or letter:
        names |= {letter[1]} if letter else set()
        names |= {color.casefold()} if color else set()
    return names


def typed_words(item: Item, only: int | None = None) -> tuple[str, ...]:
    """Return the words that a reviewer may type instead of choosing an option from the list.

    If the number of an option is given as ``only``, only the words for this option are returned.
    """
    names = [name for option in item.options for name in _short_names(option.text or "", option.color)]
    texts = [plain(option.text).casefold() for option in item.options if option.text]
    numbers = [str(option.n) for option in item.options]
    none = _NONE if item.form.takes_several else ()
    read = {word: parse_choice(item, word) for word in (*numbers, *texts, *names, *none)}
    return tuple(word for word, option in read.items() if option is not None and only in (None, option))


def parse_answer(item: Item, text: str, several_cells: bool = False) -> tuple[int, ...] | None:
    """Return the sorted option numbers that a cell's text means, or ``None`` if it is no answer to the question.

    If several options can be right, "1, 3", "1 3", "red and blue" and "none" are answers. ``several_cells`` is True if
    the text is a corrected key, which may name several grid cells, such as "F4, G4".
    """
    one = parse_choice(item, text)
    if one is not None:
        return (one,)
    if not (item.form.takes_several or (several_cells and not item.form.lists_options)):
        return None
    folded = _folded(text)
    parts = [part for part in _BETWEEN.split(folded) if part]
    if len(parts) == 1:  # words can be separated at spaces only if they contain no spaces themselves
        parts = folded.split()
    numbers = [parse_choice(item, part) for part in parts]
    if not numbers or any(number is None for number in numbers):
        return None
    chosen = tuple(sorted({number for number in numbers if number is not None}))
    alone = item.form.takes_several and len(chosen) > 1 and item.options[-1].n in chosen
    return None if alone else chosen


def place_words(item: Item, size: Size) -> str:
    """Return words on how to type the place that an item asks for; ``size`` is the picture's (width, height)."""
    return f"{_HOW[item.form.name]}, in pixels of the picture ({size[0]} x {size[1]}); or: nowhere"


def parse_place(item: Item, text: str, size: Size) -> parser_places.Place:
    """Return the place that ``text``, from a sheet, describes; it is read like a model's reply."""
    return parser_places.read(item.form.name, text, PIXELS, size)


def no_place(found: parser_places.Place, item: Item, size: Size) -> str:
    """Return the end of a sentence on a reviewer's entry: why the entry is not a place, and how to type a place."""
    why = f": {_NO_PLACE[found.problem]}" if found.problem else ""
    return f"is not a place{why}; give {place_words(item, size)}"
