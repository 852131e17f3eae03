"""Runs under a storm of failures, killed, and on a full disk: nothing is lost and nothing asked twice."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import runs
from fake_server import FINAL, FakeServer, Reply, Request, Script

from chexqa.contract import benchmark, read_run
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import is_right
from chexqa.eval.runs import runner, turn_log

MODELS = ("one", "two")


def fill(handmade: Any, free: int, fits: int, revise: int) -> Benchmark:
    """A benchmark of so many cases of each path."""
    for number in range(free):
        handmade.case(f"free {number}", "effusion", "lesion_free", detection=(2,))
    for number in range(fits):
        handmade.case(f"fits {number}", "edema", "revision_free", contour_evaluation=(2,), location=(1, 3))
    for number in range(revise):
        handmade.case(f"revise {number}", "effusion", "revision_required", revision_contraction=(5,))
    return benchmark.load(handmade.write())


@contextmanager
def served(bench: Benchmark, requests: Path, *storm: str) -> Iterator[str]:
    """The address of a server in a process of its own; every request must have been well-formed by the end."""
    command = [
        sys.executable,
        str(Path(__file__).parents[1] / "support" / "fake_server.py"),
        str(bench.folder),
        str(requests),
        *storm,
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()
            problems = process.stdout.read()
    assert problems == ""


def accuracy(bench: Benchmark, folder: Path) -> dict[str, float]:
    assert bench.answers is not None
    right: Counter[str] = Counter()
    for turn in read_run.load(folder).turns:
        right[turn.model] += is_right(bench.item[turn.item_id], bench.answers[turn.item_id], turn.parsed or ())
    return {model: count / len(bench.items) for model, count in right.items()}


@pytest.mark.long
def test_a_storm_changes_no_state_and_no_accuracy(handmade: Any, tmp_path: Path) -> None:
    bench = fill(handmade, free=280, fits=12, revise=8)
    with served(bench, tmp_path / "calm.txt") as url:
        calm = runner.run(runs.order(bench.folder, url, tmp_path / "calm", 16, MODELS))
    with served(bench, tmp_path / "storm.txt", "storm") as url:
        stormy = runner.run(runs.order(bench.folder, url, tmp_path / "storm", 16, MODELS))
    script = Script(bench, storm=True)
    said = {turn.key: turn for turn in read_run.load(tmp_path / "storm").turns}
    assert len(said) == len(MODELS) * len(bench.items)
    for model in MODELS:
        for item in bench.items:
            state = script.state(model, item)
            turn = said[model, item.item_id, 0, 0]
            assert turn.state == (state if state in FINAL else "answered"), (turn, state)
            assert turn.parsed == (None if state in FINAL else script.numbers(item, state == "right"))
            assert turn.attempts > len(script.faults(model, item))
    assert accuracy(bench, tmp_path / "storm") == accuracy(bench, tmp_path / "calm")
    assert [one.counts for one in stormy] == [one.counts for one in calm]
    asked = Counter(tuple(json.loads(line)) for line in (tmp_path / "storm.txt").read_text().splitlines())
    # On a starved machine an attempt may run out of time before it reaches the server.
    assert all(asked[turn.model, turn.item_id] <= turn.attempts for turn in said.values())
    kinds = stormy[0].limiter.failures + stormy[1].limiter.failures
    assert set(kinds) == {"429", "5xx", "timeout", "connection", "malformed"}
    assert sum(asked.values()) * 0.2 < kinds.total() < sum(asked.values()) * 0.4
    assert not any(one.stopped for one in stormy)


@pytest.mark.xdist_group("forked")
def test_ten_kills_cost_no_more_than_the_turns_in_flight(handmade: Any, tmp_path: Path) -> None:
    kills, concurrency, run = 10, 4, tmp_path / "run"
    bench = fill(handmade, free=10, fits=10, revise=20)
    draw = random.Random(3)
    asked: list[str] = []

    def behave(request: Request) -> Reply:
        asked.append(request.item.item_id)
        return Reply("Answer: 1", delay_s=0.02)

    with FakeServer(bench, "end_to_end", behave) as server:
        for _ in range(kills):
            kept = kept_turns(run)
            before = len(asked)
            process = runs.child(bench.folder, server.url, run, concurrency)
            until(asked, before + draw.randint(3, 20))
            time.sleep(draw.uniform(0, 0.03))
            process.kill()
            process.join()
            assert not kept & set(asked[before:])
            assert kept <= kept_turns(run)
        kept, before = kept_turns(run), len(asked)
        process = runs.child(bench.folder, server.url, run, concurrency)
        process.join(120)
        assert process.exitcode == 0
    assert server.problems == []
    assert not kept & set(asked[before:])
    written = [turn.item_id for turn in read_run.read_log(turn_log.log_path(run, "m")).turns]
    assert sorted(written) == sorted(bench.item)
    assert len(asked) - len(bench.items) <= kills * concurrency


def kept_turns(run: Path) -> set[str]:
    return {turn.item_id for turn in read_run.load(run).turns} if (run / "run.json").exists() else set()


def until(asked: list[str], count: int) -> None:
    """Wait until so many requests have come, for two minutes at most."""
    for _ in range(12_000):
        if len(asked) >= count:
            return
        time.sleep(0.01)
    raise AssertionError(f"only {len(asked)} of {count} requests came")


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A file system of 64 kB at ``folder``; the test is skipped where none may be mounted."""
    folder.mkdir()
    mounted = (
        os.getuid() == 0
        and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], capture_output=True, check=False
        ).returncode
    )
    if not mounted:
        pytest.skip("a small file system for the test can be mounted by root alone")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.long
def test_a_full_disk_stops_the_run_and_with_room_it_goes_on(handmade: Any, tmp_path: Path, cli: Any) -> None:
    bench = fill(handmade, free=0, fits=0, revise=8)
    text = "I looked very closely. " * 60 + "Answer: 1"
    with (
        FakeServer(bench, "end_to_end", lambda request: Reply(text)) as server,
        small_disk(tmp_path / "disk"),
    ):
        run = tmp_path / "disk" / "run"
        command = ("eval", bench.folder, "--model-id", "m", "--api-base", server.url, "-o", run)
        code, _, err = cli(*command)
        assert code == 3, err
        assert "No space left on device" in err
        assert "run the same command again" in err
        kept = kept_turns(run)
        assert 0 < len(kept) < len(bench.items)
        asked = len(server.requests)
        subprocess.run(["mount", "-o", "remount,size=1m", str(tmp_path / "disk")], check=True)
        code, _, err = cli(*command)
    assert code == 0, err
    again = {request.item.item_id for request in server.requests[asked:]}
    assert again == set(bench.item) - kept


@pytest.mark.xdist_group("forked")
def test_a_log_that_may_not_grow_stops_the_run_and_later_it_goes_on(handmade: Any, tmp_path: Path) -> None:
    bench = fill(handmade, free=0, fits=0, revise=3)
    run = tmp_path / "run"
    with FakeServer(bench, "end_to_end", lambda request: Reply("Answer: 1")) as server:
        process = runs.child(bench.folder, server.url, run, 2, file_bytes=10_000)
        process.join(120)
        assert process.exitcode == 3
        whole = turn_log.log_path(run, "m").read_bytes()
        assert whole.endswith(b"\n")
        kept = kept_turns(run)
        assert 0 < len(kept) < len(bench.items)
        before = len(server.requests)
        process = runs.child(bench.folder, server.url, run, 2)
        process.join(120)
        assert process.exitcode == 0
        assert {request.item.item_id for request in server.requests[before:]} == set(bench.item) - kept
