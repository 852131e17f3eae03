"""Terminal output shared by commands: consoles, progress bars, counts in words."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.containers import Lines
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.text import Text

from chexqa.files.text import shown

PHANTOM_NOTICE = "drawn phantoms: a software test, without clinical meaning"


class PlainConsole(Console):
    """Console that prints plain text: brackets are not markup, and no character moves the cursor.

    The output counts as a terminal only if it is a real one, even if ``FORCE_COLOR`` is set.
    """

    # Jupyter sets FORCE_COLOR for the processes that a notebook starts; rich would then treat a pipe as a terminal.

    def __init__(self, **given: Any) -> None:
        stream = given.get("file") or (sys.stderr if given.get("stderr") else sys.stdout)
        given.setdefault("force_terminal", stream is not None and stream.isatty())
        super().__init__(highlight=False, markup=False, emoji=False, force_jupyter=False, **given)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Return the segments of ``renderable`` with control characters in their text replaced.

        Segments that rich itself makes to control the terminal are unchanged.
        """
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(shown(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        """End the command as if it had finished, if nobody reads its output; rich would end it with exit code 1."""
        raise BrokenPipeError


class Name(Text):
    """Text of a model's name; in a narrow column it is broken after ``/``, ``-``, ``_`` or a space, never within a
    word.
    """

    def wrap(self, console: Console, width: int, **options: Any) -> Lines:
        """Return the lines, each of at most ``width`` cells; a word is cut only if it is wider than the column."""
        lines = Lines()
        for line in self.plain.split("\n"):
            starts, end = [0], 0
            for piece in re.finditer(r"[^/_ -]+[/_ -]*|[/_ -]+", line):
                if starts[-1] < end and len(line[starts[-1] : piece.end()].rstrip()) > width:
                    starts.append(end)
                end = piece.end()
            for part in Text(line, style=self.style).divide(starts[1:]):
                lines.extend(part.wrap(console, width, **options))
        return lines


def console() -> Console:
    """Return the console for results, on standard output; it shows colours only if standard output is a terminal."""
    return PlainConsole()


def messages() -> Console:
    """Return the console for progress and remarks, on standard error."""
    return PlainConsole(stderr=True)


@contextmanager
def loading(what: object) -> Iterator[None]:
    """Show a line ``loading …`` while a block runs, then remove the line; do nothing if stderr is not a terminal."""
    err = messages()
    with err.status(f"loading {what} …") if err.is_terminal else nullcontext():
        yield


@contextmanager
def progress(label: str, total: int) -> Iterator[Callable[[], None]]:
    """Show a progress bar on standard error if that is a terminal; yield a function to call after each step."""
    words = TextColumn("{task.description}", markup=False)
    err = messages()
    columns = (words, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(label, total=total)
        yield lambda: bar.advance(task)


def duration(seconds: float) -> str:
    """Return a time in words, such as ``12 min`` or ``1.5 h``."""
    minutes, hours, days = seconds / 60, seconds / 3600, seconds / 86400
    if minutes < 1:
        return f"{max(seconds, 0):.0f} s"
    if hours < 1:
        return f"{minutes:.0f} min"
    return f"{hours:.1f} h" if days < 2 else f"{days:.1f} days"


def plural(count: int, noun: str, many: str | None = None) -> str:
    """Return a count with its noun: ``plural(1, "case")`` is "1 case", ``plural(2, "case")`` is "2 cases"."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"
