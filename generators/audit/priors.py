"""Scores of guesses without the picture: the most frequent answer, and answers that the rules imply.

These guesses do not count as leaks. Their scores are reported beside chance, without a p value.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Answer, Item
from chexqa.generators.audit.exact_tests import interval
from chexqa.generators.audit.rule_scores import Result
from chexqa.generators.audit.shortcuts_tried import POINT_KINDS, Features, PredictorClass

EXPANSION, CONTRACTION = POINT_KINDS


def priors(bench: Benchmark) -> list[Result]:
    """Return, for each kind, how often one is right by always giving a finding's most frequent right answer.

    The first result of a kind is on all findings together; the others are on one finding each.
    """
    answers, _ = bench.key("the audit")
    groups: dict[str, dict[str, list[tuple[Item, Answer]]]] = defaultdict(lambda: defaultdict(list))
    for item in bench.items:
        groups[item.kind][item.finding].append((item, answers[item.item_id]))
    results = []
    for kind in bench.kinds:
        rows = [_most_frequent(kind, finding, pairs) for finding, pairs in sorted(groups[kind].items())]
        if rows:
            count, right = sum(row.answers for row in rows), sum(row.right for row in rows)
            chance = sum(row.chance * row.answers for row in rows) / count
            whole = _result(kind, "prior", "most frequent answer", "of each finding", count, right, chance)
            results += [whole, *rows]
    return results


def _most_frequent(kind: str, finding: str, pairs: list[tuple[Item, Answer]]) -> Result:
    counts: Counter[tuple[int, ...]] = Counter()
    for item, answer in pairs:
        counts.update(item.form.right_answers(answer.answer))
    best, right = min(counts.items(), key=lambda entry: (-entry[1], entry[0])) if counts else ((), 0)
    chance = sum(answer.chance for _, answer in pairs) / len(pairs)
    rule = f"{finding}: {_in_words(pairs[0][0], best)}"
    return _result(kind, "prior", "most frequent answer", rule, len(pairs), right, chance)


def _in_words(item: Item, answer: tuple[int, ...]) -> str:
    """Return the options' texts if all items have the same options, otherwise their numbers."""
    if item.form.takes_several or item.kind == "revision_result":
        none = item.form.takes_several and answer == (len(item.options),) and item.kind == "location"
        return "none" if none else f"option {', '.join(str(number) for number in answer)}"
    return " and ".join(str(item.options[number - 1].text) for number in answer) or "no cell"


def _result(
    kind: str, sort: PredictorClass, predictor: str, rule: str, answers: int, right: int, chance: float
) -> Result:
    return Result(kind, sort, predictor, rule, 1, answers, right, chance, interval(right, answers), None)


_Case = dict[str, tuple[Item, Answer]]


def forced(bench: Benchmark, features: Features) -> list[Result]:
    """Return, for each rule by which items are made, how often someone who knows the rule is right without the picture.

    For example, a later turn on an outline implies that the answer to detection was yes.
    """
    # The rules are those of CheXpercept (arXiv 2606.21020), which chexqa follows.
    answers, _ = bench.key("the audit")
    by_case: dict[str, _Case] = defaultdict(dict)
    for item in bench.items:
        by_case[item.case_id][item.kind] = (item, answers[item.item_id])
    cases = list(by_case.values())
    yes = [case["detection"][1].answer == (1,) for case in cases if "detection" in case]
    results = [
        _result(
            "detection", "forced", "paths", "always yes: two paths of three have the finding", len(yes), sum(yes), 0.5
        ),
        _asked_later(cases, "detection", "contour_evaluation", "a contour is asked about"),
        _asked_later(cases, "contour_evaluation", EXPANSION, "a revision is asked for"),
        *_sides(features, EXPANSION, "outside"),
        *_sides(features, CONTRACTION, "inside"),
        _none_means_other(cases),
        _one_zone_one_lung(cases),
    ]
    return [result for result in results if result.answers]


def _asked_later(cases: Iterable[_Case], kind: str, later: str, words: str) -> Result:
    """Return how often the answer is yes if a later stage is asked.

    In a conversation, asking the later stage reveals the answer.
    """
    yes = [case[kind][1].answer == (1,) for case in cases if kind in case and later in case]
    return _result(kind, "forced", "later turns", f"yes where {words}", len(yes), sum(yes), 0.5)


def _sides(features: Features, kind: str, word: str) -> list[Result]:
    """Return the scores of two rules on the possible side of a point: outside to expand, inside to contract.

    The first rule marks no point on the other side. The second rule marks all points on the possible side.
    """
    value, other = (0.0, "inside") if word == "outside" else (1.0, "outside")
    rows = [choice for choice in features.choices[kind] if "inside" in choice.features]
    pairs = [zip(choice.right, choice.features["inside"], strict=True) for choice in rows]
    never = [not right for pair in pairs for right, inside in pair if inside != value]
    whole = sum(choice.right == tuple(inside == value for inside in choice.features["inside"]) for choice in rows)
    chance = sum(2.0 ** -len(choice.right) for choice in rows) / max(1, len(rows))
    return [
        _result(
            kind, "forced", "side of a point", f"no point {other} the outline is right", len(never), sum(never), 0.5
        ),
        _result(kind, "forced", "side of a point", f"all points {word} the outline", len(rows), whole, chance),
    ]


def _none_means_other(cases: Iterable[_Case]) -> Result:
    """Return how often contraction is needed if no point needs expansion; an error always needs one or the other."""
    both = [(case[EXPANSION], case[CONTRACTION]) for case in cases if EXPANSION in case and CONTRACTION in case]
    contracts = [not _is_none(*second) for first, second in both if _is_none(*first)]
    rule = "some point, if no point is right for expansion"
    return _result(CONTRACTION, "forced", "other answer of the case", rule, len(contracts), sum(contracts), 0.5)


def _is_none(item: Item, answer: Answer) -> bool:
    return answer.answer == (len(item.options),)


def _one_zone_one_lung(cases: Iterable[_Case]) -> Result:
    """Return how often a lesion in one zone is in one lung.

    The share is below 1 only if a part in the other lung is too small to count.
    """
    given = Counter(
        str(item.options[answer.answer[0] - 1].text)
        for case in cases
        if {"distribution", "comparison"} <= set(case) and case["distribution"][1].answer == (1,)
        for item, answer in [case["comparison"]]
    )
    text, right = given.most_common(1)[0] if given else ("", 0)
    rule = f"“{text}” where distribution is one zone"
    return _result("comparison", "forced", "other answer of the case", rule, given.total(), right, 0.25)
