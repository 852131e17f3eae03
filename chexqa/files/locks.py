"""Locks between processes; the operating system releases a lock when its process ends or is killed.

The package filelock provides the locks on every system. A file or folder is written under a hidden name, is
locked until it is complete, and is then renamed. On Windows, files and folders are not locked while they are written,
because Windows can neither open folders nor rename open files.
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
    """Lock the file ``path`` during a block, creating the file if it is missing.

    If another process has locked the file, ``InputError`` is raised with a message that begins with ``busy``; if
    ``busy`` is None, the function waits. After the block the file is unlocked, but not removed. It contains the id of
    the last process that locked it. ``InputError`` is also raised if the file system cannot lock files.
    """
    descriptor = open_own(path)
    try:
        if not _try_lock(path, descriptor, wait=busy is None):
            raise InputError(f"{busy} (process {_holder(descriptor)}); wait until that process ends, or stop it.")
        try:
            os.ftruncate(descriptor, 0)
            os.write(descriptor, str(os.getpid()).encode())
        except OSError as error:
            raise unwritable(path, error) from None
        yield
    finally:
        os.close(descriptor)


def hold(path: Path) -> int | None:
    """Lock a hidden file or folder while it is written, and return its descriptor; closing the descriptor unlocks it.

    A hidden file without a lock was left by a killed process. On Windows, and on a file system that cannot lock files,
    nothing is locked, and no file counts as left behind. On Windows None is returned.
    """
    if sys.platform == "win32":
        return None
    descriptor = os.open(path, os.O_RDONLY)
    with suppress(OSError):
        _lock(descriptor, wait=True)
    return descriptor


@contextmanager
def leftover(path: Path) -> Iterator[bool]:
    """Yield True if ``path`` was left by a process that has ended; no other process can lock it during the block."""
    if sys.platform == "win32":
        yield False
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        yield _lock(descriptor, wait=False)
    finally:
        os.close(descriptor)


def is_held(path: Path) -> bool | None:
    """Return True if a process has locked the file; return None if this cannot be determined, as on Windows.

    To find out, the function locks the file for a moment.
    """
    if sys.platform == "win32":
        return None
    try:
        with leftover(path) as free:
            return not free
    except FileNotFoundError:
        return False
    except OSError:
        return None


def _try_lock(path: Path, descriptor: int, wait: bool) -> bool:
    """Lock an open lock file and return True; return False if another process has locked it and ``wait`` is False."""
    try:
        return _lock(descriptor, wait)
    except OSError as error:
        raise InputError(
            f"{path}: this file system cannot lock files ({error.strerror}); choose a folder on a local disk."
        ) from None


def _lock(descriptor: int, wait: bool) -> bool:
    from filelock import lock_descriptor  # this import loads asyncio and sqlite3, and only writing needs it

    return lock_descriptor(descriptor, blocking=wait)


def _holder(descriptor: int) -> str:
    """Return the process id in a lock file, or "unknown" if the file cannot be read.

    On Windows only the process that locked the file can read it.
    """
    with suppress(OSError):
        return os.read(descriptor, 64).decode(errors="replace").strip() or "unknown"
    return "unknown"
