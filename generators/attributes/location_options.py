"""Which regions a question on location names: some that the lesion involves, and others that must not stand out.

A disease prefers some places. Were the wrong regions drawn from all alike, the name alone would be a hint, so they are
drawn with the parts and heights of a lung that the involved ones have.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from chexqa.generators.contour.raking import balanced
from chexqa.imaging.anatomy import ANGLE, PARTS, ZONES, height_of, part_of, zone_of

Numbers = npt.NDArray[np.float64]
_HANDS = 24  # choices of regions that are looked at
_SORTS = [(height_of, height) for height in ZONES] + [(part_of, part) for part in (*PARTS, ANGLE)]
# Aimed at of each height and part: its share of a question's right names less that of its wrong ones. Many lesions of
# both lungs involve the middle of each, where then no name can be wrong: elsewhere such names are wrong oftener.
_AIMS = np.array([0.1, -0.2, 0.1, 0, 0, 0, 0])


def draw(involved: Sequence[str], others: Sequence[str], options: int, rng: np.random.Generator) -> tuple[str, ...]:
    """Names as shown: none to all of them right, each number equally likely, the rest wrong ones, shuffled."""
    wanted = max(_wanted(involved, options, rng), options - len(others))
    chosen = [str(name) for name in rng.permutation(list(involved))[:wanted]]
    chosen += _like(involved, others, rng)[: options - wanted]
    return tuple(chosen[index] for index in rng.permutation(options))


def draw_apart(
    involved: Sequence[str], clear: Sequence[str], options: int, rng: np.random.Generator
) -> tuple[str, ...] | None:
    """As :func:`draw`, but never two names for nearly the same place; None where that is impossible.

    That leaves less to choose from: of several choices one is drawn by weights with which right and wrong names are
    from the heights and parts that are aimed at.
    """
    wanted = _wanted(involved, options, rng)
    found = {tuple(sorted(_apart(involved, clear, wanted, options, rng))) for _ in range(_HANDS)}
    hands = sorted(hand for hand in found if len(hand) == options)
    if not hands:
        return None
    leaning = np.array([_leaning([name in involved for name in hand], hand) for hand in hands])
    weights = balanced(np.zeros((len(hands), 1), np.intp), [np.ones(1)], leaning)
    chosen = hands[int(rng.choice(len(hands), p=weights))]
    return tuple(chosen[index] for index in rng.permutation(options))


def _wanted(involved: Sequence[str], options: int, rng: np.random.Generator) -> int:
    """How many right ones are to be shown."""
    return int(rng.integers(0, min(options, len(involved)) + 1))


def _apart(
    involved: Sequence[str], clear: Sequence[str], wanted: int, options: int, rng: np.random.Generator
) -> list[str]:
    """One choice of names of different places; fewer than ``options`` where there are no more."""
    chosen: list[str] = []
    right = [str(name) for name in rng.permutation(list(involved))]
    for limit, names in ((wanted, right), (options, _like(involved, clear, rng)), (options, right)):
        for name in names:
            if len(chosen) < limit and name not in chosen and _rim_place(name) not in map(_rim_place, chosen):
                chosen.append(name)
    return chosen


def _like(involved: Sequence[str], others: Iterable[str], rng: np.random.Generator) -> list[str]:
    """Other regions in an order in which parts and heights come as often as among the involved ones, if they can."""
    left = [str(name) for name in rng.permutation(list(others))]
    ordered: list[str] = []
    while left:
        wanted = involved[int(rng.integers(len(involved)))]
        # The same place of the other lung; where the lesion is there too, one that shares the part or the height.
        shared = part_of if rng.random() < 0.5 else height_of
        near = [name for name in left if shared(name) == shared(wanted)]
        mirrored = [name for name in near if (part_of(name), height_of(name)) == (part_of(wanted), height_of(wanted))]
        ordered.append((mirrored or near or left)[0])
        left.remove(ordered[-1])
    return ordered


def _leaning(right: Sequence[bool], names: Sequence[str]) -> Numbers:
    """By how much each height and part of a lung is among the right names oftener than aimed at; 0 without either."""
    if all(right) or not any(right):
        return np.zeros(len(_SORTS))
    own, of_sort = np.array(right), np.array([[sort_of(name) == sort for name in names] for sort_of, sort in _SORTS])
    return np.asarray(of_sort[:, own].mean(axis=1) - of_sort[:, ~own].mean(axis=1) - _AIMS)


def _rim_place(name: str) -> str:
    """The same for the lateral part, the peripheral part and the costophrenic angle of one zone; else the name."""
    return zone_of(name) if name.endswith(("lateral", "peripheral", ANGLE)) else name
