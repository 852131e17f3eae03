"""Rows of items that are asked alone, as exported for other harnesses, and the functions that ask and grade them.

A row has the complete prompt, the pictures, the item and its answer, so the functions need no benchmark. The functions
have the form of lmms-eval's task functions: a task's ``utils.py`` imports them. chexqa's parser reads the replies.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from chexqa.contract.items import Item, Picture
from chexqa.eval.prompts import answer_parser
from chexqa.eval.prompts.protocols import Message

Row = Mapping[str, Any]


def prompt_of(messages: Sequence[Message]) -> str:
    """Return a prompt's system text and question as one text; the pictures are sent before the text, in order."""
    return "\n\n".join(
        "\n".join(part for part in message.parts if not isinstance(part, Picture)) for message in messages
    )


def doc_to_visual(doc: Row) -> list[Any]:
    """Return the pictures of a row as PIL images in RGB, in the order in which the text announces them."""
    from PIL import Image

    made = []
    for one in doc["images"]:
        data = one["bytes"] if isinstance(one, Mapping) else None
        made.append((Image.open(io.BytesIO(data)) if data is not None else one).convert("RGB"))
    return made


def doc_to_text(doc: Row, lmms_eval_specific_kwargs: Mapping[str, Any] | None = None) -> str:
    """Return the prompt of a row, between the texts that the harness puts before and after every prompt, if any."""
    more = lmms_eval_specific_kwargs or {}
    return f"{more.get('pre_prompt', '')}{doc['prompt']}{more.get('post_prompt', '')}"


def doc_to_target(doc: Row) -> str:
    """Return the right option numbers as text, such as ``1, 3``; empty if the export has no answers."""
    return ", ".join(map(str, doc.get("answer") or ()))


def process_results(doc: Row, results: Sequence[str]) -> dict[str, Any]:
    """Return the values of the metrics for one reply.

    - ``accuracy``: 1 for a right answer, otherwise 0.
    - ``readable``: 1 for a reply in which an answer can be read, otherwise 0.
    - ``corrected``: a record of the reply; :func:`corrected` computes the accuracy corrected for chance from the
      records of all replies.

    Raise ``ValueError`` for a row whose answer was left out of the export.
    """
    if doc.get("answer") is None:
        raise ValueError(
            "the answers were left out of this export (--no-key), so nothing can be graded; export again with the key"
        )
    state = state_of(doc, results[0] if results else "")
    right = float(state == "correct")
    about = {"right": right, "chance": doc["chance"], "kind": doc["kind"], "state": state, "item_id": doc["item_id"]}
    return {"accuracy": right, "corrected": about, "readable": float(state in ("correct", "wrong"))}


def state_of(doc: Row, reply: str) -> str:
    """Return the state of a reply: ``correct``, ``wrong``, or the reason why it has no answer."""
    item = Item.from_record(json.loads(doc["item"]))
    reading = answer_parser.read(item, reply)
    if reading.parsed is None:
        return reading.state
    return "correct" if item.form.is_right(list(doc["answer"]), reading.parsed) else "wrong"


def corrected(records: Sequence[Mapping[str, Any]]) -> float:
    """Return the accuracy corrected for chance over all records.

    This is the sum of (accuracy - chance) over the records, divided by the largest possible value of this sum.

    It is not chexqa's headline, which uses sensitivity and specificity for yes/no kinds and averages levels.
    """
    room = sum(1 - one["chance"] for one in records)
    return sum(one["right"] - one["chance"] for one in records) / room if room > 1e-12 else float("nan")
