"""Planes of models as files: names that are readable in a journal's column, and verdicts without colour."""

import re
from itertools import combinations

import numpy as np
import polars as pl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rest_long import rest_long

from chexqa.eval.grounding.net_grounding import NOT_SHOWN, UNDECIDED, USES
from chexqa.eval.report import plot_style, scatter_plots
from chexqa.files.terminal import PHANTOM_NOTICE

COLUMN = 85 / 25.4 * 72  # points


def table(models: int, spread: float) -> pl.DataFrame:
    """Return rows of models around one place of the plane, one without an interval of net grounding."""
    draws = np.random.default_rng(5).normal([0.85, 0.4], spread, (models, 2))
    rows = [
        {
            "model": f"laboratory/model-of-a-family-{number}b",
            "accuracy": accuracy,
            "accuracy_low": accuracy - 0.08,
            "accuracy_high": min(accuracy + 0.08, 1.0),
            "net_grounding": net,
            "net_grounding_low": net - 0.2 if number else None,
            "net_grounding_high": net + 0.2 if number else None,
            "looks": (USES, NOT_SHOWN, UNDECIDED)[number % 3],
        }
        for number, (accuracy, net) in enumerate(np.clip(draws, 0, 1).tolist())
    ]
    return pl.DataFrame(rows)


def boxes(figure: Figure) -> list[tuple[float, ...]]:
    """Return the boxes of the names after the figure is drawn."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    names = [text for text in figure.axes[0].texts if text.get_gid() == "name"]
    return [tuple(text.get_window_extent(renderer).extents) for text in names]


def overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Return whether two boxes have a place in common, apart from a dot on their edges."""
    return all(one[axis] + 1 < other[axis + 2] and other[axis] + 1 < one[axis + 2] for axis in (0, 1))


@pytest.mark.parametrize(("models", "spread"), rest_long([(30, 0.03), (3, 0.0), (17, 0.1)], keep=1, names=2))
def test_every_model_of_the_plane_of_grounding_is_named_within_a_column(models: int, spread: float) -> None:
    rows = table(models, spread)
    figure = scatter_plots.grounding(rows, rows["model"].to_list())
    assert figure is not None
    found = boxes(figure)
    assert len(found) == models
    assert [pair for pair in combinations(found, 2) if overlap(*pair)] == []
    drawn = plot_style.svg_file(plot_style.say(figure, PHANTOM_NOTICE)).decode()
    wide = re.search(r'width="([\d.]+)pt"', drawn)
    assert wide is not None
    assert float(wide[1]) <= COLUMN
    assert min(float(size) for size in re.findall(r"font-size: ([\d.]+)px", drawn)) >= 6


def test_a_verdict_is_told_by_the_shape_of_its_mark() -> None:
    rows = table(3, 0.1).with_columns(model=pl.Series(["a", "reader/b", "baseline/c"]))
    figure = scatter_plots.grounding(rows, rows["model"].to_list())
    assert figure is not None
    (key,) = figure.legends
    shapes = {text.get_text(): (line.get_marker(), line.get_markerfacecolor() == "white")
              for text, line in zip(key.get_texts(), key.get_lines(), strict=True)}  # fmt: skip
    assert [*shapes] == [USES, NOT_SHOWN, UNDECIDED]
    assert len({*shapes.values()}) == 3
    marks = [line for line in figure.axes[0].lines if line.get_marker() != "None"]
    assert [(mark.get_marker(), mark.get_markerfacecolor() == "white") for mark in marks] == [*shapes.values()]


def test_models_at_the_same_price_have_names_that_do_not_overlap() -> None:
    figure = scatter_plots.cost([(f"model-{number}", 2.0, 0.5 + number / 1000) for number in range(8)])
    assert figure is not None
    found = boxes(figure)
    assert len(found) == 8
    assert [pair for pair in combinations(found, 2) if overlap(*pair)] == []
