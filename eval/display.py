"""Tables on the terminal: percent, readable at 80 columns, with reference rows under the models' own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from chexqa.eval import tables
from chexqa.eval.grading import MISSES, STATES, Graded
from chexqa.eval.report import published
from chexqa.items import KINDS, LEVELS, PATH_STAGES, PATHS
from chexqa.records import Record
from chexqa.terminal import PHANTOM_NOTICE, plural

NO_NUMBER = "–"
HEADS = {
    "detection": "detec-\ntion",
    "contour_evaluation": "con-\ntour",
    "revision_expansion": "ex-\npand",
    "revision_contraction": "con-\ntract",
    "revision_result": "re-\nsult",
    "distribution": "distri-\nbution",
    "location": "loca-\ntion",
    "severity": "sever-\nity",
    "comparison": "compa-\nrison",
    "grid_cell": "grid",
}
PATH_NAMES = {
    "lesion_free": "lesion-\nfree",
    "revision_free": "revision-\nfree",
    "revision_required": "revision-\nrequired",
}
STATE_HEADS = {
    "correct": "cor-\nrect",
    "unparsed": "un-\nparsed",
    "truncated": "trun-\ncated",
    "refused": "re-\nfused",
    "overflow": "over-\nflow",
    "not_asked": "not\nasked",
}
STAGE_HEADS = {"lesion_free": "free", "revision_free": "fits", "revision_required": "revise"}

Row = dict[str, object]


def show(graded: Graded, out: Console) -> None:
    """Print the tables of every protocol."""
    made = tables.all_tables(graded.grades)
    about = graded.benchmark.about
    out.print(Text(f"Benchmark {about['name']} {about['version']} ({graded.benchmark.hash[:8]})", style="bold"))
    for protocol in graded.grades["protocol"].unique(maintain_order=True):
        part = {name: table.filter(pl.col("protocol") == protocol) for name, table in made.items()}
        out.print()
        out.rule(Text(f"protocol {protocol}", style="bold"), align="left", characters="─")
        for table in _tables(part, protocol, published(graded)):
            out.print()
            out.print(table)
            if graded.benchmark.is_phantom:
                out.print(Text(f"({PHANTOM_NOTICE})", style="yellow"))
        for line in _unfinished(part["states"]):
            out.print(Text(line, style="red"))


def _tables(part: dict[str, pl.DataFrame], protocol: str, others: list[Record]) -> Iterable[Table]:
    yield _levels(part)
    yield _states(part["states"])
    if part["depth"].height:
        yield _depth(part["depth"])
        yield _stages(part["stages"], protocol)
        yield _decisions(part["decisions"])
    yield _kinds(part["kinds"])
    if part["grid"].height:
        yield _grid(part["grid"], others)


def percent(value: object) -> str:
    """``0.8333`` as ``83.3``; no number as a dash."""
    return NO_NUMBER if value is None else f"{100 * float(str(value)):.1f}"


def _table(title: str, heads: Sequence[str], note: str = "") -> Table:
    """An empty table with a column for models and one for each head; many columns stand close together."""
    gap = 1 if len(heads) < 7 else 0
    table = Table(
        title=Text(title, style="bold"), title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False,
        padding=(0, gap, 0, 0), collapse_padding=True, caption=Text(note, style="dim") if note else None,
        caption_justify="left",
    )  # fmt: skip
    table.add_column("model", overflow="fold", max_width=30, vertical="bottom")
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True, vertical="bottom")
    return table


def _add(table: Table, name: str, cells: Iterable[str], style: str = "") -> None:
    """A row; names and cells are text, never markup."""
    table.add_row(Text(name), *(Text(cell) for cell in cells), style=style)


def _models(table: pl.DataFrame) -> list[str]:
    return table["model"].unique(maintain_order=True).to_list()


def _index(table: pl.DataFrame, *keys: str) -> dict[tuple[object, ...], Row]:
    """Rows by the values of the columns ``keys``."""
    return {tuple(row[key] for key in keys): row for row in table.to_dicts()}


def _levels(part: dict[str, pl.DataFrame]) -> Table:
    note = (
        "Levels: accuracy, in brackets corrected for chance (the headline; 0 is guessing); means over the level's item "
        "kinds, without cardiomegaly. Grid: hit rate, mean of findings."
    )
    table = _table("Accuracy by level, beside the grid hit rate (percent)", [*LEVELS, "grid"], note)
    rows = _index(part["levels"], "model", "level")
    cells = _index(part["grid"].filter(pl.col("finding") == tables.MACRO), "model")

    def line(model: str, value: str, corrected: str | None, hits: str) -> list[str]:
        return [
            *(_pair(rows.get((model, level)), value, corrected) for level in LEVELS),
            percent(cells[model,][hits]) if (model,) in cells else NO_NUMBER,
        ]

    models = _models(part["states"])
    for model in models:
        _add(table, model, line(model, "accuracy", "corrected", "hit_rate"))
    table.add_section()
    _add(table, "chance", line(models[0], "chance", None, "chance"), "dim")
    ceiling = percent(cells[models[0],]["ceiling"]) if cells else NO_NUMBER
    _add(table, "most one can reach", ["100.0 (100.0)"] * 3 + [ceiling], "dim")
    return table


def _pair(row: Row | None, value: str, corrected: str | None) -> str:
    if row is None or row[value] is None:
        return NO_NUMBER
    return f"{percent(row[value])} ({percent(row[corrected]) if corrected else '0.0'})"


def _states(states: pl.DataFrame) -> Table:
    shown = [state for state in STATES if state in STATES[:3] or states[state].sum()]
    heads = [STATE_HEADS.get(state, state) for state in shown]
    note = "All but the correct ones count as not correct."
    table = _table("Items by the state they ended in", ["items", *heads], note)
    for row in states.to_dicts():
        _add(table, row["model"], [f"{row[name]:,}" for name in ["items", *shown]])
    return table


def _depth(depth: pl.DataFrame) -> Table:
    rows = _index(depth, "model", "path")
    present = [path for path in PATHS if any(key[1] == path for key in rows)]
    heads = [f"{PATH_NAMES[path]}\n(of {len(PATH_STAGES[path])})" for path in present]
    note = "always yes, yes then no, always no: who says the same to every detection and contour evaluation."
    table = _table("Depth: stages passed in a row, mean of cases", heads, note)

    def cells(model: str, column: str) -> list[str]:
        values = [rows[model, path][column] for path in present]
        return [NO_NUMBER if value is None else f"{float(str(value)):.2f}" for value in values]

    models = _models(depth)
    for model in models:
        _add(table, model, cells(model, "depth"))
    table.add_section()
    for name in tables.CONSTANTS:
        _add(table, name.replace("_", " "), cells(models[0], f"depth_{name}"), "dim")
    return table


def _stages(stages: pl.DataFrame, protocol: str) -> Table:
    rows = _index(stages, "model", "path", "stage")
    columns = [(path, stage) for path in PATHS for stage in PATH_STAGES[path]]
    present = [column for column in columns if any(key[1:] == column for key in rows)]
    reading = stages["reading"][0]
    note = (
        f"Paths: free = no lesion; fits = lesion, contour fits; revise = lesion, contour needs revision. First line: "
        f"{reading}. Gated: once a stage is wrong the later ones are. Product: of the accuracies of the stage's kinds "
        "(all of which must be right for the stage)."
    )
    heads = [f"{STAGE_HEADS[path]}\n{stage}" for path, stage in present]
    table = _table("Accuracy per path and stage (percent)", heads, note)

    def cell(model: str, column: str, path: str, stage: int) -> str:
        row = rows.get((model, path, stage))
        return percent(row[column]) if row else NO_NUMBER

    for model in _models(stages):
        _add(table, model, [cell(model, "accuracy", *place) for place in present])
        _add(table, "  gated", [cell(model, "gated", *place) for place in present], "dim")
        product = [cell(model, "product", *place) if place[1] > 2 else "" for place in present]
        _add(table, "  product", product, "dim")
    return table


def _decisions(decisions: pl.DataFrame) -> Table:
    rates = {"sensitivity": "sens", "specificity": "spec", "yes_rate": "yes", "balanced_accuracy": "bal"}
    kinds = {"detection": "lesion?", "contour_evaluation": "revise?"}
    heads = [f"{name if rate == 'sens' else ''}\n{rate}" for name in kinds.values() for rate in rates.values()]
    note = "sens, spec: sensitivity, specificity; yes: share of yes answers; bal: balanced accuracy (50 is guessing)."
    table = _table("Detection (lesion?) and contour evaluation (revise?), percent", heads, note)
    rows = _index(decisions, "model", "kind")
    for model in _models(decisions):
        found = [rows.get((model, kind), {}) for kind in kinds]
        _add(table, model, [percent(row.get(rate)) for row in found for rate in rates])
    return table


def _kinds(kinds: pl.DataFrame) -> Table:
    rows = _index(kinds, "model", "kind")
    present = [kind for kind in KINDS if any(key[1] == kind for key in rows)]
    table = _table("Accuracy per item kind (percent)", [HEADS[kind] for kind in present])
    models = _models(kinds)
    for model in models:
        _add(table, model, [percent(rows[model, kind]["accuracy"]) for kind in present])
    table.add_section()
    _add(table, "chance", [percent(rows[models[0], kind]["chance"]) for kind in present], "dim")
    _add(table, "most frequent", [percent(rows[models[0], kind]["prior"]) for kind in present], "dim")
    return table


def _grid(grid: pl.DataFrame, others: list[Record]) -> Table:
    macro = _index(grid.filter(pl.col("finding") == tables.MACRO), "model")
    shown = ["hit_rate", "hit_rate_attainable", *MISSES, "no_answer"]
    misses = ["partial\nhit", "wrong\nplace", "wrong\nanatomy", "place\nunknown", "no\nanswer"]
    first = next(iter(macro.values()))
    note = (
        f"{plural(int(str(first['items'])), 'item')}, of which some cell can be hit in {first['attainable']}. Wrong "
        "place: in anatomy that is plausible for the finding; wrong anatomy: outside it."
    )
    if others:
        note += f" Published: {others[0]['measure']}, on {others[0]['sample']}, another sample ({others[0]['source']})."
    table = _table("Grid: one cell of 8 x 8, mean of findings (percent)", ["hits", "hits of\npossible", *misses], note)
    for (model,), row in macro.items():
        _add(table, str(model), [percent(row[name]) for name in shown])
    table.add_section()
    _add(table, "chance", [percent(first["chance"])], "dim")
    _add(table, "most one can reach", [percent(first["ceiling"])], "dim")
    for other in others:
        _add(table, f"{other['name']} (published)", [percent(other["value"])], "dim")
    return table


def _unfinished(states: pl.DataFrame) -> Iterable[str]:
    for row in states.to_dicts():
        count = row["error"] + row["not_asked"]
        if count:
            yield (
                f"{row['model']}: {count:,} of {plural(row['items'], 'item')} unfinished ({row['error']:,} in error, "
                f"{row['not_asked']:,} not asked), so it has no accuracy; the same 'chexqa eval' command asks them "
                "again."
            )
