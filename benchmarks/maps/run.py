"""Speed of grading a study of localization maps: seven makers, each with maps of ten findings on 668 radiographs.

    python benchmarks/maps/run.py [RADIOGRAPHS]

The timing starts with reading the map files and ends when the tables and the page ``maps.html`` are written.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from chexqa.contract.findings import PHANTOM_FINDINGS
from chexqa.eval.heatmaps import grading, study, summary
from chexqa.eval.heatmaps.map_files import map_name
from chexqa.eval.heatmaps.targets import Target, Truth
from chexqa.imaging import masks

MAKERS, RADIOGRAPHS, PRESENT = 7, 668, 0.3
SHAPE, CELLS = (1024, 840), 28


def target(number: int, finding: str, random: np.random.Generator) -> Target:
    """Return a finding of the radiograph ``number``, with a random ellipse as its mask."""
    rows, columns = np.ogrid[: SHAPE[0], : SHAPE[1]]
    middle, radii = random.uniform(0.25, 0.75, 2) * SHAPE, random.uniform(30, 180, 2)
    rle = masks.to_rle(((rows - middle[0]) / radii[0]) ** 2 + ((columns - middle[1]) / radii[1]) ** 2 < 1)
    case = f"{number}/{finding}"
    return Target(case, finding, frozenset({f"{number}", case}), f"p{number}", None, f"{number}", None,
                  partial(masks.from_rle, rle, case))  # fmt: skip


def write(folder: Path, cases: list[Target], present: set[str], is_sparse: bool, random: np.random.Generator) -> None:
    """Write a maker's maps of the ``present`` cases, and its scores of all cases, into a new folder."""
    folder.mkdir()
    lines = ["case_id,score"]
    for case in cases:
        values = random.normal(size=(CELLS, CELLS)).cumsum(0).cumsum(1).astype(np.float32)
        values = np.maximum(values - values.mean(), 0) if is_sparse else values
        if case.case_id in present:
            np.savez(folder / map_name(case.case_id, case.finding), map=values, score=np.float64(0))
        lines.append(f"{case.case_id},{random.normal(float(case.case_id in present))}")
    (folder / "scores.csv").write_text("\n".join(lines) + "\n")


def processor_time() -> float:
    """Return the processor time of this process and of its workers that have ended, in seconds."""
    return sum(os.times()[:4])


def main(radiographs: int) -> None:
    random = np.random.default_rng(0)
    cases = [target(number, finding, random) for finding in PHANTOM_FINDINGS for number in range(radiographs)]
    chosen = random.random(len(cases)) < PRESENT
    present = {case.case_id for case, is_present in zip(cases, chosen, strict=True) if is_present}
    truth = Truth(
        "a benchmark of speed",
        True,
        tuple(case for case in cases if case.case_id in present),
        tuple(case for case in cases if case.case_id not in present),
    )
    with tempfile.TemporaryDirectory() as directory:
        folders = {f"maker {number}": Path(directory) / f"{number}" for number in range(MAKERS)}
        for number, folder in enumerate(folders.values()):
            write(folder, cases, present, number < 2, random)
        begun, processor = time.perf_counter(), processor_time()
        graded = grading.grade_folders(folders, truth, None, workers=2)
        read, read_processor = time.perf_counter(), processor_time()
        graded, sweep = study.prepared(graded, folders)
        table = summary.summarise(pl.concat([one.rows for one in graded.values()]))
        made = study.study(graded, folders, truth, table, sweep)
        summary.write(Path(directory) / "graded", truth, graded, table, None)
        study.write(Path(directory) / "graded", made, table, truth)
        ended, ended_processor = time.perf_counter(), processor_time()
    maps = MAKERS * len(present)
    print(f"{MAKERS} makers x {len(PHANTOM_FINDINGS)} findings x {radiographs} radiographs, {maps:,} maps graded")
    print(f"grading the maps: {read - begun:.1f} s elapsed, {read_processor - processor:.1f} s of processor time "
          f"({1000 * (read_processor - processor) / maps:.2f} ms per map)")  # fmt: skip
    print(f"tables and page: {ended - read:.1f} s elapsed, {ended_processor - read_processor:.1f} s of processor time")
    print(f"together: {ended - begun:.1f} s elapsed (limit: 30 s), {ended_processor - processor:.1f} s of processor "
          "time")  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else RADIOGRAPHS)
