"""Choice of the tables on the terminal: those that the user names, or a first set if none is named."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import takewhile

import polars as pl
from rich.console import Console
from rich.table import Table
from rich.text import Text

from chexqa.eval.grounding.terminal_table import grounding_table
from chexqa.eval.report import display, display_comparisons, display_readers
from chexqa.eval.report.display_notes import models_first, plain_table, print_table, without_rows
from chexqa.eval.report.write import Frames
from chexqa.eval.tables.all_tables import CONDITIONS, Group
from chexqa.eval.tables.glossary import TABLES
from chexqa.eval.tables.numbers_markdown_latex import papers, words
from chexqa.files.terminal import Name

ALL = "all"
# Tables that are printed if none is named: the main scores, and tables that only certain options or runs fill.
FIRST = ("headline", "places", "where", "random_readers", "readers", "grounding", "powered", "plan")
# Tables with a layout of their own for the terminal.
LAID_OUT = (
    "headline", "accuracy", "drops", "states", "depth", "stages", "decisions", "kinds", "grid", "places", "where",
    "agreement", "random_readers", "readers", "grounding", "powered", "pairs", "plan", "without_radiograph",
    "protocols", "rankings",
)  # fmt: skip
# All other tables of a report are printed with the columns of their files.
NAMES = (*LAID_OUT, *(name for name in TABLES if name not in LAID_OUT))


def show(group: Group, out: Console, named: Collection[str] = ()) -> None:
    """Print the named tables, or the tables of :data:`FIRST` if none is named; then print the names of the other
    tables.

    The name ``all`` means every table of :data:`LAID_OUT`.
    """
    # If another reader's masks were given, the table of kinds is printed, because it has a row on them.
    asked = ("kinds",) if group.tables["second_reader"].height else ()
    wanted = LAID_OUT if ALL in named else named or (*FIRST, *asked)
    found = display.show(group.graded, group.tables, out, wanted)
    for name, table in (*_of_models(group.tables), *_as_filed(group.tables)):
        found.append(name)
        if name in wanted:
            print_table(table, out)
    for name in dict.fromkeys(named):
        if name not in (*found, ALL):
            out.print()
            out.print(Text(without_rows(name)), soft_wrap=True)
    left = [name for name in dict.fromkeys(found) if name not in wanted]
    laid_out, as_filed = ([name for name in left if (name in LAID_OUT) == own] for own in (True, False))
    if left and not named:
        out.print()
        out.print(Text(f"More tables (--table A,B or --table {ALL}): {', '.join(laid_out)}.", style="dim"))
        out.print(Text(f"With the columns of their files (--table A,B): {', '.join(as_filed)}.", style="dim"))


def _of_models(frames: Frames) -> Iterator[tuple[str, Table]]:
    """Yield the name and the table of each comparison of models, and of the plan.

    The tables compare models with readers, with each other, on altered pictures and without pictures.
    """
    for name, tables in (
        ("random_readers", display_readers.random_tables(frames)),
        ("readers", display_readers.tables(frames)),
        ("grounding", grounding_table(frames, plain_table)),
        ("powered", display_readers.powered_tables(frames)),
    ):
        for table in tables:
            yield name, table
    yield from display_comparisons.tables(frames)


def _as_filed(frames: Frames) -> Iterator[tuple[str, Table]]:
    """Yield each table that has rows but no layout of its own, with the columns of its file.

    The texts at the beginning of a row stand together in the first column, so that every part of a wide table names its
    rows. The columns of :data:`CONDITIONS` are left out, because the name of the protocol tells them.
    """
    for name, whole in frames.items():
        if name in LAID_OUT or not whole.height:
            continue
        frame = whole.drop(CONDITIONS, strict=False)
        texts = {words(column) for column, kind in frame.schema.items() if kind == pl.String}
        for caption, heads, rows, notes in papers(name, models_first(frame)):
            many = min(max(1, sum(1 for _ in takewhile(texts.__contains__, heads))), len(heads) - 1)
            table = plain_table(caption, ", ".join(heads[:many]), heads[many:], " ".join(notes))
            table.columns[0].max_width = 40
            for row in rows:
                table.add_row(Name(", ".join(row[:many])), *map(Text, row[many:]))
            yield name, table
