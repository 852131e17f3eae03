"""Numbers as text, and tables as Markdown and LaTeX in the layout of papers, with one row per model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from chexqa.eval.tables.asked_items import shared
from chexqa.eval.tables.glossary import P_VALUES, PLAIN, TABLES
from chexqa.eval.tables.levels_and_stages import OVERALL
from chexqa.files import text
from chexqa.files.text import few

NO_NUMBER = "–"
# Tables spread over the values of one column: that column, the numbers shown, and the reference rows below the models.
WIDE: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "levels": ("level", ("corrected", "corrected_guessed", "accuracy"), ("chance", "prior")),
    "kinds": ("kind", ("accuracy",), ("chance", "prior")),
    "depth": ("path", ("depth",), ("depth_always_yes", "depth_yes_then_no", "depth_always_no")),
    "grid": ("finding", ("hit_rate",), ("chance", "most_frequent", "ceiling")),
    "groups": ("score", ("value",), ()),
}
PRIOR, OTHERS_CELL = "most frequent answer", "other patients' cell"
_ROWS = {"prior": PRIOR, "most_frequent": OTHERS_CELL, "ceiling": "highest possible"}
# The reference column to show beside a number, if the column has another name than the number.
_BESIDE = {"corrected": {"prior": "prior_corrected"}, "corrected_guessed": {"prior": "prior_corrected"}}
# A column to show after each model's numbers, and the row that its value is taken from.
_AFTER = {"levels": ("answered", "mean of levels")}
# Note below tables with a score corrected for chance beside numbers of all items.
CORRECTED = (
    "Scores corrected for chance leave out items with one possible answer and, in yes/no kinds, findings that are not "
    "keyed both yes and no. Items, accuracy, chance and prior count them."
)
# Note below tables that have both intervals and corrected p values.
ADJUSTED = (
    "Intervals and p are of one comparison each and are not corrected. p holm, and with it differ and verdict, is "
    "corrected by Holm's method for all tests of its family: two scores may not differ although 0 lies outside the "
    "interval. Where p and interval come from different methods, they may disagree close to 5 %, too."
)
# Columns with names given by users or sources; they are not translated to words.
_NAMES = (
    "model",
    "model_a",
    "model_b",
    "protocol",
    "name",
    "source",
    "measure",
    "sample",
    "prompt",
    "system",
    "protocol_a",
    "protocol_b",
)


def markdown(name: str, frame: pl.DataFrame, notice: str | None) -> str:
    """Return the table as Markdown, under its caption."""
    lines = []
    for caption, heads, rows, notes in papers(name, frame):
        lines += [f"**{text.markdown(caption)}**" + (f" ({text.markdown(notice)})" if notice else ""), ""]
        lines += ["| " + " | ".join(map(text.markdown, heads)) + " |", "|" + "---|" * len(heads)]
        lines += ["| " + " | ".join(map(text.markdown, row)) + " |" for row in rows]
        lines += ["", *notes, *[""] * bool(notes)]
    return "\n".join(lines)


def latex(name: str, frame: pl.DataFrame, notice: str | None) -> str:
    """Return the table as LaTeX (packages booktabs and longtable), under its caption."""
    lines = ["% needs \\usepackage{booktabs,longtable}"]
    for caption, heads, rows, notes in papers(name, frame):
        title = text.latex(caption) + (f" ({text.latex(notice)})" if notice else "")
        lines += [rf"\begin{{longtable}}{{{'l' * len(heads)}}}", rf"\caption{{{title}}}\\", r"\toprule",
                  _latex_row(heads), r"\midrule", r"\endhead", r"\bottomrule", r"\endfoot"]  # fmt: skip
        lines += map(_latex_row, rows)
        lines += [r"\end{longtable}", *map(text.latex, notes), ""]
    return "\n".join(lines)


def _latex_row(cells: Sequence[str]) -> str:
    """Return a row of LaTeX.

    If the row begins with a bracket or a star, braces are put before it. Without them LaTeX would read the bracket or
    star as an argument of the row above.
    """
    return ("{}" if cells[0][:1] in "[*" else "") + " & ".join(map(text.latex, cells)) + r" \\"


def note(frame: pl.DataFrame) -> list[str]:
    """Return the sentences below a table, such as which p values are corrected for the number of tests."""
    has_p = "p_holm" in frame.columns and frame["p_holm"].is_not_null().any()
    is_corrected = {"corrected", "chance"} <= {*frame.columns}
    return [ADJUSTED] * has_p + [CORRECTED] * is_corrected + partly_corrected(frame)


def partly_corrected(levels: pl.DataFrame) -> list[str]:
    """Return sentences on the levels in which a kind has no score corrected for chance; none if every kind has one."""
    if "kinds_corrected" not in levels.columns:
        return []
    columns = "level", "kinds_corrected", "kinds", "model"
    of_levels = levels.filter(pl.col("level") != OVERALL).select(columns).unique(maintain_order=True)
    models = of_levels["model"].n_unique()
    found: dict[tuple[str, int, int], list[str]] = {}
    for level, some, whole, model in of_levels.rows():
        found.setdefault((level, some, whole), []).append(model)
    rows = [(level, some, whole, "" if len(names) == models else f" ({few(names)})")
            for (level, some, whole), names in found.items() if some < whole]  # fmt: skip
    if not rows:
        return []
    counts = ", ".join(f"{level} {some} of {whole}{whose}" for level, some, whole, whose in rows)
    none = [f"{level}{whose}" for level, some, _, whose in rows if not some]
    mean = f" The corrected mean of levels leaves out {' and '.join(none)}; the mean of accuracy does not."
    return [f"Kinds of question that have a score corrected for chance: {counts}.{mean if none else ''}"]


Paper = tuple[str, list[str], list[list[str]], list[str]]


def papers(name: str, frame: pl.DataFrame) -> list[Paper]:
    """Return the table as parts with caption, headings, rows of text, and sentences below them.

    Intervals are in brackets, shares in percent.

    A table in :data:`WIDE` has one part for each of its measures, such as accuracy, with one row per model.
    """
    caption = f"{TABLES[name][0].upper()}{TABLES[name][1:]}"
    several = "protocol" in frame.columns and frame["protocol"].n_unique() > 1
    if name in WIDE and frame.height:
        return [
            (
                f"{caption}: {words(number)}{_where(protocol, several)}",
                *_wide(name, part, number),
                note(part) if number.startswith("corrected") else [],
            )
            for (protocol,), part in frame.group_by("protocol", maintain_order=True)
            for number in WIDE[name][1]
        ]
    columns = [column for column in frame.columns if not column.endswith(("_low", "_high"))]
    if not several:
        columns = [column for column in columns if column != "protocol"]
    rows = [[cell(row, column) for column in columns] for row in frame.to_dicts()]
    return [(caption, [words(column) for column in columns], rows, note(frame))]


def _where(protocol: Any, several: bool) -> str:
    return f", protocol {protocol}" if several else ""


def _wide(name: str, part: pl.DataFrame, number: str) -> tuple[list[str], list[list[str]]]:
    across, _, beside = WIDE[name]
    values = values_across(name, part)
    found = {(row["model"], row[across]): row for row in part.to_dicts()}
    models = part["model"].unique(maintain_order=True).to_list()
    rows = [[model, *(cell(found.get((model, value), {}), number) for value in values)] for model in models]
    for reference in beside:
        column = _BESIDE.get(number, {}).get(reference, reference)
        if number.startswith("corrected") and reference == "chance":
            continue  # chance corrected for chance is 0
        of_all = [shared(found[key][column] for key in found if key[1] == value) for value in values]
        rows.append([_ROWS.get(reference, words(reference)), *(number_text(column, one) for one in of_all)])
    heads = ["model", *map(words, values)]
    if name in _AFTER:
        column, value = _AFTER[name]
        heads.append(words(column))
        for place, row in enumerate(rows):
            row.append(cell(found.get((models[place], value), {}), column) if place < len(models) else NO_NUMBER)
    return heads, rows


def values_across(name: str, table: pl.DataFrame) -> list[str]:
    """Return the values over which a table in :data:`WIDE` is spread, in the order of the first model's rows.

    A value that the first model lacks (it was not asked these questions yet) is inserted before the value that follows
    in the later model's rows.
    """
    values: list[str] = []
    for _, part in table.group_by("model", "protocol", maintain_order=True):
        place = len(values)
        for value in reversed(part[WIDE[name][0]].to_list()):
            if value in values:
                place = values.index(value)
            else:
                values.insert(place, value)
    return values


def words(name: str) -> str:
    """Return the name of a column, or the text of a table's cell, with spaces.

    >>> words("same_answer")
    'same answer'
    """
    return str(name).replace("_", " ")


def cell(row: dict[str, Any], column: str) -> str:
    """Return the text of a table's cell: the value, then its interval in brackets if there is one.

    In the table ``groups``, letters follow; models with a common letter do not differ significantly.
    """
    value = row.get(column)
    shown = number_text(column, value)
    low, high = row.get(f"{column}_low"), row.get(f"{column}_high")
    if low is not None and high is not None:
        shown += f" [{number_text(column, low)}, {number_text(column, high)}]"
    return f"{shown} {row['letters']}" if column == "value" and row.get("letters") else shown


def number_text(column: str, value: Any) -> str:
    """Return a value of a column as text; floats are in percent, except in :data:`PLAIN` and :data:`P_VALUES`."""
    if value is None:
        return NO_NUMBER
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        if column in P_VALUES:
            return f"{value:.4f}" if value >= 0.0001 else "< 0.0001"
        return f"{value:z,.{PLAIN[column]}f}" if column in PLAIN else f"{100 * value:z.1f}"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value) if column in _NAMES else words(value)
