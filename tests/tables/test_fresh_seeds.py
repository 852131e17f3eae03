"""The drop from a benchmark to a fresh seed of it: who falls, who does not, and what is compared."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from fresh_pair import benchmark, graded, honest, memoriser, run_of, with_flags
from logs import log

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import CONTESTED
from chexqa.contract.kinds import FRESH_KINDS, KINDS
from chexqa.eval.grounding.grounding_tables import grounding
from chexqa.eval.grounding.terminal_table import grounding_table
from chexqa.eval.report.display_notes import plain_table
from chexqa.eval.scoring.sample import scored_sample
from chexqa.eval.scoring.significance import exchange_labels
from chexqa.eval.tables import fresh_seeds, glossary
from chexqa.eval.tables.fresh_seeds import MEAN_OF_KINDS, ModelPair, compute_drops, model_drops
from chexqa.files.errors import InputError
from chexqa.stats import holm

pytestmark = pytest.mark.xdist_group("fresh_seeds")

Cli = Callable[..., tuple[int, str, str]]
ANEW = [name for name, kind in KINDS.items() if kind.drawn_anew]
PAIRS = [ModelPair("m", "m", "independent")]


@pytest.fixture(scope="module")
def first() -> Benchmark:
    return benchmark(40, 1)


@pytest.fixture(autouse=True)
def fewer_exchanges(monkeypatch: pytest.MonkeyPatch) -> None:
    """A twentieth of the exchanges, which still gives p-values of 0.0002."""
    monkeypatch.setattr(fresh_seeds, "exchange_labels", partial(exchange_labels, draws=5_000))


def table(first: Benchmark, fresh: Benchmark, frames: tuple[pl.DataFrame, pl.DataFrame]) -> dict[str, dict[str, Any]]:
    drops, _ = compute_drops((first, fresh), frames, PAIRS)
    return {row["kind"]: row for row in drops.to_dicts()}


@pytest.mark.long
def test_a_memoriser_falls_in_each_of_twenty_fresh_seeds_and_the_oracle_in_none(first: Benchmark) -> None:
    """``benchmarks/fresh_seeds/run.py`` does the same with phantoms and the real generator."""
    before = graded(first, run_of(first, memoriser(first, 0)))
    assert before.grades["correct"].all()
    for seed in range(2, 22):
        fresh = benchmark(40, seed, first)
        (row,) = model_drops(before, graded(fresh, run_of(fresh, memoriser(first, seed)))).to_dicts()
        assert row["verdict"] == "falls", seed
        assert row["drop"] > 0.4
    answers = fresh.answers
    assert answers is not None
    (row,) = model_drops(before, graded(fresh, run_of(fresh, lambda item: answers[item.item_id].answer))).to_dicts()
    assert row["verdict"] != "falls"
    assert row["drop"] == 0


@pytest.mark.long
def test_an_honest_model_is_rarely_said_to_fall(first: Benchmark) -> None:
    """At most 2 % of 1,000 in ``benchmarks/fresh_seeds/run.py``; here none of 20."""
    fresh = benchmark(40, 2, first)
    frames = [graded(bench, run_of(bench, lambda _: (1,))).grades for bench in (first, fresh)]
    verdicts = []
    for seed in range(20):
        random = np.random.default_rng(seed)
        answered = honest(frames[0], random, random)
        verdicts.append(table(first, fresh, (answered(frames[0]), answered(frames[1])))[MEAN_OF_KINDS]["verdict"])
    assert "falls" not in verdicts


def test_the_table_holds_the_kinds_that_are_drawn_anew_and_their_mean(first: Benchmark) -> None:
    fresh = benchmark(40, 2, first)
    frames = tuple(graded(bench, run_of(bench, lambda _: (1,))).grades for bench in (first, fresh))
    found = table(first, fresh, frames)  # type: ignore[arg-type]
    assert list(found) == [*ANEW, MEAN_OF_KINDS]
    assert {"detection", "distribution"} == FRESH_KINDS - {*ANEW}
    for kind in ANEW:
        shares = [frame.filter(pl.col("kind") == kind)["correct"].mean() for frame in frames]
        assert [found[kind]["accuracy"], found[kind]["accuracy_fresh"]] == pytest.approx(shares)
        assert found[kind]["drop"] == pytest.approx(shares[0] - shares[1])
        assert found[kind]["drop_low"] < found[kind]["drop"] < found[kind]["drop_high"]
    assert found[MEAN_OF_KINDS]["drop"] == pytest.approx(np.mean([found[kind]["drop"] for kind in ANEW]))
    p = [found[kind]["p"] for kind in ANEW]
    assert [found[kind]["p_holm"] for kind in ANEW] == pytest.approx(holm(np.array(p)).tolist())
    assert all(glossary.meaning(column) for column in found[ANEW[0]])


def test_baselines_have_no_verdict_and_cost_the_models_no_power(first: Benchmark) -> None:
    fresh = benchmark(40, 2, first)
    names = ("m", "baseline/x")
    frames = [
        graded(bench, *(run_of(bench, memoriser(first, 0), name) for name in names)).grades for bench in (first, fresh)
    ]
    both, _ = compute_drops(
        (first, fresh), (frames[0], frames[1]), [ModelPair(name, name, "independent") for name in names]
    )
    assert both.filter(pl.col("model") != "m")["verdict"].null_count() == len(ANEW) + 1
    alone, _ = compute_drops((first, fresh), (frames[0], frames[1]), PAIRS)
    assert both.filter(pl.col("model") == "m").equals(alone)


def test_exchanging_labels_agrees_with_all_exchanges_written_out() -> None:
    random = np.random.default_rng(0)
    whole = random.integers(0, 3, (2, 8, 2)).astype(float)
    right = np.floor(whole * random.random((2, 8, 2)) + 0.5)
    p = exchange_labels(right[0], whole[0], right[1], whole[1], draws=20_000)

    def drops(swap: tuple[int, ...]) -> list[float]:
        side = np.array(swap)
        sums = [(right[place, range(8)].sum(0), whole[place, range(8)].sum(0)) for place in (side, 1 - side)]
        each = [float(a / b - c / d) for (a, b), (c, d) in zip(zip(*sums[0], strict=True), zip(*sums[1], strict=True),
                                                              strict=True)]  # fmt: skip
        return [*each, float(np.mean(each))]

    every = np.array([drops(swap) for swap in product((0, 1), repeat=8)])
    exact = (every >= np.array(drops((0,) * 8)) - 1e-9).mean(axis=0)
    assert p.tolist() == pytest.approx(exact.tolist(), abs=0.015)


def test_questions_that_came_out_the_same_and_items_of_one_side_alone_are_left_out(first: Benchmark) -> None:
    fresh = benchmark(40, 2, first)
    sources = {case.source_case_id: name for name, case in (first.cases or {}).items()}
    twin = {name: sources[case.source_case_id] for name, case in (fresh.cases or {}).items()}
    place = next(number for number, item in enumerate(fresh.items) if item.kind == "location")
    item = fresh.items[place]
    old = first.item[f"{twin[item.case_id]}/location"]
    same = replace(item, options=old.options)
    fresh = replace(fresh, items=(*fresh.items[:place], same, *fresh.items[place + 1 :]))
    contested = next(one.item_id for one in fresh.items if one.kind == "location" and one is not same)
    fresh = with_flags(fresh, {contested: (CONTESTED,)})
    frames = [graded(bench, run_of(bench, lambda _: (1,))).grades for bench in (first, fresh)]
    unfinished = next(one.item_id for one in first.items if one.kind == "contour_evaluation")
    frames[0] = frames[0].with_columns(
        pl.when(pl.col("item_id") == unfinished).then(pl.lit("error")).otherwise("state").alias("state")
    )
    drops, left_out = compute_drops((first, fresh), (frames[0], frames[1]), PAIRS)
    assert left_out == {"unfinished": 1, "the same question in both benchmarks": 2, "contested": 1, "not in both": 2}
    counts = {row["kind"]: (row["items"], row["items_fresh"]) for row in drops.to_dicts()}
    assert counts["location"] == (38, 38)
    assert counts["contour_evaluation"] == (39, 39)


def test_a_model_that_answered_one_side_alone_has_no_row(first: Benchmark) -> None:
    fresh, other = benchmark(40, 2, first), benchmark(40, 3)
    one = graded(first, run_of(first, lambda _: (1,)))
    assert model_drops(one, graded(fresh, run_of(fresh, lambda _: (1,), "another"))).height == 0
    assert model_drops(one, graded(other, run_of(other, lambda _: (1,)))).height == 0
    nothing = graded(fresh, run_of(fresh, lambda _: (1,))).grades.filter(pl.col("kind") == "detection")
    with pytest.raises(InputError, match="no finished item on a common case"):
        compute_drops((first, fresh), (one.grades, nothing), PAIRS)


def test_runs_that_cannot_be_compared_are_refused_in_one_sentence(
    cli: Cli, tiny_benchmark: Path, tmp_path: Path
) -> None:
    one, two = log(tmp_path / "one", tiny_benchmark), log(tmp_path / "two", tiny_benchmark)
    code, _, err = cli("compare", one, two, "--fresh")
    assert (code, err.count("\n")) == (2, 1)
    assert "is of the same benchmark" in err
    for option in (("--shared",), ("--plan", tmp_path / "plan.json")):
        code, _, err = cli("compare", one, two, "--fresh", *option)
        assert code == 2
        assert option[0] in err
    about = json.loads((tiny_benchmark / "benchmark.json").read_text())
    other = tiny_benchmark.with_name("other")
    other.mkdir()
    for path in tiny_benchmark.iterdir():
        if path.name.endswith(".jsonl"):
            (other / path.name).write_bytes(path.read_bytes())
    (other / "benchmark.json").write_text(json.dumps({**about, "seed": 9}))
    third = log(tmp_path / "third", other)
    code, _, err = cli("compare", one, third, "--fresh")
    assert code == 2
    assert "is not a fresh seed of" in err
    assert err.count("\n") == 1


def test_the_drop_stands_beside_grounding_and_other_runs_are_refused(first: Benchmark, tiny_benchmark: Path, cli: Cli,
                                                                     tmp_path: Path) -> None:  # fmt: skip
    fresh = benchmark(40, 2, first)
    known = memoriser(first, 2)
    before = graded(first, run_of(first, known), run_of(first, lambda _: (1,), "other"))
    drops = model_drops(before, graded(fresh, run_of(fresh, known)))
    table = grounding(scored_sample(replace(before, fresh=drops)))
    (row,) = table.to_dicts()
    assert (row["model"], row["fresh_verdict"], row["audited"], row["looks"]) == ("m", "falls", 0, None)
    assert row["fresh_drop_low"] > 0.3
    [shown] = grounding_table({"grounding": table}, plain_table)
    assert [column.header for column in shown.columns] == ["model", "drop", "verdict"]
    run = log(tmp_path / "one", tiny_benchmark)
    code, _, err = cli("grade", run, "--fresh", run)
    assert (code, err.count("\n")) == (2, 1)
    assert "no fresh seed of" in err
