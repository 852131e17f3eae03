"""Power analysis: which differences between two models a study can detect, for each level and kind of question.

No model is asked for it. ``docs/deciding.md`` explains the assumptions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

from chexqa.contract.findings import CHEXPERCEPT_FINDINGS
from chexqa.contract.items import PATH_STAGES, PATHS
from chexqa.contract.kinds import GRID_CELL, KINDS, Kind, kind_order
from chexqa.eval.design import confidence_sequence
from chexqa.eval.design.weights import NOT_COMPARED, ON, Asked, Weights, by_patient, kind_weights, score_weights
from chexqa.files.errors import InputError
from chexqa.files.seeds import stream

# Largest numbers of simulated studies, of patients in a study, and of values drawn for all studies together.
RUNS, MOST_RUN, DRAWN = 200, 20_000, 1_600_000
Floats = npt.NDArray[np.floating]


@dataclass(frozen=True)
class Assumptions:
    """Assumptions about two models and the test of their difference.

    - ``discordance``: the share of items on which one model is right and the other wrong.
    - ``correlation``: the correlation of the models' difference on one item with their difference on another item of
      the same patient.
    - ``alpha``: the significance level.
    - ``power``: the wanted probability that a test finds a difference.
    - ``tests``: the number of tests that Holm's method corrects together; the same number is used for tests of a
      difference and for tests of equivalence.
    """

    discordance: float = 0.3
    correlation: float = 0.2
    alpha: float = 0.05
    power: float = 0.8
    tests: int = 1

    @property
    def factor(self) -> float:
        """Return the detectable difference as a multiple of the standard error."""
        # The first of Holm's tests has the strictest level, ``alpha / tests``.
        return float(stats.norm.isf(self.alpha / self.tests / 2) + stats.norm.ppf(self.power))


class Resolution(NamedTuple):
    """Differences between two models that a study can detect on one score, as fractions.

    D is the difference that the user asks about.

    - ``items``, ``patients``: the numbers of items and patients that count in the score.
    - ``standard_error``: the standard error of the models' difference.
    - ``detectable``: the smallest difference that is detected with the wanted power.
    - ``largest``: the largest difference that two models can have with the assumed discordance.
    - ``power``: the probability that a difference D is detected.
    - ``needed``: how many patients in all a study must have to detect D with the wanted power.
    - ``alike``: how many patients in all a study must have to show that two equal models differ by less than D.
    - ``sequential``, ``within``: the two numbers of :class:`StoppedRuns`; None for the score of a single kind.

    If no model can answer any item right, ``power`` is 0, and ``detectable`` and all numbers after ``power`` are None.
    """

    score: str
    items: int
    patients: int
    standard_error: float
    detectable: float | None
    largest: float
    power: float
    needed: int | None
    alike: int | None
    sequential: int | None = None
    within: float | None = None

    @property
    def can_detect(self) -> bool:
        """Return True if the study detects a difference of ``largest``."""
        return self.detectable is not None and self.detectable <= self.largest

    @property
    def points(self) -> str:
        """Return the smallest difference that is detected, in points, or "none"."""
        return f"{100 * self.detectable:.1f}" if self.detectable is not None and self.can_detect else "none"


def resolutions(
    asked: Sequence[Asked], difference: float, assumed: Assumptions, patients: int | None = None
) -> list[Resolution]:
    """Return which differences between models a study can detect, on each of its scores.

    - ``asked``: the items of the study.
    - ``difference``: the difference D that the user asks about, as a fraction.
    - ``patients``: the number of patients in the study (default: the number in ``asked``).

    Raise ``InputError`` if ``difference`` is larger than possible with ``assumed.discordance``.
    """
    whole = len({row.patient for row in asked})
    if not whole:
        raise InputError(
            "no item of the benchmark counts in a score corrected for chance, so no difference between models can be "
            "computed; give a benchmark with other items."
        )
    scale = 1.0 if patients is None else patients / whole
    found = kind_weights(asked)
    kinds = {name: found[name] for name in kind_order(found) if name in found and name != GRID_CELL}
    named = score_weights(asked) | kinds
    possible = {row.item_id for row in asked if row.possible}
    return [
        _resolution(name, by_patient(asked, weights), weights, difference, assumed, whole, scale)
        if possible & weights.keys()
        else _nothing(name, by_patient(asked, weights), scale)
        for name, weights in named.items()
    ]


def _resolution(
    name: str, people: dict[str, Weights], weights: Weights, difference: float, assumed: Assumptions, whole: int,
    scale: float,
) -> Resolution:  # fmt: skip
    largest = assumed.discordance * sum(weights.values())
    if difference > largest:
        raise InputError(
            f"--difference {100 * difference:g}: two models that disagree (one right, one wrong) on "
            f"{100 * assumed.discordance:g} % of items cannot be {100 * difference:g} points apart on {name}; give a "
            "larger --discordance."
        )
    count = _patients(people, scale)
    own = standard_error(people.values(), assumed)
    error = own * (len(people) / count) ** 0.5
    level = assumed.alpha / assumed.tests
    quantile = float(stats.norm.isf(level / 2))
    # For two equal models, each of the two one-sided tests of equivalence succeeds with a probability of 90 %, and so
    # both do with 80 %.
    alike = float(stats.norm.isf(level) + stats.norm.ppf(0.9))
    size = min(count, MOST_RUN)
    stopped = simulate_stopping(list(people.values()), difference, assumed, size) if name in ON else (None, None)
    return Resolution(
        name,
        _items(people, scale),
        count,
        error,
        assumed.factor * error,
        min(largest, 1.0),
        float(stats.norm.sf(quantile - difference / error) + stats.norm.cdf(-quantile - difference / error)),
        int(np.ceil(whole * (assumed.factor * own / difference) ** 2)),
        int(np.ceil(whole * (alike * own / difference) ** 2)),
        *stopped,
    )


def _nothing(name: str, people: dict[str, Weights], scale: float) -> Resolution:
    """Return the row of a score whose items no model can answer right."""
    return Resolution(name, _items(people, scale), _patients(people, scale), 0.0, None, 0.0, 0.0, None, None)


def _items(people: dict[str, Weights], scale: float) -> int:
    return round(sum(len(one) for one in people.values()) * scale)


def _patients(people: dict[str, Weights], scale: float) -> int:
    return max(1, round(len(people) * scale))


def standard_error(people: Iterable[Weights], assumed: Assumptions) -> float:
    """Return the standard error of the difference of two models' scores.

    ``people`` has, for each patient, the weights of the patient's items.
    """
    alone = together = 0.0
    for weights in people:
        values = np.fromiter(weights.values(), float)
        alone, together = alone + float((values**2).sum()), together + float(values.sum()) ** 2
    mixed = (1 - assumed.correlation) * alone + assumed.correlation * together
    return float(np.sqrt(assumed.discordance * mixed))


class StoppedRuns(NamedTuple):
    """Simulated runs that stop as soon as two models are told apart.

    - ``median_patients``: the median number of patients asked before a run stops; None if half of the runs or fewer
      stop.
    - ``share``: the share of the runs that stop.
    """

    median_patients: int | None
    share: float


def simulate_stopping(people: Sequence[Weights], difference: float, assumed: Assumptions, size: int) -> StoppedRuns:
    """Simulate runs that stop as soon as two models are told apart.

    - ``people``: the weights of each patient's items.
    - ``difference``: the true difference of the two models' scores.
    - ``size``: the largest number of patients that a run asks.
    """
    runs = max(50, min(RUNS, DRAWN // size))
    random = stream(0, "until decided", size, round(1e6 * difference))
    values, bound = patient_differences(random, people, difference, assumed, (runs, size))
    at = confidence_sequence.decided_at(values, bound, assumed.alpha)
    share = float((at > 0).mean())
    return StoppedRuns(int(np.median(np.where(at > 0, at, size + 1))) if share > 0.5 else None, share)


def patient_differences(
    random: np.random.Generator, people: Sequence[Weights], difference: float, assumed: Assumptions,
    shape: tuple[int, int],
) -> tuple[Floats, float]:  # fmt: skip
    """Simulate patients' contributions to the difference between two models' scores.

    Return an array of ``shape`` with the contributions of patients drawn from ``people``, and the largest absolute
    value that a contribution can have. The mean of the contributions estimates ``difference``.
    """
    # On an item the models differ by d = 1, -1 or 0, and the contribution is the sum of d times the item's weight. One
    # d is drawn for the patient, and one for each item. With probability ``sqrt(assumed.correlation)``, an item gets
    # the patient's d instead of its own.
    most = max(len(one) for one in people)
    table = np.zeros((len(people), most))
    for place, one in enumerate(people):
        table[place, : len(one)] = list(one.values())
    table *= len(people)
    gap = difference / (table.sum() / len(people))
    better = (assumed.discordance + gap) / 2

    def draw(size: tuple[int, ...]) -> Floats:
        at = random.random(size)
        return np.where(at < better, 1.0, np.where(at < assumed.discordance, -1.0, 0.0))

    who = random.integers(0, len(people), shape)
    values = np.zeros(shape)
    shared, mixed = draw(shape), assumed.correlation**0.5
    for place in range(most):
        values += table[who, place] * np.where(random.random(shape) < mixed, shared, draw(shape))
    return values, float(table.sum(axis=1).max())


def _usual_chance(kind: Kind) -> float:
    """Return roughly the mean chance of a kind in phantom benchmarks of the recipe ``chexpercept``."""
    if kind.yes_no:
        return 0.5
    if kind.points:
        return 0.34
    return 0.125 if kind.multi else 0.25


def usual_study(patients: int) -> list[Asked]:
    """Return the items of a study by the recipe ``chexpercept``: one case a patient, a third of them on each path."""
    findings = CHEXPERCEPT_FINDINGS
    rows = []
    for number in range(patients):
        path, finding = PATHS[number % len(PATHS)], findings[number // len(PATHS) % len(findings)]
        for kind in KINDS.values():
            if kind.stage not in PATH_STAGES[path] or (kind.stage == 4 and finding == NOT_COMPARED):
                continue
            said = {1: path != "lesion_free", 2: path == "revision_required"}
            rows.append(
                Asked(f"{number}/{kind.name}", str(number), kind.name, kind.level, finding, _usual_chance(kind),
                      said.get(kind.stage or 0))
            )  # fmt: skip
    return rows
