"""The log of a model's answers, or of a shard of them: a file with one JSON line per turn (a question and its reply).

One process writes a log and locks it. A turn is on disk before the next turn of its conversation is asked.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from chexqa.contract import read_run
from chexqa.contract.read_run import TURNS, LinesLeftOut, Turn, read_log, turn_of
from chexqa.eval.design.subset import Shard
from chexqa.files.atomic import append
from chexqa.files.errors import InputError, UnfinishedError, unwritable
from chexqa.files.jsonio import check, dump, read_text
from chexqa.files.locks import is_held, leftover, locked
from chexqa.files.opening import check_folder, open_own

# Lock of a run folder, held only while a process joins the run or begins a log.
LOCK = "run.lock"
# Bytes that the disk must have room for when a log is opened: the turns of a few replies.
ROOM = 2**13
_TRIES, _TRY_S, _LOCK_BYTES = 10, 0.02, 1000


def log_path(folder: Path, model: str, shard: Shard | None = None) -> Path:
    """Return the path of a model's log: ``turns/<model>[.<i>-of-<n>].jsonl``, with ``--`` for a slash in the name."""
    plain = re.sub(r"[^\w.\-]", lambda match: f"%{ord(match[0]):02X}", model.replace("/", "--"), flags=re.ASCII)
    return folder / TURNS / f"{plain}{f'.{shard}' if shard else ''}.jsonl"


def waiting_path(log: Path) -> Path:
    """Return the path of the note on batches that wait for results; the note lies beside the log."""
    return log.with_suffix(".waiting.json")


def sending_path(log: Path) -> Path:
    """Return the path of the lock that a process holds while it sends a model's batches and fetches results."""
    return log.with_suffix(".sending")


def _other_splits(folder: Path, model: str, shard: Shard | None) -> list[Path]:
    """Return the model's logs from other divisions of the run into shards."""
    # These logs may have the items that this command asks.
    whole = log_path(folder, model)
    # A shard in progress may have only its lock, a copied one only its log.
    form = re.compile(re.escape(whole.stem) + r"(?:\.\d+-of-(\d+))?\.(?:lock|jsonl)")
    found = [(match, path) for path in whole.parent.iterdir() if (match := form.fullmatch(path.name))]
    return sorted(
        {path.with_suffix(".jsonl") for match, path in found if match[1] != (str(shard.count) if shard else None)}
    )


class Writer(NamedTuple):
    """A process that asks a model.

    ``process`` is the process id in the lock file, and ``since`` is the time when the process took the lock.
    """

    process: str
    since: datetime


def writers(folder: Path, models: Iterable[str]) -> dict[str, list[Writer]] | None:
    """Return the processes that ask the models now, by model; None if unknown, as for a run on another machine."""
    # The run's lock is held while the locks of the logs are tested; a process that starts meanwhile waits for it.
    names = list(models)
    for _ in range(_TRIES):
        try:
            with leftover(folder / LOCK) as quiet:
                if quiet:
                    return {name: _writers(folder, name) for name in names}
        except OSError:
            return None
        time.sleep(_TRY_S)
    return None


def _writers(folder: Path, model: str) -> list[Writer]:
    """Return the processes that lock one of the model's logs or send its batches."""
    whole = log_path(folder, model)
    form = re.compile(re.escape(whole.stem) + r"(?:\.\d+-of-\d+)?\.(?:lock|sending)")
    places = sorted(whole.parent.iterdir()) if whole.parent.is_dir() else []
    held = [path for path in places if form.fullmatch(path.name) and is_held(path)]
    found = [
        Writer(read_text(path, _LOCK_BYTES, folder).strip(), datetime.fromtimestamp(path.stat().st_mtime, UTC))
        for path in held
    ]
    return list({one.process: one for one in found}.values())


@contextmanager
def opened(folder: Path, model: str, shard: Shard | None = None) -> Iterator[Log]:
    """Open the log of a model (and shard), locked for this process; raise an error if another process writes it."""
    # A last line that a kill cut off is removed. If the run was divided into other shards before, the turns in the logs
    # of those shards count too.
    path = log_path(folder, model, shard)
    check_folder(path.parent, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        others = _claim(folder, model, shard, stack)
        log = Log(path)
        stack.callback(log.close)
        read = [log.read, *(read_log(other) for other in others if other.exists())]
        aside = [one.aside for one in read if one.aside]
        _refuse_newer(aside)
        read_run.say(aside)
        log.turns = [turn for one in (*read[1:], read[0]) for turn in one.turns]
        log.aside = sum(one.count for one in aside)
        yield log


def _claim(folder: Path, model: str, shard: Shard | None, stack: ExitStack) -> list[Path]:
    """Lock the model's log until ``stack`` closes, and return the model's logs from other divisions into shards.

    Raise an error if another process writes one of these logs. They are not kept locked.
    """
    # The run's lock makes starting processes run this function one after another.
    path = log_path(folder, model, shard)
    busy = f"another process writes the turns of '{model}' into this run"
    with locked(folder / LOCK):
        stack.enter_context(locked(path.with_suffix(".lock"), f"{path}: {busy}"))
        others = _other_splits(folder, model, shard)
        for other in others:
            with locked(other.with_suffix(".lock"), f"{other}: {busy}"):
                pass
    return others


def _refuse_newer(found: Iterable[LinesLeftOut]) -> None:
    """Raise ``InputError`` if a newer version of chexqa wrote turns into a log."""
    # This version would pay for them again.
    for aside in found:
        if aside.first_is_newer:
            raise InputError(
                f"{aside.path}, line {aside.first_number}: a newer version of chexqa wrote this line ({aside.reason}). "
                "Continue the run with that version. To ask the line's question again with this version, first run "
                f"'chexqa run repair {aside.path.parent.parent}'."
            )


class Log:
    """A log that is open for appending.

    ``turns`` has the turns that were in it when it was opened. ``aside`` counts the lines that are not turns.
    """

    def __init__(self, path: Path) -> None:
        """Open the log at ``path`` and repair its end; the caller holds its lock (:func:`opened`).

        Raise ``UnfinishedError`` if the disk has no room for more turns, before replies are paid for.
        """
        self.path = path
        self.read = read_log(path) if path.exists() else read_run.Log([], 0, None)
        self.turns: list[Turn] = self.read.turns
        self.aside = self.read.aside.count if self.read.aside else 0
        whole = self.read.whole_bytes
        self._file = open_own(path, os.O_APPEND)
        try:
            os.ftruncate(self._file, whole)
            os.lseek(self._file, max(0, whole - 1), os.SEEK_SET)
            if whole and os.read(self._file, 1) != b"\n":
                os.write(self._file, b"\n")
                whole += 1
            append(self._file, b" " * ROOM, whole)  # if the process ends here, this is a line without an end
            os.ftruncate(self._file, whole)
        except OSError as error:
            raise unwritable(path, error) from None
        self._whole = whole
        self._waiting: list[asyncio.Future[None]] = []
        self._syncing: list[asyncio.Future[None]] = []
        # A dedicated thread: the event loop's threads are shared with other slow work.
        self._disk = ThreadPoolExecutor(1)

    async def append(self, turn: Turn) -> None:
        """Write one turn and return when it is on disk; raise ``UnfinishedError`` if it cannot be written."""
        # Turns that finish together share one fsync. A turn whose reply came before a kill is lost and asked again.
        record = turn.to_record()
        line = (dump(record) + "\n").encode()
        if turn_of(line) != turn:
            check(record, "turn", f"{self.path}, a turn to be written")
            raise InputError(
                f"{self.path}: a turn was not written, because reading it back from the log would give another turn; "
                "this is a bug in chexqa, please report it."
            )
        try:
            self._write(line)
        except OSError as error:
            raise self._full(error) from None
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        self._waiting.append(done)
        if len(self._waiting) == 1 and not self._syncing:
            loop.call_soon(self._sync)
        await done

    def _write(self, line: bytes) -> None:
        """Write the complete line; on a full disk, write nothing."""
        self._whole = append(self._file, line, self._whole)

    def _sync(self) -> None:
        """Flush the file to disk for all waiting turns."""
        # The flushing thread itself calls the event loop, because asyncio's futures would take two more of its rounds.
        loop, self._syncing = asyncio.get_running_loop(), self._waiting
        self._waiting = []

        def flush() -> None:
            error = None
            try:
                os.fsync(self._file)
            except OSError as caught:
                error = caught
            try:
                loop.call_soon_threadsafe(self._synced, error)
            except RuntimeError:  # the loop was closed during the flush, so nothing waits
                self._syncing = []

        self._disk.submit(flush)

    def _synced(self, error: OSError | None) -> None:
        """Let the turns that waited for this flush continue, or raise the flush's error in them."""
        for future in self._syncing:
            if future.done():  # cancelled
                continue
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(self._full(error))
        self._syncing = []
        if self._waiting:
            self._sync()

    def _full(self, error: OSError) -> UnfinishedError:
        return UnfinishedError(
            f"{self.path}: cannot be written ({error.strerror}); remove this cause and run the same command again."
        )

    def close(self) -> None:
        """Close the file; all appended turns are already on disk."""
        self._disk.shutdown()
        os.close(self._file)
