"""Speed of all tables with intervals and of the report's page, for 14 models on 11,800 items.

    python benchmarks/report/run.py [MODELS]

The table of levels and kinds is also made by a bootstrap in a loop with pandas, for comparison.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import synthetic

from chexqa.contract import read_run
from chexqa.contract.kinds import LEVELS
from chexqa.contract.read_run import Run
from chexqa.eval.report import build
from chexqa.eval.scoring import grade
from chexqa.eval.scoring.sample import scored_sample
from chexqa.eval.tables import levels_and_stages
from chexqa.eval.tables.all_tables import Group
from chexqa.stats import REPLICATES

LOOPED = 10


def read_log_seconds(run: Run) -> float:
    """Return the seconds to read the run's turns from a log on the disk."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "turns.jsonl"
        path.write_text("".join(json.dumps(turn.to_record()) + "\n" for turn in run.turns))
        start = time.perf_counter()
        read_run.read_log(path)
        return time.perf_counter() - start


def loop_seconds(grades: pd.DataFrame) -> float:
    """Return the seconds that a loop over 2,000 bootstrap replicates of all scores would take."""
    compared = grades[grades["level"].isin(LEVELS) & (grades["finding"] != levels_and_stages.NOT_COMPARED)]
    patients = dict(iter(compared.groupby("patient_id")))
    names = np.array(list(patients))
    random = np.random.default_rng(0)
    start = time.perf_counter()
    for _ in range(LOOPED):
        drawn = pd.concat([patients[name] for name in random.choice(names, len(names))])
        kinds = drawn.groupby(["model", "level", "kind"]).agg(right=("correct", "mean"), chance=("chance", "mean"))
        kinds["corrected"] = (kinds["right"] - kinds["chance"]) / (1 - kinds["chance"])
        kinds.groupby(["model", "level"]).mean()
    return (time.perf_counter() - start) / LOOPED * REPLICATES


def main(models: int) -> None:
    bench = synthetic.benchmark()
    run = synthetic.run(bench, models)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    start, start_cpu = time.perf_counter(), time.process_time()
    graded = grade.grade_runs(bench, [run])
    middle = time.perf_counter()
    group = Group(1, 1, graded)
    frames = group.tables
    done, cpu = time.perf_counter(), time.process_time() - start_cpu
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    start_page, start_page_cpu = time.perf_counter(), time.process_time()
    made = build.page_files(group)
    page, page_cpu = time.perf_counter() - start_page, time.process_time() - start_page_cpu
    with_page = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    reading = read_log_seconds(run)
    study = scored_sample(graded)
    start_one = time.perf_counter()
    levels_and_stages.levels(scored_sample(graded))
    one = time.perf_counter() - start_one
    columns = ["model", "level", "kind", "finding", "patient_id", "correct", "chance"]
    loop = loop_seconds(pd.DataFrame(graded.grades.select(columns).to_dict(as_series=False)))
    numbers = sum(frame[name].count() for frame in frames.values() for name in frame.columns if name.endswith("_low"))
    rows = graded.grades.height
    print(f"{models} models x {len(bench.items):,} items of {study.sample.size:,} {study.sample.unit}: {rows:,} grades")
    print(f"reading the log: {reading:.1f} s")
    print(f"grading: {middle - start:.1f} s")
    print(f"{len(frames)} tables, {numbers:,} intervals, all tests: {done - middle:.1f} s")
    print(f"together: {done - start:.1f} s ({cpu:.1f} s of processor time)")
    print(f"peak memory: {memory:,.0f} MB, of which {before:,.0f} MB are the items and turns")
    print(f"page of {len(made[build.INDEX]) / 1e6:.1f} MB and {len(made) - 1} plot files: made in {page:.1f} s "
          f"({page_cpu:.1f} s of processor time), peak memory {with_page:,.0f} MB")  # fmt: skip
    print(
        f"table of levels: {one:.2f} s; a pandas loop over replicates takes {loop:,.0f} s, {loop / one:,.0f} times as "
        "long"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
