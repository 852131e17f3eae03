"""One question to one model through litellm, with our own patience around it.

The only module that imports litellm, and only when a question is asked: the import takes seconds. litellm's own
retries, callbacks, price download and parameter dropping are off. A parameter that litellm knows a provider to lack is
an error, because a silent drop would change the decoding that ``run.json`` records.
"""

from __future__ import annotations

import base64
import email.utils
import functools
import logging
import math
import os
import random
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import tenacity

from chexqa.benchmark import Benchmark
from chexqa.errors import InputError
from chexqa.eval import access, baselines, registry
from chexqa.eval.protocols import Message
from chexqa.eval.registry import Model
from chexqa.items import Picture

PICTURE_CACHE_BYTES = 128 * 2**20
KEYLESS = "none"
SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")
ERROR_CHARACTERS = 300
# What providers write where litellm has no class for it; looked for in refusals of a request (4xx) alone.
OVERFLOW_WORDS = (
    "context length", "context window", "maximum model length", "max_model_len", "too many tokens",
    "prompt is too long", "input token count",
)  # fmt: skip
REFUSAL_WORDS = (
    "content_policy", "content policy", "content_filter", "content management policy", "safety system",
    "usage policies", "usage policy",
)  # fmt: skip
REJECTED = (400, 403, 413, 422)
SAME_FOR_ALL = (401, 404)


Hider = Callable[[str | None], str | None]


@dataclass(frozen=True)
class Policy:
    """Patience: attempts at a question, seconds for each, and the waits between them.

    The wait doubles from ``backoff_s`` up to ``backoff_limit_s``; a server's Retry-After goes before, up to
    ``retry_after_limit_s``.
    """

    attempts: int = 6
    timeout_s: float = 600.0
    backoff_s: float = 1.0
    backoff_limit_s: float = 60.0
    retry_after_limit_s: float = 120.0


@dataclass(frozen=True)
class Reply:
    """What came back. ``outcome``: a ``reply``, or ``refused``, ``overflow`` or ``error``; ``fatal``: so would all be.

    Where nothing is known of a number it is None, a price included.
    """

    outcome: Literal["reply", "refused", "overflow", "error"]
    attempts: int
    latency_s: float | None = None
    text: str | None = None
    finish_reason: str | None = None
    usage: dict[str, int | None] | None = None
    cost_usd: float | None = None
    provider_model: str | None = None
    error: str | None = None
    fatal: bool = False


class _PassingError(Exception):
    """A failure that may pass: worth another attempt, after ``retry_after`` seconds where the server said so."""

    def __init__(self, text: str, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.retry_after = retry_after


class Client:
    """Asks the questions of one benchmark; each picture is encoded once, as long as it fits the cache."""

    def __init__(self, benchmark: Benchmark, policy: Policy | None = None) -> None:
        """Without a ``policy`` its defaults hold."""
        self._benchmark = benchmark
        self._policy = policy or Policy()
        self._pictures: OrderedDict[str, str] = OrderedDict()
        self._cached = 0
        self._hiders: dict[str, Hider] = {}

    def check(self, model: Model) -> None:
        """Refuse a model whose id litellm cannot place with a provider; asks nothing."""
        litellm = load_litellm()
        try:
            litellm.get_llm_provider(model.litellm, api_base=registry.endpoint(model))
        except litellm.BadRequestError:
            raise InputError(
                f"model '{model.name}': litellm knows no provider for '{model.litellm}'; write provider/model, or give "
                "the address of an OpenAI-compatible server (--api-base)."
            ) from None
        if access.is_baseline(model):
            baselines.check_name(model.litellm.removeprefix(access.BASELINE))

    async def ask(self, model: Model, messages: Sequence[Message]) -> Reply:
        """Send the messages and return what became of them; raises only for a picture that cannot be read."""
        request = self._request(model, messages)
        if model.name not in self._hiders:
            self._hiders[model.name] = hider(request["api_key"])
        hide = self._hiders[model.name]
        policy = self._policy
        number = 0
        try:
            async for attempt in tenacity.AsyncRetrying(
                stop=tenacity.stop_after_attempt(policy.attempts),
                wait=functools.partial(_wait, policy),
                retry=tenacity.retry_if_exception_type(_PassingError),
                reraise=True,
            ):
                with attempt:
                    number = attempt.retry_state.attempt_number
                    return await _attempt(model, request, number, hide)
        except _PassingError as error:
            return Reply("error", number, error=f"{error} (attempts: {number})")
        raise AssertionError("tenacity neither returned nor raised")

    def _request(self, model: Model, messages: Sequence[Message]) -> dict[str, Any]:
        """The arguments of the call, the key among them: never log or print this."""
        address = registry.endpoint(model)
        key = registry.api_key(model)
        if address is not None and key is None:
            # Without one litellm would send another provider's key, taken from the environment.
            key = KEYLESS
        return {
            **model.decoding,
            "model": model.litellm,
            "messages": [self._message(message) for message in messages],
            "api_base": address,
            "api_key": key,
            "timeout": self._policy.timeout_s,
            "num_retries": 0,
            "max_retries": 0,
            "no-log": True,
        }

    def _message(self, message: Message) -> dict[str, Any]:
        if message.role != "user":
            return {"role": message.role, "content": "".join(str(part) for part in message.parts)}
        parts = [
            {"type": "image_url", "image_url": {"url": self._data_url(part)}}
            if isinstance(part, Picture)
            else {"type": "text", "text": part}
            for part in message.parts
        ]
        return {"role": "user", "content": parts}

    def _data_url(self, picture: Picture) -> str:
        """The file's own bytes as a data URL; the pictures used last are kept."""
        if picture.image in self._pictures:
            self._pictures.move_to_end(picture.image)
            return self._pictures[picture.image]
        data = base64.b64encode(self._benchmark.image_bytes(picture.image)).decode()
        url = f"data:image/png;base64,{data}"
        self._pictures[picture.image] = url
        self._cached += len(url)
        while self._cached > PICTURE_CACHE_BYTES and len(self._pictures) > 1:
            self._cached -= len(self._pictures.popitem(last=False)[1])
        return url


def _wait(policy: Policy, state: tenacity.RetryCallState) -> float:
    """Seconds until the next attempt."""
    error = state.outcome.exception() if state.outcome else None
    if isinstance(error, _PassingError) and error.retry_after is not None:
        return min(error.retry_after, policy.retry_after_limit_s)
    longest = min(policy.backoff_s * 2 ** (state.attempt_number - 1), policy.backoff_limit_s)
    return float(longest) * random.uniform(0.5, 1.0)


@functools.cache
def load_litellm() -> Any:
    """litellm, imported now and made quiet; the baselines are registered as its provider ``baseline``."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    os.environ.setdefault("MAX_BASE64_LENGTH_FOR_LOGGING", "0")
    import litellm

    litellm.drop_params = False
    litellm.suppress_debug_info = True
    litellm.num_retries = None
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.CRITICAL)

    class Baseline(litellm.CustomLLM):  # type: ignore[misc, name-defined, unused-ignore]
        """The provider ``baseline``: see :mod:`chexqa.eval.baselines`."""

        async def acompletion(self, *args: Any, **kwargs: Any) -> Any:
            response = kwargs["model_response"]
            response.model = kwargs["model"]
            response.choices[0].message.content = baselines.reply(kwargs["model"])
            response.choices[0].finish_reason = "stop"
            return response

    litellm.custom_provider_map = [{"provider": access.BASELINE.rstrip("/"), "custom_handler": Baseline()}]
    return litellm


async def close() -> None:
    """Close litellm's connections; call it before the event loop ends."""
    await load_litellm().close_litellm_async_clients()


async def _attempt(model: Model, request: dict[str, Any], number: int, hide: Hider) -> Reply:
    """One request; raises ``_PassingError`` for what is worth repeating."""
    litellm = load_litellm()
    began = time.perf_counter()
    try:
        response = await litellm.acompletion(**request)
    except Exception as error:  # whatever a provider's code raises becomes a state of this one turn
        return _failed(litellm, error, number, hide)
    latency = round(time.perf_counter() - began, 4)
    if not response.choices:
        raise _PassingError("malformed reply: no choices")
    choice = response.choices[0]
    text = choice.message.content
    refusal = (choice.message.provider_specific_fields or {}).get("refusal")
    refused = choice.finish_reason == "content_filter" or bool(refusal and not (text or "").strip())
    usage = _usage(response)
    return Reply(
        "refused" if refused else "reply",
        number,
        latency,
        hide(text or refusal),
        choice.finish_reason,
        usage,
        _cost(litellm, model, response, usage),
        hide(response.model),
    )


def _failed(litellm: Any, error: Exception, number: int, hide: Hider) -> Reply:
    """The state a failed request ends in, or ``_PassingError`` where another attempt may do."""
    status = getattr(error, "status_code", None)
    text = _error_text(error, hide)
    if isinstance(error, litellm.ContextWindowExceededError):
        return Reply("overflow", number, error=text)
    if isinstance(error, litellm.ContentPolicyViolationError):
        return Reply("refused", number, error=text)
    if status in REJECTED:
        lowered = str(error).lower()
        if any(words in lowered for words in OVERFLOW_WORDS):
            return Reply("overflow", number, error=text)
        if any(words in lowered for words in REFUSAL_WORDS):
            return Reply("refused", number, error=text)
    # litellm gives a reply that it cannot read the status 200 or 500, a dropped connection 500, a timeout 408 or 504.
    if status in (200, 408, 429) or (isinstance(status, int) and status >= 500):
        raise _PassingError(text, _retry_after(error))
    fatal = status in SAME_FOR_ALL or isinstance(error, litellm.UnsupportedParamsError)
    return Reply("error", number, error=text, fatal=fatal)


def _error_text(error: Exception, hide: Hider) -> str:
    """One line that says what went wrong: status, the provider's words in short, no secret, no traceback."""
    words = " ".join(str(error).partition("Traceback (most recent call last)")[0].split())
    status = getattr(error, "status_code", None)
    text = f"{type(error).__name__}{f' {status}' if status else ''}: {hide(words)}"
    return text if len(text) <= ERROR_CHARACTERS else text[: ERROR_CHARACTERS - 1] + "…"


def _retry_after(error: Exception) -> float | None:
    """Seconds the server asks to wait (header Retry-After, as seconds or as a date), if it does."""
    for headers in (getattr(error, "litellm_response_headers", None), getattr(error, "headers", None)):
        value = headers.get("retry-after") if headers else None
        if value is None:
            continue
        try:
            seconds = float(value)
        except ValueError:
            try:
                seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
            except ValueError:
                continue
        return max(seconds, 0.0) if math.isfinite(seconds) else None
    return None


def _usage(response: Any) -> dict[str, int | None] | None:
    """Token counts; None where the server sent none (litellm then fills in zeros, and no request has zero tokens)."""
    usage = getattr(response, "usage", None)
    if usage is None or not usage.prompt_tokens:
        return None
    output, given = usage.completion_tokens_details, usage.prompt_tokens_details
    return {
        "input_tokens": usage.prompt_tokens,
        "output_tokens": usage.completion_tokens,
        "reasoning_tokens": output.reasoning_tokens if output else None,
        "cached_tokens": given.cached_tokens if given else None,
    }


def _cost(litellm: Any, model: Model, response: Any, usage: dict[str, int | None] | None) -> float | None:
    """Dollars: by the registry's price, else by litellm's table at the provider's own address, else None: unknown."""
    price = model.price
    if price is not None and price.input_per_million_usd == price.output_per_million_usd == 0:
        return 0.0
    if usage is None or usage["input_tokens"] is None or usage["output_tokens"] is None:
        return None
    if price is not None:
        paid = usage["input_tokens"] * price.input_per_million_usd
        return (paid + usage["output_tokens"] * price.output_per_million_usd) / 1e6
    if registry.endpoint(model) is not None or not _is_priced(litellm, model.litellm):
        return None
    return float(litellm.completion_cost(completion_response=response, model=model.litellm))


def _is_priced(litellm: Any, model_id: str) -> bool:
    """Whether litellm's table has the model, with a price."""
    entry = litellm.model_cost.get(model_id) or litellm.model_cost.get(model_id.partition("/")[2]) or {}
    return bool(entry.get("input_cost_per_token"))


def hider(key: str | None) -> Hider:
    """A function that takes secrets out of a text: ``key``, and every environment variable named like a secret."""
    named = (value.strip() for name, value in os.environ.items() if any(word in name.upper() for word in SECRET_WORDS))
    secrets = {value for value in named if len(value) >= 8}
    if key and key != KEYLESS:
        secrets.add(key)
    ordered = sorted(secrets, key=len, reverse=True)

    def hide(text: str | None) -> str | None:
        for secret in ordered if text else ():
            text = text and text.replace(secret, "[secret]")
        return text

    return hide
