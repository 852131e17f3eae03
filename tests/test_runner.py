"""Runs: baselines, the log, resuming, refusals; models asked over HTTP are in ``test_http``."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_server import FakeServer, Reply, Request

from chexqa import benchmark, runlog, schemas
from chexqa.benchmark import Benchmark
from chexqa.errors import InputError, UnfinishedError
from chexqa.eval import access, baselines, log, parser, protocols, registry, runner
from chexqa.eval.runner import Order
from chexqa.items import is_right

Cli = Callable[..., tuple[int, str, str]]
BASELINES = ("oracle", "chance", "first", "blind-prior")
TURN = runlog.Turn(
    model="m/x", protocol="end_to_end", case_id="c1", item_id="c1/detection", repeat=0, rotation=0, blind=False,
    attempts=1, state="answered", parsed=(2,), raw="Answer: 2", finish_reason="stop",
    usage={"input_tokens": 3, "output_tokens": 1}, cost_usd=None, latency_s=0.1, provider_model="x",
    request_hash="0" * 64, image_hashes=("1" * 64,), started="2026-01-01", error=None,
)  # fmt: skip


@pytest.fixture
def bench(tiny_benchmark: Path) -> Benchmark:
    return benchmark.load(tiny_benchmark)


def models(*names: str) -> tuple[registry.Model, ...]:
    known = registry.load()
    return tuple(known[f"baseline/{name}"] for name in names)


def accuracy(bench: Benchmark, folder: Path) -> dict[str, float]:
    assert bench.answers is not None
    right: Counter[str] = Counter()
    for turn in runlog.load(folder).turns:
        answer = bench.answers[turn.item_id]
        right[turn.model] += is_right(bench.item[turn.item_id], answer, turn.parsed or ())
    return {model: count / len(bench.items) for model, count in right.items()}


# Baselines


@pytest.mark.parametrize("protocol", protocols.PROTOCOLS)
def test_every_baseline_finishes_under_every_protocol_and_the_oracle_misses_only_what_nobody_can_hit(
    bench: Benchmark, tmp_path: Path, protocol: str
) -> None:
    order = Order(bench, models(*BASELINES), protocols.named(protocol), tmp_path / "run")
    for standing in runner.run(order):
        assert standing.counts == Counter(answered=len(bench.items)), standing.model
        assert standing.cost_usd == 0
    reached = accuracy(bench, tmp_path / "run")
    assert bench.answers is not None
    attainable = sum(bool(answer.answer) for answer in bench.answers.values()) / len(bench.items)
    assert reached["baseline/oracle"] == attainable
    assert reached["baseline/blind-prior"] > reached["baseline/first"] > 0


def test_chance_draws_evenly_over_the_legal_answers_and_by_the_seed_alone(bench: Benchmark) -> None:
    drawn: dict[str, Counter[tuple[int, ...]]] = {}
    items = {item.kind: item for item in bench.items}
    for kind in ("detection", "distribution", "location", "revision_expansion", "grid_cell"):
        replies = [baselines.Desk(bench, seed).reply("chance", items[kind]) for seed in range(640)]
        drawn[kind] = Counter(parser.parse(items[kind], reply) or (0,) for reply in replies)
        assert replies[7] == baselines.Desk(bench, 7).reply("chance", items[kind])
    legal = {"detection": 2, "distribution": 4, "location": 8, "revision_expansion": 16, "grid_cell": 64}
    assert {kind: len(counts) for kind, counts in drawn.items()} == legal
    for kind, counts in drawn.items():
        assert max(counts.values()) < 640 / legal[kind] + 6 * (640 / legal[kind]) ** 0.5
    assert {answer for answer in drawn["location"] if 4 in answer} == {(4,)}


def test_the_oracle_names_the_best_covered_cell_of_the_hits_or_of_all_where_none_is_one(bench: Benchmark) -> None:
    assert bench.answers is not None
    hits, none = (item for item in bench.items if item.kind == "grid_cell")
    coverage = [0.0] * 64
    coverage[9], coverage[10], coverage[20] = 0.6, 0.9, 0.95
    answers = {
        hits.item_id: replace(bench.answers[hits.item_id], evidence={"coverage": coverage}),
        none.item_id: replace(bench.answers[none.item_id], evidence={"coverage": [0.1, 0.3] + [0.0] * 62}),
    }
    desk = baselines.Desk(replace(bench, answers=bench.answers | answers), 0)
    assert (desk.reply("oracle", hits), desk.reply("oracle", none)) == ("Answer: C2", "Answer: B1")
    bare = baselines.Desk(bench, 0)
    assert (bare.reply("oracle", hits), bare.reply("oracle", none)) == ("Answer: B2", "Answer: A1")


def test_blind_prior_knows_none_whatever_its_number_and_names_no_option_an_item_lacks(handmade: Any) -> None:
    for name, answer in (("a", (5,)), ("b", (5,)), ("c", (2, 4)), ("d", (1,))):
        handmade.case(name, "effusion", "revision_required", revision_expansion=answer, revision_contraction=(3, 4))
    short = handmade.case("e", "effusion", "revision_required", revision_expansion=(1,), revision_contraction=(1,))
    for place, item in enumerate(handmade.items):
        if item.item_id in (f"{short}/revision_expansion", f"{short}/revision_contraction"):
            options = (*item.options[:2], replace(item.options[4], n=3))
            handmade.items[place] = replace(item, options=options)
    bench = benchmark.load(handmade.write())
    desk = baselines.Desk(bench, 0)
    assert desk.reply("blind-prior", bench.item[f"{short}/revision_expansion"]) == "Answer: 3"
    assert desk.reply("blind-prior", bench.item[f"{short}/revision_contraction"]) == "Answer: 1"


@pytest.mark.parametrize("name", ["oracle", "blind-prior"])
def test_a_baseline_that_needs_the_key_says_so_before_anything_is_written(
    tiny_benchmark: Path, tmp_path: Path, cli: Cli, name: str
) -> None:
    (tiny_benchmark / "answers.jsonl").unlink()
    code, _, err = cli("eval", tiny_benchmark, "--models", f"baseline/{name}", "-o", tmp_path / "run")
    assert code == 2
    assert f"the model baseline/{name} needs the key" in err
    assert not (tmp_path / "run").exists()
    assert cli("eval", tiny_benchmark, "--models", "baseline/first", "-o", tmp_path / "run")[0] == 0


# The command


def test_the_command_prints_states_and_what_to_do_next(tiny_benchmark: Path, tmp_path: Path, cli: Cli) -> None:
    command = ("eval", tiny_benchmark, "--models", "baseline/oracle,baseline/first", "-o", tmp_path / "run")
    code, out, _ = cli(*command)
    assert code == 0
    assert "baseline/oracle: 30 answered ($0.00)" in out
    assert f"Next: chexqa grade {tmp_path / 'run'}" in out
    written = (tmp_path / "run" / "turns" / "baseline--oracle.jsonl").read_bytes()
    assert cli(*command)[0] == 0
    assert (tmp_path / "run" / "turns" / "baseline--oracle.jsonl").read_bytes() == written


def test_all_says_per_model_what_it_lacks_and_runs_nothing(
    tiny_benchmark: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    for model in registry.load().values():
        for variable in (model.key_variable, model.endpoint_variable):
            if variable:
                monkeypatch.delenv(variable, raising=False)
    code, _, err = cli("eval", tiny_benchmark, "--models", "all", "-o", tmp_path / "run")
    assert code == 2
    for model in registry.load().values():
        assert model.domain == "baseline" or f"{model.name}: set " in err
    code, _, err = cli("eval", tiny_benchmark, "--models", "all", "--skip-unavailable", "-o", tmp_path / "run")
    assert code == 2
    assert not (tmp_path / "run").exists()
    code, out, err = cli(
        "eval", tiny_benchmark, "--models", "baseline/first,gpt-5.4", "--skip-unavailable", "-o", tmp_path / "run"
    )
    assert (code, "baseline/first: 30 answered" in out) == (0, True)
    assert "gpt-5.4: set OPENAI_API_KEY" in err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--models", "baseline/orakel"], "did you mean 'baseline/oracle'"),
        (["--models", "baseline/first", "--protocol", "oracel_passed"], "did you mean 'oracle_passed'"),
        ([], "no model is named"),
        (["--api-base", "http://127.0.0.1:1/v1"], "--api-base goes with --model-id"),
        (["--model-id", "m", "--api-base", "127.0.0.1:8000"], "is no URL such as http://127.0.0.1:8000/v1"),
        (["--model-id", "m", "--api-base", "http://me:hush@127.0.0.1:1/v1"], "holds a user, password or query"),
        (["--model-id", "no-such-provider/m"], "litellm knows no provider for 'no-such-provider/m'"),
        (["--model-id", "baseline/guess"], "there is no model 'baseline/guess' (known: "),
        (["--models", "baseline/first", "--concurrency", "0"], "--concurrency"),
    ],
)
def test_bad_input_is_one_sentence_with_exit_code_2_and_nothing_written(
    tiny_benchmark: Path, tmp_path: Path, cli: Cli, arguments: list[str], sentence: str
) -> None:
    code, _, err = cli("eval", tiny_benchmark, *arguments, "-o", tmp_path / "run")
    assert (code, sentence in err) == (2, True), err
    assert "hush" not in err
    assert not (tmp_path / "run").exists()


# Run folders


def test_a_differing_run_is_refused_with_what_changed_and_more_models_may_join(
    bench: Benchmark, tmp_path: Path, handmade: Any
) -> None:
    run = tmp_path / "run"
    first = Order(bench, models("first"), "end_to_end", run)
    runner.run(first)
    runner.run(replace(first, models=models("oracle")))
    assert runlog.load(run).models == ("baseline/first", "baseline/oracle")
    with pytest.raises(InputError, match="the protocol was end_to_end and is now independent"):
        runner.run(replace(first, protocol="independent"))
    with pytest.raises(InputError, match="the seed was 0 and is now 4"):
        runner.run(replace(first, seed=4))
    warmer = replace(models("first")[0], decoding={"temperature": 1})
    with pytest.raises(InputError, match=r"the decoding of 'baseline/first' was \{\} and is now"):
        runner.run(replace(first, models=(warmer,)))
    other = replace(models("first")[0], litellm="baseline/chance")
    with pytest.raises(InputError, match="the litellm id of 'baseline/first'"):
        runner.run(replace(first, models=(other,)))
    handmade.case("new", "edema", "lesion_free", detection=(2,))
    with pytest.raises(InputError, match=r"the benchmark was .* and is now"):
        runner.run(replace(first, benchmark=benchmark.load(handmade.write())))
    assert len(runlog.load(run).turns) == 2 * len(bench.items)


def test_a_moved_benchmark_resumes_and_the_run_finds_it_beside_itself(bench: Benchmark, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    runner.run(Order(bench, models("first"), "end_to_end", tmp_path / "run"))
    moved.mkdir()
    (tmp_path / "run").rename(moved / "run")
    assert runlog.load(moved / "run").benchmark_folder == bench.folder
    bench.folder.rename(moved / "bench")
    assert runlog.load(moved / "run").benchmark_folder == moved / "bench"
    order = Order(benchmark.load(moved / "bench"), models("first"), "end_to_end", moved / "run")
    assert runner.run(order)[0].unfinished == 0


def test_a_folder_that_is_no_run_is_left_alone(bench: Benchmark, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("keep")
    (tmp_path / "file").write_text("keep")
    for folder in (tmp_path / "notes", tmp_path / "file"):
        with pytest.raises(InputError, match="exists and is no run"):
            runner.run(Order(bench, models("first"), "end_to_end", folder))


def test_a_cut_last_line_is_mended_and_its_turn_alone_asked_again(bench: Benchmark, tmp_path: Path) -> None:
    order = Order(bench, models("chance"), "end_to_end", tmp_path / "run", concurrency=1)
    runner.run(order)
    path = log.log_path(tmp_path / "run", "baseline/chance")
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    path.write_bytes(whole[:-20])
    assert len(runlog.load(tmp_path / "run").turns) == len(bench.items) - 1
    assert runner.run(order)[0].unfinished == 0
    assert path.read_bytes().splitlines(keepends=True)[:-1] == lines[:-1]
    assert len(runlog.load(tmp_path / "run").turns) == len(bench.items)
    path.write_bytes(whole[:-1])
    assert len(runlog.load(tmp_path / "run").turns) == len(bench.items)
    assert runner.run(order)[0].unfinished == 0
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('{"model": ', "line 2: not valid JSON"),
        ('{"model": "baseline/first"}', "line 2: the field 'protocol' is missing"),
        (json.dumps(TURN.to_record()), "another run's log"),
        (json.dumps(replace(TURN, model="baseline/first").to_record()), "which the benchmark lacks"),
    ],
)
def test_a_log_with_a_line_that_is_not_its_own_is_refused_by_line(
    bench: Benchmark, tmp_path: Path, line: str, sentence: str
) -> None:
    order = Order(bench, models("first"), "end_to_end", tmp_path / "run")
    runner.run(order)
    path = log.log_path(tmp_path / "run", "baseline/first")
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], line, *lines[1:]]) + "\n")
    with pytest.raises(InputError, match=sentence):
        runner.run(order)


def test_a_picture_changed_after_the_benchmark_was_written_is_never_sent(
    tiny_benchmark: Path, tmp_path: Path, cli: Cli
) -> None:
    bench = benchmark.load(tiny_benchmark)
    for picture in tiny_benchmark.glob("images/*/*.png"):
        picture.write_bytes(picture.read_bytes() + b"more")
    with FakeServer(bench, "end_to_end", lambda request: Reply("Answer: 1")) as server:
        code, _, err = cli("eval", tiny_benchmark, "--model-id", "m", "--api-base", server.url, "-o", tmp_path / "run")
    assert (code, server.requests, server.problems) == (2, [], [])
    assert "the picture was changed after the benchmark was written" in err


def test_turns_appended_at_once_are_all_in_the_log_in_order(tmp_path: Path) -> None:
    async def write() -> None:
        with log.opened(tmp_path, "m/x") as opened:
            await asyncio.gather(*(opened.append(replace(TURN, repeat=n // 2, attempts=n + 1)) for n in range(8)))

    asyncio.run(write())
    (turns, whole) = runlog.read_log(log.log_path(tmp_path, "m/x"))
    assert [turn.attempts for turn in turns] == list(range(1, 9))
    assert whole == log.log_path(tmp_path, "m/x").stat().st_size
    assert turns[0] == replace(TURN, attempts=1)


def test_a_full_disk_stops_the_run_and_keeps_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write

    def full(descriptor: int, data: bytes) -> int:
        if len(data) < 100:
            raise OSError(28, "No space left on device")
        return real(descriptor, data[:-50])

    async def write() -> None:
        with log.opened(tmp_path, "m/x") as opened:
            await opened.append(TURN)
            monkeypatch.setattr(os, "write", full)
            with pytest.raises(UnfinishedError, match="No space left on device"):
                await opened.append(TURN)

    asyncio.run(write())
    assert runlog.read_log(log.log_path(tmp_path, "m/x")).turns == [TURN]
    assert log.log_path(tmp_path, "m/x").read_bytes().endswith(b"\n")


@pytest.mark.parametrize(
    "change",
    [{}, {"state": "correct"}, {"parsed": [0]}, {"parsed": [1, True]}, {"parsed": [1.0]}, {"attempts": -1},
     {"attempts": 1.5}, {"blind": 1}, {"usage": {"input_tokens": 1}}, {"request_hash": "0"}, {"image_hashes": ["x"]},
     {"usage": {"input_tokens": 1, "output_tokens": None, "more": 1}}, {"model": ""}, {"error": 5}, {"extra": None},
     {"cost_usd": "1"}, {"cost_usd": True}, {"raw": None}],
)  # fmt: skip
def test_the_compiled_turn_check_agrees_with_jsonschema(change: dict[str, Any]) -> None:
    record = TURN.to_record() | change
    assert runlog.turn_check()(record) == schemas.validator("turn").is_valid(record)
    assert runlog.turn_check()(TURN.to_record())
    missing = {name: value for name, value in TURN.to_record().items() if name != "raw"}
    assert not runlog.turn_check()(missing)
    assert not runlog.turn_check()([])


def test_a_schema_keyword_that_is_not_compiled_is_an_error_and_never_ignored() -> None:
    with pytest.raises(ValueError, match="maxLength is not compiled"):
        runlog.compile_check({"type": "string", "maxLength": 3})


# Stopping and going on


def test_ctrl_c_lets_the_turns_in_flight_finish_and_the_same_command_goes_on(
    bench: Benchmark, tmp_path: Path, cli: Cli
) -> None:
    def behave(request: Request) -> Reply:
        if request.number == 5:
            os.kill(os.getpid(), signal.SIGINT)
        return Reply("Answer: 1", delay_s=0.1)

    with FakeServer(bench, "end_to_end", behave) as server:
        command = ("eval", bench.folder, "--model-id", "m", "--api-base", server.url, "-o", tmp_path / "run",
                   "--concurrency", 2)  # fmt: skip
        code, _, err = cli(*command)
        assert code == 3
        assert "run the same command again" in err
        asked = len(server.requests)
        assert 6 <= asked <= 7
        assert len(runlog.load(tmp_path / "run").turns) == asked
        assert cli(*command)[0] == 0
        assert len(server.requests) == len(bench.items)


def test_a_second_ctrl_c_does_not_wait_for_the_turns_in_flight(bench: Benchmark, tmp_path: Path, cli: Cli) -> None:
    def behave(request: Request) -> Reply:
        if request.number == 3:
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.2)
            return Reply("Answer: 1", delay_s=8)
        return Reply("Answer: 1")

    with FakeServer(bench, "end_to_end", behave) as server:
        command = ("eval", bench.folder, "--model-id", "m", "--api-base", server.url, "-o", tmp_path / "run",
                   "--concurrency", 1)  # fmt: skip
        began = time.monotonic()
        assert cli(*command)[0] == 3
        assert time.monotonic() - began < 7
        assert len(runlog.load(tmp_path / "run").turns) == 3
        assert cli(*command)[0] == 0
        assert len(server.requests) == len(bench.items) + 1


def test_a_killed_run_frees_its_lock_and_no_turn_in_its_log_is_asked_again(
    handmade: Any, tmp_path: Path, cli: Cli
) -> None:
    for number in range(10):
        handmade.case(f"case {number}", "effusion", "revision_required", grid=(1,))
    bench = benchmark.load(handmade.write())
    enough = threading.Event()

    def behave(request: Request) -> Reply:
        if request.number == 25:
            enough.set()
        return Reply("Answer: A1" if request.item.kind == "grid_cell" else "Answer: 1", delay_s=0.05)

    with FakeServer(bench, "end_to_end", behave) as server:
        command = ["eval", str(bench.folder), "--model-id", "m", "--api-base", server.url, "-o", str(tmp_path / "run"),
                   "--concurrency", "4"]  # fmt: skip
        process = subprocess.Popen(
            [sys.executable, "-c", "from chexqa.cli import main; main()", *command],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            assert enough.wait(60)
            code, _, err = cli(*command)
            assert (code, "another process writes the turns of 'm'" in err) == (2, True), err
            assert f"(process {process.pid})" in err
        finally:
            process.kill()
            process.wait()
        kept = {turn.item_id for turn in runlog.load(tmp_path / "run").turns}
        before = Counter(request.item.item_id for request in server.requests)
        assert len(kept) >= 25 - 4
        assert cli(*command)[0] == 0
        after = Counter(request.item.item_id for request in server.requests) - before
    assert server.problems == []
    assert not kept & set(after)
    assert len(server.requests) - len(bench.items) <= 4
    written = [turn.item_id for turn in runlog.read_log(log.log_path(tmp_path / "run", "m")).turns]
    assert sorted(written) == sorted(bench.item)


# Credentialed cases


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("http://127.0.0.1:8000/v1", True),
        ("http://localhost:8000/v1", True),
        ("http://[::1]:8000/v1", True),
        ("http://10.1.2.3/v1", True),
        ("http://172.16.0.1/v1", True),
        ("http://192.168.7.7:80/v1", True),
        ("http://[fc00::1]/v1", True),
        ("http://[::ffff:10.0.0.1]/v1", True),
        ("http://[::ffff:8.8.8.8]/v1", False),
        ("http://172.32.0.1/v1", False),
        ("http://169.254.169.254/v1", False),
        ("http://0.0.0.0:8000/v1", False),
        ("http://8.8.8.8/v1", False),
        ("https://api.openai.com/v1", False),
        ("http://localhost.example.com/v1", False),
        ("http://10.0.0.1.example.com/v1", False),
        ("http://10.0.0.1@example.com/v1", False),
        ("not a url", False),
    ],
)
def test_only_loopback_and_private_addresses_are_local(address: str, local: bool) -> None:
    assert access.is_local(address) is local


def test_a_proxy_outside_makes_a_private_address_remote(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.example.com:3128")
    monkeypatch.setenv("no_proxy", "")
    assert not access.is_local("http://10.1.2.3/v1")
    monkeypatch.setenv("no_proxy", "10.1.2.3")
    assert access.is_local("http://10.1.2.3/v1")
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("http_proxy", "http://10.0.0.9:3128")
    assert access.is_local("http://10.1.2.3/v1")


def test_credentialed_cases_are_sent_nowhere_else_without_the_flag(handmade: Any, tmp_path: Path, cli: Cli) -> None:
    handmade.case("a", "effusion", "lesion_free", detection=(2,), access="credentialed")
    handmade.case("b", "effusion", "lesion_free", detection=(2,))
    bench = benchmark.load(handmade.write())
    provider = registry.adhoc("openai/gpt-4o", None)
    elsewhere = registry.adhoc("m", "https://models.example.com/v1")
    disguised = replace(elsewhere, name="baseline/x", domain="baseline", access="baseline")
    for model in (provider, elsewhere, disguised):
        with pytest.raises(InputError, match=r"1 case in it are credentialed.*--allow-remote-credentialed"):
            runner.run(Order(bench, (*models("first"), model), "end_to_end", tmp_path / "run"))
    assert not (tmp_path / "run").exists()
    access.check_credentialed(bench, [elsewhere], allow_remote=True)
    assert cli("eval", bench.folder, "--models", "baseline/first", "-o", tmp_path / "local")[0] == 0
    with FakeServer(bench, "end_to_end", lambda request: Reply("Answer: 2")) as server:
        command = ("eval", bench.folder, "--model-id", "m", "--api-base", server.url, "-o", tmp_path / "http")
        assert cli(*command)[0] == 0
        assert len(server.requests) == 2
