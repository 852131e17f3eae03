"""The plots of the report's page as figures and SVG files."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import polars as pl
from matplotlib.figure import Figure

from chexqa.eval.report import plot_style, plots
from chexqa.eval.report.page.sections import OUTLINE, Frames


@dataclass(frozen=True, eq=False)
class Plot:
    """A figure with the name of its file, its protocol and its caption."""

    name: str
    protocol: str
    caption: str
    figure: Figure

    @cached_property
    def svg(self) -> bytes:
        """Return the figure as an SVG file."""
        return plot_style.svg_file(self.figure)


def protocols(frames: Frames) -> list[str]:
    """Return the protocols of the runs, in the order of the tables' rows."""
    return list(dict.fromkeys([*frames["states"]["protocol"].to_list()]))


def draw(frames: Frames, notice: str) -> list[Plot]:
    """Return all plots as figures with the notice below them, protocol by protocol; empty plots are left out."""
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
                    drawn.append(Plot(name, protocol, caption, plot_style.say(figure, notice)))
    return drawn


def _under(table: pl.DataFrame, protocol: str) -> pl.DataFrame:
    return table.filter(pl.col("protocol") == protocol) if "protocol" in table.columns else table
