"""Measurement of the time needed to degrade radiographs and to draw their outlines and marks again.

    python benchmarks/limits/degrade.py BENCH [PICTURES]

BENCH is a benchmark made with ``--with-layers``. PICTURES is the number of degraded pictures to make (default: 500).
"""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path

from chexqa.contract import benchmark
from chexqa.eval.stress.cells import cells
from chexqa.eval.stress.degradations import DEGRADATIONS
from chexqa.eval.stress.stressed_pictures import StressedPictures


def main(folder: Path, count: int) -> None:
    bench = benchmark.load(folder)
    source = StressedPictures(bench)
    shown = [(picture, item.case_id) for item in bench.items for picture in item.alone_images if picture.layer]
    started, used = time.perf_counter(), time.process_time()
    turn = zip(itertools.cycle(shown), itertools.cycle(cells([*DEGRADATIONS], "en")), strict=False)
    for (picture, case), cell in itertools.islice(turn, count):
        source.make(picture, cell, case)
    took = time.perf_counter() - started, time.process_time() - used
    print(f"{count} degraded pictures, made from {len(shown)} pictures with outlines or marks: {took[0]:.1f} s "
          f"elapsed, {took[1]:.1f} s of processor time")  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 500)
