"""How large a file may be before it is read, and how deep and large what it holds may grow while it is.

Every file is taken for hostile: these bounds keep one of a few kilobytes from filling the memory.
``chexqa.files.opening`` holds those of files. ``docs/security.md`` lists them with those of pictures, spreadsheets and
localization maps.
"""

from __future__ import annotations

import re

# A whole JSON file in memory; the largest in use, another program's results with all conversations, are a tenth of it.
MAX_JSON_BYTES = 2**30
# A benchmark's items, key or skipped cases; the paper's benchmark takes a hundredth.
MAX_TABLE_BYTES = 2**32
# A picture of 64 million pixels at 16 bits and two channels.
MAX_PICTURE_BYTES = 256_000_000
# A line of a JSON Lines file; polygons and run lengths of a radiograph's masks take well under a megabyte.
MAX_LINE_CHARACTERS = 2**26
# Lists and objects inside one another; no format of chexqa's or of the data sets it reads goes beyond twelve.
MAX_DEPTH = 64
# A recipe, question bank or models file, and its values once every alias is written out.
MAX_YAML_BYTES, MAX_YAML_VALUES = 2**20, 100_000

_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"')


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
