"""HTML viewer beside a review workbook: full pictures with zoom, brightness and contrast, without a server.

One file holds everything except the pictures, which are in the folder ``pictures`` beside it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from chexqa.files.jsonio import write_bytes
from chexqa.review.columns import anchor, clean


@dataclass(frozen=True)
class Plate:
    """Picture in the viewer: its caption, its file and the file of the layer over it, relative to the HTML file."""

    label: str
    src: str
    over: str = ""


@dataclass(frozen=True)
class Page:
    """Row of the workbook as the viewer shows it."""

    id: str
    tab: str
    no: int
    question: str
    options: tuple[str, ...]
    plates: tuple[Plate, ...]


def write_viewer(path: Path, title: str, notices: Sequence[str], pages: Sequence[Page]) -> None:
    """Write the viewer of one workbook; ``notices`` are shown above everything else."""
    # Data is inserted as JSON without any "<", and the page uses it only as text, never as markup.
    records = [
        {**vars(page), "anchor": anchor(page.id), "plates": [vars(plate) for plate in page.plates]} for page in pages
    ]
    data = json.dumps(records, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
    source = (resources.files("chexqa.review.sheets") / "viewer.html.j2").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True)
    html = environment.from_string(source).render(title=clean(title), notices=[clean(n) for n in notices], data=data)
    write_bytes(path, html.encode())
