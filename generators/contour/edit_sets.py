"""All edits that a case's pictures may have, and which are chosen, so that nothing but the radiograph tells them apart.

Which edits make the suboptimal mask, and which errors each of the four pictures of a revision's result has, is drawn
with weights that give every direction (larger or smaller, longer or shorter, more or less compact) and every rank its
share, as far as there are any.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from chexqa.generators.contour.edit_sampler import ADDING, TAKING, Surgeon
from chexqa.generators.contour.edits import Edit, Mask, Window, apply, embedded, grown, part_count
from chexqa.generators.contour.raking import balanced
from chexqa.imaging import overlays

Errors = tuple[int, ...]  # numbers of edits, ascending
MOST = 3  # edits in one picture
_PER_SORT = 4  # edits that add or take away and make the outline more or less compact
_ENOUGH = 12  # of either sort together: then the other one is scarce
_AROUND = 16  # pixels of the outline beside an edit, more than smoothing reaches
EVEN = np.full(4, 0.25)
# How often the right picture is to be the smallest of the four, the second, the third, the largest. Many a lesion has
# no room to grow, and the smallest is hardly ever right there: so it is right oftener where there is room.
_AREA = np.array([0.34, 0.24, 0.23, 0.19])
_FEW, _ORBITS = 60, 400  # looked at at the least, as far as there are any, and at the most
# Where there are none: looked at of what could be the true edits, and of the squares with each.
_TRUE_SETS, _SQUARES = 12, 400
_LEAST_RATIO = 0.05
# Much of a change in area, length and compactness, in logarithms: true edits change little and much alike.
_MUCH = np.array([0.10, 0.04, 0.06])
Weights = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.intp]


class Drawn(NamedTuple):
    """An edit, and what it adds to the length of the lesion's outline, as a share of that length."""

    edit: Edit
    longer: float


class Choice(NamedTuple):
    """The edits that appear in pictures, the numbers of those in the suboptimal mask, and each picture's errors."""

    edits: tuple[Edit, ...]
    true: Errors
    results: tuple[Errors, ...]


def draw_edits(surgeon: Surgeon, modest: bool) -> list[Drawn]:
    """Edits anywhere along the outline, large and small (``modest``: small), as far as there is room.

    As many that add as take away, and of each as many that make the outline more compact as less: a lesion's own
    outline is ragged or smooth, and edits of one sort only would tell which of several is its own. They may meet.
    """
    whole = _length(surgeon.mask)
    found: list[Drawn] = []
    for kinds in (ADDING, TAKING):
        sorts: dict[bool, list[Drawn]] = {True: [], False: []}
        for attempt in range(2 * surgeon.limits.tries):
            counts = [len(edits) for edits in sorts.values()]
            if min(counts) >= _PER_SORT or sum(counts) >= _ENOUGH:
                break
            # On a ragged lesion hardly anything makes the outline less compact but what is slim.
            slim = attempt % 4 == 1 and len(sorts[True]) < min(_PER_SORT, len(sorts[False]))
            edit = surgeon.edit(kinds[0 if slim else attempt % 2], modest or attempt % 4 >= 2, slim)
            if edit is not None:
                larger = edit.share if edit.over else -edit.share
                longer = _lengthening(surgeon.mask, edit) / whole
                sorts[2 * longer > larger].append(Drawn(edit, longer))
        own, other = sorted(sorts.values(), key=len)
        # Where one sort is scarce there are more of the other.
        found += own[:_PER_SORT] + other[: 2 * _PER_SORT - min(len(own), _PER_SORT)]
    return found


class Pool:
    """``edits`` and ``sets``: those of up to three that may be in one picture, as they keep clear of each other."""

    def __init__(self, surgeon: Surgeon, drawn: Sequence[Drawn]) -> None:
        edits = [one.edit for one in drawn]
        self.surgeon, self.edits = surgeon, tuple(edits)
        self.meets = np.zeros((len(edits), len(edits)), bool)
        self.shared = np.diag([float(np.count_nonzero(edit.area)) for edit in edits])
        for first, edit in enumerate(edits):
            around, near = edit.within(surgeon.limits.min_gap, surgeon.mask.shape)
            for second in range(first):
                met, shared = overlap(around, near, edit, edits[second])
                self.meets[first, second] = self.meets[second, first] = met
                self.shared[first, second] = self.shared[second, first] = shared
        self.added = np.array([edit.share if edit.over else 0.0 for edit in edits])
        self.removed = np.array([0.0 if edit.over else edit.share for edit in edits])
        sets = [chosen for size in range(1, MOST + 1) for chosen in itertools.combinations(range(len(edits)), size)]
        holds = np.array([[number in chosen for number in range(len(edits))] for chosen in sets], float)
        overlaps = (1 - holds @ self.removed) / (1 + holds @ self.added)
        able = ~_any_pair(holds, self.meets) & (overlaps >= surgeon.limits.iou[0])
        self.sets = [chosen for chosen, fits in zip(sets, able, strict=True) if fits]
        self.holds, self.overlaps = holds[able], overlaps[able]
        # A set as a number with a bit for each edit, and the set of each such number, -1 where it is none.
        self.codes = (self.holds @ (1 << np.arange(len(edits)))).astype(np.int64)
        self.number_of = np.full(1 << len(edits), -1)
        self.number_of[self.codes] = np.arange(len(self.codes))
        self.area_of = self.holds @ np.diag(self.shared)
        self.changes = self._changes(np.array([one.longer for one in drawn]))
        self.parts = part_count(surgeon.mask)

    def mask(self, errors: Errors) -> Mask:
        """The optimal mask with these edits made."""
        return apply(self.surgeon.mask, [self.edits[number] for number in errors])

    def draw(self, spacing: float, weights: Sequence[float], strict: bool) -> Choice | str:
        """Which edits are in the suboptimal mask, and the errors of the four pictures, or why there are none.

        ``spacing``: between points of the true edits in pixels; ``weights``: of one, two and three of them, as far as
        there is room; ``strict``: only where what the suboptimal outline differs in from any picture could be true.

        The pictures are shuffled, and a two by two of two sets of errors, each there or not: in such a square none is
        nearer to the others than any other, so being in the middle tells nothing. The suboptimal mask itself, which has
        been shown, is not among them, nor one like it.
        """
        able = self.able(spacing)
        if not len(able):
            return "no choice of edits keeps the overlap with the optimal mask"
        shares = [_padded(weights), *[EVEN] * 3, _AREA, *[EVEN] * 3]
        trues, squares = self._orbits(able, 4 if strict else 2)
        if not len(trues):
            if strict:
                return "no choice of edits could be right by any of four outlines"
            trues, squares = self._pairs(able, shares[:4])
        rng = self.surgeon.rng
        likely = balanced(
            np.concatenate([self.of_true(trues), self._ranks(trues, squares)], axis=-1), shares, self._leaning(squares)
        )
        while likely.any():
            index = int(rng.choice(len(likely), p=likely / likely.sum()))
            true, *found = (self.sets[number] for number in (rng.choice(trues[index]), *squares[index]))
            if self._keeps_parts((true, *found)):
                four = ((), *found)
                return Choice(self.edits, true, tuple(four[number] for number in rng.permutation(4)))
            likely[index] = 0
        return "no four outlines are different enough and keep the parts of the lesion"

    def visible(self) -> Numbers:
        """Numbers of the sets that change enough of the mask to be its errors."""
        return np.flatnonzero(self.overlaps <= self.surgeon.limits.iou[1])

    def single(self, numbers: Numbers) -> Numbers:
        """Those of them that are sets of one edit."""
        return np.array([number for number in numbers if len(self.sets[number]) == 1], np.intp)

    def able(self, spacing: float) -> Numbers:
        """Numbers of the sets that can be the true edits."""
        xy = np.array([edit.point_xy for edit in self.edits], float)
        close = np.hypot(*(xy[:, None] - xy[None, :]).transpose(2, 0, 1)) < spacing
        np.fill_diagonal(close, False)
        able = (self.overlaps <= self.surgeon.limits.iou[1]) & ~_any_pair(self.holds, close)
        # A point that marks nothing must find a place as near to the outline as those that mark an edit, and far from
        # them: on a small lesion there may be one beside some edits only.
        places = self.surgeon.places[:, ::-1]
        near = np.hypot(*(xy[:, None] - places[None, :]).transpose(2, 0, 1)) < spacing
        roomy = able & (self.holds @ near == 0).any(axis=1)
        return np.flatnonzero(roomy if roomy.any() else able)

    def _orbits(self, able: Numbers, least: int) -> tuple[Numbers, Numbers]:
        """Squares ``(N, 3)``, and with each the sets ``(N, 12)`` that could be the true edits, repeated.

        What the suboptimal mask differs in from each of a square's four pictures are four sets. Where any of them is
        true as often as the others, how much the suboptimal outline differs from each picture tells nothing. Where the
        points of one would lie too close to each other, it is only as if it could be true: such fours come last, and at
        least ``least`` of the four must truly be able to.
        """
        squares = self._squares()
        number_of = np.where(
            np.append(self.overlaps, 1)[self.number_of] <= self.surgeon.limits.iou[1], self.number_of, -1
        )
        fours = number_of[self.codes[able][:, None, None] ^ np.pad(self.codes[squares], ((0, 0), (1, 0)))]
        is_able = np.zeros(len(self.sets) + 1, bool)  # the last one, where -1 points: none
        is_able[able] = True
        can_be_true = is_able[fours]
        # Each four is found from each of its members: once is enough.
        first = (fours >= 0).all(axis=-1) & (np.where(can_be_true, fours, len(self.sets)).argmin(axis=-1) == 0)
        found = self.surgeon.rng.permutation(np.argwhere(first & (can_be_true.sum(axis=-1) >= least)))
        counts = can_be_true[found[:, 0], found[:, 1]].sum(axis=-1)
        full = int(np.count_nonzero(counts == 4))
        kept = found[np.argsort(-counts, kind="stable")][: np.clip(full, _FEW, _ORBITS)]
        place = kept[:, 0], kept[:, 1]
        ascending = np.sort(np.where(can_be_true[place], fours[place], len(self.sets)), axis=1)
        repeated = np.arange(12) % can_be_true[place].sum(axis=1)[:, None]
        return np.take_along_axis(ascending, repeated, axis=1), squares[kept[:, 1]]

    def _pairs(self, able: Numbers, shares: Sequence[Weights]) -> tuple[Numbers, Numbers]:
        """Some of the sets that can be the true edits, ``(N, 1)``, and with each a square that it can have, ``(N, 3)``.

        A square's pictures must differ from the suboptimal one as much as one edit does.
        """
        rng = self.surgeon.rng
        weights = balanced(self.of_true(able[:, None]), shares)
        count = min(_TRUE_SETS, int(np.count_nonzero(weights)))
        squares = self._squares()
        squares = squares[rng.permutation(len(squares))]
        trues, own = [], []
        for number in rng.choice(able, count, replace=False, p=weights):
            different = self._differences(number) >= self.surgeon.limits.min_share * self.surgeon.area
            found = squares[different[squares].all(axis=1)][:_SQUARES]
            trues.append(np.full((len(found), 1), number))
            own.append(found)
        return np.concatenate(trues), np.concatenate(own)

    def of_true(self, trues: Numbers) -> Numbers:
        """Of sets ``(N, M)``, in 4 columns: the edits less one, and which way and whether they change much."""
        sizes = np.array([len(errors) - 1 for errors in self.sets])[trues]
        changes = self.changes[trues]
        levels = (changes > -_MUCH).astype(int) + (changes > 0) + (changes > _MUCH)
        return np.concatenate([sizes[..., None], levels], axis=-1)

    def _ranks(self, trues: Numbers, squares: Numbers) -> Numbers:
        """The right picture's rank among the four, in 4 columns: in what changes, and nearness to the suboptimal."""
        nearer = np.zeros(trues.shape, np.intp)
        for true in np.unique(trues):
            rows, columns = np.nonzero(trues == true)
            nearer[rows, columns] = (self._differences(true) < self.area_of[true])[squares[rows]].sum(axis=1)
        changed = np.broadcast_to(
            (self.changes < 0)[squares].sum(axis=1)[:, None], (*trues.shape, self.changes.shape[1])
        )
        return np.concatenate([changed, nearer[..., None]], axis=-1)

    def _leaning(self, squares: Numbers) -> Weights:
        """Which way the wrong pictures change area, length and compactness, large changes counting most: ``(N, 3)``.

        On the whole they are to lean neither way. There is always something large to take away and seldom room to add
        as much; then the right picture would be the one from which the largest steps lead downwards.
        """
        changes = self.changes[squares]
        return np.asarray((changes * np.abs(changes)).sum(axis=1))

    def _differences(self, true: int) -> Weights:
        """Of every set: the area in which its picture differs from the suboptimal one, whose set's number is given."""
        shared = self.holds @ self.shared @ self.holds[true]
        return np.asarray(self.area_of + self.area_of[true] - 2 * shared)

    def _keeps_parts(self, pictures: Sequence[Errors]) -> bool:
        """Whether the masks have the parts of the lesion; a single edit was tested when it was made."""
        return all(len(errors) < 2 or part_count(self.mask(errors)) == self.parts for errors in pictures)

    def _squares(self) -> Numbers:
        """All two by twos of two sets without an edit in common, ``(N, 3)``: numbers of the one, the other and both.

        What is measured of the four pictures is then 0, a, b and a + b from the right one's: a pattern in which each
        place can be the right one's. Sets that share an edit would leave the right picture apart from three alike.
        """
        codes = self.codes
        both = np.where(codes[:, None] & codes[None, :], -1, self.number_of[codes[:, None] | codes[None, :]])
        rows, columns = np.nonzero(np.triu(both + 1))
        return np.stack([rows, columns, both[rows, columns]], axis=1)

    def _changes(self, longer: Weights) -> Weights:
        """What every set changes of the outline, ``(sets, 3)``: area, length and compactness, in logarithms.

        ``longer``: what each edit adds to its length. Edits of one picture do not meet, so that what they change adds
        up. Compactness is length squared over area. How rough an outline is, the hand that draws it hides.
        """
        lengths = np.log(np.maximum(1 + self.holds @ longer, _LEAST_RATIO))
        areas = np.log1p(self.holds @ (self.added - self.removed))
        return np.stack([areas, lengths, 2 * lengths - areas], axis=1)


def _length(mask: Mask) -> float:
    """Of the outlines as they are drawn, in pixels."""
    return sum(cv2.arcLength(line.astype(np.float32), True) for line in overlays.smooth_outlines(mask))


def _lengthening(mask: Mask, edit: Edit) -> float:
    """What an edit adds to the length of a mask's outlines; all that it changes lies about it."""
    around = grown(edit.slices, _AROUND, mask.shape)
    before, area = mask[around], embedded(edit.area, edit.slices, around)
    return _length(before | area if edit.over else before & ~area) - _length(before)


def _any_pair(holds: Weights, pairs: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Of each set ``(N, edits)``, whether two of its edits are such a pair; no edit is one with itself."""
    return np.asarray(((holds @ pairs) * holds).any(axis=1))


def overlap(around: Window, near: Mask, edit: Edit, other: Edit) -> tuple[bool, int]:
    """Whether another edit comes near (``near`` in a crop ``around``) to an edit, and how many pixels both change."""
    rows, columns = (
        slice(max(a.start, b.start), min(a.stop, b.stop)) for a, b in zip(around, other.slices, strict=True)
    )
    if rows.start >= rows.stop or columns.start >= columns.stop:
        return False, 0

    def part(array: Mask, own: Window) -> Mask:
        return array[
            rows.start - own[0].start : rows.stop - own[0].start,
            columns.start - own[1].start : columns.stop - own[1].start,
        ]

    theirs = part(other.area, other.slices)
    if not bool((part(near, around) & theirs).any()):
        return False, 0
    mine = part(embedded(edit.area, edit.slices, around), around)
    return True, int(np.count_nonzero(mine & theirs))


def _padded(weights: Sequence[float]) -> Weights:
    """Weights of one, two and three edits that sum to one; what is not given is nought."""
    padded = np.array([*weights, *[0.0] * (MOST - len(weights))], float)
    return np.asarray(padded / padded.sum())
