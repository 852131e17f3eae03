"""Intervals and tests: worked examples, coverage by simulation, and what has no number."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse, stats
from scipy.stats import kstest

from chexqa.eval.scoring import bootstrap, significance
from chexqa.eval.scoring.bootstrap import Estimates, Groups, Sample, draw_sample

ROWS = {"group": ["g"] * 4, "cluster": [0, 0, 1, 2], "right": [1, 0, 1, 1], "one": [1.0] * 4, "chance": [0.5] * 4}


def grouped(rows: dict[str, list[object]], sample: Sample | None = None) -> Groups:
    frame = pl.DataFrame(rows)
    return Groups(sample or draw_sample(max(map(int, rows["cluster"])) + 1), frame, ["group"])  # type: ignore[call-overload]


def share(rows: dict[str, list[object]], sample: Sample | None = None) -> Estimates:
    groups = grouped(rows, sample)
    return bootstrap.proportion(groups.sums("right"), groups.sums("one"))


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


@pytest.mark.parametrize("p", [0.2, 0.5, 0.9])
@pytest.mark.parametrize(("items", "alike"), [(1, 0.0), (3, 0.5)])
def test_95_percent_intervals_cover_the_truth_95_times_in_a_hundred(p: float, items: int, alike: float) -> None:
    """2,000 simulations of 200 patients; with several items a patient their answers are alike half of the time."""
    random = np.random.default_rng(round(100 * p) + items)
    rows = simulated(random, 200, p, 2000, items, alike)
    groups = Groups(draw_sample(200), rows, ["group"])
    low, high = bootstrap.proportion(groups.sums("right"), groups.sums("one")).interval()
    assert 0.93 <= np.mean((low <= p) & (p <= high)) <= 0.97


def test_at_none_or_all_the_interval_is_wilsons_on_patients() -> None:
    for answer in (0, 1):
        rows = {"group": ["g"] * 40, "cluster": [n // 2 for n in range(40)], "right": [answer] * 40, "one": [1.0] * 40}
        (low,), (high,) = share(rows).interval()
        bounds = stats.binomtest(20 * answer, 20).proportion_ci(0.95, "wilson")  # 20 patients of two items each
        assert (low, high) == pytest.approx((bounds.low, bounds.high))


def test_patients_with_many_items_count_for_less_than_one_each_in_that_interval() -> None:
    rows = {"group": ["g"] * 10, "cluster": [0] * 8 + [1, 2], "right": [1] * 10, "one": [1.0] * 10}
    effective = 10**2 / (8**2 + 1 + 1)
    assert share(rows).interval()[0][0] == pytest.approx(1 / (1 + stats.norm.isf(0.025) ** 2 / effective))


def test_a_number_that_rests_on_one_patient_has_no_interval() -> None:
    rows = {"group": ["g"] * 3, "cluster": [0, 0, 0], "right": [1, 0, 1], "one": [1.0] * 3}
    columns = share(rows, draw_sample(5)).columns("x")
    assert columns["x"][0] == pytest.approx(2 / 3)
    assert (columns["x_low"][0], columns["x_high"][0]) == (None, None)


def test_nothing_of_nothing_is_no_number() -> None:
    rows = {"group": ["g"] * 2, "cluster": [0, 1], "right": [0, 0], "one": [0.0, 0.0]}
    assert [series[0] for series in share(rows).columns("x").values()] == [None, None, None]


def test_a_mean_leaves_out_what_has_no_number_unless_all_are_needed() -> None:
    keys = pl.DataFrame({"who": ["a", "a", "b"], "part": [1, 2, 1]})
    replicates = np.full((3, 4), np.nan, np.float32)
    replicates[0], replicates[2] = 0.5, 0.25
    zero = np.zeros(3)
    some = Estimates(np.array([0.5, np.nan, 0.25]), replicates, zero, zero, np.array([5, 0, 5]))
    assert bootstrap.mean_by(keys, some, ["who"])[1].value.tolist() == [0.5, 0.25]
    needed = bootstrap.mean_by(keys, some, ["who"], all_needed=True)[1].value
    assert math.isnan(needed[0])
    assert needed[1] == 0.25


def test_every_number_shares_the_draws_so_that_differences_of_equals_are_nothing() -> None:
    groups = grouped({**ROWS, "group": ["g", "g", "h", "h"], "cluster": [0, 1, 0, 1], "right": [1, 0, 1, 0]})
    both = bootstrap.proportion(groups.sums("right"), groups.sums("one"))
    difference = both.combine(bootstrap.contrasts(2, [(0, 1)]))
    assert difference.interval() == ([0], [0])


def test_correction_for_chance_by_hand() -> None:
    groups = grouped(ROWS)
    corrected = bootstrap.corrected(groups.sums("right"), groups.sums("chance"), groups.sums("one"))
    assert corrected.value[0] == pytest.approx((3 - 2) / (4 - 2))


def test_replicates_are_the_weighted_sums_of_a_plain_loop() -> None:
    sample = draw_sample(3, replicates=50)
    estimates = share(ROWS, sample)
    for number, draws in enumerate(sample.draws.T):
        weights = [draws[cluster] for cluster in ROWS["cluster"]]
        whole = sum(weights)
        if whole:
            part = sum(weight * right for weight, right in zip(weights, ROWS["right"], strict=True))
            assert estimates.replicates[0, number] == pytest.approx(part / whole)
    assert (sample.draws.sum(axis=0) == 3).all()


def test_clusters_are_patients_else_studies_else_pictures() -> None:
    frame = pl.DataFrame({"patient_id": ["p", "p", None, None, None], "study_id": ["s", "t", "s", "s", None],
                          "picture": ["1", "2", "3", "4", "5"]})  # fmt: skip
    rows, unit = bootstrap.with_clusters(frame)
    assert rows["cluster"].to_list() == [0, 0, 1, 1, 2]
    assert unit == "patients and studies and pictures"
    assert bootstrap.with_clusters(frame[:2])[1] == "patients"
    assert bootstrap.with_clusters(frame[4:])[1] == "pictures"


def test_sign_flips_enumerate_small_cases() -> None:
    """Differences 3, 1, 1, 1: of the 16 sign patterns two reach 6, and all of them reach nothing."""
    parts = np.array([[3.0, 0], [1, 0], [1, 0], [1, 0]])
    weights = bootstrap.contrasts(2, [(0, 1), (1, 1)])
    p = significance.sign_flips(parts, weights, draws=40_000)
    assert p[0] == pytest.approx(2 / 16, abs=0.01)
    assert p[1] == 1


def test_sign_flips_never_give_a_p_of_nothing() -> None:
    parts = np.zeros((400, 2))
    parts[:, 0] = 1
    assert significance.sign_flips(parts, bootstrap.contrasts(2, [(0, 1)]), draws=999) == [1 / 1000]


def test_sign_flip_p_values_are_uniform_where_models_are_alike() -> None:
    """300 pairs of models with the same skill: p under 0.05 in a twentieth of them, and evenly spread."""
    random = np.random.default_rng(4)
    parts = random.random((150, 600)) < 0.6
    pairs = [(number, number + 1) for number in range(0, 600, 2)]
    p = significance.sign_flips(parts.astype(float), bootstrap.contrasts(600, pairs), draws=2000)
    # Counts have ties, so p is a little conservative; the test is one-sided for small p.
    assert kstest(p, "uniform", alternative="greater").pvalue > 0.01
    assert np.mean(p <= 0.05) <= 0.09


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


def test_combining_adds_up_the_distances_of_numbers_that_cannot_vary() -> None:
    fixed = Estimates(np.array([1.0, 0.5]), np.full((2, 10), 1, np.float32), np.array([0.2, 0.0]), np.zeros(2),
                      np.array([9, 9]))  # fmt: skip
    mean = fixed.combine(sparse.csr_matrix([[0.5, 0.5]]))
    assert (mean.degenerate_low[0], mean.degenerate_high[0]) == (pytest.approx(0.1), 0)
    negative = fixed.combine(sparse.csr_matrix([[-1.0, 0.0]]))
    assert (negative.degenerate_low[0], negative.degenerate_high[0]) == (0, pytest.approx(0.2))
