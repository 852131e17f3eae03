"""Results on the terminal: tables in percent, readable at a width of 80 columns.

Below each number is its interval. The last rows of a table give chance and other references.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import polars as pl
from rich.console import Console
from rich.table import Table
from rich.text import Text

from chexqa.contract.items import PATH_STAGES, PATHS
from chexqa.contract.kinds import KINDS, LEVELS, Kind
from chexqa.eval.place_results.terminal_table import places_table, where_table
from chexqa.eval.report.display_notes import (
    few_patients,
    is_silent,
    models_first,
    plain_table,
    print_table,
    show_reread,
    unfinished_models,
)
from chexqa.eval.report.write import Frames, notice_of
from chexqa.eval.scoring import rereading
from chexqa.eval.scoring.grade import STATES, Graded
from chexqa.eval.scoring.outcomes import MISSES
from chexqa.eval.tables import levels_and_stages
from chexqa.eval.tables.asked_items import endings, in_reading_order, published, remark, shared, simulated, stand_ins
from chexqa.eval.tables.grid import MACRO
from chexqa.eval.tables.model_pairs import CORRECTED, GRID_SCORE
from chexqa.eval.tables.numbers_markdown_latex import NO_NUMBER, OTHERS_CELL, PRIOR, partly_corrected
from chexqa.eval.tables.protocol_pairs import uncompared
from chexqa.files.jsonio import Record
from chexqa.files.terminal import Name, plural

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
UNDER = "95 % intervals below the numbers, where enough patients count."
_OF_ANSWERED = (
    "Answered (shown if below 100): the share of items with a readable answer. Guessed: the score if items without a "
    "readable answer were guessed. "
)
_OTHERS_NOTE = (
    f"{OTHERS_CELL.capitalize()}: hit rate of always choosing the cell that is a hit most often in other patients."
)

Row = dict[str, object]


def show(graded: Graded, frames: Frames, out: Console, wanted: Collection[str] | None = None) -> list[str]:
    """Print the ``wanted`` tables of every protocol (None: all tables); return the names of all tables that have rows.

    ``frames`` has the tables of ``graded``, keyed by name.
    """
    about, notice, names = graded.benchmark.about, notice_of(graded), []
    out.print(Text(f"Benchmark {about['name']} {about['version']} ({graded.benchmark.hash[:8]})", style="bold"))
    if notice:
        out.print(Text(notice.capitalize(), style="yellow"))
    if (said := remark(graded)) is not None:
        out.print(Text(said, style="yellow"))
    for note in filter(
        None,
        (simulated(graded), rereading.mixed(graded.runs), *stand_ins(graded), *endings(graded), *uncompared(frames)),
    ):
        out.print(Text(note, style="yellow"))
    if graded.changed is not None:
        show_reread(graded.changed, sum(rereading.versions(graded.runs).values()), out)
    for protocol in in_reading_order(frames["states"]):
        part = {name: models_first(_under(table, protocol)) for name, table in frames.items()}
        out.print()
        out.rule(Text(f"protocol {protocol}", style="bold"), align="left", characters="─")
        if (few := few_patients(graded.grades.filter(pl.col("protocol") == protocol))) is not None:
            out.print(Text(few, style="yellow"))
        for name, table in _tables(part, published(graded.benchmark), graded.benchmark.kinds):
            names.append(name)
            if wanted is None or name in wanted:
                print_table(table, out)
        for line in unfinished_models(graded, part["states"]):
            out.print(Text(line, style="red"))
    return list(dict.fromkeys(names))


def _under(table: pl.DataFrame, protocol: str) -> pl.DataFrame:
    return table.filter(pl.col("protocol") == protocol) if "protocol" in table.columns else table


def _tables(part: Frames, others: list[Record], kinds: Mapping[str, Kind]) -> Iterable[tuple[str, Table]]:
    """Yield each table that has rows, with its name."""
    if "places" not in part or part["levels"].height or part["grid"].height:
        yield "headline", _headline(part)
    if "places" in part:
        yield "places", places_table(part["places"], part["place_frames"], plain_table)
    if "where" in part and part["where"].height:
        yield "where", where_table(part["where"], plain_table)
    if part["levels"].height:
        yield "accuracy", _accuracy(part)
    if part["drops"].height:
        yield "drops", _drops(part["drops"])
    yield "states", _states(part["states"])
    if part["depth"].height:
        yield "depth", _depth(part["depth"])
        yield "stages", _stages(part["stages"])
        yield "decisions", _decisions(part["decisions"])
    for table in _kinds(part["kinds"], kinds, _index(part["second_reader"], "kind")):
        yield "kinds", table
    if part["grid"].height:
        yield "grid", _grid(part["grid"], others)
    if part["agreement"].height:
        for table in _agreement(part["agreement"], kinds):
            yield "agreement", table


def percent(value: object, decimals: int = 1) -> str:
    """Return a share in percent as text, rounded: ``0.8333`` becomes ``83.3``, and None becomes a dash."""
    return NO_NUMBER if value is None else f"{100 * float(str(value)):z.{decimals}f}"


def spread(row: Row | None, name: str, decimals: int = 0) -> Text:
    """Return a score as text in percent, with its interval on the line below."""
    if row is None or row[name] is None:
        return Text(NO_NUMBER)
    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    text = Text(percent(row[name]))
    if low is not None and high is not None:
        between = " to " if float(str(low)) < 0 else "–"
        text.append(f"\n{percent(low, decimals)}{between}{percent(high, decimals)}", style="dim")
    return text


def _table(title: str, heads: Sequence[str], note: str = "") -> Table:
    return plain_table(title, "model", heads, note)


def _add(table: Table, name: str, cells: Iterable[str | Text], style: str = "") -> None:
    """Add a row; names and cells are text, never markup."""
    table.add_row(Name(name), *(Text(cell) if isinstance(cell, str) else cell for cell in cells), style=style)


def _models(table: pl.DataFrame) -> list[str]:
    return table["model"].unique(maintain_order=True).to_list()


def _index(table: pl.DataFrame, *keys: str) -> dict[tuple[object, ...], Row]:
    """Return the rows, keyed by their values in the columns ``keys``."""
    return {tuple(row[key] for key in keys): row for row in table.to_dicts()}


def _facts(table: pl.DataFrame, *keys: str) -> dict[tuple[object, ...], Row]:
    """Return the values that depend only on the items, such as chance, keyed by the values of ``keys``.

    A value is None if models have different values.
    """
    return {
        key: {name: shared(rows[name]) for name in rows.columns}
        for key, rows in table.group_by(keys, maintain_order=True)
    }


def _headline(part: Frames) -> Table:
    """Return the table of levels, corrected for chance, and of the grid's hit rate; models that cannot be told apart
    share a letter.
    """
    rows = _index(part["levels"], "model", "level")
    cells = _index(part["grid"].filter(pl.col("finding") == MACRO), "model")
    has_unread = any(row["answered"] not in (None, 1) for row in part["levels"].to_dicts())
    letters = {(row["model"], row["score"]): row["letters"] or "" for row in part["groups"].to_dicts()}
    silent = part["states"].filter(is_silent())["model"].to_list()
    lettered = part["pairs"].filter(pl.col("family").is_in(CORRECTED)).height > 0
    note = (
        "Levels: accuracy corrected for chance (0: guessing, or a constant yes or no; 100: all right), mean over the "
        "level's kinds, without cardiomegaly. Grid: hit rate, mean of findings. Most frequent answer: score of always "
        "giving the answer that is most frequent among other patients' items of the kind and finding; it can be below "
        "guessing, which is then what to compare with. "
        f"{_OF_ANSWERED if has_unread else ''}"
        f"{_OTHERS_NOTE} {UNDER}"
    )
    note = " ".join([note, *partly_corrected(part["levels"])])
    if lettered:
        note += " Models with a common letter do not differ significantly (sign-flip test over patients, Holm, 5 %)."
    columns = [*LEVELS, levels_and_stages.OVERALL]
    table = _table("Headline (percent)", [*LEVELS, "mean", "grid"], note)

    def scored(row: Row | None, name: str, key: tuple[str, str]) -> Text:
        text = spread(row, name, 1)
        first, _, rest = text.plain.partition("\n")
        mark = letters.get(key, "") if lettered and key[0] not in silent else ""
        shown = Text(f"{first} {mark}".rstrip())
        return shown.append(f"\n{rest}", style="dim") if rest else shown

    for model in _models(part["states"]):
        levels = [scored(rows.get((model, level)), "corrected", (model, level)) for level in columns]
        _add(table, model, [*levels, scored(cells.get((model,)), "hit_rate", (model, GRID_SCORE))])
        unread = cells.get((model,), {}).get("no_answer")
        shares = [rows.get((model, level), {}).get("answered") for level in columns]
        shares.append(None if unread is None else 1 - float(str(unread)))
        if any(share not in (None, 1) for share in shares):
            _add(table, "  answered", map(percent, shares), "dim")
        if any(share not in (None, 1) for share in shares[:-1]):
            guessed = [spread(rows.get((model, level)), "corrected_guessed", 1) for level in columns]
            _add(table, "  guessed", [*guessed, NO_NUMBER], "dim")
    table.add_section()
    facts = _facts(part["levels"], "level")
    grid = _facts(part["grid"], "finding").get((MACRO,), {})

    def of_levels(name: str) -> list[str]:
        return [percent(facts.get((level,), {}).get(name)) for level in columns]

    _add(table, "chance", [*("0.0" if (level,) in facts else NO_NUMBER for level in columns),
                           percent(grid.get("chance"))], "dim")  # fmt: skip
    _add(table, PRIOR, [*of_levels("prior_corrected"), NO_NUMBER], "dim")
    _add(table, OTHERS_CELL, [*[NO_NUMBER] * 4, percent(grid.get("most_frequent"))], "dim")
    _add(table, "highest possible", [*("100.0" if (level,) in facts else NO_NUMBER for level in columns),
                                    percent(grid.get("ceiling"))], "dim")  # fmt: skip
    return table


def _accuracy(part: Frames) -> Table:
    rows = _index(part["levels"], "model", "level")
    columns = [*LEVELS, levels_and_stages.OVERALL]
    table = _table("Accuracy (percent)", [*LEVELS, "mean"], f"Share of all asked items. {UNDER}")
    for model in _models(part["levels"]):
        _add(table, model, [spread(rows.get((model, level)), "accuracy", 1) for level in columns])
    table.add_section()
    facts = _facts(part["levels"], "level")
    for name, column in (("chance", "chance"), (PRIOR, "prior")):
        _add(table, name, [percent(facts.get((level,), {}).get(column)) for level in columns], "dim")
    return table


def _drops(drops: pl.DataFrame) -> Table:
    steps = drops.select("upper", "lower").unique(maintain_order=True).rows()
    rows = _index(drops, "model", "upper", "lower")
    table = _table("Difference between levels (points of the corrected score)",
                   [f"{upper}\nto {lower}" for upper, lower in steps], UNDER)  # fmt: skip
    for model in _models(drops):
        _add(table, model, [spread(rows.get((model, *step)), "drop", 1) for step in steps])
    return table


def _states(states: pl.DataFrame) -> Table:
    shown = [state for state in STATES if state in STATES[:3] or states[state].sum()]
    heads = [STATE_HEADS.get(state, state) for state in shown]
    note = "All states except 'correct' count as not correct."
    table = _table("Number of questions by final state", ["asked", *heads], note)
    for row in states.to_dicts():
        _add(table, row["model"], [f"{row[name]:,}" for name in ["items", *shown]])
    return table


def _depth(depth: pl.DataFrame) -> Table:
    rows = _index(depth, "model", "path")
    present = [path for path in PATHS if any(key[1] == path for key in rows)]
    heads = [f"{PATH_NAMES[path]}\n(of {len(PATH_STAGES[path])})" for path in present]
    note = (
        "Always yes, yes then no, always no: depth of these constant answers to detection and contour evaluation. "
        f"{UNDER}"
    )
    table = _table("Depth: number of stages passed in a row, mean over cases", heads, note)

    def number(row: Row, name: str) -> str:
        return NO_NUMBER if row[name] is None else f"{float(str(row[name])):.2f}"

    for model in _models(depth):
        cells = []
        for path in present:
            row = rows.get((model, path), {"depth": None, "depth_low": None})
            text = Text(number(row, "depth"))
            if row["depth_low"] is not None:
                text.append(f"\n{number(row, 'depth_low')}–{number(row, 'depth_high')}", style="dim")
            cells.append(text)
        _add(table, model, cells)
    table.add_section()
    facts = _facts(depth, "path")
    for name in levels_and_stages.CONSTANTS:
        cells = [Text(number(facts[path,], f"depth_{name}")) for path in present]
        _add(table, name.replace("_", " "), cells, "dim")
    return table


def _stages(stages: pl.DataFrame) -> Table:
    rows = _index(stages, "model", "path", "stage")
    columns = [(path, stage) for path in PATHS for stage in PATH_STAGES[path]]
    present = [column for column in columns if any(key[1:] == column for key in rows)]
    note = (
        f"Paths: free = no lesion; fits = lesion, contour fits; revise = lesion, contour needs revision. First line: "
        f"{stages['reading'][0]}. Gated: stages after a wrong stage count as wrong. Product: the product of the "
        f"accuracies of the stage's kinds; a stage is right if all its kinds are. {UNDER}"
    )
    heads = [f"{STAGE_HEADS[path]}\n{stage}" for path, stage in present]
    table = _table("Accuracy per path and stage (percent)", heads, note)
    for model in _models(stages):
        _add(table, model, [spread(rows.get((model, *place)), "accuracy") for place in present])
        _add(table, "  gated", [spread(rows.get((model, *place)), "gated") for place in present], "dim")
        product = [percent(rows.get((model, *place), {}).get("product")) if place[1] > 2 else "" for place in present]
        _add(table, "  product", product, "dim")
    table.add_section()
    facts = _facts(stages, "path", "stage")
    _add(table, "chance", [percent(facts[place]["chance"]) for place in present], "dim")
    return table


def _decisions(decisions: pl.DataFrame) -> Table:
    rates = {"sensitivity": "sens", "specificity": "spec", "yes_rate": "yes", "balanced_accuracy": "bal"}
    kinds = {"detection": "lesion?", "contour_evaluation": "revise?"}
    heads = [f"{name if rate == 'sens' else ''}\n{rate}" for name in kinds.values() for rate in rates.values()]
    note = (
        "sens, spec: sensitivity, specificity; yes: share of yes answers; bal: balanced accuracy (50 is guessing). "
        f"{UNDER}"
    )
    table = _table("Detection (lesion?) and contour evaluation (revise?), percent", heads, note)
    rows = _index(decisions, "model", "kind")
    present = {kind for _, kind in rows}
    for model in _models(decisions):
        _add(table, model, [spread(rows.get((model, kind)), rate) for kind in kinds for rate in rates])
    table.add_section()
    for name, values in (("always yes", ("100", "0", "100", "50")), ("always no", ("0", "100", "0", "50"))):
        _add(table, name, [value if kind in present else NO_NUMBER for kind in kinds for value in values], "dim")
    return table


def _of_kinds(
    table: pl.DataFrame, kinds: Mapping[str, Kind], name: str, column: str
) -> Iterable[tuple[Table, list[str]]]:
    """Yield two tables, each with its kinds of question (its columns): the kinds of chexqa, and all other kinds."""
    rows = _index(table, "model", "kind")
    there = [kind for kind in kinds if any(key[1] == kind for key in rows)]
    own = [kind for kind in there if kind in KINDS]
    for title, present in ((name, own), (f"{name}, other kinds", [kind for kind in there if kind not in own])):
        if present:
            made = _table(f"{title} (percent)", [kinds[kind].heading for kind in present], UNDER)
            for model in _models(table):
                _add(made, model, [spread(rows.get((model, kind)), column) for kind in present])
            yield made, present


def _kinds(table: pl.DataFrame, kinds: Mapping[str, Kind], second: Mapping[tuple[object, ...], Row]
           ) -> Iterable[Table]:  # fmt: skip
    facts = _facts(table, "kind")
    for made, present in _of_kinds(table, kinds, "Accuracy per item kind", "accuracy"):
        made.add_section()
        _add(made, "chance", [percent(facts[kind,]["chance"]) for kind in present], "dim")
        _add(made, PRIOR, [percent(facts[kind,]["prior"]) for kind in present], "dim")
        if second:
            _add(made, "second reader", [spread(second.get((kind,)), "second_reader") for kind in present], "dim")
        yield made


def _grid(grid: pl.DataFrame, others: list[Record]) -> Table:
    macro = _index(grid.filter(pl.col("finding") == MACRO), "model")
    misses = ["partial\nhit", "wrong\nplace", "wrong\nanatomy", "place\nunknown", "no\nanswer"]
    facts = _facts(grid, "finding")[MACRO,]
    note = (
        f"{_attainable(facts)}Covered: the share of the chosen cell that the lesion covers, divided by the same share "
        "of the best cell. Wrong place: a miss in anatomy that is plausible for the finding. Wrong anatomy: a miss "
        f"outside that anatomy. {_OTHERS_NOTE} {UNDER}"
    )
    if others:
        note += (
            f" † Published: {others[0]['measure']}, on {others[0]['sample']}, another sample ({others[0]['source']})."
        )
    heads = ["hits", "hits of\npossible", "co-\nvered", *misses]
    table = _table("Grid: one cell of 8 x 8, mean of findings (percent)", heads, note)
    for (model,), row in macro.items():
        numbers = [spread(row, name) for name in ("hit_rate", "hit_rate_attainable", "coverage")]
        _add(table, str(model), [*numbers, *(percent(row[name]) for name in (*MISSES, "no_answer"))])
    table.add_section()
    for name, column in (("chance", "chance"), (OTHERS_CELL, "most_frequent"),
                         ("highest possible", "ceiling")):  # fmt: skip
        _add(table, name, [percent(facts[column])], "dim")
    for other in others:
        _add(table, f"{other['name']} †", [percent(other["value"])], "dim")
    return table


def _attainable(facts: Row) -> str:
    """Return text with the number of items, and how many of them have a cell that is a hit; "" if models differ."""
    if None in (facts["items"], facts["attainable"]):
        return ""
    return f"{plural(int(str(facts['items'])), 'item')}; in {facts['attainable']} of them at least one cell is a hit. "


def _agreement(table: pl.DataFrame, kinds: Mapping[str, Kind]) -> Iterable[Table]:
    return (made for made, _ in _of_kinds(table, kinds, "Pairs of repeats with the same answer", "same_answer"))
