"""Stopping rule: a run ends when a confidence sequence over patients shows which of two models has the higher score.

Patients are counted in a random order that the run's seed fixes. A patient is counted when two conditions are met: both
models have finished all turns on the patient, and every earlier patient is counted. So patients with quick replies are
not counted earlier.

On each item of a patient, the difference between the two models is multiplied by the item's weight. The value of the
patient is the sum of these products, multiplied by the number of patients. The mean of all values is the difference of
the two models' scores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import clusters, is_right
from chexqa.contract.read_run import ERROR, Turn
from chexqa.eval.design import confidence_sequence
from chexqa.eval.design.weights import asked_items, by_patient, score_weights
from chexqa.files.errors import InputError
from chexqa.files.seeds import stream

Target = Literal["population", "benchmark"]
TARGETS: tuple[Target, ...] = ("population", "benchmark")


@dataclass(frozen=True)
class StoppingRule:
    """A rule that decides which of two models has the higher score, and when to stop asking.

    - ``on``: the score: a level of questions, the mean of levels (``mean``) or the grid task (``grid``).
    - ``alpha``: the largest probability of a decision between models that are equal.
    - ``target``: the patients whose mean score is estimated: the population that the benchmark's patients come from
      (``population``), or only the benchmark's patients (``benchmark``).
    """

    models: tuple[str, str]
    on: str
    alpha: float = 0.05
    target: Target = "population"

    def to_record(self) -> dict[str, Any]:
        """Return the JSON form."""
        return asdict(self) | {"models": list(self.models)}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> StoppingRule:
        """Return the rule that a record describes; a schema has checked the record before."""
        return cls(**(record | {"models": (record["models"][0], record["models"][1])}))

    @property
    def words(self) -> str:
        """Return the rule in words, as one clause."""
        which = "the patients' population" if self.target == "population" else "this benchmark"
        return f"{self.models[0]} against {self.models[1]}, {self.on}, alpha {self.alpha:g}, for {which}"


@dataclass(frozen=True)
class Decision:
    """The state of a stopping rule after some patients are counted, with the confidence interval of the difference.

    - ``patients``: the number of patients counted so far; ``of``: the number of all patients.
    - ``cases``: the ids of the counted patients' cases.
    - ``decided``: True if the interval excludes zero.
    """

    rule: StoppingRule
    cases: tuple[str, ...]
    patients: int
    of: int
    difference: float | None
    low: float
    high: float
    decided: bool

    @property
    def better(self) -> str | None:
        """Return the model with the higher score; None if the rule has not decided."""
        if not self.decided or self.difference is None:
            return None
        return self.rule.models[0 if self.difference > 0 else 1]


class PairTally:
    """Counter of two models' answers; it counts the patients in the order in which the stopping rule looks at them."""

    def __init__(self, rule: StoppingRule, benchmark: Benchmark, seed: int, rounds: int = 1) -> None:
        """Start without answers; each item is asked of each model ``rounds`` times.

        Raises ``InputError`` if the key is withheld, or if the benchmark has no items for the score that the rule
        names.
        """
        self.rule, self.benchmark, self.rounds = rule, benchmark, rounds
        self._answers, cases = benchmark.key("--until-decided")
        asked = asked_items(benchmark, benchmark.items)
        weights = score_weights(asked)
        if rule.on not in weights:
            known = ", ".join(weights) or "none"
            raise InputError(
                f"--on {rule.on}: {benchmark.folder} has no items for this score; it has items for {known}."
            )
        self._weights = by_patient(asked, weights[rule.on])
        cluster_of = clusters(benchmark.items, cases)
        self._patient = {item.item_id: cluster_of[item.case_id] for item in benchmark.items}
        self.order = patients_in_order(self._weights, list(dict.fromkeys(cluster_of.values())), seed)
        self._place = {name: place for place, name in enumerate(self.order)}
        self._cases: dict[str, list[str]] = {name: [] for name in self.order}
        for case_id, name in cluster_of.items():
            self._cases[name].append(case_id)
        items = Counter(self._patient.values())
        self._open = {(model, name): items[name] * rounds for model in rule.models for name in self.order}
        self._sums: dict[str, float] = dict.fromkeys(self.order, 0.0)
        self._values: list[float] = []
        self.counted, self.decided = 0, False

    @property
    def of(self) -> int:
        """Return the number of patients with items that count in the score."""
        return len(self._weights)

    @property
    def is_complete(self) -> bool:
        """Return True if the tally includes every patient who has items that enter the score."""
        return self.counted == self.of

    @property
    def bound(self) -> float:
        """Return the largest absolute value that one patient's difference of scores can have."""
        return self.of * max(sum(weights.values()) for weights in self._weights.values())

    def place(self, item_id: str) -> int:
        """Return the index (from 0) of an item's patient in the order in which patients are counted."""
        return self._place[self._patient[item_id]]

    def take(self, turns: Iterable[Turn]) -> None:
        """Count finished turns; whenever all questions on a patient are finished, test whether the stopping rule
        already decides which model is better.

        Each finished turn must be passed only once.
        """
        for turn in turns:
            if turn.state == ERROR or turn.model not in self.rule.models:
                continue
            name = self._patient[turn.item_id]
            self._open[turn.model, name] -= 1
            key = self._answers[turn.item_id]
            if turn.state == "answered" and is_right(self.benchmark.item[turn.item_id], key, turn.parsed or ()):
                sign = 1 if turn.model == self.rule.models[0] else -1
                self._sums[name] += sign * self._weights.get(name, {}).get(turn.item_id, 0.0) / self.rounds
        while not self.decided and not self.is_complete and self._is_finished(self.order[self.counted]):
            self._values.append(self.of * self._sums[self.order[self.counted]])
            self.counted += 1
            self.decided = self._looks_decided()

    def _is_finished(self, name: str) -> bool:
        return all(self._open[model, name] <= 0 for model in self.rule.models)

    def _looks_decided(self) -> bool:
        at = confidence_sequence.decided_at(np.array(self._values), self.bound, self.rule.alpha, self._size)
        return bool(at)

    @property
    def _size(self) -> int | None:
        return self.of if self.rule.target == "benchmark" else None

    def decision(self) -> Decision:
        """Return the state of the stopping rule after the last counted patient."""
        values = np.array(self._values)
        low, high = confidence_sequence.interval(values, self.bound, self.rule.alpha, self._size)
        cases = tuple(sorted(case for name in self.order[: self.counted] for case in self._cases[name]))
        difference = float(values.mean()) if len(values) else None
        return Decision(self.rule, cases, self.counted, self.of, difference, low, high, self.decided)


def patients_in_order(weighted: Iterable[str], patients: Sequence[str], seed: int) -> list[str]:
    """Return the patients in a random order that ``seed`` fixes; patients who are not in ``weighted`` come last."""
    kept = set(weighted)
    names = sorted(patients)
    shuffled = [names[place] for place in stream(seed, "order of patients").permutation(len(names))]
    return sorted(shuffled, key=lambda name: name not in kept)
