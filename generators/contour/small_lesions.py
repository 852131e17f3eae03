"""The four outlines offered for a small lesion: each revises the suboptimal mask at one place.

The suboptimal mask has one error. One outline undoes it, and each of the others makes an edit at another place.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from chexqa.generators.contour.edit_sampler import EditSampler
from chexqa.generators.contour.edit_sets import (
    EVEN,
    Choice,
    EditSets,
    Numbers,
    Weights,
    area_categories,
    draw_edits,
    overlap,
    wanted_shares,
)
from chexqa.generators.contour.edits import Edit
from chexqa.generators.contour.raking import rake

_OTHERS = 3  # pictures beside the right one
_AREA = np.tile(EVEN, (3, 1))  # intended shares of the right picture's ranks by area, for each grade of a step in area
_ERRORS = 4  # number of errors considered; one of these will be true
_THREES = 200  # number of choices of three other edits considered with each error
_MOST_SHARED = (
    0.25  # largest overlap of two edits, as a share of the smaller one, so that their pictures differ visibly
)


class _Revised(NamedTuple):
    """The mask with one error, and choices of three further edits of this mask.

    - ``edits``: the error, then the other edits.
    - ``threes (N, 3)``: the numbers of the edits of each choice.
    - ``levels (N, 6)``, ``tilt (N, 4)``: arguments of :func:`rake`.
    - ``areas (N, 3)``: the logarithms of the changes of area in the wrong pictures.
    """

    edits: tuple[Edit, ...]
    threes: Numbers
    levels: Numbers
    tilt: Weights
    areas: Weights


def draw_revisions(pool: EditSets, spacing: float, modest: bool) -> Choice | str:
    """Draw a random error, and three edits that wrongly revise the outline; return a reason if that is impossible.

    ``spacing`` is the least distance between points in pixels; ``modest`` is as in :func:`draw_edits`.
    """
    rng = pool.sampler.rng
    single = pool.single(pool.able(spacing))
    if not len(single):
        return "every edit changes the outline too much or too little"
    likely = rake(pool.of_true(single)[:, 1:], [EVEN] * 3)
    errors = rng.choice(single, min(_ERRORS, int(np.count_nonzero(likely))), replace=False, p=likely)
    revised = [one for error in errors if (one := _revised(pool, int(error), modest)) is not None]
    if not any(len(one.threes) for one in revised):
        return "no three other edits are different enough from the true edit and from each other"
    levels, tilt, areas = (np.concatenate(columns) for columns in zip(*(one[2:] for one in revised), strict=True))
    columns = area_categories(areas)
    shares = [wanted_shares(column, _AREA) for column in columns.T]
    likely = rake(np.concatenate([levels, columns], axis=1), [*[EVEN] * levels.shape[1], *shares], tilt)
    index = int(rng.choice(len(levels), p=likely))
    edits, three = [(one.edits, three) for one in revised for three in one.threes][index]
    four = ((), (0, 1), (0, 2), (0, 3))
    shown = (edits[0], *(edits[number] for number in three))
    return Choice(shown, (0,), tuple(four[number] for number in rng.permutation(4)))


def _revised(pool: EditSets, error: int, modest: bool) -> _Revised | None:
    """Return the possible revisions of the mask with ``error`` (the number of a set of one edit).

    Return None if no revision is possible.
    """
    sampler, (number,) = pool.sampler, pool.sets[error]
    shown = EditSampler(pool.mask((number,)), sampler.field, sampler.limits, sampler.rng)
    drawn = draw_edits(shown, modest)
    if len(drawn) < _OTHERS:
        return None
    others = EditSets(shown, drawn)
    able = others.single(others.visible())
    own = [others.edits[others.sets[one][0]] for one in able]
    edits = (pool.edits[number], *(replace(edit, share=edit.share * shown.area / sampler.area) for edit in own))
    shared = _shared(edits, shown.mask.shape)
    areas = np.diag(shared)
    able_four = shared <= _MOST_SHARED * np.minimum(areas[:, None], areas[None, :])
    shares = areas / sampler.area
    able_four[:, (shares < sampler.limits.min_share) | (shares > sampler.limits.max_share)] = False
    fours = sampler.rng.permutation(_cliques(able_four))[:_THREES]
    changes = pool.changes[error] + others.changes[able][fours[:, 1:] - 1]
    ranks = np.column_stack([(changes[..., 1:] < 0).sum(axis=1), (areas[fours[:, 1:]] < areas[0]).sum(axis=1)])
    of_true = np.tile(pool.of_true(np.array([error]))[:, 1:], (len(fours), 1))
    # Overlap of the error with the others minus the others' overlap with each other, as a share of the mask.
    met = shared[fours[:, :, None], fours[:, None, :]].sum(axis=2) - areas[fours]
    tilt = [(changes * np.abs(changes)).sum(axis=1), (met[:, :1] - met.mean(axis=1, keepdims=True)) / shown.area]
    return _Revised(edits, fours[:, 1:], np.concatenate([of_true, ranks], axis=1), np.concatenate(tilt, axis=1),
                    changes[..., 0])  # fmt: skip


def _shared(edits: Sequence[Edit], shape: tuple[int, int]) -> Weights:
    """Return ``(N, N)`` counts of the pixels that two edits both change; the diagonal has each edit's own pixels."""
    shared = np.diag([float(np.count_nonzero(edit.area)) for edit in edits])
    for first, edit in enumerate(edits):
        around, near = edit.within(0, shape)
        for second in range(first):
            shared[first, second] = shared[second, first] = overlap(around, near, edit, edits[second])[1]
    return shared


def _cliques(together: npt.NDArray[np.bool_]) -> Numbers:
    """Return the groups of four numbers ``(N, 4)`` that start with 0 and in which any two numbers may be together."""
    others = np.flatnonzero(together[0])
    found = [
        (0, *three)
        for three in itertools.combinations(others, 3)
        if all(together[pair] for pair in itertools.combinations(three, 2))
    ]
    return np.array(found, np.intp).reshape(-1, 4)
