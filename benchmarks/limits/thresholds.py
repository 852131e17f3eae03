"""Bias of fitted thresholds and coverage of their 95 % intervals, for simulated observers whose thresholds are known.

    python benchmarks/limits/thresholds.py [RUNS] [THRESHOLD…]

An observer answers 560 items of each of three tasks. The errors in the items' outlines are 2 to 60 px deep. For each
threshold and task the script prints the numbers of :func:`figures`. 200 runs of a threshold take about a minute.
"""

from __future__ import annotations

import sys

import numpy as np
from scipy import special

from chexqa.eval.thresholds.fit import fit
from chexqa.eval.thresholds.psychometric import FOUR, Form, Task, task_of

THRESHOLDS = (1.5, 2.4, 4.0, 10.0, 25.0, 50.0, 75.0)
ITEMS, POINTS, DEPTHS = 560, 6, (2.0, 60.0)
SLOPE, LAPSE, CRITERION, FLOOR = 1.5, 0.02, 0.8, 0.15
ALIKE = 0.2  # correlation of a patient's answers on the normal scale
FORMS: dict[str, Form] = {"contour": "yes_no", "points": "marks", "pictures": "choice"}


def probability(form: Form, depth: np.ndarray, threshold: float) -> np.ndarray:
    """Return the probability that an observer responds to errors of these depths; NaN stands for no error."""
    z = np.nan_to_num((depth / threshold) ** SLOPE, nan=0.0)
    if form == "yes_no":
        return LAPSE / 2 + (1 - LAPSE) * special.ndtr(z - CRITERION)
    floor = FOUR if form == "choice" else FLOOR
    return floor + (1 - floor - LAPSE) * (1 - 2.0**-z)


def observed(random: np.random.Generator, form: Form, threshold: float, items: int = ITEMS) -> Task:
    """Return the answers to the items of one task by a simulated observer with the given threshold."""
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
    """Simulate an observer and fit the thresholds; return an array ``(3, 3)`` with a row for each task.

    The columns are the fitted threshold, and the lower and upper end of its interval.
    """
    found = fit({name: observed(random, form, threshold) for name, form in FORMS.items()})
    return np.array([found[name][:3] for name in FORMS])


def side(values: np.ndarray) -> np.ndarray:
    """Return -1 for values below the tested depths, 0 for values within them, and 1 for values above them."""
    return (values > DEPTHS[1]).astype(int) - (values < DEPTHS[0])


def figures(found: np.ndarray, threshold: float) -> list[np.ndarray]:
    """Return four arrays, each with one number for each of the three tasks.

    A threshold lies in one of three regions: below the smallest tested depth, above the largest one, or between them.
    The arrays are:

    1. the median of the fitted thresholds, divided by the true threshold, minus 1;
    2. the share of intervals that contain the true threshold;
    3. the share of fitted thresholds in the same region as the true threshold;
    4. the share of intervals that lie wholly in one region, but not in the region of the true threshold.

    ``found`` ``(runs, 3, 3)`` has the result of :func:`run` for each run. ``threshold`` is the true threshold in px.
    """
    value, low, high = found[..., 0], found[..., 1], found[..., 2]
    truth = side(np.array(threshold))
    opened = np.where(side(low) < 0, 0, low), np.where(side(high) > 0, np.inf, high)
    beyond = np.where(side(low) > 0, truth < 1, False) | np.where(side(high) < 0, truth > -1, False)
    inside = (side(low) == 0) & (side(high) == 0) & (truth != 0)
    # An interval that lies entirely outside the tested depths, on one side, contains every threshold on this side.
    held = np.where(side(low) > 0, truth > 0, opened[0] <= threshold) & np.where(
        side(high) < 0, truth < 0, threshold <= opened[1]
    )
    return [np.median(value, axis=0) / threshold - 1, held.mean(axis=0), (side(value) == truth).mean(axis=0),
            (beyond | inside).mean(axis=0)]  # fmt: skip


def main(runs: int, thresholds: list[float]) -> None:
    columns = "median bias, coverage, thresholds on the right side, intervals on the wrong side"
    print("| threshold | " + " | ".join(f"{name}: {columns}" for name in FORMS) + " |")
    print("|---" * (1 + len(FORMS)) + "|")
    for threshold in thresholds:
        random = np.random.default_rng(round(10 * threshold))
        found = np.array([run(random, threshold) for _ in range(runs)])
        cells = [f"{100 * bias:+.1f} %, {100 * held:.1f} %, {100 * right:.1f} %, {100 * wrong:.1f} %"
                 for bias, held, right, wrong in zip(*figures(found, threshold), strict=True)]  # fmt: skip
        print(f"| {threshold:g} px | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200, [*map(float, sys.argv[2:])] or [*THRESHOLDS])
