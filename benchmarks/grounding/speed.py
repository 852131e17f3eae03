"""Speed of altered pictures: the time that they add to a generation, and the time of the grounding tables of 14 models.

    python benchmarks/grounding/speed.py CASES [PATIENTS]

CASES is a folder of cases or a manifest. The script makes a benchmark of it with and without altered pictures, and
prints processor times, numbers of pictures, and the ratio of the times per picture. Then it times the tables of 14
simulated models, for this benchmark and for PATIENTS made-up patients (default 2,000). 20 phantoms take half a minute.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from chexqa import question_banks
from chexqa.contract import benchmark
from chexqa.eval.grounding import grounding_tables
from chexqa.eval.scoring.sample import scored_sample
from chexqa.generators.interventions.fills import Fill
from chexqa.generators.pipeline import generate_benchmark, recipe
from chexqa.generators.pipeline.job import make_job

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))
import planted_looks

MODELS = 14


def made(cases: Path, out: Path, fill: Fill | None) -> tuple[float, int]:
    """Generate a benchmark; return the processor time in seconds and the number of pictures."""
    job = make_job([recipe.load(name) for name in recipe.DEFAULT], question_banks.load("en"), 0, fill=fill)
    before = resource.getrusage(resource.RUSAGE_SELF)
    generate_benchmark.generate(cases, out, job)
    after = resource.getrusage(resource.RUSAGE_SELF)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, sum(1 for _ in out.glob("images/*/*.png"))


def main(cases: Path, patients: int = 2000) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        times: dict[Fill | None, tuple[float, int]] = {}
        for number in range(2):
            for fill in (None, "inpaint"):
                found = made(cases, folder / f"{fill}-{number}", fill)
                times[fill] = min(found, times.get(fill, found))
        (plain, few), (whole, many) = times[None], times["inpaint"]
        print(f"without altered pictures: {plain:.2f} s, {few} pictures; with them: {whole:.2f} s, {many} pictures")
        print("time per picture, as a multiple of the time for original pictures: "
              f"{(whole - plain) / (many - few) * few / plain:.2f} for altered pictures, "
              f"{whole / many * few / plain:.2f} for original and altered pictures together")  # fmt: skip
        bench = benchmark.load(folder / "inpaint-0")
        models = [replace(planted_looks.SIX[number % 6], name=f"model {number}") for number in range(MODELS)]
        study = scored_sample(planted_looks.graded(bench, planted_looks.run_of(bench, models, 1, released=True)))
        start = time.perf_counter()
        for table in (grounding_tables.grounding, grounding_tables.grounding_findings, grounding_tables.not_audited):
            table(study)
        print(f"tables of {MODELS} models, {len(bench.cases or {})} cases: {time.perf_counter() - start:.2f} s")
        start = time.perf_counter()
        planted_looks.table_of({model.name: model.rates for model in models}, patients, 1)
        print(f"time for the grounding measures of {MODELS} models, {patients:,} cases with the finding: "
              f"{time.perf_counter() - start:.2f} s")  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
