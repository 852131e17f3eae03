"""Protocols: rules that turn a case's items into a conversation of text and pictures with a model.

Messages contain text and names of pictures, so they can be hashed, logged and compared. ``chexqa.eval.models.client``
adds the bytes of the pictures when it sends a request.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal, get_args

from chexqa import question_banks
from chexqa.contract import benchmark as folder
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Answer, Item, Option, Picture, is_right
from chexqa.eval.places.coordinate_systems import PIXELS, Frame, ask_line
from chexqa.eval.places.pictures import picture_size
from chexqa.eval.prompts import option_order
from chexqa.files.errors import InputError, suggest
from chexqa.files.jsonio import Record, dump, sha256

Protocol = Literal["end_to_end", "oracle_passed", "oracle_stated", "independent"]
PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)
Conversation = tuple[Item, ...]


@dataclass(frozen=True)
class Message:
    """One message: the role (``system``, ``user``, ``assistant``), and the texts and pictures in order."""

    role: Literal["system", "user", "assistant"]
    parts: tuple[str | Picture, ...]


@dataclass(frozen=True)
class PriorReply:
    """A model's reply to one item: its text, if any, and the option numbers read from it."""

    text: str | None
    parsed: tuple[int, ...] | None


def named(protocol: str) -> Protocol:
    """Return the protocol of this name; raise ``InputError`` for an unknown name."""
    for known in PROTOCOLS:
        if known == protocol:
            return known
    raise InputError(f"there is no protocol '{protocol}'{suggest(protocol, PROTOCOLS)}.")


def needs_key(protocol: Protocol) -> bool:
    """Return True if asking under this protocol needs the key."""
    return protocol in ("oracle_passed", "oracle_stated")


def conversations(benchmark: Benchmark, protocol: Protocol, items: Sequence[Item] | None = None) -> list[Conversation]:
    """Return the benchmark's conversations; each is a sequence of items in asking order.

    Under ``independent``, each item is a separate conversation. ``items`` restricts the conversations to a part of the
    benchmark (``chexqa.eval.design.subset``).
    """
    rows = benchmark.items if items is None else items
    return [(item,) for item in rows] if protocol == "independent" else folder.conversations(rows)


def pictures(protocol: Protocol, item: Item) -> tuple[Picture, ...]:
    """Return the pictures that an item's question adds to the conversation."""
    return item.alone_images if protocol == "independent" else item.turn_images


def render(
    benchmark: Benchmark,
    protocol: Protocol,
    conversation: Conversation,
    said: Sequence[PriorReply],
    blind: bool = False,
    texts: Mapping[str, Any] | None = None,
    examples: Sequence[Message] = (),
    frame: Frame = PIXELS,
) -> tuple[Message, ...]:
    """Return the messages that ask the next item: system prompt, examples, history, question.

    ``conversation`` has the items as shown (``chexqa.eval.prompts.option_order``). ``said`` has the model's replies to
    the first items of the conversation; the item after them is asked. ``blind`` (a run without pictures) leaves out the
    pictures and changes no word. ``texts`` is the wording around the questions, by default that of the benchmark; its
    texts ``may_abstain`` and ``confidence``, if it has them, become the last lines of each question. ``frame`` is the
    coordinate system in which a place must be given. The protocol decides how the history shows the model's wrong
    answers:

    * ``oracle_passed``: before the next stage is asked, the key replaces the wrong answer.
    * ``oracle_stated``: wrong answers stay. The first question of the next stage begins with the right answer.
    * Other protocols: wrong answers stay without a correction.

    With the two oracle protocols, a correction also comes within stage 3: the answers to the two items on points are
    corrected before the item with the four pictures is asked.

    Raise ``InputError`` if the protocol needs a key that was withheld.
    """
    texts = texts or benchmark.conversation_texts
    answers = benchmark.key(f"the protocol {protocol}")[0] if needs_key(protocol) else {}
    shown = [0, *accumulate(len(pictures(protocol, item)) for item in conversation)]
    current = conversation[len(said)]
    wrong = [not is_right(item, answers[item.item_id], one.parsed or ()) if answers else False
             for item, one in zip(conversation, said, strict=False)]  # fmt: skip
    messages = [Message("system", (texts["system"],)), *examples]
    for index, item in enumerate(conversation[: len(said) + 1]):
        truths: list[str] = []
        if protocol == "oracle_stated" and index:
            before = conversation[index - 1]
            truths = [
                _truth(texts, earlier, answers[earlier.item_id], shown[place])
                for place, earlier in enumerate(conversation[:index])
                if wrong[place] and _due(earlier, item) and not _due(earlier, before)
            ]
        ask = _place_line(benchmark, item, frame) if item.form.is_place else texts[item.form.name]
        for name in ("may_abstain", "confidence"):
            if name in texts:
                ask = f"{ask}\n{texts[name]}"
        messages.append(question(texts, item, pictures(protocol, item), shown[index], truths, blind, ask=ask))
        if index < len(said):
            passed = protocol == "oracle_passed" and wrong[index] and _due(item, current)
            reply = answer_line(texts, item, answers[item.item_id].answer) if passed else said[index].text
            messages.append(Message("assistant", (reply if reply and reply.strip() else texts["no_answer"],)))
    return tuple(messages)


def _due(earlier: Item, current: Item) -> bool:
    """Return True if a wrong answer to ``earlier`` is corrected before ``current`` is asked.

    Answers of a stage are corrected before the next stage begins. Answers to the two point items are corrected before
    the item with the four pictures. Between the two point items, and within stage 4, nothing is corrected.
    """
    if earlier.stage is None or current.stage is None or earlier.seq >= current.seq:
        return False
    return earlier.stage < current.stage or current.kind == "revision_result"


def question(
    texts: Mapping[str, Any], item: Item, shown: Sequence[Picture], before: int, first: Sequence[str], blind: bool,
    series: str = "", ask: str | None = None,
) -> Message:  # fmt: skip
    """Return one user message, which asks one item.

    ``before`` is the number of pictures announced earlier in the conversation. ``first`` has the lines at the beginning
    of the message. ``ask`` is the last line, which says how to answer; by default it is the wording for the answer
    form. ``series`` is a prefix for the numbers of pictures, such as "E1." for the pictures of the first example.
    Adjacent texts are joined here, because servers would join them in different ways. A ``blind`` message has the same
    words; only the pictures are missing.
    """
    parts: list[str | Picture] = []
    lines = list(first)
    for number, picture in enumerate(shown, start=before + 1):
        lines.append(texts["pictures"][picture.role].format(n=f"{series}{number}"))
        if not blind:
            parts += ["\n".join(lines), picture]
            lines = []
    lines.append(item.question)
    if item.form.lists_options and not item.form.is_place:
        lines += [
            texts["option"].format(n=place, text=_option_words(texts, item, option, shown, before, series))
            for place, option in enumerate(item.options, start=1)
        ]
    lines += ["", ask or texts[item.form.name]]
    return Message("user", (*parts, "\n".join(lines)))


def _place_line(benchmark: Benchmark, item: Item, frame: Frame) -> str:
    """Return the line that says in which form and coordinates the answer must give a place."""
    words = question_banks.place_wordings(benchmark.about["question_bank"]["language"])
    return ask_line(words, item.form.name, frame, picture_size(benchmark, item))


def _option_words(
    texts: Mapping[str, Any], item: Item, option: Option, shown: Sequence[Picture], before: int, series: str = ""
) -> str:
    """Return an option's text; for an option without text, return the sentence that names its picture by number."""
    if option.image is None:
        return option.text or ""
    for number, picture in enumerate(shown, start=before + 1):
        if picture.image == option.image:
            return option.text or str(texts["option_picture"].format(picture=f"{series}{number}"))
    raise InputError(
        f"item '{item.item_id}': option {option.n} is a picture, but the item does not have this picture; generate "
        "the benchmark again."
    )


def _truth(texts: Mapping[str, Any], item: Item, answer: Answer, before: int) -> str:
    """Return the sentence that states the right answer to an earlier question."""
    words = [
        _option_words(texts, item, option, item.turn_images, before)
        for option in item.options
        if option.n in answer.answer
    ]
    return str(texts["truth"].format(question=item.question, answer=", ".join(words)))


def answer_line(texts: Mapping[str, Any], item: Item, answer: Sequence[int]) -> str:
    """Return an answer, given as option numbers, in the form of a reply: the numbers as shown, or the name of a
    cell.
    """
    places = sorted(option_order.place(item, number) for number in answer)
    words = [str(place) if item.form.lists_options else item.options[place - 1].text or "" for place in places]
    return str(texts["answer"].format(answer=", ".join(words)))


def plain(messages: Sequence[Message]) -> list[Record]:
    """Return the messages with each picture replaced by its SHA-256; this form is used for hashes and in test files."""
    return [
        {"role": message.role, "parts": [part if isinstance(part, str) else {"image": folder.image_digest(part.image)}
                                         for part in message.parts]}
        for message in messages
    ]  # fmt: skip


def request_hash(messages: Sequence[Message], model_id: str, decoding: Mapping[str, Any]) -> str:
    """Return the SHA-256 of messages, model and decoding.

    The hash does not depend on the server's address, time limits and API keys.
    """
    settings = json.dumps(decoding, sort_keys=True)
    return sha256(dump({"model": model_id, "decoding": settings, "messages": plain(messages)}).encode())
