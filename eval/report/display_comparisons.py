"""Tables on the terminal that compare models, protocols and rankings of models; printed after the tables of scores."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
from rich.table import Table
from rich.text import Text

from chexqa.contract.kinds import LEVELS
from chexqa.eval.design import plan
from chexqa.eval.report.display import UNDER, spread
from chexqa.eval.report.display_notes import plain_table
from chexqa.eval.report.write import Frames
from chexqa.eval.tables.levels_and_stages import OVERALL
from chexqa.eval.tables.model_pairs import CONFIRMATORY, GRID_SCORE, VERDICTS
from chexqa.eval.tables.numbers_markdown_latex import number_text, words
from chexqa.files.terminal import Name

_COLUMNS: dict[str, str] = {**{str(level): str(level) for level in LEVELS}, OVERALL: "mean", GRID_SCORE: "grid"}
# Up to this number, pairs of models are named one by one.
_NAMED = 6


def margin_note(table: pl.DataFrame) -> str:
    """Return a note that explains the three verdicts (alike, different, not settled), with the table's margin."""
    margin = number_text("margin", table["margin"].drop_nulls().first())
    return (
        f"Alike: the 90 % interval of the difference lies within {margin} points. Different: the difference is "
        "significant (5 %). Not settled: neither alike nor different."
    )


def tables(frames: Frames) -> Iterator[tuple[str, Table]]:
    """Yield the tables of comparisons, each with its name.

    The tables show which of two models is better, what the study planned and did, scores without the radiograph,
    differences between protocols, and the agreement of rankings.
    """
    pairs = frames["pairs"].filter(pl.col("family") == CONFIRMATORY)
    if pairs.height:
        yield "pairs", _verdicts(pairs)
    if frames["plan"].height:
        yield "plan", _plan(frames["plan"])
    if frames["without_radiograph"].height:
        yield "without_radiograph", _without(frames["without_radiograph"])
    for table in _protocols(frames["protocols"]):
        yield "protocols", table
    if frames["rankings"].height:
        yield "rankings", _rankings(frames["rankings"])


def _verdicts(pairs: pl.DataFrame) -> Table:
    """Return the number of pairs of models for each score and verdict; if there are few pairs, the verdict on each
    pair.
    """
    scores = pairs["score"].unique(maintain_order=True).to_list()
    note = f"{margin_note(pairs)} Both tests have Holm's correction for all pairs and scores."
    named = pairs.select("model_a", "model_b").unique(maintain_order=True).rows()
    heads = [_COLUMNS.get(score, score) for score in scores]
    table = plain_table("Pairs of models", "", heads, note)
    found = {(row["model_a"], row["model_b"], row["score"]): row["verdict"] for row in pairs.to_dicts()}
    if len(named) <= _NAMED:
        for one, two in named:
            table.add_row(Name(f"{one}\n  and {two}"), *(found.get((one, two, score)) or "" for score in scores))
        return table
    counts = {(score, verdict): count for score, verdict, count in pairs.group_by("score", "verdict").len().iter_rows()}
    for verdict in VERDICTS:
        table.add_row(verdict, *(f"{counts.get((score, verdict), 0):,}" for score in scores))
    return table


def _plan(table: pl.DataFrame) -> Table:
    """Return a table with a row for each setting of the plan: its planned and its actual value; deviations come
    first.
    """
    made = plain_table(plan.verdict(table), "", ["kept", "planned", "done"])
    for column in made.columns[2:4]:
        column.no_wrap, column.overflow, column.justify = False, "fold", "left"
    for row in table.sort("kept", maintain_order=True).to_dicts():
        name = row["item"] + (f" ({row['protocol']})" if row["protocol"] else "")
        made.add_row(Text(name), "yes" if row["kept"] else "NO", Text(row["planned"]), Text(row["done"]))
    return made


def _without(table: pl.DataFrame) -> Table:
    """Return the scores with and without the radiograph, and their difference, by model and protocol."""
    scores = [score for score in (*LEVELS, GRID_SCORE) if score in table["score"].to_list()]
    rows = {(row["model"], row["protocol"], row["without"], row["score"]): row for row in table.to_dicts()}
    several = table["protocol"].n_unique() > 1
    note = f"First line: with the radiograph. Second line: without it. Third line: the difference. {UNDER}"
    made = plain_table(
        "With and without the radiograph (percent, corrected for chance; grid: hits)", "model", scores, note
    )
    for model, protocol, without in table.select("model", "protocol", "without").unique(maintain_order=True).rows():
        title = f"{model} ({protocol})" if several else model
        for name, column in ((title, "with_image"), (f"  {without}", "without_image"), ("  adds", "difference")):
            cells = [spread(rows.get((model, protocol, without, score)), column, 1) for score in scores]
            made.add_row(Name(name), *cells, style="" if column == "with_image" else "dim")
    return made


def _protocols(table: pl.DataFrame) -> Iterator[Table]:
    """Yield a table of differences for each pair of protocols."""
    rows = {(row["model"], row["protocol_a"], row["protocol_b"], row["score"]): row for row in table.to_dicts()}
    for first, second in table.select("protocol_a", "protocol_b").unique(maintain_order=True).rows():
        here = table.filter((pl.col("protocol_a") == first) & (pl.col("protocol_b") == second))
        scores = [score for score in _COLUMNS if score in here["score"].to_list()]
        note = (
            "Differences of the headline's scores in points, on the same items; above 0 the first protocol's score is "
            f"higher. {UNDER}"
        )
        made = plain_table(f"{first} minus {second}", "model", [_COLUMNS[score] for score in scores], note)
        for model in here["model"].unique(maintain_order=True):
            cells = (spread(rows.get((model, first, second, score)), "difference", 1) for score in scores)
            made.add_row(Name(model), *cells)
        yield made


def _rankings(table: pl.DataFrame) -> Table:
    note = (
        "Kendall's tau-b: 1 for the same order of models, 0 for no relation, -1 for the opposite order. Beside "
        "tau-b is its range when any one model is left out. There is no interval, because the models are not a random "
        "sample of models."
    )
    made = plain_table("Do two rankings of the models agree?", "rankings", ["models", "tau", "leaving one out"], note)
    several = len({*table["protocol_a"], *table["protocol_b"]}) > 1
    for row in table.to_dicts():
        first, second = ((row[f"score_{side}"], row[f"protocol_{side}"]) for side in "ab")
        if first[1] == second[1]:
            name = f"{words(first[0])} and {words(second[0])}" + (f" ({first[1]})" if several else "")
        else:
            name = f"{words(first[0])}: {first[1]} and {second[1]}"
        ends = [number_text("tau", row[f"tau_{end}"]) for end in ("least", "most")]
        made.add_row(Text(name), str(row["models"]), number_text("tau", row["tau"]), f"{ends[0]} to {ends[1]}")
    return made
