"""The request files of a batch: a round's requests, divided into files that are each written completely or not at all.

The folder of a model has the files ``round-001-part-001.jsonl``, … and, beside each of them, a list of the ids of its
requests (``….ids``). If the user removes a request file, its requests go into the next round. The id of a request is a
digest of its content, followed by the number of its round.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO, NamedTuple

from chexqa.files.atomic import new_file
from chexqa.files.errors import InputError
from chexqa.files.jsonio import read_text, write_bytes

# The smallest limits among the endpoints that take these files: OpenAI's and Azure's.
MAX_PART_BYTES, MAX_PART_LINES = 200_000_000, 50_000
_NAME = re.compile(r"round-(\d{3,})-part-(\d{3,})\.jsonl")
_ID = re.compile(r"([0-9a-f]{40})-(\d{1,9})")
BUFFER_BYTES = 2**20
# Number of bytes of requests that are encoded ahead of writing.
AHEAD_BYTES = 2**25
_ENCODERS = 2
MAX_IDS_BYTES = 64 * MAX_PART_LINES


class Part(NamedTuple):
    """One request file: its path on disk, the number of its round of requests, and the ids of its requests."""

    path: Path
    round: int
    ids: frozenset[str]


def request_id(digest: str, number: int) -> str:
    """Return the id of the request with this digest in round ``number``.

    The id has at most 64 characters, so that every endpoint accepts it.
    """
    return f"{digest}-{number}"


def split_id(custom_id: str) -> tuple[str, int] | None:
    """Return the digest and the round that a request id contains; None if chexqa did not make the id.

    >>> split_id(request_id("0" * 40, 3))[1], split_id("request-1")
    (3, None)
    """
    match = _ID.fullmatch(custom_id)
    return (match[1], int(match[2])) if match else None


def parts(folder: Path) -> list[Part]:
    """Return the request files in a model's folder, sorted by name."""
    found = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        match = _NAME.fullmatch(path.name)
        ids = path.with_suffix(".ids")
        if match and ids.is_file():
            found.append(Part(path, int(match[1]), frozenset(read_text(ids, MAX_IDS_BYTES, folder).split())))
    return found


class _Request(NamedTuple):
    """A request to be written: its id, its pieces, its size in bytes and its pictures, which threads encode."""

    custom_id: str
    pieces: list[bytes]
    size: int
    pictures: list[Future[bytes]]


class PartWriter(AbstractContextManager["PartWriter"]):
    """Writer of one round's requests; it begins a new file before a file would exceed the limit on bytes or requests.

    The writer is a context manager. At the end it completes the open file; after an error it removes the open file, and
    complete files stay. Several threads encode pictures ahead of time, up to a bounded number of bytes. Another thread
    flushes to disk.
    """

    def __init__(self, folder: Path, number: int, picture: Callable[[str], bytes], size: Callable[[str], int]) -> None:
        """Write round ``number`` into ``folder``.

        ``picture`` is a function from a picture's path to its base64, and ``size`` a function from the path to the
        number of bytes.
        """
        self.folder, self.number = folder, number
        self.parts: list[Path] = []
        self.requests = self.bytes = 0
        self._picture, self._size = picture, size
        self._stack: ExitStack | None = None
        self._file: IO[bytes] | None = None
        self._path = folder
        self._ids: list[str] = []
        self._part_bytes = self._unflushed = 0
        self._ahead: deque[_Request] = deque()
        self._ahead_bytes = 0
        self._flushing: Future[None] | None = None

    def __enter__(self) -> PartWriter:
        """Start the threads."""
        self._encoders, self._disk = ThreadPoolExecutor(_ENCODERS), ThreadPoolExecutor(1)
        return self

    def add(self, custom_id: str, pieces: list[bytes]) -> None:
        """Queue one request, and write every queued request whose pictures are already encoded.

        Every second piece of a request is the path of a picture.
        """
        paths = [piece.decode() for piece in pieces[1::2]]
        size = sum(len(piece) for piece in pieces[::2]) + sum(map(self._size, paths))
        if size > MAX_PART_BYTES:
            raise InputError(
                f"--batch: one request takes {size / 1e6:,.0f} MB, but a file can have at most "
                f"{MAX_PART_BYTES / 1e6:,.0f} MB; give fewer --shots, or leave out --batch."
            )
        pictures = [self._encoders.submit(self._picture, path) for path in paths]
        self._ahead.append(_Request(custom_id, pieces, size, pictures))
        self._ahead_bytes += size
        while self._ahead_bytes > AHEAD_BYTES:
            self._write(self._next())

    def _next(self) -> _Request:
        request = self._ahead.popleft()
        self._ahead_bytes -= request.size
        return request

    def _write(self, request: _Request) -> None:
        """Write a request into the open file, or into a new one if the open file is full."""
        if self._part_bytes + request.size > MAX_PART_BYTES or len(self._ids) >= MAX_PART_LINES:
            self._end_part()
        if self._file is None:
            self._begin_part()
        assert self._file is not None
        for place, piece in enumerate(request.pieces):
            self._file.write(request.pictures[place // 2].result() if place % 2 else piece)
        self._ids.append(request.custom_id)
        self._part_bytes += request.size
        self._unflushed += request.size
        if self._unflushed > BUFFER_BYTES and (self._flushing is None or self._flushing.done()):
            self._flush()

    def _begin_part(self) -> None:
        self._path = self.folder / f"round-{self.number:03d}-part-{len(self.parts) + 1:03d}.jsonl"
        self._stack = ExitStack()
        hidden = self._stack.enter_context(new_file(self._path))
        self._file = self._stack.enter_context(hidden.open("wb", buffering=BUFFER_BYTES))
        self._stack.callback(self._settle)

    def _flush(self) -> None:
        """Begin to flush the written data to disk in a thread; if the previous flush failed, raise its error."""
        assert self._file is not None
        if self._flushing is not None:
            self._flushing.result()
        self._file.flush()
        self._unflushed = 0
        self._flushing = self._disk.submit(os.fsync, self._file.fileno())

    def _settle(self) -> None:
        """Wait until the flush in the thread has ended, with or without an error; then the file can be closed."""
        if self._flushing is not None:
            wait([self._flushing])
            self._flushing = None

    def _end_part(self) -> None:
        """Complete the open file, if there is one."""
        if self._stack is None or self._file is None:
            return
        self._flush()
        assert self._flushing is not None
        self._flushing.result()
        # The ids come first: a part without them does not count.
        write_bytes(self._path.with_suffix(".ids"), "".join(f"{one}\n" for one in self._ids).encode())
        self._stack.close()
        self.parts.append(self._path)
        self.requests += len(self._ids)
        self.bytes += self._part_bytes
        self._stack, self._file, self._ids, self._part_bytes, self._unflushed = None, None, [], 0, 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write the queued requests and complete the open file; if the block raised an error, remove the open file."""
        with ExitStack() as ends:
            ends.callback(self._disk.shutdown)
            ends.callback(self._encoders.shutdown, cancel_futures=True)
            if error is not None:
                self._drop(kind, error, trace)
                return
            ends.push(self._drop)
            while self._ahead:
                self._write(self._next())
            self._end_part()

    def _drop(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """End the open file, if there is one, with the error that ended the block; the file is then removed."""
        if self._stack is not None:
            self._stack.__exit__(kind, error, trace)
