"""A study with a known truth: fourteen models of known skill are asked, and the report must recover the skills.

``python benchmarks/study/run.py BENCH FOLDER`` lets the simulated models answer the benchmark BENCH, and writes run and
report into FOLDER. A model knows an answer with a probability equal to its skill, and otherwise guesses. The script
prints the seconds, how many 95 % intervals contain the known skill, and the rank correlation of the scores with the
known ranking.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import polars as pl
import yaml
from scipy import stats

from chexqa.cli.main import run as chexqa
from chexqa.contract.kinds import LEVELS

# Skills typical of current models: good at coarse detection, poor at the outline and its description.
SKILLS = {
    f"sim-{number + 1:02d}": (
        round(0.92 - 0.045 * number, 3),
        round(0.45 - 0.03 * number, 3),
        round(0.6 - 0.04 * number, 3),
    )
    for number in range(14)
}
GRID_SKILL = 0.5


def models_file(folder: Path) -> Path:
    """Write the simulated models into a ``models.yaml`` and return its path; every third model counts as medical."""
    price = {"input_per_million_usd": 0, "output_per_million_usd": 0}
    models = [
        {
            "name": name,
            "litellm": "baseline/skill-" + "-".join(f"{100 * value:.1f}" for value in (*skills, GRID_SKILL)),
            "domain": "medical" if number % 3 == 2 else "general",
            "access": "baseline",
            "price": price,
        }
        for number, (name, skills) in enumerate(SKILLS.items())
    ]
    path = folder / "models.yaml"
    path.write_text(yaml.safe_dump({"models": models}, sort_keys=False))
    return path


def call(*arguments: object) -> float:
    """Run one ``chexqa`` command and return the seconds it took; end the script if the command fails."""
    start = time.perf_counter()
    code = chexqa([str(argument) for argument in arguments])
    if code:
        raise SystemExit(code)
    return time.perf_counter() - start


def print_agreement(scores: pl.DataFrame, level: str, skills: dict[str, float]) -> None:
    """Print how well the scores at one level agree with the models' known skills.

    - ``scores``: the report's rows of this level, one for each model.
    - ``skills``: the known skills at this level, keyed by model.
    """
    found = {row["model"]: row for row in scores.to_dicts()}
    held = [found[name]["corrected_low"] <= skill <= found[name]["corrected_high"] for name, skill in skills.items()]
    tau = stats.kendalltau(list(skills.values()), [found[name]["corrected"] for name in skills])
    print(f"level: {level}; intervals that contain the known skill: {sum(held)} of {len(held)}; "
          f"rank correlation with the known skills (tau): {round(float(tau.statistic), 3)}")  # fmt: skip


def main(bench: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    models = models_file(folder)
    run, report = folder / "run", folder / "report"
    names = ",".join(SKILLS)
    seconds = call("eval", bench, "--models", names, "--models-file", models, "-o", run, "--concurrency", 32)
    print(f"eval: {seconds:.0f} s")
    seconds = call("report", run, "-o", report, "--models-file", models)
    size = (report / "index.html").stat().st_size / 1e6
    print(f"report: {seconds:.1f} s; index.html {size:.1f} MB")
    levels = pl.read_parquet(report / "tables" / "levels.parquet")
    for place, level in enumerate(LEVELS):
        known = {name: skills[place] for name, skills in SKILLS.items()}
        print_agreement(levels.filter(pl.col("level") == level), level, known)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
