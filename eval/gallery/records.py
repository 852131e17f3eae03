"""Records of cases and items for the gallery's scripts: pictures, key, evidence in words, every reply."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from chexqa.contract.evidence import PlacesEvidence
from chexqa.contract.items import CaseKey, Item
from chexqa.contract.kinds import KINDS
from chexqa.eval.gallery import drawings, pictures
from chexqa.eval.gallery.entries import Entry

# Measures of a case that are drawn, not printed.
_WITHHELD = ("masks",)
_DIGITS = 4


def case_record(
    case: CaseKey,
    entries: list[Entry],
    numbers: Mapping[str, int],
    places: Callable[[Item], dict[str, Any]],
    regions: Mapping[str, dict[int, str]],
) -> dict[str, Any]:
    """Return the record of a case: its source, patient, measurements and items.

    - ``places``: a function that returns the drawings of an item that asks for a place.
    - ``regions``: the SVG paths of the options that are parts of the lungs, keyed by item id.
    """
    return {
        "source": case.source_case_id,
        "path": case.path,
        "sex": case.sex,
        "age": case.age,
        "view": case.view,
        "measures": _rounded({name: value for name, value in case.measures.items() if name not in _WITHHELD}),
        "items": {entry.item.item_id: _item(entry, case, numbers, places, regions) for entry in entries},
    }


def _item(
    entry: Entry,
    case: CaseKey,
    numbers: Mapping[str, int],
    places: Callable[[Item], dict[str, Any]],
    regions: Mapping[str, dict[int, str]],
) -> dict[str, Any]:
    """Return the record of an item: its pictures when it is asked alone, its chance, its evidence, and every reply."""
    item, answer = entry.item, entry.answer
    shown = [[picture.role, numbers[picture.image]] for picture in pictures.question_pictures(entry)]
    kind = KINDS.get(item.kind)
    found = kind.read(answer.evidence) if kind and answer else None
    key = {} if answer is None else {
        "chance": answer.chance, "frequent": _rounded(entry.frequent), "evidence": _rounded(answer.evidence),
        "why": found and found.sentence(item.options, case), "difficulty": _rounded(answer.difficulty),
        "review": answer.review,
    }  # fmt: skip
    shapes = regions.get(item.item_id) or drawings.points_drawn(found)
    return {
        "pictures": shown,
        "options": [None if option.image is None else numbers[option.image] for option in item.options]
        if any(option.image for option in item.options)
        else None,
        **key,
        **(places(item) or ({"shapes": shapes} if shapes else {})),
        "said": [None if said is None else said.to_record() for said in entry.said],
    }


def named_regions(entry: Entry) -> tuple[str, ...]:
    """Return the parts of the lungs that an item's options name, in their order; () if they name none."""
    kind = KINDS.get(entry.item.kind)
    if kind is None or entry.answer is None or not issubclass(kind.evidence, PlacesEvidence):
        return ()
    found = kind.read(entry.answer.evidence)
    return tuple(found.shown) if isinstance(found, PlacesEvidence) else ()


def _rounded(value: Any) -> Any:
    """Return a JSON value with its fractions rounded to four digits."""
    if isinstance(value, float):
        return round(value, _DIGITS)
    if isinstance(value, dict):
        return {name: _rounded(entry) for name, entry in value.items()}
    return [_rounded(entry) for entry in value] if isinstance(value, list | tuple) else value
