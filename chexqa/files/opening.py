"""Safe opening of files; all of chexqa opens files through this module.

- Only a regular file of bounded size is opened. A pipe is refused, so opening never waits.
- A path is opened first and then checked through its descriptor, so nobody can replace the file in between.
- A file can belong to a folder (``inside``). Links in its path are resolved, and a link that leads out of the folder is
  refused.
- A path without ``inside``, such as one given by the user, can be a link to a regular file.

Every error in opening is an ``InputError`` that names the file.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import shutil
import stat
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple, NoReturn

from chexqa.files.errors import InputError, unreadable, unwritable

# A path, or anything that has one, such as a loaded benchmark or run.
Given = str | os.PathLike[str]


class InFolder:
    """Base class of what is read from a folder, such as a benchmark; it can be given wherever a path is wanted."""

    folder: Path

    def __fspath__(self) -> str:
        """Return the folder's path."""
        return str(self.folder)


class MissingError(InputError):
    """Error for a file that does not exist."""


class _LinkError(OSError):
    """Error for a part of a path that is a link, or that is not a folder although a folder is needed."""


def _flags(*names: str) -> int:
    """Return the named flags of ``os.open`` combined; a flag that the system lacks counts as 0."""
    return sum(getattr(os, name, 0) for name in names)


# Opening must not wait for a pipe, nor make a terminal the controlling one; O_BINARY is for Windows.
_QUIET = _flags("O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY", "O_NOINHERIT")
_NO_LINK = _flags("O_NOFOLLOW")
_FOLDER = _flags("O_PATH", "O_DIRECTORY", "O_CLOEXEC")
# Error numbers of ``O_NOFOLLOW`` for a link as the last part of a path, and as a folder in it.
_IS_LINK = (errno.ELOOP, errno.EMLINK, errno.ENOTDIR)
# True if the system can open a path one part at a time; otherwise links are resolved first and then followed.
_BY_STEPS = os.open in os.supports_dir_fd
_PIECE = 2**16


def open_binary(path: Path, most_bytes: int | None = None, inside: Path | None = None) -> io.BufferedReader:
    """Open a regular file of at most ``most_bytes`` bytes for reading.

    ``inside`` is the folder that the file belongs to. ``path`` begins with this folder's path. A link that leads out of
    this folder is an error. Raises :class:`MissingError` if the file does not exist, and ``InputError`` if it cannot be
    read for another reason.
    """
    descriptor = _descriptor(path, inside)
    with ExitStack() as undo:
        undo.callback(os.close, descriptor)
        _check(path, os.fstat(descriptor), most_bytes)
        file = os.fdopen(descriptor, "rb")
        undo.pop_all()
    return file


def open_text(path: Path, inside: Path | None = None) -> io.TextIOWrapper:
    """Open a file of any length for reading UTF-8 text, with or without a byte order mark (see :func:`open_binary`)."""
    return io.TextIOWrapper(open_binary(path, inside=inside), encoding="utf-8-sig")


def read_whole(path: Path, most_bytes: int, inside: Path | None = None) -> bytes:
    """Return the content of a file of at most ``most_bytes`` bytes; raise the errors of :func:`open_binary`.

    A file that becomes larger than ``most_bytes`` while it is read is an error too.
    """
    with open_binary(path, most_bytes, inside) as file:
        return read_opened(path, file, most_bytes)


def read_opened(path: Path, file: io.BufferedReader, most_bytes: int) -> bytes:
    """Return the content of a file opened by :func:`open_binary`; raise ``InputError`` for more than ``most_bytes``."""
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


def read_hashed(path: Path, digest: str, most_bytes: int, inside: Path) -> bytes | None:
    """Return the content of a file, as :func:`read_whole` does; return None if its SHA-256 is not ``digest``.

    A file is not hashed again as long as it does not change, because hashing takes much longer than reading.
    """
    with open_binary(path, most_bytes, inside) as file:
        found = _identity(os.fstat(file.fileno()))
        data = read_opened(path, file, most_bytes)
    if _hashed.get(found) == digest and len(data) == found.size:
        return data
    if hashlib.sha256(data).hexdigest() != digest:
        return None
    if time.time() - max(found.written_ns, found.changed_ns) / 1e9 > _SETTLED_S:
        _hashed[found] = digest
    return data


class _Identity(NamedTuple):
    """Identity of a file and of its content: every write changes at least one of the times."""

    device: int
    inode: int
    size: int
    written_ns: int
    changed_ns: int


def _identity(found: os.stat_result) -> _Identity:
    return _Identity(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


_hashed: dict[_Identity, str] = {}
# Two writes within a tick of the file system's clock have the same time, so a file this young is hashed again.
_SETTLED_S = 2.0


def sha256_of(path: Path, most_bytes: int | None = None, inside: Path | None = None) -> str:
    """Return the SHA-256 of a file in hexadecimal; raise the errors of :func:`open_binary`."""
    with open_binary(path, most_bytes, inside) as file:
        try:
            return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            _refuse(path, error)


def create(path: Path) -> BinaryIO:
    """Open a new file for writing; an existing file or link is removed first, so that no link's target is changed."""
    path.unlink(missing_ok=True)
    return path.open("xb")


def move_into_place(temporary: Path, path: Path) -> None:
    """Rename a finished file to ``path``, replacing a file or link; raise ``OSError`` if a pipe or device is there."""
    with suppress(FileNotFoundError):
        mode = os.lstat(path).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode)):
            raise OSError(errno.EEXIST, "a pipe or device has this name, and chexqa does not replace it")
    temporary.replace(path)


def open_own(path: Path, flags: int = 0) -> int:
    """Open one of chexqa's own locks or logs for reading and writing, creating a missing file; return the descriptor.

    ``flags`` are further flags for ``os.open``. Raises ``InputError`` for a pipe, a device or a link. Writing through a
    link would change the file it leads to.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | flags | _QUIET | _NO_LINK, 0o644)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise InputError(f"{path}: is a link, and chexqa does not write through links; remove it.") from None
        raise unwritable(path, error) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InputError(f"{path}: is not a regular file, so chexqa does not write to it; remove it.")
    return descriptor


def link_or_copy(source: Path, target: Path, most_bytes: int, inside: Path) -> None:
    """Hard-link the file ``source`` to ``target``, or copy it if a link is impossible.

    ``inside`` is the folder that ``source`` must lie in. Raises ``InputError`` as :func:`open_binary` does, and
    ``OSError`` if ``target`` cannot be written.
    """
    with open_binary(source, most_bytes, inside) as file:
        with suppress(OSError, NotImplementedError):
            os.link(source, target, follow_symlinks=False)
            # The name may have become a link meanwhile: only the opened file counts.
            if os.path.samestat(os.fstat(file.fileno()), os.lstat(target)):
                return
        with create(target) as copy:
            shutil.copyfileobj(file, copy)


def real(path: Path) -> Path:
    """Return the absolute path without links and ``..``; links that form a loop are kept, without an error."""
    return Path(os.path.realpath(path))


def optional_path(given: Given | None) -> Path | None:
    """Return ``given`` as a path; None stays None."""
    return None if given is None else Path(given)


def each(given: Given | Sequence[Given]) -> Sequence[Given]:
    """Return a sequence of paths as it is, and a single path as a list."""
    return given if isinstance(given, Sequence) and not isinstance(given, str) else [given]


def check_folder(place: Path, inside: Path) -> None:
    """Raise ``InputError`` if the folder ``place`` lies outside the folder ``inside`` because of a link."""
    if not _is_below(os.path.realpath(place), os.path.realpath(inside)):
        raise InputError(f"{place}: a link leads out of {inside}, and nothing is written outside; remove the link.")


def _descriptor(path: Path, inside: Path | None) -> int:
    """Open a file of any kind for reading and return its descriptor."""
    try:
        if inside is None:
            return os.open(path, os.O_RDONLY | _QUIET)
        parts = _parts(path, inside)
        if _BY_STEPS and os.pardir not in parts:
            with suppress(_LinkError):
                return _walk(inside, parts)
        return _resolved(path, inside)
    except (OSError, ValueError) as error:
        _refuse(path, error)


def _parts(path: Path, inside: Path) -> Sequence[str]:
    """Return the parts of ``path`` after the folder ``inside``; raise ``ValueError`` if ``path`` is not below it."""
    whole, start = str(path), f"{inside}{os.sep}"
    if whole.startswith(start):  # a fast way, since a picture is opened for every turn of a run
        return whole[len(start) :].split(os.sep)  # noqa: PTH206
    return path.relative_to(inside).parts


def _resolved(path: Path, inside: Path) -> int:
    """Resolve the links of ``path`` within ``inside``, open the file there, and return its descriptor."""
    root, real = os.path.realpath(inside), os.path.realpath(path)
    if not _is_below(real, root):
        raise InputError(f"{path}: is a link that leads out of {inside}; replace the link with the file itself.")
    return _walk(root, Path(real).relative_to(root).parts) if _BY_STEPS else os.open(real, os.O_RDONLY | _QUIET)


def _walk(folder: str | Path, parts: Sequence[str]) -> int:
    """Open a file from its folder, one part of its path at a time, and return its descriptor.

    Raises :class:`_LinkError` if a part is a link.
    """
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
    """Return True if the resolved path ``real`` is ``root`` or lies in it."""
    return real == root or real.startswith(root.rstrip(os.sep) + os.sep)


def _check(path: Path, about: os.stat_result, most_bytes: int | None) -> None:
    if stat.S_ISDIR(about.st_mode):
        raise InputError(f"{path}: is a folder; give a file.")
    if not stat.S_ISREG(about.st_mode):
        raise InputError(f"{path}: is a pipe or device; give a file.")
    if most_bytes is not None and about.st_size > most_bytes:
        _refuse_size(path, most_bytes)


def _refuse_size(path: Path, most_bytes: int) -> NoReturn:
    raise InputError(
        f"{path}: is larger than {most_bytes // 2**20:,} MB, so it was not read; check that this is the right file."
    )


def _refuse(path: Path, error: OSError | ValueError) -> NoReturn:
    """Raise the ``InputError`` for a system error in opening or reading a file."""
    if getattr(error, "errno", None) in (errno.ENOENT, errno.ENOTDIR):  # ENOTDIR: a path below a plain file
        raise MissingError(f"{path}: no such file.") from None
    if getattr(error, "errno", None) in (errno.ENXIO, errno.EOPNOTSUPP):  # a socket, a device without a driver
        raise InputError(f"{path}: is a pipe or device; give a file.") from None
    raise unreadable(path, error) from None
