"""Proposals that are wrong on purpose (by default one in twenty), to measure how often reviewers accept without
looking.

They are listed only in the batch file, which reviewers do not get. A sheet with wrong proposals shows no evidence, and
no wrong proposal contradicts the other rows of its case. A verdict on a wrong proposal is never applied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from chexqa.contract.items import Answer, Item
from chexqa.files.seeds import stream
from chexqa.imaging.grid import GRID_SIZE


def planted(
    items: Sequence[Item], answers: Mapping[str, Answer], flagged: Iterable[str], reviewer: str, seed: int, share: float
) -> dict[str, tuple[int, ...]]:
    """Choose some of a reviewer's items at random, and return a wrong answer for each of them, keyed by item id.

    ``share`` is the share of items to choose, from 0 to 1; their number is rounded down. Three groups of items are
    never chosen:

    - items whose id is in ``flagged``, because another answer may be defensible;
    - items without a clearly wrong answer;
    - items whose right answer shows in the later questions of the case (for example, questions on the outline are asked
      only if the finding is present).
    """
    doubtful = set(flagged)
    rng = stream(seed, "planted", reviewer)
    wrong = {}
    last = max((item.stage or 0 for item in items), default=0)
    for item in sorted(items, key=lambda item: item.item_id):
        answer = wrong_answer(item, answers[item.item_id].answer, rng)
        if answer is not None and item.item_id not in doubtful and not _decides_what_follows(item, last):
            wrong[item.item_id] = answer
    count = min(int(len(items) * share + 1e-9), len(wrong))
    chosen = rng.choice(sorted(wrong), count, replace=False) if count else ()
    return {str(item_id): wrong[str(item_id)] for item_id in chosen}


def _decides_what_follows(item: Item, last: int) -> bool:
    """Return True for items of stages 1 and 2 whose answer the following questions reveal.

    ``last`` is the last stage that is asked. Which questions follow depends on the answers of stages 1 and 2.
    """
    return item.stage is not None and item.stage < min(3, last)


def wrong_answer(item: Item, key: Sequence[int], rng: np.random.Generator) -> tuple[int, ...] | None:
    """Return a clearly wrong answer, or ``None`` if there is none.

    - Ordered options: the option farthest from the key.
    - Options without an order, one of them right: a random wrong option.
    - Questions with several right options: random wrong options, about as many as the key has right ones.
    - Grid: the key's cells, mirrored left to right, top to bottom, or both, if the mirrored cells do not touch the key.
    """
    if not item.form.lists_options:
        return _other_cells(key)
    if item.form.takes_several:
        return _other_set(len(item.options), key, rng)
    others = [option.n for option in item.options if option.n not in key]
    if item.is_ordered and key:
        most = max(abs(number - key[0]) for number in others)
        others = [number for number in others if abs(number - key[0]) == most]
    return (int(rng.choice(others)),) if others else None


def _other_set(none: int, key: Sequence[int], rng: np.random.Generator) -> tuple[int, ...]:
    """Return wrong options, about as many as the key has; ``none`` is the number of the option "none of the others"."""
    free = [number for number in range(1, none) if number not in key]
    if not free:
        return (none,)
    size = min(len(free), max(1, len([number for number in key if number != none])))
    return tuple(sorted(int(number) for number in rng.choice(free, size, replace=False)))


def _other_cells(key: Sequence[int]) -> tuple[int, ...] | None:
    """Return the key's grid cells mirrored left to right, top to bottom, or both, so that they do not touch the key.

    Returns ``None`` if all three mirrored sets overlap or touch a cell of the key.
    """
    cells = [divmod(number - 1, GRID_SIZE) for number in key]
    for across, down in ((True, False), (False, True), (True, True)):
        moved = [
            (GRID_SIZE - 1 - row if down else row, GRID_SIZE - 1 - column if across else column)
            for row, column in cells
        ]
        if moved and all(max(abs(r - row), abs(c - column)) > 1 for r, c in moved for row, column in cells):
            return tuple(sorted(row * GRID_SIZE + column + 1 for row, column in moved))
    return None
