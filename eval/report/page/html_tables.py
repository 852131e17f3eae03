"""HTML tables for the report's page: each heading shows its meaning, and each score has its interval beside it."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from chexqa.eval.tables.glossary import TABLES, meaning
from chexqa.eval.tables.numbers_markdown_latex import WIDE, number_text, papers, words


@dataclass(frozen=True)
class Head:
    """Heading of a column; ``note`` is its meaning."""

    label: str
    is_text: bool
    note: str


@dataclass(frozen=True)
class Cell:
    """Text of a cell, and the interval beside it."""

    text: str
    is_text: bool
    interval: str | None


@dataclass(frozen=True)
class Table:
    """Headings and rows of cells."""

    heads: list[Head]
    rows: list[list[Cell]]


def tables(name: str, frame: pl.DataFrame, leave_out: tuple[str, ...] = ()) -> list[tuple[str, Table]]:
    """Return the table ``name`` of a report with its caption.

    The tables in :data:`WIDE` have the layout of papers: one row per model.
    """
    if name not in WIDE:
        return [(f"{TABLES[name][0].upper()}{TABLES[name][1:]}", _long(frame, leave_out))]
    return [
        (
            caption,
            Table(
                [Head(head, not place, "") for place, head in enumerate(heads)],
                [[_split(text, not place) for place, text in enumerate(row)] for row in rows],
            ),
        )
        for caption, heads, rows in papers(name, frame)
    ]


def _split(text: str, is_text: bool) -> Cell:
    """Return the cell for a text of a number with an interval in brackets behind it."""
    value, bracket, rest = (text, "", "") if is_text else text.partition(" [")
    return Cell(value, is_text, f"[{rest}" if bracket else None)


def _long(frame: pl.DataFrame, leave_out: tuple[str, ...]) -> Table:
    """Return a table with a row for each row of the frame; ``x_low`` and ``x_high`` go into the cell of ``x``."""
    ends = {f"{name}{end}" for name in frame.columns for end in ("_low", "_high")}
    texts = {name: kind == pl.String for name, kind in frame.schema.items() if name not in ends | set(leave_out)}
    heads = [Head(words(name), is_text, meaning(name)) for name, is_text in texts.items()]
    rows = [
        [
            Cell(
                number_text(name, row[name]), is_text, _interval(name, row.get(f"{name}_low"), row.get(f"{name}_high"))
            )
            for name, is_text in texts.items()
        ]
        for row in frame.to_dicts()
    ]
    return Table(heads, rows)


def _interval(name: str, low: float | None, high: float | None) -> str | None:
    return None if low is None or high is None else f"[{number_text(name, low)}, {number_text(name, high)}]"
