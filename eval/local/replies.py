"""Replies that a callable may return, and their conversion into a chat completion for the client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import Any, Literal


@dataclass(frozen=True)
class ModelReply:
    """Reply of a callable, if it returns more than text; a field that is not known is None.

    - ``text``: the reply from which the answer is read.
    - ``input_tokens``, ``output_tokens``, ``reasoning_tokens``: the numbers of tokens, for budgets and tables.
    - ``reasoning``: the model's thinking; it is stored, but no answer is read from it.
    - ``confidence``: the model's confidence that its answer is right, from 0 to 1.
    - ``finish_reason``: ``stop``, or ``length`` if the reply was cut off.
    - ``model``: the name and version of the model that answered.
    - ``refused``: True if the model declined to answer.
    """

    text: str | None
    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    reasoning: str | None = None
    confidence: float | None = None
    finish_reason: str | None = None
    model: str | None = None
    refused: bool = False


class PromptTooLongError(Exception):
    """Error that a callable raises if a prompt is too long for its model; the turn then gets the state ``overflow``."""


class CallError(Exception):
    """Error of a call without a reply.

    - ``kind``: ``timeout`` or ``connection`` (the process died) if another attempt may succeed; None otherwise.
    - ``overflow``: True if the conversation is too long for the model.
    - ``fatal``: True if every call would fail in the same way.
    """

    def __init__(
        self,
        text: str,
        kind: Literal["timeout", "connection"] | None = None,
        *,
        overflow: bool = False,
        fatal: bool = False,
    ) -> None:
        super().__init__(text, kind)
        self.text, self.kind, self.overflow, self.fatal = text, kind, overflow, fatal

    def __reduce__(self) -> Any:
        return _remade, (self.text, self.kind, self.overflow, self.fatal)


def _remade(text: str, kind: Literal["timeout", "connection"] | None, overflow: bool, fatal: bool) -> CallError:
    return CallError(text, kind, overflow=overflow, fatal=fatal)


_FIELDS = tuple(field.name for field in fields(ModelReply))
_TYPES: dict[str, tuple[type, ...]] = {
    "text": (str,), "input_tokens": (int,), "output_tokens": (int,), "reasoning_tokens": (int,), "reasoning": (str,),
    "confidence": (int, float), "finish_reason": (str,), "model": (str,), "refused": (bool,),
}  # fmt: skip


def reply_of(returned: object, who: str) -> ModelReply:
    """Return a callable's return value as a reply.

    The value can be text, or a mapping or object with the fields of :class:`ModelReply`. Raise ``CallError`` for
    anything else. ``who`` is the name of the callable in messages.
    """
    if isinstance(returned, str):
        return ModelReply(returned)
    if returned is None:  # mostly a function that lacks its return statement
        raise CallError(f"{who} returned None; return text, or chexqa.ModelReply('') for an empty reply")
    if isinstance(returned, Mapping):
        unknown = [str(name) for name in returned if name not in _FIELDS]
        if unknown:
            raise CallError(f"{who} returned a mapping with '{unknown[0]}'; its fields are {', '.join(_FIELDS)}")
        values: dict[str, Any] = {name: returned.get(name) for name in _FIELDS}
    else:
        values = {name: getattr(returned, name, None) for name in _FIELDS}
        if not hasattr(returned, "text"):
            raise CallError(f"{who} returned {type(returned).__name__}; return text or chexqa.ModelReply(text, …)")
    for name, value in values.items():
        if value is not None and (
            not isinstance(value, _TYPES[name]) or (isinstance(value, bool) and name != "refused")
        ):
            raise CallError(f"{who} returned a reply whose {name} is {type(value).__name__}, not {_words(name)}")
    if values["confidence"] is not None and not 0 <= values["confidence"] <= 1:
        raise CallError(f"{who} returned the confidence {values['confidence']}; give a number from 0 to 1")
    return ModelReply(**{**values, "refused": bool(values["refused"])})


def _words(name: str) -> str:
    first = _TYPES[name][0]
    if name == "confidence":
        return "a number from 0 to 1"
    return {str: "text", bool: "True or False"}.get(first, "a whole number")


def completion(reply: ModelReply, seconds: float) -> SimpleNamespace:
    """Return a reply in the form in which servers reply (a chat completion).

    ``seconds`` is the duration of the call, without the time in the queue.
    """
    message = SimpleNamespace(
        content=reply.text,
        reasoning_content=reply.reasoning,
        confidence=reply.confidence,
        provider_specific_fields={"refusal": reply.text or "refused"} if reply.refused else None,
    )
    usage = SimpleNamespace(
        prompt_tokens=reply.input_tokens,
        completion_tokens=reply.output_tokens,
        prompt_tokens_details=None,
        completion_tokens_details=SimpleNamespace(reasoning_tokens=reply.reasoning_tokens),
    )
    finish = "content_filter" if reply.refused else reply.finish_reason or "stop"
    return SimpleNamespace(
        choices=[SimpleNamespace(message=message, finish_reason=finish)],
        usage=usage,
        model=reply.model,
        seconds=seconds,
    )
