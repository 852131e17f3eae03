"""A report's files: grades as Parquet, every table as CSV (Parquet, Markdown and LaTeX besides), one JSON of all.

Phantom scores carry their notice in every file; figures other people published stand beside real radiographs alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl

from chexqa.errors import InputError
from chexqa.eval import statistics
from chexqa.eval.all_tables import all_tables
from chexqa.eval.facts import published
from chexqa.eval.glossary import TABLES, meaning
from chexqa.eval.grading import Graded
from chexqa.eval.significance import DRAWS
from chexqa.eval.writers import csv_bytes, latex, markdown, parquet_bytes
from chexqa.records import Record, check
from chexqa.terminal import PHANTOM_NOTICE
from chexqa.version import __version__

INDEX, GRADES, FOLDER = "report.json", "grades.parquet", "tables"
Frames = Mapping[str, pl.DataFrame]
Form = Callable[[str, pl.DataFrame, str | None], bytes]
FORMS: dict[str, Form] = {
    "csv": lambda name, frame, notice: csv_bytes(frame, notice),
    "parquet": lambda name, frame, notice: parquet_bytes(frame, notice),
    "md": lambda name, frame, notice: markdown(name, frame, notice).encode(),
    "tex": lambda name, frame, notice: latex(name, frame, notice).encode(),
}


def notice_of(graded: Graded) -> str | None:
    """The sentence that goes with every score of phantoms; None beside real radiographs."""
    return PHANTOM_NOTICE if graded.benchmark.is_phantom else None


def summary(graded: Graded, frames: Frames | None = None) -> Record:
    """Everything the tables say, as one JSON object; shares are fractions, null is "no number" (see ``unfinished``).

    ``frames``: the tables of ``graded``, where they are at hand.
    """
    about = graded.benchmark.about
    made = all_tables(graded) if frames is None else frames
    columns = sorted({name for frame in made.values() for name in frame.columns})
    return {
        "schema_version": 1,
        "tool_version": __version__,
        "notice": notice_of(graded),
        "benchmark": {
            "name": about["name"],
            "version": about["version"],
            "hash": graded.benchmark.hash,
            "data": about["data"],
            "counts": about["counts"],
        },
        "runs": [{name: run.about.get(name) for name in _OF_RUN} for run in graded.runs],
        "partial": graded.allow_partial,
        "statistics": {
            "replicates": statistics.REPLICATES,
            "confidence": statistics.CONFIDENCE,
            "sign_flips": DRAWS,
            "clusters": made["facts"]["clusters"].first(),
        },
        "meanings": {"tables": TABLES, "columns": {name: meaning(name) for name in columns}},
        "tables": {name: table.to_dicts() for name, table in made.items()},
        "published": published(graded.benchmark),
        "files": [],
    }


_OF_RUN = ("protocol", "blind", "overlay_only", "rotations", "repeats", "limit", "limit_per_path", "models")


def to_json(record: Record) -> str:
    """Indented JSON text that ends in a newline."""
    return json.dumps(record, ensure_ascii=False, allow_nan=False, indent=2) + "\n"


def write(
    graded: Graded,
    folder: Path,
    forms: tuple[str, ...] = ("csv",),
    frames: Frames | None = None,
    more: Mapping[str, bytes] | None = None,
) -> list[Path]:
    """Write grades, tables in the given forms and their index into ``folder``, all or none; returns the paths.

    ``more``: other files of the report, by their path in the folder. An earlier report's files there are replaced or,
    where this one has none of their name, removed; any other file of the same name stays, and is an ``InputError``.
    """
    notice = notice_of(graded)
    made = all_tables(graded) if frames is None else frames
    files = {GRADES: parquet_bytes(graded.grades, notice)}
    for form in forms:
        files |= {f"{FOLDER}/{name}.{form}": FORMS[form](name, frame, notice) for name, frame in made.items()}
    files |= more or {}
    index = {**summary(graded, made), "files": [*files, INDEX]}
    check(index, "report", str(folder / INDEX))
    files[INDEX] = to_json(index).encode()
    earlier = _check_own(folder, list(files))
    _replace_all(folder, files)
    for name in earlier:
        if name not in files:
            (folder / name).unlink(missing_ok=True)
    return [folder / name for name in files]


def _check_own(folder: Path, names: list[str]) -> list[str]:
    """Refuse a folder that is no place for a report, or holds files in its way; returns an earlier report's files."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; name a folder for the report.")
    for name in ("benchmark.json", "run.json", "cases.jsonl"):
        if (folder / name).exists():
            raise InputError(f"{folder}: holds {name}, so it is no place for a report; name another folder.")
    mine = _earlier(folder / INDEX)
    for name in names:
        if (folder / name).exists() and name not in mine:
            raise InputError(f"{folder / name}: was not written by 'chexqa report'; name another folder.")
    return mine


def _earlier(index: Path) -> list[str]:
    """The files an earlier report in this folder lists as its own."""
    try:
        record: Any = json.loads(index.read_bytes())
    except (OSError, ValueError):
        return []
    files = record.get("files") if isinstance(record, dict) and "tables" in record else None
    names = [str(name) for name in files] if isinstance(files, list) else []
    home = index.parent.resolve()
    # A stranger's index could name any file of this machine, by its path or through a link.
    return [name for name in names if (index.parent / name).resolve().is_relative_to(home)]


def _replace_all(folder: Path, files: dict[str, bytes]) -> None:
    """Write every file beside its place first, then move all into place: a full disk leaves the earlier report."""
    places = {name: folder / name for name in files}
    temporaries = {name: place.with_name(f".{place.name}.{os.getpid()}.tmp") for name, place in places.items()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            places[name].parent.mkdir(parents=True, exist_ok=True)
            temporaries[name].write_bytes(data)
        for name, temporary in temporaries.items():
            temporary.replace(places[name])
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror}).") from None
    finally:
        for temporary in temporaries.values():
            with suppress(OSError):  # what went wrong before is what is to be said
                temporary.unlink(missing_ok=True)
