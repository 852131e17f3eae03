"""``index.html``, the page of a report: parts in reading order, each with its plots and tables.

``page_parts.py`` has the order. A section whose tables and plots are all empty is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources

import jinja2
import polars as pl
from markupsafe import Markup
from matplotlib.figure import Figure

from chexqa.eval.report import html_tables, plots
from chexqa.eval.report.page_parts import OUTLINE, Frames
from chexqa.eval.tables.numbers_markdown_latex import words
from chexqa.files.text import shown

_FOLD_ROWS = 24


@dataclass(frozen=True, eq=False)
class Plot:
    """A figure with the name of its file, its protocol and its caption."""

    name: str
    protocol: str
    caption: str
    figure: Figure

    @cached_property
    def svg(self) -> bytes:
        """Return the figure as an SVG file; it is drawn once and used as a file and in the page."""
        return plots.svg_file(self.figure)


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


def protocols(frames: Frames) -> list[str]:
    """Return the protocols that have scores of levels or of the grid task, in the order of the tables' rows."""
    return list(dict.fromkeys([*frames["states"]["protocol"].to_list()]))


def draw(frames: Frames) -> list[Plot]:
    """Return all plots of the page, protocol by protocol; empty plots are left out."""
    drawn = []
    for protocol in protocols(frames):
        part = {name: _under(table, protocol) for name, table in frames.items()}
        ends = part["decided"].filter(pl.col("decided")).select("model_a", "model_b").rows()
        stopped = {model for pair in ends for model in pair}
        ranked = [model for model in plots.ranked(part["levels"]) if model not in stopped]
        order = list(dict.fromkeys([*ranked, *part["states"]["model"]]))
        for section in OUTLINE:
            for name, caption, make in section.plots:
                figure = make(part, order)
                if figure is not None:
                    drawn.append(Plot(name, protocol, caption, figure))
    return drawn


def _under(table: pl.DataFrame, protocol: str) -> pl.DataFrame:
    return table.filter(pl.col("protocol") == protocol) if "protocol" in table.columns else table


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
    folder = resources.files("chexqa.eval.report")
    own = {name: _own(folder.joinpath(f"page.{name}").read_text("utf-8")) for name in ("css", "js")}
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, finalize=_finalized
    )
    template = environment.from_string(folder.joinpath("page.html.j2").read_text("utf-8"))
    return template.render(
        title=title,
        subtitle=subtitle,
        notice=notice,
        remark=remark,
        notes=notes,
        parts=filled,
        methods=methods,
        **own,
    )


def _finalized(value: object) -> object:
    """Return text with invisible and direction-changing characters made visible; markup is returned unchanged."""
    return shown(value) if type(value) is str else value


def _own(text: str) -> Markup:
    """Return trusted markup unescaped: a plot, which Matplotlib writes as XML, or the package's style or script."""
    return Markup(text)  # nosec B704
