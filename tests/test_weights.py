"""Weights by which levels are drawn equally often."""

from __future__ import annotations

import numpy as np
import pytest

from chexqa.generators.weights import balanced

HALVES = np.array([0.5, 0.5])


def test_each_level_gets_its_share() -> None:
    levels = np.array([[0, 0], [0, 1], [0, 1], [1, 0], [1, 1]])
    weights = balanced(levels, [np.array([0.25, 0.75]), HALVES])
    assert weights.sum() == pytest.approx(1)
    assert weights[levels[:, 0] == 0].sum() == pytest.approx(0.25, abs=1e-6)
    assert weights[levels[:, 1] == 0].sum() == pytest.approx(0.5, abs=1e-6)


def test_a_level_that_is_not_there_leaves_its_share_to_the_others() -> None:
    assert balanced(np.array([[0], [0], [2]]), [np.ones(3) / 3]) == pytest.approx([0.25, 0.25, 0.5])


def test_members_of_a_row_count_by_their_number() -> None:
    # Two rows of two members: one with both levels, one with the first level alone.
    weights = balanced(np.array([[[0], [1]], [[0], [0]]]), [np.array([0.75, 0.25])])
    assert weights == pytest.approx([0.5, 0.5], abs=1e-3)


def test_nothing_to_draw_from_has_no_weights() -> None:
    assert balanced(np.zeros((0, 4, 2), int), [HALVES, HALVES]).shape == (0,)
    assert balanced(np.zeros((0, 2), int), [HALVES, HALVES]).shape == (0,)
