"""Coverage of a report's intervals: how often they contain the models' true skills, in simulated studies.

Fourteen simulated models answer a made-up benchmark of seven findings. A model's skill at a level is the probability
that it knows an answer; otherwise it guesses. Skills vary between patients.

    python benchmarks/coverage/studies.py [STUDIES] [CASES …]

- STUDIES: the number of simulated studies (default: 200).
- CASES: the number of cases in a study; several numbers simulate several sizes of study (default: 2100 100).

For each size, the script prints the share of intervals that contain the true skill, and the mean width of intervals.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import numpy.typing as npt
import polars as pl

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.kinds import LEVELS
from chexqa.contract.read_run import Run
from chexqa.eval.scoring import grade
from chexqa.eval.scoring.grade import Graded
from chexqa.eval.scoring.sample import scored_sample
from chexqa.eval.tables.levels_and_stages import OVERALL, levels

OTHERS = Path(__file__).parents[1]
SKILLS: dict[str, tuple[float, ...]] = runpy.run_path(str(OTHERS / "study" / "run.py"))["SKILLS"]
synthetic = SimpleNamespace(**runpy.run_path(str(OTHERS / "report" / "synthetic.py")))
# Correlation of a patient's answers.
CORRELATION = 0.2
SIZES = (2100, 100)
Bools = npt.NDArray[np.bool_]


def answered(bench: Benchmark, random: np.random.Generator) -> dict[str, Bools]:
    """Draw the items that each model answers right; return a bool for each item of the benchmark, keyed by model."""
    assert bench.answers is not None
    assert bench.cases is not None
    level = np.array([LEVELS.index(item.level) for item in bench.items])  # type: ignore[arg-type]
    chance = np.array([bench.answers[item.item_id].chance for item in bench.items])
    names = [str(bench.cases[item.case_id].patient_id) for item in bench.items]
    patient = np.unique(names, return_inverse=True)[1]
    spread = (1 - CORRELATION) / CORRELATION
    found = {}
    for model, skills in SKILLS.items():
        mean = np.array(skills)
        own = random.beta(mean * spread, (1 - mean) * spread, (patient.max() + 1, len(LEVELS)))
        knows = random.random(len(level)) < own[patient, level]
        found[model] = knows | (random.random(len(level)) < chance)
    return found


def run_of(bench: Benchmark, right: dict[str, Bools]) -> Run:
    """Return a run in which each model's answers are right where its array in ``right`` is True."""
    assert bench.answers is not None
    turns = []
    for model, flags in right.items():
        for item, flag in zip(bench.items, flags, strict=True):
            key = bench.answers[item.item_id].answer
            said = key if flag else next((option.n,) for option in item.options if (option.n,) != key)
            turns.append(synthetic.turn(model, "end_to_end", item, said))
    about = {"protocol": "end_to_end", "blind": False, "models": {model: {} for model in right},
             "benchmark": {"name": "synthetic", "version": "1", "hash": bench.hash, "path": "synthetic"}}  # fmt: skip
    return Run(Path("run"), about, tuple(turns))


def with_column_correct(graded: Graded, correct: Bools) -> Graded:
    """Return a copy of ``graded`` with other values in the column ``correct``, one for each row of the grades.

    The column ``state`` is changed to match.
    """
    flags = pl.Series("correct", correct)
    state = pl.when(flags).then(pl.lit("correct")).otherwise(pl.lit("wrong")).alias("state")
    return Graded(graded.benchmark, graded.runs, graded.grades.with_columns(flags, state), graded.domains)


def held(graded: Graded) -> pl.DataFrame:
    """Return a row for each model and level, with the columns ``level, model, held, width``.

    ``held`` is True if the interval contains the true skill; ``width`` is the interval's width.
    """
    table = levels(scored_sample(graded)).select("model", "level", "corrected", "corrected_low", "corrected_high")
    places = [*LEVELS, OVERALL]
    truth = {(model, level): value for model, skills in SKILLS.items()
             for level, value in zip(places, (*skills, float(np.mean(skills))), strict=True)}  # fmt: skip
    known = pl.Series("truth", [truth[row] for row in table.select("model", "level").iter_rows()])
    return table.with_columns(known).select(
        "level", "model",
        ((pl.col("corrected_low") <= pl.col("truth")) & (pl.col("truth") <= pl.col("corrected_high"))).alias("held"),
        (pl.col("corrected_high") - pl.col("corrected_low")).alias("width"),
    )  # fmt: skip


def simulate(cases: int, studies: int) -> pl.DataFrame:
    """Simulate studies of one size; return the rows of :func:`held` for all of them, with a column ``study``.

    ``cases`` is rounded up to a multiple of 21.
    """
    graded: Graded | None = None
    parts = []
    for number in range(studies):
        random = np.random.default_rng([cases, number])
        # Large studies share one benchmark and its graded run; only the answers are drawn again, which is faster.
        # The assertion holds that both ways give the same grades.
        if graded is None or cases < 1000:
            bench = synthetic.benchmark(-(-cases // 21), False, number)
            right = answered(bench, random)
            graded = grade.grade_runs(bench, [run_of(bench, right)])
            again = with_column_correct(graded, np.concatenate([*right.values()]))
            same = again.grades.select("model", "item_id", "state", "correct")
            assert same.equals(graded.grades.select("model", "item_id", "state", "correct"))
        else:
            right = answered(graded.benchmark, random)
            graded = with_column_correct(graded, np.concatenate([*right.values()]))
        parts.append(held(graded).with_columns(pl.lit(number).alias("study")))
        if number % 20 == 19:
            share = 100 * pl.concat(parts)["held"].mean()
            print(f"{cases} cases, {number + 1} studies so far: {share:.1f} % coverage", flush=True)
    return pl.concat(parts)


def main(studies: int, sizes: tuple[int, ...]) -> None:
    for cases in sizes:
        found = simulate(cases, studies)
        by_level = found.group_by("level", maintain_order=True).agg(pl.col("held", "width").mean())
        told = [f"{level} {100 * share:.1f} % (mean width {100 * width:.0f} points)" for level, share, width in
                by_level.iter_rows()]  # fmt: skip
        print(f"{21 * -(-cases // 21):,} cases, {studies} studies, {len(SKILLS)} models: "
              f"{100 * found['held'].mean():.1f} % of {found.height:,} intervals contain the true skill; "
              f"by level: {'; '.join(told)}", flush=True)  # fmt: skip


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:]]
    main(numbers[0] if numbers else 200, tuple(numbers[1:]) or SIZES)
