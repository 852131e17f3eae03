"""Speed of a study's tables: seven makers, ten findings, 668 radiographs, from graded rows to the page's tables.

Reading and grading the pixels of the maps is not part of it.

python benchmarks/maps/run.py
"""

from __future__ import annotations

import time

import numpy as np
import polars as pl

from chexqa.contract.findings import PHANTOM_FINDINGS
from chexqa.eval.heatmaps import conclusions, grading, metrics, recognition, summary, tuned

MAKERS, RADIOGRAPHS, PRESENT = 7, 668, 0.3


def drawn(model: str, random: np.random.Generator) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows of one maker as grading makes them, and its scores, of radiographs that each show some findings."""
    rows, scores = [], []
    names = (*metrics.METRICS, *metrics.SWEPT["iou"], *metrics.SWEPT["dice"])
    for finding in PHANTOM_FINDINGS:
        for number in range(RADIOGRAPHS):
            about = (f"{number}/{finding}", f"p{number}", None, f"{number}")
            present = (number * 7919 + len(finding) * 104729) % 1000 < 1000 * PRESENT
            scores.append((model, finding, *about, present, random.normal(float(present))))
            if present:
                row = dict(zip(names, random.random(len(names)), strict=True))
                row |= {"model": model, "finding": finding, "case_id": about[0], "patient_id": about[1],
                        "picture": about[3], "state": "graded", "cell": 1, "lesion_share": random.random(),
                        "components": 1, "pointing": float(random.random() < 0.5)}  # fmt: skip
                rows.append(row)
    return pl.DataFrame(rows, schema=grading.COLUMNS), pl.DataFrame(scores, schema=recognition.COLUMNS, orient="row")


def main() -> None:
    random = np.random.default_rng(0)
    made = [drawn(f"maker {number}", random) for number in range(MAKERS)]
    begun, processor = time.perf_counter(), time.process_time()
    rows = pl.concat([tuned.with_tuned(one)[0] for one, _ in made])
    scores = pl.concat([one for _, one in made])
    table, known = summary.summarise(rows), recognition.summarise(scores)
    thirds = conclusions.with_thirds(rows)
    conclusions.sizes(thirds)
    conclusions.domains(table, known, {f"maker {number}": "cxr" for number in range(MAKERS)})
    conclusions.correlations(thirds, table, scores, known)
    took, used = time.perf_counter() - begun, time.process_time() - processor
    size = f"{MAKERS} makers x {len(PHANTOM_FINDINGS)} findings x {RADIOGRAPHS} radiographs"
    print(f"tables of {size}: {took:.1f} s, {used:.1f} s of processor (limit 30 s)")


if __name__ == "__main__":
    main()
