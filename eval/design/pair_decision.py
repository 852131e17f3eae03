"""Stopping rule: a run ends as soon as the patients asked so far show which of two models has the higher score.

Patients are counted in a random order, each as soon as both models have finished all turns on this patient and on all
earlier ones. ``docs/deciding.md`` explains the rule.
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
    """Settings of a stopping rule.

    - ``models``: the names of the two models.
    - ``on``: the score that is compared: a level, ``mean`` (of the levels) or ``grid``.
    - ``alpha``: the largest probability of a decision if the models are equal.
    - ``target``: ``population`` for a statement about other patients, ``benchmark`` for the benchmark's patients only.
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
    """Result of a stopping rule after some patients.

    - ``cases``: the ids of the counted patients' cases.
    - ``patients``, ``of``: the number of counted patients, and of all patients.
    - ``difference``: the first model's score minus the second's; None if no patient is counted.
    - ``low``, ``high``: the ends of its interval.
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
    """Counter of two models' answers; it counts patients in a random order and applies a stopping rule after each."""

    def __init__(self, rule: StoppingRule, benchmark: Benchmark, seed: int, rounds: int = 1) -> None:
        """Start without answers; ``rounds`` says how often each item is asked.

        Raise ``InputError`` if the key is withheld, or if the benchmark has no items for the rule's score.
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
        """Return True if every patient with items in the score is counted."""
        return self.counted == self.of

    @property
    def bound(self) -> float:
        """Return the largest absolute value that a patient can contribute to the mean difference."""
        return self.of * max(sum(weights.values()) for weights in self._weights.values())

    def place(self, item_id: str) -> int:
        """Return the index (from 0) of an item's patient in the order in which patients are counted."""
        return self._place[self._patient[item_id]]

    def take(self, turns: Iterable[Turn]) -> None:
        """Count finished turns, and test after every finished patient whether the rule decides.

        A finished turn must be passed only once.
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
            # A patient's value; the mean of all values is the difference of the two models' scores.
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
        """Return the rule's result after the last counted patient."""
        values = np.array(self._values)
        low, high = confidence_sequence.interval(values, self.bound, self.rule.alpha, self._size)
        cases = tuple(sorted(case for name in self.order[: self.counted] for case in self._cases[name]))
        difference = float(values.mean()) if len(values) else None
        return Decision(self.rule, cases, self.counted, self.of, difference, low, high, self.decided)


def patients_in_order(weighted: Iterable[str], patients: Sequence[str], seed: int) -> list[str]:
    """Return the patients in a random order that ``seed`` fixes; patients missing from ``weighted`` come last."""
    kept = set(weighted)
    names = sorted(patients)
    shuffled = [names[place] for place in stream(seed, "order of patients").permutation(len(names))]
    return sorted(shuffled, key=lambda name: name not in kept)
