"""The rules of statistics that every table shares: clusters, Wilson's interval, Holm's correction, resampling."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from chexqa.stats import bootstrap_draws, cluster_id, holm, wilson


def test_a_cluster_is_the_patient_else_the_study_else_the_picture() -> None:
    assert cluster_id("7", "9", "ab") == cluster_id("7", None, "cd") == "patient 7"
    assert cluster_id(None, "9", "ab") == "study 9"
    assert cluster_id(None, None, "ab") == "picture ab"


def test_a_study_is_no_patient_of_the_same_number() -> None:
    assert len({cluster_id("7", None, "a"), cluster_id(None, "7", "a"), cluster_id(None, None, "7")}) == 3


@given(hits=st.integers(0, 50), size=st.integers(1, 50))
def test_wilson_is_as_scipy_has_it(hits: int, size: int) -> None:
    hits = min(hits, size)
    low, high = wilson(hits / size, size)
    bounds = scipy_stats.binomtest(hits, size).proportion_ci(0.95, "wilson")
    assert (float(low), float(high)) == pytest.approx((bounds.low, bounds.high), abs=1e-9)


def test_wilson_at_the_ends_as_in_its_table_and_of_no_answers() -> None:
    low, high = wilson(np.array([1.0, 0.0, np.nan]), np.array([10, 10, 0]))
    assert low == pytest.approx([0.7225, 0, np.nan], abs=1e-4, nan_ok=True)
    assert high == pytest.approx([1, 0.2775, np.nan], abs=1e-4, nan_ok=True)


def test_holm_on_a_worked_example() -> None:
    assert holm(np.array([0.01, 0.04, 0.03, 0.005])) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm(np.array([0.6, 0.7])) == pytest.approx([1, 1])
    assert holm(np.array([])).tolist() == []


def test_every_replicate_draws_as_many_clusters_as_there_are() -> None:
    draws = bootstrap_draws(7, "a purpose", replicates=50)
    assert draws.shape == (50, 7)
    assert (draws.sum(axis=1) == 7).all()
    assert (draws == bootstrap_draws(7, "a purpose", replicates=50)).all()
    assert (draws != bootstrap_draws(7, "another", replicates=50)).any()
