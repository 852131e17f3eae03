"""Lines for the terminal; every line is printed by this module or by a console of ``chexqa.files.terminal``.

Most lines contain names and errors from outside, which are not trusted. Both modules therefore replace every character
that controls a terminal (``chexqa.files.text``).
"""

from __future__ import annotations

import logging
import shlex
import sys
import warnings
from pathlib import Path

import click

from chexqa.files.text import json_shown, shown


def say(text: str, err: bool = False, bold: bool = False) -> None:
    """Print one or several lines to standard output, or to standard error if ``err`` is True."""
    click.echo(click.style(shown(text), bold=True) if bold else shown(text), err=err)


def say_json(text: str) -> None:
    r"""Print JSON to standard output; control characters become ``\u`` escapes, which leaves the values unchanged."""
    click.echo(json_shown(text), nl=not text.endswith("\n"))


def argument(path: Path | str) -> str:
    """Return a path as an argument of a printed command, which users paste into a shell.

    >>> argument("run"), argument("a run"), argument("-run")
    ('run', "'a run'", './-run')
    """
    return shlex.quote(f"./{path}" if str(path).startswith("-") else str(path))


def guard() -> None:
    """Print libraries' warnings, log records and uncaught errors through :func:`say`, until the process ends."""
    warnings.showwarning = lambda message, *where: say(f"warning: {message}", err=True)
    logging.lastResort = _Last(logging.WARNING)
    # If the home folder cannot be written, matplotlib warns that it keeps its list of fonts in another folder.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    sys.excepthook = lambda kind, error, trace: say(f"internal error: {kind.__name__}: {error}", err=True)


class _Last(logging.Handler):
    """Log handler for the records that have no other handler."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print the record."""
        say(self.format(record), err=True)
