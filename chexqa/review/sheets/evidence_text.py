"""Evidence as text that a reviewer can check by eye, and flags that mark an item for a second look.

The numbers come from the key's evidence. Lengths are in pixels of a picture with a longer side of 1024.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from chexqa.contract.evidence import BOTH_LUNGS, MOST_FILLED, NEAR_THRESHOLD
from chexqa.contract.items import DOUBTFUL_LUNGS, PREDICTED_LUNGS, Answer, CaseKey, Item
from chexqa.contract.kinds import KINDS, Kind

UNSTABLE, NEAR, MOST, BOTH, LUNGS, PREDICTED, HARD = (
    "unstable",
    "near a threshold",
    "most filled",
    "both lungs",
    "doubtful lungs",
    "predicted lungs",
    "hard to see",
)
FLAG_WORDS = {
    UNSTABLE: "slightly different masks would give another answer",
    NEAR: "a measured number is close to the threshold at which the answer changes, or the lesion touches a "
    "place that the key counts as free of it",
    MOST: "the lesion is small and fills no place up to the threshold; the place that it fills most counts",
    BOTH: "one part of the lesion touches both lungs and is counted in full for each lung",
    LUNGS: "the lungs overlap, differ much in size or are cut off; the evidence says which of these is true",
    PREDICTED: "a model outlined the lungs; check whether the outlines are right",
    HARD: "a small lesion, or a small error in the outline",
}

# A grid's key without a cell: the lesion fills none up to the threshold.
NO_CELL = "no cell: none is filled up to the threshold, so none counts as right"

_NAMES = {NEAR_THRESHOLD: NEAR, MOST_FILLED: MOST, BOTH_LUNGS: BOTH, DOUBTFUL_LUNGS: LUNGS, PREDICTED_LUNGS: PREDICTED}


def evidence_words(item: Item, answer: Answer, case: CaseKey, kinds: Mapping[str, Kind] = KINDS) -> str:
    """Return the evidence behind the proposed answer, one fact per line; may be empty."""
    evidence = kinds[item.kind].read(answer.evidence) if answer.evidence else None
    with suppress(KeyError, IndexError, TypeError, ValueError):
        if evidence is not None:
            doubts = case.measures.get("lung_doubts", ()) if DOUBTFUL_LUNGS in answer.flags else ()
            return "\n".join([evidence.sentence(item.options, case), *(f"look at the masks: {one}" for one in doubts)])
    # The evidence of a benchmark made by another tool can have other fields, which are shown unchanged.
    return "; ".join(f"{name}: {value}" for name, value in answer.evidence.items())[:1000]


def proposed_words(item: Item, answer: Answer) -> str:
    """Return the proposed answer in words, one right option per line."""
    if not answer.answer:
        return NO_CELL
    by_number = {option.n: option for option in item.options}
    if not item.form.lists_options:
        cells = ", ".join(str(by_number[number].text) for number in answer.answer)
        return cells if len(answer.answer) == 1 else f"any of {cells}"
    return "\n".join(f"{number}. {by_number[number].text or f'picture {number}'}" for number in answer.answer)


def flags(item: Item, answer: Answer, kinds: Mapping[str, Kind] = KINDS) -> tuple[str, ...]:
    """Return an item's flags in the sheet's words, with HARD if the item is hard."""
    evidence = kinds[item.kind].read(answer.evidence)
    found = [*answer.flags]
    if evidence is not None:
        found += [*evidence.flags(answer.difficulty.get("margin")), *[HARD] * evidence.is_hard()]
    return tuple(dict.fromkeys(_NAMES.get(name, name) for name in found))
