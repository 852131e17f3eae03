"""Weights of scores against the tables, and what a study can tell apart against simulations."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from grades import rows, run, said, study

from chexqa.contract import benchmark
from chexqa.contract.benchmark import Benchmark
from chexqa.eval.design import power
from chexqa.eval.design.weights import Asked, asked_items, by_patient, kind_weights, score_weights
from chexqa.eval.scoring.sample import ScoredSample
from chexqa.eval.tables import levels_and_stages, model_pairs
from chexqa.files.errors import InputError

Cli = Callable[..., tuple[int, str, str]]
PLAIN = power.Assumptions(discordance=0.3, correlation=0.0)


@pytest.fixture
def mixed(handmade: Any) -> Benchmark:
    """Thirty patients of three findings on all paths, some with two cases, and grid items."""
    paths = ("lesion_free", "revision_free", "revision_required")
    for number in range(36):
        path, finding = paths[number % 3], ("edema", "effusion", "cardiomegaly")[number % 5 % 3]
        grid = (number + 1, number + 2) if path != "lesion_free" else None
        yes = {"lesion_free": (2,)}.get(path, (1,)), {"revision_free": (2,)}.get(path, (1,))
        handmade.case(f"n{number}", finding, path, patient=f"p{number % 30}", grid=grid, detection=yes[0],
                      contour_evaluation=yes[1])  # fmt: skip
    return benchmark.load(handmade.write())


def two_models(bench: Benchmark) -> tuple[ScoredSample, dict[str, float]]:
    """Two models with random mistakes, graded; and the difference of their right answers by item."""
    from dataclasses import replace

    random, turns = np.random.default_rng(4), []
    for model, errors in (("a", 0.2), ("b", 0.6)):
        mistakes: dict[str, Any] = {item.item_id: () for item in bench.items if random.random() < errors}
        turns += [replace(turn, model=model) for turn in said(bench, mistakes)]
    made = study(bench, [run(turns, ("a", "b"))])
    sign = pl.when(pl.col("model") == "a").then(1).otherwise(-1) * pl.col("correct")
    by_item = made.graded.grades.group_by("item_id").agg(sign.sum())
    return made, dict(by_item.iter_rows())


def test_weights_of_items_give_the_differences_of_the_tables(mixed: Benchmark) -> None:
    made, difference = two_models(mixed)
    asked = asked_items(mixed, mixed.items)
    found = rows(model_pairs.compare_models(made).pairs, "score")
    weights = score_weights(asked)
    assert list(weights) == ["coarse", "fine", "semantic", "mean", "grid"]
    for name, one in weights.items():
        total = sum(weight * difference[item_id] for item_id, weight in one.items())
        assert total == pytest.approx(found["mean of levels" if name == "mean" else name]["difference"]), name
        people = by_patient(asked, one)
        assert sum(sum(own.values()) for own in people.values()) == pytest.approx(sum(one.values()))
    table = rows(levels_and_stages.kinds(made), "model", "kind")
    for kind, one in kind_weights(asked).items():
        total = sum(weight * difference[item_id] for item_id, weight in one.items())
        assert total == pytest.approx(table["a", kind]["corrected"] - table["b", kind]["corrected"]), kind


def single_items(patients: int) -> list[Asked]:
    """One grid item a patient, of one finding: the score is a plain share."""
    return [Asked(f"{n}", f"{n}", "grid_cell", None, "edema", 0.0, None) for n in range(patients)]


def test_known_sizes_of_studies() -> None:
    (found,) = power.resolutions(single_items(1030), 0.05, PLAIN)
    assert found.alike == pytest.approx(1030, abs=5)
    assert found.standard_error == pytest.approx((0.3 / 1030) ** 0.5)
    assert found.needed == pytest.approx(2.8016**2 * 0.3 / 0.05**2, abs=1)
    (found,) = power.resolutions(single_items(700), 0.03, PLAIN)
    assert found.alike == pytest.approx(2855, abs=10)
    (found,) = power.resolutions(single_items(700), 0.03, power.Assumptions(correlation=0, tests=10))
    # 5 % divided by ten tests: quantiles of 0.005 (equivalence, one-sided) and 0.0025 (difference, two-sided).
    assert found.alike == pytest.approx((2.5758 + 1.2816) ** 2 * 0.3 / 0.03**2, abs=1)
    assert found.needed == pytest.approx((2.8070 + 0.8416) ** 2 * 0.3 / 0.03**2, abs=1)


def test_ten_points_at_thirty_percent_discordance_are_decided_after_some_270_patients_and_not_after_200() -> None:
    (large,) = power.resolutions(single_items(2100), 0.1, PLAIN)
    assert large.sequential is not None
    assert 210 < large.sequential < 330
    assert large.within is not None
    assert large.within > 0.99
    (small,) = power.resolutions(single_items(200), 0.1, PLAIN)
    assert small.sequential is None
    assert small.within is not None
    assert small.within < 0.5


def test_the_standard_error_is_that_of_simulated_studies() -> None:
    asked = power.usual_study(210)
    assumed = power.Assumptions(discordance=0.4, correlation=0.3)
    people = list(by_patient(asked, score_weights(asked)["mean"]).values())
    values, bound = power.patient_differences(np.random.default_rng(1), people, 0.0001, assumed, (4000, len(people)))
    assert values.mean(axis=1).std() == pytest.approx(power.standard_error(people, assumed), rel=0.04)
    assert np.abs(values).max() <= bound + 1e-12
    shifted, _ = power.patient_differences(np.random.default_rng(2), people, 0.2, assumed, (1000, 210))
    assert shifted.mean() == pytest.approx(0.2, abs=0.005)


def test_four_times_the_patients_halve_what_is_detected(mixed: Benchmark) -> None:
    asked = asked_items(mixed, mixed.items)
    small, large = (power.resolutions(asked, 0.05, PLAIN, size) for size in (30, 120))
    for one, other in zip(small, large, strict=True):
        assert other.detectable == pytest.approx(one.detectable / 2, rel=0.05)
        assert one.needed == pytest.approx(other.needed, rel=0.1)


def test_a_study_of_the_patients_needed_reaches_the_power_though_not_every_patient_counts(mixed: Benchmark) -> None:
    asked = asked_items(mixed, mixed.items)
    before = {row.score: row for row in power.resolutions(asked, 0.1, PLAIN)}
    assert before["semantic"].patients < before["detection"].patients == 30
    for score in ("semantic", "detection"):
        row = before[score]
        after = {one.score: one for one in power.resolutions(asked, 0.1, PLAIN, row.needed)}[score]
        assert (after.power, after.detectable) == pytest.approx((0.8, 0.1), abs=0.005), score
        assert after.needed == row.needed
        assert row.alike / row.needed == pytest.approx((2.9264 / 2.8016) ** 2, rel=0.01)


def test_a_difference_that_the_discordance_does_not_allow_is_refused() -> None:
    with pytest.raises(InputError, match="give a larger --discordance"):
        power.resolutions(single_items(50), 0.4, PLAIN)


def test_a_study_too_small_for_any_difference_says_so(mixed: Benchmark, cli: Cli) -> None:
    """Two models with 30 % discordance are at most 30 points apart on the grid, and 35 patients are needed for this."""
    found = {size: power.resolutions(single_items(size), 0.05, PLAIN)[0] for size in (20, 60)}
    assert [(round(row.largest, 9), row.can_detect) for row in found.values()] == [(0.3, False), (0.3, True)]
    out = cli("power", "12", "--discordance", "20")[1]
    assert re.search(r"^coarse +10 +none +\d+ %", out, re.MULTILINE)
    assert "the largest difference of two models that disagree on 20 % of the items." in out
    out = cli("estimate", mixed.folder, "--models", "baseline/oracle", "--limit", "6")[1]
    assert re.search(r"With these \d patients, no difference between two models can be shown on .*semantic", out)
    assert not re.search(r"[1-9]\d\d\.\d points", out)


def test_a_grid_without_a_hit_has_no_number_of_patients_and_one_item_is_of_one_patient(handmade: Any, cli: Cli) -> None:
    for number in range(12):
        handmade.case(f"n{number}", "edema", "revision_free", patient=f"p{number}", grid=(), contour_evaluation=(2,))
    handmade.case("last", "edema", "revision_required", patient="p0")
    bench = benchmark.load(handmade.write())
    found = {row.score: row for row in power.resolutions(asked_items(bench, bench.items), 0.05, PLAIN)}
    grid, one = found["grid"], found["revision_result"]
    assert (grid.patients, grid.detectable, grid.largest, grid.needed, grid.alike, grid.can_detect) == (
        12, None, 0, None, None, False,
    )  # fmt: skip
    assert (one.items, one.patients) == (1, 1)
    assert re.search(r"^grid +12 +none +0 % +none +none *$", cli("power", bench.folder)[1], re.MULTILINE)
    assert "shown on " in cli("estimate", bench.folder, "--models", "baseline/oracle")[1]


def test_the_command_shows_a_benchmark_and_a_plain_number(mixed: Benchmark, cli: Cli) -> None:
    code, out, _ = cli("power", mixed.folder, "--difference", 10, "--models", "baseline/oracle,baseline/chance")
    assert code == 0
    assert "30 patients" in out
    assert "semantic" in out
    assert "$0.00" in out
    code, out, _ = cli("power", 2100, "--json")
    assert code == 0
    assert '"patients": 2100' in out
    assert cli("power", 2100, "--models", "gpt-5.4")[0] == 2
    assert cli("power", "nowhere")[0] == 2
    code, out, _ = cli("estimate", mixed.folder, "--models", "baseline/oracle", "--protocol", "end_to_end")
    assert code == 0
    assert "find a difference between two models" in " ".join(out.split())


def test_a_withheld_key_is_named(mixed: Benchmark, tmp_path: Path, cli: Cli) -> None:
    (mixed.folder / "answers.jsonl").unlink()
    code, _, err = cli("power", mixed.folder)
    assert code == 2
    assert "answers.jsonl" in err
