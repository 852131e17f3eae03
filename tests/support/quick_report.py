"""A report without what takes time: pictures of plots, and many draws."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from chexqa.eval.report import plots
from chexqa.eval.scoring import significance
from chexqa.eval.tables import model_pairs


class Nothing:
    """What takes every call and has every part."""

    def __getattr__(self, name: str) -> Nothing:
        return self

    def __call__(self, *args: object, **more: object) -> Nothing:
        return self

    def __iter__(self) -> Iterator[Nothing]:
        return iter(())


def figure(width: float, height: float, columns: int = 1, share_y: bool = False) -> tuple[Any, list[Any]]:
    """A figure on which nothing is drawn, and its axes."""
    return Nothing(), [Nothing()] * columns


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work out what is plotted but draw it on nothing, and draw few signs."""
    monkeypatch.setattr(model_pairs, "sign_flips", partial(significance.sign_flips, draws=50))
    monkeypatch.setattr(plots, "_figure", figure)
    monkeypatch.setattr(plots, "svg_file", lambda figure: b"<svg ></svg>")
    monkeypatch.setattr(plots, "png_file", lambda figure: b"")
