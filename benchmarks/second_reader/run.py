"""Agreement of a benchmark's key with three simulated second readers, computed by chexqa and by a separate count.

    python benchmarks/second_reader/run.py BENCH [CASES]

The readers redraw the lesions of a benchmark of phantoms, with errors of 3, 6 or 10 pixels of 1024. The script prints
the agreement that ``chexqa second-reader`` finds for each kind of question, and a separate count for the questions on
points and on the grid.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np

from chexqa.contract import benchmark
from chexqa.contract.benchmark import Benchmark
from chexqa.eval.readers import second_reader
from chexqa.eval.report.display import percent
from chexqa.imaging.masks import from_rle

HANDS = (3, 6, 10)
COUNTED = ("revision_expansion", "revision_contraction", "grid_cell")


def first(bench: Benchmark, count: int) -> Benchmark:
    """Return the benchmark reduced to its first ``count`` cases with a lesion."""
    cases = bench.key("choosing")[1]
    drawn = [case_id for case_id in dict.fromkeys(item.case_id for item in bench.items)
             if "lesion" in cases[case_id].measures["masks"]][:count]  # fmt: skip
    chosen = frozenset(drawn)
    return replace(bench, items=tuple(item for item in bench.items if item.case_id in chosen),
                   cases={case_id: cases[case_id] for case_id in drawn})  # fmt: skip


def redraw(bench: Benchmark, folder: Path, px: float) -> None:
    """Write every lesion's mask as a simulated second reader draws it, with an error of ``px`` pixels."""
    random = np.random.default_rng(0)
    for case in bench.key("redrawing")[1].values():
        if "lesion" in case.measures["masks"]:
            mask = from_rle(case.measures["masks"]["lesion"], case.case_id).astype(np.uint8)
            signed = cv2.distanceTransform(mask, cv2.DIST_L2, 5) - cv2.distanceTransform(1 - mask, cv2.DIST_L2, 5)
            noise = cv2.GaussianBlur(random.standard_normal(mask.shape, np.float32), (0, 0), 20)
            moved = signed + px * noise / noise.std() > 0
            cv2.imwrite(str(folder / f"{case.source_case_id}.png"), moved.astype(np.uint8) * 255)


def kept(bench: Benchmark, folder: Path) -> dict[str, float]:
    """Return the share of keys that are also right for the masks in ``folder``, keyed by kind of question.

    Only the kinds in :data:`COUNTED` are included. No code of ``chexqa second-reader`` is used, so the result can check
    that command.
    """
    answers, cases = bench.key("counting")
    stays: dict[str, list[bool]] = {kind: [] for kind in COUNTED}
    for item in bench.items:
        key, file = answers[item.item_id], folder / f"{cases[item.case_id].source_case_id}.png"
        if item.kind not in COUNTED or not key.scored or not file.is_file():
            continue
        mask = cv2.imread(str(file), cv2.IMREAD_GRAYSCALE)
        assert mask is not None
        if item.kind == "grid_cell":
            rows, columns = ([round(place * size / 8) for place in range(9)] for size in mask.shape)
            filled = [(mask[a:b, c:d] > 0).mean() for a, b in pairwise(rows) for c, d in pairwise(columns)]
            stays[item.kind].append(1 + int(np.argmax(filled)) in key.answer)
            continue
        is_inside, points = item.kind == "revision_contraction", key.evidence["points"]
        said = [number for number, point in enumerate(points, 1) if point["inside"] == is_inside
                and bool(mask[point["xy"][1], point["xy"][0]]) != is_inside]  # fmt: skip
        stays[item.kind].append(tuple(said or [len(points) + 1]) == key.answer)
    return {kind: float(np.mean(one)) for kind, one in stays.items() if one}


def main(place: Path, count: int | None) -> None:
    bench = benchmark.load(place)
    bench = bench if count is None else first(bench, count)
    heads = (
        "reader's error",
        "kind",
        "items",
        "benchmark's items answered by the reader's masks, right in %",
        "its 95 % interval",
        "the same, counted from the mask files",
        "items made from the reader's masks, answered by the benchmark's, right in %",
        "mean of both",
    )
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    for px in HANDS:
        with tempfile.TemporaryDirectory() as folder:
            redraw(bench, Path(folder), px)
            counts = kept(bench, Path(folder))
            for row in second_reader.second_reader(second_reader.load(Path(folder), bench)).to_dicts():
                ends = [percent(row[f"by_second_{end}"]) for end in ("low", "high")]
                shares = [percent(row[name]) for name in ("by_second", "by_first", "second_reader")]
                counted = f"{100 * counts[row['kind']]:.1f}" if row["kind"] in counts else ""
                print(f"| {px} px | {row['kind']} | {row['items']:,} | {shares[0]} | {' to '.join(ends)} | {counted} "
                      f"| {' | '.join(shares[1:])} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]), int(sys.argv[2]) if sys.argv[2:] else None)
