"""Metrics that compare a localization map, or a reader's marks, with a mask. A metric is at least 0, or ``None`` if it
is undefined.

Conventions:

* a map is resized to the mask bilinearly (corners not aligned), as CheXlocalize does, and scaled to 0 … 1;
* if several pixels share the maximum (within a millionth of the map's range), the score is the share of these pixels
  that are hits, which is the mean score of a random one of them;
* a constant map has its maximum everywhere; it has no segmentation (IoU and Dice 0), AUC 0.5 and CNR 0;
* a map with a value that is not finite counts as a constant map;
* a mask of the whole picture has no outside, so AUC and CNR are ``None``; an empty mask is not graded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from chexqa.imaging import grid
from chexqa.imaging.masks import dice, iou

Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float32]
Values = dict[str, float | None]

# The tolerance of the pointing game in pixels of a picture whose longer side is 1024.
TOLERANCE, TOLERANCE_SIDE = 15, 1024
_TIE = 1e-6
# The metrics of points.
OF_PLACES = ("pointing", "pointing_15px", "grid_hit", "grid_hit_attainable")
# The columns of metrics, in the order of tables.
METRICS = (*OF_PLACES, "iou_otsu", "dice_otsu", "iou_given", "dice_given", "iou_tuned", "dice_tuned", "auc", "cnr")
# The thresholds of the sweep, and by metric the columns with its values at each of them.
THRESHOLDS = tuple(step / 10 for step in range(1, 10))
SWEPT = {name: [f"{name}_at_{threshold:.1f}" for threshold in THRESHOLDS] for name in ("iou", "dice")}
# The number of the cell that a map or point gives as the answer to the grid item; not a metric.
CELL = "cell"


def fit(values: npt.NDArray[np.float64], shape: tuple[int, int]) -> Floats:
    """Return a map ``(h, w)`` of finite numbers resized to ``shape`` ``(H, W)`` and scaled to 0 … 1.

    A constant map becomes 0 everywhere.
    """
    resized = cv2.resize(_scaled(values).astype(np.float32), shape[::-1], interpolation=cv2.INTER_LINEAR)
    return _scaled(np.asarray(resized, np.float32))


def _scaled(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    values = values / max(np.abs(values).max(), np.finfo(values.dtype).tiny)  # the range itself may overflow
    low, high = values.min(), values.max()
    return np.zeros_like(values) if high <= low else (values - low) / (high - low)


def grade_map(values: Floats, mask: Mask, hits: Sequence[int], threshold: float | None) -> Values:
    """Return every metric of a map against a mask of the same shape.

    The map comes from :func:`fit`. ``hits`` has the numbers (1 to 64) of the grid cells that count as hits.
    """
    rows, columns = np.nonzero(values >= values.max() - _TIE)
    otsu = segment_otsu(values)
    given = None if threshold is None else segment(values, threshold)
    return {
        **grade_places(rows, columns, mask, hits),
        "iou_otsu": iou(otsu, mask),
        "dice_otsu": dice(otsu, mask),
        "iou_given": None if given is None else iou(given, mask),
        "dice_given": None if given is None else dice(given, mask),
        "iou_tuned": None,
        "dice_tuned": None,
        **sweep(values, mask),
        "auc": pixel_auc(values, mask),
        "cnr": contrast_to_noise(values, mask),
    }


def grade_places(
    rows: npt.NDArray[np.integer], columns: npt.NDArray[np.integer], mask: Mask, hits: Sequence[int]
) -> Values:
    """Return the two metrics of marked pixels: the pointing game and the grid cell.

    Each metric is the share of the marked pixels that are hits. In the pointing game (Zhang et al., "Top-down Neural
    Attention by Excitation Backprop", ECCV 2016), a pixel is a hit if it lies inside the mask or within 15 px of it, in
    a picture whose longer side is 1024 px. For the grid cell, a pixel is a hit if its cell counts as a hit in the grid
    task (Beyond Diagnosis, arXiv 2509.18015).
    """
    cells = grid.cells_at(rows, columns, mask.shape)
    cell = np.isin(cells, hits)
    return {
        # The cell with the most places; of several, the first.
        CELL: float(np.bincount(cells).argmax()),
        "pointing": float(mask[rows, columns].mean()),
        "pointing_15px": float(_is_near(rows, columns, mask).mean()),
        "grid_hit": float(cell.mean()),
        "grid_hit_attainable": float(cell.mean()) if len(hits) else None,
    }


def _is_near(rows: npt.NDArray[np.integer], columns: npt.NDArray[np.integer], mask: Mask) -> Mask:
    """Return True for each place that lies within the tolerance of a pixel of the mask.

    Distances are between centres.
    """
    tolerance = TOLERANCE * max(mask.shape) / TOLERANCE_SIDE
    margin = int(tolerance) + 1
    top, left = max(0, int(rows.min()) - margin), max(0, int(columns.min()) - margin)
    part = mask[top : int(rows.max()) + margin + 1, left : int(columns.max()) + margin + 1]
    if not part.any():
        return np.zeros(rows.shape, np.bool_)
    outside = np.logical_not(part).view(np.uint8)
    distance = cv2.distanceTransform(outside, cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    return np.asarray(distance[rows - top, columns - left] <= tolerance)


def segment_otsu(values: Floats) -> Mask:
    """Return the pixels of the map above Otsu's threshold, as CheXlocalize segments maps.

    The threshold is computed on 256 grey levels of the map.
    """
    levels = (255 * values).astype(np.uint8)
    threshold, _ = cv2.threshold(levels, 0, 255, cv2.THRESH_BINARY + cv2.THRESH_OTSU)
    return np.asarray(levels > threshold)


def segment(values: Floats, threshold: float) -> Mask:
    """Return the pixels of the map above a threshold between 0 and 1, as CheXlocalize does with tuned thresholds."""
    return np.asarray(values > threshold)


def sweep(values: Floats, mask: Mask) -> Values:
    """Return IoU and Dice of the map's segmentation at each of :data:`THRESHOLDS`, under the names :data:`SWEPT`."""
    inside, area = values[mask], int(np.count_nonzero(mask))
    found: Values = {}
    for place, threshold in enumerate(THRESHOLDS):
        marked = int(np.count_nonzero(values > threshold))
        both = int(np.count_nonzero(inside > threshold))
        found[SWEPT["iou"][place]] = both / (marked + area - both)
        found[SWEPT["dice"][place]] = 2 * both / (marked + area)
    return found


def pixel_auc(values: Floats, mask: Mask) -> float | None:
    """Return the exact area under the ROC curve over pixels (Mann and Whitney's statistic divided by its maximum).

    The area is the probability that a pixel inside the mask has a larger value than a pixel outside; a tie counts as
    half.

    >>> pixel_auc(np.array([0.9, 0.4, 0.4, 0.1]), np.array([True, True, False, False]))
    0.875
    """
    inside, outside = np.sort(values[mask]), np.sort(values[~mask])
    if not inside.size or not outside.size:
        return None
    below = np.searchsorted(outside, inside, side="left").sum(dtype=np.int64)
    up_to = np.searchsorted(outside, inside, side="right").sum(dtype=np.int64)
    return (int(below) + int(up_to)) / 2 / (inside.size * outside.size)


def contrast_to_noise(values: Floats, mask: Mask) -> float | None:
    """Return ``|mean inside - mean outside| / sqrt(variance inside + variance outside)`` of a map, as in BioViL.

    Return ``None`` if both sides are constant and differ. The value does not depend on which side is brighter. Source:
    Boecking et al., "Making the Most of Text Semantics to Improve Biomedical Vision-Language Processing", ECCV 2022.
    """
    inside, outside = values[mask].astype(np.float64), values[~mask].astype(np.float64)
    if not inside.size or not outside.size:
        return None
    contrast, noise = abs(inside.mean() - outside.mean()), np.sqrt(inside.var() + outside.var())
    if noise == 0:
        return 0.0 if contrast == 0 else None
    return float(contrast / noise)


def nothing_marked(hits: Sequence[int]) -> Values:
    """Return the metrics of a reader who marked nothing for a finding: 0.5 for AUC, and 0 for every other metric.

    ``hits`` has the numbers of the grid's hit cells; without hit cells, the metric of attainable hits is ``None``.
    """
    missed: Values = dict.fromkeys((*METRICS, *SWEPT["iou"], *SWEPT["dice"]), 0.0)
    return {**missed, "auc": 0.5, "grid_hit_attainable": 0.0 if len(hits) else None}
