"""Atomic writing: files and folders have a hidden name until they are complete.

If a write fails because of a full disk, an error or a kill, the old content stays. A writer locks its hidden file or
folder. A hidden file without a lock was left by a killed writer; the next write in the same folder removes it.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

from chexqa.files import locks
from chexqa.files.errors import InputError, UnfinishedError, is_disk_full, unwritable
from chexqa.files.opening import move_into_place

_HIDDEN = re.compile(r"\..+\.[0-9a-f]{16}\.chexqa\.tmp", re.DOTALL)


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Yield the path of a hidden file next to ``path``; the hidden file replaces ``path`` if the block succeeds.

    An ``OSError`` about the hidden file becomes the error of :func:`chexqa.files.errors.unwritable`, which names
    ``path``. An ``OSError`` about another file becomes an error that names that file.
    """
    _sweep_once(path.parent)
    with _hidden(path, path.parent, lambda hidden: hidden.touch(exist_ok=False)) as hidden:
        yield hidden
        move_into_place(hidden, path)


@contextmanager
def new_folder(out: Path, replace: bool = False) -> Iterator[Path]:
    """Yield a hidden folder next to ``out`` that becomes ``out`` if the block succeeds; errors as in :func:`new_file`.

    ``out`` must be missing or empty. With ``replace``, an existing folder and its content are replaced.
    """
    out = out.absolute()
    sweep(out.parent)
    with _hidden(out, out.parent, Path.mkdir) as hidden:
        yield hidden
        if replace and out.exists():
            with _hidden(out, out.parent, Path.mkdir) as before:
                out.rename(before)
                hidden.rename(out)
        else:
            hidden.rename(out)


@contextmanager
def made_folder(folder: Path) -> Iterator[None]:
    """Make a folder and its missing parents for a block; after the block, remove each made folder that is empty.

    Raise the error of :func:`chexqa.files.errors.unwritable` if a folder cannot be made.
    """
    new = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from None
    try:
        yield
    finally:
        with suppress(OSError):  # a folder that is not empty cannot be removed, and neither can its parents
            for place in new:
                place.rmdir()


def write_all(folder: Path, files: Iterable[tuple[str, bytes]]) -> None:
    """Write several files below ``folder``, given as pairs of a path and its content.

    Each file is written into a hidden folder before the next one is requested. Then all files are moved to their paths.
    If ``files`` raises an error, nothing changes.
    """
    with made_folder(folder):
        sweep(folder)
        with _hidden(folder, folder, Path.mkdir) as hidden:
            names = []
            for name, data in files:
                (hidden / name).parent.mkdir(parents=True, exist_ok=True)
                (hidden / name).write_bytes(data)
                names.append(name)
            for name in names:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                move_into_place(hidden / name, folder / name)


def append(file: int, data: bytes, end: int) -> int:
    """Append ``data`` to an open file that ends at byte ``end``, and return the new end.

    If the disk is full, the file stays as it was.
    """
    try:
        written = os.write(file, data)
        while written < len(data):
            written += os.write(file, data[written:])
    except OSError:
        os.ftruncate(file, end)
        raise
    return end + len(data)


def sync_folder(folder: Path) -> None:
    """Flush a folder's list of files to disk, so that a rename survives a power cut; does nothing on Windows."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sweep(folder: Path) -> None:
    """Remove the hidden files and folders in ``folder`` that no process has locked: killed writers have left them."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _HIDDEN.fullmatch(entry.name) and not entry.is_symlink():
                _remove_unheld(Path(entry))


_sweep_once = lru_cache(maxsize=4096)(sweep)  # list a folder of thousands of pictures only once


@contextmanager
def _hidden(place: Path, home: Path, make: Callable[[Path], None]) -> Iterator[Path]:
    """Yield a locked hidden file or folder in the folder ``home``; ``make`` creates it.

    After the block, the hidden path is removed if it still exists. Errors name ``place``, the final path, instead of
    the hidden path.
    """
    try:
        hidden, held = _made(home / f".{place.name or 'files'}", make)
    except OSError as error:
        raise unwritable(place, error) from None
    try:
        yield hidden
    except OSError as error:
        raise _told(error, hidden, place) from None
    except (InputError, UnfinishedError) as error:
        raise type(error)(str(error).replace(str(hidden), str(place))) from None
    finally:
        _remove(hidden)
        if held is not None:
            os.close(held)


def _made(start: Path, make: Callable[[Path], None]) -> tuple[Path, int | None]:
    """Make and lock a hidden file or folder; return its path, which begins with ``start``, and its descriptor.

    The descriptor is None on Windows.
    """
    while True:
        hidden = start.with_name(f"{start.name}.{os.urandom(8).hex()}.chexqa.tmp")
        make(hidden)
        with suppress(FileNotFoundError):
            held = locks.hold(hidden)
            if held is None or hidden.exists():
                return hidden, held
            os.close(held)  # another process removed it as a leftover before it was locked


def _told(error: OSError, hidden: Path, place: Path) -> InputError | UnfinishedError:
    """Return a user's error for ``error``, with the final path ``place`` instead of the hidden path."""
    names = [Path(os.fsdecode(name)) for name in (error.filename, error.filename2) if isinstance(name, (str, Path))]
    inside = [name for name in names if name.is_relative_to(hidden)]
    if inside or not names:
        return unwritable(place / (inside or [hidden])[0].relative_to(hidden), error)
    if is_disk_full(error):
        return unwritable(names[0], error)
    return InputError(
        f"{names[0]}: cannot be used ({error.strerror}); check that it exists and that you may read and write it."
    )


def _remove_unheld(path: Path) -> None:
    with suppress(OSError), locks.leftover(path) as is_leftover:
        if is_leftover:
            _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):  # an earlier error must not be hidden by this one
            path.unlink(missing_ok=True)
