"""Predictors that never look at the anatomy, each tested against chance in every kind of item it applies to.

Three sorts. *Artefact*: only the making of the benchmark could give it predictive power; no artefact may beat chance.
*Prior*: nature's frequencies, or the effect of a disease on the whole radiograph. *Forced*: the published rules imply
it. A predictor with a free choice (of a rank, a colour, a direction) is corrected for the number of choices
(Bonferroni), in its p value and its intervals.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from chexqa.contract.kinds import kind_order
from chexqa.files.seeds import stream
from chexqa.generators.audit.exact_tests import (
    BinaryScore,
    HypergeometricTrial,
    expected_hits,
    interval,
    p_by_permutation,
    p_of_hits,
)
from chexqa.generators.audit.features import POINT_KINDS, Choice, Features, ItemFeatures, Value
from chexqa.stats import holm

PredictorClass = Literal["artefact", "prior", "forced"]
LEVEL = 0.01
SAME = "the same in every item"
_RANKS = {2: ("smaller", "larger"), 4: ("smallest", "second smallest", "second largest", "largest")}


@dataclass(frozen=True)
class Result:
    """One predictor's score on one kind of item.

    ``rule``: the best of ``rules`` rules, in words. ``answers``: how many it gave, ``right`` of them right;
    ``chance``: the share expected by chance; ``interval``: 95 %, of the share of right answers. ``p``: one-sided,
    corrected for the number of rules; ``holm``: adjusted over all artefacts. If ``answers`` is 0, nothing could be
    tested, and ``rule`` says why.
    """

    kind: str
    sort: PredictorClass
    predictor: str
    rule: str
    rules: int
    answers: int
    right: int
    chance: float
    interval: tuple[float, float]
    p: float | None
    holm: float | None = None

    @property
    def share(self) -> float:
        """Return the share of right answers; 0 without answers."""
        return self.right / self.answers if self.answers else 0.0

    @property
    def leak(self) -> bool:
        """Return True if an artefact beats chance at the level of the whole family."""
        return self.holm is not None and self.holm < LEVEL


class _Rule(NamedTuple):
    """One rule's outcome. ``right`` of ``answers``: the score in answers; hits are a part of them."""

    name: str
    contests: list[HypergeometricTrial]
    answers: int
    right: int
    expected: float


class _Feature(NamedTuple):
    sort: PredictorClass
    name: str


# Features compared among candidates of an item. A rule can name any rank of the four pictures, but only the first and
# the last of points, because their number varies.
_OF_RESULTS = (
    _Feature("artefact", "area"),
    _Feature("artefact", "length"),
    _Feature("artefact", "borders"),
    _Feature("artefact", "corners"),
    _Feature("artefact", "roughness"),
    _Feature("artefact", "bend"),
    _Feature("artefact", "compactness"),
    _Feature("artefact", "difference from the other three"),
    _Feature("artefact", "overlap with the other three"),
    _Feature("artefact", "difference from the outline shown before"),
    _Feature("artefact", "file size"),
)
_OF_POINTS = (
    _Feature("artefact", "distance"),
    _Feature("artefact", "isolation"),
    _Feature("artefact", "corners nearby"),
    _Feature("artefact", "roughness nearby"),
    # An edit is a bulge or a bay of the outline; the question asks models to see it.
    _Feature("forced", "bulge"),
)
# Features of an item as a whole. A disease changes the whole radiograph, and so the size of its file. The wording of
# severity names the lung that is asked about.
_OF_ITEMS = (
    _Feature("artefact", "place in the file"),
    _Feature("artefact", "wording"),
    _Feature("artefact", "length of the question"),
    _Feature("artefact", "file size"),
    _Feature("artefact", "outline: area"),
    _Feature("artefact", "outline: length"),
    _Feature("artefact", "outline: borders"),
    _Feature("artefact", "outline: corners"),
    _Feature("artefact", "outline: roughness"),
    _Feature("artefact", "outline: bend"),
    _Feature("artefact", "outline: compactness"),
    _Feature("prior", "radiograph: file size"),
    _Feature("prior", "radiograph: shape of the picture"),
    # At least one point marks no edit, so that few points mean few edits.
    _Feature("forced", "number of points"),
)
_PRIORS_OF = {"severity": ("wording", "length of the question")}
# A case's path is drawn at random, so the radiograph as a whole must not predict it. Elsewhere, as in the point items,
# the answer is drawn among options, and the radiograph as a whole cannot predict it.
_ARTEFACTS_OF = {"contour_evaluation": ("radiograph: file size", "radiograph: shape of the picture")}


def artefacts_of_items() -> list[str]:
    """Return the names of the artefacts of an item as a whole."""
    return [name for sort, name in _OF_ITEMS if sort == "artefact"]


def artefacts_of_points() -> list[str]:
    """Return the names of the artefacts of points."""
    return [name for sort, name in _OF_POINTS if sort == "artefact"]


def artefacts_of_results() -> list[str]:
    """Return the names of the artefacts of the four pictures."""
    return [name for sort, name in _OF_RESULTS if sort == "artefact"]


def score_all(features: Features) -> list[Result]:
    """Return the score of every predictor on every kind of item."""
    results: list[Result] = []
    for kind in kind_order(features.rows):
        if features.rows[kind]:
            results += _of_items(kind, features.rows[kind])
            results += _of_candidates(kind, features)
    return results


def with_holm(results: Sequence[Result]) -> list[Result]:
    """Return the results with Holm's correction over the artefacts that could be tested."""
    family = [index for index, row in enumerate(results) if row.sort == "artefact" and row.p is not None]
    adjusted = holm(np.array([results[index].p for index in family], float)).tolist()
    found = dict(zip(family, adjusted, strict=True))
    return [replace(row, holm=found.get(index)) for index, row in enumerate(results)]


def _of_items(kind: str, rows: list[ItemFeatures]) -> list[Result]:
    results = [_neighbour(kind, rows)]
    for sort, name in _OF_ITEMS:
        having = [row for row in rows if name in row.features]
        if having:
            results.append(_scored(kind, _sort_in(kind, name, sort), name, _row_rules(having, name)))
    return results


def _sort_in(kind: str, name: str, sort: PredictorClass) -> PredictorClass:
    if name in _PRIORS_OF.get(kind, ()):
        return "prior"
    return "artefact" if name in _ARTEFACTS_OF.get(kind, ()) else sort


def _of_candidates(kind: str, features: Features) -> list[Result]:
    choices = features.choices[kind]
    results = []
    for name in ("position", "colour"):
        if any(name in choice.features for choice in choices):
            results.append(_scored(kind, "artefact", name, _choice_rules(choices, name, _as_named)))
    if kind == "location":
        results.append(
            _scored(kind, "artefact", "length of the option", _choice_rules(choices, "length of the option", _ends))
        )
        results.append(_scored(kind, "prior", "region named", _choice_rules(choices, "region named", _as_named)))
    if kind == "revision_result":
        results += [_scored(kind, sort, name, _choice_rules(choices, name, _ranks)) for sort, name in _OF_RESULTS]
    if kind in POINT_KINDS:
        beside = features.beside[kind]
        results += [
            _scored(kind, sort, f"{name}, on its side", _choice_rules(beside, name, _ends)) for sort, name in _OF_POINTS
        ]
        if kind == POINT_KINDS[-1]:
            rules = _choice_rules(features.edits, "inside", _sides)
            results.append(_scored(kind, "artefact", "side, to mark any edit", rules))
    return results


def _scored(kind: str, sort: PredictorClass, predictor: str, rules: Iterable[_Rule]) -> Result:
    """Return the score of the best rule, corrected for the number of rules; the first wins a tie."""
    tested = [rule for rule in rules if rule.contests]
    if not tested:
        return Result(kind, sort, predictor, SAME, 0, 0, 0, 0.0, (0.0, 1.0), None)
    p_values = [p_of_hits(rule.contests) for rule in tested]
    p, best = min(zip(p_values, range(len(tested)), strict=True))
    rule = tested[best]
    return Result(
        kind=kind,
        sort=sort,
        predictor=predictor,
        rule=rule.name,
        rules=len(tested),
        answers=rule.answers,
        right=rule.right,
        chance=rule.expected / rule.answers,
        interval=interval(rule.right, rule.answers, len(tested)),
        p=min(1.0, p * len(tested)),
    )


# --- among the candidates of an item


Namer = Callable[[Choice, str], tuple[str, ...]]


def _as_named(choice: Choice, name: str) -> tuple[str, ...]:
    return tuple(str(value) for value in choice.features[name])


def _sides(choice: Choice, name: str) -> tuple[str, ...]:
    return tuple("inside" if value else "outside" for value in choice.features[name])


def _ranks(choice: Choice, name: str) -> tuple[str, ...]:
    names = _RANKS.get(len(choice.right))
    return _ends(choice, name) if names is None else tuple(names[rank] for rank in _order(choice, name))


def _ends(choice: Choice, name: str) -> tuple[str, ...]:
    last = len(choice.right) - 1
    return tuple({0: "smallest", last: "largest"}.get(rank, "") for rank in _order(choice, name))


def _order(choice: Choice, name: str) -> list[int]:
    """Return each candidate's rank from 0; equal values are ordered at random, by item."""
    values = np.array([float(value) for value in choice.features[name]])
    ties = stream(0, "audit", choice.item_id, name).random(len(values))
    ranks = [0] * len(values)
    for rank, index in enumerate(np.lexsort((ties, values))):
        ranks[int(index)] = rank
    return ranks


def _choice_rules(choices: Iterable[Choice], feature: str, namer: Namer) -> list[_Rule]:
    """Return for every name of candidates the rule to pick a candidate of that name in each item that has one."""
    contests: dict[str, list[HypergeometricTrial]] = defaultdict(list)
    for choice in choices:
        size, right = len(choice.right), sum(choice.right)
        if feature not in choice.features or not 0 < right < size or len(set(choice.features[feature])) == 1:
            continue
        names = namer(choice, feature)
        for name in dict.fromkeys(names):
            if name:
                picked = [index for index, other in enumerate(names) if other == name]
                hits = sum(choice.right[index] for index in picked)
                contests[name].append(HypergeometricTrial(size, right, len(picked), hits))
    return [
        _Rule(name, rows, sum(row.picked for row in rows), sum(row.hits for row in rows), expected_hits(rows))
        for name, rows in sorted(contests.items())
    ]


# --- of an item as a whole


def _row_rules(rows: Iterable[ItemFeatures], feature: str) -> list[_Rule]:
    """Return a rule for each answer and value of the feature: give this answer exactly at that value.

    A number counts as above or below its median. Answers are compared only within a finding, where they are
    exchangeable, so a finding's frequency does not help a predictor.
    """
    strata: dict[str, list[ItemFeatures]] = defaultdict(list)
    for row in rows:
        strata[row.finding].append(row)
    named = {finding: (part, _values(part, feature)) for finding, part in strata.items()}
    labels = sorted({row.label for part in strata.values() for row in part})
    values = sorted({value for _, found in named.values() for value in found})
    if len(labels) == 2:
        labels = labels[:1] if len(values) == 2 else labels
    rules = []
    for label in labels:
        for value in values:
            contests = [
                _contest([row.label == label for row in part], [own == value for own in found])
                for part, found in named.values()
            ]
            contests = [row for row in contests if 0 < row.right < row.size and 0 < row.picked < row.size]
            rules.append(_Rule(f"answer {label} where {value}", contests, *BinaryScore.of(contests)))
    return rules


def _contest(right: list[bool], picked: list[bool]) -> HypergeometricTrial:
    hits = sum(truth and own for truth, own in zip(right, picked, strict=True))
    return HypergeometricTrial(len(right), sum(right), sum(picked), hits)


def _values(rows: list[ItemFeatures], feature: str) -> list[str]:
    """Return each row's value as a word; numbers become "high" or "low" by their median."""
    values: list[Value] = [row.features[feature] for row in rows]
    numbers = [value for value in values if isinstance(value, float)]
    if len(numbers) < len(values):
        return [f"it says “{_short(str(value))}”" for value in values]
    middle = float(np.median(numbers))
    if middle == max(numbers):
        # If half of the numbers or more are equal, the others are below.
        return ["high" if number == middle else "low" for number in numbers]
    return ["high" if number > middle else "low" for number in numbers]


def _short(text: str, most: int = 40) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _neighbour(kind: str, rows: list[ItemFeatures]) -> Result:
    """Test if an item's answer is, or is not, that of the item of its kind and finding before it in the file."""
    predictor = "answer of the item before"
    strata: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        strata[row.finding].append(row.label)
    codes = [np.unique(labels, return_inverse=True)[1] for labels in strata.values() if len(set(labels)) > 1]
    if not codes:
        return Result(kind, "artefact", predictor, SAME, 0, 0, 0, 0.0, (0.0, 1.0), None)
    answers = sum(len(labels) - 1 for labels in codes)
    same = sum(int(np.count_nonzero(labels[1:] == labels[:-1])) for labels in codes)
    expected = sum(
        float((count * (count - 1)).sum()) / len(labels) for labels in codes for count in [np.bincount(labels)]
    )
    rng = stream(0, "audit", kind, predictor)
    sign = 1 if same >= expected else -1

    def shuffled() -> float:
        mixed = [rng.permutation(labels) for labels in codes]
        return sign * sum(int(np.count_nonzero(labels[1:] == labels[:-1])) for labels in mixed)

    p = min(1.0, 2 * p_by_permutation(sign * same, shuffled))
    right, chance = (same, expected) if sign == 1 else (answers - same, answers - expected)
    rule = "the same again" if sign == 1 else "another one"
    return Result(
        kind, "artefact", predictor, rule, 2, answers, right, chance / answers, interval(right, answers, 2), p
    )
