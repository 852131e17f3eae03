"""How large a file may be before it is read, and how deep and large what it holds may grow while it is.

Every file is taken for hostile: these bounds keep one of a few kilobytes from filling the memory, and a pipe or device
from being read for ever. ``docs/security.md`` lists them with those of pictures, spreadsheets and localization maps.
"""

from __future__ import annotations

import re
import stat
from pathlib import Path

from chexqa.errors import InputError

# A whole JSON file in memory; the largest in use, another program's results with all conversations, are a tenth of it.
MAX_JSON_BYTES = 2**30
# A line of a JSON Lines file; polygons and run lengths of a radiograph's masks take well under a megabyte.
MAX_LINE_CHARACTERS = 2**26
# Lists and objects inside one another; no format of chexqa's or of the data sets it reads goes beyond twelve.
MAX_DEPTH = 64
# A recipe, question bank or models file, and its values once every alias is written out.
MAX_YAML_BYTES, MAX_YAML_VALUES = 2**20, 100_000

_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"')


def check_file(path: Path, most_bytes: int) -> None:
    """Raise ``InputError`` for a file of more bytes, or a pipe or device, whose end nobody knows; a folder passes."""
    try:
        about = path.stat()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file.") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error}).") from None
    if not stat.S_ISREG(about.st_mode) and not stat.S_ISDIR(about.st_mode):
        raise InputError(f"{path}: is a pipe or device; give a file.")
    if about.st_size > most_bytes:
        raise InputError(
            f"{path}: is larger than {most_bytes // 2**20:,} MB, so it was not read; is it the right file?"
        )


def is_deep(text: str) -> bool:
    """Whether lists and objects of this JSON text, which is valid, lie more than :data:`MAX_DEPTH` deep."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    # Brackets inside strings are rare: only where they stop the peeling are strings looked for.
    return _left_when_peeled(text) and _left_when_peeled(_STRINGS.sub("", text))


def _left_when_peeled(text: str) -> bool:
    """Whether brackets are left when the innermost pairs are taken away as often as values may lie deep."""
    brackets = text.encode("utf-8", "surrogatepass").translate(None, _NO_BRACKETS)
    for _ in range(MAX_DEPTH):
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
        if not brackets:
            return False
    return True
