"""Reader of the confidence that a reply states; returns it as a number from 0 to 1, and the rest of the reply.

A whole number without a unit is a percentage: ``Confidence: 1`` is one percent. A decimal number up to 1 without a
unit, such as ``Confidence: 0.9``, may mean 90 percent or 0.9 percent, so the reply's state is ``no unit``. The last
statement outside reasoning counts.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, get_args

from chexqa.eval.prompts.parser_clean_up import TAIL, THOUGHT_MARKS, composed

State = Literal["stated", "no unit", "unclear", "outside", "missing"]
STATES: tuple[State, ...] = get_args(State)

_WORD = r"(?:confidence|certainty|likelihood|probability)(?:[ -]?(?:level|score|rating|value|estimate))?"
_SCALE = r"[(\[]\s?(?:0\s?(?:-|–|to)\s?100|in\s%|%|in percent|percent)[^()\[\]\n]{0,20}[)\]]"
_ABOUT = (
    r"(?:\b(?:about|approximately|approx\.?|around|roughly|maybe|circa|exactly|i'd say|i would say)\s|\bca\.?\s|[~≈])?"
    r"\s?"
)
_NUMBER = (
    r"(?P<sign>-)?(?P<number>\d{1,9}(?:[.,]\d{1,9})?)\s?"
    r"(?P<unit>\\?%|percent\b|per cent\b|pct\b|/\s?100?\b|out of 100?\b)?"
)
# Object of the confidence: words such as "in my answer" or "that my whole answer is right".
_IN = rf"(?:\s(?:in|of|that|for)\s[^:\n%]{{1,60}}?(?=\s?[:=]|\sis\s{_ABOUT}\d))?"
_LABEL = (
    rf"(?:\b(?:my|the|overall|stated|estimated|final)\s){{0,2}}\b{_WORD}{_IN}\s?(?:{_SCALE}\s?)?"
    rf"[\"']?\s?(?:\bis\b|\bof\s(?={_ABOUT}\d)|[:=|]|[-–—]\s|→)\s?[:=]?\s?[\"']?"
)
# Statements: a label and what follows it, a tag, and "80 % confident". "80 % confident" must have a unit (%, /100, /10)
# and stand on one line, because an answer's number may stand above a line that begins with "Confidence".
_LABELLED = re.compile(rf"{_LABEL}(?P<value>[^\n<]*)", re.I)
_TAGGED = re.compile(rf"<{_WORD}>(?P<value>[^<>\n]{{0,80}})</{_WORD}>", re.I)
_WITH_UNIT = r"\d{1,9}(?:[.,]\d{1,9})?[ \t\u00a0]?(?:\\?%|percent\b|per cent\b|pct\b|/[ \t\u00a0]?100?\b|out of 100?\b)"
_RIGHT = r"that (?:i am|i'm|(?:my|the|this) (?:whole )?answer is) (?:right|correct)\b"
_MEANT = (
    rf"(?:confident|certain|sure|confidence|certainty)\b|(?:chance|probability|likelihood) {_RIGHT}|"
    r"likely to be (?:right|correct)\b"
)
# "I am not 100 % sure" states no confidence, nor does the end of a range, "80-90 % sure".
_NO_OTHER = r"(?<![\d.,–-])(?<!\bnot )(?<!n't )(?<!\bnot quite )(?<!\bnot be )(?<!n't be )"
_PHRASE = re.compile(
    rf"[(\[]?(?:\b(?:and\s)?(?:i\sam|i'm|i feel)\s)?{_ABOUT}{_NO_OTHER}(?P<value>{_WITH_UNIT}[ \t\u00a0](?:{_MEANT}))"
    r"[^\n<]*",
    re.I,
)
_AFTER = re.compile(rf"\b(?:confident|certain|sure)[ \t]?\({_ABOUT}(?P<value>{_WITH_UNIT})\)[^\n<]*", re.I)
# "I'd bet 80 % on it": the bet must be on the answer, not on a finding or a part of the picture.
_BET = re.compile(
    rf"\b(?:i'd|i would)\s(?:bet|wager|put|estimate)\s{_ABOUT}(?P<value>{_WITH_UNIT}[ \t\u00a0]"
    rf"(?:on (?:it|this|that|(?:my|the|this) (?:whole )?answer)\b(?! \w)|{_RIGHT}))[^\n<]*",
    re.I,
)
# Before the number: a bracket, a sign of a formula, or a word that the number explains, such as "high (80 %)".
_BEFORE = r"(?:(?:very |fairly |quite |rather )?(?:high|moderate|medium|low)\s?[,:(–—-]\s?)?(?:\\boxed|[\[({$\s])*"
_VALUE = re.compile(rf"{_BEFORE}{_ABOUT}{_NUMBER}(?P<rest>[^\n]*)", re.I)
# A second number that makes a range: "80-90 %", "80 to 90 %".
_RANGE = re.compile(r"\s?(?:-|–|to|or)\s?\d|\s?±", re.I)
_MARKDOWN = "*`_"


class StatedConfidence(NamedTuple):
    """Stated confidence: its value from 0 to 1 (or None), its state, and the reply without the statement."""

    value: float | None
    state: State
    reply: str


def read(reply: str | None) -> StatedConfidence:
    """Return the confidence that a reply states.

    >>> read("Answer: 2\\nConfidence: 85 %")
    StatedConfidence(value=0.85, state='stated', reply='Answer: 2')
    >>> read("Answer: 2\\nConfidence: 0.9").state
    'no unit'
    """
    text = composed((reply or "")[-TAIL:])
    places = [place for place, character in enumerate(text) if character not in _MARKDOWN]
    plain = "".join(text[place] for place in places).replace("’", "'")
    found = max(
        (match for form in (_LABELLED, _TAGGED, _PHRASE, _AFTER, _BET) for match in form.finditer(plain)),
        key=lambda match: match.start(), default=None,
    )  # fmt: skip
    if found is None or any(mark[2] for mark in THOUGHT_MARKS.finditer(plain.casefold(), found.end())):
        return StatedConfidence(None, "missing", reply or "")
    value, state = _number(found["value"])
    return StatedConfidence(value, state, _without(text, places[found.start()], places[found.end() - 1] + 1))


def _number(text: str) -> tuple[float | None, State]:
    """Return the confidence at the beginning of the text after a label, and its state."""
    match = _VALUE.match(text.strip(" \t\"'"))
    if match is None or _RANGE.match(match["rest"]):
        return None, "unclear"
    number, unit = float(match["number"].replace(",", ".")), (match["unit"] or "").casefold().lstrip("\\")
    if not unit and ("." in match["number"] or "," in match["number"]) and number <= 1:
        return None, "no unit"
    whole = 10 if re.fullmatch(r"(?:/|out of)\s?10", unit) else 100
    if match["sign"] or number > whole:
        return None, "outside"
    return number / whole, "stated"


def _without(text: str, start: int, end: int) -> str:
    """Return the text without the statement at the given offsets; a statement inside a JSON object is not removed."""
    before, after = text[:start], text[end:]
    if before.rstrip().endswith(('"', "'")) and "{" in before:
        return text
    lines, _, line = before.rpartition("\n")
    if not line.strip(f" \t|>#([-•{_MARKDOWN}"):
        return lines + after  # the statement has a line of its own
    return before.rstrip(f" \t{_MARKDOWN}").rstrip(" ,;([-") + after
