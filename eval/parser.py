"""The one answer parser: which options a reply names, or that it names none.

An answer is read only where a reply says that it gives one: after an answer word ("Answer: 2", "the answer is (2)"),
in a LaTeX box, or as the whole reply. The last such place counts, and where that one cannot be read nothing else is
tried, so that no number in prose is ever taken for an answer. Reasoning blocks are set aside first.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

from chexqa.items import GRID, Item, Option

Parsed = tuple[int, ...]

# Reasoning as models mark it: opening and closing marks.
_OPENING = (
    r"<(?:seed:)?(?:think|thinking|thought|reasoning)\b[^<>]{0,80}>|\[think\]|<unused94>|◁think▷|<\|channel>|"
    r"<\|channel\|>(?:analysis|commentary)\b"
)
_CLOSING = (
    r"</(?:seed:)?(?:think|thinking|thought|reasoning)\s?>|\[/think\]|<unused95>|◁/think▷|<channel\|>|"
    r"<\|channel\|>final(?:<\|message\|>)?"
)
_MARKS = re.compile(f"({_OPENING})|({_CLOSING})", re.I)

# Composed as the text is before it is read.
_WORDS = unicodedata.normalize(
    "NFKC",
    r"(?:answers?|antwort(?:en)?|réponses?|reponses?|respuestas?|respostas?|risposta|antwoord|odpowiedź|svar|cevap|"
    r"jawaban|đáp án|ответ|الإجابة|उत्तर|คำตอบ|答案|回答|正解|答え|答|정답|답변|답)",
)
_PICK = r"(?:(?:correct|right|best|final|chosen|selected)\s(?:option|choice|cell)s?)"
_START = r"(?<![a-z0-9])"
# A colon (or the like) after an answer word always opens an answer, whatever follows.
_COLON = re.compile(
    rf"{_START}(?:{_WORDS}|{_PICK})[\"']?(?:\s?\([^()\n]{{0,40}}\))?[ ]?(?:(?:is|are|ist|est|es|是|为|は|은|는)[ ]?)?"
    r"(?::|=>|=|→|->|(?<=[ ])[-–—](?=[ ]))[ ]?",
    re.I,
)
# "is" after an answer word opens one only where a readable answer, or a "not", follows: else it is prose.
_IS = re.compile(
    rf"(?P<doubt>\b(?:if|whether|unless)\s(?:the\s|my\s)?(?:(?:final|correct|right|best)\s)?)?{_START}(?:{_WORDS}|{_PICK})"
    r"(?:\sto\s[^.:\n]{0,80}?)?(?:\s(?:is|are|would\sbe|must\sbe|should\sbe|ist|lautet|est|es|é|è)\s|[是为は은는][ ]?)",
    re.I,
)
# A line of the answer word alone (the answer follows), or of the answer word and nothing but an answer.
_HEADING = re.compile(
    rf"^[ >#]*(?:the\s)?(?:(?:final|correct)\s)?{_WORDS}(?:[ ]?$|[ ](?=[^:\n]{{1,80}}$))", re.I | re.M
)

_BOX = r"\\(?:boxed|fbox)\s?\{([^{}]*)\}"
# Boxes that make one answer, or one doubt: "1 and 3", "1 (red), 3", "1 or 3".
_BETWEEN = (
    r"\s{0,3}(?:\([^(){}\n]{1,80}\)\s?(?=[,;&]|(?i:and|or)\b))?[,;&/]?\s?(?i:and|plus|as well as|or|oder|ou|или|或)?"
    r"(?:\s?(?i:maybe|possibly|perhaps))?\s{0,3}"
)
_BOXES = re.compile(f"{_BOX}(?:{_BETWEEN}{_BOX})*")
_LATEX_TEXT = re.compile(r"\\(?:text|textbf|textrm|textit|mathrm|mathbf|mathsf)\s?\{([^{}]*)\}")

_AND = r"(?:and|und|et|y|e|plus|as well as|along with|together with)\b\s?(?:also\b\s?)?"
_JOINT = re.compile(rf"\s?(?:[,;&+、]\s?(?:{_AND}|also\b\s?)?|\b{_AND}|[和と]\s?)")
_OPENERS = r"[\s\[({<\"'“‘„«]*"
_OPENING_MARKS, _CLOSING_MARKS = re.compile(_OPENERS), re.compile(r"(?:\s?[\])}>\"'”’“»]+)?")
_PREFIX = re.compile(
    r"(?:(?:the|la|le|el|die|options?|choices?|numbers?|no\.|points?|cells?|grid|square|nummer|选项|opción|opzione|opção)"
    r"(?![a-z])\s?)*#?"
    rf"{_OPENERS}"
)
_GAP = re.compile(r"\s(?=[(\[]?[a-h]?\d)")
_NUMBER = re.compile(r"(\d{1,4})(?![\da-z_]|\.\d)")
_ROW, _COLUMN = r"row\s?[:=]?\s?([1-9]\d?)", r"col(?:umn)?\.?\s?[:=]?\s?([a-h])"
_CELL = re.compile(
    rf"(?:([a-h])\s?[-–,:/]?\s?([1-9]\d?)|([1-9]\d?)\s?([a-h])|{_COLUMN}\s?(?:,|;|and)?\s?{_ROW}|"
    rf"{_ROW}\s?(?:,|;|and)?\s?{_COLUMN})(?![\da-z_])"
)
_NONE = re.compile(r"(?:at )?none(?: of (?:them|these|those|the (?:above|points|options|places)))?(?![a-z])")
_BESIDE = re.compile(r"[\s.):=(\-–—→]*")
# A reply is at most 8,192 tokens long; of a longer one the end counts, so that hostile text costs little.
_TAIL = 50_000
_NOT_ASCII_DIGIT = re.compile(r"[^\D0-9]")
# What may stand behind an answer on its line: nothing, punctuation, or the beginning of a remark. A noun would make
# the number a count ("3 zones"), and a second number a range or a doubt ("2 or 3", "1-3").
_END = re.compile(
    r"\s?(?:$|[^\w\s/%°+±×~=^&<>:–—-]|:(?!\s?\d)|[–—](?!\s?[a-h]?\d)|-\s(?!\s?[a-h]?\d)|(?:です|입니다|이다|번|番)"
    r"|(?:because|since|as|due|given|based|which|with|for|is|are|was|the|this|it|i|there|and not|but not|rather than)\b"
    r"|[a-z ]{1,30}:)"
)
# A remark on an option that stands in a list: "1 (red), 3", "1. left lower, 3.", "1 - red; 3"; never a whole sentence.
_REMARK = re.compile(
    rf"\s?\(([^()]{{1,120}})\)[\"'\]]*|(?:[.:]|\s[–—→-])\s([^\d()]{{1,120}}?)(?={_JOINT.pattern}{_PREFIX.pattern}\d)"
)
# Words that may stand in such a remark beside the option's own; of a coloured point also where it lies.
_LINKS = {"the", "a", "an", "of", "in", "at", "on", "and", "part", "area", "region", "zone", "zones", "lung", "point"}
_PLACES = {"upper", "lower", "left", "right", "top", "bottom", "middle", "mid", "center", "centre", "medial", "lateral"}
# A list that goes on behind a remark which tells something else: a verdict, a confidence, a reason.
_BRACKET = re.compile(r"\s?[(\[][^()\[\]]{0,200}[)\]][\"']*")
_ADDED = re.compile(rf"\s?[(\[]\s?(?:also\b\s?|{_JOINT.pattern}){_PREFIX.pattern}\d")
_VERDICT = re.compile(r"[\s:=(\-–—→]*(?:(?:yes|no|true|false)\s?(?:$|[.,;)\]])|[✗✘❌])")
_NEXT = rf"(?:{_JOINT.pattern}|\s(?:or|oder|ou)\s){_PREFIX.pattern}\d{{1,4}}"
_MARKED = re.compile(
    r"(?![\s,.;–—-]*(?:because|since|as|due|given|based|which|with|for|not|but|rather|there|it|i|this)\b)(?![.!?]\s)"
    rf"[^\d]*?{_NEXT}(?![\da-z])(?:[\s.!]*$|\s?[,;:()→✓✔✗✘✅❌]|\s[–—-]\s)"
)
_NUMBERED = re.compile(rf"[.)]\s[^\d]*?{_NEXT}[.)]\s?\w")
_DOUBT = re.compile(r"[\s,;([?]*(?:or|maybe|possibly|perhaps|alternatively|oder|ou|или|或)(?![a-z])|\s[–—-]\s?[a-h]?\d")


def parse(item: Item, raw: str) -> Parsed | None:
    """The option numbers that the reply ``raw`` names, sorted, each once; ``None`` where no answer can be read.

    A number said is a place among ``item.options``, which may stand in another order (``chexqa.eval.orders``); what is
    returned are the item's own numbers. A grid cell is the number of the option with its name. More than one on a
    single-choice item, "2 or 3", and a number that is no option cannot be read. "None" is the last option of a
    multi-select item; named with others it is read as given, which is wrong but not unreadable.
    """
    places = _places_named(item, raw)
    return None if places is None else tuple(sorted(item.options[place - 1].n for place in places))


def _places_named(item: Item, raw: str) -> Parsed | None:
    """The options named, each by its place from 1."""
    reader = _Reader(item)
    text = _plain(_without_thoughts(_NOT_ASCII_DIGIT.sub(_digit, unicodedata.normalize("NFKC", raw)))[-_TAIL:])
    whole = reader.exactly(text)
    if whole is not None:
        return whole
    place = max(_places(text, reader), default=None)
    return None if place is None else reader.value(text, place)


def _digit(match: re.Match[str]) -> str:
    return str(unicodedata.digit(match[0]))


def _places(text: str, reader: _Reader) -> Iterator[int]:
    """Where in the text an answer begins."""
    for match in _COLON.finditer(text):
        yield match.end()
    for match in _IS.finditer(text):
        readable = text.startswith("not ", match.end()) or reader.value(text, match.end()) is not None
        if readable and not match["doubt"]:
            yield match.end()
    for match in _HEADING.finditer(text):
        line = text[match.end() : match.end() + 100].partition("\n")[0]
        if not line or reader.exactly(line) is not None:
            yield match.end()


def _without_thoughts(text: str) -> str:
    """The text outside reasoning blocks; one that is never closed runs to the end."""
    kept: list[str] = []
    inside, start = False, 0
    for match in _MARKS.finditer(text):
        if match[1]:
            if not inside:
                kept.append(text[start : match.start()])
            inside = True
        else:
            if not inside:  # the opening mark stood in the prompt
                kept.clear()
            inside, start = False, match.end()
    return "\n".join([*kept, "" if inside else text[start:]])


def _plain(text: str) -> str:
    """The text without marks of Markdown, HTML and LaTeX; a box becomes an answer line of its own."""
    text = re.sub(r"<\|begin_of_box\|>([^<>]{0,500})<\|end_of_box\|>", r"\\boxed{\1}", text)
    text = re.sub(r"</?(?:final_)?answer>", lambda tag: "\n" if "/" in tag[0] else "\nAnswer: ", text, flags=re.I)
    text = re.sub(r"<br\s?/?>|</(?:p|div|li)>", "\n", text, flags=re.I)
    text = re.sub(r"</?[a-z][^<>\n]{0,80}>|<\|[a-z_]{1,40}\|>|~~[^~\n]*~~", "", text, flags=re.I)
    text = re.sub("[*`\r\u200b-\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]+|__", "", text)
    for _ in range(3):  # \textbf{\text{…}} and the like
        text = _LATEX_TEXT.sub(r"\1", text)
    text = re.sub(r"\\[()\[\]{},;: ]|\$|(?<=[a-z])~(?=\d)", " ", text)
    text = re.sub(r"[^\S\n]+", " ", text)
    return re.sub(r"\s*\n ?", lambda gap: "\n" * min(gap[0].count("\n"), 2), _BOXES.sub(_unbox, text)).strip()


def _unbox(boxes: re.Match[str]) -> str:
    """What stands in the boxes: behind an answer word as it is, elsewhere as an answer line."""
    parts = re.split(_BOX, boxes[0])[1:-1]  # by turns what stands in a box and what between two of them
    content = " ".join(part.strip() or "," for part in parts)
    line = boxes.string[max(0, boxes.start() - 200) : boxes.start()].rpartition("\n")[2].rstrip() + " "
    announced = any(match.end() == len(line) for form in (_COLON, _IS) for match in form.finditer(line))
    return f"{content} " if announced else f"\nAnswer: {content}\n"


class _Found(NamedTuple):
    """Option numbers found at one place of a line, and where the line goes on; ``None``: named, but no option."""

    numbers: set[int] | None
    end: int


class _Reader:
    """Reads the values that one item allows: its options' places, by number or by text."""

    def __init__(self, item: Item) -> None:
        self.grid = item.kind == GRID
        self.multi = item.multi
        self.numbers = set(range(1, len(item.options) + 1))
        self.none = len(item.options)
        self.names = _names(item.options)
        self.words = [_words(option) for option in item.options]
        self.by_length = sorted(self.names, key=len, reverse=True)

    def exactly(self, text: str) -> Parsed | None:
        """The answer that the text is, and nothing besides."""
        if len(text) > 200:
            return None
        line = " ".join(text.casefold().split())
        found = self._list(line)
        return self._checked(found.numbers) if found and re.fullmatch(r"[\s.!。]*", line[found.end :]) else None

    def value(self, text: str, start: int) -> Parsed | None:
        """The answer that begins at ``start``: the rest of its line, or the block of lines after an empty rest."""
        lines = text[start : start + 2000].split("\n")
        first = lines[0].strip()
        if first and (set(first) <= set("[({") or re.search(r"(?:[,;&]|\band)$", first)):
            return self._checked(self._line(" ".join(lines)))  # a list that goes on in the next lines
        if first:
            return self._checked(self._line(first))
        named: set[int] = set()
        for line in "\n".join(lines).strip().partition("\n\n")[0].split("\n"):
            numbers = self._line(re.sub(r"^[-–•]\s", "", line.strip()))
            if numbers is None:
                break
            named |= numbers
        return self._checked(named)

    def _checked(self, numbers: set[int] | None) -> Parsed | None:
        if not numbers or not numbers <= self.numbers or (len(numbers) > 1 and not self.multi):
            return None
        return tuple(sorted(numbers))

    def _line(self, text: str) -> set[int] | None:
        """The numbers a line begins with, where what follows leaves no doubt about them."""
        line = " ".join(text.casefold().split())
        if self.multi and re.match(r"\[\s?\]|\{\s?\}", line):
            return {self.none}
        found = self._list(line)
        if found is None or found.numbers is None:
            return None
        rest = line[found.end :]
        if _DOUBT.match(rest) or not _END.match(rest) or self._contradicts(rest, found.numbers):
            return None
        return None if self._goes_on(rest) else found.numbers

    def _goes_on(self, rest: str) -> bool:
        """Whether more options follow behind a remark, so that those read are a part of what is named, or judged."""
        bracket = _BRACKET.match(rest)
        if bracket:
            joint = _JOINT.match(rest, bracket.end())
            if _DOUBT.match(rest, bracket.end()) or (joint and self._element(rest, joint.end())):
                return True
        bare = _BRACKET.sub("", rest)
        forms = [(_ADDED, rest), (_VERDICT, rest), (_MARKED, bare), (_NUMBERED, bare)] if self.multi else []
        return any(form.match(text) for form, text in forms)

    def _contradicts(self, rest: str, numbers: set[int]) -> bool:
        """Whether the text behind the answer names another option: "2. three zones", "1, the red point or …"."""
        joint = _JOINT.match(rest) if self.multi else None
        if joint and self._name(rest, joint.end()):
            return True
        place = _after(_BESIDE, rest, 0)
        name = self._name(rest, place)
        if name is None or self.names[name] in numbers:
            return False
        return re.match(r"\s?(?:$|[.,;)\]])", rest[place + len(name) :]) is not None

    def _list(self, line: str) -> _Found | None:
        """Elements joined by commas and the like; ``None`` where not even one is read."""
        found = self._element(line, 0)
        if found is None:
            return None
        numbers, end = found
        while joint := _JOINT.match(line, end) or _GAP.match(line, end) or self._remarked(line, found):
            found = self._element(line, joint.end())
            if found is None:
                break
            numbers = None if numbers is None or found.numbers is None else numbers | found.numbers
            end = found.end
        return _Found(numbers, end)

    def _remarked(self, line: str, found: _Found) -> re.Match[str] | None:
        """The joint behind a remark that tells which option was named, and nothing else of it."""
        remark = _REMARK.match(line, found.end) if self.multi else None
        if remark is None or not found.numbers:
            return None
        words = set(re.findall(r"[^\W_]+", remark[1] or remark[2]))
        (number,) = found.numbers
        own = self.words[number - 1] if number in self.numbers else set()
        return _JOINT.match(line, remark.end()) if words and words <= own | _LINKS | {str(number)} else None

    def _element(self, line: str, start: int) -> _Found | None:
        """One number (with its own text beside it), cell, option's text, or "none", with brackets and quotes around."""
        place = _after(_OPENING_MARKS, line, start)
        inner = _after(_PREFIX, line, place)
        if self.grid:
            cell = _CELL.match(line, inner)
            found = self._cell(cell) if cell else None
        elif number := _NUMBER.match(line, inner):
            found = self._number(line, number)
        else:
            found = self._text(line, place) or self._text(line, inner)
        if found is None:
            return None
        return _Found(found.numbers, _after(_CLOSING_MARKS, line, found.end))

    def _cell(self, match: re.Match[str]) -> _Found:
        column, row = sorted((part for part in match.groups() if part), reverse=True)
        number = self.names.get(f"{column}{row}")
        return _Found(None if number is None else {number}, match.end())

    def _number(self, line: str, match: re.Match[str]) -> _Found:
        number = int(match[1])
        place = _after(_BESIDE, line, match.end())
        name = self._name(line, place) if place > match.end() else None
        end = place + len(name) if name and self.names[name] == number else match.end()
        if "(" in line[match.end() : place] and not line.startswith(")", end):
            end = match.end()  # a remark that begins with the option's text
        return _Found({number} if number in self.numbers else None, end)

    def _text(self, line: str, place: int) -> _Found | None:
        name = self._name(line, place)
        none = _NONE.match(line, place) if self.multi else None
        if name is None and none is None:
            return None
        end = max(place + len(name) if name else 0, none.end() if none else 0)
        if not (_END.match(line, end) or _JOINT.match(line, end)):
            return None
        by_name = name is not None and end == place + len(name)
        return _Found({self.names[name] if by_name and name else self.none}, end)

    def _name(self, line: str, place: int) -> str | None:
        """The longest option text that stands at ``place`` as words of its own."""
        for name in self.by_length:
            if line.startswith(name, place) and not line[place + len(name) : place + len(name) + 1].isalnum():
                return name
        return None


def _after(marks: re.Pattern[str], line: str, place: int) -> int:
    """Where the line goes on behind the marks that stand at ``place``, if any do."""
    match = marks.match(line, place)
    return match.end() if match else place


def _words(option: Option) -> set[str]:
    """The words a remark on an option may use: its text's and colour's, of a point also where it lies."""
    told = f"{option.text or ''} {option.color or ''}".casefold()
    return set(re.findall(r"[^\W_]+", told)) | (_PLACES if option.color else set())


def _names(options: tuple[Option, ...]) -> dict[str, int]:
    """Option texts as a reply may give them (whole, without article, up to the comma, colour), where they are clear."""
    names: dict[str, set[int]] = {}
    for place, option in enumerate(options, start=1):
        text = " ".join((option.text or "").casefold().split()).rstrip(".")
        color = (option.color or "").casefold()
        for name in {text, text.removeprefix("the "), text.partition(",")[0], color} - {""}:
            names.setdefault(name, set()).add(place)
    return {name: min(numbers) for name, numbers in names.items() if len(numbers) == 1}
