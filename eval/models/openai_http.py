"""Requests to OpenAI-compatible servers, as a litellm provider that takes little processor time.

In messages, a short placeholder stands for each picture; :func:`encode` replaces it with the encoded picture. A failed
request is not repeated, and redirects are not followed.
"""

from __future__ import annotations

import asyncio
import functools
import json
import re
import ssl
import urllib.request
import zlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from chexqa.contract import reply_limits
from chexqa.contract.items import Picture
from chexqa.eval.models import registry
from chexqa.eval.models.failures import SendError, Usage, kind_of, no_connection, of_status, one_line
from chexqa.eval.models.rate_limit import Failure
from chexqa.eval.models.registry import Model
from chexqa.eval.prompts.protocols import Message

if TYPE_CHECKING:
    import aiohttp

SERVED = ("hosted_vllm", "litellm_proxy", "openai")
# In this header LiteLLM's proxy gives the number of models that it tried before the one that answered.
FALLBACKS = "x-litellm-attempted-fallbacks"
FELL_BACK = "chexqa_fell_back"
# Servers close an idle connection after 5 s (uvicorn) or later; reusing a connection as it closes costs an attempt.
KEEP_ALIVE_S = 4.0
# Limit in bytes on a reply, packed and unpacked. The longest replies, with all token probabilities, have a tenth of it.
MAX_REPLY_BYTES = 2**24
# Servers write the log-probability of an impossible token as minus infinity or as -9999.
LEAST_LOGPROB = -9999.0
PNG = "data:image/png;base64,"
# Finish reasons of other APIs, in lower case, which gateways pass on; the values are OpenAI's.
_FINISH = dict.fromkeys(("length", "max_tokens", "max_output_tokens", "model_length"), "length") | dict.fromkeys(
    ("content_filter", "refusal", "safety", "image_safety", "recitation", "blocklist", "prohibited_content", "spii"),
    "content_filter",
)
# A comment line of a stream. Gateways send such lines, and blank ones, while a model works, also before a plain reply.
_COMMENT = re.compile(rb"\s*:[^\n]*\n")
# Base64 never begins with @, and quotes in a text are escaped, so only references match.
_REFERENCE = re.compile(rb'(?<="url":"%s)@([^"\\]+)(?=")' % PNG.encode())

_USAGE = (
    "prompt_tokens", "completion_tokens", "total_tokens", "reasoning_tokens", "cache_read_input_tokens",
    "prompt_cache_hit_tokens",
)  # fmt: skip
_DETAILS = {"prompt_tokens_details": ("cached_tokens",), "completion_tokens_details": ("reasoning_tokens",)}

Encoded = Callable[[str], bytes]
"""Function from a picture's path to its base64."""

_sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, aiohttp.ClientSession] = WeakKeyDictionary()


def suits(model: Model) -> bool:
    """Return True if the model has a server's address and is asked in OpenAI's protocol."""
    return registry.endpoint(model) is not None and model.litellm.partition("/")[0] in SERVED


def reference(picture: str) -> str:
    """Return the placeholder that stands in a message for the data URL of a picture; :func:`encode` replaces it.

    ``picture`` is a path without quotes or backslashes.
    """
    return f"{PNG}@{picture}"


def provider(litellm: Any) -> Any:
    """Return the handler, an instance of ``litellm.CustomLLM``, which the client calls directly."""
    # litellm's callbacks, caches, prices and parameters of other providers would double the processor time of a turn,
    # and no setting turns them off.

    class Lean(litellm.CustomLLM):  # type: ignore[misc, name-defined, unused-ignore]
        async def acompletion(self, *args: Any, **kwargs: Any) -> Any:
            """Send ``messages`` and return the reply; raise ``SendError`` for any failure."""
            body = encode(kwargs["model"], kwargs["messages"], kwargs["optional_params"], kwargs["encoded"])
            answer, fell_back = await _post(kwargs["api_base"], kwargs["api_key"], body)
            response = filled(litellm, litellm.ModelResponse(), answer)
            if fell_back:
                response._hidden_params[FELL_BACK] = True
            return response

    return Lean()


async def close() -> None:
    """Close this event loop's connections."""
    session = _sessions.pop(asyncio.get_running_loop(), None)
    if session is not None:
        await session.close()


def encode(
    model: str, messages: Sequence[Mapping[str, Any]], settings: Mapping[str, Any], encoded: Encoded
) -> list[bytes]:
    """Return the JSON body of a request, with pictures in place of their placeholders, as pieces to be joined.

    ``encoded`` is a function from a picture's path to its base64.
    """
    record = {"model": model, "messages": messages, **settings}
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()
    pieces = _REFERENCE.split(text)
    return [encoded(piece.decode()) if place % 2 else piece for place, piece in enumerate(pieces)]


def message_record(message: Message, url: Callable[[str], str]) -> dict[str, Any]:
    """Return a message in the format of OpenAI's API; ``url`` turns a picture's path into its URL."""
    if message.role != "user":
        return {"role": message.role, "content": "".join(str(part) for part in message.parts)}
    parts = [
        {"type": "image_url", "image_url": {"url": url(part.image)}}
        if isinstance(part, Picture)
        else {"type": "text", "text": part}
        for part in message.parts
    ]
    return {"role": "user", "content": parts}


async def _post(address: str, key: str, body: list[bytes]) -> tuple[Any, bool]:
    """Return the server's reply as JSON, and True if it says that another model answered.

    Raise ``SendError`` for any failure. The caller sets the time limit.
    """
    import aiohttp

    size = sum(map(len, body))
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json", "Content-Length": str(size),
               "Accept-Encoding": "identity"}  # fmt: skip
    try:
        async with _session().post(
            f"{address.rstrip('/')}{registry.CHAT}",
            data=_pieces(body),
            headers=headers,
            allow_redirects=False,  # the data policy checked only the given address
            proxy=_proxy(address),
        ) as response:
            data = await _read(response)
    except aiohttp.ClientConnectorError as error:
        raise SendError(no_connection(address, error.os_error), "connection") from None
    except (aiohttp.ClientError, OSError) as error:
        text = f"the connection to {address} was interrupted ({type(error).__name__})"
        raise SendError(text, "connection", unanswered=True) from None
    if response.status != 200:
        raise of_status(response.status, response.headers, data)
    begin = 0
    while comment := _COMMENT.match(data, begin):
        begin = comment.end()
    data = data[begin:]
    try:
        # Not strict: some servers write line breaks in a text as they are.
        return json.loads(data, strict=False), response.headers.get(FALLBACKS, "0").strip() not in ("", "0")
    except (ValueError, RecursionError):
        raise _malformed(data) from None


def _malformed(data: bytes) -> SendError:
    """Return the failure for a body that is not JSON.

    A page comes from a proxy, so the endpoint counts as down. A server that streams would stream again, so that another
    attempt would only cost again.
    """
    start = data[:200].lstrip().lower()
    kind: Failure | None = "malformed"
    what = f"not JSON but '{one_line(data)}'"
    if not start:
        what = "an empty body"
    elif start.startswith((b"<!doctype html", b"<html")):
        what, kind = f"not JSON but an HTML page, perhaps from a proxy or a login: '{one_line(data)}'", "connection"
    elif start.startswith(b"data:"):
        what, kind = f"not JSON but a stream, which was not asked for: '{one_line(data)}'", None
    return SendError(f"malformed reply: {what}", kind, unanswered=kind is None)


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """Return the unpacked body of a reply; raise ``SendError`` for more than :data:`MAX_REPLY_BYTES`."""
    coding = response.headers.get("Content-Encoding", "").strip().lower()
    if coding not in ("", "identity", "gzip", "x-gzip", "deflate"):
        raise _unread(response, f"a reply compressed as '{coding[:40]}', which was not requested")
    # Adding 32 makes zlib detect gzip or zlib from the header.
    unpacker = zlib.decompressobj(zlib.MAX_WBITS + 32) if coding not in ("", "identity") else None
    came, data = 0, bytearray()
    async for piece in response.content.iter_any():
        came += len(piece)
        try:
            # Unpack at most one byte beyond the bound; the rest stays packed.
            data += unpacker.decompress(piece, MAX_REPLY_BYTES + 1 - len(data)) if unpacker else piece
        except zlib.error:
            raise _unread(response, f"a reply that is not compressed as its header says ({coding})") from None
        if max(came, len(data)) > MAX_REPLY_BYTES:
            raise _unread(response, f"a reply of more than {MAX_REPLY_BYTES // 2**20} MB")
    return bytes(data)


def _unread(response: aiohttp.ClientResponse, what: str) -> SendError:
    """Return the failure for a reply that could not be read to its end; its kind follows from the HTTP status."""
    if response.status == 200:
        return SendError(f"{what}; the reply was not read", None, unanswered=True)
    text = f"HTTP {response.status}: {what}; the reply was not read"
    return SendError(text, kind_of(response.status), response.status, response.headers)


async def _pieces(body: list[bytes]) -> AsyncIterator[bytes]:
    for piece in body:
        yield piece


def _session() -> aiohttp.ClientSession:
    """Return this event loop's session."""
    # The session does not limit concurrent requests; the runner limits them.
    import aiohttp

    loop = asyncio.get_running_loop()
    if loop not in _sessions:
        connector = aiohttp.TCPConnector(limit=0, ssl=_certificates(), keepalive_timeout=KEEP_ALIVE_S)
        no_limit = aiohttp.ClientTimeout(total=None, sock_connect=None)
        _sessions[loop] = aiohttp.ClientSession(
            connector=connector, timeout=no_limit, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
        )
    return _sessions[loop]


@functools.cache
def _certificates() -> ssl.SSLContext:
    """Return a TLS context that trusts the certificate authorities of the system and of certifi."""
    # On some systems Python finds no system authorities.
    import certifi

    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context


@functools.cache
def _proxy(address: str) -> str | None:
    """Return the proxy for an address from the environment variables, or None."""
    # Read as by ``data_policy.is_local``.
    parts = urlsplit(address)
    proxies = urllib.request.getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if proxy is None or urllib.request.proxy_bypass(parts.netloc):
        return None
    return proxy if "//" in proxy else f"http://{proxy}"


def filled(litellm: Any, response: Any, answer: Any) -> Any:
    """Copy the server's ``answer`` into litellm's ``response``; return the response.

    Raise ``SendError`` if the answer is malformed.
    """
    counts = _counts(answer.get("usage")) if isinstance(answer, dict) else None
    if counts:
        with suppress(TypeError, ValueError):  # impossible counts are unknown, as if the reply had no usage
            response.usage = litellm.Usage(**counts)
    try:
        choice = answer["choices"][0]
        message, content = choice["message"], choice["message"].get("content")
        finish, refusal = choice.get("finish_reason"), message.get("refusal")
        name = answer.get("model")
    except (TypeError, KeyError, IndexError, AttributeError):
        error = answer.get("error") if isinstance(answer, dict) else None
        said = f" but an error: {one_line(json.dumps(error).encode())}" if error else ""
        raise SendError(f"malformed reply: no choices{said}", "malformed", usage=usage(response)) from None
    # OpenRouter's replies if the provider behind it fails, before it writes a text or within the text.
    if finish == "error" or (not content and isinstance(choice.get("error"), dict)):
        said = one_line(json.dumps(choice.get("error") or finish).encode())
        what = "a broken text and an error" if content else "no text but an error"
        raise SendError(f"malformed reply: {what}: {said}", "malformed", usage=usage(response))
    if isinstance(content, list):
        content = "".join(
            str(part.get("text") or "") if isinstance(part, dict) else part
            for part in content
            if isinstance(part, dict | str)
        )
    if not (content is None or isinstance(content, str)):
        raise SendError("malformed reply: its content is not text", "malformed", usage=usage(response))
    first = response.choices[0]
    first.message.content = content
    first.message.tool_calls = message.get("tool_calls") or list(filter(None, [message.get("function_call")]))
    reasoning = _reasoning(message)
    if reasoning:
        first.message.reasoning_content = reasoning
    first.message.provider_specific_fields = {"refusal": refusal} if isinstance(refusal, str) else None
    first.finish_reason = _FINISH.get(finish.lower(), finish) if isinstance(finish, str) else None
    if choice.get("logprobs"):
        first.logprobs = choice["logprobs"]
    response.model = name if isinstance(name, str) else None
    return response


def usage(response: Any) -> Usage | None:
    """Return the token counts of litellm's ``response``; None if the server sent none."""
    given = getattr(response, "usage", None)
    if given is None:
        return None
    said, sent = given.completion_tokens_details, given.prompt_tokens_details
    counts = {
        "input_tokens": reply_limits.count(given.prompt_tokens),
        "output_tokens": reply_limits.count(given.completion_tokens),
        "reasoning_tokens": reply_limits.count(said.reasoning_tokens) if said else None,
        "cached_tokens": reply_limits.count(sent.cached_tokens) if sent else None,
    }
    return counts if counts["input_tokens"] else None  # litellm replaces missing counts by zeros


def reasoning_of(message: Any) -> str | None:
    """Return the reasoning that the server sent apart from the reply's text; None if there is none."""
    text = getattr(message, "reasoning_content", None)
    if not isinstance(text, str):
        blocks = getattr(message, "thinking_blocks", None)
        said = [block.get("thinking") for block in blocks or () if isinstance(block, dict)]
        text = "\n\n".join(part for part in said if isinstance(part, str))
    return text if text.strip() else None


def tokens(choice: Any) -> tuple[tuple[str, float], ...] | None:
    """Return the tokens of a reply with their log-probabilities; None if these are missing or impossible."""
    given = getattr(choice, "logprobs", None)
    listed = _value(given, "content")
    if not isinstance(listed, list) or not listed:
        return None
    pairs = [(_value(one, "token"), _value(one, "logprob")) for one in listed]
    if not all(isinstance(text, str) and isinstance(number, int | float) and number <= 1e-3 for text, number in pairs):
        return None
    return tuple((text, max(float(number), LEAST_LOGPROB)) for text, number in pairs)


def _value(record: Any, name: str) -> Any:
    return record.get(name) if isinstance(record, dict) else getattr(record, name, None)


def _reasoning(message: Mapping[str, Any]) -> str:
    """Return the reasoning that a server sends apart from the reply's text; "" if none."""
    # It is in a field of its own (two names are in use), or in parts of the content.
    for name in ("reasoning_content", "reasoning"):
        if isinstance(message.get(name), str):
            return str(message[name])
    content = message.get("content")
    parts = [part.get("thinking") for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    inner = [one for part in parts for one in (part if isinstance(part, list) else [part])]
    texts = [one.get("text") if isinstance(one, dict) else one for one in inner]
    return "\n\n".join(text for text in texts if isinstance(text, str))


def _counts(usage: object) -> dict[str, Any]:
    """Return a server's field ``usage`` under litellm's names; empty if the input or output count is missing."""
    # A missing count must stay unknown, but litellm would take it for zero.
    given = usage if isinstance(usage, dict) else {}
    if (
        reply_limits.count(given.get("prompt_tokens")) is None
        or reply_limits.count(given.get("completion_tokens")) is None
    ):
        return {}
    counts = {name: reply_limits.count(given.get(name)) for name in _USAGE}
    details = {
        name: {inner: reply_limits.count(given[name].get(inner)) for inner in inners}
        for name, inners in _DETAILS.items()
        if isinstance(given.get(name), dict)
    }
    return {name: value for name, value in (counts | details).items() if value is not None}
