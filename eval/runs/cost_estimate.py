"""Estimate of the requests and the cost of a run. Its conversations are built as for the run, but nothing is sent.

- Text: four characters count as one token, and a message adds four tokens.
- Pictures: the tokens follow from the size and the registry's ``image_tokens``.
- New replies: each has the registry's ``reply_tokens``.
- Earlier replies that are sent again as history: each has 100 tokens, since its thinking is left out.
- Answers: all are assumed to be wrong, which gives the longest history.
- Prefix cache: if a cache is assumed, a request takes the tokens of the request before it from the cache.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import ORIGINAL, Picture
from chexqa.eval.design import subset
from chexqa.eval.models.registry import BASELINE, Model, Price
from chexqa.eval.prompts import option_order, protocols
from chexqa.eval.prompts.conditions import Condition, Prompter
from chexqa.eval.prompts.option_order import Modifiers
from chexqa.eval.prompts.protocols import Message, PriorReply, Protocol
from chexqa.eval.stress import stressed_pictures
from chexqa.files.errors import InputError
from chexqa.files.jsonio import reading
from chexqa.files.opening import open_binary

TOKEN_CHARACTERS = 4
MESSAGE_TOKENS = 4
KEPT_TOKENS = 100
KEPT = PriorReply("." * (KEPT_TOKENS * TOKEN_CHARACTERS), None)
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"

Size = tuple[int, int]
"""Width and height in pixels."""


class Request(NamedTuple):
    """One request, which asks one question.

    - ``text_tokens``: the number of tokens of its texts.
    - ``sizes``: the sizes (width, height) of its pictures in pixels.
    - ``first``: True if the question begins a conversation.
    """

    text_tokens: int
    sizes: tuple[Size, ...]
    first: bool


@dataclass(frozen=True)
class Work:
    """Requests that a run by one protocol sends to a model.

    - ``times``: how often a request is sent, ``repeats * rotations``.
    - ``picture_bytes``, ``upload_bytes``: the bytes of all pictures sent, as files and as base64.
    """

    protocol: Protocol
    requests: tuple[Request, ...]
    times: int
    picture_bytes: int
    upload_bytes: int

    @property
    def conversations(self) -> int:
        """Return the number of conversations."""
        return self.times * sum(request.first for request in self.requests)

    @property
    def calls(self) -> int:
        """Return the number of questions asked."""
        return self.times * len(self.requests)

    def seconds(self, reply_s: float, concurrency: int) -> float:
        """Return the duration of a run in seconds.

        A reply takes ``reply_s`` seconds, and ``concurrency`` conversations are asked at the same time.
        """
        lengths: list[int] = []
        for request in self.requests:
            lengths += [0] if request.first else []
            lengths[-1] += 1
        return reply_s * max(self.calls / concurrency, max(lengths, default=0))

    @property
    def images(self) -> int:
        """Return the number of pictures sent, repetitions included."""
        return self.times * sum(len(request.sizes) for request in self.requests)


@dataclass(frozen=True)
class Estimate:
    """Estimated tokens and cost of one model and protocol; None means unknown.

    - ``too_long``: the number of requests that are longer than the model's context.
    - ``too_many_images``: the number of requests with more pictures than the model accepts.
    - ``lacking``: the fields that are missing from the models file; without them, some numbers are None.
    """

    model: str
    protocol: Protocol
    input_tokens: int | None
    image_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    too_long: int
    too_many_images: int
    lacking: tuple[str, ...] = ()


def work(
    benchmark: Benchmark,
    protocol: Protocol,
    modifiers: Modifiers,
    limit: int | None = None,
    limit_per_path: int | None = None,
    condition: Condition | None = None,
    seed: int = 0,
    interventions: Sequence[str] = (ORIGINAL,),
    stress: Sequence[str] = (),
) -> Work:
    """Return the requests of a run; raise ``InputError`` if the benchmark lacks something that the protocol needs."""
    # A stressed picture is counted with the size of its original, because it is not made before the run.
    subset.check_conditions(benchmark, interventions, protocol)
    whole = subset.chosen(benchmark, limit, limit_per_path, interventions)
    items = subset.conditioned(benchmark, whole, interventions)
    if stress:
        stressed_pictures.check(benchmark, items, stress, protocol, modifiers.blind)
        items = (*items, *stressed_pictures.stressed_items(benchmark, whole, stress))
    option_order.check(items, modifiers)
    prompter = Prompter(benchmark, protocol, modifiers, condition or Condition(), seed)

    @cache
    def picture(image: str) -> tuple[Size, int]:
        return png_size(benchmark.folder / image, benchmark.folder), benchmark.image_size(image)

    requests, sent, uploaded = [], 0, 0
    for conversation in protocols.conversations(benchmark, protocol, items):
        shown = tuple(option_order.shown(item, modifiers, 0) for item in conversation)
        for place in range(len(shown)):
            messages = prompter.messages(shown, [KEPT] * place)
            pictures = [picture(part.image) for message in messages for part in message.parts
                        if isinstance(part, Picture)]  # fmt: skip
            sent += sum(size for _, size in pictures)
            uploaded += sum(4 * math.ceil(size / 3) for _, size in pictures)
            requests.append(Request(text_tokens(messages), tuple(size for size, _ in pictures), place == 0))
    times = modifiers.repeats * modifiers.rotations
    return Work(protocol, tuple(requests), times, times * sent, times * uploaded)


def text_tokens(messages: Sequence[Message]) -> int:
    """Return the estimated number of tokens of the messages' texts."""
    words = sum(len(part) for message in messages for part in message.parts if isinstance(part, str))
    return math.ceil(words / TOKEN_CHARACTERS) + MESSAGE_TOKENS * len(messages)


def estimate(planned: Work, model: Model, price: Price | None, reply_tokens: int | None, cached: bool) -> Estimate:
    """Return the estimate for one model.

    ``reply_tokens``, if given, replaces the registry's value. ``cached`` assumes a prefix cache.
    """
    if model.litellm.startswith(BASELINE):
        return Estimate(model.name, planned.protocol, 0, 0, 0, 0, 0.0, 0, 0)
    tokens = cache(lambda size: image_tokens(model.image_tokens, size))
    known = model.image_tokens is not None or not planned.images
    reply = model.decoding.get("max_tokens")
    room = (model.context_tokens or math.inf) - (reply if isinstance(reply, int) else 0)
    given = pictured = saved = before = too_long = too_many = 0
    for request in planned.requests:
        shown = sum(map(tokens, request.sizes)) if known else 0
        if not request.first:
            saved += before
        before = request.text_tokens + shown
        given, pictured = given + before, pictured + shown
        too_long += before > room
        too_many += len(request.sizes) > (model.max_images or math.inf)
    each = reply_tokens or model.reply_tokens
    said = None if each is None else each * planned.calls
    kept = saved * planned.times if cached else 0
    free = price is not None and price.input_per_million_usd == price.output_per_million_usd == 0
    cost = 0.0 if free else None
    lacks = {"price": price is None, "image_tokens": not known, "reply_tokens": said is None}
    lacking = tuple(name for name, lack in lacks.items() if lack)
    if price is not None and said is not None and not lacking:
        cost = price.cost_usd(given * planned.times, said, kept)
    return Estimate(
        model.name,
        planned.protocol,
        given * planned.times if known else None,
        pictured * planned.times if known else None,
        kept if known else None,
        said,
        cost,
        too_long * planned.times,
        too_many * planned.times,
        lacking,
    )


def image_tokens(rule: Mapping[str, Any] | None, size: Size) -> int:
    """Return how many tokens a picture takes by a rule of the model registry; 0 if ``rule`` is None.

    - ``fixed``: the same number of tokens for every picture.
    - ``patches``: ``factor`` tokens for each square needed to cover the picture (at most ``limit`` squares), plus
      ``extra`` tokens.
    - ``tiles``: the picture is divided into at most ``limit`` squares. Each square takes ``tokens`` tokens; if there is
      more than one, ``tokens`` is added once more.
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
    # A picture that needs more squares is scaled down.
    scale = math.sqrt(side**2 * limit / (width * height))
    across, down = width * scale / side, height * scale / side
    scale *= min(max(math.floor(across), 1) / across, max(math.floor(down), 1) / down)
    return min(limit, math.ceil(int(width * scale) / side) * math.ceil(int(height * scale) / side))


def _tiles(size: Size, side: int, limit: int) -> int:
    # The aspect ratio nearest to the picture's. Of several such grids, the largest one with less than twice the
    # picture's pixels; if all have more, the smallest.
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
    """Return the width and height of a PNG file in pixels.

    Raise ``InputError`` if the file is not a PNG, or if ``path`` is a link that leads out of the folder ``inside``.
    """
    with reading(path), open_binary(path, inside=inside) as file:
        head = file.read(24)
    if len(head) < 24 or not head.startswith(PNG_SIGNATURE):
        raise InputError(f"{path}: is not a PNG file; restore it.")
    return int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
