"""Share of intervals that contain the true value, in simulated studies of lesion size, localization and recognition.

A study has 300 radiographs and the six simulated map makers of ``planted.py``. Their hits and scores are random
numbers; no picture and no map is made.

    python benchmarks/maps/coverage.py [STUDIES]
"""

from __future__ import annotations

import sys

import numpy as np
import polars as pl
from planted import PLANTED, chance
from scipy.stats import norm

from chexqa.contract.findings import PHANTOM_FINDINGS
from chexqa.eval.heatmaps import conclusions, grading, metrics, recognition, summary
from chexqa.files.seeds import stream

PRESENT, ABSENT = 20, 10
NAMES = {
    "size": "pointing score, small minus large lesions",
    "pointing": "mean pointing score",
    "recognition": "AUROC of recognising the finding",
}


def simulated(name: str, seed: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return two simulated tables of a map maker: the grades of its maps, and its score for each case."""
    random, (domain, skill, shift) = stream(seed, "coverage", name), PLANTED[name]
    sizes = stream(seed, "sizes")
    rows, scores = [], []
    for finding in PHANTOM_FINDINGS:
        shares = np.sort(sizes.random(PRESENT))
        for number in range(PRESENT + ABSENT):
            present, case = number < PRESENT, f"{number}/{finding}"
            about = (finding, case, case, None, case)
            scores.append((name, *about, present, random.normal(shift * present)))
            if present:
                hit = float(random.random() < chance(skill, number, PRESENT))
                row = dict.fromkeys(grading.COLUMNS) | dict.fromkeys(metrics.METRICS, hit)
                row |= {"model": name, "finding": finding, "case_id": case, "patient_id": case, "picture": case}
                row |= {"state": "graded", "domain": domain, "lesion_share": shares[number], "components": 1}
                rows.append(row)
    return pl.DataFrame(rows, schema=grading.COLUMNS), pl.DataFrame(scores, schema=recognition.COLUMNS, orient="row")


def planted(name: str) -> dict[str, float]:
    """Return the true scores of the simulated map maker ``name``, keyed by score.

    - ``size``: the probability of pointing at a small lesion (smallest third of the lesions), minus the probability of
      pointing at a large one (largest third).
    - ``pointing``: the mean probability of pointing at a lesion.
    - ``recognition``: the AUROC of recognising the finding.
    """
    _, skill, shift = PLANTED[name]
    chances = np.array([chance(skill, number, PRESENT) for number in range(PRESENT)])
    third = 3 * np.arange(PRESENT) // PRESENT
    gap = chances[third == 0].mean() - chances[third == 2].mean()
    return {"size": float(gap), "pointing": float(chances.mean()), "recognition": float(norm.cdf(shift / np.sqrt(2)))}


def main(studies: int) -> None:
    held: dict[str, list[bool]] = {"size": [], "pointing": [], "recognition": []}
    found: dict[str, list[bool]] = {name: [] for name in PLANTED}
    for seed in range(studies):
        made = [simulated(name, seed) for name in PLANTED]
        rows = conclusions.with_thirds(pl.concat([one for one, _ in made]))
        sizes = conclusions.sizes(rows).filter(pl.col("size") == conclusions.SMALL_MINUS_LARGE)
        means = summary.summarise(rows.drop("size")).filter(pl.col("finding") == summary.MACRO)
        known = recognition.summarise(pl.concat([one for _, one in made]))
        known = known.filter(pl.col("finding") == recognition.MACRO)
        for table, column, what in ((sizes, "pointing", "size"), (means, "pointing", "pointing"),
                                    (known, "recognition_auc", "recognition")):  # fmt: skip
            for row in table.to_dicts():
                low, high = row[f"{column}_low"], row[f"{column}_high"]
                held[what].append(low <= planted(row["model"])[what] <= high)
                if what == "size":
                    found[row["model"]].append(high < 0)
    for what, each in held.items():
        error = 100 * (0.95 * 0.05 / len(each)) ** 0.5
        print(
            f"{NAMES[what]}: {100 * np.mean(each):.1f} % of {len(each):,} intervals contain the true value "
            f"(95 % expected, standard error {error:.1f})"
        )
    for name, each in found.items():
        print(
            f"{name}: {NAMES['size']}: true difference {planted(name)['size']:.3f}; {100 * np.mean(each):.0f} % of the "
            "studies find that small lesions are pointed at less often (the difference's interval lies below 0)"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
