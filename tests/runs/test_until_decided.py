"""Runs that stop once two models are told apart: when, resumed after a kill, refused, and in the tables."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import runs
from fake_server import FakeServer, Reply, Request

from chexqa.contract import benchmark, read_run
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import is_right
from chexqa.eval.design import confidence_sequence
from chexqa.eval.design.pair_decision import PairTally, StoppingRule
from chexqa.eval.runs import runner, until_decided
from chexqa.eval.scoring import grade
from chexqa.eval.tables.all_tables import all_tables

Cli = Callable[..., tuple[int, str, str]]
RULE = StoppingRule(("a", "b"), "coarse")


@pytest.fixture
def bench(handmade: Any) -> Benchmark:
    """Ninety patients with one question each, and three without any that counts in a level."""
    for number in range(90):
        yes = number % 2 == 0
        handmade.case(f"n{number}", "edema", "lesion_free", detection=(1 if yes else 2,))
    for number in range(3):
        handmade.case(f"c{number}", "cardiomegaly", "lesion_free", detection=(2,))
    return benchmark.load(handmade.write())


def skilled(bench: Benchmark, **skill: float) -> Callable[[Request], Reply]:
    """Replies that depend on model and item alone; each model is right as often as its skill says."""

    def behave(request: Request) -> Reply:
        assert bench.answers is not None
        model, item = request.body["model"], request.item
        luck = int.from_bytes(hashlib.sha256(f"{model} {item.item_id}".encode()).digest()[:4], "big") / 2**32
        right = bench.answers[item.item_id].answer[0]
        return Reply(f"Answer: {right if luck < skill[model] else 3 - right}", delay_s=0.01 if model == "a" else 0.002)

    return behave


def order(bench: Benchmark, server: FakeServer, folder: Path, rule: StoppingRule = RULE) -> runner.RunConfig:
    return replace(runs.order(bench.folder, server.url, folder, 2, rule.models), until=rule)


def decision(folder: Path) -> dict[str, Any]:
    found = read_run.load(folder).decision
    assert found is not None
    return found


@pytest.mark.xdist_group("forked")
def test_a_run_stops_at_the_first_look_that_decides_and_a_killed_one_decides_the_same(
    bench: Benchmark, tmp_path: Path
) -> None:
    with FakeServer(bench, "end_to_end", skilled(bench, a=0.95, b=0.55)) as server:
        whole, killed = tmp_path / "whole", tmp_path / "killed"
        progress = runner.run(order(bench, server, whole))
        assert all(one.unfinished == 0 and one.stopped for one in progress)
        process = runs.pair_child(bench.folder, server.url, killed, RULE)
        while len(list((killed / "turns").glob("*.jsonl"))) < 2 or len(read_run.load(killed).turns) < 15:
            time.sleep(0.01)
        process.kill()
        process.join()
        before = {turn.key for turn in read_run.load(killed).turns}
        assert read_run.load(killed).decision is None
        assert len(before) < len(read_run.load(whole).turns)
        asked = len(server.requests)
        process = runs.pair_child(bench.folder, server.url, killed, RULE)
        process.join(120)
        assert process.exitcode == 0
        again = {(request.body["model"], request.item.item_id, 0, 0) for request in server.requests[asked:]}
        assert not before & again
        asked = len(server.requests)
        assert all(one.decision for one in runner.run(order(bench, server, killed)))
        assert len(server.requests) == asked
    found = decision(whole)
    assert found["decided"]
    assert 10 < found["patients"] < 60
    assert decision(killed) == found
    # No model runs ahead of the last patient counted by more than four patients and what is in flight.
    assert len(read_run.load(whole).turns) <= 2 * (found["patients"] + 4)
    assert first_look(bench, whole) == found["patients"]


def first_look(bench: Benchmark, folder: Path) -> int:
    """When the run's own answers decide, without the tally: every item weighs the same."""
    assert bench.answers is not None
    right = {
        (turn.model, turn.item_id): is_right(bench.item[turn.item_id], bench.answers[turn.item_id], turn.parsed or ())
        for turn in read_run.load(folder).turns
    }
    tally = PairTally(RULE, bench, 0)
    cases = {case.patient_id: case.case_id for case in (bench.cases or {}).values()}
    items = [f"{cases[name.removeprefix('patient ')]}/detection" for name in tally.order[:90]]
    seen = [item for item in items if ("a", item) in right and ("b", item) in right]
    values = np.array([2.0 * (right["a", item] - right["b", item]) for item in seen])
    return int(confidence_sequence.decided_at(values, 2.0, 0.05))


@pytest.mark.long
def test_models_that_are_alike_are_asked_everything_and_ranked(bench: Benchmark, tmp_path: Path) -> None:
    with FakeServer(bench, "end_to_end", skilled(bench, a=0.8, b=0.8)) as server:
        progress = runner.run(order(bench, server, tmp_path / "run"))
    assert all(one.unfinished == 0 and not one.stopped for one in progress)
    found = decision(tmp_path / "run")
    assert (found["decided"], found["patients"], found["of"]) == (False, 90, 90)
    assert found["low"] < 0 < found["high"]
    tables = all_tables(grade.grade_folders([tmp_path / "run"]))
    assert tables["pairs"].height
    assert tables["decided"]["decided"].to_list() == [False]


def test_a_stopped_run_is_graded_on_the_patients_counted_and_not_ranked(
    bench: Benchmark, tmp_path: Path, cli: Cli
) -> None:
    with FakeServer(bench, "end_to_end", skilled(bench, a=0.95, b=0.4)) as server:
        runner.run(order(bench, server, tmp_path / "run"))
    found = decision(tmp_path / "run")
    graded = grade.grade_folders([tmp_path / "run"])
    assert set(graded.grades["case_id"]) == set(found["cases"])
    tables = all_tables(graded)
    for name in ("pairs", "groups", "contrast", "detectable"):
        assert tables[name].height == 0, name
    (row,) = tables["decided"].to_dicts()
    assert (row["patients"], row["of"]) == (found["patients"], 90)
    assert row["difference_low"] > 0
    code, out, _ = cli("grade", tmp_path / "run")
    assert code == 0
    assert f"after {found['patients']} of 90 patients" in " ".join(out.split())
    assert "not ranked" in " ".join(out.split())


def test_an_error_of_one_patient_holds_the_later_ones_back_until_the_run_is_resumed(
    bench: Benchmark, tmp_path: Path
) -> None:
    behave, is_broken = skilled(bench, a=0.9, b=0.9), [True]
    broken = PairTally(RULE, bench, 0).order[7].removeprefix("patient ")
    case = next(one.case_id for one in (bench.cases or {}).values() if one.patient_id == broken)

    def failing(request: Request) -> Reply:
        if is_broken[0] and request.item.case_id == case and request.body["model"] == "b":
            return Reply("no", status=400)
        return behave(request)

    with FakeServer(bench, "end_to_end", failing) as server:
        progress = runner.run(order(bench, server, tmp_path / "run"))
        assert all(one.stopped == until_decided.WAITS for one in progress)
        assert all(0 < len([s for s in one.states.values() if s == "answered"]) <= 12 for one in progress)
        is_broken[0] = False
        assert sum(one.unfinished for one in runner.run(order(bench, server, tmp_path / "run"))) == 0


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (("--until-decided", "baseline/oracle"), "name two models"),
        (("--until-decided", "baseline/oracle,baseline/chance", "--limit", "3"), "chooses the cases itself"),
        (
            ("--until-decided", "baseline/oracle,baseline/chance", "--on", "grid"),
            "has no items for this score; it has items for coarse, mean",
        ),
        (
            ("--until-decided", "baseline/oracle,baseline/chance", "--models", "baseline/first"),
            "name exactly the models",
        ),
        (("--models", "baseline/oracle", "--on", "fine"), "--on works only with --until-decided"),
        (("--until-decided", "baseline/oracle,baseline/chance", "--batch", "b"), "leave out --batch"),
    ],
)
def test_what_does_not_go_together_is_refused(
    bench: Benchmark, tmp_path: Path, cli: Cli, more: tuple[str, ...], why: str
) -> None:
    code, _, err = cli("eval", bench.folder, *more, "-o", tmp_path / "run")
    assert code == 2
    assert why in " ".join(err.split())
    assert not (tmp_path / "run").exists()


def test_the_command_says_what_was_decided_and_another_rule_is_refused(
    bench: Benchmark, tmp_path: Path, cli: Cli
) -> None:
    command = ("eval", bench.folder, "--until-decided", "baseline/oracle,baseline/first", "-o", tmp_path / "run")
    code, out, _ = cli(*command, "--json")
    assert code == 0
    record = json.loads(out)["decision"]
    assert record == decision(tmp_path / "run")
    code, out, _ = cli("run", "status", tmp_path / "run")
    assert f"decided after {record['patients']} of 90 patients" in " ".join(out.split())
    code, out, _ = cli(*command)
    assert "baseline/oracle is better (score: mean)" in " ".join(out.split())
    code, _, err = cli(*command, "--alpha", "0.01")
    assert code == 2
    assert "--until-decided was" in err
