"""The confidence sequence: errors, speed, ends, and a second way to its intervals."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from chexqa.eval.design import confidence_sequence

Floats = npt.NDArray[np.floating]
RUNS = 2000


def gaps(random: np.random.Generator, better: float, worse: float, shape: tuple[int, int]) -> Floats:
    """Differences of 1, -1 and 0."""
    at = random.random(shape)
    return np.where(at < better, 1.0, np.where(at < better + worse, -1.0, 0.0))


def test_equal_models_are_told_apart_in_at_most_one_of_twenty_runs_with_a_look_after_every_patient() -> None:
    random = np.random.default_rng(0)
    alike = gaps(random, 0.15, 0.15, (RUNS, 300))
    assert np.mean(confidence_sequence.decided_at(alike, 1.0, 0.05) > 0) <= 0.055
    half = np.repeat([1.0, -1.0, 0.0], [30, 30, 140])
    whole = random.permuted(np.tile(half, (RUNS, 1)), axis=1)
    assert np.mean(confidence_sequence.decided_at(whole, 1.0, 0.05, 200) > 0) <= 0.055


def test_ten_points_at_thirty_percent_discordance_take_a_fifth_of_2100_patients_at_most() -> None:
    at = confidence_sequence.decided_at(gaps(np.random.default_rng(1), 0.2, 0.1, (300, 900)), 1.0, 0.05)
    median = np.median(np.where(at > 0, at, 901))
    assert 200 < median <= 0.2 * 2100


@pytest.mark.parametrize("size", [None, 150])
def test_ends_of_the_interval_are_where_the_capital_reaches_one_over_alpha(size: int | None) -> None:
    values = 3 * gaps(np.random.default_rng(2), 0.3, 0.1, (1, 80))[0]
    low, high = confidence_sequence.interval(values, 3.0, 0.05, size)
    tried = np.linspace(-2.9, 2.9, 1161)
    kept = [mean for mean in tried if confidence_sequence.log_capital(values, 3.0, mean, size)[-1] < np.log(20)]
    assert kept[0] == pytest.approx(low, abs=0.006)
    assert kept[-1] == pytest.approx(high, abs=0.006)
    assert len(kept) == pytest.approx((high - low) / 0.005, abs=2)  # without a gap


def test_intervals_hold_the_truth_whenever_one_looks() -> None:
    values = gaps(np.random.default_rng(3), 0.35, 0.15, (RUNS, 300))
    capital = confidence_sequence.log_capital(values, 1.0, 0.2)
    assert np.mean((capital >= np.log(20)).any(axis=1)) <= 0.055


def test_a_study_asked_to_its_end_knows_its_own_difference() -> None:
    values = np.array([1.0, 0.0, -1.0, 1.0])
    assert confidence_sequence.interval(values, 1.0, 0.05, 4) == (0.25, 0.25)
    assert confidence_sequence.interval(values[:0], 1.0, 0.05) == (-1.0, 1.0)
    # With three of four patients seen, the fourth can move the mean by a quarter either way.
    low, high = confidence_sequence.interval(values[:3], 1.0, 0.05, 4)
    assert low >= -0.25 - 1e-9
    assert high <= 0.25 + 1e-9
