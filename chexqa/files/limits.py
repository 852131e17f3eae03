"""Bounds on the size of files, checked before a file is read, and on the depth and size of their content.

Every file counts as untrusted input: without bounds, a file of a few kilobytes could fill the memory.
``chexqa.files.opening`` enforces the bounds on files. ``docs/security.md`` lists them together with the bounds on
pictures, spreadsheets and localization maps.
"""

from __future__ import annotations

import re

# A JSON file that is read whole. The largest in use (results with all conversations) has a tenth of this size.
MAX_JSON_BYTES = 2**30
# A file of a benchmark's items, key or skipped cases. The files of the published benchmark have a hundredth of it.
MAX_TABLE_BYTES = 2**32
# A picture of 64 million pixels at 16 bits and two channels.
MAX_PICTURE_BYTES = 256_000_000
# A segmentation model as one file; protocol buffers, its format, allow no larger file.
MAX_MODEL_BYTES = 2**31 - 1
# A line of a JSON Lines file; a line with a radiograph's masks has well under a megabyte.
MAX_LINE_CHARACTERS = 2**26
# Depth of nested lists and objects; no format of chexqa or of the data sets it reads exceeds twelve.
MAX_DEPTH = 64
# A recipe, question bank or models file, and the number of its values after all aliases are expanded.
MAX_YAML_BYTES, MAX_YAML_VALUES = 2**20, 100_000

_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"')


def is_deep(text: str) -> bool:
    """Return True if a valid JSON text nests lists and objects more than :data:`MAX_DEPTH` deep."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    # Strings rarely hold brackets, so they are removed only if the first try leaves brackets.
    return _left_when_peeled(text) and _left_when_peeled(_STRINGS.sub("", text))


def _left_when_peeled(text: str) -> bool:
    """Return True if brackets remain after the innermost pairs were removed :data:`MAX_DEPTH` times."""
    brackets = text.encode("utf-8", "surrogatepass").translate(None, _NO_BRACKETS)
    for _ in range(MAX_DEPTH):
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
        if not brackets:
            return False
    return True
