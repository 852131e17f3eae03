"""Plots of the limits of perception: thresholds of errors in outlines, models beside readers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from chexqa.eval.readers.random_readers import READER
from chexqa.eval.report.plots import PALE, _figure, _name_rows
from chexqa.eval.thresholds.observations import TASKS

_TICKS = (1, 2, 5, 10, 20, 50, 100)
_MODEL, _READER = ("#0072b2", "o"), ("#d55e00", "D")
_OPEN = 1.25  # factor outside the tested depths at which a threshold without a number is drawn


def thresholds(table: pl.DataFrame, order: Sequence[str]) -> Figure | None:
    """Draw each model's and reader's threshold in pixels with its interval.

    An arrow marks an end outside the tested depths.
    """
    rows = {(row["model"], row["seen_in"]): row for row in table.to_dicts() if row["reads"] is not None}
    names = [name for name in order if any((name, task) in rows for task in TASKS)]
    if not names:
        return None
    figure, axes = _figure(10.6, 1.25 + 0.34 * len(names), len(TASKS), share_y=True)
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
        axis.grid(axis="x", color=PALE, alpha=0.25, linewidth=0.7)
        axis.tick_params(axis="y", length=0)
    _name_rows(axes[0], names, [-place for place in range(len(names))])
    return figure


def _between(row: dict[str, Any]) -> list[str]:
    return row["reads_between"].split(" to ") if row["reads_between"] else []


def _draw(axis: Axes, row: dict[str, Any], y: float, low: float, high: float) -> None:
    """Draw one threshold and its interval; a value outside the tested depths stands at the edge."""
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
