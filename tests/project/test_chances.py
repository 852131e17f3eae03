"""What a guesser reaches who sees on which side of the outline each point lies, against counting every possibility."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from chexqa.chances import TRUE_POINTS, best_number, draw_points, of_points


def possible(own: int, other: int) -> Counter[tuple[frozenset[int], frozenset[int]]]:
    """Every pair of true points on the question's side and on the other one, with its probability."""
    points = own + other
    weights = {true: Fraction(weight) for true, weight in enumerate(TRUE_POINTS, start=1) if true < points}
    if not weights:
        weights = {1: Fraction(1)}
    found: Counter[tuple[frozenset[int], frozenset[int]]] = Counter()
    for true, weight in weights.items():
        sets = list(itertools.combinations(range(points), true))
        for chosen in sets:
            mine = frozenset(n for n in chosen if n < own)
            found[mine, frozenset(chosen) - mine] += weight / sum(weights.values()) / len(sets)  # type: ignore[assignment]
    return found


@pytest.mark.parametrize("own", range(7))
@pytest.mark.parametrize("other", range(7))
def test_chances_are_those_of_counting_every_possibility(own: int, other: int) -> None:
    if own + other < 2:
        return
    pairs = possible(own, other)
    answers: Counter[frozenset[int]] = Counter()
    for (mine, _), p in pairs.items():
        answers[mine] += p  # type: ignore[assignment]
    chance = of_points(own, other)
    assert chance.best == pytest.approx(float(max(answers.values())))
    assert chance.uniform == pytest.approx(1 / len(answers))
    assert chance.joint == pytest.approx(float(max(pairs.values())))
    assert chance.scored == (len(answers) > 1)
    best = {len(answer) for answer, p in answers.items() if p == max(answers.values())}
    assert best_number(own, other) in best


@pytest.mark.parametrize(
    ("own", "other", "best", "uniform"),
    [(1, 5, 0.67, 0.5), (2, 4, 0.42, 0.25), (3, 3, 0.24, 0.125), (4, 4, 0.25, 0.067)],
)
def test_chances_of_common_numbers_of_points(own: int, other: int, best: float, uniform: float) -> None:
    chance = of_points(own, other)
    assert (round(chance.best, 2), round(chance.uniform or 0, 3)) == (best, uniform)


def test_a_question_without_a_point_on_its_side_has_one_possible_answer() -> None:
    assert of_points(0, 4)[::3] == (1.0, False)


def test_the_draw_of_true_points_follows_the_recipe_s_weights() -> None:
    random = np.random.default_rng(0)
    sizes = Counter(len(draw_points(6, random)) for _ in range(4000))
    assert [sizes[n] / 4000 for n in (1, 2, 3)] == pytest.approx(TRUE_POINTS, abs=0.03)
    assert {len(draw_points(2, random)) for _ in range(50)} == {1}, "one true point and one other"
