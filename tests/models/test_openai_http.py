"""The lean way to OpenAI-compatible servers: what is sent, what comes of every kind of reply, and what errors say."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_server import Behaviour, FakeServer, Reply, Request
from hypothesis import given
from hypothesis import strategies as st

from chexqa.contract import benchmark
from chexqa.contract.benchmark import Benchmark
from chexqa.eval.models import client, failures, openai_http, registry
from chexqa.eval.models.client import Client
from chexqa.eval.models.rate_limit import RetryPolicy
from chexqa.eval.models.registry import Model
from chexqa.eval.prompts import protocols

Serve = Callable[[Behaviour], FakeServer]
ONCE = RetryPolicy(attempts=1, timeout_s=60, backoff_s=0)
NAMES = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    openai_http._proxy.cache_clear()


@pytest.fixture
def bench(tiny_benchmark: Path) -> Benchmark:
    return benchmark.load(tiny_benchmark)


@pytest.fixture
def serve(bench: Benchmark) -> Iterator[Serve]:
    with ExitStack() as stack:
        yield lambda behaviour: stack.enter_context(FakeServer(bench, "end_to_end", behaviour))


def served(server: FakeServer, **changes: Any) -> Model:
    return replace(registry.adhoc("hosted_vllm/Org/Model", server.url), **changes)


def ask(bench: Benchmark, model: Model, *, times: int = 1, asker: Client | None = None) -> client.Reply:
    """Ask the last question of the longest conversation, ``times`` times at once; returns the last reply."""
    longest = max(protocols.conversations(bench, "end_to_end"), key=len)
    said = [protocols.PriorReply("Answer: 1", (1,))] * (len(longest) - 1)
    messages = protocols.render(bench, "end_to_end", longest, said)
    one = asker or Client(bench, ONCE)

    async def work() -> client.Reply:
        try:
            return (await asyncio.gather(*(one.ask(model, messages) for _ in range(times))))[-1]
        finally:
            await client.close()

    return asyncio.run(work())


def answer(content: object, **extra: object) -> Reply:
    """A completion written out, whatever its content."""
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    return Reply(body=json.dumps({"model": "m", "choices": [choice], **extra}).encode())


def test_the_body_is_what_litellms_own_way_sends(bench: Benchmark, serve: Serve, monkeypatch: Any) -> None:
    bodies: list[dict[str, Any]] = []

    def keep(request: Request) -> Reply:
        bodies.append(request.body)
        return Reply("Answer: 1")

    server = serve(keep)
    decoding = {"temperature": 0, "max_tokens": 77, "chat_template_kwargs": {"enable_thinking": False}}
    ask(bench, served(server, decoding=decoding))
    monkeypatch.setattr(openai_http, "suits", lambda model: False)
    ask(bench, served(server, decoding=decoding))
    lean, usual = bodies
    assert lean == {**usual, **decoding}
    assert usual["messages"] == lean["messages"]


@given(texts=st.lists(st.text() | st.just('"url":"data:image/png;base64,@a.png"') | st.just("@a.png"), min_size=1))
def test_no_text_is_taken_for_a_picture(texts: list[str]) -> None:
    picture = {"type": "image_url", "image_url": {"url": openai_http.reference("a.png")}}
    messages = [{"role": "user", "content": [{"type": "text", "text": text}, picture]} for text in texts]
    data = base64.b64encode(b"the bytes of a.png")
    body = json.loads(b"".join(openai_http.encode("m", messages, {"temperature": 0}, {"a.png": data}.__getitem__)))
    sent = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data.decode()}"}}
    assert body == {
        "model": "m",
        "messages": [{"role": "user", "content": [{"type": "text", "text": text}, sent]} for text in texts],
        "temperature": 0,
    }


def test_a_picture_is_read_and_encoded_once(bench: Benchmark, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    read: Counter[str] = Counter()
    real = Benchmark.image_bytes

    def counted(self: Benchmark, image: str) -> bytes:
        read[image] += 1
        return real(self, image)

    monkeypatch.setattr(Benchmark, "image_bytes", counted)
    server = serve(lambda request: Reply("Answer: 1"))
    asker = Client(bench, ONCE)
    ask(bench, served(server), times=4, asker=asker)
    ask(bench, served(server), asker=asker)
    assert len(server.requests) == 5
    assert len(read) == 7
    assert set(read.values()) == {1}


def test_pictures_beyond_the_cache_are_read_again_and_sent_whole(
    bench: Benchmark, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PICTURE_CACHE_BYTES", 1)
    server = serve(lambda request: Reply("Answer: 1"))
    assert ask(bench, served(server), times=3).text == "Answer: 1"
    assert server.problems == []


READ = {
    "text": (answer("Answer: 1"), ("reply", "Answer: 1", "stop")),
    "text in parts": (answer([{"type": "text", "text": "Answer:"}, {"type": "text", "text": " 1"}]),
                      ("reply", "Answer: 1", "stop")),
    "half a character": (Reply(body=b'{"choices": [{"message": {"content": "\\ud83dAnswer: 1"}}]}'),
                         ("reply", "?Answer: 1", None)),
    "no finish reason": (Reply(body=b'{"choices": [{"message": {"content": "Answer: 1"}}]}'),
                         ("reply", "Answer: 1", None)),
    "signs of life before it": (
        Reply(body=b': WAIT\n\n\n: WAIT\n\n{"choices": [{"message": {"content": "Answer: 1"}}]}'),
        ("reply", "Answer: 1", None),
    ),
    "bare line breaks": (Reply(body=b'{"choices": [{"message": {"content": "I see.\nAnswer: 1"}}]}'),
                         ("reply", "I see.\nAnswer: 1", None)),
    "text in bare parts": (answer(["Answer:", " 1"]), ("reply", "Answer: 1", "stop")),
    "cut, in Gemini's word": (Reply("Let me", finish_reason="MAX_TOKENS"), ("reply", "Let me", "length")),
    "filtered, in Gemini's word": (Reply("Let me", finish_reason="SAFETY"), ("refused", "Let me", "content_filter")),
    "refusal": (Reply(None, extra={"refusal": "No."}), ("refused", "No.", "stop")),
    "refusal beside an answer": (Reply("Answer: 1", extra={"refusal": "No."}), ("reply", "Answer: 1", "stop")),
    "a finish reason without end": (Reply("Answer: 1", finish_reason="x" * 500),
                                    ("reply", "Answer: 1", "x" * 99 + "…")),
    "only reasoning, cut": (Reply(None, finish_reason="length", extra={"reasoning_content": "Let me"}),
                            ("reply", None, "length")),
}  # fmt: skip


@pytest.mark.parametrize("case", READ)
def test_a_reply_is_read(bench: Benchmark, serve: Serve, case: str) -> None:
    sent, expected = READ[case]
    reply = ask(bench, served(serve(lambda request: sent)))
    assert (reply.outcome, reply.text, reply.finish_reason) == expected


NO_TEXT = {
    "tools": ({"tool_calls": [{"type": "function", "function": {"name": "answer"}}]}, "only calls of tools"),
    "a function": ({"function_call": {"name": "answer", "arguments": "{}"}}, "only calls of tools"),
    "reasoning": ({"reasoning": "Answer: 1"}, "only reasoning"),
    "nothing": ({}, "the reply has no text"),
}


@pytest.mark.parametrize("case", NO_TEXT)
def test_a_reply_without_text_says_what_it_has_in_its_place(bench: Benchmark, serve: Serve, case: str) -> None:
    extra, said = NO_TEXT[case]
    reply = ask(bench, served(serve(lambda request: Reply(None, extra=extra))))
    assert (reply.outcome, reply.text, reply.cost_usd) == ("reply", None, 0)
    assert said in str(reply.error)


FAILED = {
    "a number for content": (answer(7), "malformed reply: its content is not text"),
    "a list": (Reply(body=b"[1]"), "malformed reply: no choices"),
    "null": (Reply(body=b"null"), "malformed reply: no choices"),
    "choices of null": (Reply(body=b'{"choices": [null]}'), "malformed reply: no choices"),
    "nested without end": (Reply(body=b"[ " * 100_000), "malformed reply: not JSON but '[ [ ["),
    "an error with 200": (
        Reply(body=b'{"error": {"message": "overloaded"}}'),
        'malformed reply: no choices but an error: {"message": "overloaded"}',
    ),
    "an error beside an empty text": (
        Reply(
            body=b'{"choices": [{"message": {"content": ""}, "error": {"message": "no GPU"}}]}'
        ),
        'malformed reply: no text but an error: {"message": "no GPU"}',
    ),
    "an error within the text": (
        Reply("Answer", finish_reason="error"), 'malformed reply: a broken text and an error: "error"'
    ),
    "a page": (
        Reply(body=b"<html>\nwelcome"),
        "malformed reply: not JSON but an HTML page, perhaps from a proxy or a login: '<html> welcome'",
    ),
    "nothing": (Reply(body=b""), "malformed reply: an empty body"),
    "a stream": (
        Reply(body=b'data: {"choices": []}\n\n'),
        "malformed reply: not JSON but a stream, which was not asked for: 'data: ",
    ),
    "a page with 502": (Reply(status=502, body=b"<h1>bad gateway"), "HTTP 502: <h1>bad gateway"),
    "nothing with 503": (Reply(status=503, body=b""), "HTTP 503 with an empty reply"),
    "an error in JSON": (Reply(status=400, body=b'{"error": {"message": "too wide"}}'), "HTTP 400: too wide"),
    "an error as a string": (Reply(status=429, body=b'{"error": "slow down"}'), "HTTP 429: slow down"),
    "FastAPI's error": (Reply(status=422, body=b'{"detail": "no such field"}'), "HTTP 422: no such field"),
    "an error that is a list": (Reply(status=500, body=b'{"error": [1]}'), "HTTP 500: {\"error\": [1]}"),
    "dropped": (Reply(drop=True), "the connection to URL was interrupted"),
}  # fmt: skip


@pytest.mark.parametrize("case", FAILED)
def test_a_failure_says_what_happened(bench: Benchmark, serve: Serve, case: str) -> None:
    sent, expected = FAILED[case]
    server = serve(lambda request: sent)
    reply = ask(bench, served(server))
    assert reply.outcome == "error"
    assert (reply.error or "").startswith(expected.replace("URL", server.url))


@pytest.mark.parametrize(("body", "requests"), [(b"<html>Log in", 3), (b": x\n\ndata: {}\n\n", 1), (b"{", 3)])
def test_a_page_is_asked_for_again_and_a_stream_is_not(
    bench: Benchmark, serve: Serve, body: bytes, requests: int
) -> None:
    server = serve(lambda request: Reply(body=body))
    asker = Client(bench, RetryPolicy(attempts=3, backoff_s=0))
    assert ask(bench, served(server), asker=asker).outcome == "error"
    assert len(server.requests) == requests


SPENT = {
    "OpenAI": (429, b'{"error": {"message": "You exceeded your current quota.", "code": "insufficient_quota"}}'),
    "OpenRouter": (402, b'{"error": {"message": "Insufficient credits", "code": 402}}'),
    "Anthropic": (400, b'{"error": {"message": "Your credit balance is too low to access the API."}}'),
    "LiteLLM": (400, b'{"error": {"message": "Budget has been exceeded! Max budget: 1", "type": "budget_exceeded"}}'),
}


@pytest.mark.parametrize("provider", SPENT)
def test_an_account_that_is_used_up_is_asked_once_and_stops_the_model(
    bench: Benchmark, serve: Serve, provider: str
) -> None:
    status, body = SPENT[provider]
    server = serve(lambda request: Reply(status=status, body=body))
    reply = ask(bench, served(server), asker=Client(bench, RetryPolicy(attempts=3, backoff_s=0)))
    assert (reply.outcome, reply.fatal, len(server.requests)) == ("error", True, 1)


USAGES = [None, {}, 5, {"prompt_tokens": "many"}, {"prompt_tokens": None}, {"prompt_tokens": 1.5},
          {"prompt_tokens": -5, "completion_tokens": 1}]  # fmt: skip


@pytest.mark.parametrize("usage", USAGES)
def test_a_reply_without_counts_has_unknown_usage_and_cost(bench: Benchmark, serve: Serve, usage: object) -> None:
    server = serve(lambda request: answer("Answer: 1", usage=usage))
    reply = ask(bench, served(server, price=registry.Price(1, 1)))
    assert (reply.outcome, reply.usage, reply.cost_usd) == ("reply", None, None)


def test_reasoning_and_cached_tokens_are_counted(bench: Benchmark, serve: Serve) -> None:
    details = {"prompt_tokens_details": {"cached_tokens": 80}, "completion_tokens_details": {"reasoning_tokens": 5}}
    usage = {"prompt_tokens": 90, "completion_tokens": 9, "total_tokens": 99, **details}
    reply = ask(bench, served(serve(lambda request: answer("Answer: 1", usage=usage))))
    assert reply.usage == {"input_tokens": 90, "output_tokens": 9, "reasoning_tokens": 5, "cached_tokens": 80}


def test_more_cached_tokens_than_there_were_cost_no_less_than_all_of_them_cached(
    bench: Benchmark, serve: Serve
) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1_000_000}}
    server = serve(lambda request: answer("Answer: 1", usage=usage))
    reply = ask(bench, served(server, price=registry.Price(1, 2, 0.1)))
    assert (reply.text, reply.cost_usd) == ("Answer: 1", pytest.approx((10 * 0.1 + 2 * 2) / 1e6))


@pytest.mark.parametrize("gap", [b"x" * 170, b" " * 3990])
@pytest.mark.parametrize("status", [200, 400, 500])
def test_no_part_of_a_key_is_left_where_a_long_reply_is_cut(
    bench: Benchmark, serve: Serve, monkeypatch: pytest.MonkeyPatch, status: int, gap: bytes
) -> None:
    key = "sk-verysecret-0123456789abcdef"
    monkeypatch.setenv("CHEXQA_API_KEY", key)
    body = b"<html>" + gap + f" key {key}</html>".encode()
    reply = ask(bench, served(serve(lambda request: Reply(status=status, body=body))))
    assert "[secret]" in (reply.error or "")
    assert key[:8] not in (reply.error or "")


def test_a_server_that_is_not_there_is_called_that_with_its_address_and_no_status(bench: Benchmark) -> None:
    with FakeServer(bench, "end_to_end", lambda request: Reply("Answer: 1")) as server:
        gone = served(server)
    reply = ask(bench, gone)
    assert reply.error == f"no connection to {server.url}: connection refused (attempts: 1)"


def test_a_server_without_tls_and_a_certificate_that_is_not_trusted_are_named(bench: Benchmark, serve: Serve) -> None:
    address = serve(lambda request: Reply("Answer: 1")).url.replace("http://", "https://")
    error = ask(bench, registry.adhoc("Org/Model", address)).error or ""
    assert error.startswith(f"no connection to {address}: no TLS connection (")
    assert "is it a server of http://, not https://?" in error
    refused = ssl.SSLCertVerificationError(1, "certificate verify failed")
    refused.verify_message = "self-signed certificate"
    told = failures.no_connection("https://host/v1", refused)
    assert (
        "its certificate is not trusted (self-signed certificate); set the environment variable SSL_CERT_FILE" in told
    )


def test_a_host_that_is_not_known_is_named(bench: Benchmark) -> None:
    reply = ask(bench, registry.adhoc("Org/Model", "http://no-such-host.invalid:8000/v1"))
    assert (reply.error or "").startswith("no connection to http://no-such-host.invalid:8000/v1: ")


def test_a_provider_that_is_not_there_is_called_that_too(bench: Benchmark, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-real-key")
    with FakeServer(bench, "end_to_end", lambda request: Reply("Answer: 1")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    reply = ask(bench, registry.load()["gpt-5.4"])
    port = server.url.split(":")[2].removesuffix("/v1")
    assert reply.error == f"no connection to 127.0.0.1:{port}: connection refused (attempts: 1)"


def test_a_redirect_is_not_followed(bench: Benchmark, serve: Serve) -> None:
    other = serve(lambda request: Reply("Answer: 1"))
    server = serve(lambda request: Reply(status=307, headers={"Location": f"{other.url}/chat/completions"}, body=b""))
    error = ask(bench, served(server)).error or ""
    assert error.startswith(f"HTTP 307 with an empty reply (it leads to {other.url}/chat/completions, where nothing is")
    assert other.requests == []


def test_the_environments_proxy_is_used_and_its_exceptions_are_kept(
    bench: Benchmark, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = serve(lambda request: Reply("Answer: 1"))
    monkeypatch.setenv("http_proxy", proxy.url.removesuffix("/v1"))
    far = registry.adhoc("Org/Model", "http://far.invalid/v1")
    assert ask(bench, far).text == "Answer: 1"
    monkeypatch.setenv("no_proxy", "far.invalid")
    openai_http._proxy.cache_clear()
    assert (ask(bench, far).error or "").startswith("no connection to http://far.invalid/v1")
