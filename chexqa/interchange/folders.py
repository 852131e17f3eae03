"""What exports share: where the key goes, and a new folder, whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from chexqa.files import atomic
from chexqa.files.errors import InputError

# Where an export has the answers: with the questions, in files of their own, or nowhere.
Key = Literal["inside", "beside", "none"]


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A temporary folder beside ``out`` that becomes it where all goes well; ``InputError`` where ``out`` exists."""
    out = out.absolute()
    if os.path.lexists(out):
        raise InputError(f"{out}: exists already; name another folder.")
    if not out.parent.is_dir():
        raise InputError(f"{out}: there is no folder {out.parent} to make it in; make that first.")
    with atomic.new_folder(out) as folder:
        yield folder
