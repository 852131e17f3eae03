"""How a case's items are put to a model: the conversation as messages of text and pictures, for each protocol.

A conversation is kept as text and picture names, so that it can be hashed, logged and compared; the bytes of the
pictures join in only when a request is sent (``chexqa.eval.models.client``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal, get_args

from chexqa.contract import benchmark as folder
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Answer, Item, Option, Picture, is_right
from chexqa.eval.prompts import option_order
from chexqa.files.errors import InputError, suggest
from chexqa.files.jsonio import Record, dump, sha256

Protocol = Literal["end_to_end", "oracle_passed", "oracle_stated", "independent"]
PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)
Conversation = tuple[Item, ...]


@dataclass(frozen=True)
class Message:
    """One message: who says it (``system``, ``user``, ``assistant``) and its texts and pictures in order."""

    role: Literal["system", "user", "assistant"]
    parts: tuple[str | Picture, ...]


@dataclass(frozen=True)
class Said:
    """What a model said to one item: its words, if any came, and the option numbers read from them."""

    text: str | None
    parsed: tuple[int, ...] | None


def named(protocol: str) -> Protocol:
    """The protocol of this name; ``InputError`` for an unknown one."""
    for known in PROTOCOLS:
        if known == protocol:
            return known
    raise InputError(f"there is no protocol '{protocol}'{suggest(protocol, PROTOCOLS)}.")


def needs_key(protocol: Protocol) -> bool:
    """Whether putting the questions takes the right answers."""
    return protocol in ("oracle_passed", "oracle_stated")


def conversations(benchmark: Benchmark, protocol: Protocol, items: Sequence[Item] | None = None) -> list[Conversation]:
    """The benchmark's conversations, each in asking order; under ``independent`` every item is one.

    ``items``: only these of its items (``chexqa.eval.prompts.subset``).
    """
    rows = benchmark.items if items is None else items
    return [(item,) for item in rows] if protocol == "independent" else folder.conversations(rows)


def pictures(protocol: Protocol, item: Item) -> tuple[Picture, ...]:
    """The pictures an item's turn introduces."""
    return item.alone_images if protocol == "independent" else item.turn_images


def render(
    benchmark: Benchmark, protocol: Protocol, conversation: Conversation, said: Sequence[Said], blind: bool = False
) -> tuple[Message, ...]:
    """The messages that ask the item after the ``said`` ones: system prompt, history, question.

    ``conversation`` holds the items as they are shown (``chexqa.eval.prompts.option_order``); ``said`` what the model
    said to its first ``len(said)`` items, of which it has at least one more. ``blind`` leaves the pictures out and
    every word as it is. What of its answers the model sees again is the protocol's matter:

    * ``oracle_passed``: a wrong answer reads as a bare right one from the place on where it is due (:func:`_due`);
    * ``oracle_stated``: it stays, and the question at that place first states the truth.

    Raises ``InputError`` where the protocol needs a key that was withheld.
    """
    texts = benchmark.conversation_texts
    answers = benchmark.key(f"the protocol {protocol}")[0] if needs_key(protocol) else {}
    shown = [0, *accumulate(len(pictures(protocol, item)) for item in conversation)]
    current = conversation[len(said)]
    wrong = [not is_right(item, answers[item.item_id], one.parsed or ()) if answers else False
             for item, one in zip(conversation, said, strict=False)]  # fmt: skip
    messages = [Message("system", (texts["system"],))]
    for index, item in enumerate(conversation[: len(said) + 1]):
        truths: list[str] = []
        if protocol == "oracle_stated" and index:
            before = conversation[index - 1]
            truths = [
                _truth(texts, earlier, answers[earlier.item_id], shown[place])
                for place, earlier in enumerate(conversation[:index])
                if wrong[place] and _due(earlier, item) and not _due(earlier, before)
            ]
        messages.append(_question(texts, item, pictures(protocol, item), shown[index], truths, blind))
        if index < len(said):
            passed = protocol == "oracle_passed" and wrong[index] and _due(item, current)
            reply = answer_line(texts, item, answers[item.item_id].answer) if passed else said[index].text
            messages.append(Message("assistant", (reply if reply and reply.strip() else texts["no_answer"],)))
    return tuple(messages)


def _due(earlier: Item, current: Item) -> bool:
    """Whether a wrong answer to ``earlier`` is put right by the time ``current`` is asked.

    A stage is put right before the next stage, and the two point items before the four pictures; nothing is between
    the point items or inside stage 4.
    """
    if earlier.stage is None or current.stage is None or earlier.seq >= current.seq:
        return False
    return earlier.stage < current.stage or current.kind == "revision_result"


def _question(
    texts: Mapping[str, Any], item: Item, shown: Sequence[Picture], before: int, truths: Sequence[str], blind: bool
) -> Message:
    """One user message; ``before`` pictures were announced earlier in the conversation.

    No two texts stand side by side: servers differ in what they put between them. What is ``blind`` reads the same, so
    that nothing but the pictures tells it from what is not.
    """
    parts: list[str | Picture] = []
    lines = list(truths)
    for number, picture in enumerate(shown, start=before + 1):
        lines.append(texts["pictures"][picture.role].format(n=number))
        if not blind:
            parts += ["\n".join(lines), picture]
            lines = []
    lines.append(item.question)
    if item.form.lists_options:
        lines += [
            texts["option"].format(n=place, text=_option_words(texts, item, option, shown, before))
            for place, option in enumerate(item.options, start=1)
        ]
    lines += ["", texts[item.form.name]]
    return Message("user", (*parts, "\n".join(lines)))


def _option_words(texts: Mapping[str, Any], item: Item, option: Option, shown: Sequence[Picture], before: int) -> str:
    """An option's text, or where it has none the sentence that names its picture by number."""
    if option.image is None:
        return option.text or ""
    for number, picture in enumerate(shown, start=before + 1):
        if picture.image == option.image:
            return option.text or str(texts["option_picture"].format(picture=number))
    raise InputError(f"item '{item.item_id}': option {option.n} is a picture the item does not show; make it anew.")


def _truth(texts: Mapping[str, Any], item: Item, answer: Answer, before: int) -> str:
    """The sentence that states the right answer to an earlier question in words."""
    words = [
        _option_words(texts, item, option, item.turn_images, before)
        for option in item.options
        if option.n in answer.answer
    ]
    return str(texts["truth"].format(question=item.question, answer=", ".join(words)))


def answer_line(texts: Mapping[str, Any], item: Item, answer: Sequence[int]) -> str:
    """An answer (the item's own option numbers) in the form the question asks for: numbers as shown, or a cell."""
    places = sorted(option_order.place(item, number) for number in answer)
    words = [str(place) if item.form.lists_options else item.options[place - 1].text or "" for place in places]
    return str(texts["answer"].format(answer=", ".join(words)))


def plain(messages: Sequence[Message]) -> list[Record]:
    """The messages with each picture as its SHA-256: what hashes and goldens are made from."""
    return [
        {"role": message.role, "parts": [part if isinstance(part, str) else {"image": folder.image_digest(part.image)}
                                         for part in message.parts]}
        for message in messages
    ]  # fmt: skip


def request_hash(messages: Sequence[Message], model_id: str, decoding: Mapping[str, Any]) -> str:
    """SHA-256 of what decides a reply: messages, model and decoding; address, time limits and keys are no part."""
    settings = json.dumps(decoding, sort_keys=True)
    return sha256(dump({"model": model_id, "decoding": settings, "messages": plain(messages)}).encode())
