"""``index.html``, the page of a report: parts in reading order, each with its plots and tables.

``sections.py`` has the order. A section whose tables and plots are all empty is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import resources

import jinja2
from markupsafe import Markup

from chexqa.eval.report import plots
from chexqa.eval.report.page import html_tables
from chexqa.eval.report.page.figures import Plot, protocols
from chexqa.eval.report.page.sections import OUTLINE, Frames
from chexqa.eval.tables.numbers_markdown_latex import words
from chexqa.files.text import shown

_FOLD_ROWS = 24
_PAGE = "chexqa.eval.report.page"


@dataclass(frozen=True)
class Block:
    """A plot, a table or both, as the page's template needs them."""

    heading: str | None = None
    svg: Markup | None = None
    caption: str = ""
    table: html_tables.Table | None = None
    caption_table: str = ""
    folded: str | None = None


@dataclass(frozen=True)
class Part:
    """Section of the page, with its plots and tables."""

    anchor: str
    title: str
    text: str
    blocks: list[Block] = field(default_factory=list)


def parts(frames: Frames, drawn: Iterable[Plot]) -> list[Part]:
    """Return the sections of the page with their plots and tables; a table with many rows is collapsed until it is
    clicked.
    """
    several = len(protocols(frames)) > 1
    found: dict[str, list[Plot]] = {}
    for plot in drawn:
        found.setdefault(plot.name, []).append(plot)
    filled = []
    for section in OUTLINE:
        blocks = [
            Block(
                heading=f"Protocol {words(plot.protocol)}" if several else None,
                svg=_own(plots.inline(plot.svg, f"{plot.name} {plot.protocol}")),
                caption=caption,
            )
            for name, caption, _ in section.plots
            for plot in found.get(name, [])
        ]
        for name in (name for name in section.tables if name in frames):
            for caption, table in html_tables.tables(name, frames[name], () if several else ("protocol",)):
                if table.rows:
                    folded = f"Table: {caption}" if len(table.rows) > _FOLD_ROWS else None
                    blocks.append(Block(table=table, caption_table="" if folded else f"{caption}.", folded=folded))
        if blocks:
            filled.append(Part(section.anchor, section.title, section.text, blocks))
    return filled


def render(
    title: str,
    subtitle: str,
    notice: str | None,
    remark: str | None,
    notes: list[str],
    filled: list[Part],
    methods: list[str],
) -> str:
    """Return the page as HTML; all text is escaped, except plots, style and script."""
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, finalize=_finalized
    )
    template = environment.from_string(_file(_PAGE, "page.html.j2"))
    return template.render(
        title=title,
        subtitle=subtitle,
        notice=notice,
        remark=remark,
        notes=notes,
        parts=filled,
        methods=methods,
        css=_own(_file(_PAGE, "page.css")),
    )


def _file(package: str, name: str) -> str:
    """Return a file of the package: a template, a style or a script."""
    return (resources.files(package) / name).read_text("utf-8")


def _finalized(value: object) -> object:
    """Return text with invisible and direction-changing characters made visible; markup is returned unchanged."""
    return shown(value) if type(value) is str else value


def _own(text: str) -> Markup:
    """Return trusted markup unescaped: a plot, which Matplotlib writes as XML, or the package's style or script."""
    return Markup(text)  # nosec B704
