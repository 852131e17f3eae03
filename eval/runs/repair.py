"""Repairing the logs of a run: lines that are no turns move into a file beside their log, and nothing is lost.

The log is locked meanwhile, so that no line is moved under a process that writes it; both files are replaced whole.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from chexqa.contract import runlog
from chexqa.contract.runlog import TURNS, Line
from chexqa.files.atomic import sync_folder
from chexqa.files.errors import InputError, UnfinishedError
from chexqa.files.jsonio import Record
from chexqa.files.locks import locked
from chexqa.files.opening import open_binary

SUFFIX = ".set-aside"
# How many lines are named of a log.
FIRST = 20
_CHUNK = 2**20


@dataclass(frozen=True)
class Repaired:
    """What was moved out of a log, or would be: how many lines and bytes, and of the first few number and reason."""

    log: str
    lines: int
    bytes: int
    first: tuple[tuple[int, str], ...]

    def to_record(self) -> Record:
        """The JSON form."""
        first = [{"line": line, "why": why} for line, why in self.first]
        return {"log": self.log, "lines": self.lines, "bytes": self.bytes, "first": first}


def repair(folder: Path, dry: bool = False) -> list[Repaired]:
    """Move every line that is no turn out of the logs of the run in ``folder``; ``dry``: only say which.

    Logs without such a line are left out of what is returned. ``InputError`` where the folder is no run or a process
    writes one of its logs; the logs before that one, by name, are repaired already.
    """
    runlog.read_about(folder)
    found = [_repair(path, dry) for path in sorted((folder / TURNS).glob("*.jsonl"))]
    return [one for one in found if one.lines]


def _repair(path: Path, dry: bool) -> Repaired:
    """Repair one log; it is locked only where something is to be moved."""
    found = _look(path)
    if dry or not found.lines:
        return found
    with locked(path.with_suffix(".lock"), f"{path}: another process writes this log"):
        found = _look(path)  # it may have grown before it was locked
        try:
            _move(path)
        except OSError as error:
            raise UnfinishedError(
                f"{path}: cannot be repaired ({error.strerror}) and is as it was; mend that and run the same command "
                "again."
            ) from None
    return found


def _odd(file: BinaryIO) -> Iterator[Line]:
    return (line for _, line in runlog.scan(file) if isinstance(line, Line))


def _look(path: Path) -> Repaired:
    lines = size = 0
    first: list[tuple[int, str]] = []
    try:
        with open_binary(path, inside=path.parent.parent) as file:
            for line in _odd(file):
                lines, size = lines + 1, size + line.size
                if len(first) < FIRST:
                    first.append((line.number, runlog.why(line)))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from None
    return Repaired(path.name, lines, size, tuple(first))


def _move(path: Path) -> None:
    """Write both files anew, on the disk before either is replaced: first the one that lines are added to."""
    beside = Path(f"{path}{SUFFIX}")
    with _new(beside) as aside, _new(path) as kept, open_binary(path) as lines, open_binary(path) as file:
        if beside.exists():
            with open_binary(beside) as old:
                _copy(old, aside, 0, beside.stat().st_size)
        before, place = aside.tell(), 0
        for line in _odd(lines):
            _copy(file, aside, line.start, line.size)
            _copy(file, kept, place, line.start - place)
            place = line.start + line.size
        _copy(file, kept, place, path.stat().st_size - place)
        added = aside.tell() - before
        # The same lines at its end were added by a repair that was stopped before it replaced the log.
        if not (added <= before and _same(aside, before - added, before, added)):
            _to_disk(aside, beside, path)
        _to_disk(kept, path, path)


@contextmanager
def _new(path: Path) -> Iterator[BinaryIO]:
    """A file that is to replace ``path``, removed where it did not."""
    temporary = _temporary(path)
    try:
        temporary.unlink(missing_ok=True)
        with temporary.open("x+b") as file:  # a new file: nothing is written through a link
            yield file
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


def _same(file: BinaryIO, first: int, second: int, size: int) -> bool:
    """Whether a file holds the same ``size`` bytes at two places."""
    for place in range(0, size, _CHUNK):
        parts = []
        for start in (first, second):
            file.seek(start + place)
            parts.append(file.read(min(_CHUNK, size - place)))
        if parts[0] != parts[1]:
            return False
    return True


def _copy(source: BinaryIO, target: BinaryIO, start: int, size: int) -> None:
    """Copy a part of a file, a little at a time: a line may be longer than memory."""
    source.seek(start)
    while size:
        part = source.read(min(_CHUNK, size))
        if not part:
            return
        target.write(part)
        size -= len(part)


def _to_disk(file: BinaryIO, path: Path, log: Path) -> None:
    """Put a file in the place of ``path``, whole and on the disk before it is there, with the rights of the ``log``."""
    file.flush()
    os.fsync(file.fileno())
    shutil.copymode(log, file.name)  # who may not read the log may not read what was in it
    _temporary(path).replace(path)
    sync_folder(path.parent)
