"""Conversations as passed to a user's callable: chat-template messages with pictures as PIL images, file paths or
bytes.

[{"role": "system", "content": [{"type": "text", "text": "…"}]},
 {"role": "user", "content": [{"type": "text", "text": "…"}, {"type": "image", "image": <picture>},
                              {"type": "text", "text": "…"}]},
 {"role": "assistant", "content": [{"type": "text", "text": "…"}]}, …]
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

from chexqa.contract.items import Picture
from chexqa.eval.prompts.protocols import Message

Form = Literal["pil", "path", "bytes"]
FORMS: tuple[Form, ...] = get_args(Form)
Conversation = list[dict[str, Any]]


def conversation(messages: Sequence[Message], picture: Callable[[str], Any]) -> Conversation:
    """Return the messages in the form of chat templates; ``picture`` is a function from a picture's path to the
    picture.
    """
    return [{"role": message.role, "content": [_part(part, picture) for part in message.parts]} for message in messages]


def _part(part: str | Picture, picture: Callable[[str], Any]) -> dict[str, Any]:
    if isinstance(part, Picture):
        return {"type": "image", "image": picture(part.image)}
    return {"type": "text", "text": part}


def opened(said: Conversation) -> Conversation:
    """Return the conversation with each picture as a PIL image instead of bytes.

    A PIL image decodes its pixels only when it is used.
    """
    from PIL import Image

    return [
        {
            "role": message["role"],
            "content": [
                {"type": "image", "image": Image.open(io.BytesIO(part["image"]))} if part["type"] == "image" else part
                for part in message["content"]
            ],
        }
        for message in said
    ]


def length(messages: Sequence[Message]) -> int:
    """Return the approximate length of the messages in characters.

    Conversations of similar length are put into one batch, because they need little padding.
    """
    return sum(4000 if isinstance(part, Picture) else len(part) for message in messages for part in message.parts)
