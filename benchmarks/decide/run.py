"""Stopping rule of ``--until-decided``: false decisions between equal models, and patients needed when models differ.

    python benchmarks/decide/run.py [RUNS] [--docs]

For each of two designs, the script simulates RUNS comparisons of two models, and tests after every patient whether the
rule decides. RUNS is 2,000 by default, which takes about two minutes. ``--docs`` also writes the table into
docs/deciding.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from chexqa.eval.design import confidence_sequence
from chexqa.eval.design.power import Assumptions, patient_differences, usual_study
from chexqa.eval.design.weights import Weights, by_patient, score_weights

PATIENTS, AT_ONCE = 2100, 250
ALPHA = 0.05
PAGE = Path(__file__).parents[2] / "docs" / "deciding.md"


def studies() -> dict[str, list[Weights]]:
    """Return two designs, keyed by name.

    A design has one entry for each patient: the weights of the patient's items in the score.
    """
    asked = usual_study(PATIENTS)
    return {
        "one item a patient": [{"item": 1 / PATIENTS}] * PATIENTS,
        "mean of levels": list(by_patient(asked, score_weights(asked)["mean"]).values()),
    }


def ends(people: list[Weights], difference: float, discordance: float, target: str, runs: int) -> np.ndarray:
    """Return the number of patients after which each simulated run decides, or 0 if it never decides.

    - ``people``: a design of :func:`studies`.
    - ``difference``: the true difference of the two models.
    - ``discordance``: the share of items that only one of the models answers right.
    - ``target``: ``population`` or ``benchmark``, as in the option ``--target``.
    """
    random = np.random.default_rng([len(people), round(1000 * difference), round(1000 * discordance)])
    assumed, found = Assumptions(discordance=discordance), []
    for start in range(0, runs, AT_ONCE):
        shape = min(AT_ONCE, runs - start), len(people)
        values, bound = patient_differences(random, people, max(difference, 1e-12), assumed, shape)
        if target == "benchmark":  # the study's own difference is exactly the wanted one
            values = values - values.mean(axis=1, keepdims=True) + difference
            bound = float(np.abs(values).max())
        found.append(
            confidence_sequence.decided_at(values, bound, ALPHA, len(people) if target == "benchmark" else None)
        )
    return np.concatenate(found)


def main(runs: int, docs: bool) -> None:
    lines = [
        "| study | target | items that differ | difference | runs decided | patients, median "
        "| patients, 90th percentile |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, people in studies().items():
        for target in ("population", "benchmark"):
            for discordance, difference in ((0.05, 0.0), (0.3, 0.0), (0.3, 0.05), (0.3, 0.1), (0.3, 0.2)):
                at = ends(people, difference, discordance, target, runs)
                asked = np.where(at > 0, at, len(people) + 1)
                middle, most = (np.quantile(asked, share, method="higher") for share in (0.5, 0.9))
                shown = [f"{one:,.0f}" if one <= len(people) else f"over {len(people):,}" for one in (middle, most)]
                shown = ["", ""] if not difference else shown
                lines.append(f"| {name} | {target} | {100 * discordance:.0f} % | {100 * difference:.0f} points "
                             f"| {100 * np.mean(at > 0):.1f} % | {shown[0]} | {shown[1]} |")  # fmt: skip
                print(lines[-1], flush=True)
    if docs:
        before = PAGE.read_text(encoding="utf-8").partition("<!-- table -->")[0]
        PAGE.write_text(f"{before}<!-- table -->\n\n" + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--docs"]
    main(int(arguments[0]) if arguments else 2000, "--docs" in sys.argv)
