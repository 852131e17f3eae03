"""A reader's agreement with their own earlier answers, on questions that the reader answered twice.

Kappa is pooled over kinds of question (De Vries 2008; :func:`chexqa.review.resolve.coefficients.pooled_kappa`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from chexqa.contract.benchmark import Benchmark
from chexqa.review.collect.verdicts import Verdict
from chexqa.review.resolve import coefficients
from chexqa.review.resolve.coefficients import Estimate, Floats
from chexqa.review.resolve.compare import SheetPlace, Unit, places_of, scales_of, units_of

_FIRST, _AGAIN = "first", "again"


@dataclass(frozen=True)
class WithHimself:
    """Agreement of a reader's first and second answers to repeated items.

    - ``reviewer``: the reader; ``None`` for all readers together.
    - ``items``: the number of items answered twice.
    - ``same``: the share of equal answers; ``kappa``: kappa of first and second answers.
    """

    reviewer: str | None
    items: int
    patients: int
    same: Estimate
    kappa: Estimate


def with_themselves(bench: Benchmark, verdicts: Iterable[Verdict]) -> list[WithHimself]:
    """Return the agreement of first and second answers, of all readers together and then of each reader.

    The result is empty if no item was answered twice.
    """
    pairs = answered_twice(verdicts)
    places = places_of(bench)
    people = {name: at for at, name in enumerate(sorted({place.patient for place in places.values()}))}
    weights = coefficients.resamples(len(people))
    scales = scales_of(place.item for place in places.values() if place.item is not None)
    found = []
    for who in (None, *sorted({reviewer for reviewer, _ in pairs})) if pairs else ():
        own = [(places[row], said) for (reviewer, row), said in pairs.items() if who in (None, reviewer)]
        found.append(_measured(who, own, people, weights, scales))
    return found


def answered_twice(verdicts: Iterable[Verdict]) -> dict[tuple[str, str], dict[str, tuple[int, ...]]]:
    """Return the two answers of each reader to each row that the reader answered twice, keyed by reader and row id.

    The two answers are option numbers, keyed by ``first`` and ``again``.
    """
    said: dict[tuple[str, str], dict[str, tuple[int, ...]]] = {}
    for verdict in sorted(verdicts, key=lambda verdict: (verdict.imported, verdict.batch)):
        if verdict.kind in ("readers", "repeat") and verdict.answer is not None:
            name = _AGAIN if verdict.kind == "repeat" else _FIRST
            said.setdefault((verdict.reviewer, verdict.row), {})[name] = verdict.answer
    return {key: answers for key, answers in sorted(said.items()) if len(answers) == 2}


def _measured(
    who: str | None, own: Sequence[tuple[SheetPlace, Mapping[str, tuple[int, ...]]]], people: Mapping[str, int],
    weights: Floats, scales: Mapping[str, Mapping[str, int]],
) -> WithHimself:  # fmt: skip
    equal = np.array([said[_FIRST] == said[_AGAIN] for _, said in own])
    patients = np.array([people[place.patient] for place, _ in own])
    units = [unit for place, said in own for unit in units_of(place, said, scales)]
    kappa = coefficients.pooled_kappa(
        [_codes(unit) for unit in units], [(unit.place.kind, unit.categories) for unit in units],
        np.array([people[unit.place.patient] for unit in units]), weights,
    )  # fmt: skip
    share = coefficients.share_estimate(equal, patients, weights)
    return WithHimself(who, len(own), len(np.unique(patients)), share, kappa)


def _codes(unit: Unit) -> tuple[int, int]:
    return unit.codes[_FIRST], unit.codes[_AGAIN]
