"""Writing a model's log: one JSON line a turn, on the disk before the next turn is asked, one writer at a time.

Accepted: a kill between a reply's arrival and its line's ``fsync`` loses that turn, which is then asked again; turns
that finish together share one ``fsync``. The lock is the kernel's (``flock``), so that a killed process holds none.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chexqa.errors import InputError, UnfinishedError
from chexqa.records import check, dump
from chexqa.runlog import TURNS, Turn, read_log, turn_check


def log_path(folder: Path, model: str) -> Path:
    """Where a run folder keeps a model's log: ``turns/<model>.jsonl``, a slash written as two dashes."""
    plain = re.sub(r"[^\w.\-]", lambda match: f"%{ord(match[0]):02X}", model.replace("/", "--"), flags=re.ASCII)
    return folder / TURNS / f"{plain}.jsonl"


@contextmanager
def locked(path: Path, busy: str | None = None) -> Iterator[None]:
    """Hold the lock file ``path``; ``busy`` is the sentence for when another process does (None: wait for it).

    The file stays behind, empty or with the last holder's process id; only the kernel's lock on it means anything.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}).") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
        except BlockingIOError:
            holder = os.pread(descriptor, 64, 0).decode(errors="replace").strip()
            raise InputError(f"{busy} (process {holder or 'unknown'}); wait for it or stop it.") from None
        except OSError as error:
            raise InputError(
                f"{path}: this file system cannot lock files ({error.strerror}); choose a run folder on a local disk."
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def opened(folder: Path, model: str) -> Iterator[Log]:
    """The model's log, locked for this process; a last line that a kill cut is removed."""
    path = log_path(folder, model)
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.with_suffix(".lock"), f"{path}: another process writes the turns of '{model}' into this run"):
        log = Log(path)
        try:
            yield log
        finally:
            log.close()


class Log:
    """A log open for appending; ``turns`` are the ones it held when it was opened."""

    def __init__(self, path: Path) -> None:
        """Open and mend the log at ``path``, whose lock the caller holds (:func:`opened`)."""
        self.path = path
        self.turns: list[Turn] = []
        whole = 0
        if path.exists():
            self.turns, whole = read_log(path)
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            os.ftruncate(self._file, whole)
            if whole and os.pread(self._file, 1, whole - 1) != b"\n":
                os.write(self._file, b"\n")
                whole += 1
        except OSError as error:
            raise InputError(f"{path}: cannot be written ({error.strerror}).") from None
        self._whole = whole
        self._waiting: list[asyncio.Future[None]] = []
        self._syncing: asyncio.Task[None] | None = None

    async def append(self, turn: Turn) -> None:
        """Write one turn; returns once it is on the disk. ``UnfinishedError`` where the disk takes no more."""
        record = turn.to_record()
        if not turn_check()(record):
            check(record, "turn", f"{self.path}, a turn to be written")
        line = (dump(record) + "\n").encode()
        try:
            self._write(line)
        except OSError as error:
            raise self._full(error) from None
        done = asyncio.get_running_loop().create_future()
        self._waiting.append(done)
        if self._syncing is None or self._syncing.done():
            self._syncing = asyncio.create_task(self._sync())
        await done

    def _write(self, line: bytes) -> None:
        """The whole line or, on a full disk, none of it."""
        try:
            written = os.write(self._file, line)
            while written < len(line):
                written += os.write(self._file, line[written:])
        except OSError:
            os.ftruncate(self._file, self._whole)
            raise
        self._whole += len(line)

    async def _sync(self) -> None:
        """Flush to the disk for everyone who waits, again while more come."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            waiting, self._waiting = self._waiting, []
            try:
                await loop.run_in_executor(None, os.fsync, self._file)
            except OSError as error:
                for future in waiting:
                    if not future.done():
                        future.set_exception(self._full(error))
                continue
            for future in waiting:
                if not future.done():
                    future.set_result(None)

    def _full(self, error: OSError) -> UnfinishedError:
        return UnfinishedError(
            f"{self.path}: cannot be written ({error.strerror}); mend that and run the same command again."
        )

    def close(self) -> None:
        """Close the file; what was appended is on the disk already."""
        os.close(self._file)
