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
    """Return a score for each place given in the runs' answers, keyed by item id and the place's shapes."""
    return scores_of(benchmark, ((turn.item_id, turn.place) for run in runs for turn in run.turns if turn.place))


def scores_of(benchmark: Benchmark, answers: Iterable[tuple[str, Shapes]]) -> PlaceScores:
    """Return the score of each answer. The keys of the result are the pairs in ``answers``: an item id and shapes.

    An answer is left out if it has no shapes, or if the right answer of its item is not a place.
    """
    if not any(kind.form.is_place for kind in benchmark.kinds.values()):
        return {}
    keys, cases = benchmark.key("grading")
    placed = {item_id for item_id, answer in keys.items()
              if benchmark.item[item_id].form.is_place and SOMEWHERE in answer.answer}  # fmt: skip
    # By case, so that the masks of a case are decoded once for all answers.
    named: dict[str, set[tuple[str, Shapes]]] = defaultdict(set)
    for item_id, shapes in answers:
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
