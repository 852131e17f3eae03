"""Places in the report's gallery: the key's place, and the place of each model and reader, as lines over a
radiograph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from chexqa.contract.forms import SOMEWHERE
from chexqa.contract.items import Item
from chexqa.eval.places.coordinate_systems import Shape
from chexqa.eval.places.drawn_places import answerer, hex_of, strokes
from chexqa.eval.places.pictures import picture_size
from chexqa.eval.places.target import Target, target_of
from chexqa.eval.scoring.grade import Graded, protocol_name

Row = tuple[str, str]  # model and protocol


def mark(number: int) -> dict[str, str]:
    """Return the letter and the colour that mark row ``number`` of the gallery, counted from 0; a row is a model and
    protocol.
    """
    who = answerer(number, "")
    return {"letter": who.letter, "color": hex_of(who.rgb)}


def drawings(graded: Graded, rows: Sequence[Row]) -> Callable[[Item], dict[str, Any]]:
    """Return a function that gives an item's drawing as ``{"drawn": {"size": [width, height], "strokes": […]}}``.

    For an item that does not ask for a place, the function returns an empty dictionary. ``rows`` has the models and
    readers of the gallery. In a drawing, they are marked with letters: A is the first of them.
    """
    answers, cases = graded.benchmark.key("the report's gallery")
    said = _places(graded)
    targets: dict[str, Target | None] = {}

    def target(item: Item) -> Target | None:
        if answers[item.item_id].answer != (SOMEWHERE,):
            return None
        if item.case_id not in targets:
            targets.clear()  # the items of a case follow each other
            targets[item.case_id] = target_of(cases[item.case_id].measures, f"the key of case '{item.case_id}'")
        return targets[item.case_id]

    def drawing(item: Item) -> dict[str, Any]:
        if not item.form.is_place:
            return {}
        size = picture_size(graded.benchmark, item)
        told = [(answerer(number, ""), said.get((row, item.item_id))) for number, row in enumerate(rows)]
        drawn = strokes(item.form.name, size, target(item), told)
        return {"drawn": {"size": size, "strokes": [stroke.to_record() for stroke in drawn]}}

    return drawing


def _places(graded: Graded) -> dict[tuple[Row, str], tuple[Shape, ...]]:
    """Return the place of the first answer of each row to each item, keyed by row and item id."""
    found: dict[tuple[Row, str], tuple[Shape, ...]] = {}
    for run in graded.runs:
        protocol = protocol_name(run)
        for turn in run.counted_turns:
            if turn.place and not turn.repeat and not turn.rotation:
                found.setdefault(((turn.model, protocol), turn.item_id), turn.place)
    return found
