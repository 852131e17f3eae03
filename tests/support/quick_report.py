"""Reports and audits without their slow parts: drawing of plots, and many draws of signs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from chexqa.eval.report import plot_style, scatter_plots
from chexqa.eval.scoring import significance
from chexqa.eval.tables import model_pairs
from chexqa.generators.audit import plots as audit_plots


class Nothing:
    """An object that accepts every call and has every attribute."""

    def __getattr__(self, name: str) -> Nothing:
        return self

    def __call__(self, *args: object, **more: object) -> Nothing:
        return self

    def __iter__(self) -> Iterator[Nothing]:
        return iter(())


def figure(
    width: float, height: float, columns: int = 1, share_y: bool = False, rows: int = 1
) -> tuple[Any, list[Any]]:
    """Return a figure on which nothing is drawn, and its axes."""
    return Nothing(), [Nothing()] * columns * rows


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the drawing of plots by nothing, and draw only a few signs in tests of differences."""
    monkeypatch.setattr(model_pairs, "sign_flips", partial(significance.sign_flips, draws=50))
    monkeypatch.setattr(plot_style, "figure", figure)
    monkeypatch.setattr(plot_style, "say", lambda figure, notice: figure)
    monkeypatch.setattr(scatter_plots, "name_points", lambda *args, **more: 0)
    monkeypatch.setattr(plot_style, "svg_file", lambda figure: b"<svg ></svg>")
    monkeypatch.setattr(plot_style, "png_file", lambda figure: b"")
    monkeypatch.setattr(audit_plots, "_svg", lambda figure, phantom: b"<svg ></svg>")
