"""Metrics that compare a localization map, or a reader's marks, with a mask.

A metric is at least 0, or ``None`` if it is undefined.

- A map is resized to the mask bilinearly and scaled to 0 … 1.
- If several pixels have the maximum, the pointing game and the cell of the grid are scored by the share of hits among
  them.
- For IoU and Dice at Otsu's threshold and in the sweep over thresholds, the map is rounded to 1/65280 of its range.
- AUC is off by at most 0.00005.
- A constant map has its maximum everywhere, IoU and Dice 0, AUC 0.5 and CNR 0. A map with a value that is not finite
  counts as constant.
- A mask of the whole picture has neither AUC nor CNR. An empty mask is not graded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from chexqa.files.workers import same_everywhere
from chexqa.imaging import grid

Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float32]
Counts = npt.NDArray[np.int64]
Places = npt.NDArray[np.intp]
Values = dict[str, float | None]

# The tolerance of the pointing game in pixels of a picture whose longer side is 1024.
TOLERANCE, TOLERANCE_SIDE = 15, 1024
_TIE = 1e-6  # values nearer to the maximum than this count as the maximum
# Number of steps of a map's range: 256 for each of Otsu's 255 levels. Each threshold of the sweep is a whole step.
STEPS = 255 * 256
# Largest share of pairs (a pixel inside, a pixel outside) that may count as tied because both lie in one step.
UNRESOLVED = 1e-4
# If fewer steps than this have pixels on both sides of the mask's border, the map has few grey levels.
_FEW = 1024
# Counts of OpenCV are exact below this number of pixels.
_EXACT = 2**24
# Below this share of the mean square, a variance from sums is too coarse.
_CANCELLED = 1e-4
# The metrics of points. ``grid_hit_attainable`` is ``grid_hit``, but only of pictures with a cell that is a hit.
OF_PLACES = ("pointing", "pointing_15px", "grid_hit", "grid_hit_attainable")
# The columns of metrics, in the order of tables.
METRICS = (*OF_PLACES, "iou_otsu", "dice_otsu", "iou_given", "dice_given", "iou_tuned", "dice_tuned", "auc", "cnr")
# The thresholds of the sweep, and the columns with a metric's value at each threshold, keyed by metric.
THRESHOLDS = tuple(step / 10 for step in range(1, 10))
SWEPT = {name: [f"{name}_at_{threshold:.1f}" for threshold in THRESHOLDS] for name in ("iou", "dice")}
# The ends of the names of metrics at Otsu's threshold and of the sweep, and the highest unmarked step of the sweep.
_ENDS = ("_otsu", *(f"_at_{threshold:.1f}" for threshold in THRESHOLDS))
_SWEPT_STEPS = [round(STEPS * threshold) for threshold in THRESHOLDS]
# The number of the cell that a map or point gives as the answer to the grid item; not a metric.
CELL = "cell"


class Steps(NamedTuple):
    """Values of a map as whole numbers (steps) from 0 to :data:`STEPS`.

    - ``steps``: the step of each pixel, uint16 ``(H, W)``.
    - ``whole``: the number of pixels at each step.
    - ``inside``: the number of pixels inside the mask at each step.
    """

    steps: npt.NDArray[np.uint16]
    whole: Counts
    inside: Counts

    def grey_levels(self) -> Counts:
        """Return the number of the map's pixels at each grey level from 0 to 255."""
        # Grey level g has the steps 256 g to 256 g + 255; grey level 255 has only the last step.
        return np.append(self.whole[:-1].reshape(255, 256).sum(axis=1), self.whole[-1])


def in_steps(values: Floats, covered: Places) -> Steps:
    """Return a map's values (0 to 1) as whole numbers from 0 to :data:`STEPS`, and how many pixels have each number.

    A value above 0 becomes at least 1. ``covered`` has the flat indices of the mask's pixels: pixels are counted in the
    whole map (``whole``) and inside the mask (``inside``).

    >>> found = in_steps(np.float32([[0, 1e-9, 0.5, 1]]), np.array([2, 3]))
    >>> found.steps.tolist(), int(found.whole[0]), int(found.inside[0])
    ([[0, 1, 32640, 65280]], 1, 0)
    """
    steps = (values * np.float32(STEPS)).astype(np.uint16)
    # Many maps are 0 in most places; these must stay apart from places with small values.
    np.maximum(steps, (values > 0).astype(np.uint16), out=steps)
    if steps.size < _EXACT:  # much faster than NumPy's; counts are the same on every processor
        whole = cv2.calcHist([steps], [0], None, [STEPS + 1], [0, STEPS + 1]).ravel().astype(np.int64)
    else:
        whole = np.bincount(steps.ravel(), minlength=STEPS + 1)
    return Steps(steps, whole, np.bincount(steps.ravel()[covered], minlength=STEPS + 1))


@same_everywhere()
def fit(values: npt.NDArray[np.float64], shape: tuple[int, int]) -> Floats:
    """Return a map resized to ``shape`` ``(H, W)``, with its values scaled to the range from 0 to 1.

    ``values`` ``(h, w)`` is the map, with finite numbers. A constant map becomes 0 everywhere.
    """
    values = values / max(np.abs(values).max(), np.finfo(np.float64).tiny)  # the range itself may overflow
    _scale(values)
    resized = np.asarray(cv2.resize(values.astype(np.float32), shape[::-1], interpolation=cv2.INTER_LINEAR), np.float32)
    _scale(resized)
    return resized


def _scale(values: npt.NDArray[Any]) -> None:
    """Scale an array to 0 … 1 in place; a constant array becomes 0 everywhere."""
    low, high = values.min(), values.max()
    values -= low
    if high > low:
        values /= high - low


def grade_map(
    values: Floats, mask: Mask, hits: Sequence[int], threshold: float | None, covered: Places | None = None
) -> Values:
    """Return every metric of a map against a mask of the same shape; the map comes from :func:`fit`.

    - ``hits``: the numbers (1 to 64) of the cells of the grid that count as hits.
    - ``threshold``: a given threshold for IoU and Dice, or None.
    - ``covered``: the flat indices of the mask's pixels, if they are known.
    """
    rows, columns = np.divmod(np.flatnonzero(values >= values.max() - _TIE), values.shape[1])
    covered = np.flatnonzero(mask) if covered is None else covered
    counted, area = in_steps(values, covered), len(covered)
    steps = [256 * otsu(counted.grey_levels()) + 255, *_SWEPT_STEPS]
    marked = values.size - np.cumsum(counted.whole)[steps]
    both = area - np.cumsum(counted.inside)[steps]
    found: Values = {}
    for end, of_map, shared in zip(_ENDS, marked.tolist(), both.tolist(), strict=True):
        found |= _overlap(end, of_map, shared, area)
    if threshold is None:
        found |= {"iou_given": None, "dice_given": None}
    else:
        given = segment(values, threshold)
        found |= _overlap("_given", int(np.count_nonzero(given)), int(np.count_nonzero(given & mask)), area)
    return {
        CELL: most_marked_cell(rows, columns, mask),
        **grade_places(rows, columns, mask, hits),
        **found,
        "iou_tuned": None,
        "dice_tuned": None,
        "auc": pixel_auc(values, mask, counted),
        "cnr": contrast_to_noise(values, mask, covered),
    }


def _overlap(end: str, marked: int, both: int, area: int) -> Values:
    """Return IoU and Dice of a segmentation of ``marked`` pixels, ``both`` of them in a mask of ``area`` pixels."""
    return {f"iou{end}": both / (marked + area - both), f"dice{end}": 2 * both / (marked + area)}


def grade_places(
    rows: npt.NDArray[np.integer], columns: npt.NDArray[np.integer], mask: Mask, hits: Sequence[int]
) -> Values:
    """Return four metrics, each of which is the share of the marked pixels that lie in the right place.

    - ``pointing``: the share inside the mask.
    - ``pointing_15px``: the share inside the mask, or at most 15/1024 of the picture's longer side away from it.
    - ``grid_hit``: the share in the right cells of the grid; 0 if no cell is right.
    - ``grid_hit_attainable``: the same share as ``grid_hit``, but ``None`` if no cell is right.

    ``rows`` and ``columns`` are the positions of the marked pixels; ``hits`` has the numbers of the right cells.
    """
    # The pointing game is that of Zhang et al., "Top-down Neural Attention by Excitation Backprop", ECCV 2016; the grid
    # task is that of Beyond Diagnosis, arXiv 2509.18015.
    grid_hit = int(_counts_in_cells(rows, columns, mask)[list(hits)].sum()) / rows.size
    return {
        "pointing": float(np.count_nonzero(mask[rows, columns]) / rows.size),
        "pointing_15px": float(np.count_nonzero(_is_near(rows, columns, mask)) / rows.size),
        "grid_hit": grid_hit,
        "grid_hit_attainable": grid_hit if len(hits) else None,
    }


def most_marked_cell(rows: npt.NDArray[np.integer], columns: npt.NDArray[np.integer], mask: Mask) -> float:
    """Return the number of the grid's cell with the most marked pixels; of several such cells, the first."""
    return float(_counts_in_cells(rows, columns, mask).argmax())


def _counts_in_cells(rows: npt.NDArray[np.integer], columns: npt.NDArray[np.integer], mask: Mask) -> Counts:
    """Return the number of marked pixels in each cell of the grid; cells count from 1."""
    return np.bincount(grid.cells_at(rows, columns, mask.shape), minlength=len(grid.CELL_NAMES) + 1)


def _is_near(rows: npt.NDArray[np.integer], columns: npt.NDArray[np.integer], mask: Mask) -> Mask:
    """Return True for each place whose distance from a pixel of the mask is within the tolerance.

    Distances are measured between the middles of pixels.
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


def otsu(pixels: Counts) -> int:
    """Return Otsu's threshold: the grey level (0 to 255) above which pixels are marked.

    ``pixels`` has the number of pixels at each grey level.
    """
    # As in CheXlocalize.
    below, above = np.cumsum(pixels), pixels.sum() - np.cumsum(pixels)
    sums = np.cumsum(pixels * np.arange(256))
    both = (below > 0) & (above > 0)
    apart = sums[both] / below[both] - (sums[-1] - sums[both]) / above[both]
    between = np.zeros(256)
    between[both] = below[both].astype(np.float64) * above[both] * apart**2
    return int(between.argmax())


def segment(values: Floats, threshold: float) -> Mask:
    """Return the mask of the pixels above a threshold between 0 and 1, as in CheXlocalize."""
    return np.asarray(values > threshold)


def pixel_auc(values: Floats, mask: Mask, counted: Steps | None = None) -> float | None:
    """Return the area under the ROC curve of a map's values: pixels inside the mask against pixels outside.

    The area is off by at most half of :data:`UNRESOLVED`; it is ``None`` if all pixels are inside, or all outside.
    ``counted`` is the result of :func:`in_steps` for ``values`` and ``mask``, if it is known.

    >>> pixel_auc(np.array([0.9, 0.4, 0.4, 0.1]), np.array([True, True, False, False]))
    0.875
    """
    # Pixels of different steps are compared by their steps. Pixels of the same step are compared by their values if the
    # step is one of those with the most pairs of a pixel inside and one outside; otherwise they count as tied.
    steps, whole, inside = in_steps(values, np.flatnonzero(mask)) if counted is None else counted
    outside = whole - inside
    marked, others = int(inside.sum()), int(outside.sum())
    if not marked or not others:
        return None
    pairs = inside * outside
    doubled = _doubled_wins_of_steps(inside, outside, pairs)
    sorted_out = _in_doubt(values, steps, pairs, UNRESOLVED * marked * others)
    if sorted_out.any():
        chosen = sorted_out[steps]
        doubled += _doubled_wins(values[chosen & mask], values[chosen & ~mask])
        inside, outside = inside * sorted_out, outside * sorted_out
        doubled -= _doubled_wins_of_steps(inside, outside, inside * outside)
    return doubled / 2 / (marked * others)


def _doubled_wins_of_steps(inside: Counts, outside: Counts, pairs: Counts) -> int:
    """Return what :func:`_doubled_wins` returns, for pixels counted in steps; the pairs in one step count as tied."""
    return 2 * int(inside @ np.cumsum(outside)) - int(pairs.sum())


def _in_doubt(values: Floats, steps: npt.NDArray[np.uint16], pairs: Counts, bound: float) -> Mask:
    """Return True for the steps whose pixels must be sorted by value; ``pairs`` has the number of pairs in each step.

    At most ``bound`` pairs are in the other steps.
    """
    pairs[0] = 0  # all of step 0 is tied
    if pairs.sum() <= bound:
        return np.zeros(len(pairs), np.bool_)
    if np.count_nonzero(pairs) < _FEW:  # a map of few grey levels has one value in each step
        one = np.empty(len(pairs), values.dtype)
        one[steps] = values
        differs = np.zeros(len(pairs), np.bool_)
        differs[steps[one[steps] != values]] = True
        pairs = pairs * differs
    ordered = np.sort(pairs)
    kept = int(np.searchsorted(np.cumsum(ordered), bound, side="right"))
    return np.zeros(len(pairs), np.bool_) if kept == len(pairs) else pairs >= ordered[kept]


def _doubled_wins(inside: Floats, outside: Floats) -> int:
    """Return twice the number of pairs in which the pixel inside has the larger value, plus the number of ties."""
    outside = np.sort(outside)
    below, up_to = (np.searchsorted(outside, np.sort(inside), side=side).sum() for side in ("left", "right"))
    return int(below) + int(up_to)


@same_everywhere()
def contrast_to_noise(values: Floats, mask: Mask, covered: Places | None = None) -> float | None:
    """Return the contrast-to-noise ratio (CNR) of a map inside and outside a mask, as in BioViL.

    The CNR is ``|mean inside - mean outside| / sqrt(variance inside + variance outside)``. The result is ``None`` if
    the mask has all pixels or none, or if both variances are 0 but the means differ. ``covered`` has the flat indices
    of the mask's pixels, if they are known. Source: Boecking et al., "Making the Most of Text Semantics to Improve
    Biomedical Vision-Language Processing", ECCV 2022.
    """
    inside = values.ravel()[np.flatnonzero(mask) if covered is None else covered].astype(np.float64)
    others = values.size - inside.size
    if not inside.size or not others:
        return None
    # Subtracting the sums inside from those of the whole map is much faster than copying the pixels outside.
    mean = (cv2.sumElems(values)[0] - inside.sum()) / others
    square = (cv2.norm(values, cv2.NORM_L2SQR) - np.square(inside).sum()) / others
    spread = square - mean**2
    if spread < _CANCELLED * square:
        outside = values[~mask].astype(np.float64)
        mean, spread = outside.mean(), outside.var()
    contrast, noise = abs(inside.mean() - mean), np.sqrt(inside.var() + spread)
    if noise == 0:
        return 0.0 if contrast == 0 else None
    return float(contrast / noise)


def nothing_marked(hits: Sequence[int]) -> Values:
    """Return the metrics of a reader who marked nothing for a finding: 0.5 for AUC, and 0 for other metrics.

    ``hits`` lists the cells of the grid, by number, that would be a hit. If there are none, ``grid_hit_attainable`` is
    ``None``.
    """
    missed: Values = dict.fromkeys((*METRICS, *SWEPT["iou"], *SWEPT["dice"]), 0.0)
    return {**missed, "auc": 0.5, "grid_hit_attainable": 0.0 if len(hits) else None}
