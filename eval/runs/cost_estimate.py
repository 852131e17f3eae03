"""What a run would ask and cost, counted from the real conversations before anything is sent.

Text counts one token for every four characters and four for every message; a picture what the registry's
``image_tokens`` says of its size; a reply the registry's ``reply_tokens``, of which 100 stay in the history (thinking
does not). Every answer is taken to be wrong, which under the oracle protocols makes the longest history. No prefix
cache is assumed unless asked for; then all but the last question and its answer come from it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Picture
from chexqa.eval.models.registry import Model, Price
from chexqa.eval.prompts import option_order, protocols, subset
from chexqa.eval.prompts.option_order import Modifiers
from chexqa.eval.prompts.protocols import Message, Protocol, Said
from chexqa.files.errors import InputError
from chexqa.files.jsonio import reading
from chexqa.files.opening import open_binary

TOKEN_CHARACTERS = 4
MESSAGE_TOKENS = 4
KEPT_TOKENS = 100
KEPT = Said("." * (KEPT_TOKENS * TOKEN_CHARACTERS), None)
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"

Size = tuple[int, int]
"""Width and height in pixels."""


class Request(NamedTuple):
    """One question as it is sent: tokens of its text, the sizes of its pictures, whether it begins a conversation."""

    text_tokens: int
    sizes: tuple[Size, ...]
    first: bool


@dataclass(frozen=True)
class Work:
    """What a protocol asks of every model; ``times`` is how often each request is sent (repeats, rotations)."""

    protocol: Protocol
    requests: tuple[Request, ...]
    times: int
    picture_bytes: int

    @property
    def conversations(self) -> int:
        """Conversations to be held."""
        return self.times * sum(request.first for request in self.requests)

    @property
    def calls(self) -> int:
        """Questions to be asked."""
        return self.times * len(self.requests)

    @property
    def images(self) -> int:
        """Pictures to be sent, each as often as it is."""
        return self.times * sum(len(request.sizes) for request in self.requests)


@dataclass(frozen=True)
class Estimate:
    """One model under one protocol; None is unknown. ``too_long`` and ``too_many`` count calls it cannot take."""

    model: str
    protocol: Protocol
    input_tokens: int | None
    image_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    too_long: int
    too_many_images: int


def work(
    benchmark: Benchmark,
    protocol: Protocol,
    modifiers: Modifiers,
    limit: int | None = None,
    limit_per_path: int | None = None,
) -> Work:
    """Render every conversation of a protocol once; ``InputError`` where it needs what the benchmark lacks."""
    items = subset.chosen(benchmark, limit, limit_per_path)
    option_order.check(items, modifiers)

    @cache
    def picture(image: str) -> tuple[Size, int]:
        return png_size(benchmark.folder / image, benchmark.folder), benchmark.image_size(image)

    requests, sent = [], 0
    for conversation in protocols.conversations(benchmark, protocol, items):
        shown = tuple(option_order.shown(item, modifiers, 0) for item in conversation)
        for place in range(len(shown)):
            messages = protocols.render(benchmark, protocol, shown, [KEPT] * place, modifiers.blind)
            pictures = [picture(part.image) for message in messages for part in message.parts
                        if isinstance(part, Picture)]  # fmt: skip
            sent += sum(size for _, size in pictures)
            requests.append(Request(text_tokens(messages), tuple(size for size, _ in pictures), place == 0))
    times = modifiers.repeats * modifiers.rotations
    return Work(protocol, tuple(requests), times, times * sent)


def text_tokens(messages: Sequence[Message]) -> int:
    """Tokens of the messages' words, by the rule of thumb."""
    words = sum(len(part) for message in messages for part in message.parts if isinstance(part, str))
    return math.ceil(words / TOKEN_CHARACTERS) + MESSAGE_TOKENS * len(messages)


def estimate(load: Work, model: Model, price: Price | None, reply_tokens: int | None, cached: bool) -> Estimate:
    """What the work comes to for one model; ``reply_tokens`` instead of the registry's where given."""
    tokens = cache(lambda size: image_tokens(model.image_tokens, size))
    known = model.image_tokens is not None or not load.images
    reply = model.decoding.get("max_tokens")
    room = (model.context_tokens or math.inf) - (reply if isinstance(reply, int) else 0)
    given = pictured = saved = before = too_long = too_many = 0
    for request in load.requests:
        shown = sum(map(tokens, request.sizes)) if known else 0
        if not request.first:
            saved += before
        before = request.text_tokens + shown
        given, pictured = given + before, pictured + shown
        too_long += before > room
        too_many += len(request.sizes) > (model.max_images or math.inf)
    each = reply_tokens or model.reply_tokens
    said = None if each is None else each * load.calls
    kept = saved * load.times if cached else 0
    free = price is not None and price.input_per_million_usd == price.output_per_million_usd == 0
    cost = 0.0 if free else None
    if price is not None and known and said is not None:
        cost = price.cost_usd(given * load.times, said, kept)
    return Estimate(
        model.name,
        load.protocol,
        given * load.times if known else None,
        pictured * load.times if known else None,
        kept if known else None,
        said,
        cost,
        too_long * load.times,
        too_many * load.times,
    )


def image_tokens(rule: Mapping[str, Any] | None, size: Size) -> int:
    """Tokens of a picture by a rule of the registry (the schema ``models``); 0 without one.

    ``patches``: squares that cover it, after scaling down to at most ``limit`` of them. ``tiles``: the grid of at most
    ``limit`` squares whose shape is nearest to the picture's (of equals the larger one, if the picture fills half of
    it), and one square more for the whole.
    """
    if rule is None:
        return 0
    if rule["rule"] == "fixed":
        return int(rule["tokens"])
    if rule["rule"] == "patches":
        count = _patches(size, rule["side"], rule.get("limit"))
        return math.ceil(count * float(rule.get("factor", 1))) + int(rule.get("extra", 0))
    count = _tiles(size, rule["side"], int(rule["limit"]))
    return (count + (count > 1)) * int(rule["tokens"])


def _patches(size: Size, side: int, limit: int | None) -> int:
    width, height = size
    count = math.ceil(width / side) * math.ceil(height / side)
    if limit is None or count <= limit:
        return count
    scale = math.sqrt(side**2 * limit / (width * height))
    across, down = width * scale / side, height * scale / side
    scale *= min(max(math.floor(across), 1) / across, max(math.floor(down), 1) / down)
    return min(limit, math.ceil(int(width * scale) / side) * math.ceil(int(height * scale) / side))


def _tiles(size: Size, side: int, limit: int) -> int:
    width, height = size
    grids = sorted(
        ((across, down) for across in range(1, limit + 1) for down in range(1, limit // across + 1)),
        key=math.prod,
    )
    best, nearest = 1, math.inf
    for across, down in grids:
        distance = abs(width / height - across / down)
        fills = width * height > 0.5 * side**2 * across * down
        if distance < nearest or (distance == nearest and fills):
            best, nearest = across * down, distance
    return best


def png_size(path: Path, inside: Path | None = None) -> Size:
    """Width and height from a PNG file's head; ``inside``: the folder out of which no link may lead."""
    with reading(path), open_binary(path, inside=inside) as file:
        head = file.read(24)
    if len(head) < 24 or not head.startswith(PNG_SIGNATURE):
        raise InputError(f"{path}: is no PNG; restore it.")
    return int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
