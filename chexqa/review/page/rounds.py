"""Parts of a page, answered one after the other; an earlier part shows nothing from a later part.

Blind questions are asked stage by stage, and each stage is shuffled over the cases, since the questions of one case
reveal each other's answers. All other rows form one part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from chexqa.files.seeds import stream
from chexqa.review.columns import SheetKind
from chexqa.review.sheets.questions import Entry
from chexqa.review.sheets.sheet import Tab

BLIND: tuple[SheetKind, ...] = ("blind", "readers")


class Placed(NamedTuple):
    """Row of a page with its place in the sheet: the tab and the row's number, from 1."""

    entry: Entry
    tab: str
    row: int


def rounds(
    kind: SheetKind, tabs: Sequence[Tab], entries: Mapping[str, Entry], seed: tuple[str, ...]
) -> list[list[Placed]]:
    """Return the parts in the order of the sheet's tabs; only ``seed`` decides how they are shuffled."""
    placed = [
        Placed(entries[row.row_id], tab.name, number)
        for tab in tabs
        for number, row in enumerate(tab.rows, start=2)  # the first row has the titles
    ]
    if kind not in BLIND:
        return [placed]
    stages: dict[str, list[Placed]] = {}
    for one in placed:
        stages.setdefault(one.tab.rsplit(" ", 1)[0], []).append(one)
    return [_shuffled(rows, (*seed, stage)) for stage, rows in stages.items()]


def _shuffled(rows: list[Placed], seed: tuple[str, ...]) -> list[Placed]:
    order = stream(0, "review page", *seed).permutation(len(rows))
    return [rows[index] for index in order]
