"""How far a run is, read from its logs: finished, going on, torn, of several shards, without its benchmark."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from logs import log

from chexqa.contract import benchmark, read_run
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.read_run import Turn
from chexqa.eval.batches import rounds
from chexqa.eval.models import registry
from chexqa.eval.runs import runner
from chexqa.eval.runs.runner import RunConfig
from chexqa.eval.runs.status import Status, status
from chexqa.eval.runs.turn_log import log_path, sending_path
from chexqa.files.jsonio import dump
from chexqa.files.locks import locked

Cli = Callable[..., tuple[int, str, str]]
NOW = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def bench(tiny_benchmark: Path) -> Benchmark:
    return benchmark.load(tiny_benchmark)


@pytest.fixture
def run(bench: Benchmark, tmp_path: Path) -> Path:
    """A finished run of one baseline."""
    runner.run(RunConfig(bench, (registry.load()["baseline/first"],), "end_to_end", tmp_path / "run"))
    return tmp_path / "run"


def turns_of(run: Path) -> list[Turn]:
    return read_run.read_log(log_path(run, "baseline/first")).turns


def write(run: Path, turns: list[Turn], tail: str = "", name: str = "baseline--first.jsonl") -> None:
    (run / "turns" / name).write_text("".join(dump(turn.to_record()) + "\n" for turn in turns) + tail)


def only(run: Path, now: datetime = NOW) -> Status:
    (row,) = status(run, now)
    return row


def every(turns: list[Turn], seconds: float, until: datetime = NOW, **changes: object) -> list[Turn]:
    """The turns one after another, the last one ending at ``until``."""
    first = until - timedelta(seconds=seconds * len(turns))
    return [
        replace(turn, started=(first + timedelta(seconds=seconds * place)).isoformat(), latency_s=seconds,
                **changes)  # type: ignore[arg-type]
        for place, turn in enumerate(turns)
    ]  # fmt: skip


def test_a_finished_run_is_done(run: Path, bench: Benchmark) -> None:
    row = only(run)
    assert (row.total, row.done, row.left_s) == (len(bench.items), len(bench.items), None)
    assert row.states == {"answered": len(bench.items)}


def test_no_state_is_cut_off_on_a_terminal_of_80_columns(
    bench: Benchmark, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    models = "baseline/blind-prior,baseline/skill-95-60-70-50"
    assert cli("eval", bench.folder, "--models", models, "-o", tmp_path / "run")[0] == 0
    shown = cli("run", "status", tmp_path / "run")[1]
    assert shown.count(f"{len(bench.items)} answered") == 2
    assert max(map(len, shown.splitlines())) <= 80


def test_half_a_run_has_a_rate_and_a_time_left(run: Path) -> None:
    turns = turns_of(run)
    half = every(turns[: len(turns) // 2], 3.0)
    write(run, half)
    row = only(run)
    assert row.rate_per_min == pytest.approx(20)
    assert row.left_s == pytest.approx(3 * (len(turns) - len(half)))
    assert only(run, NOW + timedelta(minutes=11)).left_s is None, "nothing is going on any more"


def test_the_rate_is_that_of_the_last_minutes(run: Path) -> None:
    turns = turns_of(run)
    write(run, [*every(turns[:10], 0.1, NOW - timedelta(hours=2)), *every(turns[10:20], 6.0)])
    assert only(run).rate_per_min == pytest.approx(10)


def test_what_was_paid_is_the_sum_or_its_known_part(run: Path, cli: Cli) -> None:
    turns = turns_of(run)
    usage = {"input_tokens": 100, "output_tokens": 10, "reasoning_tokens": None, "cached_tokens": None}
    paid = [replace(turn, cost_usd=0.5, usage=usage, latency_s=1.0) for turn in turns[:4]]
    write(run, paid)
    names = ("cost_usd", "known_cost_usd", "turns_without_cost", "tokens", "known_tokens", "turns_without_tokens")
    assert [only(run).to_record()[name] for name in names] == [2.0, 2.0, 0, 440, 440, 0]
    write(run, [*paid, replace(turns[4], cost_usd=None, usage=None, latency_s=1.0)])
    (row,) = json.loads(cli("run", "status", run, "--json")[1])
    assert [row[name] for name in names] == [None, 2.0, 1, None, 440, 1]
    said = told(cli, run)
    assert "≥ $2.00" in said
    assert "baseline/first: cost: at least $2.00, not counting 1 turn of unknown cost." in said
    assert "baseline/first: tokens: at least 440, not counting 1 turn without token counts." in said


def test_an_error_is_not_done_until_it_is_answered(run: Path) -> None:
    turns = turns_of(run)
    broken = replace(turns[0], state="error", parsed=None, raw=None, error="boom")
    write(run, [broken])
    assert (only(run).done, only(run).states) == (0, {"error": 1})
    write(run, [broken, turns[0]])
    assert (only(run).done, only(run).states) == (1, {"answered": 1})
    write(run, [turns[0]])
    write(run, [broken], name="baseline--first.2-of-2.jsonl")
    assert (only(run).done, only(run).states) == (1, {"answered": 1})


def test_a_line_being_written_and_a_lock_being_held_disturb_nothing(run: Path) -> None:
    turns = turns_of(run)
    write(run, turns[:3], tail='{"model": "basel')
    with locked(log_path(run, "baseline/first").with_suffix(".lock"), "busy"), locked(run / "run.lock", "busy"):
        assert only(run).done == 3


def test_without_the_benchmark_the_total_is_unknown(run: Path, bench: Benchmark, cli: Cli) -> None:
    shutil.rmtree(bench.folder)
    assert (only(run).total, only(run).left_s) == (None, None)
    assert cli("run", "status", run)[0] == 0


def test_a_model_that_has_not_begun_is_shown(bench: Benchmark, tmp_path: Path, cli: Cli) -> None:
    models = tuple(registry.load()[name] for name in ("baseline/first", "baseline/chance"))
    runner.run(RunConfig(bench, models, "end_to_end", tmp_path / "run", limit=2))
    log_path(tmp_path / "run", "baseline/chance").unlink()
    first, chance = status(tmp_path / "run")
    assert (chance.done, chance.rate_per_min, chance.last_turn) == (0, None, None)
    assert first.total == chance.total == first.done < len(bench.items)
    code, out, _ = cli("run", "status", tmp_path / "run")
    assert code == 0
    rows = {line.split()[0]: line for line in out.splitlines()}
    assert "done" in rows["baseline/first"]
    assert "not begun" in rows["baseline/chance"]
    assert [one["model"] for one in json.loads(cli("run", "status", tmp_path / "run", "--json")[1])] == [
        "baseline/first", "baseline/chance"]  # fmt: skip


def test_a_day_without_a_time_of_day_is_taken_as_utc(run: Path) -> None:
    write(run, [replace(turn, started="2026-10-31") for turn in turns_of(run)])
    row = only(run)
    assert (row.rate_per_min, (row.last_turn or "")[:10]) == (None, "2026-10-31")


def test_a_folder_that_is_no_run_is_refused(cli: Cli, tmp_path: Path) -> None:
    code, _, err = cli("run", "status", tmp_path)
    assert code == 2
    assert "it is not a run" in err


def test_errors_are_no_replies_and_a_dead_endpoint_has_no_time_left(run: Path, cli: Cli) -> None:
    turns = turns_of(run)
    answered = every(turns[:10], 6.0, NOW - timedelta(minutes=2))
    write(run, answered)
    row = only(run)
    # Nine replies after the first one, over 54 s and the two minutes since.
    assert row.rate_per_min == pytest.approx(9 / (54 + 120) * 60, abs=0.01)
    assert (row.last_reply, row.last_error) == (row.last_turn, None)
    failed = every(turns[10:13], 0.01, state="error", parsed=None, raw=None, error="HTTP 500: boom")
    write(run, [*answered, *failed])
    row = only(run)
    assert (row.rate_per_min, row.left_s, row.last_error) == (None, None, "HTTP 500: boom")
    assert row.last_reply is not None
    assert datetime.fromisoformat(row.last_reply) == NOW - timedelta(minutes=2)
    out = cli("run", "status", run)[1]
    assert "baseline/first: last error: HTTP 500: boom" in out
    assert "ago" in out
    # A reply in the results of a batch has no latency; if it is empty, it has an error that says what it lacks.
    empty = replace(answered[-1], started=NOW.isoformat(), latency_s=None, state="empty", parsed=None, raw="",
                    error="the reply has no text")  # fmt: skip
    write(run, [*answered[:-1], empty])
    assert only(run).last_error is None


def test_the_last_error_is_that_of_an_open_error_turn_and_not_of_a_finished_one(run: Path) -> None:
    answered = every(turns_of(run)[:4], 6.0)
    nothing: dict[str, Any] = {"parsed": None, "raw": None, "latency_s": None}
    # An error's line has the time of its first attempt, so the time of its end is not known.
    error = replace(answered[0], state="error", error="HTTP 500: boom", **nothing)
    refused = replace(answered[2], state="refused", error="HTTP 400: content policy", **nothing)
    write(run, [answered[1], refused, answered[3], error])
    assert (only(run).last_error, only(run).rate_per_min) == ("HTTP 500: boom", None)
    write(run, [answered[1], error, answered[3], refused])
    assert only(run).last_error == "HTTP 500: boom"
    write(run, [error, answered[1], answered[0], refused])
    assert only(run).last_error == "HTTP 400: content policy"


def test_errors_alone_have_no_rate(run: Path) -> None:
    write(run, every(turns_of(run)[:3], 0.005, state="error", parsed=None, raw=None, error="boom"))
    assert (only(run).rate_per_min, only(run).left_s, only(run).last_reply) == (None, None, None)


def test_the_rate_of_a_finished_model_does_not_fall_with_time(tiny_benchmark: Path, tmp_path: Path) -> None:
    run = log(tmp_path / "run", tiny_benchmark)
    (soon,) = status(run)
    (late,) = status(run, datetime.fromisoformat(soon.last_reply or "") + timedelta(minutes=3))
    assert soon.done == soon.total
    assert late.rate_per_min == soon.rate_per_min
    assert late.left_s is None


def told(cli: Cli, run: Path) -> str:
    code, out, _ = cli("run", "status", run)
    assert code == 0
    return " ".join(out.split())


def test_a_model_that_no_process_asks_any_more_is_stopped_and_a_slow_one_is_not(run: Path, cli: Cli) -> None:
    write(run, every(turns_of(run)[:5], 3.0, datetime.now(UTC) - timedelta(minutes=7)))
    said = told(cli, run)
    assert " stopped " in said
    assert "baseline/first: no process asks this model; to ask its open questions, run" in said
    lock = log_path(run, "baseline/first").with_suffix(".lock")
    with locked(lock, "busy"):
        long_ago = (datetime.now(UTC) - timedelta(minutes=30)).timestamp()
        os.utime(lock, (long_ago, long_ago))
        said = told(cli, run)
        assert "stopped" not in said
        assert f"baseline/first: process {os.getpid()} asks it, no reply for 7 min." in said
        write(run, [])
        assert "no reply for 30 min." in told(cli, run)
        write(run, every(turns_of(run), 3.0, datetime.now(UTC)))
    with locked(log_path(run, "baseline/first").with_suffix("").with_suffix(".2-of-2.lock"), "busy"):
        assert [one["process"] for one in only(run).asking or ()] == [str(os.getpid())]
    assert only(run).asking == []


def test_a_finished_run_and_one_made_elsewhere_have_no_word_on_processes(
    run: Path, tiny_benchmark: Path, tmp_path: Path, cli: Cli
) -> None:
    assert "process" not in told(cli, run)
    elsewhere = log(tmp_path / "elsewhere", tiny_benchmark, skip=2)
    assert status(elsewhere)[0].asking is None
    assert "process" not in told(cli, elsewhere)


def test_batches_that_were_sent_are_told_from_those_whose_sender_was_killed(
    bench: Benchmark, tmp_path: Path, cli: Cli
) -> None:
    model, run, files = registry.adhoc("m", "http://127.0.0.1:9/v1"), tmp_path / "run", tmp_path / "files"
    _, (waiting,) = rounds.step(RunConfig(bench, (model,), "end_to_end", run, limit=2), files, sends=True)
    many = f"m: {waiting.requests} requests in 1 file of {files / 'm'} wait for results"
    with locked(sending_path(log_path(run, "m")), "busy"):
        said = told(cli, run)
        assert f"{many}; process {os.getpid()} fetches them." in said
        assert " in batches " in said
        code, _, err = cli("eval", bench.folder, "--model-id", "m", "--api-base", model.api_base, "--limit", "2",
                           "--batch", files, "--batch-submit", "-o", run)  # fmt: skip
        assert code == 2
        assert f"another process sends the batches of 'm' (process {os.getpid()})" in err.replace("\n", " ")
    said = told(cli, run)
    assert f"{many}, but no process fetches them; run the same command with --batch-submit again." in said
    assert " stopped " in said


def test_requests_that_wait_for_results_of_batches_are_told(bench: Benchmark, tmp_path: Path, cli: Cli) -> None:
    model, run, files = registry.adhoc("m", "http://127.0.0.1:9/v1"), tmp_path / "run", tmp_path / "files"
    order = RunConfig(bench, (model,), "end_to_end", run, limit=2)
    _, (waiting,) = rounds.step(order, files)
    said = told(cli, run)
    assert " in batches " in said
    back = files / "m" / "results"
    assert (
        f"{waiting.requests} requests in 1 file of {files / 'm'} wait for results; put the files of results into {back}"
        in said
    )
    assert "no process asks" not in said
    (row,) = json.loads(cli("run", "status", run, "--json")[1])
    assert (row["waiting"][0]["requests"], row["asking"]) == (waiting.requests, [])
    for number in range(9):
        if not waiting.parts:
            break
        lines = [json.loads(line) for line in waiting.parts[0].read_text().splitlines()]
        body = {
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "Answer: 1"}, "finish_reason": "stop"}]
        }
        back = [{"custom_id": line["custom_id"], "response": {"status_code": 200, "body": body}} for line in lines]
        (files / "m" / "results" / f"{number}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in back))
        _, (waiting,) = rounds.step(order, files)
    assert status(run)[0].waiting == ()
    assert " done " in told(cli, run)


def test_a_model_s_name_is_broken_between_its_words_at_80_columns(
    cli: Cli, tiny_benchmark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = cli("run", "status", log(tmp_path / "run", tiny_benchmark, model="baseline/some-blind-prior"))[1]
    names = [line.split()[0] for line in out.splitlines() if line[:1].isalpha()][1:3]
    assert names[0] + names[1] == "baseline/some-blind-prior", out
    assert names[0].endswith(("/", "-"))
