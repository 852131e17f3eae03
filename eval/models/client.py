"""Client that asks one model one question, with chexqa's own retries.

This is the only module that imports litellm. Baselines and models that are Python objects are asked without it.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import time
from collections import OrderedDict
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import pybase64

from chexqa.contract import reply_limits
from chexqa.contract.items import Picture
from chexqa.eval.local import callable_address as targets
from chexqa.eval.local.callable_address import Target
from chexqa.eval.local.conversation import conversation, length
from chexqa.eval.local.load_and_call import Served
from chexqa.eval.local.pool import Pool
from chexqa.eval.local.replies import ModelReply, completion
from chexqa.eval.models import adapters, baselines, data_policy, failures, in_process, openai_http, registry
from chexqa.eval.models.failures import FailedUsage, SendError, Usage, judge, wants_key
from chexqa.eval.models.rate_limit import ClosedError, RateLimiter, RetryPolicy, TransientError, retried
from chexqa.eval.models.registry import Model, Price
from chexqa.eval.prompts.protocols import Message
from chexqa.files.errors import InputError
from chexqa.files.opening import real
from chexqa.files.redact import Hider, hider

# The cache holds 32 conversations of seven pictures of 0.6 MB each, so a turn finds the pictures of the previous turn.
PICTURE_CACHE_BYTES = 180_000_000
KEYLESS = "none"
FINISH_CHARACTERS = 100


@dataclass(frozen=True)
class Reply:
    """Outcome of one question. A number that is not known, such as the cost, is None.

    - ``rejected``: True if the endpoint refused the request.
    - ``fatal``: True if the endpoint would refuse every other request, too.
    - ``fell_back``: True if a proxy reports that another model answered.
    - ``failed_usage``: the tokens of failed attempts, as in a turn; ``cost_usd`` includes their cost.
    """

    outcome: Literal["reply", "refused", "overflow", "error"]
    attempts: int
    latency_s: float | None = None
    text: str | None = None
    finish_reason: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    provider_model: str | None = None
    error: str | None = None
    rejected: bool = False
    fatal: bool = False
    fell_back: bool = False
    reasoning: str | None = None
    confidence: float | None = None
    tokens: tuple[tuple[str, float], ...] | None = None
    failed_usage: dict[str, int] | None = None


class CutOffError(asyncio.CancelledError):
    """Cancellation of a question after an attempt that may be billed; ``reply`` is the outcome to log."""

    def __init__(self, reply: Reply) -> None:
        super().__init__()
        self.reply = reply


class Pictures(Protocol):
    """Source of the pictures that messages name by path, usually a benchmark."""

    def image_bytes(self, image: str) -> bytes:
        """Return the bytes of the PNG file at this path."""


class Client:
    """Client that sends questions with the pictures of one benchmark; it caches encoded pictures."""

    def __init__(self, pictures: Pictures, policy: RetryPolicy | None = None) -> None:
        """Store the source of pictures and the retry settings; ``policy`` defaults to ``RetryPolicy()``."""
        self._source = pictures
        self._policy = policy or RetryPolicy()
        self._pictures: OrderedDict[str, bytes] = OrderedDict()
        self._cached = 0
        self._hiders: dict[str, Hider] = {}
        self._prices: dict[str, Price | None] = {}
        self._pools: dict[str, Pool] = {}

    def check(self, model: Model) -> None:
        """Raise ``InputError`` if a model's provider is unknown or its callable is unusable; send nothing."""
        if model.python is not None:
            in_process.check(model)
            return
        if data_policy.is_baseline(model):
            baselines.check_name(model.litellm.removeprefix(registry.BASELINE))
            return
        litellm = load_litellm()
        address = registry.endpoint(model)
        try:
            litellm.get_llm_provider(model.litellm, api_base=address)
        except litellm.BadRequestError:
            remedy = (
                f"write hosted_vllm/{model.litellm} if it is an OpenAI-compatible server"
                if address
                else "write provider/model, or give the address of an OpenAI-compatible server (--api-base)"
            )
            raise InputError(
                f"model '{model.name}': litellm cannot tell the provider of '{model.litellm}'; {remedy}."
            ) from None

    async def open(self, model: Model, places: int) -> None:
        """Load a model that is a Python object, for ``places`` conversations at once; do nothing for other models.

        Raise ``InputError`` if the model cannot be loaded.
        """
        if model.python is not None:
            await self._pool(model, model.python, places).load()

    async def close(self) -> None:
        """Stop models that are Python objects and close all connections; call it before the event loop ends."""
        for pool in self._pools.values():
            pool.close()
        self._pools.clear()
        await close()

    def _pool(self, model: Model, target: Target, places: int) -> Pool:
        if model.name not in self._pools:
            traits = targets.traits(targets.resolve(target), target)
            served = Served(target, traits, model.decoding)
            self._pools[model.name] = Pool(served, places, self._policy.timeout_s)
        return self._pools[model.name]

    def is_priced(self, model: Model) -> bool:
        """Return True if the cost of the model's replies will be known; no request is sent."""
        return self._price(model) is not None

    def _price(self, model: Model) -> Price | None:
        """Return the model's price, looked up once."""
        if model.name not in self._prices:
            self._prices[model.name] = price(model)
        return self._prices[model.name]

    async def ask(self, model: Model, messages: Sequence[Message], limiter: RateLimiter | None = None) -> Reply:
        """Send the messages and return the outcome; a failure is an outcome, too.

        ``messages`` must already be adapted to the model (:func:`chexqa.eval.models.adapters.adapt`). Raise
        ``ClosedError`` if the limiter is closed, ``InputError`` if a picture cannot be read, and ``CutOffError`` if the
        task is cancelled after an attempt that may be billed.
        """
        # If the limiter was closed because the endpoint stayed down, or failed attempts may be billed, the outcome is
        # an error with the question's last failure.
        limiter = limiter or RateLimiter(1)
        if too_many := adapters.too_many_images(model, messages):
            return Reply("overflow", 0, error=too_many)
        if model.name not in self._hiders:
            self._hiders[model.name] = hider(registry.api_key(model))
        hide, paid, lost = self._hiders[model.name], self._price(model), FailedUsage()
        number, said = 0, ""

        async def attempt() -> Reply:
            nonlocal number, said
            # The pool of a Python object measures the time: the wait for a call does not count.
            timeout_s = None if model.python else self._policy.timeout_s
            try:
                async with limiter.acquire(first=not number):
                    number += 1
                    call = self._call(model, messages, limiter.most)
                    return await _attempt(model, paid, call, timeout_s, number, hide, lost)
            except TransientError as error:
                said = str(error)
                raise

        try:
            reply = await retried(attempt, self._policy, limiter)
        except TransientError as error:
            reply = Reply("error", number, error=f"{error} (attempts: {number})")
        except ClosedError:
            if not number or not (limiter.given_up or lost.to_record()):
                raise
            reply = Reply("error", number, error=f"{said} (attempts: {number})")
        except asyncio.CancelledError:
            reply = Reply("error", number, error=f"stopped before the reply came (attempts: {number})")
            if (reply := with_failed(reply, lost, paid)).failed_usage is None:
                raise
            raise CutOffError(reply) from None
        return with_failed(reply, lost, paid)

    def _call(
        self, model: Model, messages: Sequence[Message], places: int
    ) -> functools.partial[Coroutine[Any, Any, Any]]:
        """Return the function call that sends the request, without calling it."""
        # Its arguments include the API key, so never log or print the call.
        if model.python is not None:
            pool = self._pool(model, model.python, places)
            picture = self._path if pool.pictures == "path" else self._source.image_bytes
            return functools.partial(pool.ask, conversation(messages, picture), length(messages))
        if data_policy.is_baseline(model):
            return functools.partial(_baseline, model.litellm.removeprefix(registry.BASELINE))
        address = registry.endpoint(model)
        key = registry.api_key(model)
        if address is not None and key is None:
            # Without a key, litellm would send another provider's key from the environment.
            key = KEYLESS
        common = {"api_base": address, "api_key": key}
        pictures = {part.image: self._encoded(part.image) for message in messages for part in message.parts
                    if isinstance(part, Picture)}  # fmt: skip
        if not openai_http.suits(model):
            sent = [
                openai_http.message_record(message, lambda image: openai_http.PNG + pictures[image].decode())
                for message in messages
            ]
            once = {"timeout": self._policy.timeout_s, "num_retries": 0, "max_retries": 0, "no-log": True}
            usual = load_litellm().acompletion
            return functools.partial(usual, **model.decoding, model=model.litellm, messages=sent, **common, **once)
        sent = [openai_http.message_record(message, openai_http.reference) for message in messages]
        return functools.partial(
            _lean().acompletion,
            model=model.litellm.partition("/")[2],
            messages=sent,
            optional_params=model.decoding,
            encoded=pictures.__getitem__,
            **common,
        )

    def _path(self, image: str) -> Path:
        folder = getattr(self._source, "folder", None)
        assert folder is not None, "pictures with paths come from a benchmark only"
        return real(folder / image)

    def _encoded(self, image: str) -> bytes:
        """Return the bytes of a picture's file as base64; the cache keeps the pictures used last."""
        if image in self._pictures:
            self._pictures.move_to_end(image)
            return self._pictures[image]
        data = pybase64.b64encode(self._source.image_bytes(image))
        self._pictures[image] = data
        self._cached += len(data)
        while self._cached > PICTURE_CACHE_BYTES and len(self._pictures) > 1:
            self._cached -= len(self._pictures.popitem(last=False)[1])
        return data


@functools.cache
def load_litellm() -> Any:
    """Import litellm, silence it, and return the module; the import takes seconds."""

    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    os.environ.setdefault("MAX_BASE64_LENGTH_FOR_LOGGING", "0")
    import litellm

    litellm.drop_params = False  # an unsupported parameter is an error, because ``run.json`` records the decoding
    litellm.suppress_debug_info = True
    litellm.num_retries = None
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return litellm


async def _baseline(name: str) -> Any:
    return completion(ModelReply(baselines.reply(name), model=name), 0)


@functools.cache
def _lean() -> Any:
    return openai_http.provider(load_litellm())


async def close() -> None:
    """Close all connections; call it before the event loop ends."""
    await openai_http.close()
    if load_litellm.cache_info().currsize:
        await load_litellm().close_litellm_async_clients()


async def _attempt(
    model: Model, paid: Price | None, call: functools.partial[Coroutine[Any, Any, Any]], timeout_s: float | None,
    number: int, hide: Hider, lost: FailedUsage,
) -> Reply:  # fmt: skip
    """Send one request and return its outcome; raise ``TransientError`` for a failure worth another attempt.

    A failed attempt is added to ``lost``.
    """
    began = time.perf_counter()
    try:
        # litellm's timeout applies to each read: a server that sends a byte now and then never exceeds it.
        async with asyncio.timeout(timeout_s):
            response = await call()
    except asyncio.CancelledError:
        lost.uncounted += 1
        raise
    except TimeoutError:
        text = f"no complete reply within {timeout_s:g} s (the limit is --timeout)"
        return _failed(SendError(text, "timeout"), model, number, hide, lost)
    except Exception as error:  # any error of a provider's code becomes the state of this turn
        return _failed(failures.of(error, load_litellm), model, number, hide, lost)
    latency = response.seconds if model.python else round(time.perf_counter() - began, 4)
    try:
        return reply_of(model, response, paid, hide, number, latency)
    except SendError as error:
        return _failed(error, model, number, hide, lost)


def _failed(error: SendError, model: Model, number: int, hide: Hider, lost: FailedUsage) -> Reply:
    """Return the outcome of a failed attempt; raise ``TransientError`` if another attempt may succeed."""
    lost.add(error)
    verdict = judge(error, hide)
    said = f"{verdict.text}{failures.advice(error, model)}"
    return Reply(verdict.outcome, number, error=said, rejected=True, fatal=verdict.fatal or wants_key(error))


def with_failed(reply: Reply, failed: FailedUsage, paid: Price | None) -> Reply:
    """Return ``reply`` with the failed attempts added: their tokens in ``failed_usage``, their cost in ``cost_usd``.

    ``cost_usd`` is None if the cost of the reply or of a failed attempt is unknown.
    """
    if paid is not None and paid.is_zero:
        failed.uncounted = 0
    if failed.usage is not None:
        is_reply = reply.outcome == "reply" or (reply.latency_s, reply.text, reply.usage) != (None, None, None)
        further, own = _cost(paid, failed.usage), reply.cost_usd if is_reply else 0.0
        reply = replace(reply, cost_usd=None if further is None or own is None else own + further)
    return replace(reply, failed_usage=failed.to_record())


def reply_of(model: Model, response: Any, paid: Price | None, hide: Hider, number: int, latency: float | None) -> Reply:
    """Return the outcome for litellm's response object; raise ``SendError`` for a response without choices.

    ``number`` is the number of the attempt, ``hide`` a function that removes secrets from a text.
    """
    usage = openai_http.usage(response)
    if not response.choices:
        raise SendError("malformed reply: no choices", "malformed", usage=usage)
    choice = response.choices[0]
    text, finish = _text(choice.message.content), _text(choice.finish_reason)
    others = choice.message.provider_specific_fields
    refusal = _text(others.get("refusal")) if isinstance(others, dict) else None
    refused = finish == "content_filter" or bool(refusal and not (text or "").strip())
    is_empty = not (refused or finish == "length" or (text or "").strip())
    # Hide secrets before cutting: a secret that is cut in two would not be recognised.
    return Reply(
        "refused" if refused else "reply",
        number,
        latency,
        reply_limits.text(hide(adapters.strip_tokens(model, text or refusal))),
        reply_limits.short(hide(finish), FINISH_CHARACTERS),
        usage,
        _cost(paid, usage),
        reply_limits.short(hide(_text(response.model))),
        reply_limits.short(hide(failures.without_text(choice.message))) if is_empty else None,
        fell_back=openai_http.FELL_BACK in (getattr(response, "_hidden_params", None) or ()),
        reasoning=reply_limits.text(hide(openai_http.reasoning_of(choice.message))),
        confidence=reply_limits.amount(choice.message.confidence, 1) if model.python else None,
        tokens=openai_http.tokens(choice),
    )


def _text(value: object) -> str | None:
    """Return ``value`` if it is a text, otherwise None: a provider's code may return values of any type."""
    return value if isinstance(value, str) else None


def _cost(paid: Price | None, usage: Usage | None) -> float | None:
    """Return the cost of a reply in dollars; None if it is unknown."""
    if paid is not None and paid.is_zero:
        return 0.0
    if paid is None or usage is None or usage["input_tokens"] is None or usage["output_tokens"] is None:
        return None
    return reply_limits.amount(
        paid.cost_usd(usage["input_tokens"], usage["output_tokens"], usage["cached_tokens"] or 0), reply_limits.MAX_USD
    )


def price(model: Model) -> Price | None:
    """Return the price of a model; None if it is unknown, 0 for baselines and open weights on the user's own server."""
    # The registry's price comes first; at a provider's usual address, litellm's price is used. A server is the user's
    # own if the registry names a variable for its address, or if it is on a private network.
    address = registry.endpoint(model)
    own = model.endpoint_variable or (address is not None and data_policy.is_local(address))
    if data_policy.is_baseline(model) or (model.price is None and model.access == "open" and own):
        return Price(0, 0)
    if model.price is not None or model.endpoint_variable or address:
        return model.price
    table = load_litellm().model_cost
    entry = table.get(model.litellm) or table.get(model.litellm.partition("/")[2]) or {}
    given, said = entry.get("input_cost_per_token"), entry.get("output_cost_per_token")
    if not given or said is None:
        return None
    cached = entry.get("cache_read_input_token_cost")
    return Price(given * 1e6, said * 1e6, None if cached is None else cached * 1e6)
