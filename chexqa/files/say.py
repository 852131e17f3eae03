"""Lines for the terminal; every line is printed here or by a console of ``chexqa.files.terminal``.

Most output contains untrusted names and errors. Both modules therefore replace every character that controls a terminal
(``chexqa.files.text``).
"""

from __future__ import annotations

import logging
import sys
import warnings

import click

from chexqa.files.text import json_shown, shown


def say(text: str, err: bool = False, bold: bool = False) -> None:
    """Print a line (or lines) to standard output or, with ``err``, to standard error."""
    click.secho(shown(text), err=err, bold=bold or None)


def say_json(text: str) -> None:
    """Print JSON to standard output, with unsafe characters as escapes; the values stay the same."""
    click.echo(json_shown(text), nl=not text.endswith("\n"))


def guard() -> None:
    """Print libraries' warnings, log records and uncaught errors through :func:`say`, until the process ends."""
    warnings.showwarning = lambda message, *where: say(f"warning: {message}", err=True)
    logging.lastResort = _Last(logging.WARNING)
    sys.excepthook = lambda kind, error, trace: say(f"internal error: {kind.__name__}: {error}", err=True)


class _Last(logging.Handler):
    """Log handler for records that no other handler takes."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print the record."""
        say(self.format(record), err=True)
