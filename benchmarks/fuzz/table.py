"""Result of a fuzzing run: a table of tries by kind of file, and the failures grouped by their line in the code."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from workers import Tried

COLUMNS = (
    "tries",
    "exit 0",
    "exit 2",
    "exit 3",
    "exit 1",
    "hangs > 20 s",
    "memory > 1 GB",
    "escapes",
    "keys shown",
    "outside",
)
WRONG = {
    "exit 1": "exit 1",
    "hang": "hangs > 20 s",
    "memory": "memory > 1 GB",
    "escapes": "escapes",
    "key": "keys shown",
    "outside": "outside",
}


def counts(tries: Iterable[Tried]) -> dict[str, Counter[str]]:
    """Return the number of tries and of each outcome (the columns of the table), keyed by kind of file."""
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for one in tries:
        worst = WRONG.get(one.wrong) or f"exit {max(one.codes)}"
        rows[one.kind].update(("tries", worst))
    return dict(sorted(rows.items()))


def show(tries: list[Tried], seconds: float, kept: dict[int, str]) -> None:
    """Print the table of tries, then each distinct failure with the first three tries that showed it."""
    rows = counts(tries)
    table = Table(box=box.SIMPLE_HEAD, show_footer=True)
    total = sum(rows.values(), Counter())
    table.add_column("file kind", footer="all")
    for name in COLUMNS:
        table.add_column(name, justify="right", footer=str(total[name]))
    table.add_column("s per try", justify="right")
    for kind, row in rows.items():
        spent = sum(one.seconds for one in tries if one.kind == kind) / row["tries"]
        table.add_row(kind, *(str(row[name]) for name in COLUMNS), f"{spent:.1f}")
    console = Console(highlight=False, soft_wrap=True, width=150)
    console.print(table)
    console.print(f"{len(tries):,} tries in {seconds:,.0f} s, {len(tries) / max(seconds, 1e-9):.1f} a second")
    groups: dict[tuple[str, str], list[Tried]] = defaultdict(list)
    for one in tries:
        if one.wrong:
            groups[one.wrong, place_of(one)].append(one)
    for (wrong, _), them in sorted(groups.items(), key=lambda entry: -len(entry[1])):
        console.print(f"\n[bold]{len(them)} x {wrong}[/]: {escape(them[0].where)}")
        for one in them[:3]:
            cost = f"{one.seconds:.1f} s, {one.megabytes} MB"
            line = f"  try {one.number} ({one.kind}; {one.change}) {cost}: {'; '.join(one.lines)}"
            console.print(escape(f"{line}  {kept.get(one.number, '')}"))


def place_of(one: Tried) -> str:
    """Return the line and the type of a failure's error; failures with the same line and type are one defect."""
    place, _, error = one.where.partition("  ")
    return place + error.partition(":")[0] if one.wrong in ("exit 1", "hang", "memory") else one.kind
