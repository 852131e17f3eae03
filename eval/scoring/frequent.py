"""Reference score of a guesser who always gives the most frequent answer.

The guesser knows the kind of question and the finding, but does not see the radiograph.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from statistics import fmean

from chexqa.contract.items import Answer, Item
from chexqa.contract.kinds import KINDS

# Meaning of an answer, by which answers to different items are compared. Options are compared by their texts. Cells of
# the grid and pictures are compared by their numbers. "None" is one answer, whatever its option number.
Meaning = tuple[str, ...]
NONE: Meaning = ("none",)


def frequent_accuracy(
    items: Iterable[Item], answers: Mapping[str, Answer], clusters: Mapping[str, str]
) -> dict[str, float]:
    """Score a guesser on each item; return the scores (0 to 1), keyed by item id.

    The guesser gives the answer that is most often right for other patients, among items of the same kind and finding.
    If several answers are equally often right, the score is the mean of their scores.

    - ``answers``: the keys, by item id.
    - ``clusters``: each case's patient, by case id.
    """
    groups: dict[tuple[str, str], list[Item]] = {}
    for item in items:
        groups.setdefault((item.kind, item.finding), []).append(item)
    found: dict[str, float] = {}
    for group in groups.values():
        meant = {item.item_id: _right(item, answers[item.item_id]) for item in group}
        everyone: Counter[Meaning] = Counter(meaning for item in group for meaning in meant[item.item_id])
        by_patient: dict[str, Counter[Meaning]] = {}
        for item in group:
            by_patient.setdefault(clusters[item.case_id], Counter()).update(meant[item.item_id])
        for item in group:
            own = by_patient[clusters[item.case_id]]
            found[item.item_id] = _share_right(everyone, own, meant[item.item_id], _is_balanced(item))
    return found


def mean_by_kind(items: Iterable[Item], scores: Mapping[str, float]) -> dict[tuple[str, str], float]:
    """Return the mean score of the items of each kind and finding, keyed by ``(kind, finding)``.

    ``scores`` has each item's score from :func:`frequent_accuracy`, keyed by item id.
    """
    groups: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for item in items:
        groups[item.kind, item.finding].append(scores[item.item_id])
    return {group: fmean(found) for group, found in groups.items()}


def _is_balanced(item: Item) -> bool:
    kind = KINDS.get(item.kind)
    return (kind is not None and kind.yes_no) or item.options[0].image is not None


def _share_right(everyone: Counter[Meaning], own: Counter[Meaning], right: set[Meaning], balanced: bool) -> float:
    """Return the share of right answers among the other patients' most frequent answers."""
    # A benchmark balances the right answers of yes/no questions and choices of a picture (``balanced``). If 50 patients
    # have "yes" and 50 "no", a patient with "yes" leaves 49 "yes" and 50 "no", and the guess would always be wrong.
    # For these items, an answer also counts as most frequent if it reaches the highest count (50) once the item's own
    # patient is added. So the guesser picks "yes" or "no" at random, and the score is 0.5.
    others = {meaning: count - own[meaning] for meaning, count in everyone.items()}
    most = max(others.values(), default=0)
    if not most:
        return 0.0
    tied = [meaning for meaning, count in others.items() if count + balanced * own[meaning] >= most]
    return sum(meaning in right for meaning in tied) / len(tied)


def _right(item: Item, answer: Answer) -> set[Meaning]:
    """Return the meanings of an item's right answers; a grid item may have no right cell, or several."""
    return {_meaning(item, numbers) for numbers in item.form.right_answers(answer.answer)}


def _meaning(item: Item, numbers: Iterable[int]) -> Meaning:
    chosen = sorted(numbers)
    if item.multi and chosen == [len(item.options)]:
        return NONE
    texts = [item.options[number - 1].text for number in chosen]
    return tuple(sorted(text if text is not None else str(number) for text, number in zip(texts, chosen, strict=True)))
