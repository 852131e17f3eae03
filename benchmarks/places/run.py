"""Check of the scoring of places: measured scores of the baselines beside scores computed without chexqa's scoring.

    python benchmarks/places/run.py [PHANTOMS]

The script makes a benchmark of phantoms and asks the baselines. It computes the expected scores from the masks in the
key. The exit code is 1 if a score is more than three standard errors away from the expected one, or if the baseline
``oracle`` has a wrong answer. 1,000 phantoms take some minutes.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import polars as pl
from PIL import Image
from scipy.ndimage import distance_transform_edt

import chexqa
from chexqa.contract.benchmark import Benchmark
from chexqa.imaging.masks import from_rle
from chexqa.imaging.read import Mask
from chexqa.phantoms import write_cases
from chexqa.phantoms.synth import PHANTOM_FINDINGS

SIDE, CELLS, TOLERANCE = 256, 128, 0.015
BASELINES = ("oracle", "centre", "average-map", "chance")


def masks_of(bench: Benchmark, case_id: str) -> dict[str, Mask]:
    """Return the masks that the key has for a case, keyed by name."""
    stored = bench.key("a benchmark")[1][case_id].measures.get("masks", {})
    return {name: from_rle(runs, case_id) for name, runs in stored.items()}


def is_near(mask: Mask, x: float, y: float) -> bool:
    """Return True if the pixel at ``x, y`` lies in the mask or at most the tolerance away from it."""
    distance = distance_transform_edt(~mask)
    return bool(distance[int(y), int(x)] <= TOLERANCE * max(mask.shape))


def expected_hits(bench: Benchmark) -> dict[str, list[float]]:
    """Return, for each baseline but ``oracle``, the probabilities that its points are right.

    Each list has one probability for each question that asks for a point and whose finding is present.
    """
    answers, cases = bench.key("a benchmark")
    asked = [one for one in bench.items if one.kind == "point_at" and answers[one.item_id].answer == (1,)]
    masks = {item.case_id: masks_of(bench, item.case_id) for item in asked}
    small = {name: _cells(found["lesion"]) for name, found in masks.items()}
    by_finding: dict[str, list[str]] = defaultdict(list)
    for item in asked:
        by_finding[item.finding].append(item.case_id)
    found: dict[str, list[float]] = {name: [] for name in BASELINES[1:]}
    for item in asked:
        lesion, person = masks[item.case_id]["lesion"], cases[item.case_id].patient_id
        height, width = lesion.shape
        found["centre"].append(float(is_near(lesion, width / 2, height / 2)))
        others = [small[name] for name in by_finding[item.finding] if cases[name].patient_id != person]
        row, column = np.unravel_index(int(np.sum(others, axis=0).argmax()), (CELLS, CELLS)) if others else (64, 64)
        place = (column + 0.5) * width / CELLS, (row + 0.5) * height / CELLS
        found["average-map"].append(float(is_near(lesion, *place)))
        lungs = masks[item.case_id]["right_lung"] | masks[item.case_id]["left_lung"]
        near = distance_transform_edt(~lesion) <= TOLERANCE * max(lesion.shape)
        # This baseline answers "nowhere" half of the time.
        found["chance"].append(np.count_nonzero(near & lungs) / np.count_nonzero(lungs) / 2)
    return found


def _cells(mask: Mask) -> np.ndarray:
    picture = Image.fromarray(mask.astype(np.float32))
    return np.asarray(picture.resize((CELLS, CELLS), Image.Resampling.BOX), float)


def main(count: int) -> int:
    """Print a table of measured and expected scores; return the exit code (1: they differ, or items are missing)."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        write_cases(home / "cases", count, seed=11, size=SIDE, findings=PHANTOM_FINDINGS)
        bench = chexqa.generate(home / "cases", home / "bench", recipes="places", seed=1)
        chexqa.evaluate(bench, [f"baseline/{name}" for name in BASELINES], home / "run", protocol="independent")
        grades = chexqa.grade(home / "run").grades
        expected = expected_hits(bench)
    asked = grades.filter(~pl.col("kind").str.starts_with("marker"))
    oracle = asked.filter(pl.col("model") == "baseline/oracle")
    right = oracle.filter(pl.col("state") == "correct").height
    print(f"{count:,} phantoms of {SIDE} px, {time.perf_counter() - start:.0f} s")
    print(f"oracle: {right:,} of {oracle.height:,} questions right (all must be)")
    failed = right != oracle.height
    print(
        "share of hits in questions that ask for a point on a present finding; measured: as scored by chexqa; "
        "expected: as computed from the masks, without chexqa's scoring"
    )
    print("baseline      | questions | measured | expected | standard error | difference / standard error")
    for name, hits in expected.items():
        rows = asked.filter(
            (pl.col("model") == f"baseline/{name}")
            & (pl.col("kind") == "point_at")
            & (pl.col("answer").list.first() == 1)
        )
        measured, wanted = float((rows["state"] == "correct").mean() or 0), float(np.mean(hits))
        error = float(np.sqrt(np.mean(np.array(hits) * (1 - np.array(hits))) / len(hits)))
        error = error or float(np.sqrt(wanted * (1 - wanted) / len(hits)))
        away = abs(measured - wanted) / error
        failed |= away > 3 or rows.height != len(hits)
        print(f"{name:13} | {rows.height:9,} | {measured:8.4f} | {wanted:8.4f} | {error:14.4f} | {away:27.2f}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
