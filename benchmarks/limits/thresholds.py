"""Bias of thresholds and coverage of their 95 % intervals, for simulated observers of known thresholds.

An observer answers 560 items of each of the three tasks, two of each patient, whose answers are correlated. Depths lie
between 2 and 60 px on a log scale, as in the recipe ``jnd``. Two of the thresholds lie outside these depths.
``--docs`` writes the table of docs/limits-of-perception.md. Run it with `python benchmarks/limits/thresholds.py [RUNS]
[--docs]`; 200 runs take about five minutes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from scipy import special

from chexqa.eval.thresholds.fit import fit
from chexqa.eval.thresholds.psychometric import FOUR, Form, Task, task_of

THRESHOLDS = (1.5, 4.0, 10.0, 25.0, 75.0)
ITEMS, POINTS, DEPTHS = 560, 6, (2.0, 60.0)
SLOPE, LAPSE, CRITERION, FLOOR = 1.5, 0.02, 0.8, 0.15
ALIKE = 0.2  # correlation of a patient's answers on the normal scale
FORMS: dict[str, Form] = {"contour": "yes_no", "points": "marks", "pictures": "choice"}
PAGE = Path(__file__).parents[2] / "docs" / "limits-of-perception.md"


def probability(form: Form, depth: np.ndarray, threshold: float) -> np.ndarray:
    """Return the probability of a response at these depths (NaN: no error)."""
    z = np.nan_to_num((depth / threshold) ** SLOPE, nan=0.0)
    if form == "yes_no":
        return LAPSE / 2 + (1 - LAPSE) * special.ndtr(z - CRITERION)
    floor = FOUR if form == "choice" else FLOOR
    return floor + (1 - floor - LAPSE) * (1 - 2.0**-z)


def observed(random: np.random.Generator, form: Form, threshold: float, items: int = ITEMS) -> Task:
    """Return the answers of a simulated observer to the items of one task."""
    patient = np.repeat(np.arange(items // 2), 2)
    depth = np.exp(random.uniform(*np.log(DEPTHS), items))
    if form == "yes_no":
        depth[random.random(items) < 0.5] = np.nan
    if form == "marks":
        patient = np.repeat(patient, POINTS)
        others = np.full((items, POINTS - 1), np.nan)
        depth = np.column_stack([np.where(random.random(items) < 0.5, depth, np.nan), others]).ravel()
    latent = np.sqrt(ALIKE) * random.standard_normal(items)[patient] + np.sqrt(1 - ALIKE) * random.standard_normal(
        len(patient)
    )
    return task_of(form, depth, special.ndtr(latent) < probability(form, depth, threshold), patient)


def run(random: np.random.Generator, threshold: float) -> np.ndarray:
    """Return value, lower and upper end of the threshold of each task, ``(3, 3)``."""
    found = fit({name: observed(random, form, threshold) for name, form in FORMS.items()})
    return np.array([found[name][:3] for name in FORMS])


def main(runs: int, docs: bool) -> None:
    lines = ["| threshold | " + " | ".join(f"{name}: median bias, coverage" for name in FORMS) + " |",
             "|---" * (1 + len(FORMS)) + "|"]  # fmt: skip
    for threshold in THRESHOLDS:
        random = np.random.default_rng(round(10 * threshold))
        found = np.array([run(random, threshold) for _ in range(runs)])
        bias = np.median(found[:, :, 0], axis=0) / threshold - 1
        held = ((found[:, :, 1] <= threshold) & (threshold <= found[:, :, 2])).mean(axis=0)
        cells = [f"{100 * b:+.1f} %, {100 * h:.1f} %" for b, h in zip(bias, held, strict=True)]
        lines.append(f"| {threshold:g} px | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    if docs:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition("<!-- thresholds -->")
        after = rest.partition("<!-- end of thresholds -->")[2]
        table = "\n".join(lines)
        PAGE.write_text(
            f"{before}<!-- thresholds -->\n\n{table}\n\n<!-- end of thresholds -->{after}", encoding="utf-8"
        )


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--docs"]
    main(int(arguments[0]) if arguments else 200, "--docs" in sys.argv)
