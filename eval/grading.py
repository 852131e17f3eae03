"""From runs to grades: one row for every model, protocol and item, with the state the item ended in.

Items that were never asked have rows too, so that no denominator shrinks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from chexqa import benchmark as benchmarks
from chexqa import runlog
from chexqa.benchmark import Benchmark
from chexqa.errors import InputError
from chexqa.items import GRID, Answer, CaseKey, Item, is_right
from chexqa.records import Record
from chexqa.runlog import Run, Turn

# The states in which an item ends. All but the first count as not correct; the last two are unfinished.
STATES = (
    "correct", "wrong", "unparsed", "truncated", "refused", "empty", "overflow", "error", "not_asked",
)  # fmt: skip
UNFINISHED = ("error", "not_asked")
# Where a grid answer that is no hit lies.
MISSES = ("partial_hit", "position_error", "anatomy_error", "position_unknown")
COLUMNS: dict[str, Any] = {
    "model": pl.String,
    "protocol": pl.String,
    "case_id": pl.String,
    "patient_id": pl.String,
    "item_id": pl.String,
    "kind": pl.String,
    "level": pl.String,
    "stage": pl.Int64,
    "finding": pl.String,
    "path": pl.String,
    "state": pl.String,
    "correct": pl.Boolean,
    "parsed": pl.List(pl.Int64),
    "answer": pl.List(pl.Int64),
    "chance": pl.Float64,
    "prior": pl.Float64,
    "miss": pl.String,
    "reply": pl.String,
}


class Graded(NamedTuple):
    """Grades with what they were made of; ``grades`` has the columns of :data:`COLUMNS`."""

    benchmark: Benchmark
    runs: tuple[Run, ...]
    grades: pl.DataFrame


def grade_folders(folders: Sequence[Path], benchmark_folder: Path | None = None) -> Graded:
    """Read runs and grade them on the one benchmark they share.

    The benchmark is looked for where ``run.json`` says, unless its folder is given. Raises ``InputError`` where runs
    are of different benchmarks, the benchmark is not the one that was run, or its key is withheld.
    """
    runs = tuple(runlog.load(folder) for folder in folders)
    first = runs[0].about["benchmark"]
    for run in runs[1:]:
        other = run.about["benchmark"]
        if other["hash"] != first["hash"]:
            raise InputError(
                f"{run.folder}: is a run of benchmark {_label(other)}, but {runs[0].folder} is one of {_label(first)}; "
                "grade them apart."
            )
    folder = benchmark_folder or runs[0].benchmark_folder
    if not folder.is_dir():
        raise InputError(f"{folder}: the benchmark of {runs[0].folder} is not there; say where with --benchmark DIR.")
    benchmark = benchmarks.load(folder)
    if benchmark.hash != first["hash"]:
        raise InputError(
            f"{folder}: is benchmark {benchmark.hash[:8]}, but {runs[0].folder} was run on {first['hash'][:8]}; "
            "name the right one with --benchmark DIR."
        )
    return Graded(benchmark, runs, grade(benchmark, runs))


def _label(about: Record) -> str:
    return f"'{about['name']}' {about['version']} ({about['hash'][:8]})"


def grade(benchmark: Benchmark, runs: Iterable[Run]) -> pl.DataFrame:
    """One row for each model x protocol x item of the benchmark, asked or not; columns as :data:`COLUMNS`."""
    answers, cases = benchmark.key("grading")
    turns: dict[tuple[str, str], dict[str, Turn]] = {}
    for run in runs:
        for model in run.models:
            turns.setdefault((model, protocol_name(run)), {})
        for turn in run.turns:
            _place(turns[turn.model, protocol_name(run)], turn, run, benchmark.item)
    rows = [
        _row(model, protocol, item, answers[item.item_id], cases[item.case_id], said.get(item.item_id))
        for (model, protocol), said in turns.items()
        for item in benchmark.items
    ]
    return pl.DataFrame(rows, schema=COLUMNS, orient="row")


def protocol_name(run: Run) -> str:
    """The protocol as tables name it: one asked without pictures is never pooled with one asked with them."""
    return f"{run.about['protocol']} (blind)" if run.about["blind"] else str(run.about["protocol"])


def _place(said: dict[str, Turn], turn: Turn, run: Run, items: Mapping[str, Item]) -> None:
    """Add a turn, refusing what would be graded wrongly: unknown items, other option orders, second answers."""
    if turn.item_id not in items:
        raise InputError(f"{run.folder}: holds a turn of item '{turn.item_id}', which the benchmark does not have.")
    if turn.repeat or turn.rotation:
        raise InputError(
            f"{run.folder}: item '{turn.item_id}' was asked repeatedly or with its options rotated; "
            "only runs with one turn for each item can be graded."
        )
    before = said.get(turn.item_id)
    if before and before.state != runlog.ERROR and turn.state != runlog.ERROR:
        raise InputError(
            f"{run.folder}: model '{turn.model}' answered item '{turn.item_id}' in another of the runs too; "
            "grade the two runs apart."
        )
    if before is None or before.state == runlog.ERROR:
        said[turn.item_id] = turn


def _row(model: str, protocol: str, item: Item, answer: Answer, case: CaseKey, turn: Turn | None) -> tuple[Any, ...]:
    state = _state(item, answer, turn)
    parsed = turn.parsed if turn else None
    miss = _miss(answer, parsed) if item.kind == GRID and state == "wrong" and parsed else None
    return (
        model, protocol, item.case_id, case.patient_id, item.item_id, item.kind, item.level, item.stage, item.finding,
        answer.path, state, state == "correct", list(parsed) if parsed else None, list(answer.answer), answer.chance,
        answer.prior, miss, turn.raw if turn else None,
    )  # fmt: skip


def _state(item: Item, answer: Answer, turn: Turn | None) -> str:
    if turn is None:
        return "not_asked"
    if turn.state != "answered":
        return turn.state
    return "correct" if is_right(item, answer, turn.parsed or ()) else "wrong"


def _miss(answer: Answer, parsed: tuple[int, ...]) -> str:
    """The kind of a grid answer that is no hit, from the cells' covered shares and the cells of plausible anatomy."""
    shares, plausible = answer.evidence.get("coverage"), answer.evidence.get("plausible")
    cell = parsed[0]
    if shares is not None and shares[cell - 1] > 0:
        return "partial_hit"
    if shares is None or plausible is None:
        return "position_unknown"
    return "position_error" if cell in plausible else "anatomy_error"
