"""A report's files: grades as Parquet, every table as CSV, Parquet, Markdown and LaTeX, and one JSON of all.

Every file carries a notice if its scores are of phantoms, of a part of the benchmark, or of models that were asked
different items. Published figures appear only beside scores on real radiographs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from chexqa.eval.prompts import answer_parser
from chexqa.eval.scoring import rereading
from chexqa.eval.scoring.frames import csv_bytes, parquet_bytes
from chexqa.eval.scoring.grade import Graded
from chexqa.eval.scoring.intervals import LEAST_CLUSTERS
from chexqa.eval.scoring.significance import DRAWS
from chexqa.eval.tables.all_tables import all_tables
from chexqa.eval.tables.asked_items import published, remark
from chexqa.eval.tables.formats import latex, markdown
from chexqa.eval.tables.glossary import TABLES, meaning
from chexqa.files.atomic import write_all
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, check, json_bytes
from chexqa.files.limits import MAX_JSON_BYTES
from chexqa.files.opening import MissingError, check_folder, read_whole, real
from chexqa.files.terminal import PHANTOM_NOTICE
from chexqa.stats import CONFIDENCE
from chexqa.version import __version__

INDEX, GRADES, REREAD, FOLDER = "report.json", "grades.parquet", "reread.csv", "tables"
Frames = Mapping[str, pl.DataFrame]
Form = Callable[[str, pl.DataFrame, str | None], bytes]
FORMS: dict[str, Form] = {
    "csv": lambda name, frame, notice: csv_bytes(frame, notice),
    "parquet": lambda name, frame, notice: parquet_bytes(frame, notice),
    "md": lambda name, frame, notice: markdown(name, frame, notice).encode(),
    "tex": lambda name, frame, notice: latex(name, frame, notice).encode(),
}


def notice_of(graded: Graded) -> str | None:
    """Return the notice for scores of phantoms; None for real radiographs."""
    return PHANTOM_NOTICE if graded.benchmark.is_phantom else None


def file_notice(graded: Graded) -> str | None:
    """Return the notice for every file of numbers: on phantoms, on the items asked, or both; None if neither."""
    return "; ".join(filter(None, (notice_of(graded), remark(graded)))) or None


def summary(graded: Graded, frames: Frames | None = None) -> Record:
    """Return all tables as one JSON object; shares are fractions, null is "no number" (see ``unfinished``).

    ``frames``: the tables of ``graded``, if they are already made.
    """
    about = graded.benchmark.about
    made = all_tables(graded) if frames is None else frames
    columns = sorted({name for frame in made.values() for name in frame.columns})
    return {
        "schema_version": 1,
        "tool_version": __version__,
        "notice": file_notice(graded),
        "benchmark": {
            "name": about["name"],
            "version": about["version"],
            "hash": graded.benchmark.hash,
            "data": about["data"],
            "counts": about["counts"],
        },
        "runs": [
            {name: run.about.get(name) for name in (*_OF_RUN, *(["condition"] if "condition" in run.about else []))}
            for run in graded.runs
        ],
        "partial": graded.allow_partial,
        "statistics": {
            "least_clusters": LEAST_CLUSTERS,
            "confidence": CONFIDENCE,
            "sign_flips": DRAWS,
            "clusters": made["facts"]["clusters"].first(),
        },
        "meanings": {"tables": TABLES, "columns": {name: meaning(name) for name in columns}},
        "tables": {name: table.to_dicts() for name, table in made.items()},
        "published": published(graded.benchmark),
        "parser": _parser(graded),
        "files": [],
    }


def _parser(graded: Graded) -> Record:
    """Return which versions of the parser read the replies, and what reading them again changed."""
    changed = graded.changed
    return {
        "version": answer_parser.VERSION,
        "turns": {str(version): turns for version, turns in rereading.versions(graded.runs).items()},
        "note": rereading.mixed(graded.runs),
        "reread": None
        if changed is None
        else {
            "changed": changed.height,
            "counts": rereading.counts(changed).to_dicts(),
            "items": changed.to_dicts(),
        },
    }


_OF_RUN = ("protocol", "blind", "overlay_only", "rotations", "repeats", "limit", "limit_per_path", "cases", "models")


def to_json(record: Record) -> str:
    """Return indented JSON text that ends in a newline."""
    return json_bytes(record).decode()


def write(
    graded: Graded,
    folder: Path,
    forms: tuple[str, ...] = ("csv",),
    frames: Frames | None = None,
    more: Mapping[str, bytes] | None = None,
) -> list[Path]:
    """Write grades, tables in the given forms and their index into ``folder``, all or none; return the paths.

    ``more``: other files of the report, by their path in the folder. The files of an earlier report there are replaced,
    or removed if this one does not have them. A file of the same name that no report wrote is an ``InputError``.
    """
    notice = file_notice(graded)
    made = all_tables(graded) if frames is None else frames
    files = {GRADES: parquet_bytes(graded.grades, notice)}
    if graded.changed is not None:
        files[REREAD] = csv_bytes(graded.changed, notice)
    for form in forms:
        files |= {f"{FOLDER}/{name}.{form}": FORMS[form](name, frame, notice) for name, frame in made.items()}
    files |= more or {}
    index = {**summary(graded, made), "files": [*files, INDEX]}
    check(index, "report", str(folder / INDEX))
    files[INDEX] = json_bytes(index)
    earlier = _check_own(folder, list(files))
    write_all(folder, files)
    for name in earlier:
        if name not in files:
            (folder / name).unlink(missing_ok=True)
    return [folder / name for name in files]


def _check_own(folder: Path, names: list[str]) -> list[str]:
    """Return the files of an earlier report; raise ``InputError`` if a report may not be written into the folder."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; name a folder for the report.")
    for name in ("benchmark.json", "run.json", "cases.jsonl"):
        if (folder / name).exists():
            raise InputError(f"{folder}: a report may not be written beside {name}; name another folder.")
    mine = _earlier(folder / INDEX)
    for name in names:
        check_folder((folder / name).parent, folder)
        if (folder / name).exists() and name not in mine:
            raise InputError(f"{folder / name}: was not written by 'chexqa report'; name another folder.")
    return mine


def _earlier(index: Path) -> list[str]:
    """Return the files that the index of an earlier report in this folder lists."""
    try:
        record: Any = json.loads(read_whole(index, MAX_JSON_BYTES, index.parent))
    except (MissingError, ValueError, RecursionError):
        return []
    files = record.get("files") if isinstance(record, dict) and "tables" in record else None
    names = [name for name in files if isinstance(name, str) and "\0" not in name] if isinstance(files, list) else []
    home = real(index.parent)
    # An untrusted index could name any file of this machine, by its path or through a link.
    return [name for name in names if real(index.parent / name).is_relative_to(home)]
