"""Index of the gallery: what the filters need to know of every item."""

from __future__ import annotations

from typing import Any

from chexqa.contract.items import PATHS, CaseKey, Item
from chexqa.contract.kinds import kind_order
from chexqa.eval.gallery.records import SaidOf, thumb
from chexqa.eval.place_results import gallery_drawings
from chexqa.eval.scoring.grade import STATES

CASES_A_FILE = 40
_STATE_LETTERS = "0123456789"
# State of an item that this model was not to be asked, but other models were.
_NOT_ITS_OWN = "-"


def index_record(
    rows: list[tuple[str, str]], by_case: dict[str, list[Item]], cases: dict[str, CaseKey], said: SaidOf
) -> dict[str, Any]:
    """Return the data of the filters: small whole numbers, and one character per row for the state of each item."""
    findings = sorted({items[0].finding for items in by_case.values()})
    kinds, paths = kind_order(item.kind for items in by_case.values() for item in items), list(PATHS)
    return {
        "rows": [
            {"model": model, "protocol": protocol, **gallery_drawings.mark(number)}
            for number, (model, protocol) in enumerate(rows)
        ],
        "states": list(STATES),
        "findings": findings,
        "paths": paths,
        "kinds": kinds,
        "casesAFile": CASES_A_FILE,
        "cases": [
            [
                case_id,
                findings.index(items[0].finding),
                _position(paths, cases[case_id].path),
                thumb(items[0].alone_images[0].image),
            ]
            for case_id, items in by_case.items()
        ],
        "items": [
            [number, kinds.index(item.kind), "".join(map(_letter, said[item.item_id]))]
            for number, items in enumerate(by_case.values())
            for item in items
        ],
    }


def _letter(entry: list[Any] | None) -> str:
    return _NOT_ITS_OWN if entry is None else _STATE_LETTERS[entry[0]]


def _position(values: list[Any], value: Any) -> int:
    return values.index(value) if value in values else -1
