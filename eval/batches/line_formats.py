"""Formats of the lines in batch files, where a line is one request or one result.

``openai`` is OpenAI's batch JSONL, which ``vllm run-batch``, Together and others also read. ``gemini`` is the JSONL of
the Gemini API. A request in a batch has the same body as a live request, and the same code reads the replies of both.
"""

from __future__ import annotations

import copy
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from chexqa.eval.models import data_policy, openai_http, registry
from chexqa.eval.models.client import load_litellm
from chexqa.eval.models.failures import SendError, of_status, one_line
from chexqa.eval.models.registry import Model
from chexqa.eval.prompts.protocols import Message
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record

# Base64 never begins with @, and quotes in a text are escaped, so only the place of a picture matches.
_OPENAI_PICTURE = re.compile(rb'(?<="url":"%s)@([^"\\]+)(?=")' % openai_http.PNG.encode())
_GEMINI_PICTURE = re.compile(rb'(?<="data":")@([^"\\]+)(?=")')
OPENAI_LIKE = ("openai", "hosted_vllm", "azure", "litellm_proxy", "together_ai")


class Answered(NamedTuple):
    """One result line: the request's id, and the server's reply as JSON or the reason why there is no reply."""

    custom_id: str
    body: Any = None
    error: SendError | None = None


class Form(ABC):
    """Format of request lines and result lines for one provider's batches."""

    name: str

    @abstractmethod
    def request(self, model: Model, messages: Sequence[Message], custom_id: str) -> list[bytes]:
        """Return a request line in pieces; every second piece is the path of a picture.

        The caller replaces each path by the picture's base64, and joins the pieces.
        """

    @abstractmethod
    def answered(self, record: Any) -> Answered | None:
        """Return the content of a result line; None if the record is not a result line in this format."""

    @abstractmethod
    def response(self, model: Model, body: Any) -> Any:
        """Return a reply's body as litellm's response object; raise ``SendError`` if the body is not a reply."""


class OpenAIForm(Form):
    """OpenAI's batch JSONL: one request or one result in each line."""

    name = "openai"

    def request(self, model: Model, messages: Sequence[Message], custom_id: str) -> list[bytes]:
        """Return the request line ``{"custom_id", "method", "url", "body"}`` in pieces (see :meth:`Form.request`)."""
        provider, _, served = model.litellm.partition("/")
        sent = [openai_http.message_record(message, openai_http.reference) for message in messages]
        raw = provider == "hosted_vllm" or openai_http.suits(model)
        settings = model.decoding if raw else _mapped(provider, served, model)
        extra = settings.get("extra_body") or {}
        plain = {name: value for name, value in settings.items() if name not in ("extra_body", "stream")}
        body = {"model": served, "messages": sent, **plain, **extra}
        line = {"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions", "body": body}
        return _pieces(line, _OPENAI_PICTURE)

    def answered(self, record: Any) -> Answered | None:
        """Return the content of a result line with ``custom_id`` and ``response`` or ``error``; None for other
        records.
        """
        if not isinstance(record, dict) or not isinstance(record.get("custom_id"), str):
            return None
        response, error = record.get("response"), record.get("error")
        if isinstance(response, dict):
            body = response.get("body", response if "choices" in response else None)
            status = response.get("status_code", 200)
            if status == 200 and body is not None:
                return Answered(record["custom_id"], body)
            if isinstance(status, int) and status != 200:
                said = body if isinstance(body, dict) else error
                return Answered(record["custom_id"], error=of_status(status, {}, json.dumps(said).encode()))
        elif error is None:
            return None
        return Answered(record["custom_id"], error=_lost(error))

    def response(self, model: Model, body: Any) -> Any:
        """Return the body of a reply as litellm's response object, as for a live request."""
        litellm = load_litellm()
        return openai_http.filled(litellm, litellm.ModelResponse(), body)


class GeminiForm(Form):
    """The Gemini API's batch JSONL: ``{"key", "request"}`` and ``{"key", "response" | "error"}``."""

    name = "gemini"

    def request(self, model: Model, messages: Sequence[Message], custom_id: str) -> list[bytes]:
        """Return the request line ``{"key", "request"}`` in pieces (see :meth:`Form.request`).

        ``request`` is the body of a generateContent request.
        """
        load_litellm()
        from litellm.llms.vertex_ai.gemini.transformation import _transform_request_body

        provider, _, served = model.litellm.partition("/")
        # litellm removes the system text from the list that it gets, so the list is a new one.
        sent: Any = [openai_http.message_record(message, openai_http.reference) for message in messages]
        body = _transform_request_body(
            messages=sent, model=served, optional_params=_mapped(provider, served, model), custom_llm_provider="gemini",
            litellm_params={}, cached_content=None,
        )  # fmt: skip
        return _pieces({"key": custom_id, "request": body}, _GEMINI_PICTURE)

    def answered(self, record: Any) -> Answered | None:
        """Return the content of a result line with ``key`` and ``response`` or ``error``; None for other records."""
        if not isinstance(record, dict) or not isinstance(record.get("key"), str):
            return None
        if isinstance(record.get("response"), dict):
            return Answered(record["key"], record["response"])
        error = record.get("error")
        if error is None:
            return None
        status = _HTTP.get(error.get("code") or 0) if isinstance(error, dict) else None
        if status is not None:
            return Answered(record["key"], error=of_status(status, {}, json.dumps({"error": error}).encode()))
        return Answered(record["key"], error=_lost(error))

    def response(self, model: Model, body: Any) -> Any:
        """Return the body of a reply as litellm's response object, as for a live request."""
        litellm = load_litellm()
        import httpx
        from litellm.llms.vertex_ai.gemini.vertex_and_google_ai_studio_gemini import VertexGeminiConfig

        try:
            return VertexGeminiConfig()._transform_google_generate_content_to_openai_model_response(
                completion_response=body, model_response=litellm.ModelResponse(),
                model=model.litellm.partition("/")[2], logging_obj=cast("Any", _Unlogged()),
                raw_response=httpx.Response(200),
            )  # fmt: skip
        except Exception as error:  # litellm's code may raise any error for a body that is not a reply
            cause = error.__context__ or error
            said = f"{type(cause).__name__} {one_line(str(cause).encode())}".strip()
            raise SendError(f"malformed reply: {said}", "malformed") from None


class _Unlogged:
    """Substitute for litellm's logger object, which litellm requires in order to read a reply.

    litellm takes only the request's parameters from it; since version 1.110 it also takes ``litellm_params``.
    """

    def __init__(self) -> None:
        self.optional_params: dict[str, Any] = {}
        self.litellm_params: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: None


# HTTP statuses for the codes of google.rpc; an HTTP status in a result line stands for itself.
_HTTP = {3: 400, 5: 404, 7: 403, 8: 429, 16: 401, **{status: status for status in (400, 401, 403, 404, 413, 429)}}
FORMS: dict[str, Form] = {"openai": OpenAIForm(), "gemini": GeminiForm()}


def form_of(model: Model) -> Form:
    """Return the line format of a model's provider; raise ``InputError`` if the provider has no batch endpoint."""
    provider = model.litellm.partition("/")[0]
    if data_policy.is_baseline(model) or model.python is not None:
        raise InputError(
            f"--batch: '{model.name}' runs on this machine, so it cannot be asked in batches; leave out --batch."
        )
    if provider == "gemini" and registry.endpoint(model) is None:
        return FORMS["gemini"]
    if openai_http.suits(model) or provider in OPENAI_LIKE:
        return FORMS["openai"]
    raise InputError(
        f"--batch: the provider of '{model.name}' is '{provider}', for which chexqa cannot write batches; it writes "
        f"them for {', '.join(OPENAI_LIKE)} and gemini. If an OpenAI-compatible server has this model, give its "
        "address as --api-base URL."
    )


def _mapped(provider: str, served: str, model: Model) -> dict[str, Any]:
    """Return the decoding parameters under the provider's own names, as litellm sends them."""
    litellm = load_litellm()
    try:
        mapped: dict[str, Any] = litellm.utils.get_optional_params(
            model=served, custom_llm_provider=provider, **copy.deepcopy(model.decoding)
        )
    except Exception as error:  # litellm raises an error class of its own for each provider
        raise InputError(
            f"model '{model.name}': the provider does not accept the decoding settings ({error}); change "
            "them with --set or in your models file."
        ) from None
    return mapped


def _pieces(record: Mapping[str, Any], picture: re.Pattern[bytes]) -> list[bytes]:
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()
    return picture.split(text + b"\n")


def _lost(error: Any) -> SendError:
    """Return the failure of a request without an answer, such as an expired request; the question is asked again."""
    said: Record = error if isinstance(error, dict) else {"message": error}
    inner = said.get("error")
    said = inner if isinstance(inner, dict) else said
    words = " ".join(str(said[name]) for name in ("code", "message") if said.get(name) is not None)
    return SendError(f"the batch returned no reply: {words}" if words else "the batch returned no reply", "5xx")
