"""Measurements of a benchmark: balance, duplicates, answers near a threshold, instability, sizes of lesions.

Every record is JSON-ready. Shares range from 0 to 1. The depth of an edit is a fraction of the picture's longer side.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.evidence import NEAR_THRESHOLD
from chexqa.contract.items import Answer, CaseKey, Item, radiographs
from chexqa.contract.kinds import Kind, kind_order
from chexqa.files.jsonio import Record


def describe(bench: Benchmark) -> Record:
    """Return the audit's figures on the contents of a benchmark, such as balance, duplicates and flags.

    Raise ``InputError`` if the benchmark's key is withheld.
    """
    answers, cases = bench.key("the audit")
    return {
        "balance": _balance(bench.items, answers),
        "duplicates": _duplicates(bench.items, cases),
        "near_threshold": _near_threshold(bench.items, answers, bench.kinds),
        "unstable": _unstable(bench.items, answers),
        "flags": dict(Counter(flag for answer in answers.values() for flag in answer.flags)),
        "review": dict(Counter("reviewed" if answer.review else "not reviewed" for answer in answers.values())),
        "lesion_share": _by_finding(bench.items, cases, lambda case: case.measures.get("lesion_share")),
        "overlap": _overlap(bench.items, answers),
        "depth": _depth(bench.items, answers, cases),
        "edits": _edits(bench.items, answers),
        "one_answer": _one_answer(bench.items, answers),
        "people": _people(cases) | {"radiographs": len({*radiographs(bench.items, cases).values()})},
        "sources": _sources(cases),
    }


def ranges(values: Iterable[float]) -> Record | None:
    """Return a summary of values: count, minimum, quartiles and maximum; None if there are no values."""
    numbers = [float(value) for value in values]
    if not numbers:
        return None
    least, low, middle, high, largest = (round(float(x), 6) for x in np.quantile(numbers, (0, 0.25, 0.5, 0.75, 1)))
    return {"n": len(numbers), "min": least, "q1": low, "median": middle, "q3": high, "max": largest}


def _balance(items: Iterable[Item], answers: dict[str, Answer]) -> dict[str, dict[str, dict[str, int]]]:
    """Return the number of times that each answer is right, for each kind and finding.

    For multi-select kinds the answer is the number of right options; for the grid each right cell counts. Answers are
    in the order of the options, and every finding of a kind has all answers of the kind.
    """
    counts: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    places: dict[str, dict[str, int]] = defaultdict(dict)
    for item in items:
        for place, word in _words(item, answers[item.item_id]):
            counts[item.kind][item.finding][word] += 1
            places[item.kind][word] = min(place, places[item.kind].get(word, place))
    return {
        kind: {
            finding: {word: counts[kind][finding][word] for word in sorted(places[kind], key=places[kind].__getitem__)}
            for finding in sorted(counts[kind])
        }
        for kind in kind_order(counts)
        if kind in counts
    }


def _words(item: Item, answer: Answer) -> list[tuple[int, str]]:
    """Return the parts of the right answer in words, each with its place in the order of the options."""
    if not item.form.lists_options:
        return [(number, str(item.options[number - 1].text)) for number in answer.answer] or [(0, "no cell")]
    if item.form.takes_several:
        count = 0 if answer.answer == (len(item.options),) else len(answer.answer)
        return [(count, f"{count} right" if count else "none")]
    option = item.options[answer.answer[0] - 1]
    return [(option.n, option.text or f"option {option.n}")]


def _duplicates(items: Iterable[Item], cases: dict[str, CaseKey]) -> Record:
    """Return four counts: repeated items, items with two equal option pictures, and radiographs of several cases.

    The fourth counts the radiographs that several cases of one finding have.
    """
    asked: Counter[tuple[Any, ...]] = Counter()
    duplicates = 0
    finding: dict[str, str] = {}
    for item in items:
        pictures = tuple(picture.image for picture in item.alone_images)
        asked[(item.question, tuple((option.text, option.image) for option in item.options), pictures)] += 1
        images = [option.image for option in item.options if option.image]
        duplicates += len(set(images)) < len(images)
        finding[item.case_id] = item.finding
    keys = Counter(str(case.measures["image_key"]) for case in cases.values() if case.measures.get("image_key"))
    same = Counter(
        (str(case.measures["image_key"]), finding.get(case.case_id))
        for case in cases.values()
        if case.measures.get("image_key")
    )
    return {
        "items": sum(count - 1 for count in asked.values()),
        "items_with_equal_options": duplicates,
        "radiographs_of_several_cases": sum(count > 1 for count in keys.values()),
        "radiographs_twice_with_one_finding": sum(count > 1 for count in same.values()),
    }


def _unstable(items: Iterable[Item], answers: dict[str, Answer]) -> dict[str, dict[str, int]]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for item in items:
        counts[item.kind]["unstable" if "unstable" in answers[item.item_id].flags else "stable"] += 1
    return {
        kind: {"items": counts[kind].total(), "unstable": counts[kind]["unstable"]}
        for kind in kind_order(counts)
        if kind in counts
    }


def _near_threshold(
    items: Iterable[Item], answers: dict[str, Answer], kinds: Mapping[str, Kind]
) -> dict[str, dict[str, int]]:
    """Return for each kind the number of items with thresholds in their evidence, and how many of them are near one."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for item in items:
        answer = answers[item.item_id]
        evidence = kinds[item.kind].read(answer.evidence)
        if evidence is not None and evidence.deciding():
            flags = (*answer.flags, *evidence.flags(answer.difficulty.get("margin")))
            counts[item.kind].update({"items": 1, "near": int(NEAR_THRESHOLD in flags)})
    return {
        kind: {"items": counts[kind]["items"], "near": counts[kind]["near"]}
        for kind in kind_order(counts)
        if kind in counts
    }


def _by_finding(
    items: Iterable[Item], cases: dict[str, CaseKey], measure: Callable[[CaseKey], float | None]
) -> dict[str, Record]:
    finding = {item.case_id: item.finding for item in items}
    values: dict[str, list[float]] = defaultdict(list)
    for case in cases.values():
        value = measure(case)
        if value is not None and case.case_id in finding:
            values[finding[case.case_id]].append(value)
    return {name: found for name in sorted(values) if (found := ranges(values[name])) is not None}


def _overlap(items: Iterable[Item], answers: dict[str, Answer]) -> Record | None:
    """Return the range of the IoU between wrong outlines and the right outlines; None if no outline is wrong."""
    return ranges(
        answers[item.item_id].evidence["iou"]
        for item in items
        if item.kind == "contour_evaluation"
        and answers[item.item_id].path == "revision_required"
        and "iou" in answers[item.item_id].evidence
    )


def _true_edits(items: Iterable[Item], answers: dict[str, Answer]) -> list[tuple[str, list[Record]]]:
    """Return the edits of each outline that needs a revision, with the case's id."""
    return [
        (item.case_id, [edit for edit in answers[item.item_id].evidence["edits"] if edit.get("true", True)])
        for item in items
        if item.kind == "revision_result" and "edits" in answers[item.item_id].evidence
    ]


def _depth(items: Iterable[Item], answers: dict[str, Answer], cases: dict[str, CaseKey]) -> Record | None:
    """Return the range of the edits' depth, as a fraction of the picture's longer side; None if there are no edits."""
    depths = []
    for case_id, edits in _true_edits(items, answers):
        size = cases[case_id].measures.get("working_size")
        depths += [edit["depth"] / max(size) for edit in edits if size]
    return ranges(depths)


def _edits(items: Iterable[Item], answers: dict[str, Answer]) -> Record:
    """Return two counts: outlines by number of edits, and edits by direction."""
    found = [edits for _, edits in _true_edits(items, answers)]
    over = sum(edit["over"] for edits in found for edit in edits)
    return {
        "by_number": {str(number): count for number, count in sorted(Counter(map(len, found)).items())},
        "over": over,
        "under": sum(map(len, found)) - over,
    }


def _one_answer(items: Iterable[Item], answers: dict[str, Answer]) -> list[str]:
    """Return the yes/no kinds in which every item has the same answer."""
    found: dict[str, set[tuple[int, ...]]] = defaultdict(set)
    for item in items:
        if item.is_ordered and len(item.options) == 2:
            found[item.kind].add(answers[item.item_id].answer)
    return [kind for kind in kind_order(found) if len(found.get(kind, ())) == 1]


def _people(cases: dict[str, CaseKey]) -> Record:
    """Return patients, sex, view and age of the cases, as far as they are known."""
    rows = list(cases.values())
    return {
        "patients": len({case.patient_id for case in rows if case.patient_id}),
        "cases_without_patient": sum(case.patient_id is None for case in rows),
        "sex": dict(sorted(Counter(case.sex or "unknown" for case in rows).items())),
        "view": dict(sorted(Counter(case.view or "unknown" for case in rows).items())),
        "age": ranges(case.age for case in rows if case.age is not None),
        "negatives": dict(
            sorted(
                Counter(str(case.measures.get("negative_kind")) for case in rows if case.path == "lesion_free").items()
            )
        ),
    }


def _sources(cases: dict[str, CaseKey]) -> dict[str, dict[str, int]]:
    """Return the number of cases by source and licence, as far as the key has them."""
    return {
        field: dict(
            sorted(Counter(str(case.measures.get(field) or "not in the key") for case in cases.values()).items())
        )
        for field in ("source", "license")
    }
