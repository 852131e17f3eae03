"""Regions offered by a location question: involved regions, and wrong regions that do not stand out by their names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from chexqa.generators.contour.raking import rake
from chexqa.imaging.anatomy import ANGLE, PARTS, ZONES, height_of, part_of, zone_of

Numbers = npt.NDArray[np.float64]
_HANDS = 24  # number of sets of regions to choose from
_SORTS = [(height_of, height) for height in ZONES] + [(part_of, part) for part in (*PARTS, ANGLE)]
# Target for each height and part: its share of a question's right names minus its share of the wrong names. Many
# lesions of both lungs involve the middle of each lung, so no wrong name is left there; in other questions the middle
# is wrong more often.
_AIMS = np.array([0.1, -0.2, 0.1, 0, 0, 0, 0])


def draw(
    involved: Sequence[str], others: Sequence[Sequence[str]], options: int, rng: np.random.Generator
) -> tuple[str, ...]:
    """Return ``options`` region names in random order; every possible number of right names is equally likely.

    - ``involved``: the right names.
    - ``others``: groups of wrong names; a group is used when the earlier groups are used up.
    """
    wanted = max(_wanted(involved, options, rng), options - sum(map(len, others)))
    chosen = [str(name) for name in rng.permutation(list(involved))[:wanted]]
    # A disease is more frequent in some regions, so wrong names are drawn from the parts and heights of the right ones.
    chosen += [name for group in others for name in _like(involved, group, rng)][: options - wanted]
    return tuple(chosen[index] for index in rng.permutation(options))


def draw_apart(
    involved: Sequence[str], clear: Sequence[str], options: int, rng: np.random.Generator
) -> tuple[str, ...] | None:
    """Return names as :func:`draw` does, but never two of nearly the same place; None if too few are left.

    - ``involved``: the right names.
    - ``clear``: the wrong names.
    """
    wanted = _wanted(involved, options, rng)
    found = {tuple(sorted(_apart(involved, clear, wanted, options, rng))) for _ in range(_HANDS)}
    candidate_sets = sorted(candidate_set for candidate_set in found if len(candidate_set) == options)
    if not candidate_sets:
        return None
    # The choice is weighted, so that height and part of the lung do not show whether a name is right.
    tilt = np.array(
        [_tilt([name in involved for name in candidate_set], candidate_set) for candidate_set in candidate_sets]
    )
    weights = rake(np.zeros((len(candidate_sets), 1), np.intp), [np.ones(1)], tilt)
    chosen = candidate_sets[int(rng.choice(len(candidate_sets), p=weights))]
    return tuple(chosen[index] for index in rng.permutation(options))


def _wanted(involved: Sequence[str], options: int, rng: np.random.Generator) -> int:
    """Return a random number of right names to show."""
    return int(rng.integers(0, min(options, len(involved)) + 1))


def _apart(
    involved: Sequence[str], clear: Sequence[str], wanted: int, options: int, rng: np.random.Generator
) -> list[str]:
    """Return a set of region names, no two of them for nearly the same place; it may have fewer than ``options``."""
    chosen: list[str] = []
    right = [str(name) for name in rng.permutation(list(involved))]
    for limit, names in ((wanted, right), (options, _like(involved, clear, rng)), (options, right)):
        for name in names:
            if len(chosen) < limit and name not in chosen and _rim_place(name) not in map(_rim_place, chosen):
                chosen.append(name)
    return chosen


def _like(involved: Sequence[str], others: Iterable[str], rng: np.random.Generator) -> list[str]:
    """Return the wrong regions in an order that makes parts and heights as frequent as among the involved regions."""
    left = [str(name) for name in rng.permutation(list(others))]
    ordered: list[str] = []
    while left:
        wanted = involved[int(rng.integers(len(involved)))]
        # Take the same place in the other lung; if the lesion is there too, a region with the same part or height.
        shared = part_of if rng.random() < 0.5 else height_of
        near = [name for name in left if shared(name) == shared(wanted)]
        mirrored = [name for name in near if (part_of(name), height_of(name)) == (part_of(wanted), height_of(wanted))]
        ordered.append((mirrored or near or left)[0])
        left.remove(ordered[-1])
    return ordered


def _tilt(right: Sequence[bool], names: Sequence[str]) -> Numbers:
    """Return, for each height and lung part, its share of the right names minus its share of the wrong names.

    The target of this difference is subtracted. The result is 0 if all names are right or all are wrong.
    """
    if all(right) or not any(right):
        return np.zeros(len(_SORTS))
    own, of_sort = np.array(right), np.array([[sort_of(name) == sort for name in names] for sort_of, sort in _SORTS])
    return np.asarray(of_sort[:, own].mean(axis=1) - of_sort[:, ~own].mean(axis=1) - _AIMS)


def _rim_place(name: str) -> str:
    """Return the same name for a zone's lateral part, peripheral part and costophrenic angle.

    For other regions, return the region's own name.
    """
    return zone_of(name) if name.endswith(("lateral", "peripheral", ANGLE)) else name
