"""Text of strangers made fit for where it goes: a terminal, JSON on a terminal, Markdown, LaTeX.

What a terminal or a reader's eye would obey instead of seeing is taken out of all of them: control characters but the
line feed and the tab, what turns the direction of text or is invisible, and halves of characters. Letters of every
language stay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# Of C0 the tab and the line feed stay, and of the joiners those that shape letters (U+200C, U+200D).
OBEYED = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f"
)
_OBEYED = re.compile(f"[{OBEYED}\ud800-\udfff]")
_SPACES = re.compile(r"\s+")


def shown(text: str) -> str:
    """The text with a replacement character for each that would be obeyed instead of shown."""
    return _OBEYED.sub("\ufffd", text)


def json_shown(text: str) -> str:
    r"""JSON that says the same, with ``\u`` escapes in place of the characters that would be obeyed."""
    return _OBEYED.sub(lambda found: _escape(found[0]), text)


def _escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _replaced(text: str, by: Mapping[str, str]) -> str:
    return "".join(by.get(character, character) for character in text)


# A backslash before < or & is not known to every reader of Markdown; some take $ for a formula and @ for a person.
_MARKDOWN = {mark: f"\\{mark}" for mark in "\\|`*_[]#"} | {
    "&": "&amp;", "<": "&lt;", ">": "&gt;", "$": "&#36;", "~": "&#126;", "@": "&#64;"
}  # fmt: skip
_ADDRESS = re.compile(r"(?i):(?=//)|(?<=www)\.|(?<=mailto):")


def markdown(text: str) -> str:
    """Text that Markdown shows as it is, in one line: no markup, no cell, no link, not even of a bare address."""
    line = _replaced(_SPACES.sub(" ", shown(text)), _MARKDOWN)
    return _ADDRESS.sub(lambda found: f"&#{ord(found[0])};", line)


_LATEX = {
    "\\": r"\textbackslash{}", "–": "--", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}",
} | {mark: f"\\{mark}" for mark in "&%$#_{}"}  # fmt: skip


def latex(text: str) -> str:
    """Text that LaTeX prints as it is, in one line; what would be obeyed becomes a question mark."""
    return _replaced(_SPACES.sub(" ", shown(text)), _LATEX | {"\ufffd": "?"})
