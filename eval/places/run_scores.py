"""Scores of all localization answers in runs; identical answers to one item are scored once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.forms import SOMEWHERE
from chexqa.contract.items import Answer
from chexqa.contract.read_run import Run, Turn
from chexqa.eval.places import markers
from chexqa.eval.places.coordinate_systems import Shape
from chexqa.eval.places.score import PlaceScore, score
from chexqa.eval.places.target import Target, target_of

Shapes = tuple[Shape, ...]
PlaceScores = dict[tuple[str, Shapes], PlaceScore]


def place_scores(benchmark: Benchmark, runs: Iterable[Run]) -> PlaceScores:
    """Return the score of each place that the runs' answers give, keyed by item id and the shapes of the answer.

    Answers to items whose key is not a place are left out.
    """
    return scores_of(benchmark, ((turn.item_id, turn.place) for run in runs for turn in run.turns if turn.place))


def scores_of(benchmark: Benchmark, given: Iterable[tuple[str, Shapes]]) -> PlaceScores:
    """Return the score of each answer ``given``, a pair of item id and shapes; the pair is the key of its score.

    Answers to items whose key is not a place are left out. The masks of a case are decoded once for all answers.
    """
    if not any(kind.form.is_place for kind in benchmark.kinds.values()):
        return {}
    answers, cases = benchmark.key("grading")
    placed = {item_id for item_id, answer in answers.items()
              if benchmark.item[item_id].form.is_place and SOMEWHERE in answer.answer}  # fmt: skip
    named: dict[str, set[tuple[str, Shapes]]] = defaultdict(set)
    for item_id, shapes in given:
        if shapes and item_id in placed:
            named[benchmark.item[item_id].case_id].add((item_id, shapes))
    found: PlaceScores = {}
    for case_id, places in named.items():
        target = target_of(cases[case_id].measures, f"the key of case '{case_id}'")
        if target is not None:
            found |= {place: _score(benchmark, target, *place) for place in sorted(places)}
    return found


def _score(benchmark: Benchmark, target: Target, item_id: str, shapes: Shapes) -> PlaceScore:
    item = benchmark.item[item_id]
    if item.kind in markers.KINDS:
        return PlaceScore(right=markers.is_found(item.form.name, shapes, target))
    if item.form.name == "width" and (target.heart is None or target.chest is None):
        return PlaceScore(right=False)
    return score(item.form.name, shapes, target)


def is_right_place(answer: Answer, turn: Turn, scores: PlaceScores) -> bool:
    """Return True if the answered place is right, or if answer and key are both "nowhere"."""
    if turn.parsed != answer.answer:
        return False
    if SOMEWHERE not in answer.answer:
        return True
    found = scores.get((turn.item_id, turn.place or ()))
    return found is not None and found.right
