"""Recognition of options in a line of a reply: by number, text, colour, ordinal or letter, or as a grid cell."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import NamedTuple

from chexqa.contract.items import Item

Numbers = frozenset[int]
_Told = tuple[tuple[str, str, str], ...]  # text, colour and letter of each option


def words(text: str) -> list[str]:
    """Return the words and numbers of a text."""
    return re.findall(r"[^\W_]+", text)


AND = r"(?:and|und|et|y|e|och|en|i|ve|dan|plus|as well as|along with|together with)\b\s?(?:also\b\s?)?"
OR = r"(?:and/or|or|oder|ou|o|или|或|または|또는)(?![a-zа-я])"
JOINT = re.compile(rf"\s?(?:[,;&+、]\s?(?:{AND}|also\b\s?)?|\b{AND}|[和と与及]\s?|및\s?)")
_GAP = re.compile(r"\s(?=[(\[]\d{1,2}[)\]]|[a-h]?\d)|(?<=[)\]])(?=[(\[]\d{1,2}[)\]])")
_OPENERS = r"[\s\[({<\"'【「]*"
_OPENING_MARKS, _CLOSING_MARKS = re.compile(_OPENERS), re.compile(r"(?:\s?[\])}>\"'】」]+)?")
_KINDS = (
    r"options?|choices?|numbers?|nos?\.|nr\.?|n°|№|points?|cells?|grid|square|places?|regions?|contours?|"
    r"outlines?|nummer|选项|选择|第|点|轮廓|格子?|opción|opciones|opzione|opzioni|opção|opções|optionen|вариант"
)
KIND = re.compile(rf"(?:{_KINDS}) ?")
PREFIX = re.compile(rf"(?:(?:the|la|le|el|die|den|der|das|{_KINDS})(?![a-z])\s?)*[#:]?{_OPENERS}")
NUMBER = re.compile(r"(\d{1,4})(?![\da-z_]|\.\d|\s?%)")
_ROW, _COLUMN = r"(?:row\s?[:=]?\s?([1-9]\d?)|第?([1-9])行)", r"(?:col(?:umn)?\.?\s?[:=]?\s?([a-h])|第?([a-h])列)"
_SPACE = r"\s?(?:,|;|and|/|的)?\s?"
CELL = re.compile(
    rf"(?:([a-h])\s?[-–,:/]?\s?([1-9]\d?)|([1-9]\d?)\s?[-,]?\s?([a-h])|{_COLUMN}{_SPACE}{_ROW}|"
    rf"{_ROW}{_SPACE}{_COLUMN})(?![\da-z_]|\.\d)"
)
_ORDINALS = {
    word: place
    for place, row in enumerate(
        ("first 1st one 一", "second 2nd two 二", "third 3rd three 三", "fourth 4th four 四", "fifth 5th five 五"),
        start=1,
    )
    for word in row.split()
}
_WORD = "|".join(_ORDINALS)
_ORDINAL = re.compile(
    rf"(?:the )?({_WORD})(?: (?:option|choice|contour|outline|answer|one)(?![a-z])|个?(?:选项|轮廓|答案))"
    rf"|(?:the )?(?:option|choice|number|选项|第) ?({_WORD})(?![a-z]|[ -](?:zone|point|third|lung))"
    r"(?:个?(?:选项|轮廓|答案)|个(?![^\W_]))?"
    r"|第([1-5])个(?:选项|轮廓|答案)?"
)
_LETTER = re.compile(r"\(?([a-h])[.):]+\s?")
_NONE = re.compile(
    r"(?:at )?none(?: of (?:them|these|those|the (?:(?:coloured|colored|listed|given) )?"
    r"(?:above|points|options|places|others)))?"
    r"(?: (?:(?:needs?|must|has|have|should)(?: to)?(?: be)? [a-z]+(?: (?:in|out)wards?)?|applies|apply|fits?|"
    r"(?:is|are) involved))?(?![a-z])"
)
BESIDE = re.compile(r"[\s.,):=(\-–—→]*")
ONLY = re.compile(
    r"\s(?:only|alone|both|exclusively|respectively|together)(?![a-z])|(?:仅|のみ|だけ|格|です|입니다|이다|번|番|号)+"
)
# Beginnings of a reason after an answer; a reason may name other options.
_REASONS = (
    r"because|since|as|due|given|based|which|with|for|rather than|not|and not|but not|instead of|"
    r"although|though|while|whereas"
)
REASON = re.compile(
    rf"[\s,.;:–—-]*(?:{_REASONS}|over|excluding|without|except|even though|"
    r"(?:all )?(?:the )?(?:others?|rest|remaining)|"
    r"weil|da|denn|(?:und )?nicht|car|(?:et )?pas|porque|因为|不是|而不是|而非)(?![a-z])"
)
# Text that may follow an answer on its line. A noun would make the number a count ("3 opacities").
END_OF_ANSWER = re.compile(
    r"\s?(?:$|[^\w\s/%°+±×~=^&<>?:|–—-]|:(?!\s?\d)|[–—](?!\s?[a-h]?\d)|-\s(?!\s?[a-h]?\d(?![\d.]*\s?%))|→\s?(?!\d)|\||"
    rf"(?:{_REASONS}|the|this|it|i|there|but|nicht|pas)\b|[a-z ]{{1,30}}:|因为|不是|而不是|而非)"
)
# A predicate that makes an option the answer.
TAKEN = re.compile(
    r"\s(?:is|are|was|were|fits?|best|represents?|looks?)(?:\s(?:the|my|both|clearly|most|a|all|one|ones|that|which|it))*"
    r"(?:\s(?:correct|right|best|better|answers?|involved|affected|likely|true|needed|chosen|selected|fits?|appropriate|"
    r"represents?))(?![a-z])|\s(?:to be|as) (?:the )?(?:best|right|correct)(?![a-z])|\sfits? best(?![a-z])|"
    r"\sbest (?:fits?|represents?)(?![a-z])|(?:是|为)?(?:正确|最佳)"
)
# A finding that "no" or "yes" repeats: "no evidence of pleural effusion on this radiograph".
_REPEATED = re.compile(
    r" (?:(?:evidence|signs?|suggestion|indication) of |visible |definite |obvious |any |a |an )*([^.,;:()\d]{4,60}?)"
    r"(?: (?:of the \w+ )?(?:is|are) (?:seen|visible|present|identified|detected|noted|needed|required))?"
    r"(?: (?:needed|required|seen|visible|present|identified|detected|noted))?"
    r"(?: (?:on|in) (?:this|the) (?:radiograph|image|picture|film|x-ray|chest x-ray))?(?=[.,;:()\n]|$)"
)
LINKS = frozenset(words("the a an of in at on and part area region zone zones lung point is are"))
PLACES = frozenset(words("upper lower left right top bottom middle mid center centre medial lateral peripheral"))
_YES = frozenset(words("是 是的 有 对 ja oui sí si sim sì да 예 네 はい نعم"))
_NO = frozenset(words("否 没有 无 不需要 nein non no não нет 아니요 아니오 いいえ لا"))
_FIGURES = [
    (re.compile(rf"\b{said}\b"), figure)
    for said, figure in (
        ("one third", "1/3"), ("two thirds", "2/3"), ("a third", "1/3"), ("a third", "one third"), ("one", "1"),
        ("two", "2"), ("three", "3"), ("four", "4"), ("five", "5"), ("six", "6"),
    )
]  # fmt: skip


class Found(NamedTuple):
    """Options that an answer names at one position of a line.

    - ``numbers``: the numbers of the options; None if one of them does not exist, such as option 7 of 4.
    - ``end``: the offset of the text that follows.
    - ``by_name``: True if every option is named by its text, not by its number.
    """

    numbers: Numbers | None
    end: int
    by_name: bool = False


class Options:
    """Options of an item in the order shown; methods return an option as its position, counted from 1."""

    def __init__(self, item: Item) -> None:
        """Store the item as shown, and prepare the names of its options."""
        self.item = item
        reading = READINGS[item.form.name]
        self.grid = reading.of_cells
        self.multi = reading.several
        self.count = len(item.options)
        told = tuple((option.text or "", option.color or "", option.letter or "") for option in item.options)
        # Names of the options, and the words that remarks may use for each option (empty for grid cells).
        self.names, self._named, self.words = reading.names(told)
        self.colors = frozenset(color.casefold() for _, color, _ in told if color)
        self.letters = frozenset(letter.casefold() for *_, letter in told if letter)
        self.is_binary = "yes" in self.names and "no" in self.names

    @cached_property
    def question(self) -> str:
        """Return the question in lower case."""
        return self.item.question.casefold()

    @cached_property
    def asked(self) -> set[str]:
        """Return the stems of the question's words, up to its question mark."""
        return {stem(word) for word in words(self.question.rpartition("?")[0] or self.question)}

    def list(self, line: str, start: int = 0) -> Found | None:
        """Return the options listed from ``start`` on, separated by commas or words such as "and".

        Return None if no option can be read.
        """
        found = self._element(line, start)
        if found is None:
            return None
        numbers, end, by_name = found
        while joint := JOINT.match(line, end) or _GAP.match(line, end) or self._remarked(line, found):
            only = _ALONE.match(line, joint.end())
            found = self._element(line, only.end() if only else joint.end())
            if found is None:
                break
            numbers = None if numbers is None or found.numbers is None else numbers | found.numbers
            end, by_name = found.end, by_name and found.by_name
        return Found(numbers, after(ONLY, line, end), by_name)

    def _remarked(self, line: str, found: Found) -> re.Match[str] | None:
        """Return the match of the separator behind a remark on an option; None unless the remark repeats the option."""
        remark = _REMARK.match(line, found.end) if self.multi and found.numbers and len(found.numbers) == 1 else None
        if remark is None or not found.numbers:
            return None
        told = set(words(remark[1] or remark[2]))
        (number,) = found.numbers
        if not told or not told <= self.words[number - 1] | LINKS | {str(number)}:
            return None
        return JOINT.match(line, remark.end()) or _GAP.match(line, remark.end())

    def _element(self, line: str, start: int) -> Found | None:
        """Return one named option: by its number (and its text beside it), as a cell, by its text, or "none".

        Brackets or quotes around the name are allowed.
        """
        place = after(_OPENING_MARKS, line, start)
        inner = after(PREFIX, line, place)
        if self.grid:
            cell = CELL.match(line, inner)
            found = self.cell(cell) if cell else None
        else:
            found = self._text(line, place) or self._text(line, inner) or self.ordinal(line, place)
            if found is None and (number := NUMBER.match(line, inner)):
                found = self.number(line, number)
            found = found or self._lettered(line, place)
        return found and found._replace(end=after(_CLOSING_MARKS, line, found.end))

    def cell(self, match: re.Match[str]) -> Found:
        """Return the cell named by a column letter and a row number, in either order."""
        column, row = sorted((part for part in match.groups() if part), reverse=True)
        number = self.names.get(f"{column}{row}")
        return Found(None if number is None else frozenset({number}), match.end())

    def number(self, line: str, match: re.Match[str]) -> Found:
        """Return the option named by its number; the option's text may follow the number."""
        number = int(match[1])
        place = after(BESIDE, line, match.end())
        name = self.name(line, place) if place > match.end() and "," not in line[match.end() : place] else None
        end = place + len(name) if name and self.names[name] == number else match.end()
        if not any(form.match(line, end) for form in (END_OF_ANSWER, JOINT, _DOUBT)):
            end = match.end()  # the option's text begins a sentence
        if "(" in line[match.end() : place] and not line.startswith(")", end):
            end = match.end()  # the option's text begins a remark
        return Found(frozenset({number}) if 1 <= number <= self.count else None, end)

    def ordinal(self, line: str, place: int) -> Found | None:
        """Return the option named by an ordinal or a number word: "the second option", "option two"."""
        match = _ORDINAL.match(line, place)
        if match is None:
            return None
        number = int(match[3]) if match[3] else _ORDINALS[match[1] or match[2]]
        return Found(frozenset({number}) if number <= self.count else None, match.end())

    def _lettered(self, line: str, place: int) -> Found | None:
        """Return the option named by a letter and its complete text: "b) two zones".

        The letter must belong to the option with this text.
        """
        letter = _LETTER.match(line, place)
        name = self.name(line, letter.end()) if letter else None
        if letter is None or name is None or self.names[name] != ord(letter[1]) - ord("a") + 1:
            return None
        return self._text(line, letter.end())

    def _text(self, line: str, place: int) -> Found | None:
        name = self.name(line, place)
        none = _NONE.match(line, place) if self.multi else None
        if name is None and none is None:
            return None
        end = max(place + len(name) if name else 0, none.end() if none else 0)
        by_name = name is not None and end == place + len(name)
        if self.is_binary and name in ("yes", "no"):
            end = self.restated(line, end)
        if not any(form.match(line, end) for form in (END_OF_ANSWER, JOINT, TAKEN, ONLY)):
            return None
        return Found(frozenset({self.names[name] if by_name and name else self.count}), end, True)

    def restated(self, line: str, end: int) -> int:
        """Return the offset behind the finding's name if it follows a "yes" or "no", as in "no pleural effusion".

        If it does not follow, return ``end``, which is the offset behind the "yes" or "no".
        """
        repeated = _REPEATED.match(line, end)
        return repeated.end() if repeated and f" {repeated[1]}" in self.question else end

    def name(self, line: str, place: int) -> str | None:
        """Return the longest option text at the offset ``place`` of the line; it must end at the end of a word."""
        match = self._named.match(line, place)
        return match[0] if match else None


_DOUBT = re.compile(rf"\s?{OR}")
_ALONE = re.compile(r"(?:only|just)\s")
# A remark on an option in a list: "1 (red), 3", "1. left lower, 3.", "1 - red; 3"; never a whole sentence.
_REMARK = re.compile(
    rf"\s?\(([^()]{{1,120}})\)[\"'\]]*|(?:[.:]|\s[–—→-])\s([^\d()]{{1,120}}?)(?={JOINT.pattern}{PREFIX.pattern}\d)"
)


def after(marks: re.Pattern[str], line: str, place: int) -> int:
    """Return the offset after the marks that begin at the offset ``place``; if there are none, return ``place``."""
    match = marks.match(line, place)
    return match.end() if match else place


def stem(word: str) -> str:
    """Return a word without its ending: "covers" becomes "cover", "needed" becomes "need"."""
    return re.sub(r"(?<=\w{3})(?:s|ed|es|e)$", "", word)


class _Names(NamedTuple):
    """Names of an item's options.

    ``places`` maps each unambiguous name to its option's position. ``pattern`` matches these names. ``words`` has the
    words of each option.
    """

    places: dict[str, int]
    pattern: re.Pattern[str]
    words: tuple[frozenset[str], ...]


@lru_cache(maxsize=16)
def _cells(told: _Told) -> _Names:
    return _Names({text.casefold(): place for place, (text, *_) in enumerate(told, start=1)}, re.compile("(?!)"), ())


@lru_cache(maxsize=1024)
def _names(told: _Told) -> _Names:
    """Return the names of options, made from their texts, colours and letters.

    The result is cached, because many items share options.
    """
    names: dict[str, set[int]] = {}
    for place, (text, color, letter) in enumerate(told, start=1):
        for name in _forms(text, color) | _letter_forms(color.casefold(), letter.casefold()):
            names.setdefault(name, set()).add(place)
    clear = {name: min(places) for name, places in names.items() if len(places) == 1}
    # A remark on a point may also say where it lies.
    own = (
        frozenset(words(f"{text} {color} {letter}".casefold())) | (PLACES if color else frozenset())
        for text, color, letter in told
    )
    # The longest comes first and must end at a word boundary, except in scripts without spaces.
    forms = (re.escape(name) + ("" if name[-1] > "\u2e80" else r"(?![^\W_])") for name in sorted(clear, key=len)[::-1])
    return _Names(clear, re.compile("|".join(forms) or "(?!)"), tuple(own))


def _forms(text: str, color: str) -> set[str]:
    """Return the names of an option: the forms of its text, and its colour.

    A text has several forms: with and without its article, only up to its comma, and with digits for number words. The
    options yes and no also have their words in other languages.
    """
    text = " ".join(text.casefold().split()).rstrip(".")
    short = text.partition(",")[0]
    forms = {text, text.removeprefix("the "), text.removeprefix("from "), short}
    for said, figure in _FIGURES:
        forms |= {said.sub(figure, form) for form in forms}
    forms |= {form.rpartition(" ")[0] for form in forms if " or more " in form}
    if color := color.casefold():
        forms |= {color, *(f"{color} {noun}" for noun in ("point", "points", "one", "dot", "marker"))}
    forms |= _YES if short == "yes" else _NO if short == "no" else set()
    return forms - {"", *"0123456789"}


def _letter_forms(color: str, letter: str) -> set[str]:
    """Return the names of a lettered point: "c", "point c", "c (red)", "red (c)"; empty if the option has no letter."""
    if not letter:
        return set()
    return {letter, f"point {letter}", f"{letter} ({color})", f"{color} ({letter})", f"{color} {letter}"}


class Reading(NamedTuple):
    """Rules for reading the replies to one answer form.

    - ``names``: a function that returns the names of the options.
    - ``several``: True if a reply may name several options. The last option then is "none".
    - ``of_cells``: True if the options are grid cells, named by a letter and a number.
    """

    names: Callable[[_Told], _Names]
    several: bool = False
    of_cells: bool = False


# The reading of each of ``chexqa.contract.forms.FORMS``.
READINGS = {
    "single": Reading(_names),
    "multi": Reading(_names, several=True),
    "cell": Reading(_cells, of_cells=True),
}
