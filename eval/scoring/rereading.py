"""Stored replies, read again by the current answer parser and compared with their first reading."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from chexqa.contract import read_run
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.read_run import NO_PARSER, TURNS, Line, Run, Turn
from chexqa.eval.places import coordinate_systems
from chexqa.eval.places.pictures import picture_size
from chexqa.eval.prompts import answer_parser, conditions, option_order, parser_confidence, parser_places
from chexqa.eval.runs import foreign_lines
from chexqa.files.errors import InputError
from chexqa.files.opening import open_binary
from chexqa.files.terminal import plural

# States that the parser decides; refused, overflow and error are decided before the parser reads a reply.
READ = ("answered", "unparsed", "truncated", "empty")
CHANGES = ("newly read", "no longer read", "read otherwise", "other state")
COLUMNS: dict[str, Any] = {
    "model": pl.String,
    "protocol": pl.String,
    "repeat": pl.Int64,
    "rotation": pl.Int64,
    "case_id": pl.String,
    "item_id": pl.String,
    "kind": pl.String,
    "change": pl.String,
    "parser_version": pl.Int64,
    "state_before": pl.String,
    "parsed_before": pl.List(pl.Int64),
    "state_after": pl.String,
    "parsed_after": pl.List(pl.Int64),
    "reply": pl.String,
}


def reread(benchmark: Benchmark, runs: Iterable[Run]) -> tuple[tuple[Run, ...], pl.DataFrame]:
    """Return the runs as the current parser reads them, and a table (:data:`COLUMNS`) of the turns that changed.

    The logs stay unchanged. Raise ``InputError`` for a turn that records an impossible order of the item's options.
    """
    rows: list[tuple[Any, ...]] = []
    made = []
    for run in runs:
        turns = tuple(_reread(benchmark, run, turn) for turn in run.turns)
        rows += [_row(benchmark, *pair) for pair in zip(run.turns, turns, strict=True) if _differ(*pair)]
        altered = tuple(_reread(benchmark, run, turn) for turn in run.altered)
        made.append(replace(run, turns=turns, altered=altered))
    return tuple(made), pl.DataFrame(rows, schema=COLUMNS, orient="row")


def check_unchanged(benchmark: Benchmark, run: Run) -> None:
    """Raise ``InputError`` if a logged answer differs from what the parser now finds in the turn's reply.

    Only turns that were read by today's version of the parser are checked.
    """
    if any(_is_changed(benchmark, run, turn) for turn in (*run.turns, *run.altered)):
        first, *others = changed_by_hand(benchmark, run)
        more = f" The same holds for {plural(len(others), 'more line')} of the run." if others else ""
        raise InputError(f"{first}{more}")


def changed_by_hand(benchmark: Benchmark, run: Run) -> Iterator[str]:
    """Yield a sentence for each line of a run's logs that has another answer than its reply.

    Only turns that were read by today's version of the parser are compared, as another version may have read a reply
    differently.
    """
    for path in sorted((run.folder / TURNS).glob("*.jsonl")):
        with open_binary(path, inside=run.folder) as file:
            for _, line in read_run.scan(file, lambda turn: not _is_changed(benchmark, run, turn)):
                turn = read_run.turn_of(line.data) if isinstance(line, Line) else None
                if isinstance(line, Line) and turn is not None:
                    yield (
                        f"{path}, line {line.number}: the turn says {_said(turn)}, but the parser that it names "
                        f"(version {turn.parser_version}) reads {_said(_reread(benchmark, run, turn))} in its reply, "
                        "so the line was changed by hand; restore the log, or grade with --reread, which reads every "
                        "reply again."
                    )


def _is_changed(benchmark: Benchmark, run: Run, turn: Turn) -> bool:
    """Return True if a turn names today's parser and has another answer, state or place than its reply."""
    if turn.read_by != answer_parser.VERSION or foreign_lines.misfit(turn, benchmark.item):
        return False
    return _differ(turn, _reread(benchmark, run, turn))


def _said(turn: Turn) -> str:
    """Return the state of a turn with its option numbers or its place."""
    found = turn.parsed if turn.place is None else turn.place
    return turn.state if found is None else f"{turn.state} {json.dumps(found)}"


def _is_read(turn: Turn) -> bool:
    """Return True if a parser of chexqa decided the state of this turn."""
    return turn.state in READ and turn.read_by != NO_PARSER


def _reread(benchmark: Benchmark, run: Run, turn: Turn) -> Turn:
    item = benchmark.item.get(turn.item_id.partition("@")[0])  # an altered item has the options of its original
    if item is None or not _is_read(turn):
        return turn  # grading refuses items that the benchmark lacks
    try:
        shown = option_order.in_order(item, turn.order)
    except ValueError as error:
        raise InputError(
            f"{run.folder}: turn of model '{turn.model}' on item '{turn.item_id}': {error}; restore the run's log, or "
            "leave out --reread."
        ) from None
    raw = parser_confidence.read(turn.raw).reply if conditions.of_run(run.about).confidence else turn.raw
    if item.form.is_place:
        declared = run.about["models"][turn.model].get("quirks", {}).get("frame")
        frame, size = (
            coordinate_systems.named(declared, f"{run.folder}: model '{turn.model}'"),
            picture_size(benchmark, item),
        )
        (parsed, state), place = parser_places.read_turn(item, raw, turn.finish_reason, frame, size)
    else:
        (parsed, state), place = answer_parser.read(shown, raw, turn.finish_reason), None
    return replace(turn, parsed=parsed, state=state, place=place, parser_version=answer_parser.VERSION)


def _differ(before: Turn, after: Turn) -> bool:
    return (before.state, before.parsed, before.place) != (after.state, after.parsed, after.place)


def _row(benchmark: Benchmark, before: Turn, after: Turn) -> tuple[Any, ...]:
    return (
        before.model, before.protocol, before.repeat, before.rotation, before.case_id, before.item_id,
        benchmark.item[before.item_id].kind, _change(before, after), before.read_by, before.state, before.parsed,
        after.state, after.parsed, before.raw,
    )  # fmt: skip


def _change(before: Turn, after: Turn) -> str:
    if before.parsed is None:
        return CHANGES[3] if after.parsed is None else CHANGES[0]
    return CHANGES[1] if after.parsed is None else CHANGES[2]


def counts(changed: pl.DataFrame) -> pl.DataFrame:
    """Return the number of changed turns for each ``model, kind, change``; ``changed`` comes from :func:`reread`."""
    return changed.group_by("model", "kind", "change").len("turns").sort("model", "kind", "change")


def versions(runs: Iterable[Run]) -> dict[int, int]:
    """Return the number of turns by version of the parser that read them, oldest version first."""
    found = Counter(turn.read_by for run in runs for turn in run.turns if _is_read(turn))
    return dict(sorted(found.items()))


def mixed(runs: Sequence[Run]) -> str | None:
    """Return a sentence for the user if several versions of the parser read the replies; None otherwise."""
    found = versions(runs)
    if len(found) < 2:
        return None
    parts = [f"version {version}: {turns:,}" for version, turns in found.items()]
    return (
        f"Different versions of the parser read these replies ({', '.join(parts)}); --reread reads all replies with "
        f"the current version, {answer_parser.VERSION}."
    )
