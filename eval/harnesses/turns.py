"""Replies that another harness collected, as turns of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from chexqa.contract.benchmark import image_digest
from chexqa.contract.items import Item
from chexqa.contract.read_run import Turn, bounded
from chexqa.eval.places.coordinate_systems import Frame
from chexqa.eval.places.pictures import picture_size
from chexqa.eval.prompts import answer_parser, option_order, parser_confidence, parser_places, protocols
from chexqa.eval.prompts.parser_places import PlaceReading
from chexqa.eval.prompts.protocols import Message
from chexqa.eval.runs.run_folder import RunIdentity

Outcome = Literal["reply", "refused", "overflow"]
# Place of the turns in the store of an Inspect sample, and fields of the task's metadata in the header of its log.
STORE, ABOUT, FRAME = "chexqa_turns", "chexqa_run", "chexqa_frame"


@dataclass(frozen=True)
class HarnessReply:
    """Reply of a model as a harness gives it; unknown fields are None.

    - ``outcome``: ``reply`` if the parser must read ``text``; otherwise the state of the turn.
    - ``finish_reason``: ``length`` if the token limit cut the reply off.
    """

    text: str | None
    outcome: Outcome = "reply"
    finish_reason: str | None = None
    usage: dict[str, int | None] | None = None
    cost_usd: float | None = None
    latency_s: float | None = None
    provider_model: str | None = None
    reasoning: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class Asked:
    """Facts on how a question was asked: the model, its decoding settings, the repeat, the rotation and the time."""

    model: str
    decoding: dict[str, Any]
    repeat: int
    rotation: int
    started: str


def turn_of_reply(
    plan: RunIdentity, item: Item, messages: Sequence[Message], asked: Asked, reply: HarnessReply, frame: Frame
) -> Turn:
    """Return the turn of one question; the reply is read as in a run of chexqa.

    ``plan`` has the run's settings. ``item`` is the item as shown, and ``messages`` are the messages sent. ``frame`` is
    the model's coordinate system.
    """
    stated = parser_confidence.read(reply.text) if plan.condition.confidence and reply.outcome == "reply" else None
    text = stated.reply if stated else reply.text
    if reply.outcome != "reply":
        reading = PlaceReading(answer_parser.Reading(None, reply.outcome))
    elif item.form.is_place:
        size = picture_size(plan.benchmark, item)
        reading = parser_places.read_turn(item, text, reply.finish_reason, frame, size)
    else:
        reading = PlaceReading(answer_parser.read(item, text, reply.finish_reason))
    shown = () if plan.modifiers.blind else protocols.pictures(plan.protocol, item)
    return bounded(
        Turn(
            model=asked.model, protocol=plan.protocol, case_id=item.case_id, item_id=item.item_id,
            repeat=asked.repeat, rotation=asked.rotation, blind=plan.modifiers.blind,
            overlay_only=plan.modifiers.overlay_only, attempts=1, state=reading.reading.state,
            parsed=reading.reading.parsed, place=reading.place, raw=reply.text, finish_reason=reply.finish_reason,
            usage=reply.usage, cost_usd=reply.cost_usd, latency_s=reply.latency_s,
            provider_model=reply.provider_model, reasoning=reply.reasoning, error=reply.error,
            request_hash=protocols.request_hash(messages, asked.model, asked.decoding),
            image_hashes=tuple(image_digest(picture.image) for picture in shown), started=asked.started,
            order=option_order.order(item), parser_version=answer_parser.VERSION,
            prompt=plan.condition.wording, condition=plan.condition.examples,
            confidence=stated.value if stated else None,
        )
    )  # fmt: skip
