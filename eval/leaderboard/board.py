"""The folder of a leaderboard: ``leaderboard.json`` with all entries, the page ``index.html`` and ``leaderboard.csv``.

The folder has scores only, and no answer or grade of a single item, so it can be published while the key is withheld.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from chexqa.eval.leaderboard import page
from chexqa.eval.leaderboard.entry import SCORES, entries_of, references
from chexqa.eval.leaderboard.submission import unstated
from chexqa.eval.scoring import rereading
from chexqa.eval.scoring.csv_and_parquet import csv_bytes
from chexqa.eval.scoring.grade import Graded
from chexqa.eval.scoring.predictions import ELSEWHERE, STATES_BENCHMARK
from chexqa.files.atomic import write_all
from chexqa.files.errors import InputError, unwritable
from chexqa.files.jsonio import Record, check, dump, json_bytes, read_json, sha256
from chexqa.files.locks import locked
from chexqa.files.terminal import PHANTOM_NOTICE

_ENDS = {"": "value", "_low": "low", "_high": "high"}
INDEX, PAGE, TABLE = "leaderboard.json", "index.html", "leaderboard.csv"


def add(folder: Path, graded: Graded, added: str, by: str | None, title: str | None) -> tuple[list[Record], list[str]]:
    """Add the models of graded runs to a leaderboard, which is made if it is missing.

    Return their entries, and notes for the user: on files that name no benchmark, and on answers that an entry of
    another model has, too.

    ``added`` is the entries' date, and ``by`` the person or group that sent the runs. ``title`` replaces the page's
    title. Raise ``InputError`` for a run whose log was changed by hand, for the models that :func:`entry.entries_of`
    rejects, if an entry of the same model has these answers already, and if a file that would be replaced is not from a
    leaderboard.
    """
    for run in graded.runs:
        if not run.about.get(ELSEWHERE):
            rereading.check_unchanged(graded.benchmark, run)
    new = entries_of(graded, added, by)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; name a folder for the leaderboard.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from None
    with locked(folder / ".lock"):
        board = _read(folder)
        notes = list(dict.fromkeys(unstated(run) for run in graded.runs if run.about.get(STATES_BENCHMARK) is False))
        for place, entry in enumerate(new):
            _check_new(board, entry, folder)
            notes += _twins([*board["entries"], *new[:place]], entry)
        board["title"] = title or board["title"] or f"Leaderboard of {graded.benchmark.name}"
        board["references"][graded.benchmark.hash] = references(graded)
        board["entries"] += new
        _write(folder, board)
    return new, notes


def id_of(entry: Record) -> str:
    """Return the id of an entry: 8 characters that follow from model, protocol, benchmark and answers."""
    told = {name: entry[name] for name in ("model", "protocol", "sha256")}
    return sha256(dump(told | {"benchmark": entry["benchmark"]["hash"]}).encode())[:8]


def remove(
    folder: Path, model: str, protocol: str | None = None, added: str | None = None, entry_id: str | None = None
) -> Record:
    """Remove one entry of a model from a leaderboard, and return this entry.

    Raise ``InputError`` if no entry or more than one entry has the given model, protocol, date and id (see
    :func:`id_of`), or if the entry is the leaderboard's only one.
    """
    if not (folder / INDEX).is_file():
        raise InputError(
            f"{folder}: contains no {INDEX}, so it is not a leaderboard; make one with 'chexqa leaderboard add'."
        )
    with locked(folder / ".lock"):
        board = _read(folder)
        wanted = {"model": model, "protocol": protocol, "added": added, "id": entry_id}
        fitting = [
            entry for entry in board["entries"]
            if all((entry | {"id": id_of(entry)})[name] == value for name, value in wanted.items() if value is not None)
        ]  # fmt: skip
        entry = _only(folder, board, fitting, wanted)
        board["entries"] = [other for other in board["entries"] if other is not entry]
        left = {other["benchmark"]["hash"] for other in board["entries"]}
        board["references"] = {name: one for name, one in board["references"].items() if name in left}
        _write(folder, board)
    return entry


def _only(folder: Path, board: Record, fitting: list[Record], wanted: Mapping[str, str | None]) -> Record:
    """Return the only entry in ``fitting``; raise ``InputError`` if there is not exactly one, or if the board has no
    other entry.
    """
    said = ", ".join(value for value in wanted.values() if value is not None)
    if not fitting:
        models = ", ".join(dict.fromkeys(entry["model"] for entry in board["entries"]))
        raise InputError(f"{folder}: has no entry of {said}; its models are {models}.")
    if len(fitting) > 1:
        found = "; ".join(f"{id_of(entry)}: {entry['protocol']} of {entry['added']}" for entry in fitting)
        raise InputError(f"{folder}: has {len(fitting)} entries of {said} ({found}); choose one with --id.")
    if len(board["entries"]) == 1:
        raise InputError(
            f"{folder}: the entry of {said} is the leaderboard's only one; remove the whole folder instead."
        )
    return fitting[0]


def _write(folder: Path, board: Record) -> None:
    """Write the files of a leaderboard, all or none."""
    check(board, "leaderboard", str(folder / INDEX))
    files = {TABLE: csv_bytes(frame(board), _notice(board)), PAGE: page.render(board).encode()}
    write_all(folder, [*files.items(), (INDEX, json_bytes(board))])


def _read(folder: Path) -> Record:
    """Return the leaderboard in a folder, or an empty leaderboard."""
    if (folder / INDEX).exists():
        return read_json(folder / INDEX, "leaderboard", folder)
    for name in (PAGE, TABLE):
        if (folder / name).exists():
            raise InputError(
                f"{folder / name}: this file is not from a leaderboard and would be replaced; name another folder."
            )
    return {"schema_version": 1, "title": "", "references": {}, "entries": []}


def _check_new(board: Record, entry: Record, folder: Path) -> None:
    for other in board["entries"]:
        if all(other[name] == entry[name] for name in ("model", "protocol", "benchmark", "sha256")):
            raise InputError(
                f"{folder}: already has these answers of '{entry['model']}' ({entry['protocol']}), added on "
                f"{other['added']}; the leaderboard was not changed."
            )


def _twins(entries: list[Record], entry: Record) -> list[str]:
    """Return a note if other entries of the benchmark have exactly the answers of ``entry``."""
    same = [other for other in entries if other["sha256"] == entry["sha256"]
            and other["benchmark"]["hash"] == entry["benchmark"]["hash"]]  # fmt: skip
    named = ", ".join(f"'{other['model']}' ({other['protocol']}), added on {other['added']}" for other in same)
    return (
        [f"'{entry['model']}' ({entry['protocol']}): exactly these answers are also those of {named}"] if same else []
    )


def frame(board: Record) -> pl.DataFrame:
    """Return all entries as a table with a row for each entry; shares are fractions."""
    rows = []
    for entry in board["entries"]:
        row = {name: entry.get(name) for name in ("model", "protocol", "domain", "by", "added", "simulated")}
        for score in SCORES:
            value = entry["scores"].get(score, {})
            row |= {f"{score}{end}": value.get(key) for end, key in _ENDS.items()}
        about = entry["benchmark"]
        row |= {
            "items": entry["items"],
            "answered": entry["answered"],
            "benchmark": f"{about['name']} {about['version']}",
            "benchmark_hash": about["hash"],
            "chexqa": entry["tool_version"],
            "parser": entry["parser_version"],
            "source": entry["source"],
            "sha256": entry["sha256"],
            "id": id_of(entry),
        }
        rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)


def _notice(board: Record) -> str | None:
    return PHANTOM_NOTICE if any(entry["benchmark"]["data"] == "phantom" for entry in board["entries"]) else None
