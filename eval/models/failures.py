"""Decision on a failed request: it is sent again, or its turn ends with a final state.

Every failure becomes a :class:`SendError`, and :func:`judge` alone decides what follows.
"""

from __future__ import annotations

import errno
import json
import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from chexqa.contract import reply_limits
from chexqa.eval.local.replies import CallError
from chexqa.eval.models import registry
from chexqa.eval.models.rate_limit import Failure, TransientError, retry_after
from chexqa.eval.models.registry import Model
from chexqa.files.errors import InputError
from chexqa.files.redact import Hider

BODY_CHARACTERS = 4000
ERROR_CHARACTERS = 300
# Number of bytes that are read of a reply that is not JSON.
WORDS_BYTES = 2**16
# Words of providers for a prompt that is too long, if litellm has no error class for this error. Only refusals of a
# request (4xx) are searched for these words.
OVERFLOW_WORDS = (
    "context length", "context window", "maximum model length", "max_model_len", "too many tokens",
    "prompt is too long", "input token count",
    # llama.cpp, LM Studio, and text-generation-inference (whose two names stand in backticks)
    "available context size", "exceed_context_size", "context overflows", "context the overflows",
    "`inputs` tokens + `max_new_tokens` must be", "`inputs` must have less than",
)  # fmt: skip
REFUSAL_WORDS = (
    "content_policy", "content policy", "content_filter", "content management policy", "safety system",
    "usage policies", "usage policy",
)  # fmt: skip
# Words of servers for a missing or wrong key, if the status is not 401. LiteLLM's proxy searches a database for a
# wrong key; without a database it reports that.
KEY_WORDS = (
    "api key", "api_key", "apikey", "no_db_connection", "no connected db", "authentication", "unauthorized",
    "bearer token",
)  # fmt: skip
# Words of vLLM for more pictures than it was told to take.
IMAGES_WORDS = ("image(s) may be provided", "limit-mm-per-prompt")
REJECTED = (400, 403, 413, 422)
# Words of providers for an account or a budget that is used up, which waiting does not mend.
SPENT_WORDS = ("insufficient_quota", "budget_exceeded", "budget has been exceeded", "credit balance is too low")
SAME_FOR_ALL = (401, 402, 404)

Outcome = Literal["refused", "overflow", "error"]
Usage = dict[str, int | None]
"""Token counts under the names of a turn's field ``usage``."""


class SendError(Exception):
    """Failed request.

    - ``text``: the failure in one line.
    - ``kind``: the kind of a transient failure; None for any other failure.
    - ``status``: the HTTP status, if there is one.
    - ``headers``, ``body``: the headers of the server's reply, and the beginning of its body.
    - ``outcome``: the final state of the turn, if it is already known.
    - ``fatal``: True if every other request would fail, too.
    - ``usage``: the token counts that the server sent with the failure, if there are any.
    - ``may_be_billed``: True if the provider may bill the request although the server sent no token counts.
    """

    def __init__(
        self,
        text: str,
        kind: Failure | None,
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        body: str = "",
        *,
        outcome: Outcome | None = None,
        fatal: bool = False,
        usage: Usage | None = None,
        unanswered: bool = False,
    ) -> None:
        super().__init__(text)
        # ``unanswered`` is True if the request may have reached the server, but no usable reply came back.
        self.usage, self.may_be_billed = usage, usage is None and (unanswered or kind in ("timeout", "malformed"))
        self.text, self.status, self.headers, self.body = text, status, headers or {}, body
        is_spent = status in (400, 403, 429) and any(words in body.lower() for words in SPENT_WORDS)
        self.kind = None if is_spent else kind
        self.outcome, self.fatal = outcome, fatal or is_spent or status in SAME_FOR_ALL


@dataclass
class FailedUsage:
    """Tokens of the failed attempts at one question.

    - ``usage``: the sums of all token counts that the server sent with failures; None if it sent none.
    - ``uncounted``: the number of failed attempts that the provider may bill although the server sent no token counts.
    """

    usage: Usage | None = None
    uncounted: int = 0

    def add(self, error: SendError) -> None:
        """Add a failed attempt."""
        self.uncounted += error.may_be_billed
        if error.usage is not None:
            before = self.usage or {}
            self.usage = {name: (before.get(name) or 0) + (count or 0) for name, count in error.usage.items()}

    def to_record(self) -> dict[str, int] | None:
        """Return a turn's field ``failed_usage``; None if the failed attempts used nothing."""
        if self.usage is None and not self.uncounted:
            return None
        sums = {name: (self.usage or {}).get(name) or 0 for name in ("input_tokens", "output_tokens")}
        used = {name: min(count, reply_limits.MAX_TOKENS) for name, count in sums.items()}
        return {**used, "uncounted_attempts": self.uncounted}


class Verdict(NamedTuple):
    """Final state of a turn after a failed request; ``fatal`` is True if every other request would fail, too."""

    outcome: Outcome
    text: str
    fatal: bool = False


def judge(error: SendError, hide: Hider) -> Verdict:
    """Return the final state after a failed request; raise ``TransientError`` if another attempt may succeed.

    ``hide`` is a function that removes secrets from the error's text.
    """
    text = reply_limits.short(hide(error.text), ERROR_CHARACTERS) or ""
    if error.outcome is not None:
        return Verdict(error.outcome, text)
    if error.status in REJECTED:
        lowered = error.body.lower()
        if any(words in lowered for words in OVERFLOW_WORDS):
            return Verdict("overflow", text)
        if any(words in lowered for words in REFUSAL_WORDS):
            return Verdict("refused", text)
    if error.kind is not None:
        raise TransientError(text, error.kind, retry_after(error.headers))
    return Verdict("error", text, error.fatal)


def of_status(status: int, headers: Mapping[str, str], data: bytes) -> SendError:
    """Return the error for a reply with an HTTP status other than 200; ``data`` is the body of the reply."""
    try:
        record = json.loads(data)
    except (ValueError, RecursionError):
        record = None
    said = record.get("error", record) if isinstance(record, dict) else None
    said = said.get("message") or said.get("detail") if isinstance(said, dict) else said
    text = " ".join(said.split()) if isinstance(said, str) else one_line(data)
    text = f"HTTP {status}: {text}" if text else f"HTTP {status} with an empty reply"
    if 300 <= status < 400 and (place := headers.get("Location")):
        text += f" (it leads to {one_line(place.encode(errors='replace'))}, where nothing is sent; check the address)"
    return SendError(text, kind_of(status), status, headers, data[:BODY_CHARACTERS].decode(errors="replace"))


def wants_key(error: SendError) -> bool:
    """Return True if the server refused the request because the API key is missing or wrong."""
    body = error.body.lower()
    return error.status == 401 or (error.status in (400, 403) and any(words in body for words in KEY_WORDS))


def of(error: Exception, litellm: Callable[[], Any]) -> SendError:
    """Return the failure for an exception that was raised while a model was asked.

    ``litellm`` is a function that returns the litellm module.
    """
    if isinstance(error, SendError):
        return error
    if isinstance(error, CallError):
        return of_local(error)
    if isinstance(error, InputError):  # litellm could not be loaded
        return SendError(str(error), None, fatal=True)
    return of_litellm(litellm(), error)


def advice(error: SendError, model: Model) -> str:
    """Return advice to append to the error of a refused request, such as `` (no key was sent: …)``; "" if none."""
    address = registry.endpoint(model)
    if address is None:
        return ""
    if wants_key(error):
        if registry.api_key(model) is not None:
            return f" (the server does not accept the key in {model.key_variable})"
        if model.key_variable is None:
            return (
                " (no key was sent: set key_variable of the model, in the models file, to the name of the environment "
                "variable with the key)"
            )
        return f" (no key was sent: set {model.key_variable} to the server's key)"
    own_protocol = model.litellm.partition("/")[0] in registry.OWN_PROTOCOLS
    if error.status in (404, 405) and "/v" not in urlsplit(address).path and not own_protocol:
        return f" (requests went to {address}{registry.CHAT}; the address of a server usually ends in /v1)"
    argument = _refused_argument(error)
    if argument in model.decoding:
        return f" (--set {argument}=VALUE changes this argument of the request, --set {argument}=null leaves it out)"
    if error.status == 413 or (error.status in REJECTED and any(words in error.body.lower() for words in IMAGES_WORDS)):
        return " (raise the server's limit, or send fewer pictures at once with --protocol independent)"
    return ""


def without_text(message: Any) -> str:
    """Return words that say what ``message``, a reply without text, contains instead."""
    calls = getattr(message, "tool_calls", None)
    if isinstance(calls, list) and calls:
        return "the reply has no text, only calls of tools, which chexqa does not offer; turn them off on the server"
    if getattr(message, "reasoning_content", None) or getattr(message, "thinking_blocks", None):
        return "the reply has no text, only reasoning; raise --max-tokens, or turn reasoning off or down"
    return "the reply has no text"


def _refused_argument(error: SendError) -> str | None:
    """Return the argument of the request that a server names as the cause of its refusal; None if it names none."""
    try:
        said = json.loads(error.body)
    except (ValueError, RecursionError):
        return None
    said = said.get("error", said) if isinstance(said, dict) else None
    named = said.get("param") if isinstance(said, dict) and error.status in REJECTED else None
    return named if isinstance(named, str) else None


def of_local(error: CallError) -> SendError:
    """Return the failure for an exception raised by a model that is a Python object."""
    outcome: Outcome | None = "overflow" if error.overflow else None
    return SendError(error.text, error.kind, outcome=outcome, fatal=error.fatal)


def of_litellm(litellm: Any, error: Exception) -> SendError:
    """Return the failure for an error raised by litellm's own providers; its text has no traceback."""
    # litellm makes up statuses: 500 for a failed connection, 408 or 504 for a timeout, and 200 or 500 for a reply that
    # it cannot read.
    said = str(error)
    words = one_line(said.partition("Traceback (most recent call last)")[0].encode(errors="replace"))
    status = getattr(error, "status_code", None)
    status = status if isinstance(status, int) else None
    headers = getattr(error, "litellm_response_headers", None) or getattr(error, "headers", None)
    name = type(error).__name__
    outcome = _outcome(litellm, error)
    unreached = _unreached(error) if status in (500, None) else None
    # For batches, litellm raises the error of the library openai, of which its own is a subclass.
    broken = any(one.__name__ == litellm.APIConnectionError.__name__ for one in type(error).__mro__)
    if unreached is not None or broken:
        text = unreached or f"{name}: {words}"
        return SendError(text, "connection", outcome=outcome, unanswered=unreached is None)
    kind: Failure | None = "malformed" if status == 200 else kind_of(status) if status else None
    text, fatal = f"{name}{f' {status}' if status else ''}: {words}", isinstance(error, litellm.UnsupportedParamsError)
    return SendError(text, kind, status, headers, said[:WORDS_BYTES], outcome=outcome, fatal=fatal)


def _outcome(litellm: Any, error: Exception) -> Outcome | None:
    """Return the turn's state if the class of litellm's error decides it; otherwise None."""
    if isinstance(error, litellm.ContextWindowExceededError):
        return "overflow"
    return "refused" if isinstance(error, litellm.ContentPolicyViolationError) else None


def kind_of(status: int) -> Failure | None:
    """Return the kind of a transient failure for an HTTP status; None if another attempt would fail, too."""
    if status == 429:
        return "429"
    if status in (408, 504):
        return "timeout"
    return "5xx" if status >= 500 else None


def no_connection(address: str, error: OSError) -> str:
    """Return a sentence for the user about a failed connection to ``address``."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"no connection to {address}: its certificate is not trusted ({error.verify_message}); set the environment "
            "variable SSL_CERT_FILE to a file with its authority's certificate"
        )
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or str(error)).replace("_", " ").lower()
        return f"no connection to {address}: no TLS connection ({reason}); is it a server of http://, not https://?"
    # Errors of name resolution have numbers that are not in errno.
    if error.errno is None or error.errno not in errno.errorcode:
        return f"no connection to {address}: {error.strerror or error}"
    return f"no connection to {address}: {os.strerror(error.errno).lower()}"


def _unreached(error: BaseException) -> str | None:
    """Return a sentence for the user if a failed connection caused the error; otherwise None."""
    link: BaseException | None = error
    address = None
    while link is not None:
        if hasattr(link, "host") and hasattr(link, "port"):
            address = f"{link.host}:{link.port}"
        if isinstance(link, OSError) and address and not isinstance(link, TimeoutError):
            return no_connection(address, getattr(link, "os_error", link))
        link = link.__cause__ or link.__context__
    return None


def one_line(data: bytes) -> str:
    """Return a reply that is not JSON as one line; a long reply is cut."""
    # It is cut between words, because an API key in it is recognized and hidden only if it is complete.
    parts = data[:WORDS_BYTES].decode(errors="replace").split()
    return " ".join(parts if len(data) <= WORDS_BYTES else parts[:-1])
