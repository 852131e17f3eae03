"""Adaptations of prompts and replies to what a model accepts, as its entry in ``models.yaml`` says.

- ``system_prompt: false``: the system prompt is put before the first question's text.
- ``multi_turn_images: false``: all pictures move to the front of the last message.
- ``images_first: true``: a message has its pictures first, then its texts as one text.
- ``max_images``: a prompt with more pictures is not sent; the turn ends as ``overflow``.
- ``strip_tokens``: special tokens that are removed from a reply.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from chexqa.contract.items import Picture
from chexqa.eval.models.registry import Model
from chexqa.eval.prompts.protocols import Message
from chexqa.files.jsonio import Record


def settings(model: Model) -> Record:
    """Return the model's settings that change its messages or the reading of its replies, for ``run.json``."""
    return {
        "system_prompt": model.system_prompt,
        "multi_turn_images": model.multi_turn_images,
        "images_first": model.images_first,
        "max_images": model.max_images,
        "strip_tokens": list(model.strip_tokens),
        **({} if model.frame is None else {"frame": model.frame}),
    }


def adapt(model: Model, messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages in the form that this model accepts."""
    rows = list(messages)
    if not model.system_prompt:
        rows = _without_system(rows)
    if not model.multi_turn_images:
        rows = _images_last(rows)
    if model.images_first:
        rows = [_images_first(row) for row in rows]
    return tuple(rows)


def too_many_images(model: Model, messages: Sequence[Message]) -> str | None:
    """Return an error text if the messages have more pictures than the model accepts; otherwise return None."""
    count = sum(isinstance(part, Picture) for message in messages for part in message.parts)
    if model.max_images is None or count <= model.max_images:
        return None
    return (
        f"the prompt has {count} pictures, but the model takes at most {model.max_images}, so the question was not sent"
    )


def strip_tokens(model: Model, text: str | None) -> str | None:
    """Return a reply without the special tokens that the registry names."""
    for token in model.strip_tokens if text else ():
        text = text and text.replace(token, "")
    return text


def _without_system(messages: list[Message]) -> list[Message]:
    system = [str(part) for message in messages if message.role == "system" for part in message.parts]
    rest = [message for message in messages if message.role != "system"]
    if not system:
        return rest
    first = rest[0]
    return [replace(first, parts=_merged(("\n\n".join(system) + "\n\n", *first.parts), "")), *rest[1:]]


def _images_last(messages: list[Message]) -> list[Message]:
    """Return the messages with every picture moved into the last message, after the line that announces it."""
    # The remaining text keeps its place, so picture numbers stay valid.
    moved: list[str | Picture] = []
    rows = []
    for message in messages[:-1]:
        kept: list[str | Picture] = []
        for part in message.parts:
            if isinstance(part, Picture):
                before, _, line = str(kept.pop()).rpartition("\n")
                kept += [before] if before else []
                moved += [line, part]
            else:
                kept.append(part)
        rows.append(replace(message, parts=_merged(kept, "\n")))
    return [*rows, replace(messages[-1], parts=(*moved, *messages[-1].parts))]


def _images_first(message: Message) -> Message:
    pictures = [part for part in message.parts if isinstance(part, Picture)]
    texts = [part for part in message.parts if isinstance(part, str)]
    return replace(message, parts=(*pictures, *_merged(texts, "\n")))


def _merged(parts: Sequence[str | Picture], between: str) -> tuple[str | Picture, ...]:
    """Return the parts of a message with adjacent texts joined by ``between``."""
    merged: list[str | Picture] = []
    for part in parts:
        if merged and isinstance(part, str) and isinstance(merged[-1], str):
            merged[-1] = f"{merged[-1]}{between}{part}"
        else:
            merged.append(part)
    return tuple(merged)
