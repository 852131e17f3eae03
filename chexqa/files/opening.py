"""The one way in which chexqa opens a file: a regular one, inside its folder, within a bound, without waiting.

A path is opened first and looked at afterwards, through the descriptor, so that nothing can be put into its place in
between. What belongs to a folder (``inside``) is reached from it step by step without following a link; a link that
stays inside is resolved before. What the user names may be a link to a regular file. Everything that goes wrong in
opening is an ``InputError`` of one sentence that names the file.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import shutil
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NoReturn

from chexqa.files.errors import InputError, unwritable


class MissingError(InputError):
    """There is no such file."""


class _LinkError(OSError):
    """A part of a path is a link, or no folder where one should be."""


def _flags(*names: str) -> int:
    """These flags of ``os.open`` together, as far as the system knows them."""
    return sum(getattr(os, name, 0) for name in names)


# Opening a pipe or a line to a terminal waits for nobody and takes none over; O_BINARY is Windows's.
_QUIET = _flags("O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY", "O_NOINHERIT")
_NO_LINK = _flags("O_NOFOLLOW")
_FOLDER = _flags("O_PATH", "O_DIRECTORY", "O_CLOEXEC")
# Errors of a system that opens no link (``O_NOFOLLOW``): of the path's last part, and of a folder before it.
_IS_LINK = (errno.ELOOP, errno.EMLINK, errno.ENOTDIR)
# Whether the system opens a path's parts one by one; where it does not, a link is resolved and then followed.
_BY_STEPS = os.open in os.supports_dir_fd
_PIECE = 2**16


def open_binary(path: Path, most_bytes: int | None = None, inside: Path | None = None) -> io.BufferedReader:
    """Open a regular file of at most ``most_bytes`` bytes for reading.

    ``inside``: the folder that the file belongs to, where ``path`` begins with it; no link may lead out of it. Raises
    :class:`MissingError` where there is no file, ``InputError`` for every other reason not to read it.
    """
    descriptor = _descriptor(path, inside)
    try:
        _check(path, os.fstat(descriptor), most_bytes)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def open_text(path: Path, inside: Path | None = None) -> io.TextIOWrapper:
    """Open a file of any length as :func:`open_binary` does, for reading as UTF-8 with or without a mark."""
    return io.TextIOWrapper(open_binary(path, inside=inside), encoding="utf-8-sig")


def read_whole(path: Path, most_bytes: int, inside: Path | None = None) -> bytes:
    """Read a file as :func:`open_binary` opens it; never more than its bound, even if it grows meanwhile."""
    with open_binary(path, most_bytes, inside) as file:
        raw = file.raw
        pieces, wish, left = [], os.fstat(file.fileno()).st_size + 1, most_bytes + 1
        try:
            while left and (piece := raw.read(min(wish, left))):
                pieces.append(piece)
                wish, left = _PIECE, left - len(piece)
        except OSError as error:
            _refuse(path, error)
    if not left:
        _refuse_size(path, most_bytes)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def sha256_of(path: Path, most_bytes: int | None = None, inside: Path | None = None) -> str:
    """Return the SHA-256 of a file in hexadecimal, read piece by piece and opened as by :func:`open_binary`."""
    with open_binary(path, most_bytes, inside) as file:
        try:
            return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            _refuse(path, error)


def create(path: Path) -> BinaryIO:
    """Open a new file for writing; what has its name is removed before, so that nothing is written through a link."""
    path.unlink(missing_ok=True)
    return path.open("xb")


def move_into_place(temporary: Path, path: Path) -> None:
    """Rename a finished file to ``path``; a file or link of that name goes, a pipe or device is an ``OSError``."""
    with suppress(FileNotFoundError):
        mode = os.lstat(path).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode)):
            raise OSError(errno.EEXIST, "a pipe or device is there, which no file may replace")
    temporary.replace(path)


def open_own(path: Path, flags: int = 0) -> int:
    """Return a descriptor that reads and writes a lock or log of chexqa's own, made where there is none.

    Raises ``InputError`` for a link, a pipe and whatever else is no regular file: writing would change another file.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | flags | _QUIET | _NO_LINK, 0o644)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise InputError(f"{path}: is a link, and nothing is written through one; remove it.") from None
        raise unwritable(path, error) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InputError(f"{path}: is no regular file, so nothing is written to it; remove it.")
    return descriptor


def link_or_copy(source: Path, target: Path, most_bytes: int, inside: Path) -> None:
    """Give the file ``source``, which lies in ``inside``, a second name, or copy it where the disk allows none.

    Raises ``InputError`` as :func:`open_binary` does, ``OSError`` where ``target`` cannot be written.
    """
    with open_binary(source, most_bytes, inside) as file:
        with suppress(OSError, NotImplementedError):
            os.link(source, target, follow_symlinks=False)
            # A link may have been linked: it is the opened file that is meant.
            if os.path.samestat(os.fstat(file.fileno()), os.lstat(target)):
                return
        with create(target) as copy:
            shutil.copyfileobj(file, copy)


def real(path: Path) -> Path:
    """Return the absolute path without links and ``..``; unlike ``Path.resolve`` it takes a loop of links as it is."""
    return Path(os.path.realpath(path))


def check_folder(place: Path, inside: Path) -> None:
    """Raise ``InputError`` where a folder to be written to is no part of ``inside``, because a link leads out of it."""
    if not _is_below(os.path.realpath(place), os.path.realpath(inside)):
        raise InputError(f"{place}: leads out of {inside} through a link, so nothing is written there; remove it.")


def _descriptor(path: Path, inside: Path | None) -> int:
    """An open file, of whatever kind."""
    try:
        if inside is None:
            return os.open(path, os.O_RDONLY | _QUIET)
        parts = path.relative_to(inside).parts
        if _BY_STEPS and os.pardir not in parts:
            with suppress(_LinkError):
                return _walk(inside, parts)
        return _resolved(path, inside)
    except (OSError, ValueError) as error:
        _refuse(path, error)


def _resolved(path: Path, inside: Path) -> int:
    """The open file that links inside the folder lead to."""
    root, real = os.path.realpath(inside), os.path.realpath(path)
    if not _is_below(real, root):
        raise InputError(f"{path}: is a link that leads out of {inside}; put the file itself there.")
    return _walk(root, Path(real).relative_to(root).parts) if _BY_STEPS else os.open(real, os.O_RDONLY | _QUIET)


def _walk(folder: str | Path, parts: Sequence[str]) -> int:
    """Open a file from its folder on, one part of its path at a time; :class:`_LinkError` where one is a link."""
    descriptor = os.open(folder, _FOLDER)
    try:
        for number, part in enumerate(parts, start=1):
            flags = (_FOLDER if number < len(parts) else os.O_RDONLY | _QUIET) | _NO_LINK
            inner = os.open(part, flags, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
    except OSError as error:
        os.close(descriptor)
        if error.errno in _IS_LINK:
            raise _LinkError(error.errno, error.strerror) from None
        raise
    return descriptor


def _is_below(real: str, root: str) -> bool:
    """Whether one resolved path is another one or lies in it."""
    return real == root or real.startswith(root.rstrip(os.sep) + os.sep)


def _check(path: Path, about: os.stat_result, most_bytes: int | None) -> None:
    if stat.S_ISDIR(about.st_mode):
        raise InputError(f"{path}: is a folder; give a file.")
    if not stat.S_ISREG(about.st_mode):
        raise InputError(f"{path}: is a pipe or device; give a file.")
    if most_bytes is not None and about.st_size > most_bytes:
        _refuse_size(path, most_bytes)


def _refuse_size(path: Path, most_bytes: int) -> NoReturn:
    raise InputError(f"{path}: is larger than {most_bytes // 2**20:,} MB, so it was not read; is it the right file?")


def _refuse(path: Path, error: OSError | ValueError) -> NoReturn:
    """Raise the ``InputError`` for what the system says when a file is opened or read."""
    if getattr(error, "errno", None) in (errno.ENOENT, errno.ENOTDIR):  # below a plain file there is none
        raise MissingError(f"{path}: no such file.") from None
    if getattr(error, "errno", None) in (errno.ENXIO, errno.EOPNOTSUPP):  # a socket, a device without a driver
        raise InputError(f"{path}: is a pipe or device; give a file.") from None
    raise InputError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error}).") from None
