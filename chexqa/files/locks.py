"""Locks between processes; the operating system releases them when their process ends, even by a kill. The package
filelock takes them, so this module works on every system. Hidden files and folders are locked while they are written,
except on Windows, which neither opens folders nor renames open files.
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
    """Hold the lock file ``path``; ``busy`` is the error message if another process holds it (None: wait). The file
    stays afterwards, with the last holder's process id; only the system's lock on it counts. Raises ``InputError`` if
    another process holds it or the file system has no locks.
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
    """Lock a hidden file or folder while it is written; return the descriptor, whose closing ends the lock. An unlocked
    one was left by a killed process. Returns None on Windows. On a file system without locks nothing is locked, and
    nothing counts as a leftover.
    """
    if sys.platform == "win32":
        return None
    descriptor = os.open(path, os.O_RDONLY)
    with suppress(OSError):
        _lock(descriptor, wait=True)
    return descriptor


@contextmanager
def leftover(path: Path) -> Iterator[bool]:
    """Yield True if a process that has ended left ``path`` behind; during the block no other process can claim it."""
    if sys.platform == "win32":
        yield False
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        yield _lock(descriptor, wait=False)
    finally:
        os.close(descriptor)


def _is_taken(path: Path, descriptor: int, wait: bool) -> bool:
    """Lock an open lock file; return True if that succeeded."""
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
