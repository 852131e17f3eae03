"""Intervals and tests: worked examples, coverage by simulation, and what has no number."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from grades import run, said
from hypothesis import given
from hypothesis import strategies as st
from rest_long import rest_long
from scipy import sparse, stats
from scipy.stats import kstest

from chexqa.contract import benchmark
from chexqa.eval.scoring import associations, grade, intervals, sample, significance
from chexqa.eval.scoring.intervals import Estimates, Groups, Sample
from chexqa.eval.tables.levels_and_stages import OVERALL, levels

ROWS = {"group": ["g"] * 4, "cluster": [0, 0, 1, 2], "right": [1, 0, 1, 1], "one": [1.0] * 4, "chance": [0.5] * 4}


def grouped(rows: dict[str, list[object]], sample: Sample | None = None) -> Groups:
    frame = pl.DataFrame(rows)
    return Groups(sample or Sample("patients", max(map(int, rows["cluster"])) + 1), frame, ["group"])  # type: ignore[call-overload]


def share(rows: dict[str, list[object]], sample: Sample | None = None) -> Estimates:
    groups = grouped(rows, sample)
    return intervals.proportion(groups.sums("right"), groups.sums("one"))


def simulated(random: np.random.Generator, patients: int, p: float, simulations: int, items: int, alike: float
              ) -> pl.DataFrame:  # fmt: skip
    """Right and wrong answers of ``items`` items a patient, which are those of their patient with chance ``alike``."""
    own = random.random((simulations, patients, 1)) < p
    each = np.where(random.random((simulations, patients, items)) < alike, own, random.random(
        (simulations, patients, items)) < p)  # fmt: skip
    shape = each.shape
    return pl.DataFrame(
        {
            "group": np.repeat(np.arange(simulations), patients * items),
            "cluster": np.tile(np.repeat(np.arange(patients), items), simulations),
            "right": each.reshape(-1),
            "one": np.ones(math.prod(shape)),
        }
    )


@pytest.mark.parametrize("p", [0.5, 0.8, 0.95])
@pytest.mark.parametrize(("items", "alike"), [(1, 0.0), (4, 0.5)])
@pytest.mark.parametrize("patients", [10, 30, 200])
def test_95_percent_intervals_cover_the_truth_95_times_in_a_hundred(
    p: float, items: int, alike: float, patients: int
) -> None:
    """1,000 simulations; with several items a patient their answers are alike half of the time."""
    random = np.random.default_rng(round(100 * p) + items + patients)
    rows = simulated(random, patients, p, 1000, items, alike)
    groups = Groups(Sample("patients", patients), rows, ["group"])
    low, high = intervals.proportion(groups.sums("right"), groups.sums("one")).interval()
    assert np.mean((low <= p) & (p <= high)) >= 0.93
    assert patients < 200 or np.mean((low <= p) & (p <= high)) <= 0.985


@pytest.mark.parametrize("patients", [10, 30])
@pytest.mark.parametrize("changed", [0.0, 0.05, 0.3])
def test_intervals_of_a_difference_cover_it_however_few_answers_differ(patients: int, changed: float) -> None:
    """1,000 simulated pairs of models, the second of which gets some of the first one's right answers wrong."""
    random = np.random.default_rng(patients + round(100 * changed))
    first = random.random((1000, patients)) < 0.8
    second = first & (random.random((1000, patients)) >= changed)
    sums = [intervals.Sums(answers.sum(axis=1, dtype=float), sparse.csr_matrix(answers.astype(float))) for answers in
            (first, second, np.ones_like(first))]  # fmt: skip
    both = intervals.proportion(sums[0], sums[2]).join(intervals.proportion(sums[1], sums[2]))
    low, high = both.combine(sample.contrasts(2000, [(n, 1000 + n) for n in range(1000)])).interval()
    truth = 0.8 * changed
    assert np.mean((low <= truth) & (truth <= high)) >= 0.93
    assert (high - low > 0).all(), "a difference is never certain"


def test_the_interval_of_an_unvarying_share_is_wilsons_on_patients_with_a_t_quantile() -> None:
    for answer in (0, 1):
        rows = {"group": ["g"] * 40, "cluster": [n // 2 for n in range(40)], "right": [answer] * 40, "one": [1.0] * 40}
        (low,), (high,) = share(rows).interval()
        square = stats.t.isf(0.025, 19) ** 2  # 20 patients of two items each, which count once
        ends = (0, square / (20 + square)) if answer == 0 else (20 / (20 + square), 1)
        assert (low, high) == pytest.approx(ends)


def test_patients_with_many_items_count_for_less_than_one_each_in_that_interval() -> None:
    rows = {"group": ["g"] * 19, "cluster": [0] * 8 + [*range(1, 12)], "right": [1] * 19, "one": [1.0] * 19}
    effective = 19**2 / (8**2 + 11)
    square = stats.t.isf(0.025, 11) ** 2
    assert share(rows).interval()[0][0] == pytest.approx(1 / (1 + square / effective))


def test_a_number_of_few_patients_has_no_interval() -> None:
    for patients in (1, 9, 10):
        rows = {"group": ["g"] * patients, "cluster": [*range(patients)], "right": [1] + [0] * (patients - 1),
                "one": [1.0] * patients}  # fmt: skip
        columns = share(rows).columns("x")
        assert columns["x"][0] == pytest.approx(1 / patients)
        assert (columns["x_low"][0] is None) == (columns["x_high"][0] is None) == (patients < 10)


def test_numbers_that_are_no_answers_may_vary_less() -> None:
    """Thirty overlaps between 0.49 and 0.51 are known better than thirty answers of which half are right."""
    overlaps = pl.DataFrame({"group": "g", "cluster": range(30), "right": [0.49, 0.51] * 15, "one": 1.0})
    groups = Groups(Sample("patients", 30), overlaps, ["group"])
    wide, narrow = (intervals.proportion(groups.sums("right"), groups.sums("one"), binary).interval()
                    for binary in (True, False))  # fmt: skip
    assert wide[1][0] - wide[0][0] > 3 * (narrow[1][0] - narrow[0][0]) > 0.006


def test_the_interval_of_an_unbounded_mean_is_students() -> None:
    values = [1.0, 4.0, 2.0, 8.0, 5.0, 7.0, -3.0, 2.5, 0.5, 6.0]
    frame = pl.DataFrame({"group": "g", "cluster": range(10), "right": values, "one": 1.0})
    groups = Groups(Sample("patients", 10), frame, ["group"])
    (low,), (high,) = intervals.mean(groups.sums("right"), groups.sums("one")).interval()
    known = stats.t.interval(0.95, 9, np.mean(values), stats.sem(values))
    assert (low, high) == pytest.approx(known)


def test_nothing_of_nothing_is_no_number() -> None:
    rows = {"group": ["g"] * 2, "cluster": [0, 1], "right": [0, 0], "one": [0.0, 0.0]}
    assert [series[0] for series in share(rows).columns("x").values()] == [None, None, None]


def test_a_mean_leaves_out_what_has_no_number() -> None:
    frame = pl.DataFrame({"who": ["a", "a", "b"], "part": [1, 2, 1], "cluster": [0, 0, 0], "right": [0.5, 0.0, 0.25],
                          "one": [1.0, 0.0, 1.0]})  # fmt: skip
    groups = Groups(Sample("patients", 1), frame, ["who", "part"])
    some = intervals.proportion(groups.sums("right"), groups.sums("one"))
    assert sample.mean_by(groups.keys, some, ["who"])[1].value.tolist() == [0.5, 0.25]


def test_correction_for_chance_by_hand() -> None:
    groups = grouped(ROWS)
    corrected = intervals.corrected(groups.sums("right"), groups.sums("chance"), groups.sums("one"))
    assert corrected.value[0] == pytest.approx((3 - 2) / (4 - 2))


def test_clusters_are_patients_else_studies_else_pictures() -> None:
    frame = pl.DataFrame({"patient_id": ["p", "p", None, None, None], "study_id": ["s", "t", "s", "s", None],
                          "picture": ["1", "2", "3", "4", "5"]})  # fmt: skip
    rows, unit = sample.with_clusters(frame)
    assert rows["cluster"].to_list() == [0, 0, 1, 1, 2]
    assert unit == "patients and studies and pictures"
    assert sample.with_clusters(frame[:2])[1] == "patients"
    assert sample.with_clusters(frame[4:])[1] == "pictures"


def test_sign_flips_enumerate_small_cases() -> None:
    """Differences 3, 1, 1, 1: of the 16 sign patterns two reach 6, and all of them reach nothing."""
    parts = np.array([[3.0, 0], [1, 0], [1, 0], [1, 0]])
    weights = sample.contrasts(2, [(0, 1), (1, 1)])
    assert significance.sign_flips(parts, weights, draws=10).tolist() == [2 / 16, 1]


@pytest.mark.parametrize(("gained", "lost"), [(4, 0), (5, 0), (9, 1), (16, 0), (12, 4)])
def test_sign_flips_of_few_patients_that_differ_are_exact_in_any_study(gained: int, lost: int) -> None:
    """With one answer a patient, the p-value is that of McNemar's exact test."""
    parts = np.zeros((200, 2))
    parts[:gained, 0] = parts[gained : gained + lost, 1] = parts[100:, :] = 1 / 200
    p = significance.sign_flips(parts, sample.contrasts(2, [(0, 1)]), draws=10)
    assert p[0] == pytest.approx(significance.mcnemar(gained, lost), rel=1e-12)


def test_sign_flips_of_many_patients_are_drawn_beside_exact_ones() -> None:
    parts = np.zeros((40, 3))
    parts[:17, 0], parts[:4, 2] = 1, 1
    p = significance.sign_flips(parts, sample.contrasts(3, [(0, 1), (2, 1)]), draws=99)
    assert p.tolist() == pytest.approx([2 * np.exp(-17 / 2), 1 / 8], rel=1e-4)


def test_a_difference_that_no_draw_reaches_can_be_significant_among_thousands_of_tests() -> None:
    """The last of 30 patients differs in the other direction, so 31 of the 2 ** 29 choices of signs reach the sum."""
    parts = np.zeros((30, 2))
    parts[:-1, 0] = parts[-1, 1] = 1
    (p,) = significance.sign_flips(parts, sample.contrasts(2, [(0, 1)]), draws=999)
    assert 31 / 2**29 < p < 0.05 / 5000
    (p,) = significance.sign_flips(np.ones((400, 2)) * [1, 0], sample.contrasts(2, [(0, 1)]), draws=99)
    assert 0 < p < 1e-80


def test_sign_flip_p_values_are_uniform_where_models_are_alike() -> None:
    """300 pairs of models with the same skill: p under 0.05 in a twentieth of them, and evenly spread."""
    random = np.random.default_rng(4)
    parts = random.random((150, 600)) < 0.6
    pairs = [(number, number + 1) for number in range(0, 600, 2)]
    p = significance.sign_flips(parts.astype(float), sample.contrasts(600, pairs), draws=2000)
    # Counts have ties, so p is a little conservative; the test is one-sided for small p.
    assert kstest(p, "uniform", alternative="greater").pvalue > 0.01
    assert np.mean(p <= 0.05) <= 0.09


def test_the_interval_of_a_difference_agrees_with_its_p_value() -> None:
    """Each row has a difference, its two ends and p, and then the ends that agree with p."""
    rows = [
        ((0.2, 0.1, 0.3, 0.01), (0.1, 0.3)),
        ((-0.2, -0.3, -0.1, 0.01), (-0.3, -0.1)),
        ((0.2, 0.1, 0.3, 0.05), (0.0, 0.3)),
        ((-0.2, -0.3, -0.1, 0.06), (-0.3, 0.0)),
        ((0.2, -0.1, 0.5, 0.06), (-0.1, 0.5)),
        ((0.2, -0.1, 0.5, 0.04), (significance.BEYOND, 0.5)),
        ((-0.2, -0.5, 0.1, 0.04), (-0.5, -significance.BEYOND)),
        ((0.2, None, None, 0.5), (None, None)),
        ((0.2, 0.1, 0.3, None), (0.1, 0.3)),
    ]
    names = ["difference", "difference_low", "difference_high", "p"]
    frame = pl.DataFrame([row for row, _ in rows], schema=dict.fromkeys(names, pl.Float64), orient="row")
    found = frame.with_columns(significance.intervals_agreeing_with_p()).select(names[1:3]).rows()
    assert found == [ends for _, ends in rows]


def test_mcnemar_is_the_exact_binomial_test_of_discordant_items() -> None:
    assert significance.mcnemar(1, 9) == pytest.approx(2 * (1 + 10) / 2**10)
    assert significance.mcnemar(0, 0) == 1


@given(st.integers(0, 7).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n * n)))))
def test_rows_share_a_letter_just_where_they_are_not_different(case: tuple[int, set[int]]) -> None:
    count, marked = case
    different = np.zeros((count, count), bool)
    for mark in marked:
        first, second = divmod(mark, max(count, 1))
        if first < count and first != second:
            different[first, second] = different[second, first] = True
    names = significance.letters(different)
    for first in range(count):
        for second in range(count):
            assert bool(set(names[first]) & set(names[second])) != different[first, second]


def test_letters_come_in_the_order_of_rows() -> None:
    different = np.array([[0, 0, 1], [0, 0, 0], [1, 0, 0]], bool)
    assert significance.letters(different) == ["a", "ab", "b"]


def test_the_detectable_difference_is_that_of_a_normal_test() -> None:
    assert significance.detectable([0.01, 0.02, 0.5]) == pytest.approx((1.959964 + 0.841621) * 0.02, rel=1e-5)
    assert significance.detectable([]) is None


def difference(first: np.ndarray, second: np.ndarray, asked: int = 1, small: int | None = None) -> Estimates:
    """Return the differences of two models, from right answers ``(draws, patients)`` of ``asked`` a patient.

    With ``small``, that many patients are a finding of their own, and a score is the mean of both findings.
    """
    draws, patients = first.shape
    ends = [0, patients] if small is None else [0, small, patients]
    parts = [intervals.proportion(*(_blocks(values[:, start:end], start, patients)
                                    for values in (right.astype(float), np.full(right.shape, float(asked)))))
             for right in (first, second) for start, end in pairwise(ends)]  # fmt: skip
    joined = parts[0]
    for part in parts[1:]:
        joined = joined.join(part)
    each = sparse.hstack([sparse.eye(draws)] * (len(ends) - 1)) / (len(ends) - 1)
    return joined.combine(sparse.csr_matrix(sparse.hstack([each, -each])))


def held(numbers: Estimates, truth: float) -> float:
    low, high = numbers.interval()
    return float(np.mean((low <= truth + 1e-9) & (truth - 1e-9 <= high)))


@pytest.mark.parametrize("patients", [30, 300])
@pytest.mark.parametrize("few", rest_long([1.5, 2.9, 4.6], keep=1))
@pytest.mark.parametrize("p", [0.5, 1.0])
@pytest.mark.parametrize(("items", "whole"), [(1, False), (4, False), (4, True)])
def test_intervals_of_nested_models_hold_their_difference(
    patients: int, few: float, p: float, items: int, whole: bool
) -> None:
    """1,500 pairs: the second model has the first one's answers but a few, or those of a few patients; p is skill."""
    random = np.random.default_rng([patients, round(10 * few), items])
    first = random.random((1500, patients, 1 if whole else items)) < p
    lost = few / patients / first.shape[2]
    second = first & (random.random(first.shape) >= lost / p)
    sums = [right.sum(axis=2) * items // first.shape[2] for right in (first, second)]
    assert held(difference(sums[0], sums[1], items), lost) >= 0.93


@pytest.mark.parametrize("few", rest_long([1.5, 2.9, 4.6], keep=1))
def test_intervals_of_models_that_differ_in_a_small_finding_hold_their_difference(few: float) -> None:
    """The small finding has 12 patients and the other one 100, of which 3 are gained and 3 lost on average."""
    random = np.random.default_rng(round(10 * few))
    first = random.random((1500, 112)) < 0.5
    turned = random.random(first.shape)
    second = np.where(turned < 0.06, ~first, first)
    second[:, :12] = first[:, :12] & (turned[:, :12] >= few / 6)
    assert held(difference(first, second, small=12), few / 12 / 2) >= 0.93


def test_models_with_the_same_answers_have_a_narrow_difference_whether_or_not_the_answers_vary() -> None:
    for patients in (30, 100, 1000):
        answers = np.array([np.ones(patients), np.zeros(patients), np.arange(patients) % 2])
        low, high = difference(answers, answers).interval()
        half = stats.t.isf(0.025, patients - 1) * math.sqrt(2) / (patients + 2)
        assert np.array([-low, high]) == pytest.approx(half)


def test_heavy_answers_and_many_answers_of_different_patients_are_not_multiplied() -> None:
    """Ten patients with one answer each make one half of the mean, ten with four answers each the other half."""
    rows = {"group": ["a"] * 10 + ["b"] * 40, "cluster": [*range(10), *(10 + one // 4 for one in range(40))],
            "right": [1] * 50, "one": [1.0] * 50}  # fmt: skip
    halves = share(rows)
    mean = halves.join(halves).combine(np.array([[0.5, 0.5, -0.5, -0.5]]))
    # Nobody's answers change the mean by more than a twentieth.
    half = stats.t.isf(0.025, 19) * math.sqrt(2 * 0.05**2) * 20 / 22
    assert mean.interval()[1] == pytest.approx(half)


def test_a_constant_model_widens_a_difference_little() -> None:
    """A model that always says yes against one that errs: sensitivity + specificity - 1 of 60 patients each."""
    random = np.random.default_rng(7)
    yes = np.repeat([[1.0, 0.0]], 60, axis=1).repeat(1500, axis=0)
    varying = (random.random(yes.shape) < 0.8).astype(float)
    numbers = difference(yes, varying, small=60)
    assert held(numbers, 0.5 - 0.8) >= 0.93
    low, high = numbers.interval()
    own = difference(varying, np.zeros_like(varying), small=60)  # the varying model's own score
    assert np.mean(high - low) <= 1.05 * np.mean(np.subtract(*own.interval()[::-1]))


def test_no_end_of_a_difference_lies_beyond_what_is_possible() -> None:
    (low,), (high,) = difference(np.ones((1, 20)), np.zeros((1, 20))).interval()
    assert (low, high) == pytest.approx((1 - stats.t.isf(0.025, 19) * math.sqrt(2) / 22, 1))
    both = difference(np.zeros((1, 20)), np.ones((1, 20))).times(np.array([0.5]))
    assert both.interval()[0] == pytest.approx(-0.5)


@pytest.mark.parametrize("most", [1, 41], ids=["alike", "three patients with most of the answers"])
def test_the_plain_code_of_the_documentation_gives_the_same_intervals(most: int) -> None:
    page = (Path(__file__).parents[2] / "docs" / "intervals.md").read_text(encoding="utf-8")
    known: dict[str, Any] = {}
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(code, known)
    random = np.random.default_rng(2)
    patient = np.sort(random.integers(0, 40, 150)) if most == 1 else np.repeat(np.arange(30), [1] * 27 + [most] * 3)
    first, lost = random.random(150) < 0.8, 0.1 if most == 1 else np.maximum(patient - 27, 0) * 0.08
    groups = Groups(Sample("patients", 40), pl.DataFrame(
        {"group": np.repeat([0, 1, 2], 150), "cluster": np.tile(patient, 3), "one": 1.0,
         "right": np.concatenate([first, first & (random.random(150) >= lost), first])}), ["group"])  # fmt: skip
    right = groups.rows["right"].to_numpy().reshape(3, 150)
    shares = intervals.proportion(groups.sums("right"), groups.sums("one"))
    assert known["share_interval"](right[0], patient) == pytest.approx([ends[0] for ends in shares.interval()])
    pairs = shares.combine(sample.contrasts(3, [(0, 1), (0, 2)])).interval()
    for place, other in enumerate(right[1:]):
        found = known["difference_interval"](right[0], other, patient)
        assert found == pytest.approx([ends[place] for ends in pairs])


def test_the_plain_code_for_a_level_gives_the_ends_of_the_table(handmade: Any) -> None:
    """Twenty-four cases on all paths, some with the patient of another; cardiomegaly is left out of levels."""
    for number in range(24):
        path = ("lesion_free", "revision_free", "revision_required")[number % 3]
        detection, contour = ((2,) if path == name else (1,) for name in ("lesion_free", "revision_free"))
        handmade.case(f"n{number}", ("edema", "effusion", "cardiomegaly")[number % 5 % 3], path,
                      patient=f"p{number % 20}", detection=detection, contour_evaluation=contour)  # fmt: skip
    bench, random = benchmark.load(handmade.write()), np.random.default_rng(5)
    mistakes: dict[str, Any] = {item.item_id: () for item in bench.items if random.random() < 0.3}
    graded = grade.grade_runs(bench, [run(said(bench, mistakes))])
    rows = pd.DataFrame(graded.grades.drop("reply", "reasoning").to_dicts())
    page = (Path(__file__).parents[2] / "docs" / "intervals.md").read_text(encoding="utf-8")
    known: dict[str, Any] = {}
    exec(next(code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "level_interval" in code), known)
    table = levels(sample.scored_sample(graded)).select("level", "corrected", "corrected_low", "corrected_high")
    for level, *ends in table.iter_rows():
        found = known["level_interval"](rows if level == OVERALL else rows[rows.level == level])
        assert found == pytest.approx(ends), level


def test_the_difference_of_unbounded_means_has_the_interval_of_a_paired_t_test() -> None:
    values = np.random.default_rng(9).normal(size=(2, 25))
    frame = pl.DataFrame({"group": np.repeat([0, 1], 25), "cluster": np.tile(np.arange(25), 2),
                          "right": values.ravel(), "one": 1.0})  # fmt: skip
    groups = Groups(Sample("patients", 25), frame, ["group"])
    both = intervals.mean(groups.sums("right"), groups.sums("one")).combine(sample.contrasts(2, [(0, 1)]))
    known = stats.ttest_rel(values[0], values[1]).confidence_interval()
    assert np.ravel(both.interval()) == pytest.approx([known.low, known.high])


@pytest.mark.parametrize("shift", [-0.2, -0.02, 0.0, 0.01, 0.06])
def test_alike_is_two_one_sided_t_tests(shift: float) -> None:
    """Scipy's tests of the same differences; below 0.05 the 90 % interval lies within the margin."""
    values = np.random.default_rng(3).normal(shift, 0.1, 40)
    frame = pl.DataFrame({"group": "g", "cluster": range(40), "right": values, "one": 1.0})
    groups = Groups(Sample("patients", 40), frame, ["group"])
    (p,) = intervals.mean(groups.sums("right"), groups.sums("one")).p_alike(0.05)
    below, above = (stats.ttest_1samp(values, end, alternative=side).pvalue
                    for end, side in ((-0.05, "greater"), (0.05, "less")))  # fmt: skip
    assert p == pytest.approx(max(below, above))
    low, high = stats.t.interval(0.9, 39, np.mean(values), stats.sem(values))
    assert (p < 0.05) == (low > -0.05 and high < 0.05)


def test_alike_has_the_degrees_of_freedom_of_the_interval() -> None:
    """The mean of a small and a large finding has few: p is that of the 90 % interval that ends at the margin."""
    frame = pl.DataFrame({"group": ["small"] * 4 + ["large"] * 40, "cluster": range(44), "one": 1.0,
                          "right": [1.0, 0.0, 1.0, 0.0] + [1.0, 0.0, 1.0, 0.0] * 10})  # fmt: skip
    groups = Groups(Sample("patients", 44), frame, ["group"])
    shares = intervals.proportion(groups.sums("right"), groups.sums("one"))
    found = shares.join(shares).combine(np.array([[0.5, 0.5, -0.5, -0.5]]))
    # Satterthwaite's for four shares: one of n patients has the variance 1 / n with n - 1 degrees.
    freedom = (2 / 4 + 2 / 40) ** 2 / (2 / 4**2 / 3 + 2 / 40**2 / 39)
    ends = found.value - found.standard_errors() * stats.t.isf(0.05, freedom)
    assert found.p_alike(float(-ends[0])) == pytest.approx([0.05])


@pytest.mark.parametrize("patients", [30, 50, 200])
def test_sign_flips_find_the_detectable_difference_of_equal_models_four_times_in_five(patients: int) -> None:
    """With so large a difference, patients differ in one direction only; the test needs six of them."""
    equal = difference(np.ones((1, patients)), np.ones((1, patients)))
    of_one = intervals.change_per_cluster(equal.influence, equal.members, equal.answers)
    size = significance.detectable(equal.standard_errors(), per_cluster=of_one)
    counts = np.arange(patients + 1)
    parts = np.stack([np.arange(patients)[:, None] < counts, np.zeros((patients, len(counts)))], axis=2)
    p = [significance.sign_flips(own, sparse.csr_matrix([[1.0, -1.0]]), draws=200)[0] for own in parts.swapaxes(0, 1)]
    assert 0.8 <= stats.binom.pmf(counts, patients, size) @ (np.array(p) < significance.ALPHA) < 0.85


@pytest.mark.parametrize("patients", [30, 100, 400])
def test_models_at_the_margin_are_rarely_called_alike(patients: int) -> None:
    """1,000 simulated pairs of models that differ by just the margin of 5 points: at most 5 in 100 seem alike."""
    random = np.random.default_rng(patients)
    first = random.random((1000, patients)) < 0.8
    second = np.where(first, random.random(first.shape) >= 0.0875, random.random(first.shape) < 0.1)
    whole = intervals.Sums(np.full(1000, float(patients)), sparse.csr_matrix(np.ones((1000, patients))))
    both = [intervals.proportion(intervals.Sums(one.sum(axis=1, dtype=float), sparse.csr_matrix(one.astype(float))),
                                 whole) for one in (first, second)]  # fmt: skip
    pairs = sample.contrasts(2000, [(n, 1000 + n) for n in range(1000)])
    assert np.mean(both[0].join(both[1]).combine(pairs).p_alike(0.05) < 0.05) <= 0.07


def test_a_correlation_is_fishers_z_with_a_jackknife_over_patients() -> None:
    """A plain loop that leaves out one patient after another, and scipy's correlation."""
    random = np.random.default_rng(5)
    cluster = np.repeat(np.arange(70), 2)
    first = (random.random(140) < 0.6).astype(float)
    second = np.where(random.random(140) < 0.5, first, random.random(140) < 0.5).astype(float)
    found = associations.correlation(first, second, cluster)
    z = [np.arctanh(stats.pearsonr(first[cluster != one], second[cluster != one]).statistic) for one in range(70)]
    error = math.sqrt(69 / 70 * sum((value - np.mean(z)) ** 2 for value in z))
    middle = np.arctanh(stats.pearsonr(first, second).statistic)
    assert found == pytest.approx([np.tanh(middle + step * stats.t.isf(0.025, 69) * error) for step in (0, -1, 1)])
    few = associations.correlation(first[:118], second[:118], cluster[:118])  # 59 patients
    assert math.isfinite(few.value)
    assert math.isnan(few.low)
    rare = np.zeros(140)
    rare[:4] = 1
    assert math.isnan(associations.correlation(first, rare, cluster).low), "1.6 cases would have both rarer answers"


def test_a_correlation_within_findings_forgets_how_hard_they_are() -> None:
    """Two findings, one easy for both questions: answers correlate over all cases and not within a finding."""
    random = np.random.default_rng(8)
    finding = np.repeat([0, 1], 400)
    first, second = (random.random((2, 800)) < np.where(finding == 1, 0.9, 0.2)).astype(float)
    over_all, within = (associations.correlation(first, second, np.arange(800), groups) for groups in (None, finding))
    assert over_all.low > 0.3
    assert within.low < 0 < within.high
    size = random.random(800)
    larger = [(random.random(800) < size).astype(float) for _ in range(2)]
    by_size = [associations.correlation(*larger, np.arange(800), finding, covariate) for covariate in (None, size)]
    assert by_size[0].low > 0.1
    assert by_size[1].low < 0 < by_size[1].high


def _blocks(values: np.ndarray, first: int, patients: int) -> intervals.Sums:
    """Return sums of values ``(draws, N)`` of the patients from ``first`` on."""
    table = sparse.csr_matrix(values)
    shape = (len(values), patients)
    return intervals.Sums(
        values.sum(axis=1), sparse.csr_matrix((table.data, table.indices + first, table.indptr), shape)
    )


@pytest.mark.parametrize("skill", [0.7, 0.9, 0.98])
def test_intervals_of_composites_hold_the_truth_at_every_skill(skill: float) -> None:
    """Fourteen parts of seven patients each, half of whose items are guessed right, and one part of all patients."""
    random, draws, size = np.random.default_rng(round(100 * skill)), 800, 98
    parts = []
    for first, count, chance in [*((7 * number, 7, 0.5) for number in range(14)), (0, size, 0.25)]:
        right = random.random((draws, count)) < skill + (1 - skill) * chance
        asked = np.ones((draws, count))
        sums = [_blocks(values, first, size) for values in (right.astype(float), chance * asked, asked)]
        parts.append(intervals.corrected(*sums))
    joined = parts[0]
    for part in parts[1:]:
        joined = joined.join(part)
    eye = sparse.eye(draws)
    weights = sparse.csr_matrix(sparse.hstack([eye / 28] * 14 + [eye / 2]))
    numbers = joined.combine(weights)
    low, high = numbers.interval()
    assert 0.93 <= np.mean((low <= skill) & (skill <= high)) <= 0.985
    assert np.mean(high < skill) <= 0.04
    in_steps = joined.combine(sparse.csr_matrix(sparse.block_diag([sparse.hstack([eye / 14] * 14), eye])))
    again = in_steps.combine(sparse.csr_matrix(sparse.hstack([eye, eye]) / 2)).interval()
    assert again[0] == pytest.approx(low)
    assert again[1] == pytest.approx(high)


def test_a_mean_of_parts_that_are_all_right_or_all_wrong_is_no_certainty() -> None:
    right = sparse.csr_matrix(np.vstack([np.ones(20), np.zeros(20)]))
    whole = intervals.Sums(np.full(2, 20.0), sparse.csr_matrix(np.ones((2, 20))))
    both = intervals.proportion(intervals.Sums(np.array([20.0, 0.0]), right), whole).combine(np.array([[0.5, 0.5]]))
    (low,), (high,) = both.interval()
    assert (low, high) == pytest.approx((1 - high, high))
    assert 0.2 < low < 0.35
