"""The pages of the documentation and the commands in them."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]
FENCE = re.compile(r"^( *)```(\w*)(?: title=\"([^\"]+)\")?\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block: its language (``""`` for commands), its title (a file's name) and its text."""

    language: str
    title: str
    text: str


def blocks(page: Path) -> list[Block]:
    found = FENCE.findall(page.read_text(encoding="utf-8"))
    return [Block(language, title, textwrap.dedent(text)) for _, language, title, text in found]


def command_lines(block: Block) -> list[str]:
    """Return the arguments of every line that begins with ``chexqa``, in a block without a language."""
    lines = [] if block.language else block.text.splitlines()
    return [line.removeprefix("chexqa ") for line in lines if line.startswith("chexqa ")]
