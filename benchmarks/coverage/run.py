"""Coverage of 95 % intervals, by the kind of number, the number of patients, the true value and the correlation.

Answers are simulated. Each patient has a probability of a right answer, drawn from a beta distribution of mean p, so
that two answers of a patient have the correlation rho. ``chexqa.eval.scoring.intervals`` makes four kinds of number
from the answers:

* share: 4 answers a patient;
* difference: two models' shares, of whose answers 4 % or 20 % differ;
* mean of kinds: five kinds of one answer a patient, of different difficulty;
* mean of findings: seven findings, each of other patients, of different difficulty.

Beside each coverage is the mean width. ``--docs`` writes the table of docs/intervals.md. Run it with `python
benchmarks/coverage/run.py [DRAWS] [--docs]`; 10,000 draws take about five minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import sparse, stats

from chexqa.eval.scoring.intervals import Estimates, Sums, contrasts, proportion

PATIENTS = (10, 20, 30, 50, 100, 300, 700)
SHARES = (0.5, 0.8, 0.9, 0.95, 0.98)
CORRELATIONS = (0.0, 0.2, 0.5)
ITEMS, KINDS, FINDINGS = 4, 5, 7
AT_ONCE = 500
PAGE = Path(__file__).parents[2] / "docs" / "intervals.md"
Floats = npt.NDArray[np.floating]
# Simulation of a kind of number: from generator, draws, patients, share and correlation to the numbers and their true
# value.
Simulation = Callable[[np.random.Generator, int, int, float, float], tuple[Estimates, float]]


def sums(values: Floats) -> Sums:
    """Return the sums of values ``(draws, patients)``, with a group for each draw."""
    return Sums(values.sum(axis=1), sparse.csr_matrix(values))


def skills(random: np.random.Generator, p: float, rho: float, shape: tuple[int, ...]) -> Floats:
    """Return a random probability of a right answer for each patient."""
    return random.beta(p * (1 - rho) / rho, (1 - p) * (1 - rho) / rho, shape) if rho else np.full(shape, p)


def share(random: np.random.Generator, draws: int, patients: int, p: float, rho: float) -> tuple[Estimates, float]:
    """Return the estimates of a share of right answers, one a draw, and its true value."""
    right = random.binomial(ITEMS, skills(random, p, rho, (draws, patients))).astype(float)
    return proportion(sums(right), sums(np.full(right.shape, float(ITEMS)))), p


def difference(discordant: float) -> Simulation:
    """Return the simulation of paired shares; the second model loses up to 5 points on the first."""

    def draw(random: np.random.Generator, draws: int, patients: int, p: float, rho: float) -> tuple[Estimates, float]:
        skill = skills(random, p, rho, (draws, patients))[..., None]
        first = random.random((draws, patients, ITEMS)) < skill
        gap = min(0.05, discordant / 2)
        lost, won = (discordant + gap) / 2 / p, min((discordant - gap) / 2 / (1 - p), 1)
        chosen = random.random(first.shape)
        second = np.where(first, chosen >= lost, chosen < won)
        whole = sums(np.full((draws, patients), float(ITEMS)))
        both = proportion(sums(first.sum(axis=2, dtype=float)), whole).join(
            proportion(sums(second.sum(axis=2, dtype=float)), whole)
        )
        pairs = [(number, draws + number) for number in range(draws)]
        return both.combine(contrasts(2 * draws, pairs)), p * lost - (1 - p) * won

    return draw


def mean_of_kinds(random: np.random.Generator, draws: int, patients: int, p: float, rho: float
                  ) -> tuple[Estimates, float]:  # fmt: skip
    """Return the estimates of a mean over five kinds that every patient has, and its true value."""
    easy = np.clip(p + np.linspace(-0.2, 0.1, KINDS), 0.02, 0.99)
    common = random.standard_normal((draws, patients, 1)) * np.sqrt(rho)
    latent = common + random.standard_normal((draws, patients, KINDS)) * np.sqrt(1 - rho)
    right = (latent < stats.norm.ppf(easy)).astype(float)
    one = sums(np.ones((draws, patients)))
    parts = [proportion(sums(right[:, :, kind]), one) for kind in range(KINDS)]
    return _mean(parts, draws), float(easy.mean())


def mean_of_findings(random: np.random.Generator, draws: int, patients: int, p: float, rho: float
                     ) -> tuple[Estimates, float]:  # fmt: skip
    """Return the estimates of a mean over seven findings, and its true value.

    Each finding has a seventh of the patients, with two answers a patient.
    """
    easy = np.clip(p + np.linspace(-0.15, 0.1, FINDINGS), 0.02, 0.99)
    each = max(patients // FINDINGS, 2)
    parts = []
    for finding, mean in enumerate(easy):
        place = slice(finding * each, (finding + 1) * each)
        right, whole = np.zeros((2, draws, each * FINDINGS))
        right[:, place] = random.binomial(2, skills(random, mean, rho, (draws, each)))
        whole[:, place] = 2
        parts.append(proportion(sums(right), sums(whole)))
    return _mean(parts, draws), float(easy.mean())


def _mean(parts: list[Estimates], draws: int) -> Estimates:
    joined = parts[0]
    for part in parts[1:]:
        joined = joined.join(part)
    return joined.combine(sparse.csr_matrix(np.tile(np.eye(draws), len(parts)) / len(parts)))


SIMULATIONS: dict[str, Simulation] = {
    "share": share,
    "difference, 4 % differ": difference(0.04),
    "difference, 20 % differ": difference(0.2),
    "mean of kinds": mean_of_kinds,
    "mean of findings": mean_of_findings,
}


def coverage(simulation: Simulation, draws: int, patients: int, p: float, rho: float) -> tuple[float, float]:
    """Return the share of intervals that contain the true value, and the intervals' mean width."""
    random = np.random.default_rng([patients, round(100 * p), round(100 * rho)])
    held, width = 0.0, 0.0
    for start in range(0, draws, AT_ONCE):
        count = min(AT_ONCE, draws - start)
        numbers, truth = simulation(random, count, patients, p, rho)
        low, high = numbers.interval()
        held += float(((low <= truth + 1e-12) & (truth <= high + 1e-12)).sum())
        width += float((high - low).sum())
    return held / draws, width / draws


def main(draws: int, docs: bool) -> None:
    lines = []
    for name, simulation in SIMULATIONS.items():
        lines += [f"**{name.capitalize()}**", "", "| patients | correlation | " + " | ".join(f"p = {p}" for p in SHARES)
                  + " |", "|---" * (len(SHARES) + 2) + "|"]  # fmt: skip
        for patients in PATIENTS:
            for rho in CORRELATIONS:
                cells = [coverage(simulation, draws, patients, p, rho) for p in SHARES]
                shown = " | ".join(f"{100 * held:.1f} ({100 * width:.0f})" for held, width in cells)
                lines.append(f"| {patients} | {rho} | {shown} |")
                print(f"{name}: {lines[-1]}", flush=True)
        lines.append("")
    if docs:
        before = PAGE.read_text(encoding="utf-8").partition("<!-- table -->")[0]
        PAGE.write_text(f"{before}<!-- table -->\n\n" + "\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--docs"]
    main(int(arguments[0]) if arguments else 2000, "--docs" in sys.argv)
