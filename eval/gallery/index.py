"""Index of the gallery: one script that holds, for every entry, the data that the page's filters and cards use."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from chexqa.contract.items import ORIGINAL, PATHS, Item
from chexqa.contract.kinds import LEVELS, kind_order
from chexqa.eval.confidence.calibration import bin_of
from chexqa.eval.gallery import pictures
from chexqa.eval.gallery.entries import ALL_STATES, Entries, Entry, Said
from chexqa.eval.place_results import gallery_drawings

# A state is one character: its place in ALL_STATES as a digit or letter, or a dash if the row was not to be asked.
_LETTERS, _NOT_ITS_OWN = "0123456789abc", "-"


class Numbered:
    """Values, numbered in the order in which they are first asked for."""

    def __init__(self) -> None:
        """Start without values."""
        self._numbers: dict[Hashable, int] = {}

    def of(self, value: Hashable) -> int:
        """Return the number of a value; a new value gets the next number, from 0."""
        return self._numbers.setdefault(value, len(self._numbers))

    @property
    def values(self) -> list[Hashable]:
        """Return all values in the order of their numbers."""
        return list(self._numbers)


def index_record(
    entries: Entries, numbers: Mapping[str, int], chosen: Sequence[int], of_file: int, first_pictures: Sequence[int]
) -> dict[str, Any]:
    """Return the index: lists of texts (findings, kinds, questions, …), and entries that refer to texts by position.

    - ``numbers``: the running number of each picture.
    - ``chosen``: the indices of the entries that are shown first.
    - ``of_file``: how many cases a file of cases has; the last one may have fewer.
    - ``first_pictures``: the running number of the first picture in each file of pictures.
    """
    flat = entries.flat()
    findings = sorted({entry.item.finding for entry in flat})
    kinds = [name for name in kind_order(entry.item.kind for entry in flat) if any(e.item.kind == name for e in flat)]
    texts, lists, flags, conditions = Numbered(), Numbered(), Numbered(), Numbered()
    conditions.of(ORIGINAL)
    items = [
        [
            number,
            kinds.index(entry.item.kind),
            entry.item.item_id,
            "".join(map(_letter, entry.said)),
            ",".join(map(_options_of, entry.said)),
            None if entry.key is None else ".".join(map(str, entry.key)),
            [flags.of(flag) for flag in entry.flags],
            texts.of(entry.item.question),
            lists.of(_option_list(entry.item)),
            [numbers[image] for image in pictures.of_card(entry)],
            conditions.of(entry.item.condition),
            _sureness(entry),
        ]
        for number, of_case in enumerate(entries.by_case.values())
        for entry in of_case
    ]
    return {
        "rows": [
            {"model": model, "protocol": protocol, **gallery_drawings.mark(number)}
            for number, (model, protocol) in enumerate(entries.rows)
        ],
        "states": list(ALL_STATES),
        "findings": findings,
        "paths": list(PATHS),
        "levels": list(LEVELS),
        "conditions": conditions.values,
        "kinds": [_kind(name, flat) for name in kinds],
        "flags": flags.values,
        "texts": texts.values,
        "lists": lists.values,
        "ofFile": of_file,
        "firstPictures": list(first_pictures),
        "chosen": list(chosen),
        "cases": [
            [case_id, findings.index(of_case[0].item.finding), _path(entries, case_id), _source(entries, case_id)]
            for case_id, of_case in entries.by_case.items()
        ],
        "items": items,
    }


def _kind(name: str, flat: Sequence[Entry]) -> list[Any]:
    """Return a kind's name, level and stage, and the form of its answers: cells, places or options."""
    item = next(entry.item for entry in flat if entry.item.kind == name)
    form = "place" if item.form.is_place else "cell" if item.form.name == "cell" else "options"
    return [name, item.level, item.stage, form]


def _option_list(item: Item) -> tuple[tuple[str | None, str | None, str | None], ...]:
    return tuple((option.text, option.color, option.letter) for option in item.options)


def _letter(said: Said | None) -> str:
    return _NOT_ITS_OWN if said is None else _LETTERS[ALL_STATES.index(said.state)]


def _options_of(said: Said | None) -> str:
    return "" if said is None or said.parsed is None else ".".join(map(str, said.parsed))


def _sureness(entry: Entry) -> str:
    """Return the bin of each row's stated confidence as a digit; empty if no row stated a confidence."""
    stated = [None if said is None else said.confidence for said in entry.said]
    if all(value is None for value in stated):
        return ""
    return "".join(_NOT_ITS_OWN if value is None else str(int(bin_of(np.array([value]))[0])) for value in stated)


def _path(entries: Entries, case_id: str) -> int:
    path = entries.cases[case_id].path
    return PATHS.index(path) if path in PATHS else -1


def _source(entries: Entries, case_id: str) -> str:
    return entries.cases[case_id].source_case_id
