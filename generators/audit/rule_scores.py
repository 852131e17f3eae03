"""Predictors that never look at the anatomy, each tested against chance on the kinds of item that it applies to.

There are three classes of predictor:

- *Artefact*: a trace of the way the benchmark was made; none may beat chance.
- *Prior*: some answers are frequent in nature, or a disease changes the whole radiograph.
- *Forced*: the published rules imply the answer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from chexqa.contract.kinds import kind_order
from chexqa.files.jsonio import Record
from chexqa.files.seeds import stream
from chexqa.generators.audit.exact_tests import (
    HALVES,
    BinaryScore,
    Contest,
    Flags,
    NullScore,
    bins,
    expected_hits,
    interval,
    p_by_permutation,
)
from chexqa.generators.audit.shortcuts_tried import (
    BY_ROOM,
    FILE_OF_RESULTS,
    GREY_OF_RESULTS,
    OF_POINTS,
    OF_RESULTS,
    POINT_KINDS,
    Choice,
    Features,
    ItemFeatures,
    PredictorClass,
    features_of_items,
)
from chexqa.stats import holm

LEVEL = 0.01
SAME = "the same in every item"
_ORDER = {
    "position", "colour", "place in the file", "ids", "wording", "length of the question", "length of the option",
    "answer of the item before",
}  # fmt: skip
_THIRDS = ("small", "middling", "large")
_RANKS = {2: ("smaller", "larger"), 4: ("smallest", "second smallest", "second largest", "largest")}


@dataclass(frozen=True)
class Result:
    """One predictor's score on one kind of item.

    - ``rule``: the best rule in words; if nothing could be tested, the reason.
    - ``rules``: the number of rules tried.
    - ``answers``: the number of answers that the best rule gave; 0 if nothing could be tested.
    - ``right``: the number of right answers among them.
    - ``chance``: the share of right answers by chance.
    - ``interval``: the 95 % interval of the share of right answers.
    - ``p``: the one-sided p value, corrected for the number of rules.
    - ``holm``: ``p`` adjusted over all artefacts.
    - ``detectable``: the smallest share of right answers at which the test finds a leak with a power of 80 %; None if
      it is unknown, or if the test finds no leak of any size.
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
    detectable: float | None = None
    null: NullScore | None = field(default=None, repr=False, compare=False)

    @property
    def share(self) -> float:
        """Return the share of right answers; 0 if there are no answers."""
        return self.right / self.answers if self.answers else 0.0

    @property
    def leak(self) -> bool:
        """Return True for an artefact that beats chance after Holm's correction over all tested artefacts."""
        return self.holm is not None and self.holm < LEVEL

    @property
    def excess(self) -> float | None:
        """Return ``detectable - chance``; None if ``detectable`` is None.

        ``detectable`` is the smallest share of right answers at which the test finds a leak with a power of 80 %.
        """
        return None if self.detectable is None else self.detectable - self.chance

    @property
    def family(self) -> str:
        """Return the name of the group of features to which the predictor belongs."""
        words = self.predictor
        if words.startswith("classifier"):
            return "classifier"
        if "file" in words.replace("place in the file", "") or "grey levels" in words or words.endswith("bytes"):
            return "files and grey levels"
        return "order, ids and wording" if words in _ORDER else "outlines and points"

    def to_record(self) -> Record:
        """Return the JSON form."""
        record = {name: value for name, value in vars(self).items() if name != "null"}
        return {**record, "interval": list(self.interval), "share": self.share, "leak": self.leak}


class Rule(NamedTuple):
    """Outcome of one rule.

    - ``contests``: the sets of candidates to which the rule is applied.
    - ``answers``: the number of the rule's answers. A rule that picks candidates gives one answer for each pick; a rule
      that says yes or no gives one answer for each candidate.
    - ``right``: the number of the rule's right answers.
    - ``expected``: the number of right answers expected by chance.
    """

    name: str
    contests: list[Contest]
    answers: int
    right: int
    expected: float


def score_all(features: Features) -> list[Result]:
    """Return the score of every predictor on every kind of item."""
    results: list[Result] = []
    for kind in kind_order(features.rows):
        if features.rows[kind]:
            results += _of_items(kind, features.rows[kind])
            results += _of_candidates(kind, features)
    return results


def with_holm(results: Sequence[Result]) -> list[Result]:
    """Return the results with ``holm`` (p corrected over all tested artefacts) and ``detectable`` filled in."""
    family = [index for index, row in enumerate(results) if row.sort == "artefact" and row.p is not None]
    adjusted = holm(np.array([results[index].p for index in family], float)).tolist()
    found = dict(zip(family, adjusted, strict=True))
    return [
        replace(row, holm=found[index], detectable=_detectable(row, len(family))) if index in found else row
        for index, row in enumerate(results)
    ]


def _detectable(row: Result, tested: int) -> float | None:
    right = None if row.null is None else row.null.detectable(LEVEL / tested / row.rules)
    return None if right is None else right / row.answers


def _of_items(kind: str, rows: list[ItemFeatures]) -> list[Result]:
    results = [_neighbour(kind, rows)]
    names = {name for row in rows for name in row.features}
    roles = sorted(name.removesuffix(": parts") for name in names if name.endswith(": parts"))
    for one in features_of_items(kind, roles):
        measures = [name for name in one.measures if name in names]
        if measures:
            results.append(_scored(kind, one.sort, one.name, _row_rules(rows, measures)))
    return results


def _of_candidates(kind: str, features: Features) -> list[Result]:
    choices = features.choices[kind]
    results = []
    for name in ("position", "colour"):
        if any(name in choice.features for choice in choices):
            results.append(_scored(kind, "artefact", name, choice_rules(choices, name, _as_named)))
    if any("length of the option" in choice.features for choice in choices):
        rules = choice_rules(choices, "length of the option", _ends)
        results.append(_scored(kind, "artefact", "length of the option", rules))
        named = "region named" if kind == "location" else "text of the option"
        results.append(_scored(kind, "prior", named, choice_rules(choices, named, _as_named)))
    if kind == "revision_result":
        results += _of_results(kind, choices)
    if kind in POINT_KINDS:
        by_side = features.points_by_side[kind]
        results += [
            _scored(kind, sort, f"{name}, on its side", choice_rules(by_side, name, _ends))
            for sort, name, _ in OF_POINTS
        ]
        if kind == POINT_KINDS[-1]:
            rules = choice_rules(features.points_of_cases, "inside", sides)
            results.append(_scored(kind, "artefact", "side, to mark any edit", rules))
            rules = by_room(features.points_of_cases, "inside", sides)
            results.append(_scored(kind, "artefact", "side, to mark any edit, by room", rules))
    return results


def _of_results(kind: str, choices: list[Choice]) -> list[Result]:
    """Return the scores of all features that are compared among the four pictures."""
    results = [_scored(kind, one.sort, one.name, choice_rules(choices, one.name, ranks)) for one in OF_RESULTS]
    for name in BY_ROOM:
        results.append(_scored(kind, "artefact", f"{name}, by room", by_room(choices, name, ranks)))
    for one in (FILE_OF_RESULTS, GREY_OF_RESULTS):
        rules = []
        for name in one.measures:
            found = next((choice.features[name] for choice in choices if name in choice.features), ("",))
            namer = _as_named if isinstance(found[0], str) or " mod " in name else ranks
            rules += [rule._replace(name=f"{name}: {rule.name}") for rule in choice_rules(choices, name, namer)]
        results.append(_scored(kind, one.sort, one.name, rules))
    return results


def _scored(kind: str, sort: PredictorClass, predictor: str, rules: Iterable[Rule]) -> Result:
    """Return the score of the best rule, corrected for the number of rules.

    Among equally good rules the first is taken.
    """
    tested = [rule for rule in rules if rule.contests]
    if not tested:
        return Result(kind, sort, predictor, SAME, 0, 0, 0, 0.0, (0.0, 1.0), None)
    nulls = [NullScore.of(rule.contests, rule.answers, rule.right) for rule in tested]
    p, best = min((null.p(rule.right), place) for place, (rule, null) in enumerate(zip(tested, nulls, strict=True)))
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
        null=nulls[best],
    )


# --- among the candidates of an item


Namer = Callable[[Choice, str], tuple[str, ...]]


def _as_named(choice: Choice, name: str) -> tuple[str, ...]:
    return tuple(str(value) for value in choice.features[name])


def sides(choice: Choice, name: str) -> tuple[str, ...]:
    """Return a name for each candidate: its side of the outline, "inside" or "outside"."""
    return tuple("inside" if value else "outside" for value in choice.features[name])


def ranks(choice: Choice, name: str) -> tuple[str, ...]:
    """Return, for each candidate of ``choice``, its rank by the feature ``name`` in words, such as "smallest"."""
    names = _RANKS.get(len(choice.right))
    return _ends(choice, name) if names is None else tuple(names[rank] for rank in _order(choice, name))


def _ends(choice: Choice, name: str) -> tuple[str, ...]:
    last = len(choice.right) - 1
    return tuple({0: "smallest", last: "largest"}.get(rank, "") for rank in _order(choice, name))


def _order(choice: Choice, name: str) -> list[int]:
    """Return each candidate's rank from 0; equal values are ordered at random, by item."""
    values = np.array([float(value) for value in choice.features[name]])
    ties = stream(0, "audit", choice.item_id, name).random(len(values))
    found = [0] * len(values)
    for rank, index in enumerate(np.lexsort((ties, values))):
        found[int(index)] = rank
    return found


def choice_rules(choices: Iterable[Choice], feature: str, namer: Namer) -> list[Rule]:
    """Return one rule for each name that ``namer`` gives; the rule picks the candidates that have this name.

    ``namer`` names candidates by their values of ``feature``, such as "largest".
    """
    contests: dict[str, list[Contest]] = defaultdict(list)
    for choice in choices:
        size, right = len(choice.right), sum(choice.right)
        if feature not in choice.features or not 0 < right < size or len(set(choice.features[feature])) == 1:
            continue
        names = namer(choice, feature)
        for name in dict.fromkeys(names):
            if name:
                picked = [index for index, other in enumerate(names) if other == name]
                hits = sum(choice.right[index] for index in picked)
                contests[name].append(Contest(size, right, len(picked), hits))
    return [
        Rule(name, rows, sum(row.picked for row in rows), sum(row.hits for row in rows), expected_hits(rows))
        for name, rows in sorted(contests.items())
    ]


def by_room(choices: Sequence[Choice], feature: str, namer: Namer) -> list[Rule]:
    """Return the rules of :func:`choice_rules`, separately for items with little, medium and much room for edits.

    The items are divided into thirds by each measure in ``Choice.room``.
    """
    # A feature may be balanced over all items and yet predict the answer within one group.
    having = [choice for choice in choices if choice.room]
    rules = []
    for name in sorted({name for choice in having for name in choice.room}):
        values = [choice.room[name] for choice in having]
        cuts = np.quantile(values, (1 / 3, 2 / 3))
        thirds = np.searchsorted(cuts, values, side="left")
        for third, size in enumerate(_THIRDS):
            part = [choice for choice, own in zip(having, thirds, strict=True) if own == third]
            rules += [
                rule._replace(name=f"{rule.name} where the {name} is {size}")
                for rule in choice_rules(part, feature, namer)
            ]
    return rules


# --- of an item as a whole


def _row_rules(rows: Sequence[ItemFeatures], features: Sequence[str]) -> list[Rule]:
    """Return a rule for each answer and each bin of each feature: give the answer if the value is in the bin.

    Answers are compared only within a finding, so a finding's frequency does not help a predictor.
    """
    rules = []
    for name in features:
        having = [row for row in rows if name in row.features]
        findings = np.array([row.finding for row in having])
        parts = [np.flatnonzero(findings == finding) for finding in sorted(set(findings))]
        labels = sorted({row.label for row in having})
        truth = np.array([[row.label == label for row in having] for label in labels])
        found = bins([row.features[name] for row in having], parts)
        head = "" if len(features) == 1 else f"{name} is "
        for words, picked in found.items():
            # With two answers, a rule on one half equals the rule for the other answer on the other half.
            several = labels[:1] if len(labels) == 2 and words in HALVES else labels
            for label, right in zip(several, truth, strict=False):
                contests = [_contest(right[part], picked[part]) for part in parts]
                contests = [row for row in contests if 0 < row.right < row.size and 0 < row.picked < row.size]
                rules.append(Rule(f"answer {label} where {head}{words}", contests, *BinaryScore.of(contests)))
    return rules


def _contest(right: Flags, picked: Flags) -> Contest:
    hits = int(np.count_nonzero(right & picked))
    return Contest(len(right), int(np.count_nonzero(right)), int(np.count_nonzero(picked)), hits)


def _neighbour(kind: str, rows: list[ItemFeatures]) -> Result:
    """Return the score of the better of two rules: repeat, or avoid, the answer of the previous item of this kind and
    finding.
    """
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
