"""Batches: the same turns as a live run, whatever comes back and whenever a process is killed."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import runs
from batch_server import STEPS, BatchServer, answered, expired, returned
from fake_server import FakeServer, Reply, Request, Script
from handmade import Handmade
from raw_server import http, raw_server
from rest_long import rest_long
from small_server import recorder

from chexqa.contract import benchmark, read_run
from chexqa.contract.benchmark import Benchmark
from chexqa.eval.batches import request_files, rounds, submit
from chexqa.eval.batches.line_formats import FORMS, form_of
from chexqa.eval.batches.request_files import PartWriter, split_id
from chexqa.eval.models import registry
from chexqa.eval.models.failures import SendError
from chexqa.eval.models.rate_limit import RetryPolicy
from chexqa.eval.models.registry import Model, Price
from chexqa.eval.prompts import protocols
from chexqa.eval.runs import runner
from chexqa.eval.runs.budget import Budget
from chexqa.eval.runs.model_progress import ModelProgress
from chexqa.eval.runs.runner import RunConfig
from chexqa.eval.scoring import grade
from chexqa.eval.scoring.csv_and_parquet import csv_bytes
from chexqa.files.errors import InputError, UnfinishedError

Cli = Callable[..., tuple[int, str, str]]
QUICK = RetryPolicy(attempts=4, timeout_s=20, backoff_s=0.01, backoff_limit_s=0.02)
# The number of kills; more of them take longer.
KILLS = int(os.environ.get("CHEXQA_KILLS", "3"))


@pytest.fixture
def bench(tiny_benchmark: Path) -> Benchmark:
    return benchmark.load(tiny_benchmark)


def order(bench: Benchmark, folder: Path, url: str = "http://127.0.0.1:9/v1", **changes: Any) -> RunConfig:
    """An order to ask the model ``m``."""
    model = registry.adhoc("m", url)
    return RunConfig(bench, (model,), "end_to_end", folder, policy=QUICK, **changes)


def live(bench: Benchmark, folder: Path, **changes: Any) -> None:
    """Ask the same questions of the same server one by one."""
    protocol = changes.get("protocol", "end_to_end")
    with FakeServer(bench, protocol, Script(bench, storm=False)) as server:
        (progress,) = runner.run(replace(order(bench, folder, server.url), **changes))
    assert not progress.unfinished


def same_turns(one: Path, other: Path) -> None:
    """Hold the turns and the grades of two runs against each other."""
    left_out = ("started", "latency_s", "attempts", "cost_usd")

    def told(folder: Path) -> list[dict[str, Any]]:
        turns = sorted(read_run.load(folder).turns, key=lambda turn: turn.key)
        return [{k: v for k, v in turn.to_record().items() if k not in left_out} for turn in turns]

    assert told(one) == told(other)
    grades = [grade.grade_folders([folder]).grades.drop("cost_usd", "latency_s") for folder in (one, other)]
    assert csv_bytes(grades[0], None) == csv_bytes(grades[1], None)


def requests_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def put(folder: Path, name: str, lines: list[dict[str, Any]]) -> Path:
    path = folder / "m" / "results" / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def by_hand(order: RunConfig, folder: Path, server: FakeServer, seed: int = 0) -> list[ModelProgress]:
    """Go on round by round as a user does who carries files to and fro; every second file is done by two machines."""
    draw, progress = random.Random(seed), rounds.step(order, folder)[0]
    for number in range(60):
        _, waiting = rounds.step(order, folder)
        paths = [path for one in waiting for path in one.parts]
        if not paths:
            break
        for place, path in enumerate(paths):
            requests = requests_of(path)
            lines = returned(server, requests, draw)
            if number == 1:  # one file expires
                lines = [expired(request) for request in requests]
            half = len(lines) // 2 if place % 2 else len(lines)
            put(folder, f"{path.stem}-a", lines[:half] or [expired(requests[0])])
            put(folder, f"{path.stem}-b", lines[half:])
        progress, _ = rounds.step(order, folder)
    return progress


@pytest.mark.parametrize("protocol", rest_long(["end_to_end", "oracle_stated", "independent"], keep=1))
def test_turns_and_grades_are_those_of_a_live_run(bench: Benchmark, tmp_path: Path, protocol: Any) -> None:
    live(bench, tmp_path / "live", protocol=protocol)
    with FakeServer(bench, protocol, Script(bench, storm=False)) as server:
        one = replace(order(bench, tmp_path / "batch"), protocol=protocol)
        (progress,) = by_hand(one, tmp_path / "files", server)
        assert server.problems == []
    assert (progress.unfinished, progress.spent.usd.whole) == (0, 0)
    same_turns(tmp_path / "live", tmp_path / "batch")


def test_a_round_asks_one_question_of_each_conversation_and_nothing_that_waits_is_written_again(
    bench: Benchmark, tmp_path: Path
) -> None:
    one = order(bench, tmp_path / "run")
    _, (first,) = rounds.step(one, tmp_path / "files")
    assert first.requests == len(protocols.conversations(bench, "end_to_end"))
    _, (again,) = rounds.step(one, tmp_path / "files")
    assert (again.written, again.parts) == ([], first.parts)
    ids = [request["custom_id"] for request in requests_of(first.parts[0])]
    assert len(set(ids)) == len(ids)
    assert all(len(custom_id) <= 64 and split_id(custom_id) for custom_id in ids)
    # A part that is removed will never come back, so its questions are in the next round.
    first.parts[0].unlink()
    _, (next_one,) = rounds.step(one, tmp_path / "files")
    later = [request["custom_id"] for request in requests_of(next_one.written[0])]
    assert [split_id(one)[0] for one in later] == [split_id(one)[0] for one in ids]  # type: ignore[index]


def test_no_part_is_larger_than_an_endpoint_takes(
    bench: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_files, "MAX_PART_BYTES", 45_000)
    monkeypatch.setattr(request_files, "MAX_PART_LINES", 3)
    _, (one,) = rounds.step(replace(order(bench, tmp_path / "run"), protocol="independent"), tmp_path / "files")
    sizes = [(path.stat().st_size, len(requests_of(path))) for path in one.parts]
    assert all(size <= 45_000 and lines <= 3 for size, lines in sizes)
    assert sum(lines for _, lines in sizes) == one.requests == len(bench.items)
    assert sum(size for size, _ in sizes) == one.bytes
    monkeypatch.setattr(request_files, "MAX_PART_BYTES", 1_000)
    with pytest.raises(InputError, match="one request takes"):
        rounds.step(order(bench, tmp_path / "other"), tmp_path / "others")
    assert not list((tmp_path / "others" / "m").glob("*.jsonl"))


def test_a_picture_that_cannot_be_read_leaves_whole_parts_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_files, "MAX_PART_LINES", 2)
    monkeypatch.setattr(request_files, "AHEAD_BYTES", 10)

    def picture(path: str) -> bytes:
        if path == "5":
            raise InputError("5: the picture was changed")
        return f"<{path}>".encode()

    def add(writer: PartWriter, number: int) -> None:
        writer.add(str(number), [b"{", str(number).encode(), b"}\n"])

    writer = PartWriter(tmp_path, 1, picture, lambda path: 3)

    def write() -> None:
        with writer:
            for number in range(9):
                add(writer, number)

    with pytest.raises(InputError, match="5: the picture was changed"):
        write()
    assert [path.read_bytes() for path in writer.parts] == [b"{<0>}\n{<1>}\n", b"{<2>}\n{<3>}\n"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"round-001-part-00{part}.{ending}" for part in (1, 2) for ending in ("ids", "jsonl")
    ]
    # Requests that are still being encoded when the block ends are written too, in their order.
    with PartWriter(tmp_path, 2, lambda path: f"<{path}>".encode(), lambda path: 3) as writer:
        for number in range(3):
            add(writer, number)
    assert [path.read_bytes() for path in writer.parts] == [b"{<0>}\n{<1>}\n", b"{<2>}\n"]
    assert (writer.requests, writer.bytes) == (3, 18)


def test_a_run_goes_on_live(bench: Benchmark, tmp_path: Path) -> None:
    with FakeServer(bench, "end_to_end", Script(bench, storm=False)) as server:
        one = order(bench, tmp_path / "run", server.url)
        _, (waiting,) = rounds.step(one, tmp_path / "files")
        put(tmp_path / "files", "r", [answered(server, request) for request in requests_of(waiting.parts[0])])
        (progress,), _ = rounds.step(one, tmp_path / "files")
        assert progress.asked == waiting.requests
        before = len(server.requests)
        (progress,) = runner.run(one)
        assert not progress.unfinished
        assert len(server.requests) - before == len(bench.items) - waiting.requests
    live(bench, tmp_path / "live")
    same_turns(tmp_path / "live", tmp_path / "run")


def test_what_fails_for_good_is_logged_once_and_asked_again_by_the_next_command(
    bench: Benchmark, tmp_path: Path
) -> None:
    one = order(bench, tmp_path / "run", limit=1)
    for number in (1, 2):
        _, (waiting,) = rounds.step(one, tmp_path / "files")
        (request, *_) = requests_of(waiting.parts[-1])
        assert request["custom_id"].endswith(f"-{number}")
        response = {"status_code": 401, "body": {"error": {"message": "no such key"}}}
        put(tmp_path / "files", str(number), [{"custom_id": request["custom_id"], "response": response}])
        (progress,), (waiting,) = rounds.step(one, tmp_path / "files")
        assert (progress.error, waiting.parts, len(waiting.failed)) == ("HTTP 401: no such key", [], 1)
    lines = (tmp_path / "run" / "turns" / "m.jsonl").read_text().splitlines()
    assert [json.loads(line)["attempts"] for line in lines] == [1, 2]


def test_what_may_pass_is_asked_again_as_often_as_a_live_question(bench: Benchmark, tmp_path: Path) -> None:
    one = order(bench, tmp_path / "run", limit=1)
    for number in range(1, QUICK.attempts + 1):
        _, (waiting,) = rounds.step(one, tmp_path / "files")
        put(tmp_path / "files", str(number), [expired(request) for request in requests_of(waiting.parts[0])])
    (progress,), _ = rounds.step(one, tmp_path / "files")
    assert "batch_expired" in (progress.error or "")
    assert f"(rounds: {QUICK.attempts})" in (progress.error or "")


BROKEN = ["{", "[]", '{"custom_id": "request-1", "response": {"status_code": 200, "body": {}}}', "null", "\ud83d"]


def test_lines_that_are_no_results_are_passed_over_and_said(
    bench: Benchmark, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeServer(bench, "end_to_end", Script(bench, storm=False)) as server:
        one = order(bench, tmp_path / "run", server.url)
        _, (waiting,) = rounds.step(one, tmp_path / "files")
        lines = [json.dumps(answered(server, request)) for request in requests_of(waiting.parts[0])]
    path = put(tmp_path / "files", "r", [])
    path.write_bytes("\n".join([*BROKEN, *lines[:-1], "", lines[-1][:-20]]).encode(errors="replace"))
    (progress,), (waiting,) = rounds.step(one, tmp_path / "files")
    assert progress.asked == len(lines) - 1
    assert f"ignored {len(BROKEN) + 1} lines" in capsys.readouterr().err.replace("\n", " ")
    # The line that was cut, and the next question of those that were answered.
    assert 0 < waiting.requests <= len(lines)


def test_a_reply_without_choices_counts_once_although_its_line_comes_twice(bench: Benchmark, tmp_path: Path) -> None:
    one = order(bench, tmp_path / "run", limit=1)
    _, (waiting,) = rounds.step(one, tmp_path / "files")
    (request, *_) = requests_of(waiting.parts[0])
    empty = {"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}}
    line = {"custom_id": request["custom_id"], "response": {"status_code": 200, "body": empty}}
    put(tmp_path / "files", "r", [line, line])
    _, (waiting,) = rounds.step(one, tmp_path / "files")
    again = requests_of(waiting.written[0])[0]["custom_id"]
    full = {"choices": [{"message": {"role": "assistant", "content": "Answer: 1"}, "finish_reason": "stop"}]}
    put(tmp_path / "files", "s", [{"custom_id": again, "response": {"status_code": 200, "body": full}}])
    rounds.step(one, tmp_path / "files")
    (turn,) = read_run.load(tmp_path / "run").turns
    assert turn.failed_usage == {"input_tokens": 100, "output_tokens": 10, "uncounted_attempts": 0}


def test_a_reply_that_is_no_completion_is_as_good_as_none(bench: Benchmark, tmp_path: Path) -> None:
    one = order(bench, tmp_path / "run", limit=1)
    _, (waiting,) = rounds.step(one, tmp_path / "files")
    (request, *_) = requests_of(waiting.parts[0])
    put(
        tmp_path / "files",
        "r",
        [{"custom_id": request["custom_id"], "response": {"status_code": 200, "body": {"a": 1}}}],
    )
    (progress,), (waiting,) = rounds.step(one, tmp_path / "files")
    assert progress.asked == 0
    assert requests_of(waiting.written[0])[0]["custom_id"].endswith("-2")


# What lines are


def body_of(model: Model, bench: Benchmark) -> dict[str, Any]:
    """The request line of a model for the benchmark's longest conversation, with its pictures."""
    longest = max(protocols.conversations(bench, "end_to_end"), key=len)
    said = [protocols.PriorReply("Answer: 1", (1,))] * (len(longest) - 1)
    pieces = form_of(model).request(model, protocols.render(bench, "end_to_end", longest, said), "id-1")
    line = b"".join(piece if place % 2 == 0 else b"PICTURE" for place, piece in enumerate(pieces))
    assert line.count(b"\n") == 1
    record: dict[str, Any] = json.loads(line)
    return record


@pytest.mark.parametrize("name", ["gpt-5.4", "gpt-4o", "lingshu-32b"])
def test_a_request_is_what_a_live_one_sends_in_openais_form(
    bench: Benchmark, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = registry.load()[name]
    reply = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Answer: 1"}, "finish_reason": "stop"}]}  # fmt: skip
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    with recorder(reply) as (url, bodies):
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        monkeypatch.setenv("CHEXQA_LINGSHU_32B_URL", url)
        runner.run(RunConfig(bench, (model,), "end_to_end", tmp_path / "live", limit=1))
        monkeypatch.delenv("CHEXQA_LINGSHU_32B_URL")
        _, (waiting,) = rounds.step(RunConfig(bench, (model,), "end_to_end", tmp_path / "run", limit=1), tmp_path / "f")
    (request, *_) = requests_of(waiting.parts[0])
    assert (request["method"], request["url"]) == ("POST", "/v1/chat/completions")
    sent = {name: value for name, value in bodies[0].items() if value is not False}
    assert request["body"] == sent


def test_a_request_and_a_reply_of_gemini_are_what_a_live_one_has(
    bench: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [{"text": "I look.", "thought": True}, {"text": "Answer: 1"}]
    reply = {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
             "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 3, "thoughtsTokenCount": 5,
                               "totalTokenCount": 17}, "modelVersion": "gemini-x"}  # fmt: skip
    model = registry.load()["gemini-3.1-pro"]
    monkeypatch.setenv("GEMINI_API_KEY", "not-a-key")
    with recorder(reply) as (url, bodies):
        monkeypatch.setenv("GEMINI_API_BASE", f"{url}/v1beta")
        runner.run(RunConfig(bench, (model,), "end_to_end", tmp_path / "live", limit=1))
    batch = RunConfig(bench, (model,), "end_to_end", tmp_path / "run", limit=1)
    for number in range(9):
        _, (waiting,) = rounds.step(batch, tmp_path / "files")
        if not waiting.parts:
            break
        requests = requests_of(waiting.parts[0])
        if number == 0:
            assert requests[0]["request"] == bodies[0]
        folder = waiting.folder / "results"
        (folder / f"{number}.jsonl").write_text(
            "".join(json.dumps({"key": request["key"], "response": reply}) + "\n" for request in requests)
        )
    same_turns(tmp_path / "live", tmp_path / "run")
    assert read_run.load(tmp_path / "run").turns[0].reasoning == "I look."


LINES: dict[str, tuple[str, dict[str, Any], str]] = {
    "openai": ("openai", {"custom_id": "i", "response": {"status_code": 200, "body": {"choices": []}},
               "error": None}, ""),
    "vllm": ("openai", {"id": "vllm-1", "custom_id": "i", "response": {"status_code": 200, "request_id": "r",
             "body": {"choices": []}}, "error": None}, ""),
    "vllm, an error": ("openai", {"custom_id": "i", "response": {"status_code": 400, "request_id": "r", "body": None},
                       "error": {"message": "too long", "code": 400}}, "HTTP 400: too long"),
    "together": ("openai", {"custom_id": "i", "response": {"status_code": 200, "body": {"choices": []}}}, ""),
    "no envelope": ("openai", {"custom_id": "i", "response": {"choices": []}}, ""),
    "expired": ("openai", {"custom_id": "i", "response": None, "error": {"code": "batch_expired", "message": "late"}},
                "the batch returned no reply: batch_expired late"),
    "an error of words": ("openai", {"custom_id": "i", "error": "oh"}, "the batch returned no reply: oh"),
    "gemini": ("gemini", {"key": "i", "response": {"candidates": []}}, ""),
    "gemini, an error": ("gemini", {"key": "i", "error": {"code": 3, "message": "too wide"}}, "HTTP 400: too wide"),
    "gemini, lost": ("gemini", {"key": "i", "error": {"code": 13, "message": "internal"}},
                     "the batch returned no reply: 13 internal"),
}  # fmt: skip


@pytest.mark.parametrize("case", LINES)
def test_a_line_of_results_is_read_in_every_providers_form(case: str) -> None:
    form, line, error = LINES[case]
    said = FORMS[form].answered(line)
    assert said is not None
    assert said.custom_id == "i"
    assert (said.error.text if said.error else "") == error
    assert (said.body is None) == bool(error)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("line", [None, 1, "x", [], {}, {"custom_id": 1}, {"custom_id": "i"}, {"key": "i"}, {"key": 2}])
def test_a_line_of_something_else_is_none(form: str, line: object) -> None:
    assert FORMS[form].answered(line) is None


@pytest.mark.parametrize(
    ("body", "said"),
    [({}, "ValueError usageMetadata not found"), ({"candidates": 3}, "TypeError object of type 'int' has no len")],
)
def test_a_body_of_gemini_that_is_no_reply_says_what_litellm_missed(body: dict[str, Any], said: str) -> None:
    with pytest.raises(SendError, match=f"^malformed reply: {said}"):
        FORMS["gemini"].response(registry.load()["gemini-3.1-pro"], body)


# Sending


def send(bench: Benchmark, server: BatchServer, folder: Path) -> list[ModelProgress]:
    return submit.run(order(bench, folder / "run", server.url), folder / "files", poll_s=0.01)


def test_batches_are_sent_fetched_and_go_on_to_the_end(bench: Benchmark, tmp_path: Path) -> None:
    live(bench, tmp_path / "live")
    with FakeServer(bench, "end_to_end", Script(bench, storm=False)) as fake, BatchServer(fake) as server:
        (progress,) = send(bench, server, tmp_path)
        assert fake.problems == []
    assert not progress.unfinished
    assert len(set(server.asked)) == len(server.asked)
    assert "expired" in {batch["status"] for batch in server.batches.values()}
    same_turns(tmp_path / "live", tmp_path / "run")


@pytest.mark.long
def test_kills_between_writing_sending_and_fetching_change_nothing(bench: Benchmark, tmp_path: Path) -> None:
    live(bench, tmp_path / "live")
    with FakeServer(bench, "end_to_end", Script(bench, storm=False)) as fake, BatchServer(fake) as server:
        for number in range(KILLS):
            server.hold(STEPS[number % len(STEPS)])
            process = runs.batch_child(bench.folder, server.url, tmp_path / "run", tmp_path / "files")
            assert server.is_held.wait(120), STEPS[number % len(STEPS)]
            process.kill()
            process.join()
            server.release()
        process = runs.batch_child(bench.folder, server.url, tmp_path / "run", tmp_path / "files")
        process.join(300)
        assert process.exitcode == 0
        assert fake.problems == []
    # Nothing was paid for twice: a question is in a later round only if it was not answered.
    assert len(set(server.asked)) == len(server.asked)
    same_turns(tmp_path / "live", tmp_path / "run")


def test_a_batch_whose_id_was_not_written_down_is_found_again(bench: Benchmark, tmp_path: Path) -> None:
    with FakeServer(bench, "end_to_end", Script(bench, storm=False)) as fake, BatchServer(fake, looks=10**6) as server:
        one = order(bench, tmp_path / "run", server.url)
        _, (waiting,) = rounds.step(one, tmp_path / "files")
        sender = submit.Sender(one.models[0], one, waiting)
        sender.send(waiting.parts[0])
        record = json.loads((waiting.folder / "sent.json").read_text())
        record["parts"][waiting.parts[0].name] |= {"batch_id": None, "status": "new"}
        (waiting.folder / "sent.json").write_text(json.dumps(record))
        sender.send(waiting.parts[0])
        assert len(server.batches) == 1
        assert sender.fetch(waiting.parts[0]) is None


def test_an_endpoint_that_is_not_there_is_said_in_one_sentence_and_the_files_stay(
    bench: Benchmark, tmp_path: Path
) -> None:
    with pytest.raises(
        UnfinishedError,
        match=r"part-001\.jsonl: .*Connection error.* \(at http://127\.0\.0\.1:9/v1\); remove this cause",
    ):
        submit.run(order(bench, tmp_path / "run"), tmp_path / "files", poll_s=0.01)
    assert len(list((tmp_path / "files" / "m").glob("*.jsonl"))) == 1


@pytest.mark.parametrize(("status", "said"), [("404 Not Found", "HTTP 404"), ("200 OK", "an unknown reply")])
def test_a_server_without_batches_is_said_in_one_sentence(
    bench: Benchmark, tmp_path: Path, status: str, said: str
) -> None:
    body = b'{"error": "Unexpected endpoint or method. (POST /v1/files)"}'
    reply = http(body, status, Content_Type="application/json")
    with raw_server(lambda: [reply]) as url, pytest.raises(InputError) as found:
        submit.run(order(bench, tmp_path / "run", url), tmp_path / "files", poll_s=0.01)
    assert str(found.value).startswith(f"{url}: this server takes no batches (POST /files gave {said}); leave out --")


# The command


def test_the_command_writes_reads_and_says_what_is_next(cli: Cli, bench: Benchmark, tmp_path: Path) -> None:
    command = ("eval", bench.folder, "--model-id", "m", "--api-base", "http://127.0.0.1:9/v1", "--limit", 1,
               "--batch", tmp_path / "files", "-o", tmp_path / "run")  # fmt: skip
    with FakeServer(bench, "end_to_end", lambda request: Reply("Answer: 1")) as server:
        for _ in range(12):
            code, out, err = cli(*command)
            if code == 0:
                break
            said = err.replace("\n", " ")
            assert code == 3
            assert "Put the files of results into" in said
            path = max((tmp_path / "files" / "m").glob("*.jsonl"))
            assert str(path) in err.replace("\n", "")
            put(tmp_path / "files", path.stem, [answered(server, request) for request in requests_of(path)])
    assert (code, "Next: chexqa grade" in out) == (0, True)


def test_the_command_refuses_what_cannot_be_a_batch(cli: Cli, bench: Benchmark, tmp_path: Path) -> None:
    command = ("eval", bench.folder, "-o", tmp_path / "run", "--batch", tmp_path / "files")
    for options, says in (
        (("--models", "baseline/first"), "cannot be asked in batches"),
        (("--models", "gpt-5.4", "--budget-usd", 1), "cannot stop the run"),
        (("--model-id", "anthropic/claude-x"), "for which chexqa cannot write batches"),
    ):
        code, _, err = cli(*command, *options)
        assert (code, says in err.replace("\n", " ")) == (2, True), err
    code, _, err = cli("eval", bench.folder, "-o", tmp_path / "run", "--models", "gpt-5.4", "--batch-submit")
    assert (code, "needs --batch DIR" in err.replace("\n", " ")) == (2, True)
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "files").exists()


def test_litellm_sends_no_batches_of_gemini(bench: Benchmark, tmp_path: Path) -> None:
    model = registry.load()["gemini-3.1-pro"]
    with pytest.raises(InputError, match="litellm cannot send batches to"):
        submit.run(RunConfig(bench, (model,), "end_to_end", tmp_path / "run"), tmp_path / "files")
    assert not (tmp_path / "run").exists()


def test_a_batch_costs_half(cli: Cli, handmade: Handmade, tmp_path: Path) -> None:
    handmade.case("a", "effusion", "lesion_free", detection=(2,))
    bench = benchmark.load(handmade.write())
    estimates = [
        json.loads(
            cli("estimate", bench.folder, "--models", "gpt-5.4", "--protocol", "independent", "--json", *more)[1]
        )
        for more in ((), ("--batch",))
    ]
    assert estimates[1][0]["cost_usd"] == pytest.approx(estimates[0][0]["cost_usd"] / 2)
    model = replace(registry.adhoc("m", "http://127.0.0.1:9/v1"), price=Price(2, 4, 1))
    one = RunConfig(bench, (model,), "end_to_end", tmp_path / "run", policy=QUICK, budget=Budget())

    def behave(request: Request) -> Reply:
        return Reply("Answer: 1")

    with FakeServer(bench, "end_to_end", behave) as server:
        _, (waiting,) = rounds.step(one, tmp_path / "files")
        put(tmp_path / "files", "r", [answered(server, request) for request in requests_of(waiting.parts[0])])
        (progress,), _ = rounds.step(one, tmp_path / "files")
    assert progress.spent.usd.whole == pytest.approx((1000 * 2 + 20 * 4) / 1e6 / 2)
