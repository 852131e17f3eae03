"""Weights by which levels are drawn equally often."""

from __future__ import annotations

import numpy as np
import pytest

from chexqa.generators.contour.raking import rake

HALVES = np.array([0.5, 0.5])


def test_each_level_gets_its_share() -> None:
    levels = np.array([[0, 0], [0, 1], [0, 1], [1, 0], [1, 1]])
    weights = rake(levels, [np.array([0.25, 0.75]), HALVES])
    assert weights.sum() == pytest.approx(1)
    assert weights[levels[:, 0] == 0].sum() == pytest.approx(0.25, abs=1e-6)
    assert weights[levels[:, 1] == 0].sum() == pytest.approx(0.5, abs=1e-6)


def test_a_level_that_is_not_there_leaves_its_share_to_the_others() -> None:
    assert rake(np.array([[0], [0], [2]]), [np.ones(3) / 3]) == pytest.approx([0.25, 0.25, 0.5])


def test_members_of_a_row_count_by_their_number() -> None:
    # Two rows of two members: one with both levels, one with the first level alone.
    weights = rake(np.array([[[0], [1]], [[0], [0]]]), [np.array([0.75, 0.25])])
    assert weights == pytest.approx([0.5, 0.5], abs=1e-3)


def test_what_leans_one_way_is_drawn_less_until_the_whole_leans_neither_way() -> None:
    leaning = np.array([[3.0], [1.0], [1.0], [-1.0]])
    weights = rake(np.zeros((4, 1), int), [np.ones(1)], leaning)
    assert weights.sum() == pytest.approx(1)
    assert weights @ leaning == pytest.approx([0.0], abs=1e-6)
    assert weights[0] < weights[1] == weights[2] < weights[3]


def test_shares_and_leaning_are_met_together() -> None:
    levels = np.array([[0], [0], [1], [1]])
    leaning = np.array([[2.0], [-1.0], [1.0], [-2.0]])
    weights = rake(levels, [np.array([0.7, 0.3])], leaning)
    assert weights[:2].sum() == pytest.approx(0.7, abs=0.01)
    assert weights @ leaning == pytest.approx([0.0], abs=0.02)


def test_where_everything_leans_one_way_the_least_leaning_is_drawn_most() -> None:
    weights = rake(np.zeros((3, 1), int), [np.ones(1)], np.array([[1.0], [2.0], [4.0]]))
    assert np.isfinite(weights).all()
    assert weights[0] > weights[1] > weights[2]


def test_nothing_to_draw_from_has_no_weights() -> None:
    assert rake(np.zeros((0, 4, 2), int), [HALVES, HALVES]).shape == (0,)
    assert rake(np.zeros((0, 2), int), [HALVES, HALVES]).shape == (0,)
    assert rake(np.zeros((0, 2), int), [HALVES, HALVES], np.zeros((0, 3))).shape == (0,)
