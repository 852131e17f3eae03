"""Recognition of options stated in sentences: "all points except the blue one", "the left lung is larger".

A sentence states an option only if it consists of words of the question and of this option; other prose is not read.
"""

from __future__ import annotations

import re

from chexqa.eval.prompts.parser_options import CELL, KIND, NUMBER, Found, Numbers, Options, stem, words

_ALL = re.compile(
    r"all(?= (?:but|except))|every(?: (?:coloured|colored|listed|given))? (?:point|place|region|option)(?= except)|"
    r"all (?:of )?(?:the )?(?:(two|three|four|five|six|seven|eight|\d) )?\s?"
    r"(?:(?:coloured|colored|listed|given) )?(?:points|places|regions|options|of them)"
)
_BUT = re.compile(r",? (?:except|but|apart from|other than|excluding|without)(?: for)? ")
_NOUN = re.compile(r"\s(?:one|ones|point|points)(?=\W|$)")
_COUNTS = {word: str(count) for count, word in enumerate(words("two three four five six seven eight"), start=2)}
HEDGES = re.compile(
    r"\b(?:can|can't|cannot|could|may|might|maybe|perhaps|possibl[ey]|unable|unclear|unsure|if|unless|but|however|"
    r"impossible|whether|debatable|or|either|neither|help|sorry|i'm)\b|n't\b|\?"
)
DENIALS = re.compile(r"\b(?:no|not|without|absent|absence|neither|never|free|clear|none)\b|n't\b")
_INEXACT = re.compile(
    r"[/+~<>=|–—-]|\b(?:up to|at (?:least|most)|more|less|fewer|about|over|under|between|from|"
    r"to the|almost|nearly|or)\b"
)
_IS_THERE = re.compile(r"is there (?:an? |any )?([^?]{3,40}?) (?:on|in) (?:this|the) [^?]*\?")
_SIDE = r"(?:left|right|left-sided|right-sided|bilateral)"
_SIZE = rf"(?:small|large|moderate|mild|visible|{_SIDE})"
_THERE_IS = re.compile(
    rf"there (?:is|are) (?:an?|some|clearly|{_SIZE})(?: {_SIZE})* "
    rf"(.{{3,40}}?)(?: (?:on|at|in) (?:the {_SIDE}(?: side)?|both sides|this radiograph|the radiograph))*[. ]*"
)
_PLAIN = frozenset(words("the a an of in at on is are it this that which there to be that option by as so"))
_STEMS = frozenset(stem(word) for word in (*_PLAIN, "cell", "point", "contour", "outline"))
_SENTENCE = 250


def all_of(options: Options, line: str) -> Numbers | None:
    """Return all options except "none" if a line says "all points"; leave out exceptions ("all points except the blue
    one").
    """
    match = _ALL.match(line) if options.multi else None
    if match is None or (match[1] and _COUNTS.get(match[1], match[1]) != str(options.count - 1)):
        return None
    everything = frozenset(range(1, options.count))
    but = _BUT.match(line, match.end())
    rest = _NOUN.sub("", line[but.end() :]) if but else line[match.end() :]
    left_out = options.list(rest) if but else Found(frozenset(), 0)
    if left_out is None or left_out.numbers is None or not re.fullmatch(r"[\s.]*", rest[left_out.end :]):
        return None
    return (everything - left_out.numbers) or None


def there_is(options: Options, line: str) -> Numbers | None:
    """Return the option "yes" if the reply is one sentence like "there is a small effusion"; otherwise None."""
    asked = _IS_THERE.match(options.question) if options.is_binary else None
    said = _THERE_IS.fullmatch(line) if asked and len(line) <= _SENTENCE else None
    return frozenset({options.names["yes"]}) if asked and said and said[1] == asked[1] else None


def same_words(options: Options, line: str) -> Numbers | None:
    """Return the only option that has the same words as the line, in any order; None if there is no such option.

    Words such as "the" and "is" do not count: the line "the left lung is larger" gives the option "larger left lung".
    """
    told = set(words(line)) - _PLAIN
    if options.grid or len(told) < 2 or len(line) > _SENTENCE or "?" in line:
        return None
    alike = [place for place, own in enumerate(options.words, start=1) if told == own - _PLAIN]
    return frozenset(alike) if len(alike) == 1 else None


def sentence(options: Options, line: str, least: int) -> Numbers | None:
    """Return the options that the sentence ``line`` states, or None if it does not state them clearly.

    A sentence that has fewer than ``least`` words in common with the question is not clear.
    """
    line = line.rstrip(".!。")
    if len(line) > _SENTENCE or re.search(r"[.!?。;\n]", line):
        return None
    if options.is_binary and (stated := _yes_or_no(options, line)):
        return stated
    spans, named = _spans(options, line)
    if not named or (len(named) > 1 and not options.multi):
        return None
    edges = zip([(0, 0), *spans], [*spans, (len(line), 0)], strict=True)
    others = " ".join(line[end:start] for (_, end), (start, _) in edges)
    if DENIALS.search(others) or _INEXACT.search(others):
        return None
    told = {stem(word) for word in words(others)} - _STEMS
    own = {stem(word) for number in named for word in (options.words[number - 1] if options.words else ())}
    known = options.asked | ({"and"} if options.multi else set())
    return frozenset(named) if told <= known | own and len(told & known) >= least else None


def _yes_or_no(options: Options, line: str) -> Numbers | None:
    """Return the option of a sentence that begins with yes or no, unless the rest of the sentence contradicts it."""
    start = re.match(r"(yes|no)[,:]? ", line)
    if start is None or HEDGES.search(line):
        return None
    rest, said = line[start.end() :], options.names[start[1]]
    about = {stem(word) for word in words(rest)}
    if not {word for word in options.asked if len(word) > 3} & about:
        return None
    if start[0] == "no ":
        return frozenset({said}) if options.restated(line, 2) == len(line) else None
    denies = DENIALS.search(rest) is not None
    fits = {stem(word) for word in options.words[said - 1]} - {start[1], "it"} & about
    return frozenset({said}) if denies == (start[1] == "no") or (not denies and fits & about) else None


def _spans(options: Options, line: str) -> tuple[list[tuple[int, int]], set[int]]:
    """Return the spans of a sentence that name options, and these options; empty if a name belongs to no option."""
    spans: list[tuple[int, int]] = []
    named: set[int] = set()
    place = 0
    for match in re.finditer(r"(?<![^\W_])[^\W_]", line):
        found = _named_at(options, line, match.start()) if match.start() >= place else None
        if found is None:
            continue
        if found.numbers is None:
            return [], set()
        spans.append((match.start(), found.end))
        named |= found.numbers
        place = found.end
    return spans, named


def _named_at(options: Options, line: str, place: int) -> Found | None:
    """Return the option named at a word of a sentence; a bare number counts only after "option" or a similar word."""
    if options.grid:
        cell = CELL.match(line, place)
        return options.cell(cell) if cell else None
    if ordinal := options.ordinal(line, place):
        return ordinal
    name = options.name(line, place)
    if name is not None:
        return Found(frozenset({options.names[name]}), place + len(name), True)
    kind = KIND.match(line, place)
    number = NUMBER.match(line, kind.end()) if kind else None
    return options.number(line, number) if number else None
