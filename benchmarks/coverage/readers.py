"""False-positive rate of the test that compares a model with a random sample of readers.

The studies are simulated: a model is exactly as good as the mean of all possible readers. A difference with p < 0.05 is
therefore false. The script prints the percentage of studies with a false difference.

    python benchmarks/coverage/readers.py [STUDIES] [--docs]

``--docs`` also writes the table into docs/readers.md. 10,000 studies take a minute.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

from chexqa.eval.readers.obuchowski_rockette import Analysis, analyse, jackknife_covariance

READERS, CASES = (3, 5, 8), (60, 200)
# Spread of readers and of cases on the probit scale, and the mean, which sets the accuracy.
SETTINGS = {"alike": (0.1, 0.8, 0.9), "apart": (0.35, 0.8, 0.9), "apart, accurate": (0.35, 0.8, 1.6)}
AT_ONCE = 500
PAGE = Path(__file__).parents[2] / "docs" / "readers.md"


def studies(random: np.random.Generator, count: int, readers: int, cases: int, setting: str) -> Analysis:
    """Simulate ``count`` studies of a model that is as good as the mean reader; return their analysis.

    ``setting`` is a name in :data:`SETTINGS`.
    """
    spread, hard, mean = SETTINGS[setting]
    fixed = 1 + hard**2
    case = hard * random.standard_normal((count, 1, cases))
    skill = spread * random.standard_normal((count, readers, 1))
    own = mean + skill + case + random.standard_normal((count, readers, cases)) > 0
    level = mean * (fixed / (fixed + spread**2)) ** 0.5
    model = level + case + random.standard_normal((count, 1, cases)) > 0
    gaps: npt.NDArray[np.float64] = model.astype(float) - own
    without = (gaps.sum(axis=-1, keepdims=True) - gaps) / (cases - 1)
    return analyse(gaps.mean(axis=-1), jackknife_covariance(without))


def main(count: int, docs: bool) -> None:
    lines = ["| readers | cases | " + " | ".join(f"readers {name}" for name in SETTINGS) + " |",
             "|---" * (2 + len(SETTINGS)) + "|"]  # fmt: skip
    for readers in READERS:
        for cases in CASES:
            cells = []
            for setting in SETTINGS:
                random, rejected = np.random.default_rng([readers, cases]), 0.0
                for start in range(0, count, AT_ONCE):
                    found = studies(random, min(AT_ONCE, count - start), readers, cases, setting)
                    rejected += float((found.p < 0.05).sum())
                cells.append(f"{100 * rejected / count:.1f}")
            lines.append(f"| {readers} | {cases} | " + " | ".join(cells) + " |")
            print(lines[-1], flush=True)
    if docs:
        before = PAGE.read_text(encoding="utf-8").partition("<!-- table -->")[0]
        after = PAGE.read_text(encoding="utf-8").partition("<!-- end of table -->")[2]
        table = "\n".join(lines)
        PAGE.write_text(f"{before}<!-- table -->\n\n{table}\n\n<!-- end of table -->{after}", encoding="utf-8")


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--docs"]
    main(int(arguments[0]) if arguments else 10_000, "--docs" in sys.argv)
