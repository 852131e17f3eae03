"""Locks between processes, all of them the system's: a process that ends, killed or not, holds none any more.

They are taken through filelock, so that this module works on every system. What is being written under a hidden name
is locked everywhere but on Windows, which neither opens folders nor renames a file that is open.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from chexqa.files.errors import InputError, unwritable
from chexqa.files.opening import open_own


@contextmanager
def locked(path: Path, busy: str | None = None) -> Iterator[None]:
    """Hold the lock file ``path``; ``busy`` is the sentence for when another process does (None: wait for it).

    The file stays behind, with the last holder's process id; only the system's lock on it means anything. Raises
    ``InputError`` where another process holds it or the file system has no locks.
    """
    descriptor = open_own(path)
    try:
        if not _is_taken(path, descriptor, wait=busy is None):
            raise InputError(f"{busy} (process {_holder(descriptor)}); wait for it or stop it.")
        try:
            os.ftruncate(descriptor, 0)
            os.write(descriptor, str(os.getpid()).encode())
        except OSError as error:
            raise unwritable(path, error) from None
        yield
    finally:
        os.close(descriptor)


def hold(path: Path) -> int | None:
    """Lock a file or folder while it is written under a hidden name; returns the descriptor, which ends the lock.

    The lock tells what is at work from what a kill left. None on Windows; without effect on a file system that has
    no locks: nothing is taken for a leftover there.
    """
    if sys.platform == "win32":
        return None
    descriptor = os.open(path, os.O_RDONLY)
    with suppress(OSError):
        _lock(descriptor, wait=True)
    return descriptor


@contextmanager
def leftover(path: Path) -> Iterator[bool]:
    """Yield whether a process that has ended left ``path`` behind; for the block no other takes it for its own."""
    if sys.platform == "win32":
        yield False
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        yield _lock(descriptor, wait=False)
    finally:
        os.close(descriptor)


def _is_taken(path: Path, descriptor: int, wait: bool) -> bool:
    """Lock an open lock file; returns whether that was possible."""
    try:
        return _lock(descriptor, wait)
    except OSError as error:
        raise InputError(
            f"{path}: this file system cannot lock files ({error.strerror}); choose a folder on a local disk."
        ) from None


def _lock(descriptor: int, wait: bool) -> bool:
    from filelock import lock_descriptor  # it loads asyncio and sqlite3, and only what writes needs it

    return lock_descriptor(descriptor, blocking=wait)


def _holder(descriptor: int) -> str:
    """Return the process id in a lock file; Windows lets nobody but the holder read it."""
    with suppress(OSError):
        return os.read(descriptor, 64).decode(errors="replace").strip() or "unknown"
    return "unknown"
