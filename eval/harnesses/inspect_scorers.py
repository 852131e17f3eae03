"""Scorers of Inspect, one for each kind of question, with chexqa's parser and grades.

A scorer takes the turn that the solver stored, so a reply is read only once. The metrics of a scorer are the accuracy,
the standard error over clusters (patients), and the score corrected for chance, as in the table ``kinds``. Places are
not scored here, because all test markers of a run are needed to decide whether a model's coordinates can be trusted.
``chexqa grade`` scores them after the import.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from inspect_ai.scorer import (
    CORRECT,
    INCORRECT,
    Metric,
    SampleScore,
    Score,
    Scorer,
    Target,
    accuracy,
    grouped,
    metric,
    scorer,
    stderr,
)
from inspect_ai.solver import TaskState

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Item
from chexqa.contract.read_run import Turn
from chexqa.eval.harnesses.inspect_messages import reply_of
from chexqa.eval.harnesses.turns import STORE
from chexqa.eval.prompts import answer_parser
from chexqa.eval.scoring.outcomes import outcome_of

_PLACE = "a place is scored after the import, because it takes all test markers of a run to prove the coordinate system"


@metric(name="corrected")
def corrected() -> Metric:
    """Return a metric: the accuracy corrected for chance.

    For yes/no kinds, this is Youden's J (sensitivity + specificity - 1), averaged over findings. Items with only one
    possible answer do not count. If all yes/no items of a finding have the same key, they do not count either.
    """

    def compute(scores: list[SampleScore]) -> float:
        rows = [(found, one.score.as_float()) for one in scores if (found := one.score.metadata or {}).get("scored")]
        strata: dict[tuple[str, bool | None], list[tuple[float, float]]] = defaultdict(list)
        for about, value in rows:
            stratum = ("", None) if about["keyed_yes"] is None else (about["finding"], about["keyed_yes"])
            strata[stratum].append((value, about["chance"]))
        whole = [pairs for (finding, yes), pairs in strata.items() if yes is None or (finding, not yes) in strata]
        found = [_excess(pairs) for pairs in whole if sum(1 - chance for _, chance in pairs) > 1e-12]
        return sum(found) / len(found) if found else float("nan")

    return compute


def _excess(pairs: Sequence[tuple[float, float]]) -> float:
    return sum(value - chance for value, chance in pairs) / sum(1 - chance for _, chance in pairs)


def of_items(bench: Benchmark, items: Iterable[Item]) -> list[Scorer]:
    """Return a scorer for each kind of question that occurs in the items; it is named after the kind.

    The benchmark must have its key.
    """
    return [_scorer(bench, kind) for kind in dict.fromkeys(item.kind for item in items)]


def _scorer(bench: Benchmark, kind: str) -> Scorer:
    @scorer(metrics=[accuracy(), stderr(cluster="cluster"), corrected()], name=kind)
    def graded() -> Scorer:
        async def score(state: TaskState, target: Target) -> Score | None:
            turns = [turn for turn in map(Turn.from_record, state.store.get(STORE, []))
                     if bench.item[turn.item_id].kind == kind]  # fmt: skip
            return _score(bench, turns[0]) if turns else None

        return score

    return graded()


def _score(bench: Benchmark, turn: Turn) -> Score:
    """Return the grade of a turn as a score, with its state and its chance."""
    item, answer = bench.item[turn.item_id], bench.key("scoring")[0][turn.item_id]
    said = None if turn.parsed is None else ", ".join(map(str, turn.parsed))
    if item.form.is_place:
        return Score.unscored(reason=_PLACE, answer=said, explanation=turn.raw)
    state = outcome_of(item, answer, turn, {})[0]
    about: dict[str, Any] = {
        "item_id": item.item_id, "state": state, "finding": item.finding, "level": item.level,
        "chance": answer.chance, "scored": answer.scored,
        "keyed_yes": answer.answer[0] == 1 if bench.kinds[item.kind].yes_no else None,
    }  # fmt: skip
    return Score(
        value=CORRECT if state == "correct" else INCORRECT, answer=said, explanation=turn.raw or "", metadata=about
    )


@scorer(metrics=[accuracy(), stderr(cluster="cluster"), grouped(accuracy(), "kind")], name="alone")
def alone() -> Scorer:
    """Return the scorer for samples with one item each, as ``chexqa export --format inspect`` writes them.

    A sample gets no score if it asks for a place, or if it was exported without the key.
    """

    async def score(state: TaskState, target: Target) -> Score:
        item, key = Item.from_record(state.metadata["item"]), state.metadata.get("key")
        if key is None or item.form.is_place:
            return Score.unscored(
                reason=_PLACE if key else "the answers were left out", explanation=state.output.completion
            )
        reply = reply_of(state.output)
        reading = answer_parser.Reading(None, reply.outcome)
        if reply.outcome == "reply":
            reading = answer_parser.read(item, reply.text, reply.finish_reason)
        right = reading.parsed is not None and item.form.is_right(key["answer"], reading.parsed)
        about: dict[str, Any] = {
            "state": reading.state if reading.parsed is None else "correct" if right else "wrong",
            "chance": key["chance"],
        }  # fmt: skip
        said = None if reading.parsed is None else ", ".join(map(str, reading.parsed))
        return Score(value=CORRECT if right else INCORRECT, answer=said, explanation=reply.text or "", metadata=about)

    return score
