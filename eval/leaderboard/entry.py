"""Entries of a leaderboard: a model's scores with intervals, the benchmark and its version, and the answers' source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from chexqa.contract.kinds import LEVELS
from chexqa.contract.read_run import Run
from chexqa.eval.prompts import answer_parser
from chexqa.eval.scoring.grade import Graded, protocol_name
from chexqa.eval.scoring.predictions import ELSEWHERE
from chexqa.eval.tables.all_tables import groups
from chexqa.eval.tables.asked_items import simulator
from chexqa.eval.tables.grid import MACRO
from chexqa.eval.tables.levels_and_stages import OVERALL
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, dump, sha256
from chexqa.version import __version__

MEAN, GRID = "mean", "grid"
SCORES = (*LEVELS, MEAN, GRID)


def entries_of(graded: Graded, added: str, by: str | None) -> list[Record]:
    """Return an entry for each model and protocol of graded runs.

    ``added`` is a date such as ``2026-01-31``, and ``by`` the person or group that sent the runs.
    Raise ``InputError`` for a model that did not finish, that was asked only a part of a task's items, or that was
    asked items several times.
    """
    made = []
    for group in groups(graded):
        for row in group.tables["states"].to_dicts():
            model, protocol = row["model"], row["protocol"]
            run = _run_of(group.graded.runs, model, protocol)
            _check_whole(group.graded, row, run)
            scores = _scores(group.tables, model, protocol)
            made.append({
                "model": model,
                "protocol": protocol,
                "domain": graded.domains.get(model),
                "by": by,
                "added": added,
                "tool_version": __version__,
                "parser_version": answer_parser.VERSION,
                "benchmark": _about(graded),
                "source": "predictions" if run.about.get(ELSEWHERE) else "run",
                **({"simulated": stand_in} if (stand_in := simulator(run, model)) else {}),
                "sha256": _fingerprint(run, model),
                "items": row["items"],
                "answered": (row["correct"] + row["wrong"]) / row["items"],
                "scores": scores,
            })  # fmt: skip
    return made


def references(graded: Graded) -> Record:
    """Return two reference values for each score: ``chance``, and ``frequent``, the score of always giving the most
    frequent answer.
    """
    tables = groups(graded)[0].tables
    found: Record = {}
    for name, row in _rows(tables, None, None):
        is_grid = name == GRID
        found[name] = {
            "chance": row["chance"] if is_grid else 0.0,
            "frequent": row["most_frequent"] if is_grid else row["prior_corrected"],
        }
    return found


def _rows(tables: Mapping[str, pl.DataFrame], model: str | None, protocol: str | None) -> Iterator[tuple[str, Record]]:
    """Yield the name and the row of each score of a model; if ``model`` is None, of all models in the tables."""
    for row in tables["levels"].filter(pl.col("level").is_in([*LEVELS, OVERALL])).to_dicts():
        if model is None or (row["model"], row["protocol"]) == (model, protocol):
            yield MEAN if row["level"] == OVERALL else str(row["level"]), row
    for row in tables["grid"].filter(pl.col("finding") == MACRO).to_dicts():
        if model is None or (row["model"], row["protocol"]) == (model, protocol):
            yield GRID, row


def _scores(tables: Mapping[str, pl.DataFrame], model: str, protocol: str) -> Record:
    """Return each score with its interval: levels corrected for chance, and the hit rate on the grid."""
    scores: Record = {}
    for name, row in _rows(tables, model, protocol):
        column = "hit_rate" if name == GRID else "corrected"
        value = {"value": row[column], "low": row[f"{column}_low"], "high": row[f"{column}_high"]}
        if name != GRID:
            value["accuracy"] = row["accuracy"]
        scores[name] = value
    return scores


def _run_of(runs: Sequence[Run], model: str, protocol: str) -> Run:
    return next(run for run in runs if model in run.models and protocol_name(run) == protocol)


def _check_whole(graded: Graded, row: Record, run: Run) -> None:
    tasks = run.about["models"][row["model"]].get("tasks")
    whole = [item for item in graded.benchmark.items if tasks is None or item.task in tasks]
    missing = row["error"] + row["not_asked"]
    if missing or row["items"] < len(whole):
        raise InputError(
            f"{run.folder}: '{row['model']}' has answers to {row['items'] - missing:,} of {len(whole):,} items; a "
            "leaderboard takes complete runs only, so finish the run."
        )
    if run.about.get("repeats", 1) * run.about.get("rotations", 1) > 1:
        raise InputError(
            f"{run.folder}: this run asks its items several times; a leaderboard takes only runs that ask each item "
            "once."
        )


def _fingerprint(run: Run, model: str) -> str:
    """Return a hash of a model's answers; equal answers have equal hashes."""
    told = [
        dump({"item": turn.item_id, "state": turn.state, "parsed": turn.parsed and list(turn.parsed)})
        for turn in run.turns
        if turn.model == model
    ]
    return sha256("\n".join(sorted(told)).encode())


def _about(graded: Graded) -> dict[str, Any]:
    about = graded.benchmark.about
    return {"name": about["name"], "version": about["version"], "hash": graded.benchmark.hash, "data": about["data"]}
