"""What commands share of the terminal: consoles, progress bars, counts in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

PHANTOM_NOTICE = "drawn phantoms: a software test, without clinical meaning"


def console() -> Console:
    """For results: standard output; no colours when it is not a terminal."""
    return Console(highlight=False, soft_wrap=False)


def messages() -> Console:
    """For progress and remarks: standard error."""
    return Console(stderr=True, highlight=False)


@contextmanager
def progress(label: str, total: int) -> Iterator[Callable[[], None]]:
    """A progress bar on standard error (silent when that is no terminal); yields a function to call once a step."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    err = messages()
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(label, total=total)
        yield lambda: bar.advance(task)


def plural(count: int, noun: str, many: str | None = None) -> str:
    """``plural(1, "case")`` is "1 case", ``plural(2, "case")`` is "2 cases"."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"
