"""The card's figures as SVG: composition, answers, predictors against chance, lesions, edits.

The same audit gives the same bytes. If the benchmark was made from phantoms, every figure says so.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from chexqa.contract.items import PATHS
from chexqa.contract.kinds import GRID_CELL
from chexqa.files.jsonio import Record
from chexqa.files.terminal import PHANTOM_NOTICE
from chexqa.generators.audit.audit import Audit
from chexqa.generators.audit.rule_scores import Result
from chexqa.imaging.grid import GRID_SIZE

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#666666")
_HATCHES = ("", "//", "..", "xx", "\\\\", "oo", "--", "++")
_STYLE: Any = {"svg.hashsalt": "chexqa", "font.size": 8, "axes.spines.top": False, "axes.spines.right": False}


def draw(audit: Audit) -> dict[str, bytes]:
    """Draw every figure that is not empty; return a dictionary from file name to SVG."""
    figures: dict[str, Callable[[Audit], Figure | None]] = {
        "composition": _composition,
        "answers": _answers,
        "predictors": _predictors,
        "grid": _grid,
        "lesions": _lesions,
        "edits": _edits,
    }
    drawn = {}
    with matplotlib.rc_context(_STYLE):
        for name, make in figures.items():
            figure = make(audit)
            if figure is not None:
                drawn[f"{name}.svg"] = _svg(figure, audit.bench.is_phantom)
    return drawn


def _svg(figure: Figure, phantom: bool) -> bytes:
    if phantom:
        figure.supxlabel(PHANTOM_NOTICE, color="#A04000", fontsize=8)
    file = io.BytesIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": "chexqa"})
    return file.getvalue()


def _figure(width: float, height: float) -> Figure:
    return Figure(figsize=(width, height), layout="constrained")


def _stacked(axes: Axes, rows: Sequence[str], parts: dict[str, list[float]]) -> None:
    """Draw stacked horizontal bars, the first row on top."""
    left = np.zeros(len(rows))
    for index, (name, values) in enumerate(parts.items()):
        color, hatch = PALETTE[index % len(PALETTE)], _HATCHES[index % len(_HATCHES)]
        axes.barh(rows, values, left=left, label=name, color=color, hatch=hatch, edgecolor="white", linewidth=0.5)
        left += values
    axes.invert_yaxis()


def _composition(audit: Audit) -> Figure | None:
    counts: Record = audit.bench.about["counts"]["paths"]
    if not counts:
        return None
    figure = _figure(6.5, 1.2 + 0.28 * len(counts))
    axes = figure.subplots()
    _stacked(axes, list(counts), {p.replace("_", "-"): [float(row[p]) for row in counts.values()] for p in PATHS})
    axes.set_xlabel("cases")
    axes.set_title("Cases by finding and path", loc="left")
    figure.legend(loc="outside upper right", ncols=3, frameon=False)
    return figure


def _answers(audit: Audit) -> Figure | None:
    balance = {kind: found for kind, found in audit.contents["balance"].items() if kind != GRID_CELL}
    if not balance:
        return None
    rows = -(-len(balance) // 2)
    figure = _figure(9, 2.3 * rows + 0.4)
    for axes, (kind, found) in zip(figure.subplots(rows, 2, squeeze=False).flat, balance.items(), strict=False):
        names = list(dict.fromkeys(name for counts in found.values() for name in counts))
        totals = {finding: sum(counts.values()) for finding, counts in found.items()}
        shares = {name: [100 * found[f].get(name, 0) / totals[f] for f in found] for name in names}
        _stacked(axes, list(found), shares)
        axes.set(xlim=(0, 100), xlabel="% of items")
        axes.set_title(kind, loc="left")
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False, fontsize=6)
    for axes in figure.axes[len(balance) :]:
        axes.set_axis_off()
    return figure


def _predictors(audit: Audit) -> Figure | None:
    rows = audit.tested
    if not rows:
        return None
    figure = _figure(9, 1.2 + 0.17 * len(rows))
    axes = figure.subplots()
    for leak, color, marker, label in ((False, PALETTE[0], "o", "within chance"), (True, PALETTE[5], "D", "a leak")):
        _intervals(axes, [(place, row) for place, row in enumerate(rows) if row.leak == leak], color, marker, label)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(rows)), [f"{row.kind}: {row.predictor} ({row.rule})" for row in rows], fontsize=6)
    axes.set(ylim=(len(rows) - 0.5, -0.5), xlabel="points above chance, with the interval (corrected for rules)")
    axes.set_title("Predictors that never look at the anatomy", loc="left")
    figure.legend(loc="outside upper right", ncols=2, frameon=False)
    return figure


def _intervals(axes: Axes, rows: Sequence[tuple[int, Result]], color: str, marker: str, label: str) -> None:
    if not rows:
        return
    middle = np.array([row.share - row.chance for _, row in rows]) * 100
    ends = np.array([[row.share - row.interval[0], row.interval[1] - row.share] for _, row in rows]).T * 100
    places = [place for place, _ in rows]
    axes.errorbar(
        middle, places, xerr=np.maximum(ends, 0), fmt=marker, markersize=3, linewidth=1, color=color, label=label
    )


def _grid(audit: Audit) -> Figure | None:
    found = audit.contents["balance"].get(GRID_CELL)
    if not found:
        return None
    hits: Counter[str] = Counter()
    for counts in found.values():
        hits.update(counts)
    columns = "ABCDEFGH"
    table = np.array([[hits[f"{column}{row}"] for column in columns] for row in range(1, GRID_SIZE + 1)])
    figure = _figure(4.2, 3.8)
    axes = figure.subplots()
    shown = axes.imshow(table, cmap="cividis")
    axes.set_xticks(range(GRID_SIZE), list(columns))
    axes.set_yticks(range(GRID_SIZE), [str(row) for row in range(1, GRID_SIZE + 1)])
    axes.set_title(f"Items in which a cell is a hit ({hits['no cell']} items have no hit)", loc="left")
    figure.colorbar(shown, ax=axes, label="items")
    return figure


def _lesions(audit: Audit) -> Figure | None:
    found = audit.contents["lesion_share"]
    if not found:
        return None
    figure = _figure(6.5, 1 + 0.3 * len(found))
    axes = figure.subplots()
    _boxes(axes, {f"{name} ({box['n']})": box for name, box in found.items()})
    axes.set(xscale="log", xlabel="lesion's share of the picture (least, quartiles, largest)")
    axes.set_title("Size of lesions by finding (cases)", loc="left")
    return figure


def _edits(audit: Audit) -> Figure | None:
    overlap, depth = audit.contents["overlap"], audit.contents["depth"]
    if overlap is None:
        return None
    figure = _figure(6.5, 1.6 if depth is None else 2.6)
    all_axes = figure.subplots(1 if depth is None else 2, 1, squeeze=False).flat
    panels = [("overlap with the right outline (IoU)", overlap), ("depth of an edit, share of the longer side", depth)]
    for axes, (title, box) in zip(all_axes, panels, strict=False):
        _boxes(axes, {f"{box['n']}": box})
        axes.set_title(title, loc="left")
    return figure


def _boxes(axes: Axes, boxes: dict[str, Record]) -> None:
    """Draw boxes from the quartiles, with whiskers to the least and the largest value."""
    rows = [
        {
            "label": name,
            "med": box["median"],
            "q1": box["q1"],
            "q3": box["q3"],
            "whislo": box["min"],
            "whishi": box["max"],
        }
        for name, box in boxes.items()
    ]
    axes.bxp(
        rows,
        orientation="horizontal",
        showfliers=False,
        widths=0.6,
        patch_artist=True,
        boxprops={"facecolor": PALETTE[4], "linewidth": 0.6},
        medianprops={"color": "black"},
    )
    axes.invert_yaxis()
