"""Records of cases and items as the gallery's scripts hold them, with every reply."""

from __future__ import annotations

from typing import Any

import polars as pl

from chexqa.contract.benchmark import thumb_path
from chexqa.contract.items import Answer, CaseKey, Item
from chexqa.eval.scoring.grade import STATES

RAW_CHARACTERS = 20_000
_WITHHELD = ("masks",)
# Reply to an item for each row (model and protocol); None if the item was not to be asked in this row.
SaidOf = dict[str, list[list[Any] | None]]


def said_of(grades: pl.DataFrame, rows: list[tuple[str, str]]) -> SaidOf:
    """Return ``[state, parsed, raw, characters left out]`` for each item and row.

    If a server sent reasoning apart from the reply, ``[text, characters left out]`` of the reasoning follows.
    """
    column = {row: number for number, row in enumerate(rows)}
    said: SaidOf = {}
    names = ["item_id", "model", "protocol", "state", "parsed", "reply", "reasoning"]
    first = grades.unique(["model", "protocol", "item_id"], keep="first", maintain_order=True)
    for item_id, model, protocol, state, parsed, reply, reasoning in first.select(names).iter_rows():
        entry = said.setdefault(item_id, [None] * len(rows))
        apart = [_begun(reasoning)] if reasoning else []
        entry[column[model, protocol]] = [STATES.index(state), parsed, *_begun(reply), *apart]
    return said


def _begun(text: str | None) -> list[Any]:
    """Return the beginning of a text and the number of characters left out."""
    begun = None if text is None else text[:RAW_CHARACTERS]
    return [begun, len(text or "") - len(begun or "")]


def case_record(case: CaseKey, items: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a case: its source, patient, measurements and items."""
    return {
        "source": case.source_case_id,
        "path": case.path,
        "sex": case.sex,
        "age": case.age,
        "view": case.view,
        "measures": {name: value for name, value in case.measures.items() if name not in _WITHHELD},
        "items": items,
    }


def item_record(item: Item, answer: Answer, said: SaidOf) -> dict[str, Any]:
    """Return an item as it is shown: its pictures when asked alone, question, options, key and replies."""
    pictures = [picture for picture in item.alone_images if picture.role != "option"]
    return {
        "id": item.item_id,
        "kind": item.kind,
        "finding": item.finding,
        "question": item.question,
        "multi": item.multi,
        "options": [[option.text, thumb(option.image), option.color] for option in item.options],
        "pictures": [[picture.role, thumb(picture.image)] for picture in pictures],
        "answer": list(answer.answer),
        "chance": answer.chance,
        "prior": answer.prior,
        "flags": list(answer.flags),
        "evidence": answer.evidence,
        "said": said[item.item_id],
    }


def thumb(image: str | None) -> str | None:
    """Return the path of a picture's small JPEG; None for an option without a picture."""
    return None if image is None else thumb_path(image)
