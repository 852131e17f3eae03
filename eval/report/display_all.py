"""Choice of the tables on the terminal: those that the user names, or a first set if none is named."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from chexqa.eval.grounding.terminal_table import grounding_table
from chexqa.eval.report import display, display_comparisons, display_readers
from chexqa.eval.report.display_notes import plain_table, print_table
from chexqa.eval.report.write import Frames
from chexqa.eval.tables.all_tables import Group

ALL = "all"
# Tables that are printed if none is named: the main scores, and tables that only certain options or runs fill.
FIRST = ("headline", "places", "where", "random_readers", "readers", "grounding", "powered", "plan")
NAMES = (
    "headline", "accuracy", "drops", "states", "depth", "stages", "decisions", "kinds", "grid", "places", "where",
    "agreement", "random_readers", "readers", "grounding", "powered", "pairs", "plan", "without_radiograph",
    "protocols", "rankings",
)  # fmt: skip


def show(group: Group, out: Console, named: Collection[str] = ()) -> None:
    """Print the named tables, or the tables of :data:`FIRST` if none is named; then print the names of the other
    tables.

    The name ``all`` means every table.
    """
    # If another reader's masks were given, the table of kinds is printed, because it has a row on them.
    asked = ("kinds",) if group.tables["second_reader"].height else ()
    wanted = None if ALL in named else named or (*FIRST, *asked)
    left = display.show(group.graded, group.tables, out, wanted)
    for name, table in _of_models(group.tables):
        if wanted is None or name in wanted:
            print_table(table, out)
        else:
            left.append(name)
    if left and not named:
        out.print()
        out.print(Text(f"More tables (--table NAME, or --table {ALL}): {', '.join(dict.fromkeys(left))}.", style="dim"))


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
