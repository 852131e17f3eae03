"""Coverage of two kinds of 95 % intervals, in simulated studies.

    python benchmarks/coverage/gaps_and_ratios.py [DRAWS]

- The gap of a subgroup: the accuracy on its patients minus the accuracy on the other patients.
- The ratio of a model's score without radiographs to its score with radiographs.

DRAWS is the number of simulated studies (default: 1,000, which take five minutes). The script prints a row for each
kind of study: the share of intervals that contain the true value, and the mean width of the intervals.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import numpy.typing as npt
import polars as pl

from chexqa.eval.scoring.associations import ratios
from chexqa.eval.scoring.intervals import Groups, Sample, corrected
from chexqa.eval.scoring.sample import RIGHT, WEIGHT
from chexqa.eval.tables.subgroups import gaps

run = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("run.py"))))
FINDINGS, GAP = 7, 0.05
Floats = npt.NDArray[np.floating]


def people(random: np.random.Generator, patients: int, kinds: int, share: float, p: float, rho: float) -> pl.DataFrame:
    """Simulate the answers of a study with the groups A (a ``share`` of the patients) and B; A is better by GAP.

    A patient has one of seven findings and one item of each kind; ``rho`` is the correlation of a patient's answers.
    """
    finding = random.integers(0, FINDINGS, patients)
    in_a = random.random(patients) < share
    skill = np.clip(p + np.linspace(-0.15, 0.1, FINDINGS), 0.05, 0.99 - GAP)[finding] + GAP * in_a
    own = random.beta(skill * (1 - rho) / rho, (1 - skill) * (1 - rho) / rho) if rho else skill
    right = random.random((patients, kinds)) < own[:, None]
    return pl.DataFrame(
        {"model": "m", "protocol": "p", "score": "fine", "group": np.repeat(np.where(in_a, "A", "B"), kinds),
         "finding": np.repeat(finding, kinds), "kind": np.tile(np.arange(kinds), patients),
         "cluster": np.repeat(np.arange(patients), kinds), WEIGHT: 1.0, RIGHT: right.ravel().astype(float)}
    )  # fmt: skip


def gap(random: np.random.Generator, patients: int, kinds: int, share: float, p: float, rho: float) -> Floats:
    """Simulate one study with the arguments of :func:`people`; return the interval (low, high) of group A's gap.

    The gap is group A's accuracy minus the accuracy of the other patients.
    """
    rows = people(random, patients, kinds, share, p, rho)
    cells = Groups(Sample("patients", patients), rows, ["model", "protocol", "group", "score", "finding", "kind"])
    groups = rows.select("model", "protocol", "group", "score").unique(maintain_order=True)
    found = gaps(cells.keys, cells.sums(RIGHT), cells.sums(WEIGHT), groups).interval()
    return np.array(found)[:, groups["group"].to_list().index("A")]


def retained(random: np.random.Generator, patients: int, seen: float, kept: float, rho: float, draws: int) -> Floats:
    """Simulate ``draws`` studies; return intervals for the ratio of the scores without and with radiographs.

    - ``seen``: the true score with radiographs, corrected for chance.
    - ``kept``: the true score without radiographs, divided by ``seen``.
    - ``rho``: the correlation of a patient's answers.

    Each patient has four yes/no answers. The result ``(2, draws)`` has the lower and the upper end of each study's
    interval of ``kept``.
    """
    skill = run.skills(random, 0.5 + seen / 2, rho, (draws, patients))[..., None]
    right = random.random((draws, patients, 4)) < skill
    # Without the radiograph an answer stays as it is, or is guessed.
    blind = np.where(random.random(right.shape) < kept, right, random.random(right.shape) < 0.5)
    every = np.full((draws, patients), 4.0)
    parts = [corrected(run.sums(one.sum(axis=2, dtype=float)), run.sums(every / 2), run.sums(every))
             for one in (blind, right)]  # fmt: skip
    found = ratios(parts[0].join(parts[1]), [(one, draws + one) for one in range(draws)])
    return np.array([found["low"], found["high"]])


def show(title: str, ends: Floats, truth: float) -> None:
    low, high = ends[:, np.isfinite(ends).all(axis=0)]
    held = ((low <= truth) & (truth <= high)).mean()
    width = 100 * (high - low).mean()
    found = f"{100 * held:.1f} % of {len(low)} intervals contain the true value; mean width {width:.0f} points"
    print(f"{title}: {found}", flush=True)


def main(draws: int) -> None:
    for patients in (60, 100, 200):
        for kinds, share, p, rho in ((1, 0.5, 0.6, 0), (1, 0.5, 0.85, 0), (4, 0.5, 0.6, 0.2), (4, 0.5, 0.85, 0),
                                     (4, 0.3, 0.85, 0.2)):  # fmt: skip
            random = np.random.default_rng([patients, kinds, round(100 * p)])
            ends = np.array([gap(random, patients, kinds, share, p, rho) for _ in range(draws)]).T
            show(
                f"gap, {patients} patients, {kinds} kinds, {share:g} of them in the group, p {p}, rho {rho}", ends, GAP
            )
    for patients in (30, 100, 300):
        for seen in (0.9, 0.6, 0.3):
            for kept in (0.0, 0.3, 0.9):
                random = np.random.default_rng([patients, round(10 * seen), round(10 * kept)])
                ends = retained(random, patients, seen, kept, 0.2, draws)
                show(f"retained, {patients} patients, {seen} with radiographs, {kept} of it without", ends, kept)


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 1000)
