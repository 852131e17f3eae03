"""Error of a measured accuracy if some keys are false, before and after correction by an expert review.

A simulated study has 2,000 items, 8 % of them with a false key. Experts review 150 items.

    python benchmarks/coverage/reviewed.py [STUDIES] [--docs]

``--docs`` also writes the table into docs/readers.md. 5,000 studies take half a minute.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from chexqa.eval.readers.prediction_powered import Answers, corrected

# Each patient has one item of each kind. REVIEWED is the number of patients whose items are reviewed.
PATIENTS, KINDS, REVIEWED, FALSE = 400, 5, 30, 0.08
PAGE = Path(__file__).parents[2] / "docs" / "readers.md"


def study(random: np.random.Generator, accuracy: float, rho: float) -> Answers:
    """Simulate the answers of one study; ``rho`` is the correlation between answers of a patient."""
    patient, kind = np.repeat(np.arange(PATIENTS), KINDS), np.tile(np.arange(KINDS), PATIENTS)
    size = (1 - rho) / rho if rho else np.inf
    skill = random.beta(accuracy * size, (1 - accuracy) * size, PATIENTS) if rho else np.full(PATIENTS, accuracy)
    right = (random.random(len(patient)) < skill[patient]).astype(float)
    # Half of the wrong answers agree with a false key, and so count as right.
    lucky = (right == 0) & (random.random(len(patient)) < 0.5)
    keyed = np.where(random.random(len(patient)) < FALSE, lucky, right)
    seen = np.isin(patient, random.permutation(PATIENTS)[:REVIEWED])
    return Answers(kind, patient, keyed, np.where(seen, right, np.nan), np.full(len(patient), REVIEWED / PATIENTS))


def main(count: int, docs: bool) -> None:
    lines = ["| true accuracy | correlation | bias uncorrected | bias corrected | coverage | mean width |",
             "|---|---|---|---|---|---|"]  # fmt: skip
    weights = np.full(KINDS, 1 / KINDS)
    for accuracy in (0.5, 0.7, 0.8, 0.9):
        for rho in (0.0, 0.2, 0.5):
            random = np.random.default_rng([round(100 * accuracy), round(100 * rho)])
            made = [study(random, accuracy, rho) for _ in range(count)]
            found = [corrected(one, weights) for one in made]
            keyed = np.mean([one.keyed.mean() for one in made]) - accuracy
            bias = np.mean([one.value for one in found]) - accuracy
            held = np.mean([one.low <= accuracy <= one.high for one in found])
            width = np.mean([one.high - one.low for one in found])
            lines.append(f"| {accuracy} | {rho} | {100 * keyed:+.1f} | {100 * bias:+.2f} | {100 * held:.1f} % "
                         f"| {100 * width:.1f} |")  # fmt: skip
            print(lines[-1], flush=True)
    if docs:
        text = PAGE.read_text(encoding="utf-8")
        before, after = text.partition("<!-- reviewed -->")[0], text.partition("<!-- end of reviewed -->")[2]
        table = "\n".join(lines)
        PAGE.write_text(f"{before}<!-- reviewed -->\n\n{table}\n\n<!-- end of reviewed -->{after}", encoding="utf-8")


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--docs"]
    main(int(arguments[0]) if arguments else 5000, "--docs" in sys.argv)
