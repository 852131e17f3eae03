"""Average map of a finding, made for one case: how often masks of all other patients cover each cell of a grid."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

import cv2
import numpy as np
import numpy.typing as npt

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import clusters
from chexqa.eval.places.coordinate_systems import Shape, Size
from chexqa.imaging.masks import components, from_rle
from chexqa.imaging.read import Mask

CELLS = 128
_HALF = 0.5  # least share of the map's largest value in a cell of the average finding
Map = npt.NDArray[np.float64]


class AverageMaps:
    """One average map for each finding of a benchmark; the map for a case leaves out the case's own patient."""

    def __init__(self, benchmark: Benchmark) -> None:
        """Store the benchmark; its key is read when the first map is needed."""
        self._benchmark = benchmark

    def of(self, finding: str, case_id: str) -> Map | None:
        """Return how much of each grid cell a finding's masks cover, summed over all patients but the case's own.

        The map has the shape ``(CELLS, CELLS)``. Return None if no other patient has a mask of the finding.
        """
        total = self._sums.get((finding, None))
        if total is None:
            return None
        own = self._sums.get((finding, self._cluster[case_id]), np.zeros_like(total))
        left = total - own
        return left if left.max(initial=0.0) > 1e-9 else None

    @cached_property
    def _cluster(self) -> dict[str, str]:
        return clusters(self._benchmark.items, self._benchmark.key("an average map")[1])

    @cached_property
    def _sums(self) -> dict[tuple[str, str | None], Map]:
        """Return sums of maps, keyed by finding and cluster; the cluster None stands for all clusters together."""
        cases = self._benchmark.key("an average map")[1]
        finding_of = {item.case_id: item.finding for item in self._benchmark.items if item.form.is_place}
        sums: dict[tuple[str, str | None], Map] = defaultdict(lambda: np.zeros((CELLS, CELLS)))
        for case_id, finding in finding_of.items():
            runs = cases[case_id].measures.get("masks", {}).get("lesion")
            if runs is None:
                continue
            mask = from_rle(runs, f"the key of case '{case_id}'").astype(np.float32)
            cells = cv2.resize(mask, (CELLS, CELLS), interpolation=cv2.INTER_AREA).astype(np.float64)
            for cluster in (None, self._cluster[case_id]):
                sums[finding, cluster] += cells
        return dict(sums)


def place_on(average: Map, form: str, size: Size) -> tuple[Shape, ...]:
    """Return the best guess from an average map, as an answer of ``form``, in pixels of a picture of ``size``.

    ``size`` is width and height.
    """
    # A point is the middle of the highest cell of the map. Boxes and outlines enclose the cells with at least half of
    # the highest value. A width is a horizontal line through the middle of the box around these cells.
    scale = np.array(size) / CELLS
    row, column = np.unravel_index(int(average.argmax()), average.shape)
    if form == "point":
        return (_scaled([column + 0.5, row + 0.5], scale),)
    high = average >= _HALF * average.max()
    if form == "outline":
        large = cv2.resize(high.view(np.uint8), size, interpolation=cv2.INTER_NEAREST)
        found, _ = cv2.findContours(large, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
        return tuple(tuple(float(number) + 0.5 for number in outline.ravel()) for outline in found if len(outline) > 2)
    labels, count = components(high, 8)
    parts = [high] if form in ("box", "width") else [labels == number for number in range(1, count + 1)]
    boxes = [_scaled(_cells_box(part), scale) for part in parts]
    if form == "width":
        x0, y0, x1, y1 = boxes[0]
        return ((x0, (y0 + y1) / 2, x1, (y0 + y1) / 2),)
    return tuple(boxes)


def _cells_box(cells: Mask) -> list[float]:
    rows, columns = np.flatnonzero(cells.any(axis=1)), np.flatnonzero(cells.any(axis=0))
    return [float(columns[0]), float(rows[0]), float(columns[-1] + 1), float(rows[-1] + 1)]


def _scaled(numbers: list[float], scale: npt.NDArray[np.float64]) -> Shape:
    return tuple(float(number * scale[at % 2]) for at, number in enumerate(numbers))
