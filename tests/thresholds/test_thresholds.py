"""Just-noticeable errors: simulated observers of known thresholds, and which answers are observations."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import polars as pl
import pytest
from grades import run, said, study
from handmade import Handmade
from scipy.optimize import minimize

from chexqa.contract import benchmark
from chexqa.contract.read_run import Turn
from chexqa.eval.report import limit_plots
from chexqa.eval.thresholds.fit import fit
from chexqa.eval.thresholds.psychometric import Task, log_likelihood, probability, task_of
from chexqa.eval.thresholds.threshold_table import NOT_TOLD, TOO_FEW, thresholds

pytestmark = pytest.mark.xdist_group("thresholds")

Builder = Handmade
FORMS = {"contour": "yes_no", "points": "marks", "pictures": "choice"}


@pytest.fixture(scope="module")
def observers() -> ModuleType:
    """The simulated observers of the benchmark."""
    path = Path(__file__).parents[2] / "benchmarks" / "limits" / "thresholds.py"
    spec = importlib.util.spec_from_file_location("observers", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.long
def test_the_fit_recovers_known_thresholds_and_its_intervals_hold_them(observers: ModuleType) -> None:
    random, truth = np.random.default_rng(3), 8.0
    found = np.array([observers.run(random, truth) for _ in range(8)])
    assert np.abs(np.median(found[:, :, 0], axis=0) / truth - 1).max() < 0.12
    held = (found[:, :, 1] <= truth) & (truth <= found[:, :, 2])
    assert held.sum() >= 20, "of 24 intervals, 23 on average"


def test_the_three_tasks_are_fitted_together_with_one_lapse_rate(observers: ModuleType) -> None:
    """The fit is where scipy finds the largest likelihood of all ten parameters, steep near a lapse rate of 0."""
    random = np.random.default_rng([4, 1])
    tasks = {name: observers.observed(random, form, 4.0, 300) for name, form in FORMS.items()}

    def joint(at: np.ndarray) -> tuple[float, np.ndarray]:
        parts = [log_likelihood(task, np.append(own, at[9]))[:2]
                 for task, own in zip(tasks.values(), at[:9].reshape(3, 3), strict=True)]  # fmt: skip
        slopes = [scores.sum(axis=0) for _, scores in parts]
        gradient = np.concatenate([*(slope[:3] for slope in slopes), [sum(slope[3] for slope in slopes)]])
        return -sum(value for value, _ in parts), -gradient

    start = np.array([*[math.log(6.0), 0.4, 0.8], *[math.log(6.0), 0.4, -1.7], *[math.log(6.0), 0.4, 0.0], 0.02])
    best = minimize(joint, start, jac=True, method="L-BFGS-B", bounds=[(-4, 7), (-1.2, 1.8), (-4, 4)] * 3 + [(0, 0.06)])
    found = fit(tasks)
    for place, one in enumerate(found.values()):
        assert one.value == pytest.approx(math.exp(best.x[3 * place]), rel=0.003)
        assert one.lapse == pytest.approx(best.x[9], abs=0.0005)


@pytest.mark.long
@pytest.mark.parametrize("truth", [4.0, 25.0])
def test_over_many_runs_bias_is_small_and_coverage_is_as_promised(observers: ModuleType, truth: float) -> None:
    random = np.random.default_rng(5)
    found = np.array([observers.run(random, truth) for _ in range(100)])
    assert np.abs(np.median(found[:, :, 0], axis=0) / truth - 1).max() < 0.05
    held = ((found[:, :, 1] <= truth) & (truth <= found[:, :, 2])).mean(axis=0)
    assert held.min() >= 0.85  # less in 100 runs would be unlikely (p < 0.01) if 92 % of intervals held the truth


@pytest.mark.parametrize("form", ["yes_no", "marks", "choice"])
def test_derivatives_of_the_functions_are_those_of_finite_differences(form: str) -> None:
    depth = np.array([2.0, 5, 20, 60, np.nan, np.nan])
    task = task_of(form, depth, depth > 4, np.arange(6))  # type: ignore[arg-type]
    at = np.array([1.7, 0.3, -0.6, 0.03])
    _, derivatives = probability(task, at)
    for number in range(4):
        step = 1e-6 * np.eye(4)[number]
        upper, lower = (probability(task, at + sign * step)[0] for sign in (1, -1))
        assert derivatives[:, number] == pytest.approx((upper - lower) / 2e-6, abs=1e-7)


def test_an_observer_at_chance_is_above_the_tested_depths_and_a_perfect_one_below(observers: ModuleType) -> None:
    random, tasks = np.random.default_rng(1), {}
    for name, form in FORMS.items():
        tasks[name] = observers.observed(random, form, 1e9)
    for name, found in fit(tasks).items():
        assert found.value > found.tested[1], name
        assert found.high == np.inf
        assert found.low > 20, "an error of 20 px would have been seen"
    for name, form in FORMS.items():
        tasks[name] = observers.observed(random, form, 1e-3)
    for name, found in fit(tasks).items():
        assert found.value < found.tested[0], name
        assert found.low == 0
        assert found.high < 6


def test_a_patient_s_answers_that_are_alike_widen_the_interval() -> None:
    """Each answer is there four times: as answers of one patient, and as answers of four."""
    random = np.random.default_rng(2)
    depth = np.where(random.random(150) < 0.5, np.nan, np.exp(random.uniform(0.7, 4, 150)))
    says = random.random(150) < np.where(np.isnan(depth), 0.2, 1 - np.exp(-np.nan_to_num(depth, nan=1) / 10))
    four = [np.repeat(column, 4) for column in (depth, says)]
    widths = []
    for cluster in (np.repeat(np.arange(150), 4), np.arange(600)):
        found = fit({"contour": task_of("yes_no", four[0], four[1], cluster)})["contour"]
        widths.append(math.log(found.high / found.low))
    assert widths[0] / widths[1] == pytest.approx(2, rel=0.35)


def test_fewer_than_two_hundred_answers_have_a_threshold_but_no_interval(observers: ModuleType) -> None:
    task = observers.observed(np.random.default_rng(4), "choice", 10.0, 198)
    found = fit({"pictures": task})["pictures"]
    assert 2 < found.value < 60
    assert math.isnan(found.low)
    assert math.isnan(found.high)
    nothing: Task = task_of("yes_no", np.full(300, np.nan), np.zeros(300, bool), np.arange(300))
    assert fit({"contour": nothing}) == {}, "no outline has an error"


def test_scores_sum_to_zero_at_the_fitted_values(observers: ModuleType) -> None:
    task = observers.observed(np.random.default_rng(6), "marks", 12.0)
    found = fit({"points": task})["points"]
    logit = math.log(found.bias / (1 - found.bias))
    at = np.array([math.log(found.value), math.log(found.slope), logit, found.lapse])
    scores = log_likelihood(task, at)[1].sum(axis=0)
    assert np.abs(scores[:3]).max() < 0.1


@pytest.fixture
def answered(handmade: Builder) -> Callable[[Callable[[str, float], bool]], list[dict[str, object]]]:
    """Return the table's rows for a model that is right where ``sees(kind, depth)``.

    240 cases: every second outline has one error, of 2 to 60 px, and the last of them two.
    """
    for number in range(240):
        if number % 2:
            handmade.case(f"n{number}", "edema", "revision_required", contour_evaluation=(1,),
                          revision_expansion=(1,), revision_contraction=(5,), revision_result=(3,),
                          measures={"pixel_spacing_mm": [0.2, 0.2], "source_size": [2048, 2048],
                                    "working_size": [1024, 1024]})  # fmt: skip
        else:
            handmade.case(f"n{number}", "edema", "revision_free", contour_evaluation=(2,),
                          measures={"pixel_spacing_mm": [0.2, 0.2], "source_size": [2048, 2048],
                                    "working_size": [1024, 1024]})  # fmt: skip
    bench = benchmark.load(handmade.write())
    assert bench.answers is not None
    answers, depths = dict(bench.answers), {}
    altered = sorted({item.case_id for item in bench.items if answers[item.item_id].path == "revision_required"})
    for place, case in enumerate(altered):
        depth = depths[case] = float(2 * 30 ** (place / 119))
        true = {"true": True, "depth": depth, "share": 0.1, "over": False}
        other = {**true, "true": False, "depth": 3 * depth}
        edits = [true, other]
        evidence = {
            "contour_evaluation": {"iou": 0.8, "edits": [true, true] if place == 119 else edits},
            "revision_expansion": {"points": [
                {"edit": 0 if n == 0 else None, "inside": False, "distance": depth} for n in range(4)]},
            "revision_contraction": {"points": []},
            "revision_result": {"edits": edits, "errors": [[0], [0, 1], [], [1]]},
        }  # fmt: skip
        for kind, found in evidence.items():
            answers[f"{case}/{kind}"] = replace(answers[f"{case}/{kind}"], evidence=found)
    bench = replace(bench, answers=answers)

    def made(sees: Callable[[str, float], bool]) -> list[dict[str, object]]:
        mistakes = {}
        for item in bench.items:
            depth = depths.get(item.case_id)
            if depth is None and item.kind == "contour_evaluation" and not sees(item.item_id, 0):
                mistakes[item.item_id] = (1,)
            if depth is not None and not sees(item.item_id, depth):
                mistakes[item.item_id] = {"contour_evaluation": (2,), "revision_expansion": (5,)}.get(item.kind, (1,))
        turns: list[Turn] = said(bench, mistakes)
        return thresholds(study(bench, [run(turns)])).to_dicts()

    return made


def test_answers_become_thresholds_in_pixels_and_millimetres(
    answered: Callable[[Callable[[str, float], bool]], list[dict[str, object]]],
) -> None:
    """A model that sees errors of 12 px and more, and every sixteenth smaller one; pictures differ by the error."""
    rows = {row["seen_in"]: row for row in answered(
        lambda item, depth: sum_of(item) % 8 > 0 if depth == 0 else depth > 12 or sum_of(item) % 16 == 1)}  # fmt: skip
    contour, points, pictures = (rows[name] for name in ("contour evaluation", "points", "four pictures"))
    assert (contour["items"], contour["with_error"]) == (239, 119), "the outline with two errors is left out"
    assert 0.05 < contour["false_alarms"] < 0.2  # type: ignore[operator]
    assert (points["with_error"], points["false_alarms"]) == (120, 0)
    assert (pictures["items"], pictures["with_error"], pictures["false_alarms"]) == (120, 120, None)
    for row, least in ((contour, 5), (points, 7)):
        assert least < row["threshold"] < 16  # type: ignore[operator]
        assert row["threshold_low"] < row["threshold"] < row["threshold_high"]  # type: ignore[operator]
        assert row["reads"] == f"{row['threshold']:.1f}"
        assert row["threshold_mm"] == pytest.approx(0.4 * row["threshold"])  # type: ignore[operator]
    assert (pictures["reads"], pictures["threshold"]) == (TOO_FEW, None), "120 pictures are too few for an interval"


def sum_of(text: str) -> int:
    """Return a number that a text always has."""
    return sum(text.encode())


def test_a_threshold_outside_the_tested_depths_is_a_side_and_the_plot_shows_it(
    answered: Callable[[Callable[[str, float], bool]], list[dict[str, object]]],
) -> None:
    """The model calls one outline in twelve wrong, whatever the depth, and sees no other error."""
    rows = answered(lambda item, depth: sum_of(item) % 12 != 0 if depth == 0 else sum_of(item) % 12 == 0)
    assert [row["reads"] for row in rows] == ["> 58.3", "> 60.0", TOO_FEW], "the deepest outline has two errors"
    assert {row["threshold"] for row in rows} == {None}
    assert str(rows[1]["reads_between"]).endswith("to > 60.0")
    assert limit_plots.thresholds(pl.DataFrame(rows), ["m"]) is not None
    assert limit_plots.thresholds(pl.DataFrame(rows).clear(), ["m"]) is None


@pytest.mark.parametrize("says_wrong", [True, False])
def test_the_same_answer_to_every_outline_tells_no_threshold(
    answered: Callable[[Callable[[str, float], bool]], list[dict[str, object]]], says_wrong: bool
) -> None:
    contour = answered(lambda item, depth: says_wrong == (depth > 0))[0]
    assert contour["false_alarms"] == float(says_wrong)
    assert (contour["reads"], contour["reads_between"], contour["threshold"]) == (NOT_TOLD, None, None)
    assert limit_plots.thresholds(pl.DataFrame([contour]), ["m"]) is None


def test_answers_that_exclude_no_tested_depth_tell_no_threshold() -> None:
    """Eight answers, of which the deep errors are called right as often as the shallow ones."""
    depth = np.array([np.nan] * 4 + [10.0, 20.0, 40.0, 60.0])
    found = fit({"all": task_of("yes_no", depth, np.array([1, 0, 1, 0, 1, 0, 1, 0], bool), np.arange(8))})
    assert not found["all"].is_determined
