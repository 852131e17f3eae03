"""Outcome of a turn (a question and its reply): final state, credit from 0 to 1, and the kind of a grid miss."""

from __future__ import annotations

from typing import Any

import polars as pl

from chexqa.contract.items import Answer, Item, is_right
from chexqa.contract.read_run import Turn
from chexqa.eval.places.run_scores import PlaceScores, is_right_place
from chexqa.eval.runs import budget

# States of an answered turn.
ANSWERED = ("correct", "wrong")
# Kinds of grid answers that are not a hit.
MISSES = ("partial_hit", "position_error", "anatomy_error", "position_unknown")
# Columns about a turn.
TURN_COLUMNS: dict[str, Any] = {
    "state": pl.String,
    "correct": pl.Boolean,
    "partial": pl.Float64,
    "parsed": pl.List(pl.Int64),
    "order": pl.List(pl.Int64),
    "miss": pl.String,
    "coverage": pl.Float64,
    "cost_usd": pl.Float64,
    "latency_s": pl.Float64,
    "output_tokens": pl.Int64,
    "reply": pl.String,
    "reasoning": pl.String,
    "confidence": pl.Float64,
    "answer_logprob": pl.Float64,
}


def outcome_of(item: Item, answer: Answer, turn: Turn | None, places: PlaceScores) -> tuple[Any, ...]:
    """Return the values of :data:`TURN_COLUMNS` for a turn; ``turn`` is None if the item was not asked."""
    if turn is None:
        return ("not_asked", False, 0.0, *[None] * (len(TURN_COLUMNS) - 3))
    parsed, state = turn.parsed, _state(item, answer, turn, places)
    right = state == "correct"
    miss, coverage = _on_grid(answer, parsed, right) if item.form.name == "cell" else (None, None)
    graded = parsed if state in ANSWERED and not item.form.is_place else None
    credit = item.form.credit(answer.answer, graded) if graded else float(right)
    tokens = (turn.usage or {}).get("output_tokens")
    return (
        state, right, credit, parsed or None, turn.order or None, miss, coverage,
        budget.cost(turn), turn.latency_s, tokens, turn.raw, turn.reasoning, turn.confidence,
        turn.answer_logprob,
    )  # fmt: skip


def _state(item: Item, answer: Answer, turn: Turn, places: PlaceScores) -> str:
    if turn.state != "answered":
        return turn.state
    right = is_right_place(answer, turn, places) if item.form.is_place else is_right(item, answer, turn.parsed or ())
    return "correct" if right else "wrong"


def _on_grid(answer: Answer, parsed: tuple[int, ...] | None, right: bool) -> tuple[str | None, float | None]:
    """Return the kind of a miss (None for a hit, and without a chosen cell), and the chosen cell's relative coverage.

    The relative coverage is ``chosen cell's coverage / best cell's coverage``; None if no coverage is known.
    """
    shares, plausible = answer.evidence.get("coverage"), answer.evidence.get("plausible")
    best = max(shares) if shares else 0.0
    if not parsed:
        return None, 0.0 if best else None
    cell = parsed[0]
    coverage = shares[cell - 1] / best if shares and best else None
    if right:
        return None, coverage
    if shares is not None and shares[cell - 1] > 0:
        return "partial_hit", coverage
    if shares is None or plausible is None:
        return "position_unknown", coverage
    return "position_error" if cell in plausible else "anatomy_error", coverage
