"""Reader of JSON files of the form ``{outer: {inner: value}}`` that are too large for memory.

The library ijson is not used. It takes four times as long for the same file, does not limit the length and depth of a
value, and reads a damaged character (half of a surrogate pair) as ``?``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

from chexqa.files.errors import InputError
from chexqa.files.jsonio import reading, refuse_halves
from chexqa.files.opening import open_text
from chexqa.files.terminal import progress

_CHUNK = 1 << 20
# Longest value in characters. An entry of a data set takes kilobytes, so a longer value is damaged.
_LONGEST_VALUE = 32 * _CHUNK
_SPACE = " \t\r\n"


def grandchildren(path: Path, inside: Path | None = None) -> Iterator[tuple[str, str, Any]]:
    """Yield ``(outer key, inner key, value)`` of a file ``{outer: {inner: value, …}, …}``, one value at a time.

    ``inside`` is the folder that the file belongs to; a link that leads out of it is an error. Raises ``InputError`` if
    the file cannot be read, has another form or is damaged; the message names the last key that was read.
    """
    with reading(path), open_text(path, inside) as file:
        size = os.fstat(file.fileno()).st_size
        with progress(f"reading {path.name} (MB)", size // _CHUNK) as step:
            text = _Text(path, file, step)
            for outer in text.members():
                for inner in text.members():
                    yield outer, inner, text.value()
            text.finish()


class _Text:
    """Part of the file's text that is in memory; values are taken from its front, and text is added at its end."""

    def __init__(self, path: Path, file: TextIO, step: Callable[[], None]) -> None:
        self._path, self._file, self._step = path, file, step
        self._text, self._place, self._ended = "", 0, False
        self._decoder = json.JSONDecoder()
        self._last = "the beginning"

    def members(self) -> Iterator[str]:
        """Yield the keys of the object at the current position.

        The caller must read a key's value before it requests the next key.
        """
        self._expect("{", "an object")
        if self._next() == "}":
            self._place += 1
            return
        while True:
            key = self.value()
            if not isinstance(key, str):
                raise self._error("a key is not text")
            self._expect(":", "a colon")
            self._last = f"'{key}'"
            yield key
            if self._next() == "}":
                self._place += 1
                return
            self._expect(",", "a comma or the end of the object")

    def finish(self) -> None:
        """Raise ``InputError`` if anything but white space follows the value that was read."""
        if self._next():
            raise self._error("more follows after the end of the object")

    def value(self) -> Any:
        """Return the decoded JSON value that begins at the current position; read more text if it is incomplete."""
        self._next()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._place)
            except (ValueError, RecursionError) as error:
                if self._ended or len(self._text) - self._place > _LONGEST_VALUE:
                    raise self._error(f"not valid JSON ({getattr(error, 'msg', error)})") from None
            else:
                if end < len(self._text) or self._ended:  # a number at the window's end may continue in the next block
                    refuse_halves(value, self._text[self._place : end], f"{self._path}, near {self._last}")
                    self._place = end
                    return value
            self._read()

    def _next(self) -> str:
        """Return the next character that is not white space, without taking it; an empty text at the end of the
        file.
        """
        while True:
            while self._place < len(self._text) and self._text[self._place] in _SPACE:
                self._place += 1
            if self._place < len(self._text):
                return self._text[self._place]
            if self._ended:
                return ""
            self._read()

    def _expect(self, character: str, name: str) -> None:
        if self._next() != character:
            found = self._next()
            raise self._error(f"{name} is expected, not {found!r}" if found else "the file ends too early")
        self._place += 1

    def _read(self) -> None:
        """Drop the text that was taken, and read more: about as much as is left, so that a long value needs few
        reads.
        """
        self._text = self._text[self._place :]
        self._place = 0
        for _ in range(max(1, len(self._text) // _CHUNK)):
            chunk = self._file.read(_CHUNK)
            self._text += chunk
            self._ended = not chunk
            self._step()

    def _error(self, reason: str) -> InputError:
        return InputError(f"{self._path}, near {self._last}: {reason}; check that the file is complete.")
