"""Parser of answers: it finds the options that a reply names.

An answer is read where the reply announces it: after an answer word ("Answer: 2", "the answer is (2)"), in a LaTeX box,
in a tag, in a JSON object, or as the entire reply. The last announced answer counts. If this answer cannot be read,
nothing else is tried, so a number in prose is never taken for an answer. ``parser_clean_up`` first removes reasoning
blocks, ``parser_labels`` finds the announcements, and ``parser_after_label`` reads the text after them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from chexqa.contract.items import Item
from chexqa.eval.prompts.parser_after_label import Parsed, Reader, Value
from chexqa.eval.prompts.parser_clean_up import BEGIN, END, tidy
from chexqa.eval.prompts.parser_labels import (
    AGAIN,
    COLON,
    IS,
    LABEL,
    AnswerPlace,
    Certainty,
    last_matches,
    places,
    replacements,
)
from chexqa.eval.prompts.parser_sentences import HEDGES

# Written into every turn. Any change of a reading needs a new version; ``tests/replies/readings.json`` checks this.
VERSION = 7


_SENTENCES = re.compile(r"(?<=[.!])\s+")
# Words of a sentence that reports the view of others, or that speaks about answers in general.
_TOLD = re.compile(
    r"\b(?:would|should|sa(?:y|ys|id)|answers?|options?|wrong|incorrect|claim\w*|thought|that is|this is)\b|\""
)


class Reading(NamedTuple):
    """The result of reading a reply: option numbers of the item (None if there is no answer), and the turn's state."""

    parsed: Parsed | None
    state: str


def read(item: Item, raw: str | None, finish_reason: str | None = None) -> Reading:
    """Return the answer in the reply ``raw`` and the turn's state.

    ``finish_reason`` is ``length`` if the token limit cut the reply off. A reply that was cut off after a complete
    answer counts as answered.
    """
    cut = finish_reason == "length"
    if not (raw or "").strip():
        return Reading(None, "truncated" if cut else "empty")
    parsed = parse(item, raw or "", cut)
    if parsed is not None:
        return Reading(parsed, "answered")
    return Reading(None, "truncated" if cut else "unparsed")


def parse(item: Item, raw: str, cut: bool = False) -> Parsed | None:
    """Return the option numbers that the reply ``raw`` names, sorted, each once; None if no answer can be read.

    A reply names an option by its position in ``item.options``, which may be reordered
    (``chexqa.eval.prompts.option_order``); the returned numbers are those of the item's own order. A cell of the grid
    becomes the number of the option with the cell's name. Three sorts of reply cannot be read: several options for a
    single-choice item, alternatives such as "2 or 3", and a number that no option has. "None" is the last option of a
    multi-select item. A reply that names "none" and other options can be read; it is a wrong answer. ``cut`` is True
    if the token limit cut the reply off; then a list that could have continued is not read.

    >>> import chexqa
    >>> item = next(item for item in chexqa.load("bench").items if item.kind == "detection")
    >>> parse(item, "The lungs are clear.\\nAnswer: 2")
    (2,)
    """
    named = _places_named(item, raw, cut)
    return None if named is None else tuple(sorted(item.options[place - 1].n for place in named))


def _places_named(item: Item, raw: str, cut: bool) -> Parsed | None:
    """Return the positions, from 1, of the options that the reply names."""
    reader = Reader(item)
    text = tidy(raw, (COLON, IS))
    whole = reader.exactly(text)
    if whole is not None and not AGAIN.search(text):
        return None if cut and reader.multi else whole
    found = places(text, lambda lines, start: reader.value(lines, start).parsed is not None,
                   lambda line: reader.exactly(line) is not None)  # fmt: skip
    if found:
        return _last(reader, text, found, cut)
    return None if cut else _stated(reader, text)


def _last(reader: Reader, text: str, found: list[AnswerPlace], cut: bool) -> Parsed | None:
    """Return the last answer that the text neither denies nor drops; None if this answer is doubted or unclear."""
    candidates = [place for place in found if place.certainty in (Certainty.GIVEN, Certainty.DOUBTED)]
    if not candidates and not cut:
        return _stated(reader, text)  # a place that is set aside gives no answer and hides no earlier answer
    if not candidates or candidates[-1].certainty is Certainty.DOUBTED:
        return None
    place = candidates[-1]
    value = reader.value(text, place.value)
    if value.parsed is None or (cut and reader.multi and not value.is_complete):
        return None
    denied = [reader.value(text, one.value).parsed for one in found if one.certainty is Certainty.DENIED]
    if any(set(one or ()) & set(value.parsed) for one in denied) or AGAIN.search(text, place.value):
        return None
    if any(reader.exactly(other) not in (None, value.parsed) for other in replacements(_behind(text, place))):
        return None  # "Answer: 2 … Changed to 3."
    if not place.is_plain and any(
        one.is_plain and reader.value(text, one.value).parsed not in (None, value.parsed) for one in candidates[:-1]
    ):
        return None  # "Answer: 2 … Weaker answer: 3"
    return None if _is_doubled(reader, text, candidates, value) else value.parsed


def _behind(text: str, place: AnswerPlace) -> str:
    """Return the lines that follow the line with the answer."""
    return text[place.value :].lstrip().partition("\n")[2]


def _is_doubled(reader: Reader, text: str, candidates: list[AnswerPlace], value: Value) -> bool:
    """Return True if the line before gives another answer under the same label, which makes the answer unclear."""
    if len(candidates) < 2:
        return False
    before, last = candidates[-2:]
    label, other = text[last.label : last.value].strip(), text[before.label : before.value].strip()
    behind = text[before.value : last.label].replace(END, "").replace(BEGIN, "").strip("\n ,;-*")
    return label == other and "\n" not in behind and reader.exactly(behind) not in (None, value.parsed)


def _stated(reader: Reader, text: str) -> Parsed | None:
    """Return the answer of a reply without an answer word: a labelled line, or a sentence in the question's words."""
    labelled = {
        reader.exactly(text[match.end() : match.end() + 200].partition("\n")[0]) for match in last_matches(LABEL, text)
    }
    if labelled - {None}:
        return labelled.pop() if len(labelled) == 1 and not AGAIN.search(text) else None
    lines = {line for line in text.split("\n") if line}
    if len(lines) == 1:
        text = lines.pop()  # the same line, repeated
    if (said := _first_sentence(reader, text)) is not None:
        return said
    head, _, rest = text.partition("\n")
    if rest and not AGAIN.search(rest) and all(reader.exactly(line) is None for line in rest.split("\n")):
        return reader.exactly(head)
    return reader.stated(text)


def _first_sentence(reader: Reader, text: str) -> Parsed | None:
    """Return the option that the first sentence states; return None if a later sentence contradicts it."""
    head, *others = _SENTENCES.split(text)
    if (
        len(head.split()) < 3
        or AGAIN.search(text)
        or any(HEDGES.search(other) or _TOLD.search(other) for other in others)
    ):
        return None
    return reader.exactly(head) if all(reader.exactly(other) is None for other in others) else None
