"""The whole chain over real HTTP, through litellm's own client, against a server that checks every request."""

from __future__ import annotations

import email.utils
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_server import Behaviour, FakeServer, Reply, Request
from rest_long import rest_long

from chexqa.contract import benchmark, read_run
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import is_right
from chexqa.eval.cli import live_progress
from chexqa.eval.models import registry
from chexqa.eval.models.rate_limit import OutagePolicy, RetryPolicy
from chexqa.eval.models.registry import Model, Price
from chexqa.eval.prompts import protocols
from chexqa.eval.runs import runner
from chexqa.eval.runs.model_progress import ModelProgress
from chexqa.eval.runs.runner import RunConfig

Serve = Callable[..., FakeServer]
QUICK = RetryPolicy(attempts=3, timeout_s=5, backoff_s=0)


@pytest.fixture
def bench(tiny_benchmark: Path) -> Benchmark:
    return benchmark.load(tiny_benchmark)


@pytest.fixture
def serve(bench: Benchmark) -> Iterator[Serve]:
    """Start a server that answers as told; every request must have been well-formed by the end."""
    with ExitStack() as stack:
        servers: list[FakeServer] = []

        def start(behaviour: Behaviour, protocol: str = "end_to_end") -> FakeServer:
            servers.append(stack.enter_context(FakeServer(bench, protocol, behaviour)))
            return servers[-1]

        yield start
    assert [problem for server in servers for problem in server.problems] == []


def right(bench: Benchmark, request: Request) -> Reply:
    """The right answer, wrapped in some reasoning."""
    assert bench.answers is not None
    answer = bench.answers[request.item.item_id].answer or (1,)
    numbers = (answer[0],) if request.item.kind == "grid_cell" else answer
    line = protocols.answer_line(bench.conversation_texts, request.item, numbers)
    return Reply(f"<think>Option 7 looks odd.</think>I looked closely.\n\n{line}")


def first_option(request: Request) -> Reply:
    return Reply("Answer: A1" if request.item.kind == "grid_cell" else "Answer: 1")


def model(server: FakeServer, **changes: Any) -> Model:
    return replace(registry.adhoc("Org/Model", server.url), **changes)


def ask(
    bench: Benchmark, server: FakeServer, folder: Path, protocol: str = "end_to_end", **changes: Any
) -> ModelProgress:
    order = RunConfig(bench, (model(server, **changes),), protocols.named(protocol), folder, policy=QUICK)
    return runner.run(order)[0]


def turns(folder: Path) -> dict[str, read_run.Turn]:
    return {turn.item_id: turn for turn in read_run.load(folder).turns}


@pytest.mark.parametrize("protocol", protocols.PROTOCOLS)
def test_right_answers_over_http_are_right_under_every_protocol(
    bench: Benchmark, serve: Serve, tmp_path: Path, protocol: str
) -> None:
    server = serve(lambda request: right(bench, request), protocol)
    progress = ask(bench, server, tmp_path / "run", protocol)
    assert progress.counts == Counter(answered=len(bench.items))
    assert bench.answers is not None
    attainable = [item for item in bench.items if bench.answers[item.item_id].answer]
    said = turns(tmp_path / "run")
    assert all(is_right(item, bench.answers[item.item_id], said[item.item_id].parsed or ()) for item in attainable)
    assert len(server.requests) == len(bench.items)
    assert said[bench.items[0].item_id].usage == {
        "input_tokens": 1000, "output_tokens": 20, "reasoning_tokens": None, "cached_tokens": None}  # fmt: skip


@pytest.mark.parametrize("protocol", protocols.PROTOCOLS)
def test_noise_is_asked_to_the_end_and_reads_as_unparsed(
    bench: Benchmark, serve: Serve, tmp_path: Path, protocol: str
) -> None:
    server = serve(lambda request: Reply("The left lung has 3 zones; I see 2 or 4 findings."), protocol)
    assert ask(bench, server, tmp_path / "run", protocol).counts == Counter(unparsed=len(bench.items))


def test_the_request_holds_the_decoding_and_the_system_prompt(bench: Benchmark, serve: Serve, tmp_path: Path) -> None:
    server = serve(lambda request: Reply("Answer: 1"))
    ask(bench, server, tmp_path / "run", decoding={"temperature": 0, "max_tokens": 77})
    body = server.requests[0].body
    assert (body["temperature"], body["max_tokens"], body["model"]) == (0, 77, "Org/Model")
    assert body["messages"][0]["content"] == bench.conversation_texts["system"]


FAILURES = {
    "429 with Retry-After": Reply(status=429, headers={"Retry-After": "0"}, body=b'{"error": {"message": "slow"}}'),
    "500": Reply(status=500, body=b'{"error": {"message": "boom"}}'),
    "502 page": Reply(status=502, body=b"<html>bad gateway</html>", headers={"Content-Type": "text/html"}),
    "503": Reply(status=503, body=b""),
    "dropped": Reply(drop=True),
    "malformed JSON": Reply(body=b'{"choices": ['),
    "page with status 200": Reply(body=b"<html>welcome</html>"),
    "empty choices": Reply(body=b'{"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": []}'),
    "no choices": Reply(body=b'{"id": "1", "object": "chat.completion", "created": 1, "model": "m"}'),
}


@pytest.mark.parametrize("provider", ["openai", "hosted_vllm"])
def test_a_failure_that_passes_is_asked_again_and_leaves_no_trace_in_the_states(
    bench: Benchmark, serve: Serve, tmp_path: Path, provider: str
) -> None:
    failures = dict(zip((item.item_id for item in bench.items), FAILURES.values(), strict=False))
    assert len(failures) == len(FAILURES)
    seen: Counter[str] = Counter()

    def behave(request: Request) -> Reply:
        seen[request.item.item_id] += 1
        first = seen[request.item.item_id] == 1
        return failures[request.item.item_id] if first and request.item.item_id in failures else first_option(request)

    server = serve(behave)
    progress = ask(bench, server, tmp_path / "run", litellm=f"{provider}/Org/Model")
    states = {item_id: turn.state for item_id, turn in turns(tmp_path / "run").items()}
    assert progress.unfinished == 0
    assert {states[item_id] for item_id in failures} == {"answered"}
    asked_twice = {item_id for item_id, count in seen.items() if count == 2}
    assert asked_twice == set(failures)


def test_a_failure_that_stays_ends_in_error_after_bounded_attempts(
    bench: Benchmark, serve: Serve, tmp_path: Path
) -> None:
    failures = dict(zip((item.item_id for item in bench.items), FAILURES.values(), strict=False))
    server = serve(lambda request: failures.get(request.item.item_id, Reply("Answer: 1")), "independent")
    patience = OutagePolicy(pause_s=0.02, pause_limit_s=0.1)
    order = RunConfig(
        bench, (model(server),), protocols.named("independent"), tmp_path / "run", policy=QUICK, patience=patience
    )
    progress = runner.run(order)[0]
    assert progress.counts["error"] == progress.unfinished == len(FAILURES)
    for item_id in failures:
        turn = turns(tmp_path / "run")[item_id]
        assert (turn.state, turn.attempts) == ("error", QUICK.attempts)
        assert turn.error is not None
        assert "Traceback" not in turn.error
        assert "/site-packages/" not in turn.error


FINAL = {
    "refusal field": (Reply(None, extra={"refusal": "I cannot help with that."}), "refused"),
    "content filter": (Reply("", finish_reason="content_filter"), "refused"),
    "policy 400": (
        Reply(status=400, body=b'{"error": {"message": "rejected by our safety system", "code": "content_filter"}}'),
        "refused",
    ),
    "cut reasoning": (Reply("Let me think about the", finish_reason="length"), "truncated"),
    "cut before a word": (Reply(None, finish_reason="length"), "truncated"),
    "cut after the answer": (Reply("Answer: 1", finish_reason="length"), "answered"),
    "empty": (Reply(""), "empty"),
    "null": (Reply(None), "empty"),
    "context of OpenAI": (
        Reply(status=400, body=b'{"error": {"message": "maximum context length", "code": "context_length_exceeded"}}'),
        "overflow",
    ),
    "context of vLLM": (
        Reply(
            status=400, body=b'{"error": {"message": "The prompt is longer than the maximum model length of 4096."}}'
        ),
        "overflow",
    ),
}


def test_a_final_state_is_asked_once_and_its_conversation_goes_on(
    bench: Benchmark, serve: Serve, tmp_path: Path
) -> None:
    finals = dict(zip((item.item_id for item in bench.items if item.kind != "grid_cell"), FINAL.values(), strict=False))
    server = serve(lambda request: finals.get(request.item.item_id, (first_option(request), ""))[0])
    assert ask(bench, server, tmp_path / "run").unfinished == 0
    said = turns(tmp_path / "run")
    assert {name: said[item_id].state for name, item_id in zip(FINAL, finals, strict=True)} == {
        name: state for name, (_, state) in FINAL.items()
    }
    assert len(server.requests) == len(bench.items)


@pytest.mark.parametrize("status", [400, 403])
def test_a_rejected_request_is_an_error_at_once_in_its_conversation_alone(
    bench: Benchmark, serve: Serve, tmp_path: Path, status: int
) -> None:
    server = serve(lambda request: Reply(status=status, body=b'{"error": {"message": "picture too wide"}}'))
    progress = ask(bench, server, tmp_path / "run")
    assert progress.counts["error"] == len(server.requests) == len(protocols.conversations(bench, "end_to_end"))
    assert progress.error is not None
    assert str(status) in progress.error
    assert "picture too wide" in progress.error


@pytest.mark.parametrize("protocol", ["end_to_end", "independent"])
def test_a_last_question_that_failed_is_asked_again_and_nothing_else(
    bench: Benchmark, serve: Serve, tmp_path: Path, protocol: str
) -> None:
    last = {talk[-1].item_id for talk in protocols.conversations(bench, protocols.named(protocol))}
    last = last if protocol == "end_to_end" else {item.item_id for item in bench.items[1::2]}
    refused = Reply(status=400, body=b'{"error": {"message": "no"}}')
    first = serve(lambda request: refused if request.item.item_id in last else first_option(request), protocol)
    assert ask(bench, first, tmp_path / "run", protocol).counts["error"] == len(last)
    second = serve(first_option, protocol)
    moved = model(first, api_base=second.url)
    order = RunConfig(bench, (moved,), protocols.named(protocol), tmp_path / "run", policy=QUICK)
    assert runner.run(order)[0].unfinished == 0
    assert sorted(request.item.item_id for request in second.requests) == sorted(last)


@pytest.mark.parametrize("status", [401, 404])
def test_a_wrong_key_or_model_stops_the_model_at_its_first_turns(
    bench: Benchmark, serve: Serve, tmp_path: Path, status: int
) -> None:
    server = serve(lambda request: Reply(status=status, body=b'{"error": {"message": "no"}}'), "independent")
    order = RunConfig(bench, (model(server),), "independent", tmp_path / "run", concurrency=2, policy=QUICK)
    assert runner.run(order)[0].stopped
    assert len(server.requests) <= 2


@pytest.mark.parametrize("form", rest_long(["seconds", "date"], keep=1))
def test_retry_after_is_obeyed_and_bounded(bench: Benchmark, serve: Serve, tmp_path: Path, form: str) -> None:
    times: list[float] = []

    def behave(request: Request) -> Reply:
        times.append(time.monotonic())
        if len(times) > 1:
            return Reply("Answer: 1")
        wait = "3600" if form == "seconds" else email.utils.formatdate(time.time() + 3600, usegmt=True)
        return Reply(status=429, headers={"Retry-After": wait}, body=b'{"error": {"message": "slow"}}')

    server = serve(behave)
    policy = replace(QUICK, retry_after_limit_s=0.5)
    progress = runner.run(
        RunConfig(bench, (model(server),), "end_to_end", tmp_path / "run", concurrency=1, policy=policy)
    )
    assert progress[0].unfinished == 0
    assert 0.45 < times[1] - times[0] < 3


def test_a_slow_reply_times_out_is_asked_again_and_may_be_billed(
    bench: Benchmark, serve: Serve, tmp_path: Path, cli: Any
) -> None:
    empty = b'{"choices": [], "usage": {"prompt_tokens": 1000, "completion_tokens": 20}}'
    bad = {0: Reply("Answer: 1", delay_s=1.0), 1: Reply(body=empty)}
    server = serve(lambda request: bad.get(request.number, Reply("Answer: 1")))
    one, policy = replace(model(server), price=Price(2.0, 10.0)), replace(QUICK, timeout_s=0.5)
    order = RunConfig(bench, (one,), "end_to_end", tmp_path / "run", concurrency=1, policy=policy)
    (progress,) = runner.run(order)
    assert progress.unfinished == 0
    assert len(server.requests) == len(bench.items) + 2
    # The reply without choices counts its tokens; the one that came too late does not.
    billed = len(bench.items) + 1
    assert (progress.spent.tokens.whole, progress.spent.uncounted) == (1020 * billed, 1)
    assert progress.spent.usd.whole == pytest.approx(billed * (1000 * 2.0 + 20 * 10.0) / 1e6)
    said = "Cost and tokens leave out 1 attempt without a complete reply, which the provider may bill"
    assert said in " ".join(cli("run", "status", tmp_path / "run")[1].split())
    (again,) = runner.run(order)
    assert (again.spent.usd.whole, again.spent.uncounted) == (pytest.approx(progress.spent.usd.whole), 1)


def test_an_items_error_is_asked_again_on_resume_and_an_answer_never(
    bench: Benchmark, serve: Serve, tmp_path: Path
) -> None:
    broken = Reply(status=400, body=b'{"error": {"message": "not now"}}')
    kinds = ("revision_expansion", "location")
    server = serve(lambda request: broken if request.item.kind in kinds else Reply("Answer: 1"))
    first = ask(bench, server, tmp_path / "run")
    assert first.unfinished > 0
    answered = {item_id for item_id, turn in turns(tmp_path / "run").items() if turn.state != "error"}
    second_server = serve(lambda request: Reply("Answer: 1"))
    assert ask(bench, second_server, tmp_path / "run").unfinished == 0
    again = Counter(request.item.item_id for request in second_server.requests)
    assert set(again) == {item.item_id for item in bench.items} - answered
    assert max(again.values()) == 1
    third_server = serve(lambda request: Reply("Answer: 1"))
    assert ask(bench, third_server, tmp_path / "run").unfinished == 0
    assert third_server.requests == []


def test_the_cost_is_the_registered_price_and_nothing_at_a_server_of_ones_own_without_one(
    bench: Benchmark, serve: Serve, tmp_path: Path
) -> None:
    server = serve(lambda request: Reply("Answer: 1"))
    priced = ask(bench, server, tmp_path / "a", price=Price(2.0, 10.0))
    assert priced.spent.usd.whole == pytest.approx(len(bench.items) * (1000 * 2.0 + 20 * 10.0) / 1e6)
    assert ask(bench, server, tmp_path / "b").spent.usd.whole == 0
    known_name = ask(bench, server, tmp_path / "c", litellm="openai/gpt-4o")
    assert known_name.spent.usd.whole == 0, (
        "a server of one's own does not cost what a provider's model of that name does"
    )


def test_a_secret_is_in_no_file_and_no_output(
    bench: Benchmark, serve: Serve, tmp_path: Path, cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, other = "sk-the-key-of-the-server", "sk-the-key-of-another-provider"
    monkeypatch.setenv("CHEXQA_API_KEY", key)
    monkeypatch.setenv("OPENAI_API_KEY", other)

    def echo(request: Request) -> Reply:
        said = f"{request.headers['authorization']} {other}"
        if request.item.kind == "location":
            return Reply(status=400, body=json.dumps({"error": {"message": said}}).encode())
        return Reply(f"{said}\nAnswer: 1", finish_reason=said)

    server = serve(echo)
    run = tmp_path / "run"
    for debug in ([], ["--debug"]):
        code, out, err = cli(
            *debug, "eval", bench.folder, "--model-id", "Org/Model", "--api-base", server.url, "-o", run
        )
        assert code == 3
        assert key not in out + err
        assert other not in out + err
    assert {request.headers["authorization"] for request in server.requests} == {f"Bearer {key}"}
    files = [path for path in run.rglob("*") if path.is_file()]
    assert len(files) >= 3
    for path in files:
        assert key not in path.read_text()
        assert other not in path.read_text()
    assert "[secret]" in (run / "turns" / "Org--Model.jsonl").read_text()


def test_another_providers_key_is_not_sent_to_a_server_of_ones_own(
    bench: Benchmark, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "HOSTED_VLLM_API_KEY"):
        monkeypatch.setenv(name, "sk-somebody-elses")
    monkeypatch.delenv("CHEXQA_API_KEY", raising=False)
    server = serve(lambda request: Reply("Answer: 1"))
    ask(bench, server, tmp_path / "run")
    assert "sk-somebody-elses" not in {request.headers.get("authorization", "") for request in server.requests}
    assert not any("sk-somebody-elses" in str(request.headers) for request in server.requests)


def test_a_server_that_never_answered_is_given_up_soon_and_the_other_models_go_on(
    bench: Benchmark, serve: Serve, tmp_path: Path
) -> None:
    with FakeServer(bench, "end_to_end", lambda request: Reply("Answer: 1")) as server:
        gone = model(server, name="gone")
    living = model(serve(lambda request: Reply("Answer: 1")), name="living")
    patience = OutagePolicy(failures=3, pause_s=0.02, unknown_give_up_s=0.2)
    policy = replace(QUICK, attempts=50)
    order = RunConfig(bench, (gone, living), "end_to_end", tmp_path / "run", policy=policy, patience=patience)
    down, up = runner.run(order)
    assert (up.unfinished, up.stopped) == (0, None)
    assert down.stopped is not None
    assert down.stopped.startswith("the model was given up because every attempt failed for ")
    assert down.unfinished == len(bench.items)
    # Three failures while up to eight are in flight, then one attempt after each pause of 0.02, 0.04, 0.08 and 0.06 s.
    assert 3 < down.limiter.failures["connection"] <= 2 + 8 + 4
    assert turns(tmp_path / "run").keys() == {item.item_id for item in bench.items}


def test_questions_that_always_fail_do_not_keep_the_others_from_being_asked(
    bench: Benchmark, serve: Serve, tmp_path: Path
) -> None:
    bad = {item.item_id for item in bench.items[:6]}
    server = serve(
        lambda request: Reply(status=500, body=b"") if request.item.item_id in bad else Reply("Answer: 1"),
        "independent",
    )
    order = RunConfig(
        bench, (model(server),), protocols.named("independent"), tmp_path / "run", concurrency=4,
        policy=replace(QUICK, attempts=6), patience=OutagePolicy(pause_s=0.05),
    )  # fmt: skip
    progress = runner.run(order)[0]
    assert (progress.counts["error"], progress.counts["not_asked"]) == (len(bad), 0)
    asked = [request.item.item_id for request in server.requests]
    assert Counter(asked) == {item.item_id: 6 if item.item_id in bad else 1 for item in bench.items}
    first_good = next(number for number, item_id in enumerate(asked) if item_id not in bad)
    # Five failures while four are in flight make the endpoint seem down; then two pauses end with the other two.
    assert first_good <= 4 + 4 + 2


def test_a_server_that_answers_only_429_is_asked_seldom_and_given_up_although_it_never_answered(
    bench: Benchmark, serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = serve(lambda request: Reply(status=429, body=b'{"error": {"message": "no more requests today"}}'))
    patience = OutagePolicy(failures=3, pause_s=0.1, give_up_s=0.6, unknown_give_up_s=0.05)
    order = RunConfig(
        bench, (model(server),), "end_to_end", tmp_path / "run", concurrency=4, policy=replace(QUICK, attempts=50),
        patience=patience,
    )  # fmt: skip
    (progress,) = runner.run(order)
    assert progress.stopped is not None
    assert progress.stopped.startswith("the model was given up because its server answered only HTTP 429 for 1 s")
    # Three in a row while up to four are in flight, then one attempt after each pause of 0.1, 0.2 and 0.3 s.
    assert 3 < len(server.requests) <= 2 + 4 + 4
    assert progress.counts["error"] <= 4
    live_progress.print_summary(progress)
    out = capsys.readouterr().out
    assert "last error: HTTP 429: no more requests today" in out
    assert f"failed attempts: {len(server.requests)} x 429" in out


def test_an_endpoint_that_comes_back_is_asked_again_and_no_item_suffers(
    bench: Benchmark, serve: Serve, tmp_path: Path
) -> None:
    times: list[float] = []

    def behave(request: Request) -> Reply:
        times.append(time.monotonic())
        down = len(times) > 5 and times[-1] - times[5] < 0.5
        # Later than the answers before it: one that came between two failures would say that the endpoint is up.
        return Reply(status=503, body=b"", delay_s=0.05) if down else Reply("Answer: 1")

    policy = replace(QUICK, attempts=6)
    patience = OutagePolicy(failures=3, pause_s=0.1, give_up_s=20)
    server = serve(behave)
    order = RunConfig(
        bench, (model(server),), "end_to_end", tmp_path / "run", concurrency=2, policy=policy, patience=patience
    )
    progress = runner.run(order)[0]
    assert (progress.unfinished, progress.stopped) == (0, None)
    # Two failures whose places others may take before the third closes the limiter on two in flight; then one attempt
    # after each pause of 0.1, 0.2 and 0.4 seconds.
    assert 3 <= progress.limiter.failures["5xx"] <= 2 + 2 + 3
    # Each pause began a further conversation. Afterwards, one begins only when fewer than two are held.
    talks = {item.item_id: talk for talk in protocols.conversations(bench, "end_to_end") for item in talk}
    held: set[str] = set()
    up = sum(moment - times[5] < 0.5 for moment in times)
    for number, request in enumerate(server.requests):
        first, last = (talks[request.item.item_id][place].item_id for place in (0, -1))
        assert number <= up or first in held or len(held) < 2
        held.add(first)
        assert number != up or 2 < len(held) < len(set(talks.values()))
        if request.item.item_id == last and not 5 < number < up:
            held.remove(first)


def test_429_halves_the_attempts_in_flight_and_answers_win_them_back(
    bench: Benchmark, serve: Serve, tmp_path: Path
) -> None:
    places: list[int] = []

    def behave(request: Request) -> Reply:
        if request.number in (3, 12):
            return Reply(status=429, body=b'{"error": {"message": "slow"}}')
        return Reply("Answer: 1", delay_s=0.01)

    order = RunConfig(bench, (model(serve(behave)),), "end_to_end", tmp_path / "run", concurrency=8, policy=QUICK)
    progress = runner.run(order, lambda progress: places.append(progress.limiter.limit))[0]
    assert progress.unfinished == 0
    assert places[0] == 8
    assert min(places) in (2, 3, 4)
    assert places[-1] > min(places)
