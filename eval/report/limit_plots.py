"""Plots of thresholds (the smallest errors of outlines that are noticed), of stress and of confidence.

Each function returns a matplotlib figure, or None if there is nothing to draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from chexqa.eval.confidence.answers import ESTIMATES, STATED
from chexqa.eval.confidence.confidence_tables import ALL
from chexqa.eval.readers.random_readers import READER
from chexqa.eval.report import plot_style as style
from chexqa.eval.stress.cells import KINDS
from chexqa.eval.stress.degradations import DEGRADATIONS, SEVERITIES
from chexqa.eval.thresholds.observations import TASKS
from chexqa.eval.thresholds.threshold_table import NOT_TOLD

_TICKS = (1, 2, 5, 10, 20, 50, 100)
_MODEL, _READER = ("#0072b2", "o"), ("#d55e00", "D")
_OPEN = 1.25  # a threshold outside the tested depths is drawn this factor beyond the outermost depth


def thresholds(table: pl.DataFrame, order: Sequence[str]) -> Figure | None:
    """Draw the threshold of each model and reader, with its interval; return None if there are no thresholds.

    A threshold is the depth (in pixels) from which errors are seen. An interval that ends outside the tested depths
    gets an arrow at that end. Thresholds that the responses do not determine are left out.
    """
    rows = {
        (row["model"], row["seen_in"]): row
        for row in table.to_dicts()
        if not (row["reads"] or NOT_TOLD).startswith(NOT_TOLD)
    }
    names = [name for name in order if any((name, task) in rows for task in TASKS)]
    if not names:
        return None
    figure, axes = style.figure(10.6, 1.25 + 0.34 * len(names), len(TASKS), share_y=True)
    for axis, task in zip(axes, TASKS, strict=True):
        shown = [row for (_, of), row in rows.items() if of == task]
        ends = [float(text.strip("<> ")) for row in shown for text in (row["reads"], *_between(row))]
        low, high = (min(ends, default=2) / _OPEN, max(ends, default=60) * _OPEN)
        for place, name in enumerate(names):
            if (name, task) in rows:
                _draw(axis, rows[name, task], -place, low, high)
        axis.set_xscale("log")
        axis.set_xlim(low, high)
        axis.set_xticks([tick for tick in _TICKS if low <= tick <= high], minor=False)
        axis.set_xticklabels([str(tick) for tick in _TICKS if low <= tick <= high])
        axis.minorticks_off()
        axis.set_xlabel(f"{task}, px")
        axis.grid(axis="x", color=style.PALE, alpha=0.25, linewidth=0.7)
        axis.tick_params(axis="y", length=0)
    style.name_rows(axes[0], names, [-place for place in range(len(names))])
    return figure


def _between(row: dict[str, Any]) -> list[str]:
    return row["reads_between"].split(" to ") if row["reads_between"] else []


def _draw(axis: Axes, row: dict[str, Any], y: float, low: float, high: float) -> None:
    """Draw one threshold and its interval; a value outside the tested depths is drawn at the edge."""
    colour, mark = _READER if row["model"].startswith(READER) else _MODEL

    def place(text: str) -> float:
        return low if text.startswith("<") else high if text.startswith(">") else float(text)

    ends = [place(text) for text in _between(row)]
    if ends:
        axis.plot(ends, [y, y], color=colour, linewidth=1.6, zorder=2, clip_on=False)
        for end, arrow in ((low, "<"), (high, ">")):
            if end in ends:
                axis.plot([end], [y], arrow, color=colour, markersize=6, clip_on=False)
    value = place(row["reads"])
    is_open = value in (low, high)
    axis.plot([value], [y], mark, color="none" if is_open else colour, markeredgecolor=colour if is_open else "white",
              markersize=6, zorder=3, clip_on=False)  # fmt: skip


def stress(table: pl.DataFrame, order: Sequence[str], column: str, label: str) -> Figure | None:
    """Draw one measure of each model, with its interval; each kind of stress has a panel.

    ``column`` names the measure: ``change`` (the area between the accuracy curves without and with stress) or ``flips``
    (the share of changed answers). ``label`` is its name on the axis.
    """
    kinds = [kind for kind in KINDS if kind in set(table["stress"])]
    names = [name for name in order if name in set(table["model"])]
    if not kinds:
        return None
    columns = min(len(kinds), 5)
    down = -(-len(kinds) // columns)
    figure, axes = style.figure(2.4 + 2.0 * columns, down * (0.95 + 0.26 * len(names)), columns, True, down)
    rows = {(row["stress"], row["model"]): row for row in table.to_dicts()}
    ends = [row[f"{column}{end}"] for row in rows.values() for end in ("", "_low", "_high")]
    known = [0.0, *(end for end in ends if end is not None)]
    low, high = min(known), max(*known, 0.02)
    for axis, kind in zip(axes, kinds, strict=False):
        axis.axvline(0, color=style.PALE, linewidth=1.2, linestyle=(0, (4, 2)))
        for place, name in enumerate(names):
            if (kind, name) in rows:
                colour, mark = _READER if name.startswith(READER) else _MODEL
                style.whiskers(axis, rows[kind, name], column, -place, colour, mark)
        style.percent_axis(axis, label, low - 0.02, high + 0.02)
        axis.set_title(kind)
    for axis in axes[len(kinds) :]:
        axis.set_axis_off()
    style.name_rows(axes[0], names, [-place for place in range(len(names))])
    return figure


def stress_curves(table: pl.DataFrame, order: Sequence[str]) -> Figure | None:
    """Draw each model's change of accuracy over the severities of each degradation, with intervals."""
    rows = table.filter(pl.col("stress").is_in([*DEGRADATIONS]))
    kinds = [kind for kind in DEGRADATIONS if kind in set(rows["stress"])]
    if not kinds:
        return None
    columns = min(len(kinds), 4)
    down = -(-len(kinds) // columns)
    names = [name for name in order if name in set(rows["model"])]
    figure, axes = style.figure(2.6 * columns + 2, 2.3 * down + 0.6, columns, True, down)
    for axis, kind in zip(axes, kinds, strict=False):
        axis.axhline(0, color=style.PALE, linewidth=1.2, linestyle=(0, (4, 2)))
        for number, name in enumerate(names):
            _curve_with_intervals(axis, rows.filter(model=name, stress=kind), name, number, len(names))
        axis.set(title=kind, xticks=[0, *SEVERITIES], xlabel="severity, 1 to 5")
        axis.grid(axis="y", color=style.PALE, alpha=0.25, linewidth=0.7)
        axis.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}")
    for axis in axes[len(kinds) :]:
        axis.set_axis_off()
    axes[0].set_ylabel("change of accuracy, points")
    axes[columns - 1].legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, fontsize=9)
    return figure


def _curve_with_intervals(axis: Axes, part: pl.DataFrame, name: str, number: int, count: int) -> None:
    """Draw one model's curve from the original (severity 0) on; curves are shifted a little, so that intervals do not
    overlap.
    """
    shift = 0.3 * (number - (count - 1) / 2) / max(count, 2)
    colour, mark, dashes = style.look(number)
    points = [(0.0, 0.0, None, None), *((float(row["strength"]) + shift, row["change"], row["change_low"],
              row["change_high"]) for row in part.to_dicts() if row["change"] is not None)]  # fmt: skip
    for x, _, low, high in points:
        if low is not None:
            axis.plot([x, x], [low, high], color=colour, linewidth=0.9)
    axis.plot([x for x, *_ in points], [y for _, y, *_ in points], color=colour, marker=mark,
              markersize=3.5, linewidth=1.3, linestyle=dashes, label=name.replace("$", r"\$"))  # fmt: skip


def calibration(table: pl.DataFrame, order: Sequence[str]) -> Figure | None:
    """Draw the share of right answers against the mean confidence of each bin, for every model and estimate of
    confidence.
    """
    lines = _lines(table, order, "mean_confidence", "share_right")
    return _curves(lines, "mean confidence, %", "right answers, %", ("calibrated", [0.0, 1.0])) if lines else None


def kept(table: pl.DataFrame, order: Sequence[str]) -> Figure | None:
    """Draw the share of wrong answers among the most confident x % of the answers, against x."""
    lines = _lines(table, order, "kept_share", "share_wrong")
    return _curves(lines, "answers kept, surest first, %", "wrong answers among them, %") if lines else None


def _lines(table: pl.DataFrame, order: Sequence[str], x: str, y: str) -> list[tuple[str, list[float], list[float]]]:
    """Return the points of each model and estimate of confidence (from all answers together), in the order of the
    models.
    """
    rows = table.filter(pl.col("level") == ALL)
    parts = [(model if estimate == STATED else f"{model}, {estimate}", rows.filter(model=model, estimate=estimate))
             for model in order for estimate in ESTIMATES]  # fmt: skip
    return [(name, part[x].to_list(), part[y].to_list()) for name, part in parts if part.height]


def _curves(
    lines: Sequence[tuple[str, list[float], list[float]]], x: str, y: str, other: tuple[str, list[float]] | None = None
) -> Figure:
    """Draw a line with marks for each model; line styles and marks differ, so colour is not needed."""
    figure, (axis,) = style.figure(6.4, 4.2)
    if other is not None:
        axis.plot(other[1], other[1], color=style.PALE, linewidth=1.2, linestyle=(0, (4, 2)), label=other[0])
    for number, (name, xs, ys) in enumerate(lines):
        colour, mark, dashes = style.look(number)
        axis.plot(xs, ys, color=colour, marker=mark, markersize=4.5, linewidth=1.4, linestyle=dashes, clip_on=False,
                  label=name.replace("$", r"\$"))  # fmt: skip
    style.percent_axis(axis, x)
    axis.set(ylim=(0, 1), ylabel=y)
    axis.set_yticks(np.arange(0, 1.01, 0.25), ["0", "25", "50", "75", "100"])
    axis.grid(axis="y", color=style.PALE, alpha=0.25, linewidth=0.7)
    axis.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, fontsize=9)
    return figure
