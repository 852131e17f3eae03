"""Tables as files: CSV for spreadsheets, one JSON file for machines.

Phantom scores carry their notice in every file; figures other people published stand beside real radiographs alone.
"""

from __future__ import annotations

import json
import os
import re
from importlib import resources
from pathlib import Path
from typing import Any

import polars as pl

from chexqa.errors import InputError
from chexqa.eval import tables
from chexqa.eval.grading import Graded
from chexqa.records import Record, read_yaml
from chexqa.terminal import PHANTOM_NOTICE
from chexqa.version import __version__

INDEX = "report.json"
REPLY_CHARACTERS = 1000
_FORMULA = re.compile(r"[=+\-@\t\r\n＝＋－＠]")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def published(graded: Graded) -> list[Record]:
    """Figures of other people's papers on the grid task; none beside phantoms."""
    if graded.benchmark.about["data"] != "real":
        return []
    path = Path(str(resources.files("chexqa.eval").joinpath("published.yaml")))
    rows: list[Record] = read_yaml(path, "published")["rows"]
    return rows


def summary(graded: Graded) -> Record:
    """Everything the tables say, as one JSON object; shares are fractions, null is "no number" (see ``unfinished``)."""
    about = graded.benchmark.about
    return {
        "tool_version": __version__,
        "notice": PHANTOM_NOTICE if graded.benchmark.is_phantom else None,
        "benchmark": {
            "name": about["name"],
            "version": about["version"],
            "hash": graded.benchmark.hash,
            "data": about["data"],
            "counts": about["counts"],
        },
        "runs": [
            {"protocol": run.about["protocol"], "blind": run.about["blind"], "models": run.about["models"]}
            for run in graded.runs
        ],
        "tables": {name: table.to_dicts() for name, table in tables.all_tables(graded.grades).items()},
        "published": published(graded),
    }


def to_json(record: Record) -> str:
    """Indented JSON text that ends in a newline."""
    return json.dumps(record, ensure_ascii=False, allow_nan=False, indent=2) + "\n"


def write(graded: Graded, folder: Path) -> list[Path]:
    """Write the report's files into ``folder``, all of them or none; returns their paths.

    An earlier report there is replaced; any other file of the same name stays, and is an ``InputError``.
    """
    notice = PHANTOM_NOTICE if graded.benchmark.is_phantom else None
    frames = {"grades": _for_people(graded.grades), **tables.all_tables(graded.grades)}
    files = {f"{name}.csv": csv_bytes(frame, notice) for name, frame in frames.items()}
    files[INDEX] = to_json({**summary(graded), "files": [*files, INDEX]}).encode()
    _check_own(folder, list(files))
    _replace_all(folder, files)
    return [folder / name for name in files]


def _for_people(grades: pl.DataFrame) -> pl.DataFrame:
    """Option numbers as text, replies cut: the log holds them whole."""
    numbers = pl.col("parsed", "answer").cast(pl.List(pl.String)).list.join(" ")
    return grades.with_columns(numbers, pl.col("reply").str.head(REPLY_CHARACTERS))


def csv_bytes(frame: pl.DataFrame, notice: str | None) -> bytes:
    """The frame as CSV (UTF-8), its text never a formula, with the notice as a column of its own where there is one."""
    texts = [name for name, kind in frame.schema.items() if kind == pl.String]
    safe = frame.with_columns(pl.col(name).map_elements(data_text, return_dtype=pl.String) for name in texts)
    if notice:
        safe = safe.with_columns(pl.lit(notice).alias("notice"))
    return safe.write_csv().encode()


def data_text(text: str) -> str:
    """Text a spreadsheet shows as it is: an apostrophe before what would be a formula, no control characters."""
    clean = _CONTROL.sub("\ufffd", text)
    return f"'{clean}" if _FORMULA.match(clean.lstrip(" ")) else clean


def _check_own(folder: Path, names: list[str]) -> None:
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; name a folder for the report.")
    for name in ("benchmark.json", "run.json", "cases.jsonl"):
        if (folder / name).exists():
            raise InputError(f"{folder}: holds {name}, so it is no place for a report; name another folder.")
    mine = _earlier(folder / INDEX)
    for name in names:
        if (folder / name).exists() and name not in mine:
            raise InputError(f"{folder / name}: was not written by 'chexqa report'; name another folder.")


def _earlier(index: Path) -> list[str]:
    """The files an earlier report in this folder lists as its own."""
    try:
        record: Any = json.loads(index.read_bytes())
    except (OSError, ValueError):
        return []
    files = record.get("files") if isinstance(record, dict) and "tables" in record else None
    return [str(name) for name in files] if isinstance(files, list) else []


def _replace_all(folder: Path, files: dict[str, bytes]) -> None:
    """Write every file beside its place first, then move all into place: a full disk leaves the earlier report."""
    temporaries = {name: folder / f".{name}.{os.getpid()}.tmp" for name in files}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            temporaries[name].write_bytes(data)
        for name, temporary in temporaries.items():
            temporary.replace(folder / name)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror}).") from None
    finally:
        for temporary in temporaries.values():
            temporary.unlink(missing_ok=True)
