"""Style of a report's plots: colours, figures, axes, marks with intervals, and the files of a figure.

The colours are those of Okabe and Ito, which colour-blind readers can distinguish; nothing is shown by colour alone. A
number that a report leaves out (null) is drawn as a dash, never as zero.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# A shade of black that the page replaces by the colour of its text; other programs draw it as black.
INK = "#010203"
PALE = "#7a8794"
LINES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444")
# Letters of a notice in an inch.
_LETTERS = 16
MARKS = ("o", "s", "D", "^", "v", "P", "X", "*")
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "chexqa",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": PALE,
    "axes.titlecolor": INK,
    "axes.titlesize": 11,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
}


def say(figure: Figure, notice: str | None) -> Figure:
    """Write a notice (for example, that the radiographs are drawn phantoms) below the figure, and return the figure.

    The notice is wrapped to the width of the figure.
    """
    if notice:
        wide = int(_LETTERS * figure.get_figwidth())
        notice = "\n".join(textwrap.fill(line, wide) for line in notice.splitlines())
        with mpl.rc_context(_STYLE):
            figure.text(0.0, -0.01, notice, fontsize=8, color=PALE, va="top", parse_math=False)
    return figure


def svg_file(figure: Figure) -> bytes:
    """Return the figure as an SVG file; equal figures give equal bytes."""
    out = io.BytesIO()
    with mpl.rc_context(_STYLE):
        figure.savefig(out, format="svg", metadata={"Date": None}, bbox_inches="tight")
    return out.getvalue()


def png_file(figure: Figure) -> bytes:
    """Return the figure as a PNG file on white, at 150 dots per inch.

    A figure narrower than about 1,000 dots gets more dots per inch, until it is about 1,000 dots wide.
    """
    out = io.BytesIO()
    dots = max(150, round(1000 / figure.get_figwidth()))
    with mpl.rc_context(_STYLE):
        figure.savefig(out, format="png", dpi=dots, facecolor="white", bbox_inches="tight")
    return out.getvalue()


def figure(width: float, height: float, columns: int = 1, share_y: bool = False, rows: int = 1) -> tuple[Figure, Any]:
    """Return a figure and its axes, row by row; ``width`` and ``height`` are in inches."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(rows, columns, sharey=share_y, squeeze=False)
    return figure, axes.ravel()


def percent_axis(axes: Axes, label: str, low: float = 0.0, high: float = 1.0) -> None:
    """Put ticks in percent on the horizontal axis, from ``low`` to ``high``."""
    axes.set_xlim(low, high)
    step = next(one for one in (0.25, 0.1, 0.05, 0.01) if high - low >= 2 * one or one == 0.01)
    # Whole numbers, since the ceiling of a little less than 0 is a float that prints as -0.
    ticks = np.arange(int(np.ceil(low / step - 1e-9)), int(np.floor(high / step + 1e-9)) + 1) * step
    axes.set_xticks(ticks, [f"{100 * tick:.0f}" for tick in ticks])
    axes.set_xlabel(label)
    axes.grid(axis="x", color=PALE, alpha=0.25, linewidth=0.7)
    axes.tick_params(axis="y", length=0)


def name_rows(axes: Axes, names: Iterable[str], places: Iterable[float]) -> None:
    """Write each name beside the vertical axis, at its value in ``places``; a dollar sign does not start a formula."""
    axes.set_yticks(list(places), list(names), parse_math=False)


def whiskers(axes: Axes, row: dict[str, Any], column: str, y: float, colour: str, mark: str, size: float = 6) -> None:
    """Draw a mark at ``row[column]`` with its interval, or a dash if there is no number."""
    value = row[column]
    if value is None:
        axes.text(0.02, y, "– unfinished", va="center", color=PALE, fontsize=8, transform=axes.get_yaxis_transform())
        return
    low, high = row.get(f"{column}_low"), row.get(f"{column}_high")
    if low is not None and high is not None:
        axes.plot([low, high], [y, y], color=colour, linewidth=1.6, solid_capstyle="butt", zorder=2, clip_on=False)
    axes.plot([value], [y], mark, color=colour, markersize=size, markeredgecolor="white", markeredgewidth=0.6, zorder=3,
              clip_on=False)  # fmt: skip


def reference(axes: Axes, value: float, name: str, side: Literal["left", "right"]) -> None:
    """Draw a dashed reference line with its name above it."""
    axes.axvline(value, color=PALE, linewidth=1.2, linestyle=(0, (4, 2)))
    axes.text(value, 0.7, name, color=PALE, fontsize=8, va="bottom", ha=side)


def look(number: int) -> tuple[str, str, str]:
    """Return the colour, mark and dashes of line number ``number`` of a plot; the first 21 lines all differ."""
    return LINES[number % len(LINES)], MARKS[number % len(MARKS)], ("-", "--", ":")[number // len(LINES) % 3]
