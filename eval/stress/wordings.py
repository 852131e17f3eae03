"""Other wordings of the questions with the same meaning, and a line of false history before a question."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from pathlib import Path
from string import Formatter

from chexqa import question_banks
from chexqa.contract.items import Item
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, read_yaml

WORDING, HISTORY = "wording", "history"
# Words that state a number, a place or a rule; two wordings of a question must hold the same ones.
_NUMBERS = re.compile(
    r"\b(?:one|two|three|four|five|six|eight|half|halves|third|thirds|quarter|quarters|fifth|twentieth|hundredth|most"
    r"|least|best|inwards|outwards|inside|outside|upper|mid|lower|medial|lateral|peripheral|inner|outer|rim|costophrenic"
    r"|heart|spine|wall|height|both|larger|smaller|less|more|free|unless|\d+(?:\.\d+)?)\b",
    re.IGNORECASE,
)
_ONE_FORM = {"halves": "half", "thirds": "third", "quarters": "quarter"}


def letters(language: str) -> list[str]:
    """Return the letters of the other wordings in a language, from "b" on.

    >>> letters("en"), letters("fr")
    (['b', 'c'], [])
    """
    return sorted(wordings(language))


@cache
def wordings(language: str) -> dict[str, Record]:
    """Return the wordings of a language, keyed by letter; in each, ``kinds`` maps a kind of question to its text."""
    found = {}
    for entry in resources.files("chexqa.question_banks").joinpath("wordings").iterdir():
        name = Path(entry.name).stem
        if entry.name.endswith(".yaml") and name.rpartition("-")[0] == language:
            found[name.rpartition("-")[2]] = read_yaml(Path(str(entry)), "wording")
    return found


def misfit(text: str, other_wording: str) -> str | None:
    """Return how another wording differs in meaning from a question's text; None if no difference is found."""
    for name, found in (("placeholders", _placeholders), ("numbers and directions", _numbers)):
        own, its = found(text), found(other_wording)
        if own != its:
            return f"{name} {', '.join(sorted(its ^ own))}: only in one of the two texts"
    return None


def _placeholders(text: str) -> set[str]:
    return {str(name) for _, name, _, _ in Formatter().parse(text) if name is not None}


def _numbers(text: str) -> set[str]:
    words = (word.lower() for word in _NUMBERS.findall(text))
    return {_ONE_FORM.get(word, word) for word in words}


def stressed_question(item: Item, cell: str, bank: Record) -> str:
    """Return an item's question in another wording, after a false history, or unchanged, as ``cell`` says.

    ``cell`` is a cell of stress, such as ``wording-b``. ``bank`` is the benchmark's question bank. Raise ``InputError``
    if the question is not in the bank's wording.
    """
    kind, _, letter = cell.partition("-")
    if kind == HISTORY:
        return f"{_false_history(item, bank)} {item.question}"
    if kind != WORDING:
        return item.question
    text = wordings(bank["language"])[letter]["kinds"].get(item.kind)
    own = question_banks.load(bank["language"])["kinds"].get(item.kind, {}).get("question")
    if text is None or own is None:
        return item.question
    values = filled_in(own, item.question)
    if values is None:
        raise InputError(
            f"item '{item.item_id}': its question is not in the wording of the question bank '{bank['name']}', so it "
            "cannot be put in other words; leave 'wording' out of --stress."
        )
    return str(text.format(**values))


def filled_in(text: str, question: str) -> dict[str, str] | None:
    """Return the texts that fill a wording's placeholders in a question; None if the question does not have this
    wording.

    >>> filled_in("Is {finding} to be seen?{note}", "Is a mass to be seen?")
    {'finding': 'a mass', 'note': ''}
    """
    pattern, seen = "", set[str]()
    for literal, name, _, _ in Formatter().parse(text):
        pattern += re.escape(literal)
        if name is not None:
            pattern += f"(?P={name})" if name in seen else f"(?P<{name}>.*?)"
            seen.add(str(name))
    match = re.fullmatch(pattern, question, re.DOTALL)
    return None if match is None else match.groupdict()


def _false_history(item: Item, bank: Record) -> str:
    """Return a line of false history, which names a finding that the item does not ask about, and a side."""
    text = next(iter(wordings(bank["language"]).values()))["history"]
    others = [name for name in ("effusion", "pneumothorax", "lung_lesion") if name != item.finding]
    number = sum(item.item_id.encode())
    words = question_banks.load(bank["language"])
    finding = words["findings"][others[number % len(others)]]
    side = words["sides"][("left", "right")[number // 7 % 2]]
    return str(text.format(finding=finding, side=side))
