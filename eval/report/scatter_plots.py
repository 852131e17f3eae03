"""Scatter plots of accuracy against net grounding, and of score against costs: a point for each model, labelled so that
names do not overlap.

The plot of net grounding is as wide as a column of a journal (85 mm). The shape of a point shows the verdict on the
model: triangle "uses the lesion", cross "not shown to use it", circle "undecided".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.textpath import text_to_path

from chexqa.eval.grounding.net_grounding import NOT_SHOWN, UNDECIDED, USES
from chexqa.eval.models.registry import BASELINE, READERS
from chexqa.eval.report import plot_style as style

# Sizes of text in points; the smallest text that journals accept has 6.
_NAMES, _TICKS = 6.5, 7
# Widths in inches. A saved file has 0.1 inch more on each side.
_COLUMN, _LONGEST_NAME = 3.14, 1.3
_TALLEST = 9.0
# Letters of names for which an inch more is given to the plane's height.
_LETTERS = 200
# Places that are tried for a name, the nearest first.
_TRIED = 60
# Cost of a name without a place, in pixels.
_WITHOUT = 1e5
_MARKS = {USES: "^", NOT_SHOWN: "x", UNDECIDED: "o"}
_COLOURS = {READERS: "#d55e00", BASELINE: "#444444"}
Place = tuple[float, float]
# Left, low, right, high.
Box = tuple[float, float, float, float]
Boxes = np.ndarray[Any, Any]
Ends = tuple[float | None, float | None, float | None, float | None]


def grounding(table: pl.DataFrame, order: Sequence[str]) -> Figure | None:
    """Draw each model's accuracy of detection against its net grounding, with intervals in both directions.

    Net grounding is the share of answers that change when the lesion is filled in, minus the share that change when
    lung elsewhere is filled in.
    """
    known = table.drop_nulls(["net_grounding", "accuracy"])
    found = {row["model"]: row for row in known.to_dicts()}
    rows = [found[model] for model in order if model in found]
    if not rows:
        return None
    letters = sum(min(len(row["model"]), 26) for row in rows)
    height = min(2.2 + letters / _LETTERS, _TALLEST)
    while True:
        figure, unnamed = _grounding(rows, height)
        if not unnamed or height >= _TALLEST:
            return figure
        height += 0.5


def _grounding(rows: Sequence[dict[str, Any]], height: float) -> tuple[Figure, int]:
    """Return the plot of net grounding, and the number of models whose name has no place in it."""
    figure, axis = _plane(_COLUMN, height, 0.42)
    left = _scale(axis, rows)
    axis.axhline(0, color=style.PALE, linewidth=1, linestyle=(0, (4, 2)))
    line = axis.text(left + 0.01, 0.01, "does not look", color=style.PALE, fontsize=_NAMES, va="bottom")
    for row in rows:
        x, y = row["accuracy"], row["net_grounding"]
        colour = next((one for start, one in _COLOURS.items() if row["model"].startswith(start)), "#0072b2")
        thin: dict[str, Any] = {"color": colour, "linewidth": 0.7, "alpha": 0.5, "clip_on": False, "zorder": 2}
        if row["accuracy_low"] is not None:
            axis.plot([row["accuracy_low"], row["accuracy_high"]], [y, y], **thin)
        if row["net_grounding_low"] is not None:
            axis.plot([x, x], [row["net_grounding_low"], row["net_grounding_high"]], **thin)
        axis.plot([x], [y], clip_on=False, zorder=3, **_look(row["looks"], colour))
    verdicts = [verdict for verdict in _MARKS if any((row["looks"] or UNDECIDED) == verdict for row in rows)]
    shown = [Line2D([], [], linestyle="none", label=verdict, **_look(verdict, "#0072b2")) for verdict in verdicts]
    figure.legend(handles=shown, loc="upper left", bbox_to_anchor=(0, 1), ncols=3, frameon=False, fontsize=_NAMES,
                  handletextpad=0.1, columnspacing=0.8, borderpad=0, borderaxespad=0)  # fmt: skip
    points = [(row["model"], row["accuracy"], row["net_grounding"]) for row in rows]
    columns = [f"{column}_{end}" for column in ("accuracy", "net_grounding") for end in ("low", "high")]
    ends: list[Ends] = [tuple(row[column] for column in columns) for row in rows]
    return figure, name_points(axis, points, ends, line)


def _scale(axis: Axes, rows: Sequence[dict[str, Any]]) -> float:
    """Set the scales of the plot of net grounding, from the least numbers of the rows up to 100.

    Return the least accuracy of the scale.
    """
    left = max(np.floor(min(row["accuracy_low"] or row["accuracy"] for row in rows) / 0.25 - 1e-9) * 0.25, 0)
    low = min(-0.25, *(row["net_grounding_low"] or 0.0 for row in rows))
    axis.set(xlim=(left, 1), ylim=(low, 1))
    across = np.arange(left, 1.01, 0.25 if left < 0.75 else 0.05)
    axis.set_xticks(across, [f"{100 * tick:.0f}" for tick in across])
    up = np.arange(np.ceil(low / 0.25), 5) * 0.25
    axis.set_yticks(up, [f"{100 * tick:.0f}".replace("-", "−") for tick in up])
    axis.set_xlabel("detection right, %", fontsize=_TICKS)
    axis.set_ylabel("net grounding, points", fontsize=_TICKS)
    return float(left)


def _look(verdict: str | None, colour: str) -> dict[str, Any]:
    """Return how a mark is drawn: full, a cross or hollow, so that its shape tells the verdict."""
    mark = _MARKS[verdict or UNDECIDED]
    fill = "white" if mark == "o" else colour
    return {"marker": mark, "markersize": 5, "markerfacecolor": fill, "markeredgecolor": colour, "markeredgewidth": 1.1}


def cost(points: Sequence[tuple[str, float | None, float]]) -> Figure | None:
    """Draw accuracy corrected for chance against dollars per thousand items (log scale).

    ``points`` has a tuple ``(model, dollars, corrected)`` for each model.
    """
    known = [(model, dollars, 100 * value) for model, dollars, value in points if dollars]
    if not known:
        return None
    figure, axis = _plane(7.2, 4.2, 0.6, 10)
    axis.set_xscale("log")
    axis.plot([dollars for _, dollars, _ in known], [value for *_, value in known], "o", color="#0072b2", markersize=7)
    axis.margins(0.12)
    axis.autoscale_view()
    axis.set_xlabel("dollars for 1,000 items (log scale)")
    axis.set_ylabel("mean of levels, corrected for chance, %")
    name_points(axis, known, size=8, longest=2.0)
    return figure


def _plane(width: float, height: float, left: float, size: float = _TICKS) -> tuple[Figure, Axes]:
    """Return a figure with one axis at a fixed place, so that the places of names can be computed before it is drawn.

    ``width``, ``height`` and the margin ``left`` are in inches; ``size`` is the size of the numbers on the axes.
    """
    figure, (axis,) = style.figure(width, height)
    figure.set_layout_engine("none")
    below, above = (0.36, 0.22) if size == _TICKS else (0.55, 0.1)
    axis.set_position((left / width, below / height, 1 - (left + 0.1) / width, 1 - (below + above) / height))
    axis.tick_params(labelsize=size, length=2, pad=2)
    axis.grid(color=style.PALE, alpha=0.25, linewidth=0.6)
    return figure, axis


def name_points(axis: Axes, points: Sequence[tuple[str, float, float]], ends: Iterable[Ends] = (), other: Any = None,
                size: float = _NAMES, longest: float = _LONGEST_NAME) -> int:  # fmt: skip
    """Write a name beside each point ``(name, x, y)``; return the number of names without a place.

    ``ends`` are the points' intervals ``(x_low, x_high, y_low, y_high)``, which names avoid if they can. ``other`` is a
    text of the plot that no name may cover. ``longest`` is the width in inches at which a name is cut.
    """
    figure = axis.get_figure(root=True)
    assert figure is not None
    scale, to_pixels, frame = figure.dpi / 72, axis.transData.transform, axis.get_window_extent()
    font, high, around = FontProperties(family="DejaVu Sans", size=size), 1.3 * size * scale, 4 * scale

    def wide(text: str) -> float:
        return float(scale * (text_to_path.get_text_width_height_descent(text, font, False)[0] + 4))

    places: list[Place] = [tuple(to_pixels((x, y)).tolist()) for _, x, y in points]
    taken: list[Box] = [(x - around, y - around, x + around, y + around) for x, y in places]
    if other is not None:
        x, y = to_pixels(other.get_position())
        taken.append((x, y, x + wide(other.get_text()), y + high))
    lines: list[Box] = []
    for (x, y), (left, right, low, top) in zip(places, ends, strict=False):
        if left is not None and right is not None:
            lines.append((to_pixels((left, 0))[0], y - 1, to_pixels((right, 0))[0], y + 1))
        if low is not None and top is not None:
            lines.append((x - 1, to_pixels((0, low))[1], x + 1, to_pixels((0, top))[1]))
    texts = [_shortened(name, lambda text: wide(text) <= longest * figure.dpi) for name, *_ in points]
    inside = (frame.x0, frame.y0, frame.x1 + 0.08 * figure.dpi, frame.y1)
    boxes = _boxes(places, [(wide(text), high) for text in texts], inside, taken, lines, around)
    to_data = axis.transData.inverted().transform
    for (x, y), text, box in zip(places, texts, boxes, strict=True):
        if box is None:
            continue
        end = _nearest((x, y), box)
        if np.hypot(end[0] - x, end[1] - y) > 1.8 * around:
            (x_mark, y_mark), (x_end, y_end) = to_data([(x, y), end])
            axis.plot([x_mark, x_end], [y_mark, y_end], color=style.PALE, linewidth=0.6, zorder=1, clip_on=False)
        x, y = to_data((box[0] + 2 * scale, box[1] + 0.32 * size * scale))
        axis.text(x, y, text, fontsize=size, color=style.INK, parse_math=False, gid="name", zorder=4,
                  bbox={"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 0.2})  # fmt: skip
    return boxes.count(None)


def _shortened(name: str, fits: Callable[[str], bool]) -> str:
    """Return the name, without letters of its middle if it does not fit: names of a family differ at their end."""
    text, kept = name, len(name)
    while not fits(text) and kept > 2:
        kept -= 1
        text = f"{name[: kept - kept // 2]}…{name[len(name) - kept // 2 :]}"
    return text


def _boxes(places: Sequence[Place], sizes: Sequence[Place], inside: Box, taken: Sequence[Box], lines: Sequence[Box],
           around: float) -> list[Box | None]:  # fmt: skip
    """Return a box for the name at each place, from the best of a few orders in which the names are placed."""
    numbers = range(len(places))
    orders = [sorted(numbers, key=lambda one: sign * places[one][axis]) for axis in (0, 1) for sign in (1, -1)]
    found = [_in_order(order, places, sizes, inside, taken, lines, around) for order in orders]
    boxes, _ = min(found, key=lambda one: one[1])
    return [boxes[number] for number in numbers]


def _in_order(order: Sequence[int], places: Sequence[Place], sizes: Sequence[Place], inside: Box, taken: Sequence[Box],
              lines: Sequence[Box], around: float) -> tuple[dict[int, Box | None], float]:  # fmt: skip
    """Place the names one after the other; return their boxes and the cost of all."""
    boxes: dict[int, Box | None] = {}
    filled, crossed, whole = [*taken], [*lines], 0.0
    for number in order:
        box, cost = _place(places[number], sizes[number], inside, np.array(filled), np.array(crossed), around)
        boxes[number], whole = box, whole + cost
        if box is not None:
            filled.append(box)
            crossed += _along(places[number], box).tolist()
    return boxes, whole


def _place(at: Place, size: Place, inside: Box, taken: Boxes, lines: Boxes, around: float) -> tuple[Box | None, float]:
    """Return the best box for a name, and its cost.

    The box is inside and off all boxes that are taken. It is near its mark, off lines, and the line to its mark crosses
    no box, if that is possible.
    """
    grid = np.meshgrid(around * 1.1 * 1.15 ** np.arange(34), np.arange(32), indexing="ij")
    away, turn = (one.ravel() for one in grid)
    across, up = np.cos(np.pi * turn / 16), np.sin(np.pi * turn / 16)
    left = at[0] + away * across - size[0] * (1 - across) / 2
    low = at[1] + away * up - size[1] * (1 - up) / 2
    boxes = np.column_stack([left, low, left + size[0], low + size[1]])
    free = np.flatnonzero((boxes[:, :2] >= inside[:2]).all(axis=1) & (boxes[:, 2:] <= inside[2:]).all(axis=1))
    free = free[~_meet(boxes[free], taken).any(axis=1)]
    costs = away[free] + around * (_meet(boxes[free], lines).sum(axis=1) + (turn[free] > 0))
    best: Box | None = None
    least = _WITHOUT
    for number in np.argsort(costs, kind="stable")[:_TRIED]:
        if costs[number] >= least:
            break
        box: Box = tuple(boxes[free[number]].tolist())
        cost = float(costs[number] + 5 * around * _meet(_along(at, box)[2:], taken).any(axis=1).sum())
        if cost < least:
            best, least = box, cost
    return best, least


def _nearest(at: Place, box: Box) -> Place:
    """Return the place of a box that is nearest to ``at``."""
    return min(max(at[0], box[0]), box[2]), min(max(at[1], box[1]), box[3])


def _along(at: Place, box: Box) -> Boxes:
    """Return small boxes along the line from a mark to the box of its name."""
    end = _nearest(at, box)
    steps = np.linspace(at, end, max(int(np.hypot(end[0] - at[0], end[1] - at[1]) // 4), 2))
    return np.hstack([steps - 1, steps + 1])


def _meet(ones: Boxes, others: Boxes) -> np.ndarray[Any, Any]:
    """Return which boxes ``(n, 4)`` overlap which others ``(m, 4)``, as bool ``(n, m)``."""
    one, other = ones[:, None, :], others.reshape(-1, 4)[None]
    is_met = (one[..., :2] < other[..., 2:]) & (other[..., :2] < one[..., 2:])
    return np.asarray(is_met.all(axis=2))
