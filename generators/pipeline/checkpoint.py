"""Folder ``OUT.partial`` with the finished work of a generation, so that an interrupted generation can continue.

At the end its records become the benchmark's files, and it is renamed to ``OUT``.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from chexqa.contract import benchmark
from chexqa.files.atomic import append
from chexqa.files.errors import InputError, unwritable
from chexqa.files.jsonio import Record, bounded_lines, dump, parse_json, read_text, sha256, write_bytes
from chexqa.files.locks import locked
from chexqa.files.opening import MissingError, check_folder, open_binary, open_own, real
from chexqa.generators.interventions import altered_items

# Field of a job whose change makes the items anew, but not the surveys.
PLUGIN_CODE = "code of the plugins"
_JOB = "job.json"
_LOCK = "lock"
BUILT = "built"


class RecordStore(Mapping[str, Record]):
    """Records of one pass, each with a key, in a file; only the records' offsets are in memory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._starts: dict[str, int] = {}
        self._log = open_own(path, os.O_APPEND)
        self._file = open_binary(path, inside=path.parent)  # for reading: has its own position
        end = 0
        for line in bounded_lines(self._file, path):
            if not line.endswith(b"\n"):
                break
            self._starts[self._key(line)] = end
            end += len(line)
        # Drop a line that a kill cut off.
        os.ftruncate(self._log, end)
        self._end = end

    def _key(self, line: bytes) -> str:
        """Return the key of a line, or raise ``InputError`` if the line was changed after writing."""
        try:
            record = parse_json(line.decode(), str(self._path))
            key, value = record["key"], record["value"]
            if _line(key, value) == line:
                return str(key)
        except (UnicodeDecodeError, KeyError, TypeError):
            pass
        raise InputError(f"{self._path}: is damaged; remove the folder {self._path.parent} and start again.")

    def add(self, key: str, value: Record) -> None:
        """Add a record to the file; raise ``UnfinishedError`` if the disk is full."""
        start = self._end
        try:
            self._end = append(self._log, _line(key, value), start)
        except OSError as error:
            raise unwritable(self._path, error) from None
        self._starts[key] = start

    def __getitem__(self, key: str) -> Record:
        self._file.seek(self._starts[key])
        # Written by this process, or checked when the file was opened.
        record: Record = json.loads(self._file.readline())["value"]
        return record

    def __iter__(self) -> Iterator[str]:
        return iter(self._starts)

    def __len__(self) -> int:
        return len(self._starts)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        os.close(self._log)


def _line(key: str, value: Record) -> bytes:
    """Return a record as a line with a checksum, so changed records are detected."""
    text = dump({"key": key, "value": value})
    return (dump({"key": key, "value": value, "check": sha256(text.encode())[:16]}) + "\n").encode()


class Checkpoint:
    """Folder of an unfinished generation, open for writing."""

    def __init__(self, folder: Path, lock: ExitStack) -> None:
        self.folder = folder
        self._lock = lock
        self._passes: dict[str, RecordStore] = {}

    def records(self, name: str) -> RecordStore:
        """Return the records of one pass."""
        if name not in self._passes:
            self._passes[name] = RecordStore(self.folder / f"{name}.jsonl")
        return self._passes[name]

    def close(self) -> None:
        """Close the files and release the lock."""
        for kept in self._passes.values():
            kept.close()
        self._passes.clear()
        self._lock.close()

    def finish(
        self, out: Path, origin: benchmark.Origin, contents: benchmark.Contents,
        altered: Iterable[Record] | None = None, fill: str = "",
    ) -> Record:  # fmt: skip
        """Write the benchmark's files, delete those that only the generation needs, and rename the folder to ``out``.

        - ``altered``: a record of the altered pictures for each case; None for a benchmark without altered pictures.
        - ``fill``: the name of the fill that made the altered pictures.
        """
        extra: set[str] = set()
        if altered is not None:
            counted, extra = altered_items.write(self.folder, altered)
            origin = replace(origin, interventions={"fill": fill, **counted})
        about, images = benchmark.write_files(self.folder, origin, contents)
        images = images | extra
        used = images | {benchmark.thumb_path(image) for image in images}
        for pattern in ("images/*/*", "thumbs/*/*"):
            for path in self.folder.glob(pattern):
                if path.relative_to(self.folder).as_posix() not in used:
                    path.unlink()
        self.close()
        own = () if altered is None else (altered_items.ITEMS, altered_items.KEY)
        kept = (benchmark.ABOUT, benchmark.ITEMS, benchmark.ANSWERS, benchmark.SKIPPED, "images", "thumbs", *own)
        # Delete job.json last: without job.json, records left by a kill could be used for another job.
        for path in sorted(self.folder.iterdir(), key=lambda path: path.name == _JOB):
            if path.name not in kept:
                path.unlink()
        self.folder.rename(_plain(out))
        return about


def image_store(folder: Path) -> Callable[[bytes, bytes | None], str]:
    """Return a function that stores a PNG in a benchmark folder under its hash, and returns its path there.

    The function's second argument is the picture's thumbnail (JPEG) to be stored, or None.
    """

    def keep(path: Path, data: bytes) -> None:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(path, data)

    def store(data: bytes, thumb: bytes | None) -> str:
        image = benchmark.image_path(sha256(data))
        keep(folder / image, data)
        if thumb is not None:
            keep(folder / benchmark.thumb_path(image), thumb)
        return image

    return store


def _plain(out: Path) -> Path:
    """Return the absolute path without links and ``..``; such parts could make unneeded folders."""
    return real(out)


def _partial_folder(out: Path) -> Path:
    plain = _plain(out)
    return plain.with_name(plain.name + ".partial")


@contextmanager
def open_checkpoint(out: Path, job: Record) -> Iterator[Checkpoint]:
    """Open the folder ``OUT.partial``: a new folder, or the folder left by an interrupted generation of the same job.

    Raises ``InputError`` if ``out`` exists, if the folder belongs to another job, or if another process uses it.
    """
    folder = _partial_folder(out)
    if os.path.lexists(out) or _plain(out).exists():
        raise InputError(f"{out}: exists already; name another output folder, or remove this one first.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(out, error) from None
    with ExitStack() as lock:
        lock.enter_context(locked(folder / _LOCK, f"{folder}: another process is generating into it"))
        partial = Checkpoint(folder, lock)
        lock.callback(partial.close)
        _claim(folder, job)
        for place in folder.glob("*/*"):
            check_folder(place, folder)
        yield partial


def _claim(folder: Path, job: Record) -> None:
    """Write ``job.json``, or raise ``InputError`` if it exists with another job.

    If only the code of the plugins differs, the items that it made are removed.
    """
    path = folder / _JOB
    try:
        before: Any = parse_json(read_text(path, inside=folder), str(path))
    except MissingError:
        write_bytes(path, (dump(job) + "\n").encode())
        return
    if not isinstance(before, dict):
        raise InputError(f"{path}: does not describe a generation; remove the folder {folder} and start again.")
    changed = sorted(name for name in {*job, *before} if job.get(name) != before.get(name))
    if changed == [PLUGIN_CODE]:
        (folder / f"{BUILT}.jsonl").unlink(missing_ok=True)
        write_bytes(path, (dump(job) + "\n").encode())
    elif changed:
        changed = [name for name in changed if name != PLUGIN_CODE]
        raise InputError(
            f"{folder}: contains an interrupted generation with another {' and '.join(changed)}; "
            "give the arguments of that generation to continue it, or remove the folder."
        )


def discard(out: Path) -> None:
    """Remove the folder ``OUT.partial`` of a generation that cannot produce a benchmark."""
    shutil.rmtree(_partial_folder(out))
