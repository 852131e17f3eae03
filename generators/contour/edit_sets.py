"""Choice of the edits in a case's pictures, so that the outlines alone do not show which picture is right.

Edits are drawn at random with weights. The weights balance area, length and compactness of the outlines.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from chexqa.generators.contour.edit_sampler import ADDING, TAKING, EditSampler
from chexqa.generators.contour.edits import Edit, Mask, Window, apply, embedded, grown, part_count
from chexqa.generators.contour.raking import rake
from chexqa.imaging.hand_drawn import smooth_outlines

Errors = tuple[int, ...]  # numbers of edits, ascending
MOST = 3  # edits in one picture
_PER_SORT = 4  # wanted edits of each sort; sorts of adding and of removing edits make the outline more or less compact
_ENOUGH = 12  # with this many edits of both sorts together, the search for the scarcer sort ends
_AROUND = 16  # pixels of outline on either side of an edit that are measured with the edit; smoothing reaches less far
EVEN = np.full(4, 0.25)
# Limits between three grades (about thirds) of two differences, in logarithms: between the two smallest of four areas,
# and between the smallest and the largest.
_LEVELS_OF_STEPS = (0.06, 0.08), (0.15, 0.225)
# For each grade, the intended shares of cases in which the right picture is the smallest of the four, the second, the
# third, the largest. Many lesions have no room to grow, least of all by large steps, and their smallest picture is
# hardly ever the right one. Lesions with room make up for this.
_AREA = np.array([[0.25, 0.25, 0.25, 0.25], [0.29, 0.24, 0.24, 0.23], [0.34, 0.24, 0.22, 0.20]])
_FEW, _ORBITS = 60, 400  # smallest and largest number of choices considered (fewer only if fewer exist)
# Without interchangeable choices: numbers of sets of true edits, and of two-by-twos for each set, that are considered.
_TRUE_SETS, _SQUARES = 12, 400
_LEAST_RATIO = 0.05
# Least logarithms of a large change in area, length and compactness. Half of the true edits make large changes.
_MUCH = np.array([0.10, 0.04, 0.06])
Weights = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.intp]


class Drawn(NamedTuple):
    """An edit, and the relative change of the outline's length that it causes."""

    edit: Edit
    longer: float


class Choice(NamedTuple):
    """A choice of the edits in a case's pictures.

    - ``edits``: all edits of the case's outlines.
    - ``true``: the indices of the suboptimal mask's edits.
    - ``results``: for each of the four outlines offered, the indices of its edits.
    """

    edits: tuple[Edit, ...]
    true: Errors
    results: tuple[Errors, ...]


def draw_edits(sampler: EditSampler, modest: bool) -> list[Drawn]:
    """Draw random edits along the outline, as many as fit; two edits may overlap.

    Edits are large and small, or with ``modest`` only small. Half add an area and half remove one.
    """
    whole = _length(sampler.mask)
    found: list[Drawn] = []
    for kinds in (ADDING, TAKING):
        # In each half, as many edits make the outline more compact as less compact. With edits of only one sort, the
        # unchanged outline would stand out as the smoothest or the most ragged of all.
        sorts: dict[bool, list[Drawn]] = {True: [], False: []}
        for attempt in range(2 * sampler.limits.tries):
            counts = [len(edits) for edits in sorts.values()]
            if min(counts) >= _PER_SORT or sum(counts) >= _ENOUGH:
                break
            # On a ragged lesion, slim edits are almost the only ones that make the outline less compact.
            slim = attempt % 4 == 1 and len(sorts[True]) < min(_PER_SORT, len(sorts[False]))
            edit = sampler.edit(kinds[0 if slim else attempt % 2], modest or attempt % 4 >= 2, slim)
            if edit is not None:
                larger = edit.share if edit.over else -edit.share
                longer = _lengthening(sampler.mask, edit) / whole
                sorts[2 * longer > larger].append(Drawn(edit, longer))
        own, other = sorted(sorts.values(), key=len)
        # If one sort is scarce, take more of the other.
        found += own[:_PER_SORT] + other[: 2 * _PER_SORT - min(len(own), _PER_SORT)]
    return found


class EditSets:
    """All ``edits`` of a case, and all ``sets`` of up to three edits without overlap."""

    def __init__(self, sampler: EditSampler, drawn: Sequence[Drawn]) -> None:
        edits = [one.edit for one in drawn]
        self.sampler, self.edits = sampler, tuple(edits)
        self.meets = np.zeros((len(edits), len(edits)), bool)
        self.shared = np.diag([float(np.count_nonzero(edit.area)) for edit in edits])
        for first, edit in enumerate(edits):
            around, near = edit.within(sampler.limits.min_gap, sampler.mask.shape)
            for second in range(first):
                met, shared = overlap(around, near, edit, edits[second])
                self.meets[first, second] = self.meets[second, first] = met
                self.shared[first, second] = self.shared[second, first] = shared
        self.added = np.array([edit.share if edit.over else 0.0 for edit in edits])
        self.removed = np.array([0.0 if edit.over else edit.share for edit in edits])
        sets = [chosen for size in range(1, MOST + 1) for chosen in itertools.combinations(range(len(edits)), size)]
        holds = np.array([[number in chosen for number in range(len(edits))] for chosen in sets], float)
        overlaps = (1 - holds @ self.removed) / (1 + holds @ self.added)
        able = ~_any_pair(holds, self.meets) & (overlaps >= sampler.limits.iou[0])
        self.sets = [chosen for chosen, fits in zip(sets, able, strict=True) if fits]
        self.holds, self.overlaps = holds[able], overlaps[able]
        # codes: each set as a number with one bit for each edit. number_of: the index of the set with a code, or -1.
        self.codes = (self.holds @ (1 << np.arange(len(edits)))).astype(np.int64)
        self.number_of = np.full(1 << len(edits), -1)
        self.number_of[self.codes] = np.arange(len(self.codes))
        self.area_of = self.holds @ np.diag(self.shared)
        self.changes = self._changes(np.array([one.longer for one in drawn]))
        self.parts = part_count(sampler.mask)

    def mask(self, errors: Errors) -> Mask:
        """Return the optimal mask after the edits with the indices ``errors``."""
        return apply(self.sampler.mask, [self.edits[number] for number in errors])

    def draw(self, spacing: float, weights: Sequence[float], strict: bool) -> Choice | str:
        """Draw random edits for the suboptimal mask and for the four pictures of ``revision_result``.

        Return the reason as text if no draw is possible.

        - ``spacing``: the least distance in pixels between two points of the suboptimal mask's edits.
        - ``weights``: the relative frequencies of one, two and three edits in the suboptimal mask.
        - ``strict``: if True, none of the four pictures can be ruled out by comparing it with the suboptimal mask; if
          False, such draws are preferred, but others are accepted.
        """
        able = self.able(spacing)
        if not len(able):
            return "every choice of edits changes the outline too much or too little"
        shares = [_padded(weights), *[EVEN] * 3]
        trues, squares = self._interchangeable_quads(able, 4 if strict else 2)
        if not len(trues):
            if strict:
                return "no choice of edits gives four outlines each of which could be the right one"
            trues, squares = self._pairs(able, shares)
        rng = self.sampler.rng
        areas = area_categories(self.changes[squares, 0])
        shares_of_areas = [wanted_shares(column, _AREA) for column in areas.T]
        levels = [
            self.of_true(trues),
            self._ranks(trues, squares),
            np.broadcast_to(areas[:, None], (*trues.shape, areas.shape[1])),
        ]
        likely = rake(np.concatenate(levels, axis=-1), [*shares, *[EVEN] * 3, *shares_of_areas], self._leaning(squares))
        while likely.any():
            index = int(rng.choice(len(likely), p=likely / likely.sum()))
            true, *found = (self.sets[number] for number in (rng.choice(trues[index]), *squares[index]))
            if self._keeps_parts((true, *found)):
                # The right picture has no edits; of the wrong ones, two have the edits A and B, the third has both.
                # From each picture, one other picture differs by A, one by B and one by both, so similarity does not
                # show the right one. None is similar to the suboptimal mask, which an earlier question has shown.
                four = ((), *found)
                return Choice(self.edits, true, tuple(four[number] for number in rng.permutation(4)))
            likely[index] = 0
        return "no four outlines differ enough while the lesion keeps its number of parts"

    def visible(self) -> Numbers:
        """Return the indices of the edit sets that change the mask enough to count as errors in the mask."""
        return np.flatnonzero(self.overlaps <= self.sampler.limits.iou[1])

    def single(self, numbers: Numbers) -> Numbers:
        """Return the indices from ``numbers`` that stand for sets with a single edit."""
        return np.array([number for number in numbers if len(self.sets[number]) == 1], np.intp)

    def able(self, spacing: float) -> Numbers:
        """Return the indices of the sets that could be the suboptimal mask's edits.

        They change the mask enough, and their points are at least ``spacing`` pixels apart.
        """
        xy = np.array([edit.point_xy for edit in self.edits], float)
        close = np.hypot(*(xy[:, None] - xy[None, :]).transpose(2, 0, 1)) < spacing
        np.fill_diagonal(close, False)
        able = (self.overlaps <= self.sampler.limits.iou[1]) & ~_any_pair(self.holds, close)
        # A point that marks no edit needs a place as near to the outline as the points of true edits, and far from
        # these points. On a small lesion only some edits leave such a place.
        places = self.sampler.places[:, ::-1]
        near = np.hypot(*(xy[:, None] - places[None, :]).transpose(2, 0, 1)) < spacing
        roomy = able & (self.holds @ near == 0).any(axis=1)
        return np.flatnonzero(roomy if roomy.any() else able)

    def _interchangeable_quads(self, able: Numbers, least: int) -> tuple[Numbers, Numbers]:
        """Return two-by-twos ``(N, 3)``, and for each the sets ``(N, 12)`` that could be the true edits.

        At least ``least`` of the four sets in which the suboptimal mask differs from the four pictures must be able to
        be true. Two-by-twos with four come first. The sets are repeated to fill the 12 columns.
        """
        squares = self._two_by_twos()
        number_of = np.where(
            np.append(self.overlaps, 1)[self.number_of] <= self.sampler.limits.iou[1], self.number_of, -1
        )
        # If each of the four sets is true equally often, the difference from a picture does not show the right picture.
        fours = number_of[self.codes[able][:, None, None] ^ np.pad(self.codes[squares], ((0, 0), (1, 0)))]
        is_able = np.zeros(len(self.sets) + 1, bool)  # the last entry stands for the number -1 (no set)
        is_able[able] = True
        can_be_true = is_able[fours]
        # Each group of four sets is found four times, once from each of its sets; keep the first.
        first = (fours >= 0).all(axis=-1) & (np.where(can_be_true, fours, len(self.sets)).argmin(axis=-1) == 0)
        found = self.sampler.rng.permutation(np.argwhere(first & (can_be_true.sum(axis=-1) >= least)))
        counts = can_be_true[found[:, 0], found[:, 1]].sum(axis=-1)
        full = int(np.count_nonzero(counts == 4))
        kept = found[np.argsort(-counts, kind="stable")][: np.clip(full, _FEW, _ORBITS)]
        place = kept[:, 0], kept[:, 1]
        ascending = np.sort(np.where(can_be_true[place], fours[place], len(self.sets)), axis=1)
        repeated = np.arange(12) % can_be_true[place].sum(axis=1)[:, None]
        return np.take_along_axis(ascending, repeated, axis=1), squares[kept[:, 1]]

    def _pairs(self, able: Numbers, shares: Sequence[Weights]) -> tuple[Numbers, Numbers]:
        """Return some sets that can be the true edits, ``(N, 1)``, and for each a possible two-by-two, ``(N, 3)``.

        The pictures of the two-by-two must differ from the suboptimal one by at least the smallest edit.
        """
        rng = self.sampler.rng
        weights = rake(self.of_true(able[:, None]), shares)
        count = min(_TRUE_SETS, int(np.count_nonzero(weights)))
        squares = self._two_by_twos()
        squares = squares[rng.permutation(len(squares))]
        trues, own = [], []
        for number in rng.choice(able, count, replace=False, p=weights):
            different = self._differences(number) >= self.sampler.limits.min_share * self.sampler.area
            found = squares[different[squares].all(axis=1)][:_SQUARES]
            trues.append(np.full((len(found), 1), number))
            own.append(found)
        return np.concatenate(trues), np.concatenate(own)

    def of_true(self, trues: Numbers) -> Numbers:
        """Return four numbers from 0 to 3 for each of the given sets of edits, ``(N, M, 4)``.

        ``trues (N, M)`` has the indices of the sets. The first number is the number of edits minus 1. The others are
        changes of area, length and compactness: 0 large decrease, 1 small decrease, 2 small increase, 3 large increase.
        """
        sizes = np.array([len(errors) - 1 for errors in self.sets])[trues]
        changes = self.changes[trues]
        levels = (changes > -_MUCH).astype(int) + (changes > 0) + (changes > _MUCH)
        return np.concatenate([sizes[..., None], levels], axis=-1)

    def _ranks(self, trues: Numbers, squares: Numbers) -> Numbers:
        """Return three ranks of the right picture among the four: by length, compactness and nearness.

        Nearness is the similarity to the suboptimal mask.
        """
        nearer = np.zeros(trues.shape, np.intp)
        for true in np.unique(trues):
            rows, columns = np.nonzero(trues == true)
            nearer[rows, columns] = (self._differences(true) < self.area_of[true])[squares[rows]].sum(axis=1)
        changed = (self.changes[:, 1:] < 0)[squares].sum(axis=1)
        changed = np.broadcast_to(changed[:, None], (*trues.shape, changed.shape[1]))
        return np.concatenate([changed, nearer[..., None]], axis=-1)

    def _leaning(self, squares: Numbers) -> Weights:
        """Return three sums over the wrong pictures, ``(N, 3)``, for the changes of area, length and compactness.

        Each change is squared, with its sign kept. The weighted mean of the sums should be 0.
        """
        # A lesion always has large areas to remove, and seldom room to add areas as large. Without a balance, the wrong
        # pictures with the largest changes would be smaller than the right picture.
        changes = self.changes[squares]
        return np.asarray((changes * np.abs(changes)).sum(axis=1))

    def _differences(self, true: int) -> Weights:
        """Return, for every set of edits, the area in which its mask differs from the mask of the set ``true``."""
        shared = self.holds @ self.shared @ self.holds[true]
        return np.asarray(self.area_of + self.area_of[true] - 2 * shared)

    def _keeps_parts(self, pictures: Sequence[Errors]) -> bool:
        """Return True if the masks of all pictures keep the parts of the lesion.

        A picture with a single edit needs no test, because the edit was tested when it was made.
        """
        return all(len(errors) < 2 or part_count(self.mask(errors)) == self.parts for errors in pictures)

    def _two_by_twos(self) -> Numbers:
        """Return all two-by-twos ``(N, 3)``: the numbers of two disjoint sets of edits and of their union."""
        codes = self.codes
        # A measure of the four pictures then differs by 0, a, b and a + b from the right picture, and each of the four
        # can be right. With a common edit, the right picture would stand apart from three similar ones.
        both = np.where(codes[:, None] & codes[None, :], -1, self.number_of[codes[:, None] | codes[None, :]])
        rows, columns = np.nonzero(np.triu(both + 1))
        return np.stack([rows, columns, both[rows, columns]], axis=1)

    def _changes(self, longer: Weights) -> Weights:
        """Return every set's changes of the outline, ``(sets, 3)``: area, length and compactness, in logarithms.

        ``longer`` is each edit's increase of the length. Compactness is ``length ** 2 / area``.
        """
        # Edits of one picture do not meet, so their changes add up. Roughness is left out: drawing the outline hides
        # it.
        lengths = np.log(np.maximum(1 + self.holds @ longer, _LEAST_RATIO))
        areas = np.log1p(self.holds @ (self.added - self.removed))
        return np.stack([areas, lengths, 2 * lengths - areas], axis=1)


def area_categories(changes: Weights) -> Numbers:
    """Return two categories ``(N, 2)`` for each of N sets of four pictures, one right and three wrong.

    ``changes (N, 3)`` is ``log(wrong area / right area)`` of the wrong pictures. A category is ``4 * grade + rank``.
    Both categories of a set have the same rank, and each category has its own grade:

    - rank: the number of wrong pictures with a smaller area than the right picture (0 to 3).
    - grade of the first category: how much the two smallest areas differ (0 little, 1 more, 2 much).
    - grade of the second category: how much the smallest and the largest area differ (0 little, 1 more, 2 much).
    """
    areas = np.sort(np.pad(changes, ((0, 0), (0, 1))), axis=1)
    ranks = (changes < 0).sum(axis=1)
    steps = areas[:, 1] - areas[:, 0], areas[:, 3] - areas[:, 0]
    grades = [np.searchsorted(cuts, step) for step, cuts in zip(steps, _LEVELS_OF_STEPS, strict=True)]
    return np.stack([len(EVEN) * grade + ranks for grade in grades], axis=1)


def wanted_shares(categories: Numbers, shares: Weights) -> Weights:
    """Return the share of all sets that each of the 12 categories should have, shape ``(12,)``.

    A category is one of 3 grades combined with one of 4 ranks, as in :func:`area_categories`.

    - ``categories (N,)``: the category of each of N sets.
    - ``shares (3, 4)``: for each grade (row), the share of its sets that should have each rank (column).
    """
    # Each grade keeps its share of the sets. A guesser sees how large the differences are, so the wanted shares of the
    # ranks must hold in each grade and not only over all grades.
    counts = np.bincount(categories // len(EVEN), minlength=len(shares))
    return np.asarray((counts[:, None] / max(1, len(categories)) * shares).ravel())


def _length(mask: Mask) -> float:
    """Return the length of the drawn outlines in pixels."""
    return sum(cv2.arcLength(line.astype(np.float32), True) for line in smooth_outlines(mask))


def _lengthening(mask: Mask, edit: Edit) -> float:
    """Return an edit's increase of the length of a mask's outlines in pixels.

    Only the outline near the edit changes.
    """
    around = grown(edit.slices, _AROUND, mask.shape)
    before, area = mask[around], embedded(edit.area, edit.slices, around)
    return _length(before | area if edit.over else before & ~area) - _length(before)


def _any_pair(holds: Weights, pairs: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return True for each set of edits that contains both edits of one of the ``pairs``.

    ``holds`` has a row for each set and a column for each edit.
    """
    return np.asarray(((holds @ pairs) * holds).any(axis=1))


def overlap(around: Window, neighbourhood: Mask, first: Edit, second: Edit) -> tuple[bool, int]:
    """Compare the areas that two edits change; return two values.

    - True if the area of ``second`` meets ``neighbourhood``, a mask of the surroundings of ``first``, cropped to the
      window ``around``.
    - The number of pixels that both areas have in common; 0 if the first value is False.
    """
    rows, columns = (
        slice(max(a.start, b.start), min(a.stop, b.stop)) for a, b in zip(around, second.slices, strict=True)
    )
    if rows.start >= rows.stop or columns.start >= columns.stop:
        return False, 0

    def part(array: Mask, own: Window) -> Mask:
        return array[
            rows.start - own[0].start : rows.stop - own[0].start,
            columns.start - own[1].start : columns.stop - own[1].start,
        ]

    theirs = part(second.area, second.slices)
    if not bool((part(neighbourhood, around) & theirs).any()):
        return False, 0
    mine = part(embedded(first.area, first.slices, around), around)
    return True, int(np.count_nonzero(mine & theirs))


def _padded(weights: Sequence[float]) -> Weights:
    """Return weights of one, two and three edits that sum to 1; a missing weight becomes 0."""
    padded = np.array([*weights, *[0.0] * (MOST - len(weights))], float)
    return np.asarray(padded / padded.sum())
