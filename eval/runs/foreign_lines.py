"""Lines of a run's logs that are not turns, or that name an item or options that the benchmark lacks; their repair.

A repair moves these lines into a file beside the log. The log is locked during a repair, so no other process writes to
it. The log and the file of moved lines are each replaced atomically.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from chexqa.contract import benchmark, read_run
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Item
from chexqa.contract.read_run import TURNS, Line, Run, Turn
from chexqa.files.atomic import sync_folder
from chexqa.files.errors import InputError, UnfinishedError, unreadable
from chexqa.files.jsonio import Record, is_file
from chexqa.files.locks import locked
from chexqa.files.opening import open_binary
from chexqa.files.say import argument
from chexqa.files.terminal import messages

SUFFIX = ".set-aside"
# Number of lines of a log that a message lists.
FIRST = 20
_CHUNK = 2**20
Items = Mapping[str, Item]
"""A benchmark's items, keyed by id; empty if the benchmark is not there, so that turns are not compared with it."""


@dataclass(frozen=True)
class Repaired:
    """Lines that a repair moved out of one log, or would move in a dry run.

    - ``lines``, ``bytes``: their number and total size.
    - ``first``: line number and reason, for the first few lines.
    """

    log: str
    lines: int
    bytes: int
    first: tuple[tuple[int, str], ...]

    def to_record(self) -> Record:
        """Return the JSON form."""
        first = [{"line": line, "why": why} for line, why in self.first]
        return {"log": self.log, "lines": self.lines, "bytes": self.bytes, "first": first}


def benchmark_of(run: Run) -> Benchmark | None:
    """Return a run's benchmark, or None, with a remark on standard error, if the benchmark is not there."""
    place = run.benchmark_folder
    if is_file(place / benchmark.ABOUT):
        bench = benchmark.load(place)
        if bench.hash == run.about["benchmark"]["hash"]:
            return bench
    messages().print(
        f"{place}: the run's benchmark is not there, so answers are not compared with its options", soft_wrap=True
    )
    return None


def items_of(run: Run) -> Items:
    """Return the items of a run's benchmark; empty, with a remark on standard error, if the benchmark is not there."""
    bench = benchmark_of(run)
    return {} if bench is None else bench.item


def misfit(turn: Turn, items: Items) -> str:
    """Return the reason why a turn does not fit the benchmark's ``items``, as a clause; "" if it fits.

    If ``items`` is empty, nothing is checked.
    """
    if not items:
        return ""
    item = items.get(turn.item_id.partition("@")[0])  # an altered item has the options of the original one
    if item is None:
        return f"field 'item_id': '{turn.item_id}' is not an item of the benchmark"
    known = sorted(option.n for option in item.options)
    lacking = [number for number in turn.parsed or () if number not in known]
    if lacking:
        return f"field 'parsed': {lacking[0]} is not an option of the item (they are {known[0]} to {known[-1]})"
    if turn.order is not None and sorted(turn.order) != known:
        return f"field 'order': {list(turn.order)} is not an order of the item's {len(known)} options"
    return ""


def check(folder: Path, turns: Iterable[Turn], items: Items) -> None:
    """Raise ``InputError`` if one of a run's turns does not fit the benchmark; it names the file and the line."""
    for turn in turns:
        if wrong := misfit(turn, items):
            raise InputError(next(misfits(folder, items), f"{folder}, item '{turn.item_id}': {wrong}."))


def misfits(folder: Path, items: Items) -> Iterator[str]:
    """Yield a sentence with file, line, field, value and remedy for each turn that does not fit the benchmark."""
    for path in sorted((folder / TURNS).glob("*.jsonl")):
        with open_binary(path, inside=folder) as file:
            for line in _odd(file, items):
                turn = read_run.turn_of(line.data)
                if turn is not None:
                    yield (
                        f"{path}, line {line.number}: {misfit(turn, items)}; correct it there, or move the line out "
                        f"with 'chexqa run repair {argument(folder)}', after which the run's 'chexqa eval' asks its "
                        "question again."
                    )


def repair(folder: Path, dry: bool = False) -> list[Repaired]:
    """Move damaged lines out of a run's logs; return an entry for each log that has damaged lines.

    A line is damaged if it is not a turn, or does not fit the benchmark. With ``dry``, nothing is moved. Raise
    ``InputError`` if the folder is not a run, or if another process is writing a log with damaged lines.
    """
    # Logs are repaired one by one. If a later log is being written, the earlier logs stay repaired.
    items = items_of(Run(folder, read_run.read_about(folder), ()))
    found = [_repair(path, dry, items) for path in sorted((folder / TURNS).glob("*.jsonl"))]
    return [one for one in found if one.lines]


def _repair(path: Path, dry: bool, items: Items) -> Repaired:
    """Repair one log; the log is locked only if there are lines to move."""
    found = _look(path, items)
    if dry or not found.lines:
        return found
    with locked(path.with_suffix(".lock"), f"{path}: another process writes this log"):
        found = _look(path, items)  # the log may have grown before it was locked
        try:
            _move(path, items)
        except OSError as error:
            raise UnfinishedError(
                f"{path}: cannot be repaired ({error.strerror}) and is unchanged; remove this cause and run the same "
                "command again."
            ) from None
    return found


def _odd(file: BinaryIO, items: Items) -> Iterator[Line]:
    found = read_run.scan(file, lambda turn: not misfit(turn, items))
    return (line for _, line in found if isinstance(line, Line))


def _why(line: Line, items: Items) -> str:
    turn = read_run.turn_of(line.data)
    return read_run.why(line) if turn is None else misfit(turn, items)


def _look(path: Path, items: Items) -> Repaired:
    lines = size = 0
    first: list[tuple[int, str]] = []
    try:
        with open_binary(path, inside=path.parent.parent) as file:
            for line in _odd(file, items):
                lines, size = lines + 1, size + line.size
                if len(first) < FIRST:
                    first.append((line.number, _why(line, items)))
    except OSError as error:
        raise unreadable(path, error) from None
    return Repaired(path.name, lines, size, tuple(first))


def _move(path: Path, items: Items) -> None:
    """Rewrite the log and its file of moved lines, and flush both files to disk."""
    # The log is replaced last, so no line is lost if the process is killed between the two replacements.
    beside = Path(f"{path}{SUFFIX}")
    with _new(beside) as aside, _new(path) as kept, open_binary(path) as lines, open_binary(path) as file:
        if beside.exists():
            with open_binary(beside) as old:
                _copy(old, aside, 0, beside.stat().st_size)
        before, place = aside.tell(), 0
        for line in _odd(lines, items):
            _copy(file, aside, line.start, line.size)
            _copy(file, kept, place, line.start - place)
            place = line.start + line.size
        _copy(file, kept, place, path.stat().st_size - place)
        added = aside.tell() - before
        # If the file already ends with these lines, an earlier repair was stopped before it replaced the log.
        if not (added <= before and _same(aside, before - added, before, added)):
            _to_disk(aside, beside, path)
        _to_disk(kept, path, path)


@contextmanager
def _new(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file that the caller renames to ``path``; remove it at the end if it was not renamed."""
    temporary = _temporary(path)
    try:
        temporary.unlink(missing_ok=True)
        with temporary.open("x+b") as file:  # "x": never write through an existing link
            yield file
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


def _same(file: BinaryIO, first: int, second: int, size: int) -> bool:
    """Return True if a file has the same ``size`` bytes at the offsets ``first`` and ``second``."""
    for place in range(0, size, _CHUNK):
        parts = []
        for start in (first, second):
            file.seek(start + place)
            parts.append(file.read(min(_CHUNK, size - place)))
        if parts[0] != parts[1]:
            return False
    return True


def _copy(source: BinaryIO, target: BinaryIO, start: int, size: int) -> None:
    """Copy a part of a file in chunks, since a line may be too long for memory."""
    source.seek(start)
    while size:
        part = source.read(min(_CHUNK, size))
        if not part:
            return
        target.write(part)
        size -= len(part)


def _to_disk(file: BinaryIO, path: Path, log: Path) -> None:
    """Flush a file to disk, give it the permissions of ``log``, and replace ``path`` with it."""
    file.flush()
    os.fsync(file.fileno())
    shutil.copymode(log, file.name)  # the moved lines must stay as private as the log
    _temporary(path).replace(path)
    sync_folder(path.parent)
