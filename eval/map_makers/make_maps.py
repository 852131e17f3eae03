"""Making of all maps of a set of cases: batches, files, resuming, and the table of scores.

The folder gets the file ``maker.json``, which says what the maps were made with, and for each case one file
``CASE_FINDING.npz`` with the arrays ``map`` ``(h, w)`` and ``score``. When all maps are there, ``scores.csv`` is
written. An existing map is not made again.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from chexqa.eval.heatmaps.map_files import ORIGIN, ORIGIN_SCHEMA, SCORES, read_score
from chexqa.eval.map_makers.cases_to_map import Cases, CaseToMap
from chexqa.eval.map_makers.prompts import Prompts
from chexqa.eval.map_makers.registry import Family, Made, Maker, checked, code_hash, run_batch
from chexqa.eval.scoring.csv_and_parquet import csv_bytes
from chexqa.files.atomic import made_folder
from chexqa.files.errors import InputError, defined
from chexqa.files.jsonio import Record, dump, is_file, read_json, sha256, write_bytes, write_json
from chexqa.files.locks import locked
from chexqa.files.opening import sha256_of
from chexqa.imaging.read import Gray
from chexqa.version import __version__

LOCK = ".lock"
Advance = Callable[[], None]
# Cases that show the same radiograph and have no map yet.
Group = list[CaseToMap]


class Result(NamedTuple):
    """Counts of maps: ``made`` were made now, ``kept`` existed before."""

    made: int
    kept: int


def origin(
    name: str, family: Family, domain: str | None, weights: Path | None, prompts: Prompts, cases: Cases
) -> Record:
    """Return the record of ``maker.json``."""
    code = code_hash(family)
    wording = {"templates": prompts.templates, "negatives": prompts.negatives, "words": prompts.words}
    return {
        "schema_version": 1,
        "tool_version": __version__,
        "maker": name,
        "family": family.name,
        "domain": domain,
        "weights": None if weights is None else hash_of_weights(weights),
        "prompts": {"name": prompts.name, "hash": sha256(dump(wording).encode())},
        "cases": cases.label,
        **({} if code is None else {"code": code}),
    }


def hash_of_weights(folder: Path) -> str:
    """Return one SHA-256 of the names and contents of all files in a folder of weights."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    named = {path.relative_to(folder).as_posix(): sha256_of(path) for path in files}
    return sha256(dump(named).encode())


def make_all(
    maker: Callable[[], Maker], about: Record, cases: Cases, prompts: Prompts, folder: Path, batch_size: int,
    advance: Advance = lambda: None,
) -> Result:  # fmt: skip
    """Make every map that is missing in ``folder``, and write the table of scores.

    ``maker`` is a function that loads the maker; it is called only if a map is missing. ``batch_size`` is the number of
    radiographs given to the maker at once. ``advance`` is called once for each case.
    """
    with _locked_folder(folder):
        _check_origin(folder, about)
        waiting = [case for case in cases.cases if not is_file(folder / case.file)]
        for _ in range(len(cases.cases) - len(waiting)):
            advance()
        if waiting:
            loaded, batches = maker(), _batches(_grouped(waiting), batch_size)
            for batch, made in _computed(loaded, about["maker"], batches, prompts):
                _write(folder, batch, made, defined(getattr(loaded, "batch", loaded)))
                for _ in range(sum(len(group) for group in batch)):
                    advance()
        write_bytes(folder / SCORES, _scores(folder, cases))
    return Result(len(waiting), len(cases.cases) - len(waiting))


@contextmanager
def _locked_folder(folder: Path) -> Iterator[None]:
    """Make a folder and lock it for a block; if the block fails and made no map, remove what this function made."""
    with made_folder(folder):
        new, before = [path for path in (folder / LOCK, folder / ORIGIN) if not path.exists()], _maps(folder)
        holder = locked(folder / LOCK, f"{folder}: another process is making maps in this folder")
        with holder, ExitStack() as undo:
            undo.callback(_remove_without_maps, folder, before, new)
            yield
            undo.pop_all()


def _remove_without_maps(folder: Path, before: int, new: list[Path]) -> None:
    if _maps(folder) == before:
        with suppress(OSError):
            for path in new:
                path.unlink(missing_ok=True)


def _maps(folder: Path) -> int:
    return sum(1 for _ in folder.glob("*.npz"))


def _check_origin(folder: Path, about: Record) -> None:
    """Write ``maker.json``; raise ``InputError`` if the folder's maps are of another maker, wording or set of cases, or
    of other weights.
    """
    path = folder / ORIGIN
    if not is_file(path):
        strange = next((one.name for one in folder.iterdir() if one.suffix in (".npz", ".npy", ".png", ".pkl")), None)
        if strange is not None:
            raise InputError(
                f"{folder}: contains {strange} but no {ORIGIN}, so it is not a folder of maps; name a "
                "new folder for the maps."
            )
        write_json(path, about, ORIGIN_SCHEMA)
        return
    known = read_json(path, ORIGIN_SCHEMA)
    for field in ("maker", "weights", "prompts", "cases"):
        if known[field] != about[field]:
            raise InputError(
                f"{path}, field '{field}': the folder has maps of {_said(known[field])}, but this command makes maps "
                f"of {_said(about[field])}; name another folder with -o."
            )
    if "code" in known and known["code"] != about.get("code"):
        raise InputError(
            f"{path}, field 'code': the maps in this folder were made before the plugin's code was changed; remove the "
            "folder, or name another with -o."
        )


def _said(value: object) -> str:
    if isinstance(value, dict):
        return f"the wording '{value['name']}' ({value['hash'][:8]})"
    return f"'{value}'" if value is not None else "a maker without weights"


def _grouped(cases: Sequence[CaseToMap]) -> list[Group]:
    groups: dict[str, list[CaseToMap]] = {}
    for case in cases:
        groups.setdefault(case.picture, []).append(case)
    return list(groups.values())


def _batches(groups: Sequence[Group], size: int) -> Iterator[list[Group]]:
    for start in range(0, len(groups), size):
        yield list(groups[start : start + size])


def _computed(
    maker: Maker, name: str, batches: Iterator[list[Group]], prompts: Prompts
) -> Iterator[tuple[list[Group], list[list[Made]]]]:
    """Yield each batch with its maps; a thread reads the radiographs of the next batch in the meantime."""

    def read(batch: list[Group] | None) -> list[Gray]:
        return [] if batch is None else [group[0].read() for group in batch]

    with ThreadPoolExecutor(1) as readers:
        batch = next(batches, None)
        pending: Future[list[Gray]] = readers.submit(read, batch)
        while batch is not None:
            pictures = pending.result()
            following = next(batches, None)
            pending = readers.submit(read, following)
            wanted = [[prompts.finding(case.finding) for case in group] for group in batch]
            ids = [[case.case_id for case in group] for group in batch]
            yield batch, run_batch(maker, name, pictures, wanted, ids)
            batch = following


def _write(folder: Path, batch: list[Group], made: list[list[Made]], place: str) -> None:
    """Write the maps of a batch; raise ``InputError`` if a finding does not have one map and one score.

    ``place`` is the beginning of the message: file and line of the maker, or ``""``.
    """
    if len(made) != len(batch):
        raise InputError(
            f"{place}the map maker returned {len(made)} lists of maps for {len(batch)} pictures; return one for "
            "each picture."
        )
    for group, maps in zip(batch, made, strict=True):
        if len(maps) != len(group):
            raise InputError(
                f"{place}{group[0].case_id}: the map maker returned {len(maps)} maps for {len(group)} findings; "
                "return one for each finding."
            )
        for case, one in zip(group, maps, strict=True):
            values, score = checked(one, f"{place}{case.case_id}, {case.finding}")
            buffer = io.BytesIO()
            np.savez(buffer, map=values, score=np.float64(score))
            write_bytes(folder / case.file, buffer.getvalue())


def _scores(folder: Path, cases: Cases) -> bytes:
    """Return the table of scores, with one row for each case; a score that is not finite is left empty."""
    scores = [read_score(folder / case.file) for case in cases.cases]
    frame = pl.DataFrame(
        {
            "case_id": [case.case_id for case in cases.cases],
            "finding": [case.finding for case in cases.cases],
            "present": [None if case.present is None else int(case.present) for case in cases.cases],
            "score": [score if np.isfinite(score) else None for score in scores],
        },
        schema={"case_id": pl.String, "finding": pl.String, "present": pl.Int64, "score": pl.Float64},
    )
    return csv_bytes(frame, None)
