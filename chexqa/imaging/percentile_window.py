"""Grey-level window for pictures of more than 8 bits: a linear map to 8 bits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

# Percentiles at the two ends of the window, as shares of the pixels.
WINDOW_LOW, WINDOW_HIGH = 0.001, 0.999


def by_percentiles(
    values: npt.NDArray[np.integer], counted: npt.NDArray[np.bool_] | None = None
) -> npt.NDArray[np.uint8]:
    """Map values linearly to 8 bits between two percentiles, so that extreme pixels (burnt-in text) matter little.

    ``values`` is an array of whole numbers, of any shape; the largest minus the smallest is below 2^17. ``counted``
    selects the pixels from which the percentiles are computed; the default is all pixels.
    """
    deep = values if values.dtype == np.uint16 else values.astype(np.int32) - int(values.min())
    used = deep if counted is None or not counted.any() else deep[counted]
    flat = used.ravel()
    counts = np.zeros(int(flat.max()) + 1, np.int64)
    for part in np.array_split(flat, flat.size // 2**22 + 1):  # bincount uses 8 bytes for each value
        counts += np.bincount(part, minlength=len(counts))
    shares = np.cumsum(counts) / used.size
    low = int(np.searchsorted(shares, WINDOW_LOW, side="right"))
    high = int(np.searchsorted(shares, WINDOW_HIGH, side="left"))
    if high <= low:  # nearly all pixels are equal, so the window is the whole range
        low, high = int(used.min()), int(used.max())
    if high == low:
        return np.zeros(deep.shape, np.uint8)
    levels = np.clip((np.arange(int(deep.max()) + 1) - low) / (high - low), 0, 1)
    return np.rint(levels * 255).astype(np.uint8)[deep]
