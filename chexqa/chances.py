"""Chance levels of questions on coloured points: how often a guesser who ignores the anatomy is right.

A true point marks an error of the shown outline. The outline must expand at a true point outside it, and contract at a
true point inside it. A case has one, two or three true points in total, and at least one false point. The guesser knows
how often a case has one, two and three true points. All points of a picture are equally likely to be true. The
probabilities are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np

# Weights of one, two and three true points in the recipes that come with chexqa.
TRUE_POINTS = (0.25, 0.5, 0.25)


class Chance(NamedTuple):
    """Probabilities that a guess on one item is right.

    - ``best``: the probability if the guess is the most probable answer.
    - ``uniform``: the probability if the guess is drawn evenly from the possible answers.
    - ``joint``: the probability that the case's two items on points are both guessed right, if the guess is the most
      probable pair of answers. One item asks about the points outside the outline, the other about those inside.
    - ``scored``: False if only one answer is possible, so that the item is not graded.
    """

    best: float
    uniform: float | None = None
    joint: float | None = None
    scored: bool = True


def numbers(points: int, weights: Sequence[float] = TRUE_POINTS) -> list[float]:
    """Return the probabilities that a picture with ``points`` points has 0, 1, 2, … true points.

    A true point marks an error. At least one point is true and, if there are two or more points, at least one is false.
    The list ends at the largest possible number of true points.

    - ``weights``: the relative frequencies of one, two and three true points.

    >>> numbers(4)
    [0.0, 0.25, 0.5, 0.25]
    >>> numbers(2)
    [0.0, 1.0]
    """
    possible = [0.0, *(weight for true, weight in enumerate(weights, start=1) if true < points)]
    total = sum(possible)
    return [weight / total for weight in possible] if total else [0.0, 1.0][: points + 1]


def of_points(own: int, other: int, weights: Sequence[float] = TRUE_POINTS) -> Chance:
    """Return the chance levels of a question that asks which points on one side of the outline mark an error.

    ``own`` is the number of points on this side, ``other`` the number of points on the other side. ``weights`` are as
    in :func:`numbers`.

    Example: one point lies on this side, and five on the other side. On average, two of the six points mark an error.
    The only point on this side therefore marks no error with probability 2/3.

    >>> chance = of_points(1, 5)
    >>> round(chance.best, 3), chance.uniform
    (0.667, 0.5)
    """
    of_set = _of_sets(own, other, weights)
    possible = sum(comb(own, size) for size, p in enumerate(of_set) if p > 0)
    joint = max(p / comb(own + other, count) for count, p in enumerate(numbers(own + other, weights)))
    return Chance(max(of_set), 1 / possible, joint, scored=possible > 1)


def best_number(own: int, other: int, weights: Sequence[float] = TRUE_POINTS) -> int:
    """Return how many points a guesser must choose to be right with the highest probability.

    The question asks which points on one side of the outline mark an error; there may be none. The arguments are as in
    :func:`of_points`.

    Example: one point lies on this side, and five on the other side. On average, two of the six points mark an error.
    Choosing the only point on this side is therefore right with probability 1/3, choosing no point with probability
    2/3.

    >>> best_number(1, 5)
    0
    """
    of_set = _of_sets(own, other, weights)
    return of_set.index(max(of_set))


def _of_sets(own: int, other: int, weights: Sequence[float]) -> list[float]:
    """Return, for n = 0, 1, … ``own``, the probability that a given set of n points is the set of true points.

    Only points on this side of the outline count. ``own`` and ``other`` are as in :func:`of_points`.
    """
    points, true = own + other, numbers(own + other, weights)
    return [
        sum(p * comb(other, count - size) / comb(points, count) for count, p in enumerate(true) if count >= size)
        for size in range(own + 1)
    ]


def draw_points(points: int, random: np.random.Generator, weights: Sequence[float] = TRUE_POINTS) -> set[int]:
    """Choose at random which of a case's points are true (mark an error), and return their indices, from 0.

    - ``points``: the number of the case's points.
    - ``weights``: the relative frequencies of one, two and three true points, as in :func:`numbers`.
    """
    true = numbers(points, weights)
    count = int(random.choice(len(true), p=true))
    return {int(place) for place in random.permutation(points)[:count]}
