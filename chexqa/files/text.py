"""Conversion of untrusted text for a terminal, JSON on a terminal, Markdown or LaTeX.

Every function replaces these characters:

- control characters other than line feed and tab,
- invisible characters,
- characters that change the direction of text,
- lone surrogates.

Letters of every language are unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

# Tab and line feed stay, and so do the joiners that shape letters (U+200C, U+200D).
OBEYED = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f"
)
_OBEYED = re.compile(f"[{OBEYED}\ud800-\udfff]")
_SPACES = re.compile(r"\s+")


def shown(text: str) -> str:
    """Return the text with a replacement character for each control or invisible character."""
    return _OBEYED.sub("\ufffd", text)


def few(names: Sequence[str]) -> str:
    """Return the first three names and the number of the others: ``a, b, c and 2 more``."""
    return shown(", ".join(names[:3])) + (f" and {len(names) - 3:,} more" if names[3:] else "")


def json_shown(text: str) -> str:
    r"""Return a JSON text with control and invisible characters written as ``\u`` escapes; its values are the same."""
    return _OBEYED.sub(lambda found: _escape(found[0]), text)


def _escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _replaced(text: str, by: Mapping[str, str]) -> str:
    return "".join(by.get(character, character) for character in text)


# Some Markdown renderers ignore a backslash before < or &; some read $ as a formula and @ as a person's name.
_MARKDOWN = {mark: f"\\{mark}" for mark in "\\|`*_[]#"} | {
    "&": "&amp;", "<": "&lt;", ">": "&gt;", "$": "&#36;", "~": "&#126;", "@": "&#64;"
}  # fmt: skip
_ADDRESS = re.compile(r"(?i):(?=//)|(?<=www)\.|(?<=mailto):")


def markdown(text: str) -> str:
    """Return text as one line with escapes, so that Markdown shows it literally, without markup, cells or links."""
    line = _replaced(_SPACES.sub(" ", shown(text)), _MARKDOWN)
    return _ADDRESS.sub(lambda found: f"&#{ord(found[0])};", line)


_LATEX = {
    "\\": r"\textbackslash{}", "–": "--", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}",
} | {mark: f"\\{mark}" for mark in "&%$#_{}"}  # fmt: skip


def latex(text: str) -> str:
    """Return text as one line with escapes, so that LaTeX prints it literally.

    Control and invisible characters become question marks.
    """
    return _replaced(_SPACES.sub(" ", shown(text)), _LATEX | {"\ufffd": "?"})
