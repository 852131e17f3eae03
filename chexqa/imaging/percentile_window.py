"""Windows: mapping of more than 256 grey values to the 256 that are shown."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

# Percentiles, as shares of the pixels, at the window's ends.
WINDOW_LOW, WINDOW_HIGH = 0.001, 0.999


def by_percentiles(
    values: npt.NDArray[np.integer], counted: npt.NDArray[np.bool_] | None = None
) -> npt.NDArray[np.uint8]:
    """Reduce values to 8 bits, linear between two percentiles, so a few burnt-in pixels do not darken the rest.

    ``values`` are whole numbers of any shape with a range below 2^17. ``counted`` selects the pixels for the
    percentiles, by default all.
    """
    deep = values if values.dtype == np.uint16 else values.astype(np.int32) - int(values.min())
    used = deep if counted is None or not counted.any() else deep[counted]
    flat = used.ravel()
    counts = np.zeros(int(flat.max()) + 1, np.int64)
    for part in np.array_split(flat, flat.size // 2**22 + 1):  # bincount takes 8 bytes a value
        counts += np.bincount(part, minlength=len(counts))
    shares = np.cumsum(counts) / used.size
    low = int(np.searchsorted(shares, WINDOW_LOW, side="right"))
    high = int(np.searchsorted(shares, WINDOW_HIGH, side="left"))
    if high <= low:  # nearly all pixels are equal: use the whole range
        low, high = int(used.min()), int(used.max())
    if high == low:
        return np.zeros(deep.shape, np.uint8)
    levels = np.clip((np.arange(int(deep.max()) + 1) - low) / (high - low), 0, 1)
    return np.rint(levels * 255).astype(np.uint8)[deep]
