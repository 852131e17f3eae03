"""Files of a report: grades as Parquet, every table as CSV, Parquet, Markdown and LaTeX, and one JSON of all tables.

Every file has a notice if its scores are from phantoms, from a part of the benchmark, or from models that were asked
different items. Scores that others published appear only beside scores on real radiographs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl

from chexqa.contract.read_run import Run
from chexqa.eval.prompts import answer_parser
from chexqa.eval.scoring import rereading
from chexqa.eval.scoring.csv_and_parquet import csv_bytes, parquet_bytes
from chexqa.eval.scoring.grade import Graded
from chexqa.eval.scoring.intervals import LEAST_CLUSTERS
from chexqa.eval.scoring.significance import DRAWS
from chexqa.eval.tables.all_tables import Group, all_tables
from chexqa.eval.tables.all_tables import groups as groups_of
from chexqa.eval.tables.asked_items import published, remark, simulated
from chexqa.eval.tables.glossary import TABLES, meaning
from chexqa.eval.tables.numbers_markdown_latex import latex, markdown
from chexqa.files.atomic import write_all
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, check, dump, json_bytes
from chexqa.files.limits import MAX_JSON_BYTES
from chexqa.files.opening import MissingError, check_folder, read_whole, real
from chexqa.files.terminal import PHANTOM_NOTICE
from chexqa.files.text import few
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
    """Return the notice that every file with scores has; None if it would be empty.

    The notice says which of these facts are true: the radiographs are phantoms, models are simulated, only some items
    were asked.
    """
    told = [text for text in (notice_of(graded), simulated(graded), remark(graded)) if text]
    return "; ".join([*(text.removesuffix(".") for text in told[:-1]), *told[-1:]]) or None


def summary(graded: Graded, frames: Frames | None = None) -> Record:
    """Return all tables as one JSON object; shares are fractions, and null means "no number".

    A model has no numbers, for example, if some of its questions are unfinished (column ``unfinished``).

    ``frames`` has the tables of ``graded``; if it is None, they are computed.
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
        "runs": [_run(run) for run in graded.runs],
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


def _run(run: Run) -> Record:
    """Return the protocol and the models of a run from its ``run.json``, with the name of the run's folder."""
    condition = {name: run.about[name] for name in ("condition",) if name in run.about}
    return {"name": run.folder.name, **{name: run.about.get(name) for name in _OF_RUN}, **condition}


def _parser(graded: Graded) -> Record:
    """Return the versions of the parser that read the replies, and the replies that are now read differently."""
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


_OF_RUN = (
    "protocol", "blind", "overlay_only", "rotations", "repeats", "limit", "limit_per_path", "limit_prefers", "cases",
    "models",
)  # fmt: skip


def to_json(record: Record) -> str:
    """Return indented JSON text that ends in a newline."""
    return json_bytes(record).decode()


def group_summaries(groups: Sequence[Group]) -> Record:
    """Return the :func:`summary` of the largest group of models; it has the summaries of the other groups in
    ``other_groups``.

    The models of a group were asked the same items. If there are several groups, the field ``group`` of each summary
    names its group.
    """
    first, *others = [_grouped(group) for group in groups]
    return {**first, "other_groups": others} if others else first


def _grouped(group: Group) -> Record:
    record = summary(group.graded, group.tables)
    if group.count == 1:
        return record
    others = [number for number in range(1, group.count + 1) if number != group.number]
    return {**record, "group": {"number": group.number, "title": group.title, "other_groups": others}}


def write(
    groups: Graded | Sequence[Group],
    folder: str | Path,
    forms: tuple[str, ...] = ("csv",),
    page: Callable[[Group, Sequence[Group]], Iterable[tuple[str, bytes]]] | None = None,
    overwrite: bool = False,
) -> list[Path]:
    """Write grades, tables in the given forms and their index into ``folder``; return the paths of the files.

    All files are made one by one in a hidden folder, and then moved into place. If making one fails, ``folder`` stays
    as it was. The first of the ``groups`` is written into ``folder``. Every further group is written into its own
    folder inside ``folder`` (:attr:`Group.folder`). ``groups`` may also be grades, which are then divided into groups.
    ``page`` returns further files of a group's report: pairs of the path in the group's folder and the content.

    Files of an earlier report in the folder are replaced, or removed if the new report does not have them. Raise
    ``InputError`` if a file that would be replaced is not from a report. Without ``overwrite``, raise ``InputError``
    also if the folder has a report of other runs.
    """
    folder = Path(folder)
    check_place(folder)
    groups = groups_of(groups) if isinstance(groups, Graded) else groups
    if not overwrite:
        _check_same_runs(folder, groups)
    names: list[str] = []
    before: list[str] = []

    def made() -> Iterator[tuple[str, bytes]]:
        for group in reversed(groups):
            place, first = f"{group.folder}/" if group.folder else "", len(names)
            more = () if page is None else page(group, groups)
            for name, data in chain(_tables(group, forms), more):
                names.append(f"{place}{name}")
                yield names[-1], data
            # The first group's index comes last, and lists the files of every group.
            listed = names if group.number == 1 else names[first:]
            index = {**_grouped(group), "files": [*(name.removeprefix(place) for name in listed), INDEX]}
            check(index, "report", str(folder / place / INDEX))
            names.append(f"{place}{INDEX}")
            yield names[-1], json_bytes(index)
        before.extend(_check_own(folder, names))

    write_all(folder, made())
    for name in before:
        if name not in names:
            (folder / name).unlink(missing_ok=True)
    return [folder / name for name in names]


def _tables(group: Group, forms: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """Yield a group's grades and tables: pairs of the path in the group's folder and the content."""
    notice = file_notice(group.graded)
    yield GRADES, parquet_bytes(group.graded.grades, notice)
    if group.graded.changed is not None:
        yield REREAD, csv_bytes(group.graded.changed, notice)
    for form in forms:
        for name, frame in group.tables.items():
            yield f"{FOLDER}/{name}.{form}", FORMS[form](name, frame, notice)


def check_place(folder: Path) -> None:
    """Raise ``InputError`` if a report may not be written into a folder.

    Commands call this function before they grade the runs, because grading takes time.
    """
    for path in (folder, *folder.parents):
        if path.exists():
            if not path.is_dir():
                raise InputError(f"{path}: is a file; name a folder for the report.")
            break
    for name in ("benchmark.json", "run.json", "cases.jsonl"):
        if (folder / name).exists():
            raise InputError(
                f"{folder}: contains {name}, and a report cannot be written beside this file; name another folder."
            )


def _check_own(folder: Path, names: list[str]) -> list[str]:
    """Return the files of an earlier report; raise ``InputError`` if a file with one of ``names`` is not from a
    report.
    """
    mine = earlier(folder)
    for name in names:
        check_folder((folder / name).parent, folder)
        if (folder / name).exists() and name not in mine:
            raise InputError(
                f"{folder / name}: this file was not written by 'chexqa report' and would be replaced; "
                "name another folder."
            )
    return mine


def _check_same_runs(folder: Path, groups: Sequence[Group]) -> None:
    """Raise ``InputError`` if the folder holds a report of other runs, or of another benchmark."""
    names = [name for name in earlier(folder) if name.rpartition("/")[2] == INDEX]
    held = [run for name in names for run in _runs(_index(folder / name))]
    now = [
        {"benchmark": group.graded.benchmark.hash, "run": _run(run)} for group in groups for run in group.graded.runs
    ]
    if not names or set(map(_known, held)) == set(map(_known, now)):
        return
    known = [*dict.fromkeys(str(one["run"].get("name")) for one in held if one["run"].get("name"))]
    named = f" ({few(known)})" if known else ""
    raise InputError(
        f"{folder}: contains a report of other runs{named}; name another folder, or replace that report with "
        "--overwrite."
    )


def _known(held: Record) -> str:
    """Return a run as text without fields that are null: a report of an earlier version does not have new fields."""
    return dump({**held, "run": {name: value for name, value in held["run"].items() if value is not None}})


def _runs(index: Record) -> list[Record]:
    """Return the runs in a report's index, each with the benchmark's hash."""
    about, runs = index.get("benchmark"), index.get("runs")
    mark = about.get("hash") if isinstance(about, dict) else None
    found = runs if isinstance(runs, list) else []
    return [{"benchmark": mark, "run": run} for run in found if isinstance(run, dict)]


def earlier(folder: Path) -> list[str]:
    """Return the files that the index of an earlier report in this folder lists."""
    index = folder / INDEX
    files = _index(index).get("files")
    names = [name for name in files if isinstance(name, str) and "\0" not in name] if isinstance(files, list) else []
    home = real(index.parent)
    # An untrusted index could name any file of this machine, by its path or through a link.
    return [name for name in names if real(index.parent / name).is_relative_to(home)]


def _index(path: Path) -> Record:
    """Return the index of a report; empty if the file is missing or is not an index."""
    try:
        record: Any = json.loads(read_whole(path, MAX_JSON_BYTES, path.parent))
    except (MissingError, ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) and "tables" in record else {}
