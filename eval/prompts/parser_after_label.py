"""Reading of an answer that follows words such as "Answer:".

The answer begins a line: one option, or options joined by commas or words such as "and". After the options, the line
may end or continue with a remark or a reason. If it continues with another option, a denial, or a noun that makes the
number a count ("2 points"), the answer is unclear.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from chexqa.contract.items import Item
from chexqa.eval.prompts.parser_clean_up import BEGIN, END
from chexqa.eval.prompts.parser_options import (
    AND,
    BESIDE,
    CELL,
    END_OF_ANSWER,
    JOINT,
    LINKS,
    NUMBER,
    ONLY,
    OR,
    PLACES,
    PREFIX,
    REASON,
    TAKEN,
    Found,
    Numbers,
    Options,
    after,
    stem,
    words,
)
from chexqa.eval.prompts.parser_sentences import DENIALS, all_of, same_words, sentence, there_is
from chexqa.imaging.colors import POINT_COLORS

Parsed = tuple[int, ...]

# Characters searched for the lines of an answer, and the longest reply that may be an answer as a whole.
_REACH, _WHOLE = 2000, 600
# Text that may precede an answer without being part of the answer.
_LEAD = re.compile(
    r"(?:\s?(?:(?:it is|it's|that is|that's|i think|i believe|i guess|i choose|i pick|i select|i'd say|i would say|"
    r"i(?:'d| would|'ll| will|'m going to)? go with|i'm going with|(?:my )?(?:best )?(?:guess|choice|pick) is|exactly|"
    r"is|are|at|(?:most |very )?(?:probably|likely)|maybe|perhaps|possibly|presumably|definitely|clearly|only|just|"
    r"simply|both|选择|选|应选|为|是|:|=)(?![a-z])|[✅✔👉→➡☑]))+\s?"
)
_DENIED = re.compile(
    r"\s?(?:is|are|was|were|look|looks|appear|appears|seem|seems|lie|lies|stay|stays|remain|remains|do|does|need|needs|can|"
    r"cannot|has|have|show|shows|不|没|无|未|排除)"
)
_MUST = re.compile(r"\s(?:must|should|need|needs|has|have|lie|lies|take|takes|is|are)\b")
_CLEARED = re.compile(
    rf"{_DENIED.pattern}[^.;]{{0,60}}?(?:\b(?:clear|not|normal|free|spared|unaffected|uninvolved|stay|remain|excluded|fine|"
    r"fits?|inside|wrong|incorrect|worse|too|outside|margin|border)\b|n't)"
)
_UNSURE = re.compile(r"\s?(?:too|also|as well|maybe|possib|perhaps|likely|probabl|might|could|may\b)")
_BRACKET = re.compile(r"\s?[(\[]([^()\[\]]{0,300})[)\]][\"']*")
_REJECTED = re.compile(
    r"\s?(?:(?:no|not|false|clear)\s?(?:$|[.,;])|not (?:involved|correct|right|chosen|needed|affected|present|it)\b|"
    r"(?:wrong|incorrect|rejected|excluded|ruled out|discarded|unlikely)\b|[✗✘❌×])"
)
_VERDICT = re.compile(r"[\s:=(\-–—→]*(?:(?:yes|no|true|false)\s?(?:$|[.,;)\]])|[✓✔✅✗✘❌](?=\s?\S))")
_SENTENCE_ENDS = re.compile(r"[.;!?。；！？](?=\s|$|[^\W\d])|\s[–—-]\s")
# Text that may follow a number that names an option rather than a count.
_LISTED = re.compile(r"\s?(?:$|[.,;:)!?\]、(]|and\b|or\b|&|too\b|also\b|is\b|are\b|instead\b|[-–—→✓✔✅✗✘❌])")
_JOINED = re.compile(rf"(?:^|[\s,;])(?:{OR}|{AND}|but |so |then |rather |maybe |perhaps |possibly )\s?")
# "1. base, 3. left mid", "1: base and 3"
_ENUMERATED = re.compile(
    rf"[.):]\s[^\d]*?(?:(?:{JOINT.pattern}|\s(?:{OR})\s){PREFIX.pattern}\d{{1,2}}(?:[.)]\s?\w|\s?(?:$|[,;.):]))|"
    r"\s\d{1,2}[.):]\s\w)"
)
# A list that continues on the next line: an open bracket, a comma at the end, one half of a cell.
_UNFINISHED = re.compile(r"[\[({]+|[^\n]*(?:[,;&、]|\b(?:and|und|et|y))|(?:row|col(?:umn)?)\b[^\n]{0,12}")
_BULLET = re.compile(r"^(?:[-–+>]\s|[•·▪◦]\s?)+|^(?:and|also|plus|additionally,?|moreover,?|furthermore,?)(?=\s)")
_MAYBE = re.compile(r"\b(?:maybe|perhaps|possibly|probably|rather|also|either)\s(?:option\s)?$")
_LINE_OF_GRID = re.compile(r"\b(?:row|col(?:umn)?)\s?[:=]?\s?([a-h]|[1-9])\b")
_RANGE = re.compile(r"\s?\.{2,}\s?[a-h]?\d|\s?,\s?\.{2,}")
_WITHDRAWN = re.compile(
    r"[\s:=(\-–—→,.]*(?:(?:wrong|incorrect|false|rejected|excluded|ruled out|discarded)\s?(?:$|[.,;)])|[❌✗✘])"
)
# Remarks that a finding is absent or present.
_ABSENT = re.compile(
    r"[\s:=(,.;\-–—]*(?:there (?:is|are) )?(?:no|not|without|absent|negative|none)\b(?! (?:doubt|question|comparison))"
)
_PRESENT = re.compile(r"[\s:=(,.;\-–—]*(?:there (?:is|are) (?!no|not|none)|present\b|positive\b)")
_NEXT_NUMBER = re.compile(r"\s([1-9])[.):]\s\w")
_LETTERS = re.compile(r"\(([a-h])\)|\bpoints? ([a-h])\b")
_COLORS = re.compile(rf"\b(?:{'|'.join(POINT_COLORS)}|black|white|gr[ae]y|violet|magenta|cyan)\b")
# A number behind one of these words counts something else.
_SCORE = re.compile(
    r"(?:confiden\w+|certainty|sure|score|rating|probability|likert|grade|version|picture|image)[^,;]{0,12}$"
)
_TAKEN_BACK = re.compile(
    r"\s?(?:is|are|was|were|seems?|looks?|would be)(?:\s(?:my|the|a|an|only|just))*"
    r"\s(?:not|wrong|incorrect|false|second|alternative|runner|less|previous|initial|first|old|rejected|excluded|ruled)\b|\s?(?:isn't|aren't|wasn't)\b"
)
# A line of a list of verdicts: an option followed by a verdict.
_JUDGED = re.compile(r"\s?(?::|[.)]\s\w|[-–—=→]\s?|\()")
_ALSO = re.compile(
    r"\s*(?:also|additionally|and|or|plus|moreover|furthermore|in addition|as well as|perhaps|maybe|possibly)\b[,:]?\s"
)
_STOPS = re.compile(r"[\s.!。]*")


class Value(NamedTuple):
    """Answer read at one place of a reply: the sorted positions of its options, or None if it is unclear.

    ``is_complete`` is False if the reply does not show where the answer ends, so that options may be missing.
    """

    parsed: Parsed | None
    is_complete: bool


class Reader:
    """Reader of the answers to one item; methods return an option as its position, counted from 1."""

    def __init__(self, item: Item) -> None:
        """Prepare the names of the options of an item as shown."""
        self.options = Options(item)
        self.multi = self.options.multi
        self._values: dict[tuple[str, int], Value] = {}
        self._beginnings: dict[str, tuple[int, Found | None]] = {}

    def value(self, text: str, start: int) -> Value:
        """Return the answer that begins at the offset ``start``, read from its line and the lines that continue it."""
        place = text, start  # several rules ask for the answer at the same place
        if place not in self._values:
            lines = text[start : start + _REACH].replace(BEGIN, "\n").split("\n")
            self._values[place] = self._block(self._joined(lines))
        return self._values[place]

    def exactly(self, text: str) -> Parsed | None:
        """Return the answer if the text consists only of an answer; a list of all options is not an answer."""
        if len(text) > _WHOLE:
            return None
        named: set[int] = set()
        for line in self._joined(text.split("\n")):
            found = self._whole(_bare(line))
            if found is None:
                return None
            named |= found
        return None if self.multi and len(named) == self.options.count > 2 else self._checked(named)

    def stated(self, text: str) -> Parsed | None:
        """Return the answer of a reply that consists of one sentence."""
        options, line = self.options, _squeezed(text)
        return None if "\n" in text else self._checked(there_is(options, line) or sentence(options, line, 2))

    def _checked(self, numbers: set[int] | Numbers | None) -> Parsed | None:
        if not numbers or (len(numbers) > 1 and not self.multi):
            return None
        return tuple(sorted(numbers))

    # Lines

    def _joined(self, lines: list[str]) -> list[str]:
        """Return the lines; if a list or cell begins on the first line and continues below, join its lines into one."""
        kept = [line for line in lines if line.strip()]
        if not kept or not _UNFINISHED.fullmatch(kept[0].strip()):
            return lines
        whole = kept[: next((place for place, line in enumerate(kept) if line.startswith(END)), len(kept))]
        if lines[0].strip() and "" in lines:
            whole = lines[: lines.index("")]
        joined = (", " if self.options.grid else " ").join(line.strip() for line in whole)
        return [joined, *kept[len(whole) :]] if self.options.list(_squeezed(joined)) else lines

    def _block(self, lines: list[str]) -> Value:
        """Return the answer in the first line that is not empty and in the lines that continue its list."""
        named: Numbers | None = None
        gap = is_told = False
        is_list = re.match(r"\s*(?:\[[^\]]*\]|\"[^\"]*\")", lines[0]) is not None
        for line in lines:
            if line.startswith(END):
                return Value(None if self._is_added(line[1:]) else self._checked(named), True)
            if not line.strip():
                gap = named is not None
                continue
            more = self.line(_bare(line)) if named is None else self._goes_on(_bare(line), named, gap, is_told)
            if more is None:
                return Value(self._checked(named), True)
            if not more:
                return Value(None, True)
            is_told = is_told or (named is None and self._whole(_bare(line)) is None)
            named = more if named is None else named | more
        return Value(self._checked(named), is_list)

    def _is_added(self, rest: str) -> bool:
        """Return True if the text after a box adds an option or takes the boxed option back: "2 or 3", "2 is wrong"."""
        rest = _squeezed(rest)
        if re.match(rf"[\s,;.(\[]*{OR}", rest) or _TAKEN_BACK.match(rest):
            return True
        more = JOINT.match(rest)
        return more is not None and self.options.list(rest, after(_LEAD, rest, more.end())) is not None

    def _goes_on(self, line: str, named: Numbers, gap: bool, is_told: bool) -> Numbers | None:
        """Return the options that a line adds to a list: none if it is unclear; None if it is not in the list."""
        whole = self._whole(line)
        if whole is not None:
            return whole
        found = self.options.list(line)
        if found is None or not found.numbers or found.numbers <= named or gap:
            return None
        if not self.multi:  # a list of verdicts, of which the first line was taken for the answer
            return frozenset() if is_told and not found.by_name and _JUDGED.match(line, found.end) else None
        if found.by_name:
            return frozenset() if _JUDGED.match(line, found.end) else None
        if _CLEARED.match(line, found.end):
            return named
        own_text = found.end > len(str(max(found.numbers))) + 1
        return (self.line(line) if own_text else None) or frozenset()

    # One line

    def _whole(self, line: str) -> Numbers | None:
        """Return the options of a line that consists of options only, and perhaps a bracket with the same answer."""
        _, found = self._begun(line)
        if found is None:
            return same_words(self.options, line)
        rest = line[found.end :]
        if found.numbers and (bracket := _BRACKET.match(rest)) and self._agrees(bracket[1], found.numbers):
            rest = rest[bracket.end() :]
        return found.numbers if _STOPS.fullmatch(rest) else None

    def line(self, line: str) -> Numbers | None:
        """Return the options at the beginning of a line, if the rest of the line neither denies nor changes them."""
        start, found = self._begun(line)
        if found is None:
            options = self.options
            return all_of(options, line) or same_words(options, line) or sentence(options, line, 0)
        numbers, rest = found.numbers, line[found.end :]
        if numbers is None:
            return None
        taken = TAKEN.match(rest)
        if taken or self._is_asked(rest):
            return None if self._is_mentioned(rest[taken.end() :] if taken else rest, found) else numbers
        if _DENIED.match(rest):
            return self._before_denied(line, start, found)
        return numbers if self._is_fine(rest, found) else None

    def _begun(self, line: str) -> tuple[int, Found | None]:
        """Return the list of options at the beginning of a line, after leading words; its offset comes first."""
        if line not in self._beginnings:  # several rules ask for the beginning of the same line
            start = after(_LEAD, line, 0)
            found = self.options.list(line, start)
            self._beginnings[line] = (start, found) if found or not start else (0, self.options.list(line))
        return self._beginnings[line]

    def _is_asked(self, rest: str) -> bool:
        """Return True if the rest of a line repeats words of the question, as in "1 and 3 must be moved"."""
        if not _MUST.match(rest) or DENIALS.search(rest):
            return False
        told = words(re.split(r"[.,;(]", rest, maxsplit=1)[0])
        return len(told) > 1 and {stem(word) for word in told} <= self.options.asked

    def _before_denied(self, line: str, start: int, found: Found) -> Numbers | None:
        """Return the options before a line's only semicolon if other options are denied after it: "1; 2 and 3 are
        clear".
        """
        before, mark, behind = line[start : found.end].partition(";")
        if not mark or ";" in behind or not _CLEARED.match(line, found.end):
            return None
        first = self.options.list(before)
        return first.numbers if first and first.end == len(before) else None

    # What follows the answer on its line

    def _is_fine(self, rest: str, found: Found) -> bool:
        """Return True if the rest of a line is a remark or a reason that does not change the answer."""
        numbers = found.numbers or frozenset()
        while bracket := _BRACKET.match(rest):
            if not self._agrees(bracket[1], numbers):
                return False
            rest = rest[after(ONLY, rest, bracket.end()) :]
        if re.match(rf"[\s,;.(\[]*(?:{OR})", rest) or not END_OF_ANSWER.match(rest):
            return False
        if _WITHDRAWN.match(rest) or self._disagrees(rest, numbers):
            return False
        if not self.multi and rest.startswith((".", ")", ":")) and self._is_numbered_on(rest, numbers):
            return False
        if _RANGE.match(rest) or (self.multi and found.by_name and JOINT.match(rest) and not REASON.match(rest)):
            return False
        if self.multi and (_VERDICT.match(rest) or (rest.startswith((".", ")", ":")) and _ENUMERATED.match(rest))):
            return False
        if self._names_other(rest, numbers) or self._is_numbered_otherwise(rest, found):
            return False
        if REASON.match(rest):
            return not re.match(r"[\s,]*(?:with|for|as)\s(?:well\s)?(?:option\s|point\s)?\d\s?(?:$|[.,;])", rest)
        first, *others = _SENTENCE_ENDS.split(rest)
        return not self._is_mentioned(first, found) and not any(self._begins_list(other, found) for other in others)

    def _agrees(self, remark: str, numbers: Numbers) -> bool:
        """Return True if the text in a bracket gives no other answer: it has the options' own texts, or is a remark."""
        if re.match(rf"\s?(?:{OR}|also\b|{AND})", remark) or (_REJECTED.match(remark) and not self.options.is_binary):
            return False
        if self.multi and re.match(r"\s?(?:yes|no|true|false)\s?(?:$|[.,;])", remark):
            return False
        options = self.options
        listed = options.list(remark)
        if listed and listed.numbers and not listed.numbers <= numbers:
            behind = remark[listed.end :]
            return bool(_DENIED.match(behind)) and not _UNSURE.match(behind)
        other = options.name(remark, after(PREFIX, remark, 0)) if self.multi else None
        if other is not None and options.names[other] not in numbers:
            return _DENIED.match(remark, remark.index(other) + len(other)) is not None
        return not self._names_other(remark, numbers) and not self._disagrees(remark, numbers)

    def _names_other(self, rest: str, numbers: Numbers) -> bool:
        """Return True if an answer is followed by another option's text: "2. three zones", "2 (left mid)", "1, no"."""
        options = self.options
        place = after(BESIDE, rest, 0)
        name = options.name(rest, place)
        if name is not None:
            behind = rest[place + len(name) :]
            alone = (options.is_binary and name in ("yes", "no")) or re.match(r"\s?(?:$|[.,;)\]])", behind) is not None
            return options.names[name] not in numbers and alone
        told = set(words(re.split(r"[.;)\]]", rest[place:], maxsplit=1)[0])) - {"the", "a", "of", "in"}
        if not options.words or not told - LINKS:
            return False
        own = LINKS.union(*(options.words[number - 1] for number in numbers))
        known = [PLACES.union(*options.words)] if self.multi and JOINT.match(rest) else options.words
        return not told <= own and any(told <= other for other in known)

    def _disagrees(self, remark: str, numbers: Numbers) -> bool:
        """Return True if a remark contradicts its answer: finding absent after "yes", or present after "no"."""
        options = self.options
        if not options.is_binary or not options.question.startswith("is there"):
            return False
        yes = options.names["yes"] in numbers
        return (_ABSENT if yes else _PRESENT).match(remark) is not None

    def _is_numbered_on(self, rest: str, numbers: Numbers) -> bool:
        """Return True if the number only begins the first of several remarks: "1. too small 2. fits"."""
        found = (int(match[1]) for match in _NEXT_NUMBER.finditer(rest))
        return any(number <= self.options.count and number not in numbers for number in found)

    def _is_numbered_otherwise(self, rest: str, found: Found) -> bool:
        """Return True if another option's number follows a yes or no: "No. 1"."""
        binary = self.options.is_binary and found.by_name
        number = re.match(r"[\s.:#]*(\d)\s?(?:$|[.,;)])", rest) if binary else None
        return number is not None and int(number[1]) not in (found.numbers or ())

    def _is_mentioned(self, text: str, found: Found) -> bool:
        """Return True if the rest of the sentence names another option: "2, maybe 3", "1 - base, 3 - mid"."""
        options, numbers = self.options, found.numbers or frozenset()
        if options.grid and any(not self._lies_in(line[1], numbers) for line in _LINE_OF_GRID.finditer(text)):
            return True
        past = 0
        for match in _MENTIONS[options.grid].finditer(text):
            other = options.cell(match) if options.grid else options.number(text, match)
            if match.start() < past or not other.numbers or other.numbers <= numbers:
                continue
            before = text[: match.start()]
            if (found.by_name and not self.multi and not _MAYBE.search(before)) or _SCORE.search(before):
                continue  # a count next to "yes"
            listed = options.list(text, match.start())
            if listed and _CLEARED.match(text, listed.end):
                past = listed.end
            elif options.grid or _LISTED.match(text, other.end):
                return True
        own = {color for color in options.colors if options.names.get(color) in numbers}
        if options.colors and any(color[0] not in own for color in _COLORS.finditer(text)):
            return True
        letters = {letter for letter in options.letters if options.names.get(letter) in numbers}
        if options.letters and any((one[1] or one[2]) not in letters for one in _LETTERS.finditer(text)):
            return True
        joined = ((one, options.name(text, one.end())) for one in _JOINED.finditer(text))
        return any(name is not None and options.names[name] not in numbers for _, name in joined)

    def _lies_in(self, line: str, cells: Numbers) -> bool:
        """Return True if all cells lie in the given column or row."""
        return all(line in name for name, place in self.options.names.items() if place in cells)

    def _begins_list(self, text: str, found: Found) -> bool:
        """Return True if a later sentence begins like an entry of the same list: "3. left mid", "3 – left mid"."""
        also = after(_ALSO, text, 0)
        text = text[also:].lstrip()
        listed = self.options.list(text)
        if listed is None or not listed.numbers or listed.numbers <= (found.numbers or frozenset()):
            return False
        if also:
            return True
        if listed.by_name or not self.multi:
            return re.match(r"\s?(?:$|[.,;])", text[listed.end :]) is not None
        return not _DENIED.match(text, listed.end)


_MENTIONS = {grid: re.compile(rf"(?<![\w.,]){form.pattern}") for grid, form in ((True, CELL), (False, NUMBER))}


def _bare(line: str) -> str:
    """Return a line without a leading bullet and with single spaces."""
    return _BULLET.sub("", _squeezed(line)).lstrip()


def _squeezed(text: str) -> str:
    return " ".join(text.split())
