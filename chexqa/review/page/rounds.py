"""Parts of a page, which reviewers answer one after the other; no part shows drawings of a later part.

Blind questions are asked in rounds, and each round is shuffled over the cases, since the questions of one case reveal
each other's answers. The first round asks whether the finding is present. The next rounds ask about attributes and the
grid on the plain radiograph, then one outline, then its points, then the four outlines. All rows that are not blind
form one part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from chexqa.contract.items import Item
from chexqa.files.seeds import stream
from chexqa.review.columns import SheetKind
from chexqa.review.sheets.questions import Entry
from chexqa.review.sheets.sheet import Tab

BLIND: tuple[SheetKind, ...] = ("blind", "readers", "repeat")
_ROUNDS = ("presence", "attributes", "outline", "points", "outlines")


class Placed(NamedTuple):
    """Row of a page with its place in the sheet: the tab and the row's number, from 1."""

    entry: Entry
    tab: str
    row: int


def rounds(
    kind: SheetKind, tabs: Sequence[Tab], entries: Mapping[str, Entry], items: Mapping[str, Item], seed: tuple[str, ...]
) -> list[list[Placed]]:
    """Return the parts in the order of work; ``seed`` decides how each is shuffled.

    ``items``: the items by row id; empty for masks.
    """
    placed = [
        Placed(entries[row.row_id], tab.name, number)
        for tab in tabs
        for number, row in enumerate(tab.rows, start=2)  # the first row has the titles
    ]
    if kind not in BLIND:
        return [placed]
    parts: dict[str, list[Placed]] = {}
    for one in placed:
        parts.setdefault(_round(items[one.entry.row.row_id]), []).append(one)
    return [_shuffled(parts[name], (*seed, name)) for name in _ROUNDS if name in parts]


def _round(item: Item) -> str:
    """Return the round in which an item is asked; no picture of an earlier round shows drawings of a later one."""
    if any(option.image for option in item.options):
        return "outlines"
    return {1: "presence", 2: "outline", 3: "points"}.get(item.stage or 0, "attributes")


def _shuffled(rows: list[Placed], seed: tuple[str, ...]) -> list[Placed]:
    order = stream(0, "review page", *seed).permutation(len(rows))
    return [rows[index] for index in order]
