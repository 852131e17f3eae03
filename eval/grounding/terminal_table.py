"""Table on grounding for the terminal: one row for each model, with its verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl
from rich.table import Table
from rich.text import Text

from chexqa.eval.grounding.net_grounding import NOT_SHOWN_PATIENTS

NO_NUMBER = "–"
CAPTION = (
    "Net grounding: how much more often a yes or no changes when the lesion is filled in than when as much other lung "
    "tissue is filled in, in points; 0 for a model that guesses. It is the mean of the findings with at least 10 "
    "audited patients (with at least 2, if none has 10), and has an interval from 10 patients in these findings on; "
    "without an interval the verdict is undecided. Uses the lesion: the 95 % interval is "
    "above 0 and the value is at least 10. Not shown to use it: the interval is below 10, which "
    f"takes {NOT_SHOWN_PATIENTS} patients or more. Key: share of right answers "
    "that change to the new key when a part of the lesion is filled in. Mirror: the same for the mirrored picture's "
    "key. CGR, UAR, IS "
    "(percent): published measures, which a model that guesses can pass. 95 % intervals under the numbers."
)
_COLUMNS = {
    "accuracy": "accuracy", "net_grounding": "net\ngrounding", "looks": "verdict", "key_following": "key",
    "mirror": "mirror", "cgr": "CGR", "uar": "UAR", "is": "IS",
}  # fmt: skip
_FRESH = {"fresh_drop": "drop", "fresh_verdict": "verdict"}
FRESH_CAPTION = (
    "Drop: accuracy on the benchmark minus accuracy on a fresh seed of it, in points, mean of the kinds of question "
    "that a fresh seed changes. A model that has memorised the benchmark falls. 95 % intervals under the numbers."
)
_WITH_INTERVAL = ("net_grounding", "fresh_drop")


def grounding_table(frames: Mapping[str, pl.DataFrame], empty: Callable[[str, str, Sequence[str], str], Table]
                    ) -> list[Table]:  # fmt: skip
    """Return the table on altered pictures and the table on fresh seeds; a table without rows is left out.

    ``empty`` makes an empty table from a title, the first column, the other columns and a caption.
    """
    rows = frames["grounding"].to_dicts() if "grounding" in frames else []
    looked = [row for row in rows if row["cgr"] is not None or row["audited"] or row["key_following"] is not None
              or row["mirror"] is not None]  # fmt: skip
    again = [row for row in rows if row["fresh_drop"] is not None]
    return [
        *_table(looked, "Do the models look at the lesion? (percent)", _COLUMNS, CAPTION, empty),
        *_table(again, "Have the models memorised the benchmark? (percent)", _FRESH, FRESH_CAPTION, empty),
    ]


def _table(
    rows: Sequence[Mapping[str, Any]], title: str, columns: Mapping[str, str], caption: str,
    empty: Callable[[str, str, Sequence[str], str], Table],
) -> list[Table]:  # fmt: skip
    """Return a list with one table of the given columns, or an empty list if there are no rows."""
    if not rows:
        return []
    several = len({row["protocol"] for row in rows}) > 1
    table = empty(title, "model", [*columns.values()], caption)
    for row in rows:
        name = f"{row['model']}, {row['protocol']}" if several else row["model"]
        table.add_row(Text(name, overflow="fold"), *(_cell(row, column) for column in columns))
    return [table]


def _cell(row: Mapping[str, Any], column: str) -> Text:
    value = row[column]
    if value is None or isinstance(value, str):
        return Text(value or NO_NUMBER)
    text = f"{100 * value:z.1f}"
    if column in _WITH_INTERVAL and row[f"{column}_low"] is not None:
        text += f"\n{100 * row[f'{column}_low']:z.0f} to {100 * row[f'{column}_high']:z.0f}"
    return Text(text)
