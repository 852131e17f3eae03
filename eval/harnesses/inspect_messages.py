"""Messages of chexqa in the form of Inspect's chat messages, and Inspect's output as a reply."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any

from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    ContentImage,
    ContentReasoning,
    ContentText,
    ModelOutput,
)

from chexqa.contract.items import Picture
from chexqa.eval.harnesses.turns import HarnessReply, Outcome
from chexqa.eval.prompts.protocols import Message

_FINISH = {"max_tokens": "length", "unknown": None}
_OUTCOMES: dict[str, Outcome] = {"content_filter": "refused", "model_length": "overflow"}


def data_url(png: bytes) -> str:
    """Return a PNG file as a ``data:`` address, which Inspect can send to every provider."""
    return f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}"


def chat(messages: Sequence[Message], address: Callable[[str], str]) -> list[Any]:
    """Return the messages as Inspect's chat messages; ``address`` returns the ``data:`` address for a picture's
    path.
    """
    return [_message(message, address) for message in messages]


def _message(message: Message, address: Callable[[str], str]) -> Any:
    if message.role == "user":
        return ChatMessageUser(content=[_part(part, address) for part in message.parts])
    text = "".join(str(part) for part in message.parts)
    return ChatMessageSystem(content=text) if message.role == "system" else ChatMessageAssistant(content=text)


def _part(part: str | Picture, address: Callable[[str], str]) -> Any:
    return ContentText(text=part) if isinstance(part, str) else ContentImage(image=address(part.image))


def reply_of(output: ModelOutput) -> HarnessReply:
    """Return Inspect's output as a reply.

    A reply that a content filter stopped becomes a refusal. If the prompt was longer than the model's context, the
    reply becomes an overflow.
    """
    usage = output.usage
    if output.empty:
        return HarnessReply("", error=output.error)
    content = output.message.content
    thoughts = [part.reasoning for part in content if isinstance(part, ContentReasoning)] if content else []
    return HarnessReply(
        text=output.completion,
        outcome=_OUTCOMES.get(output.stop_reason, "reply"),
        finish_reason=_FINISH.get(output.stop_reason, output.stop_reason),
        usage=None if usage is None else _usage(usage),
        cost_usd=None if usage is None else usage.total_cost,
        latency_s=output.time,
        provider_model=output.model or None,
        reasoning="\n".join(thoughts) or None,
        error=output.error,
    )


def _usage(usage: Any) -> dict[str, int | None]:
    """Return the counts of tokens. Tokens from a cache are added to the input, because Inspect does not count them
    there.
    """
    cached, written = usage.input_tokens_cache_read, usage.input_tokens_cache_write
    return {
        "input_tokens": usage.input_tokens + (cached or 0) + (written or 0),
        "output_tokens": usage.output_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "cached_tokens": cached,
    }
