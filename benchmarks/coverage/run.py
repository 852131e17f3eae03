"""Coverage of 95 % intervals in simulated studies: how often an interval contains the true value.

There is one table for each score. It shows the coverage and, in brackets, the mean width of the intervals. Rows are
usually numbers of patients and correlations of a patient's answers (rho), columns the true values (p).

    python benchmarks/coverage/run.py [DRAWS [NAME]] [--docs]

- DRAWS: the number of simulated studies. 10,000 take about 35 minutes.
- NAME: the only table to make, such as `composite` or `few differ`.
- ``--docs``: also write the tables into docs/intervals.md, which describes the scores.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import sparse, stats

from chexqa.eval.scoring import associations
from chexqa.eval.scoring.intervals import Estimates, Sums, corrected, proportion
from chexqa.eval.scoring.sample import contrasts

PATIENTS = (10, 20, 30, 50, 100, 300, 700)
SHARES = (0.5, 0.8, 0.9, 0.95, 0.98)
# With fewer patients, some findings of a composite would have only one or two patients.
OF_COMPOSITES = (50, 100, 300)
CORRELATIONS = (0.0, 0.2, 0.5)
ITEMS, KINDS, FINDINGS = 4, 5, 7
AT_ONCE = 500
PAGE = Path(__file__).parents[2] / "docs" / "intervals.md"
Floats = npt.NDArray[np.floating]
# Function that simulates a score. Its arguments are the random generator, the number of draws, the number of patients,
# the probability p and the correlation rho. It returns an estimate for each draw, and the true value.
Simulation = Callable[[np.random.Generator, int, int, float, float], tuple[Estimates, float]]
# Function that simulates a difference. The last argument says on how many patients two models differ on average.
FewDiffer = Callable[[np.random.Generator, int, int, float], tuple[Estimates, float]]


def sums(values: Floats, first: int = 0, patients: int | None = None) -> Sums:
    """Return each simulated study's sum over its patients, together with each patient's part of the sum.

    - ``values``: a row for each study, a column for each of some consecutive patients. All other patients have the
      value 0.
    - ``first``: the index of the first column's patient among all patients.
    - ``patients``: the number of all patients; None: the number of columns.
    """
    table = sparse.csr_matrix(values)
    shape = (len(values), patients or values.shape[1])
    return Sums(values.sum(axis=1), sparse.csr_matrix((table.data, table.indices + first, table.indptr), shape))


def skills(random: np.random.Generator, p: float, rho: float, shape: tuple[int, ...]) -> Floats:
    """Draw each patient's probability of a right answer from a beta distribution with the mean ``p``.

    ``rho`` is the correlation of two answers of a patient.
    """
    return random.beta(p * (1 - rho) / rho, (1 - p) * (1 - rho) / rho, shape) if rho else np.full(shape, p)


def share(random: np.random.Generator, draws: int, patients: int, p: float, rho: float) -> tuple[Estimates, float]:
    """Simulate ``draws`` studies; return the share of right answers in each study, and the true share."""
    right = random.binomial(ITEMS, skills(random, p, rho, (draws, patients))).astype(float)
    return proportion(sums(right), sums(np.full(right.shape, float(ITEMS)))), p


def difference(discordant: float) -> Simulation:
    """Return a function that simulates the difference between two models' shares of right answers.

    ``discordant`` is the share of items that only one of the models answers right.
    """

    def draw(random: np.random.Generator, draws: int, patients: int, p: float, rho: float) -> tuple[Estimates, float]:
        skill = skills(random, p, rho, (draws, patients))[..., None]
        first = random.random((draws, patients, ITEMS)) < skill
        # The second model is at most 5 percentage points worse than the first.
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
    """Simulate ``draws`` studies; return each study's mean share of right answers over five kinds, and the true mean.

    Each patient has one item of each kind. ``rho`` is the correlation of the normal variables behind a patient's
    answers.
    """
    easy = np.clip(p + np.linspace(-0.2, 0.1, KINDS), 0.02, 0.99)
    common = random.standard_normal((draws, patients, 1)) * np.sqrt(rho)
    latent = common + random.standard_normal((draws, patients, KINDS)) * np.sqrt(1 - rho)
    right = (latent < stats.norm.ppf(easy)).astype(float)
    one = sums(np.ones((draws, patients)))
    parts = [proportion(sums(right[:, :, kind]), one) for kind in range(KINDS)]
    return _mean(parts, draws), float(easy.mean())


def mean_of_findings(random: np.random.Generator, draws: int, patients: int, p: float, rho: float
                     ) -> tuple[Estimates, float]:  # fmt: skip
    """Simulate ``draws`` studies; return each study's mean score over seven findings, and the true mean.

    The score of a finding is the share of right answers. Each finding has a seventh of the patients, with two answers
    per patient.
    """
    easy = np.clip(p + np.linspace(-0.15, 0.1, FINDINGS), 0.02, 0.99)
    each = max(patients // FINDINGS, 2)
    parts = []
    for finding, mean in enumerate(easy):
        right = random.binomial(2, skills(random, mean, rho, (draws, each))).astype(float)
        whole = np.full(right.shape, 2.0)
        parts.append(proportion(*(sums(values, finding * each, FINDINGS * each) for values in (right, whole))))
    return _mean(parts, draws), float(easy.mean())


def composite(random: np.random.Generator, draws: int, patients: int, p: float, rho: float
              ) -> tuple[Estimates, float]:  # fmt: skip
    """Simulate ``draws`` studies; return each study's mean score over three levels, and the true mean.

    Scores are corrected for chance. The model has the skill ``p`` at each level.
    """

    def level(kinds: int, chance: float, first: int = 0, count: int = patients) -> Estimates:
        own = skills(random, p, rho, (draws, count))[..., None]
        shape = (draws, count, kinds)
        right = ((random.random(shape) < own) | (random.random(shape) < chance)).astype(float)
        asked = np.ones((draws, count))
        parts = [corrected(*(sums(values, first, patients) for values in (right[:, :, kind], asked * chance, asked)))
                 for kind in range(kinds)]  # fmt: skip
        return _mean(parts, draws)

    # Level 1: yes/no questions; half of a finding's patients have the finding. Levels 2 and 3: one kind of question
    # and four kinds, all with four options.
    ends = np.arange(2 * FINDINGS + 1) * patients // (2 * FINDINGS)
    coarse = [level(1, 0.5, first, last - first) for first, last in pairwise(ends)]
    return _mean([_mean(coarse, draws), level(1, 0.25), level(4, 0.25)], draws), p


def composite_difference(random: np.random.Generator, draws: int, patients: int, p: float, rho: float
                         ) -> tuple[Estimates, float]:  # fmt: skip
    """Simulate two models; return the differences of their means over three levels, and the true difference.

    A third of the patients has one answer, a third has six and a third has nine, as on the paths of the recipe
    chexpercept. On four items of five, the second model gives the same answer as the first. On the other items, it
    answers like a model whose skill is lower by 0.2.
    """
    path, finding = np.arange(patients) % 3, np.arange(patients) // 3 % FINDINGS
    both: list[list[Estimates]] = [[], []]
    for asked, keyed_yes, kinds, chance in ((path >= 0, path > 0, 1, 0.5), (path > 0, path == 2, 1, 0.5),
                                            (path == 2, None, 3, 0.3), (path > 0, None, 4, 0.25)):  # fmt: skip
        strata = [asked] if keyed_yes is None else [
            asked & (finding == number) & (keyed_yes == yes) for number in range(FINDINGS) for yes in (True, False)
        ]  # fmt: skip
        for _ in range(kinds):
            first, other = (
                (random.random((draws, patients)) < skills(random, skill, rho, (draws, patients)))
                | (random.random((draws, patients)) < chance)
                for skill in (p, p - 0.2)
            )
            second = np.where(random.random(first.shape) < 0.2, other, first)
            for model, right in zip(both, (first, second), strict=True):
                parts = [corrected(*(sums(np.broadcast_to(values * kept, right.shape).astype(float))
                                     for values in (right, chance, 1))) for kept in strata]  # fmt: skip
                model.append(_mean(parts, draws))
    means = [_mean([kinds[0], _mean(kinds[1:5], draws), _mean(kinds[5:], draws)], draws) for kinds in both]
    return means[0].join(means[1]).combine(contrasts(2 * draws, [(one, draws + one) for one in range(draws)])), 0.04


def _nested(first: list[Floats], second: list[Floats], asked: int, chance: float = 0.0) -> Estimates:
    """Return the differences between two models' means over findings; each patient has one finding.

    - ``first``, ``second``: each model's numbers of right answers ``(draws, patients)``, one array for each finding.
    - ``asked``: the number of answers per patient.
    """
    draws, size = len(first[0]), sum(right.shape[1] for right in first)
    means = []
    for model in (first, second):
        starts = np.cumsum([0, *(right.shape[1] for right in model)])
        whole = [np.full(right.shape, float(asked)) for right in model]
        parts = [corrected(*(sums(values, start, size) for values in (right, chance * every, every)))
                 for right, every, start in zip(model, whole, starts[:-1], strict=True)]  # fmt: skip
        means.append(_mean(parts, draws))
    return means[0].join(means[1]).combine(contrasts(2 * draws, [(one, draws + one) for one in range(draws)]))


def few_lost(items: int, whole: bool = False) -> FewDiffer:
    """Return a function that simulates two models; the second has the answers of the first, except a few more errors.

    - ``items``: the number of answers per patient.
    - ``whole``: True if a model has all answers of a patient right, or all wrong.
    """

    def draw(random: np.random.Generator, draws: int, patients: int, few: float) -> tuple[Estimates, float]:
        each = 1 if whole else items
        right = random.random((draws, patients, each)) < 0.5
        kept = right & (random.random(right.shape) >= 2 * few / (patients * each))
        first, second = (items / each * values.sum(axis=2, dtype=float) for values in (right, kept))
        return _nested([first], [second], items), few / (patients * each)

    return draw


def few_lost_in_one_finding(random: np.random.Generator, draws: int, patients: int, few: float
                            ) -> tuple[Estimates, float]:  # fmt: skip
    """Simulate two models that differ only on the rarest of seven findings.

    ``few`` is the mean number of answers in a study that the first model gets right and the second gets wrong. Return
    each study's estimate of the models' difference, and the true difference.
    """
    # Each patient has one finding and one answer.
    small = max(10, patients // 31)
    sizes = [small, *[(patients - small) // 6] * 6]
    right = [(random.random((draws, size)) < 0.8).astype(float) for size in sizes]
    kept = right[0] * (random.random(right[0].shape) >= few / (0.8 * small))
    return _nested(right, [kept, *right[1:]], 1), few / small / FINDINGS


def few_lost_by_constants(random: np.random.Generator, draws: int, patients: int, few: float
                          ) -> tuple[Estimates, float]:  # fmt: skip
    """Simulate two models that are asked about seven findings; one of them always says yes.

    The other also says yes, except to a few of the patients who have one particular finding: it wrongly says no to
    them. ``few`` is the mean number of these wrong answers in a study. The score is ``sensitivity + specificity - 1``,
    averaged over the findings; half of the patients who are asked about a finding have it. Return each study's estimate
    of the models' difference, and the true difference.
    """
    size = patients // (2 * FINDINGS)
    right = [np.full((draws, size), float(keyed_yes)) for keyed_yes in [1, 0] * FINDINGS]
    kept = right[0] * (random.random(right[0].shape) >= few / size)
    return _nested(right, [kept, *right[1:]], 1, 0.5), few / size / FINDINGS


FEW: dict[str, FewDiffer] = {
    "share, one answer a patient": few_lost(1),
    "share, four answers a patient": few_lost(4),
    "share, four answers a patient, all alike": few_lost(4, whole=True),
    "mean of findings, all in a small one": few_lost_in_one_finding,
    "sensitivity + specificity - 1, always yes": few_lost_by_constants,
}
FEW_DIFFER = "few differ"
MEANS = (0.5, 1.5, 2.9, 4.6)


def few_differ_table(draws: int) -> list[str]:
    """Return the lines of a Markdown table: the coverage for two models that differ in only a few patients.

    The cell ``94.8 (2.1)`` means: 94.8 % of the intervals contain the true difference, and their mean width is 2.1
    points.
    """
    heads = ["patients", "score", *(f"{mean} differ" for mean in MEANS)]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for patients in (30, 100, 300, 1000):
        for place, (name, simulation) in enumerate(FEW.items()):
            if patients < OF_COMPOSITES[1] and "share" not in name:
                continue
            cells = []
            for few in MEANS:
                random = np.random.default_rng([patients, place, round(10 * few)])
                cells.append(_coverage(partial(simulation, random, patients=patients, few=few), draws))
            shown = " | ".join(f"{100 * held:.1f} ({100 * width:.1f})" for held, width in cells)
            lines.append(f"| {patients} | {name} | {shown} |")
            print(lines[-1], flush=True)
    return lines


def correlated(random: np.random.Generator, patients: int, share_right: tuple[float, float], rho: float
               ) -> tuple[float, float, float]:  # fmt: skip
    """Simulate one study; return the true correlation of answers to two questions, and the interval's two ends.

    - ``share_right``: the shares of right answers to the two questions.
    - ``rho``: the correlation of the normal variables behind the answers.
    """
    shared = np.sqrt(0.3) * np.repeat(random.standard_normal((2, patients)), 2, axis=1)
    first, other = shared + np.sqrt(0.7) * random.standard_normal((2, 2 * patients))
    second = rho * first + np.sqrt(1 - rho**2) * other
    cuts = stats.norm.ppf(share_right)
    (p, q), both = share_right, _both(float(cuts[0]), float(cuts[1]), rho)
    right = [(values < cut).astype(float) for values, cut in ((first, cuts[0]), (second, cuts[1]))]
    found = associations.correlation(right[0], right[1], np.repeat(np.arange(patients), 2))
    return (both - p * q) / np.sqrt(p * (1 - p) * q * (1 - q)), found.low, found.high


@cache
def _both(first: float, second: float, rho: float) -> float:
    return float(stats.multivariate_normal([0, 0], [[1, rho], [rho, 1]]).cdf([first, second]))


CORRELATION = "correlation"
LATENT = (0.0, 0.4, 0.8)


def correlation_table(draws: int) -> list[str]:
    """Return the lines of a Markdown table: the coverage, in %, of the interval of a correlation."""

    # Each study is computed separately, so this table takes longer than the others.
    def cell(draw: Callable[[np.random.Generator], tuple[float, float, float]]) -> str:
        random = np.random.default_rng(draws)
        found = np.array([draw(random) for _ in range(draws)])
        known = found[~np.isnan(found[:, 1])]
        if len(known) < draws / 2:
            return "–"
        return f"{100 * np.mean((known[:, 1] <= known[:, 0]) & (known[:, 0] <= known[:, 2])):.1f}"

    heads = ["patients", "shares of right answers", *(f"latent correlation {rho}" for rho in LATENT)]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for patients in (60, 100, 300, 700):
        for pair in ((0.5, 0.5), (0.8, 0.6), (0.95, 0.5), (0.95, 0.9)):
            row = [cell(partial(correlated, patients=patients, share_right=pair, rho=rho)) for rho in LATENT]
            lines.append(f"| {patients} | {pair[0]}, {pair[1]} | {' | '.join(row)} |")
            print(lines[-1], flush=True)
    return lines


def _mean(parts: list[Estimates], draws: int) -> Estimates:
    joined = parts[0]
    for part in parts[1:]:
        joined = joined.join(part)
    return joined.combine(sparse.csr_matrix(sparse.hstack([sparse.eye(draws)] * len(parts)) / len(parts)))


SIMULATIONS: dict[str, Simulation] = {
    "share": share,
    "difference, 4 % differ": difference(0.04),
    "difference, 20 % differ": difference(0.2),
    "mean of kinds": mean_of_kinds,
    "mean of findings": mean_of_findings,
    "composite": composite,
    "difference of composites": composite_difference,
}


def coverage(simulation: Simulation, draws: int, patients: int, p: float, rho: float) -> tuple[float, float]:
    """Simulate ``draws`` studies; return the coverage and the mean width of the intervals (:func:`_coverage`)."""
    random = np.random.default_rng([patients, round(100 * p), round(100 * rho)])
    return _coverage(partial(simulation, random, patients=patients, p=p, rho=rho), draws)


def _coverage(simulation: Callable[..., tuple[Estimates, float]], draws: int) -> tuple[float, float]:
    """Return the fraction of 95 % intervals that contain the true value, and the mean width.

    Studies without an interval are left out. Both numbers are NaN if no study has an interval.
    """
    held, width, known = 0.0, 0.0, 0
    for start in range(0, draws, AT_ONCE):
        numbers, truth = simulation(draws=min(AT_ONCE, draws - start))
        low, high = numbers.interval()
        held += float(((low <= truth + 1e-12) & (truth <= high + 1e-12)).sum())
        width += float(np.nansum(high - low))
        known += int(np.isfinite(low).sum())
    return (held / known, width / known) if known else (np.nan, np.nan)


def table(name: str, draws: int) -> list[str]:
    """Return the lines of a Markdown table: the coverage of the 95 % interval of the score ``name``."""
    lines = ["| patients | correlation | " + " | ".join(f"p = {p}" for p in SHARES) + " |",
             "|---" * (len(SHARES) + 2) + "|"]  # fmt: skip
    for patients in OF_COMPOSITES if "composite" in name else PATIENTS:
        for rho in CORRELATIONS:
            cells = [coverage(SIMULATIONS[name], draws, patients, p, rho) for p in SHARES]
            shown = " | ".join(f"{100 * held:.1f} ({100 * width:.0f})" for held, width in cells)
            lines.append(f"| {patients} | {rho} | {shown} |")
            print(f"{name}: {lines[-1]}", flush=True)
    return lines


def write(name: str, lines: list[str], draws: int) -> None:
    """Replace the table of the score ``name`` in docs/intervals.md."""
    before, title, rest = PAGE.read_text(encoding="utf-8").partition(f"**{name}** (")
    if not title:
        raise SystemExit(f"{PAGE} has no table '{name}'")
    after = rest.split("\n\n", 2)[2:]
    PAGE.write_text("\n\n".join([f"{before}{title}{draws:,} draws)", "\n".join(lines), *after]), encoding="utf-8")


def main(draws: int, docs: bool, only: str | None) -> None:
    made = {name.capitalize(): table(name, draws) for name in SIMULATIONS if only in (None, name)}
    if only in (None, FEW_DIFFER):
        made["Difference, few differ"] = few_differ_table(draws)
    if only in (None, CORRELATION):
        made["Correlation of two answers"] = correlation_table(draws)
    for name, lines in made.items() if docs else ():
        write(name, lines, draws)


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--docs"]
    main(int(arguments[0]) if arguments else 2000, "--docs" in sys.argv, arguments[1] if arguments[1:] else None)
