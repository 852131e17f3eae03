"""The whole chain on generated phantoms: what the baselines must score, whatever the protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rest_long import rest_long
from scipy.stats import binom

from chexqa import question_banks
from chexqa.contract import benchmark
from chexqa.contract.items import is_right
from chexqa.contract.kinds import GRID_CELL, KINDS
from chexqa.eval.models import baselines
from chexqa.eval.prompts import answer_parser
from chexqa.eval.prompts.protocols import PROTOCOLS
from chexqa.eval.scoring.grade import grade_folders
from chexqa.generators.pipeline import generate_benchmark, recipe
from chexqa.generators.pipeline.job import make_job
from chexqa.phantoms import write_cases

pytestmark = pytest.mark.xdist_group("chain")

REPEATS = 40


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A benchmark of 21 small phantoms, every finding with and without."""
    folder = tmp_path_factory.mktemp("chain")
    cases = write_cases(folder / "cases", 21, seed=5, size=256)
    job = make_job([recipe.load(name) for name in recipe.DEFAULT], question_banks.load("en"), seed=5)
    generate_benchmark.generate(cases, folder / "bench", job)
    return folder / "bench"


def test_the_benchmark_has_all_kinds_and_all_paths(bench: Path) -> None:
    counts = benchmark.load(bench).about["counts"]
    assert all(counts["kinds"].values())
    assert all(sum(rows[path] for rows in counts["paths"].values()) for path in next(iter(counts["paths"].values())))


@pytest.mark.parametrize("protocol", rest_long(PROTOCOLS, keep=1))
def test_the_oracle_is_right_at_every_level_and_reaches_the_grids_ceiling(
    bench: Path, protocol: str, tmp_path: Path, cli: Any
) -> None:
    run = tmp_path / "run"
    code, _, err = cli("eval", bench, "--models", "baseline/oracle", "--protocol", protocol, "-o", run)
    assert code == 0, err
    grades = grade_folders([run], None).grades
    perception = grades.filter(pl.col("kind") != GRID_CELL)
    assert perception["state"].unique().to_list() == ["correct"]
    assert set(perception["level"]) == {"coarse", "fine", "semantic"}
    key = benchmark.load(bench).answers
    assert key is not None
    attainable = {item_id for item_id, answer in key.items() if item_id.endswith(GRID_CELL) and answer.answer}
    assert set(grades.filter((pl.col("kind") == GRID_CELL) & (pl.col("state") == "correct"))["item_id"]) == attainable


def test_chance_agrees_with_the_analytic_chance_of_every_kind(bench: Path) -> None:
    """Two-sided exact test of hits over many draws of the baseline, each kind by itself (p > 0.001)."""
    loaded = benchmark.load(bench)
    key = loaded.answers
    assert key is not None
    hits, expected = dict.fromkeys(KINDS, 0), dict.fromkeys(KINDS, 0.0)
    distribution: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for seed in range(REPEATS):
        responder = baselines.BaselineResponder(loaded, seed)
        for item in loaded.items:
            parsed = answer_parser.parse(item, responder.reply("chance", item))
            assert parsed is not None
            hits[item.kind] += is_right(item, key[item.item_id], parsed)
            distribution[item.kind].append(key[item.item_id].chance)
    for kind, chances in distribution.items():
        expected[kind] = sum(chances)
        assert two_sided_p(hits[kind], chances) > 0.001, (kind, hits[kind], expected[kind])


def two_sided_p(hits: int, chances: list[float]) -> float:
    """Exact: the probability of a count no likelier than ``hits`` for independent draws with these chances."""
    mass = [1.0]
    for chance in sorted(set(chances)):
        some = binom.pmf(range(chances.count(chance) + 1), chances.count(chance), chance)
        mass = [sum(mass[i - j] * some[j] for j in range(max(0, i - len(mass) + 1), min(i, len(some) - 1) + 1))
                for i in range(len(mass) + len(some) - 1)]  # fmt: skip
    return float(sum(p for p in mass if p <= mass[hits] * (1 + 1e-9)))


def test_the_exact_test_is_that_of_a_fair_coin() -> None:
    assert two_sided_p(0, [0.5] * 4) == pytest.approx(2 / 16)
    assert two_sided_p(2, [0.5] * 4) == pytest.approx(1)
    assert two_sided_p(3, [0.5, 0.5, 1.0]) == pytest.approx(0.5)
