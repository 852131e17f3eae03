"""Shared parts of exports: where the key goes, and a new folder, written completely or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from chexqa.files import atomic
from chexqa.files.errors import InputError

# Where an export has the answers: with the questions, in separate files, or nowhere.
KeyChoice = Literal["inside", "beside", "none"]


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes ``out`` unless an error is raised; ``InputError`` if ``out`` exists."""
    out = out.absolute()
    if os.path.lexists(out):
        raise InputError(f"{out}: exists already; name another folder.")
    if not out.parent.is_dir():
        raise InputError(f"{out}: the folder {out.parent} does not exist; make it first.")
    with atomic.new_folder(out) as folder:
        yield folder
