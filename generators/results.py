"""The four pictures of a revision's result: which errors each has, so that nothing but the radiograph tells them apart.

An error is a true edit left undone or a spurious one, made nowhere else; pictures with errors are drawn from a pool of
both, with weights that give the right one each rank equally often in what can be measured of the four outlines.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from chexqa import drawing
from chexqa.generators.deformation import Edit, Surgeon, apply, part_count

Mask = npt.NDArray[np.bool_]
Errors = tuple[int, ...]
MOST = 3  # edits in one picture
_SPURIOUS, _TRIES = 4, 24  # edits beside the case's own that add, as many that take away; tries to find them
_EVEN = np.full(4, 0.25)
# With one true edit the right picture is never the farthest of the four from the suboptimal one: with two or three,
# which are two thirds of all, it is so the more often.
_NEVER_FARTHEST, _OFTEN_FARTHEST = np.array([1, 1, 1, 0]) / 3, np.array([5, 5, 5, 9]) / 24
_ROUNDS = 20


class Results(NamedTuple):
    """``edits``: the case's edits and, after them, those that appear in these pictures only.

    ``errors``: numbers of the edits in each picture, in display order.
    """

    edits: tuple[Edit, ...]
    errors: tuple[Errors, ...]


def draw_results(surgeon: Surgeon, edits: tuple[Edit, ...], true: Errors) -> Results | None:
    """Four pictures, shuffled: a two by two of two sets of errors, each there or not.

    In such a square no picture is nearer to the others than any other, so being in the middle tells nothing. The
    suboptimal mask itself, which has been shown, is not among them, nor one like it. None where no square keeps the
    parts of the lesion.
    """
    rng = surgeon.rng
    pool = _Pool(surgeon, (*edits, *_spurious(surgeon)), true)
    squares = pool.squares()
    if not len(squares):
        return None
    smaller = (pool.measures()[squares] < 0).sum(axis=1)
    weights = _balanced(smaller, [_EVEN, _EVEN, _EVEN, _NEVER_FARTHEST if len(true) == 1 else _OFTEN_FARTHEST])
    parts = part_count(surgeon.mask)
    while weights.any():
        index = int(rng.choice(len(squares), p=weights / weights.sum()))
        chosen = [(), *(pool.sets[number] for number in squares[index])]
        if all(part_count(pool.mask(errors)) == parts for errors in chosen):
            shuffled = [chosen[number] for number in rng.permutation(4)]
            return _without_unused(pool.edits, len(edits), shuffled)
        weights[index] = 0
    return None


def _balanced(ranks: npt.NDArray[np.intp], shares: Sequence[npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
    """Weights for rows of ``ranks`` ``(N, K)`` by which each rank of a column has its share, as far as there are any.

    Iterative proportional fitting: of all such weights the ones that differ least from equal ones (Deming and
    Stephan 1940; Csiszár 1975).
    """
    weights = np.full(len(ranks), 1 / len(ranks))
    for _ in range(_ROUNDS):
        for column, share in zip(ranks.T, shares, strict=True):
            found = np.bincount(column, weights, minlength=4)
            # Where every rank that is there is one that should not be, the column says nothing.
            factors = np.divide(share, found, out=np.zeros(4), where=found > 0)
            if (factors[column] * weights).any():
                weights = weights * factors[column]
                weights /= weights.sum()
    return weights


def _spurious(surgeon: Surgeon) -> list[Edit]:
    """Edits anywhere along the outline, large and small, as many that add as take away, as far as there is room.

    They may meet each other and the true ones.
    """
    surgeon.keep_clear_of([])
    found: list[Edit] = []
    for over in (False, True):
        own: list[Edit] = []
        for attempt in range(_TRIES):
            edit = surgeon.edit(attempt % 2 == 1, over)
            if edit is not None:
                own.append(edit)
            if len(own) == _SPURIOUS:
                break
        found += own
    return found


def _without_unused(edits: tuple[Edit, ...], kept: int, errors: list[Errors]) -> Results:
    """Only the first ``kept`` edits and those that appear in a picture, numbered anew."""
    used = [*range(kept), *sorted({number for chosen in errors for number in chosen if number >= kept})]
    renumbered = {old: new for new, old in enumerate(used)}
    return Results(
        tuple(edits[number] for number in used),
        tuple(tuple(renumbered[number] for number in chosen) for chosen in errors),
    )


class _Pool:
    """All edits a picture may have. ``sets``: those that may be in one picture, as they keep clear of each other."""

    def __init__(self, surgeon: Surgeon, edits: tuple[Edit, ...], true: Errors) -> None:
        self.surgeon, self.edits, self.true = surgeon, edits, true
        areas = [edit.paint(surgeon.mask.shape) for edit in edits]
        self.meets = np.zeros((len(edits), len(edits)), bool)
        self.shared = np.diag([float(np.count_nonzero(area)) for area in areas])
        for first, edit in enumerate(edits):
            slices, near = edit.within(surgeon.limits.min_gap, surgeon.mask.shape)
            for second in range(first):
                self.meets[first, second] = self.meets[second, first] = (near & areas[second][slices]).any()
                overlap = np.count_nonzero(areas[first] & areas[second])
                self.shared[first, second] = self.shared[second, first] = overlap
        least = surgeon.limits.min_share * surgeon.area
        self.sets = [
            chosen
            for size in range(1, MOST + 1)
            for chosen in itertools.combinations(range(len(edits)), size)
            if self._go_together(chosen)
            and self._difference(chosen) >= least
            and self._overlap(chosen) >= surgeon.limits.iou[0]
        ]

    def mask(self, errors: Errors) -> Mask:
        """The optimal mask with these edits made."""
        return apply(self.surgeon.mask, [self.edits[number] for number in errors])

    def squares(self) -> npt.NDArray[np.intp]:
        """All two by twos of two sets, ``(N, 3)``: numbers of the sets in the three pictures that have an error."""
        number_of = {frozenset(errors): number for number, errors in enumerate(self.sets)}
        found = set()
        for first, second in itertools.combinations(number_of, 2):
            third = number_of.get(first ^ second)
            if third is not None and self._go_together(tuple(first | second)):
                found.add(tuple(sorted((number_of[first], number_of[second], third))))
        return np.array(sorted(found), np.intp).reshape(-1, 3)

    def measures(self) -> npt.NDArray[np.float64]:
        """What can be measured of every set's picture less that of the right one, ``(sets, 4)``.

        Area, length and compactness (length squared over area), in logarithms, and the difference from the suboptimal
        mask. Edits of one picture do not meet, so that what they change adds up.
        """
        area, length = float(self.surgeon.area), _length(self.surgeon.mask)
        areas = np.array([edit.share * area * (1 if edit.over else -1) for edit in self.edits])
        lengths = np.array([_length(self.mask((number,))) - length for number in range(len(self.edits))])
        larger = np.array([np.log1p(areas[[*errors]].sum() / area) for errors in self.sets])
        longer = np.array([np.log1p(lengths[[*errors]].sum() / length) for errors in self.sets])
        farther = np.array([self._difference(errors) - self._difference(()) for errors in self.sets])
        return np.stack([larger, longer, 2 * longer - larger, farther], axis=1)

    def _go_together(self, errors: Sequence[int]) -> bool:
        return not any(self.meets[first, second] for first, second in itertools.combinations(errors, 2))

    def _overlap(self, errors: Errors) -> float:
        """IoU with the optimal mask."""
        added, removed = (
            sum(self.edits[n].share for n in errors if self.edits[n].over == over) for over in (True, False)
        )
        return (1 - removed) / (1 + added)

    def _difference(self, errors: Errors) -> float:
        """Area in which a picture with these edits differs from the suboptimal mask."""
        own, shown = [*errors], [*self.true]
        shared = self.shared[np.ix_(own, shown)].sum()
        return float(self.shared[own, own].sum() + self.shared[shown, shown].sum() - 2 * shared)


def _length(mask: Mask) -> float:
    """Length in pixels of the outline as it is drawn."""
    return sum(cv2.arcLength(line.astype(np.float32), True) for line in drawing.smooth_outlines(mask))
