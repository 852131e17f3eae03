"""Wrong verdicts on coins: how often the report says that a model uses the lesion if the model only tosses a coin.

    python benchmarks/grounding/coins.py [RUNS] [PATIENTS …]

Some simulated models answer yes with a fixed probability, whatever the picture shows; others look at 10 to 50 % of the
pictures. For each model and number of patients the script prints the share of runs that get each verdict of chexqa, and
the share that get the verdict "uses the picture" by the published measures CGR, UAR and IS. 1,000 runs with 30, 100,
200 and 400 patients take about two minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import polars as pl

from chexqa.eval.grounding.net_grounding import NOT_SHOWN, UNDECIDED, USES
from chexqa.eval.grounding.published_measures import READS

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))
import planted_looks

AT_ONCE = 250
COINS = (0.5, 0.85, 0.9, 0.95)
# Share of pictures that a model looks at.
LOOKS = (0.1, 0.2, 0.3, 0.5)


def coin(yes: float) -> str:
    """Return the name of a simulated model that answers yes at random, with the probability ``yes``."""
    return f"coin that says yes in {100 * yes:.0f} % of its answers"


def halved(patients: int) -> list[str]:
    """Return each patient's finding: half of the patients have the first, half of the rest the second, and so on."""
    found: list[str] = []
    while len(found) < patients:
        left = patients - len(found)
        found += [f"finding {left}"] * max(left // 2, 1)
    return found


def few(patients: int) -> list[str]:
    """Return each patient's finding; every finding has two patients.

    If ``patients`` is odd, the last finding has three patients.
    """
    return [f"finding {min(number // 2, patients // 2 - 1)}" for number in range(patients)]


SPREADS: dict[str, Callable[[int], Sequence[str]]] = {
    "findings with halving numbers of patients": halved, "findings of two patients": few,
}  # fmt: skip


def tables(
    rates: planted_looks.Rates, patients: int, runs: int, findings: Sequence[str] = ("effusion", "edema")
) -> pl.DataFrame:
    """Simulate runs of a model with the given probabilities of yes; return their table ``grounding``, a row per run.

    Each patient has one case, in which a finding is present. Patients get the findings in turn.
    """
    parts = []
    for start in range(0, runs, AT_ONCE):
        names: Mapping[str, planted_looks.Rates] = {
            f"run {number}": rates for number in range(start, min(start + AT_ONCE, runs))
        }
        seed = hash((rates, patients, start)) % 2**32
        parts.append(planted_looks.table_of(names, patients, seed, findings))
    return pl.concat(parts)


def main(runs: int = 1000, *sizes: int) -> None:
    for patients in sizes or (30, 100, 200, 400):
        print(
            f"{patients} patients, {runs} runs of each model: the share of runs that get each verdict of chexqa, and "
            f"the share that get the verdict '{READS}' by the published measures CGR, UAR and IS (arXiv 2606.17710). "
            "A coin is a model that answers at random, whatever the picture shows."
        )
        whole = {coin(yes): (yes, yes, yes) for yes in COINS}
        lookers = [planted_looks.Planted(f"looks in {100 * looks:.0f} %", looks, 0, 0.9, USES) for looks in LOOKS]
        whole |= {model.name: model.rates for model in lookers}
        for name, rates in whole.items():
            table = tables(rates, patients, runs)
            uses, never = (100 * table.filter(looks=verdict).height / runs for verdict in (USES, NOT_SHOWN))
            published = 100 * table.filter(published_class=READS).height / runs
            rest = 100 - uses - never
            print(f"{name}: {USES} {uses:.1f} %, {NOT_SHOWN} {never:.1f} %, {UNDECIDED} {rest:.1f} %; "
                  f"by the published measures: {READS} {published:.1f} %", flush=True)  # fmt: skip
        for spread, findings in SPREADS.items():
            for yes in COINS:
                table = tables((yes, yes, yes), patients, runs, findings(patients))
                uses = 100 * table.filter(looks=USES).height / runs
                print(f"{coin(yes)}, {spread}: {USES} {uses:.1f} %", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
