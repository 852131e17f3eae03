"""Study of six simulated models whose threshold, calibration and sensitivity are known: does the report recover them?

    python benchmarks/limits/study.py [REPEATS] [OUT] [BENCH]

The models answer 560 cases, without stress and under all kinds of stress. The script prints each model's true values
beside the estimates in the report's tables. It then repeats the study REPEATS times with newly drawn answers. It prints
the mean of each model's estimates (the median for thresholds), and how many intervals contain the true value.

BENCH is a benchmark made by the recipe ``jnd``; the default has plain pictures. OUT is a folder for the report of the
first study. 40 repeats take about two minutes.
"""

from __future__ import annotations

import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np

from chexqa.contract import benchmark
from chexqa.contract.benchmark import Benchmark
from chexqa.eval.confidence.confidence_tables import ALL, confidences
from chexqa.eval.report import build
from chexqa.eval.scoring.grade import Graded
from chexqa.eval.scoring.sample import scored_sample
from chexqa.eval.stress.cells import HISTORY, WORDING
from chexqa.eval.tables.all_tables import groups
from chexqa.eval.thresholds.observations import TASKS
from chexqa.eval.thresholds.stress_tables import stress
from chexqa.eval.thresholds.threshold_table import thresholds

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))
from planted_limits import SIX, by_model, handmade, study

SHOWN = ("noise", "blur", "contrast", WORDING, HISTORY)


class Estimate(NamedTuple):
    """A number in a table of the report: its value, the ends of its 95 % interval, and the value as printed text."""

    value: float | None
    low: float | None
    high: float | None
    text: str


def found(graded: Graded) -> dict[str, dict[str, Estimate]]:
    """Return the numbers in the tables of a study, keyed by model and then by the number's name."""
    sample = scored_sample(graded)
    tables = [by_model(table, column) for table, column in ((thresholds(sample), "seen_in"),
              (confidences(sample)["confidence"], "level"), (stress(sample), "stress"))]  # fmt: skip
    numbers: dict[str, dict[str, Estimate]] = {model.name: {} for model in SIX}
    for name, own in numbers.items():
        for task in TASKS:
            row = tables[0][name][task]
            low, _, high = (row["reads_between"] or "nan to nan").partition(" to ")
            ends = (_depth(low, "<", 0.0), _depth(high, ">", np.inf))
            own[f"threshold, {task}"] = Estimate(row["threshold"], *ends, row["reads"])
        row = tables[1][name][ALL]
        chance = f"by chance {100 * row['ece_by_chance']:.1f} %"
        own["ece"] = Estimate(row["ece"], None, None, f"{100 * row['ece']:.1f} %, {chance}")
        for column in ("overconfidence", "auroc"):
            own[column] = Estimate(row[column], row[f"{column}_low"], row[f"{column}_high"], _share(row[column]))
        for kind in SHOWN:
            row = tables[2][name][kind]
            own[kind] = Estimate(row["flips"], row["flips_low"], row["flips_high"], _share(row["flips"]))
    return numbers


def _share(value: float | None) -> str:
    return "no number" if value is None else f"{100 * value:.1f} %"


def _depth(text: str, sign: str, beyond: float) -> float:
    """Return the end of an interval from its text; ``beyond`` if the text starts with ``sign``."""
    return beyond if text.startswith(sign) else float(text.strip("<> "))


def main(repeats: int = 40, out: str = "", folder: str = "") -> None:
    with tempfile.TemporaryDirectory() as place:
        bench = benchmark.load(Path(folder)) if folder else handmade(Path(place))
        first, planted = study(bench, SIX, 0)
        for name, own in found(first).items():
            print(f"{name}")
            for number, (_, _, _, text) in own.items():
                print(f"    {number}: known {_planted(planted[name], number)}, found {text}")
        if out:
            build.write_report(groups(first), Path(out) / "report", overwrite=True)
        if repeats:
            again(bench, repeats)


def _planted(of: dict[str, float], number: str) -> str:
    value = of[number.partition(",")[0]]
    return _pixels(value) if number.startswith("threshold") else f"{100 * value:.1f} %"


def _pixels(value: float) -> str:
    return f"{value:g} px" if value < 1000 else "no error is seen"


def again(bench: Benchmark, repeats: int) -> None:
    """Repeat the study; print the mean of each model's estimates, and how many intervals contain the true value."""
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    held: dict[str, list[bool]] = defaultdict(list)
    truth: dict[tuple[str, str], list[float]] = defaultdict(list)
    for seed in range(1, repeats + 1):
        graded, planted = study(bench, SIX, seed)
        for name, own in found(graded).items():
            for number, (value, low, high, _) in own.items():
                due = planted[name][number.partition(",")[0]]
                values[name, number].append(np.nan if value is None else value)
                truth[name, number].append(due)
                if low is not None and high is not None and not np.isnan(low):
                    held[number.partition(",")[0]].append(low - 1e-9 <= due <= high + 1e-9)
    print(f"estimates of {repeats} studies; for thresholds, only estimates in the tested range count:")
    for (name, number), found_ in values.items():
        due, inside = float(np.mean(truth[name, number])), [one for one in found_ if not np.isnan(one)]
        if number.startswith("threshold"):
            middle = f"{np.median(inside):.1f} px" if inside else "none"
            print(f"{name}, {number}: true value {_pixels(due)}, median estimate {middle} ({len(inside)} of {repeats} "
                  "studies have an estimate in the tested range)")  # fmt: skip
        else:
            print(f"{name}, {number}: true value {100 * due:.1f} %, mean estimate {100 * float(np.mean(inside)):.1f} %")
    for number, all_ in held.items():
        print(f"{number}: {100 * float(np.mean(all_)):.1f} % of {len(all_)} intervals contain the true value")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]), *sys.argv[2:])
