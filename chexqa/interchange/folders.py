"""What exports share: where the key goes, and a new folder, whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from chexqa.errors import InputError

# Where an export has the answers: with the questions, in files of their own, or nowhere.
Key = Literal["inside", "beside", "none"]


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A temporary folder beside ``out`` that becomes it where all goes well; ``InputError`` where ``out`` exists."""
    out = out.absolute()
    if out.exists():
        raise InputError(f"{out}: exists already; name another folder.")
    if not out.parent.is_dir():
        raise InputError(f"{out}: there is no folder {out.parent} to make it in; make that first.")
    temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        temporary.mkdir()
        yield temporary
        temporary.rename(out)
    except OSError as error:
        raise InputError(f"{error.filename or out}: cannot be written ({error.strerror or error}).") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
