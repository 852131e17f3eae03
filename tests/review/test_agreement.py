"""Agreement coefficients against worked examples as published, a slow second implementation, and the odd cases."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from chexqa.review.resolve.coefficients import (
    COEFFICIENTS,
    MISSING,
    Estimate,
    Ratings,
    _terms,
    estimates,
    pair_estimate,
    paradox,
    resamples,
)
from chexqa.stats import wilson

# Fleiss 1971, table 1: how many of six psychiatrists put each of 30 patients under each of five diagnoses.
FLEISS_1971 = (
    "00060 03003 01401 00006 03030 20400 00402 20310 20040 00006 10050 11040 03300 10050 02031 "
    "00501 30012 51000 02040 10203 00006 01050 02013 20040 10041 05010 40002 02040 10500 00006"
)
# Krippendorff 2011, part C: four observers, twelve units, five values, a dot for no value.
KRIPPENDORFF_2011 = ("123321412...", "1233224125.3", ".3332342251.", "12332441251.")


def from_counts(counts: np.ndarray) -> np.ndarray:
    """Codes (units, raters) in which each category was chosen as often as the counts (units, categories) say."""
    return np.array([np.repeat(np.arange(len(row)), row) for row in counts])


def from_table(table: list[list[int]]) -> np.ndarray:
    """Codes (units, 2) of a contingency table of two raters."""
    cells = [[(row, column)] * count for row, line in enumerate(table) for column, count in enumerate(line)]
    return np.array(list(itertools.chain.from_iterable(cells)))


def value(name: str, codes: np.ndarray, categories: int) -> float:
    """A coefficient of all units, those rated once included."""
    return float(COEFFICIENTS[name](_terms(codes, categories).sum(axis=0)))


def cohen(codes: np.ndarray, categories: int) -> float:
    """Cohen's kappa of the first two raters."""
    ratings = Ratings(codes, categories, np.zeros(len(codes), int))
    found = pair_estimate(ratings, 0, 1, np.ones((1, 1)))[2].value
    return math.nan if found is None else found


def krippendorff() -> np.ndarray:
    return np.array([[MISSING if mark == "." else int(mark) - 1 for mark in row] for row in KRIPPENDORFF_2011]).T


def test_fleiss_kappa_of_the_psychiatric_diagnoses_of_1971() -> None:
    counts = np.array([[int(digit) for digit in row] for row in FLEISS_1971.split()])
    assert counts.shape == (30, 5)
    assert set(counts.sum(axis=1)) == {6}
    assert round(value("fleiss", from_counts(counts), 5), 3) == 0.430


def test_all_four_on_krippendorffs_data_with_missing_values() -> None:
    codes = krippendorff()
    assert round(value("alpha", codes, 5), 3) == 0.743
    # What Gwet's own software gives for the same ratings.
    assert round(value("percent", codes, 5), 7) == 0.8181818
    assert round(value("fleiss", codes, 5), 5) == 0.76117
    assert round(value("ac1", codes, 5), 5) == 0.77544


@pytest.mark.parametrize(
    ("table", "percent", "kappa"),
    [([[20, 5], [10, 15]], 0.7, 0.4), ([[45, 15], [25, 15]], 0.6, 0.1304), ([[25, 35], [5, 35]], 0.6, 0.2593)],
)
def test_cohen_kappa_of_textbook_tables(table: list[list[int]], percent: float, kappa: float) -> None:
    codes = from_table(table)
    assert value("percent", codes, 2) == pytest.approx(percent)
    assert cohen(codes, 2) == pytest.approx(kappa, abs=5e-5)


def test_gwets_paradox_of_2008_and_the_line_that_explains_it() -> None:
    codes = from_table([[118, 5], [2, 0]])
    assert value("percent", codes, 2) == pytest.approx(0.944)
    assert round(cohen(codes, 2), 4) == -0.0234
    assert round(value("fleiss", codes, 2), 4) == -0.0288
    assert round(value("ac1", codes, 2), 4) == 0.9408
    ratings = Ratings(codes, 2, np.arange(125))
    line = paradox(ratings, estimates(ratings, resamples(125)))
    assert line is not None
    assert "94%" in line
    assert "97%" in line
    assert "\n" not in line


def test_three_pregnancy_abstractors_categories_as_in_gwets_software() -> None:
    codes = from_table([[13, 0, 0], [0, 20, 7], [0, 4, 56]])
    assert round(cohen(codes, 3), 7) == 0.7964094
    assert round(value("fleiss", codes, 3), 7) == 0.7962397
    assert round(value("ac1", codes, 3), 7) == 0.8493305


def test_one_category_alone_leaves_the_kappas_undefined_and_percent_and_ac1_at_one() -> None:
    codes = np.zeros((20, 3), dtype=int)
    assert value("percent", codes, 2) == value("ac1", codes, 2) == 1
    assert math.isnan(value("fleiss", codes, 2))
    assert math.isnan(value("alpha", codes, 2))
    assert math.isnan(cohen(codes, 2))
    ratings = Ratings(codes, 2, np.arange(20))
    found = estimates(ratings, resamples(20))
    assert found["percent"] == Estimate(1.0, *map(float, wilson(1.0, 20)))
    assert found["fleiss"] == found["alpha"] == Estimate(None)
    assert "undefined" in str(paradox(ratings, found))


@pytest.mark.parametrize(
    ("words", "codes"),
    [
        ("one rater", [[0], [1], [0]]),
        ("two raters who saw different units", [[0, MISSING], [MISSING, 1], [0, MISSING]]),
        ("no units", np.zeros((0, 2))),
        ("nothing rated", [[MISSING, MISSING]]),
    ],
)
def test_without_a_unit_that_two_rated_nothing_is_defined(words: str, codes: list[list[int]]) -> None:
    table = np.array(codes, dtype=int)
    ratings = Ratings(table, 2, np.arange(len(table)))
    found = estimates(ratings, resamples(max(1, len(table))))
    assert all(estimate == Estimate(None) for estimate in found.values()), words
    assert paradox(ratings, found) is None


def test_units_rated_once_change_no_estimate() -> None:
    twice = from_table([[20, 5], [10, 15]])
    once = np.concatenate([twice, np.array([[1, MISSING]] * 30)])
    people = np.arange(80)
    weights = resamples(80)
    few = estimates(Ratings(twice, 2, people[:50]), weights)
    many = estimates(Ratings(once, 2, people), weights)
    assert few == many


codes_tables = st.integers(2, 4).flatmap(
    lambda raters: st.lists(
        st.lists(st.integers(MISSING, 2), min_size=raters, max_size=raters), min_size=1, max_size=12
    )
)


def slow(codes: list[list[int]], q: int) -> tuple[float, float, float]:
    """Percent, Krippendorff's alpha and Cohen's kappa of the first two raters by loops over pairs of values."""
    values = [[code for code in row if code != MISSING] for row in codes]
    paired = [row for row in values if len(row) >= 2]
    nan = float("nan")
    shares = [np.mean([a == b for a, b in itertools.permutations(row, 2)]) for row in paired]
    percent = float(np.mean(shares)) if shares else nan
    pool = list(itertools.chain.from_iterable(paired))
    observed = sum(sum(a != b for a, b in itertools.permutations(row, 2)) / (len(row) - 1) for row in paired)
    by_chance = sum(a != b for a, b in itertools.permutations(pool, 2))
    alpha = 1 - (len(pool) - 1) * observed / by_chance if by_chance else nan
    both = [row for row in codes if MISSING not in row[:2]]
    first, second = [row[0] for row in both], [row[1] for row in both]
    cohen = nan
    if both and len(set(first + second)) != 1:
        cohen = float(cohen_kappa_score(first, second, labels=list(range(q))))
    return percent, alpha, cohen


@given(codes_tables)
@settings(max_examples=150, deadline=None)
def test_the_sums_agree_with_loops_over_pairs(rows: list[list[int]]) -> None:
    codes = np.array(rows)
    percent, alpha, kappa = slow(rows, 3)
    assert value("percent", codes, 3) == pytest.approx(percent, nan_ok=True)
    assert value("alpha", codes, 3) == pytest.approx(alpha, nan_ok=True)
    assert cohen(codes, 3) == pytest.approx(kappa, nan_ok=True, abs=1e-12)


@given(codes_tables, st.permutations(range(3)))
@settings(max_examples=60, deadline=None)
def test_neither_the_order_of_raters_nor_the_names_of_categories_matter(
    rows: list[list[int]], names: list[int]
) -> None:
    codes = np.array(rows)
    renamed = np.where(codes == MISSING, MISSING, np.array(names)[codes])[:, ::-1]
    for name in COEFFICIENTS:
        assert value(name, codes, 3) == pytest.approx(value(name, renamed, 3), nan_ok=True)


def test_intervals_count_patients_and_not_their_units() -> None:
    """Ten copies of each patient's units say no more than one copy."""
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 2, (60, 2))
    weights = resamples(60)
    once = estimates(Ratings(codes, 2, np.arange(60)), weights)
    tenfold = estimates(Ratings(np.repeat(codes, 10, axis=0), 2, np.repeat(np.arange(60), 10)), weights)
    assert tenfold["percent"] == once["percent"]
    apart = estimates(Ratings(np.repeat(codes, 10, axis=0), 2, np.arange(600)), resamples(600))
    assert width(apart["percent"]) < width(once["percent"]) / 2


def test_full_agreement_has_the_interval_of_as_many_patients() -> None:
    ratings = Ratings(np.ones((40, 2), int), 2, np.arange(40) // 10)
    assert estimates(ratings, resamples(4))["percent"] == Estimate(1.0, *map(float, wilson(1.0, 4)))


def width(estimate: Estimate) -> float:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.high - estimate.low


@pytest.mark.long
def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    """Two raters, each right in 80 %: they agree in 68 %. A hundred studies of 150 patients."""
    rng = np.random.default_rng(11)
    held = 0
    for _ in range(100):
        truth = rng.integers(0, 2, (150, 1))
        codes = np.where(rng.random((150, 2)) < 0.8, truth, 1 - truth)
        found = estimates(Ratings(codes, 2, np.arange(150)), resamples(150))["percent"]
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 0.68 <= found.high
    assert 88 <= held <= 100


@pytest.mark.parametrize("accuracy", [0.6, 0.75, 0.9])
def test_six_reviewers_of_known_accuracy_agree_as_often_as_they_must(accuracy: float) -> None:
    """1,000 items with three categories; a wrong reviewer takes either other one: p² + (1 - p)² / 2 agree."""
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 3, (1000, 1))
    slips = (truth + rng.integers(1, 3, (1000, 6))) % 3
    codes = np.where(rng.random((1000, 6)) < accuracy, truth, slips)
    ratings = Ratings(codes, 3, np.arange(1000) // 2)
    weights = resamples(500)
    expected = accuracy**2 + (1 - accuracy) ** 2 / 2
    kappa = (expected - 1 / 3) / (2 / 3)
    found = estimates(ratings, weights)
    assert found["percent"].value == pytest.approx(expected, abs=0.025)
    for name in ("fleiss", "alpha", "ac1"):
        assert found[name].value == pytest.approx(kappa, abs=0.035)
    units, same, cohen, _ = pair_estimate(ratings, 0, 5, weights)
    assert units == 1000
    assert same.value == pytest.approx(expected, abs=0.05)
    assert cohen.value == pytest.approx(kappa, abs=0.08)


def test_resamples_draw_as_many_patients_as_there_are_and_the_same_ones_each_time() -> None:
    weights = resamples(7)
    assert (weights.sum(axis=1) == 7).all()
    assert (weights == resamples(7)).all()
