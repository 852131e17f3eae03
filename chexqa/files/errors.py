"""Errors that a user can correct, and exit codes."""

from __future__ import annotations

import difflib
import errno
import inspect
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from types import FrameType
from typing import TypeVar

from chexqa.files.text import shown

T = TypeVar("T")

LISTED = 30
# Largest number of wrong parts of an input, such as lines, that one message lists.
MOST_PARTS = 10
EXIT_OK = 0
EXIT_BUG = 1
EXIT_INPUT = 2
EXIT_UNFINISHED = 3


class SentenceError(Exception):
    """Error whose message says all that a user needs; IPython shows it with the user's own line, without traceback."""

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython prints: the user's line that called chexqa, and the message."""
        own = takewhile(lambda place: not _is_chexqa(place[0]), traceback.walk_tb(self.__traceback__))
        called = traceback.StackSummary.extract(own)[-1:]
        lines = [f"line {frame.lineno}: {frame.line}" for frame in called if frame.line]
        return [shown(line) for line in (*lines, f"{type(self).__name__}: {self}")]


class InputError(SentenceError):
    """Error in the input; its message is one sentence with the place, the value and the remedy. Exit code 2.

    If the message lists several errors, such as those of a file's lines, ``parts`` has one message for each of them.
    """

    parts: tuple[str, ...] = ()


class UnknownNameError(InputError, KeyError):
    """Error for a name that a :class:`Named` dictionary lacks."""

    __str__ = Exception.__str__  # that of KeyError would put the message in quotes


class Named(dict[str, T]):
    """Dictionary whose error for an unknown name suggests the names that exist.

    ``noun`` is the word for a value in this error, such as "table".
    """

    def __init__(self, noun: str, values: Mapping[str, T]) -> None:
        super().__init__(values)
        self.noun = noun

    def __missing__(self, name: object) -> T:
        raise UnknownNameError(f"there is no {self.noun} '{name}'{suggest(str(name), self)}.")


class WrongParts:
    """Errors of the parts of an input, such as a file's lines, collected so that one message lists them.

    ``whole`` is the path of the file that has these parts; None if each part is a file. ``name`` is the plural noun for
    the parts in the message.
    """

    def __init__(self, whole: object | None, name: str = "lines") -> None:
        self._place, self._name = f"{whole}: " if whole is not None else "", name
        # The parts' errors begin with the path too; the list does not repeat it.
        self._start = f"{whole}, " if whole is not None else ""
        self._first = list[str]()
        self.count = 0

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Run a block that reads one part; if it raises an ``InputError``, collect the error and leave the block."""
        try:
            yield
        except InputError as error:
            self.add(error)

    def add(self, error: InputError) -> None:
        """Add the error of one part."""
        self.count += 1
        if self.count <= MOST_PARTS:
            self._first.append(str(error))

    def conclude(self, hint: str = "") -> None:
        """Raise one ``InputError`` that lists the first :data:`MOST_PARTS` collected errors, if there are any.

        ``hint`` is a further sentence, which ends the message.
        """
        if self.count == 1:
            raise InputError(f"{self._first[0]} {hint}".rstrip())
        if self.count:
            more = [f"{self.count - MOST_PARTS:,} more"] if self.count > MOST_PARTS else []
            listed = [one.removeprefix(self._start) for one in self._first] + [f"and {one}" for one in more]
            lines = "\n".join(["correct them:", *(f"  {one}" for one in listed), *([hint] if hint else [])])
            error = InputError(f"{self._place}{self.count:,} {self._name} are wrong; {lines}")
            error.parts = (*self._first, *(f"{self._place}{one} {self._name} are wrong." for one in more))
            raise error


class UnfinishedError(SentenceError):
    """Error for work that stopped early; its message is one sentence that says how to resume. Exit code 3."""

    word = "stopped"


class PendingError(UnfinishedError):
    """Error for work that still waits for something, such as the results of a batch. Exit code 3."""

    word = "waiting"


@contextmanager
def plugin_code(failure: str, called: object = None) -> Iterator[None]:
    """Run a block that calls a plugin's code; turn an error of the plugin into ``InputError``.

    The message names the line of the plugin that failed; if none of its lines ran, it names the line that defines
    ``called``, the plugin's function. ``failure`` is a part of the message, such as "the plugin of the kind 'rib'
    failed on the case 'x1'". An ``InputError``, an ``UnfinishedError``, the error of a full disk and Ctrl-C pass
    through unchanged.
    """
    try:
        yield
    except (InputError, UnfinishedError, KeyboardInterrupt):
        raise
    except BaseException as error:
        if isinstance(error, OSError) and is_disk_full(error):
            raise
        place, said = _place(error) or defined(called), " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(f"{place}{failure} ({said}); correct the plugin.") from error


def defined(called: object) -> str:
    """Return file, line and name of a function outside chexqa, such as ``"mine.py, line 3, function 'maker': "``.

    For an object that is not a function, they are those of its ``__call__`` method. Return ``""`` for chexqa's own
    functions and those without Python code.
    """
    function = inspect.unwrap(called) if inspect.isroutine(called) else getattr(type(called), "__call__", None)  # noqa: B004
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if code is None or str(getattr(function, "__module__", "")).partition(".")[0] == "chexqa":
        return ""
    return f"{code.co_filename}, line {code.co_firstlineno}, function '{code.co_name}': "


def _place(error: BaseException) -> str:
    """Return file, line and function of the last frame in :func:`first_file`, or ``""``."""
    first = first_file(error)
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == first]
    return f"{first}, line {own[-1].lineno}, function '{own[-1].name}': " if own else ""


def first_file(error: BaseException) -> str | None:
    """Return the first file in an error's traceback that belongs neither to chexqa nor to Python's import system.

    Return None if there is no such file. If chexqa imports a user's module and the import fails, the result
    is the file of the user's module, even if a library that it imports raised the error.
    """
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if not _is_chexqa(frame) and frame.f_globals.get("__name__", "").partition(".")[0] != "importlib":
            return frame.f_code.co_filename
    return None


def _is_chexqa(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == "chexqa"


def sentence(error: BaseException, source: str | None = None) -> str:
    """Return an exception as one clause: its type, its message, and a file with a line number.

    The number is that of the last line that ran in the file ``source``. If nothing in ``source`` ran, file and line are
    those that raised the exception.
    """
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, SyntaxError) and error.filename:
        place = f" ({Path(error.filename).name}, line {error.lineno})"
        return f"SyntaxError: {error.msg}{place}"
    own = [frame for frame in frames if source is not None and Path(frame.filename).resolve() == Path(source).resolve()]
    last = (own or frames)[-1:]
    place = f" ({Path(last[0].filename).name}, line {last[0].lineno})" if last else ""
    words = " ".join(str(error).split())
    return f"{type(error).__name__}{f': {words}' if words else ''}{place}"


def is_disk_full(error: OSError) -> bool:
    """Return True if a full disk, a quota or a limit on file size caused the error."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def unwritable(path: object, error: OSError) -> InputError | UnfinishedError:
    """Return the error for a ``path`` that cannot be written.

    For a full disk this is ``UnfinishedError``, since work can be resumed; for any other reason ``InputError``.
    """
    reason = f"{path}: cannot be written ({error.strerror or error})"
    if is_disk_full(error):
        return UnfinishedError(f"{reason}; free some space there and run the same command again.")
    return InputError(f"{reason}; make the path writable, or give another path.")


def unreadable(path: object, error: OSError | ValueError) -> InputError:
    """Return the error for a ``path`` that the system cannot read."""
    reason = getattr(error, "strerror", None) or error
    return InputError(f"{path}: cannot be read ({reason}); check its permissions and its disk, or give another file.")


def suggest(name: str, known: Iterable[str], listed: Iterable[str] = ()) -> str:
    """Return a hint for a misspelt name, such as ``" (did you mean 'edema'?)"``; the hint begins with a space.

    If no known name is similar, the hint lists the names in ``listed``, or the known names if ``listed`` is empty. Up
    to :data:`LISTED` (30) names are listed in full; of more names, only the first five are listed.
    """
    choices = sorted(known)
    lowered = {choice.lower(): choice for choice in choices}
    near = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    if near:
        return f" (did you mean '{lowered[near[0]]}'?)"
    choices = sorted(listed) or choices
    if not choices:
        return ""
    if len(choices) > LISTED:
        return f" (known: {', '.join(choices[:5])} and {len(choices) - 5:,} more)"
    return f" (known: {', '.join(choices)})"
