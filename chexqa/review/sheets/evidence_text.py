"""Evidence in words that a reviewer can check by eye, and flags that mark an item worth a second look.

Numbers come from the key's evidence as generation stored it. Lengths are in pixels of a picture with a longer side of
1024, as in the key.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from chexqa.contract.items import Answer, CaseKey, Item
from chexqa.contract.kinds import KINDS, Kind

UNSTABLE, NEAR, HARD = "unstable", "near a threshold", "hard to see"
FLAG_WORDS = {
    UNSTABLE: "slightly different masks would give another answer",
    NEAR: "a measured number lies close to where the answer changes",
    HARD: "a small lesion, or a small error in the outline",
}


def evidence_words(item: Item, answer: Answer, case: CaseKey, kinds: Mapping[str, Kind] = KINDS) -> str:
    """Return the evidence behind the proposed answer, one fact a line; empty if the key holds none."""
    evidence = kinds[item.kind].read(answer.evidence) if answer.evidence else None
    with suppress(KeyError, IndexError, TypeError, ValueError):
        if evidence is not None:
            return evidence.sentence(item.options, case)
    # A benchmark of another tool may hold other numbers, which are shown unchanged.
    return "; ".join(f"{name}: {value}" for name, value in answer.evidence.items())[:1000]


def proposed_words(item: Item, answer: Answer) -> str:
    """Return the proposed answer in words, one right option a line."""
    if not answer.answer:
        return "no cell can be hit"
    by_number = {option.n: option for option in item.options}
    if not item.form.lists_options:
        cells = ", ".join(str(by_number[number].text) for number in answer.answer)
        return cells if len(answer.answer) == 1 else f"any of {cells}"
    return "\n".join(f"{number}. {by_number[number].text or f'picture {number}'}" for number in answer.answer)


def flags(item: Item, answer: Answer, kinds: Mapping[str, Kind] = KINDS) -> tuple[str, ...]:
    """Return the item's flags: those of the key, near a threshold, hard to see."""
    evidence = kinds[item.kind].read(answer.evidence)
    found = list(answer.flags)
    if evidence is not None:
        found += [NEAR] * evidence.is_near() + [HARD] * evidence.is_hard()
    return tuple(dict.fromkeys(found))
