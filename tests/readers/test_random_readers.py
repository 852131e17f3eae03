"""Models against random readers: published numbers, a brute-force jackknife, errors of the test, and the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from grades import rows, run, said, study

from chexqa.contract import benchmark, read_run
from chexqa.contract.benchmark import Benchmark
from chexqa.eval.readers import jackknife
from chexqa.eval.readers.obuchowski_rockette import analyse, jackknife_covariance, of_sums
from chexqa.eval.readers.random_readers import random_readers
from chexqa.eval.scoring.sample import ScoredSample
from chexqa.eval.tables import model_pairs
from chexqa.eval.tables.levels_and_stages import OVERALL
from chexqa.files.jsonio import write_json, write_jsonl

Cli = Callable[..., tuple[int, str, str]]
# Printed by MRMCaov 0.3.0 for its VanDyke example: five readers of 114 cases, 45 of them with the disease.
# Each treatment alone: estimate, MS(R), Cov2; then standard error, degrees of freedom, ends of the interval.
VAN_DYKE = [
    ((0.8222222, 0.009135802, 0.001646465), (0.05893747, 14.456811, 0.6961876, 0.9482568)),
    ((0.9200000, 0.005086420, 0.000382716), (0.03741657, 7.575855, 0.8328691, 1.0071309)),
    ((0.9109867, 0.0027417481, 0.0004612327), (0.03177392, 13.55902, 0.8426298, 0.9793435)),
    ((0.9515536, 0.0008142512, 0.0001619773), (0.01802297, 15.91435, 0.9133299, 0.9897774)),
]
# Of these 45, how many each reader calls diseased under the two treatments.
FIRST, SECOND, DISEASED = (40, 35, 37, 42, 31), (44, 37, 41, 45, 40), 45


@pytest.mark.parametrize(("sums", "printed"), VAN_DYKE)
def test_a_single_treatment_gives_the_published_numbers(
    sums: tuple[float, float, float], printed: tuple[float, ...]
) -> None:
    found = of_sums(*sums, 5)
    assert (found.standard_error, found.df, found.low, found.high) == pytest.approx(printed, rel=2e-5)


def test_the_difference_of_two_treatments_gives_the_published_test() -> None:
    gaps = (np.array(FIRST) - np.array(SECOND)) / DISEASED
    cov2 = 2 * (0.0010145903 - 0.0006604938)
    found = of_sums(gaps.mean(), gaps.var(ddof=1), cov2, 5)
    assert found.mean == pytest.approx(-0.09777778)
    assert (found.standard_error, found.df) == pytest.approx((0.03780451, 15.71732), rel=1e-5)
    assert (found.low, found.high) == pytest.approx((-0.1780371, -0.0175185), rel=1e-5)
    assert found.p == pytest.approx(0.02008822, rel=1e-5)


def test_the_jackknife_gives_the_published_error_variance() -> None:
    variances = []
    for count in (*FIRST, *SECOND):
        right = np.repeat([1.0, 0.0], [count, DISEASED - count])
        without = (right.sum() - right) / (DISEASED - 1)
        variances.append(jackknife_covariance(without[None, :])[0, 0])
    assert np.mean(variances) == pytest.approx(0.0023681257, rel=1e-6)


def test_studies_analysed_together_are_those_analysed_alone() -> None:
    random = np.random.default_rng(0)
    values, without = random.random((4, 6)), random.random((4, 6, 30))
    found = analyse(values, jackknife_covariance(without))
    for number in range(4):
        covariance = np.cov(without[number]) * 29 * 29 / 30
        cov2 = np.mean([covariance[a, b] for a in range(6) for b in range(6) if a != b])
        alone = of_sums(values[number].mean(), values[number].var(ddof=1), cov2, 6)
        assert [float(field[number]) for field in found] == pytest.approx([float(field) for field in alone])


def test_readers_who_all_answer_alike_have_no_interval_of_width_zero() -> None:
    found = of_sums(0.1, 0.0, 0.0, 5)
    assert np.isnan(found.low)
    assert np.isnan(found.p)
    assert of_sums(0.1, 0.0, 0.001, 5).df == np.inf


@pytest.mark.parametrize("readers", [3, 5, 8])
def test_equal_skill_is_rejected_in_about_one_of_twenty_studies(readers: int) -> None:
    random, studies, cases = np.random.default_rng(readers), 1500, 80
    skill = 0.35 * random.standard_normal((studies, readers, 1))
    case = 0.8 * random.standard_normal((studies, 1, cases))
    noise = random.standard_normal((studies, readers + 1, cases))
    mean, fixed = 0.9, 1 + 0.8**2
    own = mean + skill + case + noise[:, 1:] > 0
    model = mean * (fixed / (fixed + 0.35**2)) ** 0.5 + case + noise[:, :1] > 0
    gaps = model.astype(float) - own
    without = (gaps.sum(axis=-1, keepdims=True) - gaps) / (cases - 1)
    found = analyse(gaps.mean(axis=-1), jackknife_covariance(without))
    assert 0.03 <= np.mean(found.p < 0.05) <= (0.08 if readers == 3 else 0.065)  # with three readers no test is shown


@pytest.fixture
def bench(handmade: Any) -> Benchmark:
    """Twenty-four patients on all paths, with grid items."""
    for number in range(24):
        path = ("lesion_free", "revision_free", "revision_required")[number % 3]
        grid = (number + 1,) if number % 3 else None
        yes = (1 if number % 3 else 2,), (2 if number % 3 == 1 else 1,)
        handmade.case(f"n{number}", ("edema", "effusion")[number % 5 % 2], path, grid=grid, detection=yes[0],
                      contour_evaluation=yes[1])  # fmt: skip
    return benchmark.load(handmade.write())


def of_readers(bench: Benchmark, **errors: float) -> ScoredSample:
    """Graded models and readers, each wrong on a random share of the items."""
    random, turns = np.random.default_rng(7), []
    for name, share in errors.items():
        mistakes: dict[str, Any] = {item.item_id: () for item in bench.items if random.random() < share}
        turns += [replace(turn, model=name.replace("_", "/")) for turn in said(bench, mistakes)]
    return study(bench, [run(turns, tuple(name.replace("_", "/") for name in errors))])


def test_scores_without_a_patient_are_those_of_a_study_without_him(bench: Benchmark) -> None:
    made = of_readers(bench, m=0.3)
    values = jackknife.without_each(jackknife.cells_of(made.rows), made.sample.size)
    assert list(values) == ["coarse", "fine", "semantic", "mean", "grid"]
    for left_out in range(-1, made.sample.size):
        kept = replace(made, rows=made.rows.filter(pl.col("cluster") != left_out),
                       said=made.said.filter(pl.col("cluster") != left_out))  # fmt: skip
        matrix = model_pairs.make_matrix(made.sample, model_pairs.score_rows(kept), ["m"], "end_to_end", True)
        for score, value in zip(matrix.scores, matrix.values.value, strict=True):
            name = "mean" if score == OVERALL else score
            assert values[name][left_out + 1] == pytest.approx(value), (name, left_out)


def test_three_readers_have_intervals_and_five_have_tests(bench: Benchmark) -> None:
    three = {f"reader_{n}": 0.3 for n in range(3)}
    assert random_readers(of_readers(bench, m=0.1, reader_0=0.3, reader_1=0.3)).height == 0
    found = rows(random_readers(of_readers(bench, m=0.1, **three)), "score")
    assert list(found) == ["coarse", "fine", "semantic", OVERALL, "grid"]
    assert found["fine"]["difference_low"] < found["fine"]["difference"] < found["fine"]["difference_high"]
    assert found["fine"]["p"] is None
    made = of_readers(bench, m=0.0, baseline_x=0.5, **three, reader_3=0.6, reader_4=0.5, readers_majority=0.2)
    table = random_readers(made)
    assert set(table["model"]) == {"m", "baseline/x"}
    assert set(table["readers"]) == {5}
    tested = rows(table, "model", "score")
    assert tested["m", OVERALL]["p_holm"] >= tested["m", OVERALL]["p"] > 0
    assert tested["baseline/x", OVERALL]["p_holm"] is None
    assert tested["m", OVERALL]["differ"]


def test_a_difference_is_the_models_score_minus_the_mean_of_the_readers(bench: Benchmark) -> None:
    made = of_readers(bench, m=0.1, reader_0=0.2, reader_1=0.4, reader_2=0.6)
    found = rows(random_readers(made), "score")
    groups = rows(model_pairs.compare_models(made).groups, "score", "model")
    for score in found:
        values = [groups[score, f"reader/{n}"]["value"] for n in range(3)]
        assert found[score]["difference"] == pytest.approx(groups[score, "m"]["value"] - np.mean(values))


def test_grade_shows_models_minus_readers(bench: Benchmark, tmp_path: Path, cli: Cli) -> None:
    made = of_readers(bench, m=0.0, **{f"reader_{n}": 0.3 + n / 20 for n in range(5)})
    (run_made,) = made.graded.runs
    folder = tmp_path / "run"
    (folder / "turns").mkdir(parents=True)
    models = {name: {"litellm": name, "api_base": None, "decoding": {}} for name in run_made.models}
    about = {**read_run.origin(bench), "protocol": "end_to_end", "blind": False, "overlay_only": False, "rotations": 1,
             "repeats": 1, "limit": None, "limit_per_path": None, "seed": 0, "models": models}  # fmt: skip
    write_json(folder / "run.json", about, "run")
    write_jsonl(folder / "turns" / "all.jsonl", (turn.to_record() for turn in run_made.turns), "turn")
    code, out, _ = cli("grade", folder, "--out", tmp_path / "graded")
    assert code == 0
    assert "Models minus readers as a random sample" in out
    table = pl.read_csv(tmp_path / "graded" / "tables" / "random_readers.csv")
    assert set(table["readers"]) == {5}
