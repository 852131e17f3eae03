"""Lines for the terminal. All that is printed goes out here or by a console of ``chexqa.files.terminal``.

Names and errors of strangers are in most of what is printed, so nothing that a terminal would obey leaves either place,
whoever wrote it (``chexqa.files.text``).
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
    """Print JSON to standard output: the same values, in characters that a terminal shows."""
    click.echo(json_shown(text), nl=not text.endswith("\n"))


def guard() -> None:
    """Let what libraries warn of and log go the same way as everything else, for as long as the process lives."""
    warnings.showwarning = lambda message, *where: say(f"warning: {message}", err=True)
    logging.lastResort = _Last(logging.WARNING)
    sys.excepthook = lambda kind, error, trace: say(f"internal error: {kind.__name__}: {error}", err=True)


class _Last(logging.Handler):
    """Where records go that no other handler takes."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print the record."""
        say(self.format(record), err=True)
