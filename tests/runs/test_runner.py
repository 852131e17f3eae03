"""Runs: baselines, the log, resuming, refusals; models asked over HTTP are in ``test_http``."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import runs
from fake_server import FakeServer, Reply, Request
from handmade import six_cases
from rest_long import rest_long
from turns import TURN

from chexqa.contract import benchmark, read_run
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import is_right
from chexqa.eval.design.subset import Shard
from chexqa.eval.models import baselines, data_policy, registry
from chexqa.eval.models import client as client_module
from chexqa.eval.prompts import answer_parser, protocols
from chexqa.eval.prompts.option_order import Modifiers
from chexqa.eval.runs import runner, turn_log
from chexqa.eval.runs.budget import Budget, BudgetTracker
from chexqa.eval.runs.runner import RunConfig
from chexqa.eval.runs.status import status
from chexqa.files.errors import InputError, UnfinishedError

Cli = Callable[..., tuple[int, str, str]]
BASELINES = ("oracle", "chance", "first", "blind-prior")


@pytest.fixture
def bench(tiny_benchmark: Path) -> Benchmark:
    return benchmark.load(tiny_benchmark)


def models(*names: str) -> tuple[registry.Model, ...]:
    known = registry.load()
    return tuple(known[f"baseline/{name}"] for name in names)


def accuracy(bench: Benchmark, folder: Path) -> dict[str, float]:
    assert bench.answers is not None
    right: Counter[str] = Counter()
    for turn in read_run.load(folder).turns:
        answer = bench.answers[turn.item_id]
        right[turn.model] += is_right(bench.item[turn.item_id], answer, turn.parsed or ())
    return {model: count / len(bench.items) for model, count in right.items()}


# Baselines


@pytest.mark.parametrize("protocol", rest_long(protocols.PROTOCOLS))
def test_every_baseline_finishes_under_every_protocol_and_the_oracle_misses_only_what_nobody_can_hit(
    bench: Benchmark, tmp_path: Path, protocol: str
) -> None:
    order = RunConfig(bench, models(*BASELINES), protocols.named(protocol), tmp_path / "run")
    for progress in runner.run(order):
        assert progress.counts == Counter(answered=len(bench.items)), progress.model
        assert progress.spent.usd.whole == 0
    reached = accuracy(bench, tmp_path / "run")
    assert bench.answers is not None
    attainable = sum(bool(answer.answer) for answer in bench.answers.values()) / len(bench.items)
    assert reached["baseline/oracle"] == attainable
    assert reached["baseline/blind-prior"] > reached["baseline/first"] > 0


def test_chance_draws_evenly_over_the_legal_answers_and_by_the_seed_alone(bench: Benchmark) -> None:
    drawn: dict[str, Counter[tuple[int, ...]]] = {}
    items = {item.kind: item for item in bench.items}
    for kind in ("detection", "distribution", "location", "revision_expansion", "grid_cell"):
        replies = [baselines.BaselineResponder(bench, seed).reply("chance", items[kind]) for seed in range(640)]
        drawn[kind] = Counter(answer_parser.parse(items[kind], reply) or (0,) for reply in replies)
        assert replies[7] == baselines.BaselineResponder(bench, 7).reply("chance", items[kind])
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
    responder = baselines.BaselineResponder(replace(bench, answers=bench.answers | answers), 0)
    assert (responder.reply("oracle", hits), responder.reply("oracle", none)) == ("Answer: C2", "Answer: B1")
    bare = baselines.BaselineResponder(bench, 0)
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
    responder = baselines.BaselineResponder(bench, 0)
    assert responder.reply("blind-prior", bench.item[f"{short}/revision_expansion"]) == "Answer: 3"
    assert responder.reply("blind-prior", bench.item[f"{short}/revision_contraction"]) == "Answer: 1"


@pytest.mark.parametrize("name", ["oracle", "blind-prior"])
def test_a_baseline_that_needs_the_key_says_so_before_anything_is_written(
    tiny_benchmark: Path, tmp_path: Path, cli: Cli, name: str
) -> None:
    (tiny_benchmark / "answers.jsonl").unlink()
    code, _, err = cli("eval", tiny_benchmark, "--models", f"baseline/{name}", "-o", tmp_path / "run")
    assert code == 2
    assert f"the model baseline/{name} needs the key" in err
    assert not (tmp_path / "run").exists()
    code, out, _ = cli("eval", tiny_benchmark, "--models", "baseline/first", "-o", tmp_path / "run")
    assert (code, "--benchmark WITH_KEY" in out) == (0, True)


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
        assert model.domain == "baseline" or model.group or f"{model.name}: set " in err
    code, _, err = cli("eval", tiny_benchmark, "--models", "all", "--skip-unavailable", "-o", tmp_path / "run")
    assert code == 2
    assert "Or ask the baselines, which need neither key nor server: --models baseline/chance,baseline/oracle" in err
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
        (["--api-base", "http://127.0.0.1:1/v1"], "--api-base needs a model"),
        (
            ["--model-id", "m", "--api-base", "127.0.0.1:8000"],
            "is not a URL; give one such as http://127.0.0.1:8000/v1",
        ),
        (["--model-id", "m", "--api-base", "http://me:hush@127.0.0.1:1/v1"], "contains a user, password, query or #"),
        (["--model-id", "m", "--api-base", "http://127.0.0.1:99999/v1"], "is not a URL; give one such as"),
        (["--model-id", "no-such-provider/m"], "litellm cannot tell the provider of 'no-such-provider/m'"),
        (["--model-id", "baseline/guess"], "there is no model 'baseline/guess' (did you mean 'baseline/first'?)"),
        (["--models", "baseline/first", "--concurrency", "0"], "--concurrency"),
        (["--models", "baseline/first", "--budget-usd", "nan"], "'--budget-usd': nan is not a finite number above 0"),
        (["--models", "baseline/first", "--timeout", "nan"], "'--timeout': nan is not a finite number above 0"),
        (["--models", "baseline/first", "--max-minutes", "inf"], "'--max-minutes': inf is not a finite number above 0"),
        (["--models", "baseline/first", "--give-up-after", "-1"], "--give-up-after"),
    ],
)
def test_bad_input_is_one_sentence_with_exit_code_2_and_nothing_written(
    tiny_benchmark: Path, tmp_path: Path, cli: Cli, arguments: list[str], sentence: str
) -> None:
    code, _, err = cli("eval", tiny_benchmark, *arguments, "-o", tmp_path / "run")
    assert (code, sentence in err) == (2, True), err
    assert "hush" not in err
    assert not (tmp_path / "run").exists()


def test_a_missing_benchmark_is_named_before_an_unknown_model(tmp_path: Path, cli: Cli) -> None:
    asked = ("--models", "mine")
    for command in (
        ("eval", tmp_path / "bnch", *asked, "-o", tmp_path / "run"),
        ("estimate", tmp_path / "bnch", *asked),
    ):
        code, _, err = cli(*command)
        assert (code, "bnch: no such folder; name a benchmark" in err) == (2, True), err


# Run folders


def test_a_differing_run_is_refused_with_what_changed_and_more_models_may_join(tmp_path: Path, handmade: Any) -> None:
    bench, run = benchmark.load(six_cases(handmade)), tmp_path / "run"
    first = RunConfig(bench, models("first"), "end_to_end", run)
    runner.run(first)
    runner.run(replace(first, models=models("oracle")))
    assert read_run.load(run).models == ("baseline/first", "baseline/oracle")
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
    assert len(read_run.load(run).turns) == 2 * len(bench.items)


def test_a_moved_benchmark_resumes_and_the_run_finds_it_beside_itself(bench: Benchmark, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    runner.run(RunConfig(bench, models("first"), "end_to_end", tmp_path / "run"))
    moved.mkdir()
    (tmp_path / "run").rename(moved / "run")
    assert read_run.load(moved / "run").benchmark_folder == bench.folder
    bench.folder.rename(moved / "bench")
    assert read_run.load(moved / "run").benchmark_folder == moved / "bench"
    order = RunConfig(benchmark.load(moved / "bench"), models("first"), "end_to_end", moved / "run")
    assert runner.run(order)[0].unfinished == 0


def test_a_folder_that_is_no_run_is_left_alone(bench: Benchmark, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("keep")
    (tmp_path / "file").write_text("keep")
    for folder in (tmp_path / "notes", tmp_path / "file"):
        with pytest.raises(InputError, match="already exists but is not a run"):
            runner.run(RunConfig(bench, models("first"), "end_to_end", folder))


def test_a_cut_last_line_is_mended_and_its_turn_alone_asked_again(bench: Benchmark, tmp_path: Path) -> None:
    order = RunConfig(bench, models("chance"), "end_to_end", tmp_path / "run", concurrency=1)
    runner.run(order)
    path = turn_log.log_path(tmp_path / "run", "baseline/chance")
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    path.write_bytes(whole[:-20])
    assert len(read_run.load(tmp_path / "run").turns) == len(bench.items) - 1
    assert runner.run(order)[0].unfinished == 0
    assert path.read_bytes().splitlines(keepends=True)[:-1] == lines[:-1]
    assert len(read_run.load(tmp_path / "run").turns) == len(bench.items)
    path.write_bytes(whole[:-1])
    assert len(read_run.load(tmp_path / "run").turns) == len(bench.items)
    assert runner.run(order)[0].unfinished == 0
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (json.dumps(TURN.to_record()), "the log of another run"),
        (json.dumps(replace(TURN, model="baseline/first").to_record()), "line 2: field 'item_id'.*chexqa run repair"),
    ],
)
def test_a_log_with_another_run_s_turn_is_refused(bench: Benchmark, tmp_path: Path, line: str, sentence: str) -> None:
    order = RunConfig(bench, models("first"), "end_to_end", tmp_path / "run")
    runner.run(order)
    path = turn_log.log_path(tmp_path / "run", "baseline/first")
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
        with turn_log.opened(tmp_path, "m/x") as opened:
            await asyncio.gather(*(opened.append(replace(TURN, repeat=n // 2, attempts=n + 1)) for n in range(8)))

    asyncio.run(write())
    (turns, whole, _) = read_run.read_log(turn_log.log_path(tmp_path, "m/x"))
    assert [turn.attempts for turn in turns] == list(range(1, 9))
    assert whole == turn_log.log_path(tmp_path, "m/x").stat().st_size
    assert turns[0] == replace(TURN, attempts=1)


def test_a_turn_counts_as_written_once_a_flush_begun_after_its_line_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, flushed = os.fsync, [0]

    def slow(descriptor: int) -> None:
        size = os.fstat(descriptor).st_size
        time.sleep(0.02)
        real(descriptor)
        flushed.append(size)

    async def one(opened: turn_log.Log, number: int) -> None:
        await asyncio.sleep(number * 0.005)
        await opened.append(replace(TURN, attempts=number))
        lines = opened.path.read_bytes().splitlines(keepends=True)
        place = [json.loads(line)["attempts"] for line in lines].index(number)
        assert flushed[-1] >= sum(map(len, lines[: place + 1]))

    async def write() -> None:
        with turn_log.opened(tmp_path, "m/x") as opened:
            await asyncio.gather(*(one(opened, number) for number in range(1, 13)))

    monkeypatch.setattr(os, "fsync", slow)
    asyncio.run(write())
    assert 0 < len(flushed) - 1 < 12, "turns that wait together share a flush"


def test_a_flush_that_fails_is_told_to_all_who_wait_and_to_nobody_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    async def write() -> None:
        with turn_log.opened(tmp_path, "m/x") as opened:
            with monkeypatch.context() as patch:
                patch.setattr(os, "fsync", fail)
                tasks = [asyncio.create_task(opened.append(TURN)) for _ in range(3)]
                await asyncio.sleep(0)
                tasks[0].cancel()
                cancelled, *others = await asyncio.gather(*tasks, return_exceptions=True)
            assert isinstance(cancelled, asyncio.CancelledError)
            assert all(isinstance(error, UnfinishedError) for error in others)
            await opened.append(TURN)

    asyncio.run(write())


def test_a_full_disk_stops_the_run_and_keeps_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write

    def full(descriptor: int, data: bytes) -> int:
        if len(data) < 100:
            raise OSError(28, "No space left on device")
        return real(descriptor, data[:-50])

    async def write() -> None:
        with turn_log.opened(tmp_path, "m/x") as opened:
            await opened.append(TURN)
            monkeypatch.setattr(os, "write", full)
            with pytest.raises(UnfinishedError, match="No space left on device"):
                await opened.append(TURN)
        # Before the next replies are paid for, the log says that they could not be kept.
        with pytest.raises(UnfinishedError, match="No space left on device"), turn_log.opened(tmp_path, "m/x"):
            pass

    asyncio.run(write())
    assert read_run.read_log(turn_log.log_path(tmp_path, "m/x")).turns == [TURN]
    assert turn_log.log_path(tmp_path, "m/x").read_bytes().endswith(b"\n")


# Stopping and going on


@pytest.mark.parametrize("number", rest_long([signal.SIGINT, signal.SIGHUP], keep=1))
def test_ctrl_c_or_a_lost_terminal_lets_the_turns_in_flight_finish_and_the_same_command_goes_on(
    bench: Benchmark, tmp_path: Path, cli: Cli, number: int, request: pytest.FixtureRequest
) -> None:
    usual = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # tests may run under nohup, which has it ignored
    request.addfinalizer(lambda: signal.signal(signal.SIGHUP, usual))

    def behave(request: Request) -> Reply:
        if request.number == 5:
            os.kill(os.getpid(), number)
        return Reply("Answer: 1", delay_s=0.1)

    with FakeServer(bench, "end_to_end", behave) as server:
        command = ("eval", bench.folder, "--model-id", "m", "--api-base", server.url, "-o", tmp_path / "run",
                   "--concurrency", 2)  # fmt: skip
        code, _, err = cli(*command)
        assert code == 3
        assert "run the same command again" in err
        asked = len(server.requests)
        assert 6 <= asked <= 7
        assert len(read_run.load(tmp_path / "run").turns) == asked
        assert cli(*command)[0] == 0
        assert len(server.requests) == len(bench.items)


def test_a_second_ctrl_c_does_not_wait_for_the_turns_in_flight(bench: Benchmark, tmp_path: Path, cli: Cli) -> None:
    presses: list[float] = []

    def behave(request: Request) -> Reply:
        if request.number == 3:
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGINT)
                presses.append(time.monotonic())
                time.sleep(0.2)
            return Reply("Answer: 1", delay_s=8)
        return Reply("Answer: 1")

    with FakeServer(bench, "end_to_end", behave) as server:
        price = "price: {input_per_million_usd: 1, output_per_million_usd: 1}"
        (tmp_path / "m.yaml").write_text(
            f"models:\n- {{name: m, litellm: openai/m, domain: general, access: open, api_base: {server.url}, {price}}}"
        )
        command = ("eval", bench.folder, "--models-file", tmp_path / "m.yaml", "--models", "m", "-o", tmp_path / "run",
                   "--concurrency", 1)  # fmt: skip
        code, out, _ = cli(*command)
        assert code == 3
        assert time.monotonic() - presses[1] < 7
        assert "leave out 1 attempt without a complete reply" in out
        assert [turn.state for turn in read_run.load(tmp_path / "run").turns].count("answered") == 3
        code, out, _ = cli(*command)
        assert code == 0
        assert len(server.requests) == len(bench.items) + 1
    # Later totals know of it, too, although the question has been answered since.
    for said in (out, cli("run", "status", tmp_path / "run")[1]):
        assert "leave out 1 attempt without a complete reply" in " ".join(said.split())
    tables = json.loads(cli("grade", tmp_path / "run", "--json")[1])["tables"]
    assert tables["costs"][0]["uncounted_attempts"] == 1


@pytest.mark.xdist_group("forked")
def test_a_second_process_is_refused_by_the_number_of_the_first_and_status_tells_when_that_is_dead(
    bench: Benchmark, tmp_path: Path, cli: Cli
) -> None:
    enough, is_ended = threading.Event(), threading.Event()

    def behave(request: Request) -> Reply:
        enough.set()
        return Reply("Answer: 1", delay_s=0 if is_ended.is_set() else 0.5)

    with FakeServer(bench, "end_to_end", behave) as server:
        process = runs.child(bench.folder, server.url, tmp_path / "run", 1)
        try:
            assert enough.wait(120)
            order = runs.order(bench.folder, server.url, tmp_path / "run", 1)
            with pytest.raises(InputError, match=rf"another process writes the turns of 'm'.*process {process.pid}\)"):
                runner.run(order)
            with pytest.raises(InputError, match="another process writes the turns of 'm'"):
                runner.run(replace(order, shard=Shard(1, 2)))
            (row,) = status(tmp_path / "run")
            assert [one["process"] for one in row.asking or ()] == [str(process.pid)]
        finally:
            process.kill()
            process.join()
            is_ended.set()
        assert status(tmp_path / "run")[0].asking == []
        assert runner.run(order)[0].unfinished == 0


# Budgets


def spent(folder: Path) -> float:
    return sum(turn.cost_usd or 0 for turn in read_run.load(folder).turns)


def test_a_budget_in_dollars_stops_before_it_is_passed_and_a_larger_one_goes_on(
    bench: Benchmark, tmp_path: Path
) -> None:
    with FakeServer(bench, "end_to_end", lambda request: Reply("Answer: 1")) as server:
        # A turn of 1,000 and 20 tokens costs 0.01 dollars.
        model = replace(registry.adhoc("m", server.url), price=registry.Price(8.0, 100.0))
        order = RunConfig(bench, (model,), "end_to_end", tmp_path / "run", concurrency=3, budget=Budget(usd=0.125))
        # Two turns that had room may still have waited at the limiter when the third found none: they are asked next.
        for one in (order, replace(order, concurrency=1)):
            progress = runner.run(one)[0]
            assert progress.stopped == "the rest of --budget-usd 0.125 does not suffice for another turn"
            assert 0.095 < spent(tmp_path / "run") < 0.125
        assert spent(tmp_path / "run") == pytest.approx(0.12)
        assert progress.unfinished == len(bench.items) - 12
        assert runner.run(order)[0].asked == 0
        again = runner.run(replace(order, budget=Budget(usd=1)))[0]
        assert (again.unfinished, again.stopped) == (0, None)
        assert again.spent.usd.whole == pytest.approx(0.01 * len(bench.items))
    assert len(server.requests) == len(bench.items)


def test_a_budget_in_tokens_and_one_in_minutes_stop_too(bench: Benchmark, tmp_path: Path, cli: Cli) -> None:
    with FakeServer(bench, "end_to_end", lambda request: Reply("Answer: 1", delay_s=0.05)) as server:
        command = ("eval", bench.folder, "--model-id", "m", "--api-base", server.url, "--concurrency", 1, "-o",
                   tmp_path / "run")  # fmt: skip
        code, out, err = cli(*command, "--budget-tokens", 3500)
        assert (code, len(server.requests)) == (3, 3)
        assert "the rest of --budget-tokens 3500 does not suffice for another turn" in out
        assert "raise the budget in the same command" in err
        code, _, err = cli(*command, "--max-minutes", 0.005)
        assert code == 3
        assert "the time limit of --max-minutes 0.005 is reached" in err
        assert 3 < len(server.requests) < len(bench.items)
        assert cli(*command)[0] == 0
    assert len(server.requests) == len(bench.items)


def test_an_attempt_that_may_be_billed_takes_an_average_turns_share_of_the_budget() -> None:
    usage = {"input_tokens": 90, "output_tokens": 10}
    late = {"input_tokens": 0, "output_tokens": 0, "uncounted_attempts": 2}
    tracker = BudgetTracker(Budget(tokens=500))
    tracker.earlier([replace(TURN, usage=usage), replace(TURN, usage=usage, failed_usage=late)])
    assert tracker.reserve("m/x") is None
    stop = tracker.reserve("m/x")
    assert stop is not None
    assert "--budget-tokens 500" in stop.why


def test_a_budget_that_cannot_be_kept_is_refused_or_stops_the_run(bench: Benchmark, tmp_path: Path, cli: Cli) -> None:
    silent = b'{"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "2"}}]}'
    told = Reply("Answer: 1")
    with FakeServer(bench, "end_to_end", lambda one: Reply(body=silent) if one.number == 1 else told) as server:
        command = ("eval", bench.folder, "--model-id", "m", "--api-base", server.url, "-o", tmp_path / "run")
        elsewhere = ("https://models.example/v1" if word == server.url else word for word in command)
        code, _, err = cli(*elsewhere, "--budget-usd", 5)
        assert code == 2
        assert "model 'm': its price is unknown, so --budget-usd cannot be enforced" in err
        assert not (tmp_path / "run").exists()
        code, _, err = cli(*command, "--budget-tokens", 5000, "--concurrency", 1)
        assert (code, len(server.requests)) == (3, 2)
        assert "the number of tokens of a reply from 'm' is unknown, so --budget-tokens cannot be enforced" in err
        assert "the known part so far is 1,020 tokens); leave out --budget-tokens in the same command" in err
        assert cli(*command)[0] == 0
    assert cli("eval", bench.folder, "--models", "baseline/first", "--budget-usd", 1, "-o", tmp_path / "b")[0] == 0


# Parts of a run


def test_shards_hold_whole_cases_and_together_all_of_them(bench: Benchmark, tmp_path: Path) -> None:
    order = RunConfig(bench, models("chance"), "end_to_end", tmp_path / "run", limit=5)
    parts = []
    for index in (1, 2, 3):
        progress = runner.run(replace(order, shard=Shard(index, 3)))[0]
        assert progress.unfinished == 0
        path = turn_log.log_path(tmp_path / "run", "baseline/chance", Shard(index, 3))
        parts.append({turn.item_id for turn in read_run.read_log(path).turns})
    cases = [{item_id.split("/")[0] for item_id in part} for part in parts]
    assert [len(part) for part in cases] == [2, 2, 1]
    assert sum(map(len, parts)) == len(set().union(*parts))
    assert len(set().union(*cases)) == 5
    assert {turn.item_id for turn in read_run.load(tmp_path / "run").turns} == set().union(*parts)
    whole = runner.run(order)[0]
    assert (whole.asked, whole.unfinished, whole.total) == (0, 0, sum(map(len, parts)))


def test_what_a_share_answered_counts_though_its_lock_file_is_gone(bench: Benchmark, tmp_path: Path) -> None:
    order = RunConfig(bench, models("chance"), "end_to_end", tmp_path / "run", limit=5)
    share = runner.run(replace(order, shard=Shard(1, 2)))[0]
    for lock in (tmp_path / "run" / "turns").glob("*.lock"):
        lock.unlink()
    whole = runner.run(order)[0]
    assert (whole.asked, whole.unfinished) == (whole.total - share.total, 0)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--shard", "0/2"], "--shard 0/2: this names no shard; write I/N with I from 1 to N, such as 2/5"),
        (["--shard", "3/2"], "--shard 3/2: this names no shard"),
        (["--limit", "2", "--limit-per-path", "1"], "give only one of them"),
        (["--blind", "--overlay-only"], "give only one of them"),
        (["--overlay-only"], "generate the benchmark again with 'chexqa generate --with-controls'"),
    ],
)
def test_parts_and_modifiers_that_make_no_sense_are_refused(
    bench: Benchmark, tmp_path: Path, cli: Cli, arguments: list[str], sentence: str
) -> None:
    code, _, err = cli("eval", bench.folder, "--models", "baseline/first", *arguments, "-o", tmp_path / "run")
    assert (code, sentence in err) == (2, True), err
    assert not (tmp_path / "run").exists()


def test_the_result_as_json_is_all_that_is_printed(bench: Benchmark, tmp_path: Path, cli: Cli) -> None:
    code, out, _ = cli("eval", bench.folder, "--models", "baseline/first", "--json", "-o", tmp_path / "run")
    assert code == 0
    (record,) = json.loads(out)["models"]
    assert (record["turns"], record["states"], record["cost_usd"], record["stopped"]) == (30, {"answered": 30}, 0, None)


# Modifiers


def test_every_repeat_and_rotation_is_a_conversation_of_its_own(bench: Benchmark, tmp_path: Path) -> None:
    how = Modifiers(rotations=3, repeats=2)
    order = RunConfig(bench, models("oracle", "first", "chance"), "end_to_end", tmp_path / "run", modifiers=how)
    assert all(progress.counts == Counter(answered=6 * len(bench.items)) for progress in runner.run(order))
    said = read_run.load(tmp_path / "run").turns
    assert len({turn.key for turn in said}) == len(said) == 3 * 6 * len(bench.items)
    assert bench.answers is not None
    for turn in said:
        item, answer = bench.item[turn.item_id], bench.answers[turn.item_id]
        assert turn.order is None or sorted(turn.order) == [option.n for option in item.options]
        if turn.model == "baseline/oracle" and answer.answer:
            assert is_right(item, answer, turn.parsed or ())
        if turn.model == "baseline/first":
            assert turn.parsed == (turn.order[0] if turn.order else 1,)
            assert turn.raw in ("Answer: 1", "Answer: A1")
    drawn: dict[str, set[Any]] = {}
    for turn in said:
        if turn.model == "baseline/chance":
            drawn.setdefault(turn.item_id, set()).add(turn.parsed)
    assert sum(len(values) > 1 for values in drawn.values()) > len(bench.items) / 2


def test_what_a_rotated_run_says_is_read_in_the_items_own_numbers(bench: Benchmark, tmp_path: Path) -> None:
    how = Modifiers(rotations=2)
    with FakeServer(bench, "end_to_end", lambda request: Reply("Answer: 1"), how) as server:
        model = registry.adhoc("m", server.url)
        progress = runner.run(RunConfig(bench, (model,), "end_to_end", tmp_path / "run", modifiers=how))[0]
    assert (progress.unfinished, server.problems) == (0, [])
    turned = [turn for turn in read_run.load(tmp_path / "run").turns if turn.rotation]
    kinds = {turn.item_id.split("/")[1]: (turn.order, turn.parsed) for turn in turned}
    assert kinds["detection"] == kinds["severity"] == (None, (1,))
    assert kinds["comparison"] == ((2, 3, 4, 1), (2,))
    assert kinds["location"] == ((2, 3, 1, 4), (2,))
    assert kinds["revision_contraction"] == ((2, 3, 4, 1, 5), (2,))
    assert kinds["revision_result"] == ((2, 3, 4, 1), (2,))
    assert kinds["grid_cell"] == (None, None)


def test_a_run_without_the_radiograph_sends_the_drawings_on_grey_alone(handmade: Any, tmp_path: Path) -> None:
    plain = handmade.picture
    handmade.picture = lambda role, *key: replace(
        plain(role, *key), control=None if role == "radiograph" else plain("control", role, *key).image
    )
    handmade.case("a", "effusion", "revision_required", grid=(1,))
    bench = benchmark.load(handmade.write())
    how = Modifiers(overlay_only=True)
    for protocol in ("end_to_end", "independent"):
        with FakeServer(bench, protocol, lambda request: Reply("Answer: 1"), how) as server:
            model = registry.adhoc("m", server.url)
            order = RunConfig(bench, (model,), protocols.named(protocol), tmp_path / protocol, modifiers=how)
            assert runner.run(order)[0].unfinished == 0
        assert server.problems == []
        sent = {digest for turn in read_run.load(tmp_path / protocol).turns for digest in turn.image_hashes}
        controls = {picture.control for item in bench.items for picture in item.turn_images if picture.control}
        assert sent == {benchmark.image_digest(image) for image in controls}


def test_a_blind_run_sends_no_picture_and_says_so(handmade: Any, tmp_path: Path, monkeypatch: Any) -> None:
    handmade.case("a", "effusion", "revision_required", access="credentialed")
    bench = benchmark.load(handmade.write())
    sent: list[Any] = []

    async def ask(client: Any, model: Any, messages: Any, limiter: Any) -> Any:
        sent.append(messages)
        return client_module.Reply("reply", 1, 0.1, "Answer: 1", "stop")

    monkeypatch.setattr(client_module.Client, "ask", ask)
    model = registry.adhoc("openai/gpt-4o", None)
    order = RunConfig(bench, (model,), "end_to_end", tmp_path / "run", modifiers=Modifiers(blind=True))
    assert runner.run(order)[0].unfinished == 0
    assert all(isinstance(part, str) for messages in sent for message in messages for part in message.parts)
    assert all(turn.blind and turn.image_hashes == () for turn in read_run.load(tmp_path / "run").turns)
    with pytest.raises(InputError, match="--blind was given and is now not given"):
        runner.run(replace(order, modifiers=Modifiers(), allow_remote_credentialed=True))


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
    assert data_policy.is_local(address) is local


def test_a_proxy_outside_makes_a_private_address_remote(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.example.com:3128")
    monkeypatch.setenv("no_proxy", "")
    assert not data_policy.is_local("http://10.1.2.3/v1")
    monkeypatch.setenv("no_proxy", "10.1.2.3")
    assert data_policy.is_local("http://10.1.2.3/v1")
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("http_proxy", "http://10.0.0.9:3128")
    assert data_policy.is_local("http://10.1.2.3/v1")


def test_credentialed_cases_are_sent_nowhere_else_without_the_flag(handmade: Any, tmp_path: Path, cli: Cli) -> None:
    handmade.case("a", "effusion", "lesion_free", detection=(2,), access="credentialed")
    handmade.case("b", "effusion", "lesion_free", detection=(2,))
    bench = benchmark.load(handmade.write())
    provider = registry.adhoc("openai/gpt-4o", None)
    elsewhere = registry.adhoc("m", "https://models.example.com/v1")
    disguised = replace(elsewhere, name="baseline/x", domain="baseline", access="baseline")
    for model in (provider, elsewhere, disguised):
        with pytest.raises(InputError, match=r"of its credentialed data .1 case. forbid.*--allow-remote-credentialed"):
            runner.run(RunConfig(bench, (*models("first"), model), "end_to_end", tmp_path / "run"))
    assert not (tmp_path / "run").exists()
    data_policy.check_credentialed(bench, [elsewhere], allow_remote=True)
    assert cli("eval", bench.folder, "--models", "baseline/first", "-o", tmp_path / "local")[0] == 0
    with FakeServer(bench, "end_to_end", lambda request: Reply("Answer: 2")) as server:
        command = ("eval", bench.folder, "--model-id", "m", "--api-base", server.url, "-o", tmp_path / "http")
        assert cli(*command)[0] == 0
        assert len(server.requests) == 2
