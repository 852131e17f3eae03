"""Replies in tests/replies, each with the option numbers that a careful person reads in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from chexqa.contract.items import Item

REPLIES = Path(__file__).parents[1] / "replies"
READINGS = REPLIES / "readings.json"
FILES = ("replies.jsonl", "variations.jsonl", "second.jsonl")
SHOWN = {name: Item.from_record(record) for name, record in json.loads((REPLIES / "items.json").read_text()).items()}


def replies(name: str) -> list[tuple[Item, dict[str, Any], tuple[int, ...] | None]]:
    """Return the replies of a file, each as its item, the reply, and the option numbers that a careful person reads in
    it.
    """
    rows = []
    for line in (REPLIES / name).read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        question = SHOWN[row["item"]]
        place = {option.text: option.n for option in question.options}
        reads = sorted(place[said] if isinstance(said, str) else said for said in row["reads"] or ())
        rows.append((question, row, tuple(reads) or None))
    return rows
