"""Plots of a report, drawn from its tables: accuracy by level, depth, stages, kinds, grid, subgroups and states.

Each function takes tables of ``chexqa.eval.tables`` for one protocol. It returns a matplotlib figure, or None if there
is nothing to draw. The colours are those of Okabe and Ito, which colour-blind readers can distinguish; nothing is shown
by colour alone. A hidden number (null) is drawn as a dash, never as zero.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from chexqa.contract.items import PATHS
from chexqa.contract.kinds import LEVELS, kind_order
from chexqa.eval.report import plot_style as style
from chexqa.eval.scoring.grade import STATES
from chexqa.eval.tables.asked_items import shared
from chexqa.eval.tables.levels_and_stages import OVERALL
from chexqa.eval.tables.numbers_markdown_latex import words
from chexqa.files.terminal import plural

LEVEL_COLOURS = {"coarse": "#0072b2", "fine": "#d55e00", "semantic": "#009e73"}
LEVEL_MARKS = {"coarse": "o", "fine": "s", "semantic": "D"}
STATE_COLOURS = {
    "correct": "#009e73", "wrong": "#d55e00", "unparsed": "#cc79a7", "truncated": "#f0e442", "refused": "#56b4e9",
    "empty": "#999999", "overflow": "#e69f00", "error": "#444444", "not_asked": "#d0d0d0",
}  # fmt: skip
_GROUNDING = {"net_grounding": "net grounding, points", "right_and_grounded": "right and grounded, %"}
_SHADES = LinearSegmentedColormap.from_list("shares", ["#f6efe2", "#7fb8d6", "#0b4f86"])


def ranked(levels: pl.DataFrame) -> list[str]:
    """Return the models from best to worst by the mean over levels, corrected for chance.

    Unfinished models come last.
    """
    means = levels.filter(pl.col("level") == OVERALL)
    return means.sort("corrected", descending=True, nulls_last=True, maintain_order=True)["model"].to_list()


def levels(table: pl.DataFrame, order: Sequence[str]) -> Figure | None:
    """Draw the report's main plot: accuracy at each level for every model, with intervals and marks at chance."""
    known = set(table["model"])
    models = [model for model in order if model in known]
    present = [level for level in LEVELS if level in table["level"].to_list()]
    if not present:
        return None
    figure, axes = style.figure(3.2 + 2.6 * len(present), 1.25 + 0.34 * len(models), len(present), share_y=True)
    place = {model: -number for number, model in enumerate(models)}
    for axis, level in zip(axes, present, strict=True):
        rows = table.filter(pl.col("level") == level).to_dicts()
        chance = shared(row["chance"] for row in rows)
        if chance is not None:
            axis.axvspan(0, chance, color=style.PALE, alpha=0.14, linewidth=0)
            style.reference(axis, chance, " chance", "left" if chance < 0.8 else "right")
        for row in rows:
            style.whiskers(axis, row, "accuracy", place[row["model"]], LEVEL_COLOURS[level], LEVEL_MARKS[level], 7)
        kinds = shared(row["kinds"] for row in rows)
        axis.set_title(level if kinds is None else f"{level} ({plural(kinds, 'kind')})")
        style.percent_axis(axis, "accuracy, %")
        axis.set_ylim(-len(models) + 0.4, 0.95)
    style.name_rows(axes[0], place, place.values())
    return figure


def depth(table: pl.DataFrame, order: Sequence[str]) -> Figure | None:
    """Draw the mean depth (stages passed in a row) on each question path, with its interval and two reference values.

    The reference values are the largest possible depth and the depth of the best constant answer.
    """
    present = [path for path in PATHS if path in table["path"].to_list()]
    if not present:
        return None
    figure, axes = style.figure(3.2 + 2.6 * len(present), 1.25 + 0.34 * len(order), len(present), share_y=True)
    place = {model: -number for number, model in enumerate(order)}
    constant = [name for name in table.columns if re.fullmatch(r"depth_(always|yes)_\w+?(?<!low)(?<!high)", name)]
    for axis, path in zip(axes, present, strict=True):
        rows = table.filter(pl.col("path") == path).to_dicts()
        best = shared(max(row[name] or 0.0 for name in constant) for row in rows)
        if best is not None:
            style.reference(axis, best, " best constant", "left" if best < 0.6 else "right")
        for row in rows:
            style.whiskers(axis, row, "depth", place[row["model"]], "#0072b2", "o")
        axis.set_xlim(0, rows[0]["maximum"])
        axis.set_xticks(range(int(rows[0]["maximum"]) + 1))
        axis.set(xlabel="stages passed in a row", title=words(path))
        axis.grid(axis="x", color=style.PALE, alpha=0.25, linewidth=0.7)
        axis.tick_params(axis="y", length=0)
        axis.set_ylim(-len(order) + 0.4, 0.95)
    style.name_rows(axes[0], place, place.values())
    return figure


def _shade(axis: Axes, values: np.ndarray[Any, Any], top: float) -> None:
    """Shade cells by their values from 0 to ``top``, as vector shapes, with the first row at the top.

    Vector shapes are needed, because the page must not embed raster pictures.
    """
    edges = [np.arange(count + 1) - 0.5 for count in values.shape]
    axis.pcolormesh(edges[1], edges[0], np.ma.masked_invalid(values), cmap=_SHADES, vmin=0, vmax=top,
                    edgecolors="white", linewidth=0.8)  # fmt: skip
    axis.invert_yaxis()


def heat(values: np.ndarray[Any, Any], rows: Sequence[str], columns: Sequence[str], label: str) -> Figure:
    """Draw a heat map of shares, floats ``(rows, columns)``, with the percentage in each cell; NaN means no number."""
    figure, (axis,) = style.figure(2.6 + 0.72 * len(columns), 1.5 + 0.32 * len(rows))
    _shade(axis, values, 1.0)
    for (y, x), value in np.ndenumerate(values):
        text = "–" if np.isnan(value) else f"{100 * value:.0f}"
        ink = style.INK if np.isnan(value) else "white" if value > 0.62 else "#1b1f24"
        axis.text(x, y, text, ha="center", va="center", fontsize=9, color=ink)
    axis.set_xticks(range(len(columns)), columns, rotation=35, ha="left", rotation_mode="anchor", parse_math=False)
    axis.xaxis.tick_top()
    style.name_rows(axis, rows, range(len(rows)))
    axis.tick_params(length=0)
    for spine in axis.spines.values():
        spine.set_visible(False)
    axis.set_xlabel(label)
    return figure


def _matrix(
    table: pl.DataFrame, order: Sequence[str], column: str, keys: Sequence[tuple[Any, ...]], by: Sequence[str]
) -> np.ndarray[Any, Any]:
    """Return the values of ``column`` as an array ``(len(order), len(keys))``; a missing value is NaN."""
    found = {(row["model"], *(row[name] for name in by)): row[column] for row in table.to_dicts()}
    cells = [[found.get((model, *key)) for key in keys] for model in order]
    return np.array(cells, dtype=float).reshape(len(order), len(keys))


def stages(table: pl.DataFrame, order: Sequence[str]) -> Figure | None:
    """Draw the accuracy of each stage of each question path for every model.

    A case counts as right in a stage if all its answers of this stage are right; answers of earlier stages do not
    matter.
    """
    keys = [
        key
        for path in PATHS
        for key in sorted(table.filter(pl.col("path") == path).select("path", "stage").unique().rows())
    ]
    if not keys:
        return None
    heads = [f"{words(path)}, {stage}" for path, stage in keys]
    return heat(_matrix(table, order, "accuracy", keys, ["path", "stage"]), order, heads, "accuracy of whole stages, %")


def kinds(table: pl.DataFrame, order: Sequence[str]) -> Figure | None:
    """Draw the accuracy of each kind of item for every model, with a row for chance."""
    there = set(table["kind"])
    keys = [(kind,) for kind in kind_order(there) if kind in there]
    if not keys:
        return None
    chance = [shared(table.filter(pl.col("kind") == kind)["chance"]) for (kind,) in keys]
    values = np.vstack([_matrix(table, order, "accuracy", keys, ["kind"]), np.array(chance, dtype=float)])
    return heat(values, [*order, "chance"], [words(kind) for (kind,) in keys], "accuracy, %")


def grid(table: pl.DataFrame, order: Sequence[str], macro: str) -> Figure | None:
    """Draw each model's hit rate on the grid (mean over findings) with its interval, and lines for guessing and
    the highest possible hit rate.
    """
    rows = table.filter(pl.col("finding") == macro).to_dicts()
    if not rows:
        return None
    figure, (axis,) = style.figure(7.2, 1.25 + 0.34 * len(order))
    place = {model: -number for number, model in enumerate(order)}
    chance, ceiling = (shared(row[column] for row in rows) for column in ("chance", "ceiling"))
    if chance is not None:
        style.reference(axis, chance, " chance", "left")
    if ceiling is not None:
        style.reference(axis, ceiling, "ceiling ", "right")
    for row in rows:
        style.whiskers(axis, row, "hit_rate", place[row["model"]], "#0072b2", "o", 7)
    style.percent_axis(axis, "hit rate, mean of findings, %")
    axis.set_ylim(-len(order) + 0.4, 0.95)
    style.name_rows(axis, place, place.values())
    return figure


def cells(chosen: np.ndarray[Any, Any], correct: np.ndarray[Any, Any], name: str) -> Figure:
    """Draw how often each grid cell is chosen, and how often it is right.

    The shares are two arrays ``(8, 8)``, top row first.
    """
    figure, axes = style.figure(7.4, 3.7, 2)
    for axis, values, title in ((axes[0], chosen, f"chosen by {name}"), (axes[1], correct, "right cells")):
        _shade(axis, values, max(float(values.max()), 1e-9))
        axis.set_aspect("equal")
        axis.set_xticks(range(8), list("ABCDEFGH"))
        axis.set_yticks(range(8), [str(row) for row in range(1, 9)])
        axis.xaxis.tick_top()
        axis.tick_params(length=0)
        axis.set_xlabel(title, parse_math=False)
    return figure


def subgroups(table: pl.DataFrame, order: Sequence[str]) -> Figure | None:
    """Draw a heat map of scores: a row for each model, a column for each group of patients or cases, such as "sex: F".

    A score is the mean over levels. The columns are in the order of ``table``.
    """
    keys = table.select("dimension", "group").unique(maintain_order=True).rows()
    if not keys:
        return None
    means = (
        table.filter(pl.col("score").is_in(LEVELS))
        .group_by("model", "dimension", "group", maintain_order=True)
        .agg(pl.col("value").mean())
    )
    heads = [f"{dimension}: {words(group)}" for dimension, group in keys]
    values = _matrix(means, order, "value", keys, ["dimension", "group"])
    return heat(values, order, heads, "mean of levels, corrected for chance, %")


def states(table: pl.DataFrame, order: Sequence[str]) -> Figure | None:
    """Draw the share of items that ended in each state, for every model."""
    rows = {row["model"]: row for row in table.to_dicts()}
    used = [state for state in STATES if any(row[state] for row in rows.values())]
    if not used:
        return None
    figure, (axis,) = style.figure(8.6, 1.3 + 0.32 * len(order))
    left = np.zeros(len(order))
    places = [-number for number in range(len(order))]
    for state in used:
        width = np.array([rows[model][state] / rows[model]["items"] for model in order])
        axis.barh(places, width, left=left, height=0.72, color=STATE_COLOURS[state], label=words(state),
                  edgecolor="white", linewidth=0.4)  # fmt: skip
        left += width
    style.name_rows(axis, order, places)
    style.percent_axis(axis, "items, %")
    axis.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, fontsize=9)
    return figure


def grounded(table: pl.DataFrame, order: Sequence[str]) -> Figure | None:
    """Draw each model's net grounding and the share of its answers that are both right and grounded, with intervals.

    ``chexqa.eval.grounding.net_grounding`` explains net grounding.
    """
    rows = {row["model"]: row for row in table.to_dicts() if row["net_grounding"] is not None}
    if not rows:
        return None
    figure, axes = style.figure(7.6, 1.25 + 0.34 * len(rows), 2, share_y=True)
    place = {model: -number for number, model in enumerate(filter(rows.get, order))}
    for axis, (column, label) in zip(axes, _GROUNDING.items(), strict=True):
        for model, y in place.items():
            style.whiskers(axis, rows[model], column, y, "#0072b2", "o")
        style.percent_axis(axis, label, -0.5 if column == "net_grounding" else 0.0)
    style.name_rows(axes[0], place, place.values())
    return figure
