"""Weights by which things are drawn so that what can be measured of them is as often one thing as another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_ROUNDS = 20


def balanced(
    levels: npt.NDArray[np.intp],
    shares: Sequence[npt.NDArray[np.float64]],
    leaning: npt.NDArray[np.float64] | None = None,
) -> npt.NDArray[np.float64]:
    """Weights ``(N,)`` for rows of ``levels`` by which each level of a column has its share, if it occurs.

    ``levels``: ``(N, K)``, or ``(N, M, K)`` where a row stands for M members that are drawn equally often. Iterative
    proportional fitting: of all such weights the ones that differ least from equal ones (Deming and Stephan 1940;
    Csiszár 1975); for rows of several members only near to it, as a row is scaled by the mean of its members' factors.
    Where not all shares can be had at once, the last columns come nearest to theirs.

    ``leaning``: numbers ``(N, L)`` whose weighted means should be nought; rows are tilted exponentially towards that.
    """
    members = levels[:, None] if levels.ndim == 2 else levels
    # For every column which share of a row's members is at each level, ``(N, levels)``.
    shared = [
        np.stack([np.mean(column == level, axis=1) for level in range(len(share))], axis=1)
        for column, share in zip(members.transpose(2, 0, 1), shares, strict=True)
    ]
    weights = np.ones(len(members)) / max(1, len(members))
    for _ in range(_ROUNDS):
        for held, share in zip(shared, shares, strict=True):
            found = weights @ held
            # Where every level that is there is one that should not be, the column says nothing.
            factors = np.divide(share, found, out=np.zeros(len(share)), where=found > 0)
            scaled = weights * (held @ factors)
            total = scaled.sum()
            if total > 0:
                weights = scaled / total
        for numbers in () if leaning is None or not len(leaning) else leaning.T:
            # One step of Newton's towards the tilt, of which there are many: never a large one.
            step = -(weights @ numbers) / max(float(weights @ numbers**2), 1e-12)
            most = float(np.abs(numbers).max())
            weights = weights * np.exp(np.clip(step * most, -1, 1) * numbers / max(most, 1e-12))
            weights = weights / weights.sum()
    return weights
