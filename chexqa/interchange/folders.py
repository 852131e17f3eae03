"""Parts that all exports share: the choice of where answers are written, and folders that appear only when complete."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from chexqa.files import atomic
from chexqa.files.errors import InputError

# Place of the answers in an export: with the questions, in separate files, or left out.
KeyChoice = Literal["inside", "beside", "none"]


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Yield a temporary folder, which is renamed to ``out`` if the block succeeds and removed if the block fails.

    Raises ``InputError`` if ``out`` exists.
    """
    out = out.absolute()
    if os.path.lexists(out):
        raise InputError(f"{out}: exists already; name another folder.")
    if not out.parent.is_dir():
        raise InputError(f"{out}: the folder {out.parent} does not exist; make it first.")
    with atomic.new_folder(out) as folder:
        yield folder
