"""Weights of items: how much a right answer to an item adds to a score.

- A level's score is the mean over its kinds of question.
- A yes/no kind's score is the mean over findings of ``sensitivity + specificity - 1``.
- The grid's hit rate is the mean over findings.

A difference between two models is the weighted sum of their differences on the items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import CONTESTED, Item, clusters
from chexqa.contract.kinds import GRID_CELL, LEVELS

# Cardiomegaly has no semantic items, so it is left out of every level where levels are compared.
NOT_COMPARED = "cardiomegaly"
MEAN, GRID = "mean", "grid"
ON = (*LEVELS, MEAN, GRID)
_NOTHING = 1e-12


class Asked(NamedTuple):
    """Facts about one item that determine its weight.

    - ``yes``: True if the key is yes, False if it is no, None for a kind that is no yes/no question.
    - ``possible``: False for a grid item without a right cell, which no model can answer right.
    """

    item_id: str
    patient: str
    kind: str
    level: str | None
    finding: str
    chance: float
    yes: bool | None
    possible: bool = True


Weights = dict[str, float]


def asked_items(benchmark: Benchmark, items: Iterable[Item]) -> list[Asked]:
    """Return the items that count in a score; raise ``InputError`` if the benchmark's key is withheld."""
    answers, cases = benchmark.key("a score's weights")
    rows = tuple(items)
    patients = clusters(rows, cases)
    found = []
    for item in rows:
        key = answers[item.item_id]
        if CONTESTED in key.flags or not (key.scored or item.kind == GRID_CELL):
            continue
        yes = key.answer == (1,) if benchmark.kinds[item.kind].yes_no else None
        possible = item.kind != GRID_CELL or bool(key.answer)
        found.append(Asked(item.item_id, patients[item.case_id], item.kind, item.level, item.finding, key.chance, yes,
                           possible))  # fmt: skip
    return found


def score_weights(asked: Iterable[Asked]) -> dict[str, Weights]:
    """Return the weights of items, by score (a level, ``mean`` or ``grid``) and item id.

    A model's score is the sum of the weights of its right answers, plus a constant for chance.
    """
    rows = list(asked)
    found: dict[str, Weights] = {}
    for level in LEVELS:
        kept = [row for row in rows if row.level == level and row.finding != NOT_COMPARED]
        if weights := _mean_of_parts(kept, lambda row: row.kind):
            found[level] = weights
    if found:
        names = {item_id for weights in found.values() for item_id in weights}
        found[MEAN] = {
            name: sum(weights.get(name, 0.0) for weights in found.values()) / len(found) for name in sorted(names)
        }
    cells = [row._replace(chance=0.0) for row in rows if row.kind == GRID_CELL]
    if weights := _mean_of_parts(cells, lambda row: row.finding):
        found[GRID] = weights
    return found


def kind_weights(asked: Iterable[Asked]) -> dict[str, Weights]:
    """Return the weights of items in the scores of their kinds, by kind and item id."""
    rows: dict[str, list[Asked]] = {}
    for row in asked:
        rows.setdefault(row.kind, []).append(row)
    found = {kind: _mean_of_parts(kept, lambda row: row.kind) for kind, kept in rows.items()}
    return {kind: weights for kind, weights in found.items() if weights}


def _mean_of_parts(rows: list[Asked], part: Callable[[Asked], str]) -> Weights:
    """Return the weights of right answers in the mean over parts (kinds or findings), corrected for chance."""
    # Each part is a mean over strata.
    parts: dict[str, dict[tuple[str, bool | None], list[Asked]]] = {}
    for row in rows:
        stratum = ("", None) if row.yes is None else (row.finding, row.yes)
        parts.setdefault(part(row), {}).setdefault(stratum, []).append(row)
    strata = {name: _both(cells) for name, cells in parts.items()}
    strata = {name: cells for name, cells in strata.items() if cells}
    weights: Weights = {}
    for cells in strata.values():
        for members in cells.values():
            room = sum(1 - row.chance for row in members)
            if room > _NOTHING:
                weights |= {row.item_id: 1 / (len(strata) * len(cells) * room) for row in members}
    return weights


def _both(cells: Mapping[tuple[str, bool | None], list[Asked]]) -> dict[tuple[str, bool | None], list[Asked]]:
    """Return the strata, except those of findings whose keys are all yes or all no."""
    return {
        (finding, yes): rows for (finding, yes), rows in cells.items() if yes is None or (finding, not yes) in cells
    }


def by_patient(asked: Iterable[Asked], weights: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Return the weights of items by patient and item id; patients without weighted items are left out."""
    found: dict[str, dict[str, float]] = {}
    for row in asked:
        if weights.get(row.item_id):
            found.setdefault(row.patient, {})[row.item_id] = weights[row.item_id]
    return found
