"""Raking: weights for random draws, so that each category of a measured property is drawn as often as intended."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_ROUNDS = 20


def rake(
    levels: npt.NDArray[np.intp],
    shares: Sequence[npt.NDArray[np.float64]],
    tilt: npt.NDArray[np.float64] | None = None,
) -> npt.NDArray[np.float64]:
    """Return weights ``(N,)`` for drawing rows at random, so that each category is drawn with its wanted share.

    - ``levels``: the categories of each row in K columns, as numbers from 0, ``(N, K)``; ``(N, M, K)`` if a row stands
      for M members that are drawn equally often.
    - ``shares``: the wanted share of each category, for each of the K columns. If not all shares can be reached, the
      last columns come closest.
    - ``tilt``: L further columns of numbers, ``(N, L)``; the weighted mean of each of these columns comes near 0.
    """
    members = levels[:, None] if levels.ndim == 2 else levels
    # For every column, the share of a row's members at each level, ``(N, levels)``.
    shared = [
        np.stack([np.mean(column == level, axis=1) for level in range(len(share))], axis=1)
        for column, share in zip(members.transpose(2, 0, 1), shares, strict=True)
    ]
    weights = np.ones(len(members)) / max(1, len(members))
    # Iterative proportional fitting gives the weights closest to equal weights (Deming and Stephan 1940; Csiszár 1975).
    # With several members it is approximate: a row is scaled by the mean of its members' factors.
    for _ in range(_ROUNDS):
        for held, share in zip(shared, shares, strict=True):
            found = weights @ held
            # If all levels that occur have a share of 0, the column is ignored.
            factors = np.divide(share, found, out=np.zeros(len(share)), where=found > 0)
            scaled = weights * (held @ factors)
            total = scaled.sum()
            if total > 0:
                weights = scaled / total
        for numbers in () if tilt is None or not len(tilt) else tilt.T:
            # One of many Newton steps towards weighted means of 0, limited in size.
            step = -(weights @ numbers) / max(float(weights @ numbers**2), 1e-12)
            most = float(np.abs(numbers).max())
            weights = weights * np.exp(np.clip(step * most, -1, 1) * numbers / max(most, 1e-12))
            weights = weights / weights.sum()
    return weights
