"""Tables on the terminal that compare the human readers of a study with models on the same cases."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
from rich.table import Table
from rich.text import Text

from chexqa.contract.kinds import LEVELS
from chexqa.eval.models.registry import READERS
from chexqa.eval.report.display import UNDER, Row, spread
from chexqa.eval.report.display_notes import plain_table
from chexqa.eval.report.write import Frames
from chexqa.eval.tables.levels_and_stages import OVERALL
from chexqa.eval.tables.model_pairs import GRID_SCORE
from chexqa.eval.tables.model_pairs import READERS as READERS_FAMILY
from chexqa.files.terminal import Name

_COLUMNS: dict[str, str] = {**{str(level): str(level) for level in LEVELS}, OVERALL: "mean", GRID_SCORE: "grid"}


def reader_differences(pairs: pl.DataFrame) -> list[Row]:
    """Return a row for each pair of a reader and a model, with the reader's score minus the model's score."""
    found = []
    for row in pairs.to_dicts():
        first, second = (row[name].startswith(READERS) for name in ("model_a", "model_b"))
        if first == second:
            continue
        if second:
            names = {"model_a": row["model_b"], "model_b": row["model_a"], "difference": -row["difference"]}
            low, high = row["difference_low"], row["difference_high"]
            ends = {"difference_low": None if high is None else -high, "difference_high": None if low is None else -low}
            row = row | names | ends
        found.append(row)
    return found


def tables(frames: Frames) -> Iterator[Table]:
    """Yield a table for each protocol that has readers and models: each reader's score minus each model's score."""
    rows = reader_differences(frames["pairs"])
    for protocol in dict.fromkeys(row["protocol"] for row in rows):
        here = [row for row in rows if row["protocol"] == protocol]
        note = (
            f"Differences of the headline's scores in points, on the same cases; above 0 the reader is better. {UNDER}"
        )
        if any(row["family"] == READERS_FAMILY for row in here):
            note += " *: significant difference (sign-flip test over patients, Holm, 5 %)."
        shown = [score for score in _COLUMNS if any(row["score"] == score for row in here)]
        table = plain_table("Readers minus models", "", [_COLUMNS[score] for score in shown], note)
        cells = {(row["model_a"], row["model_b"], row["score"]): row for row in here}
        for reader in dict.fromkeys(row["model_a"] for row in here):
            table.add_row(Name(f"{reader} minus", style="bold"))
            for model in dict.fromkeys(row["model_b"] for row in here if row["model_a"] == reader):
                table.add_row(Name(f"  {model}"), *(_cell(cells.get((reader, model, score))) for score in shown))
        yield table


def random_tables(frames: Frames) -> Iterator[Table]:
    """Yield a table for each protocol with at least three readers: each model's score minus the mean score of the
    readers, who count as a random sample of all readers.
    """
    rows = frames["random_readers"].to_dicts()
    for protocol in dict.fromkeys(row["protocol"] for row in rows):
        here = [row for row in rows if row["protocol"] == protocol]
        many = max(row["readers"] for row in here)
        note = (
            f"Differences in points, for {many} readers and the patients as random samples (Obuchowski-Rockette); "
            f"above 0 the model is better. {UNDER}"
        )
        if any(row["p"] is not None for row in here):
            note += " *: significant difference (Holm, 5 %)."
        else:
            note += " There are no tests with fewer than five readers."
        shown = [score for score in _COLUMNS if any(row["score"] == score for row in here)]
        table = plain_table("Models minus readers as a random sample", "", [_COLUMNS[score] for score in shown], note)
        cells = {(row["model"], row["score"]): row for row in here}
        for model in dict.fromkeys(row["model"] for row in here):
            table.add_row(Name(model), *(_cell(cells.get((model, score))) for score in shown))
        yield table


def powered_tables(frames: Frames) -> Iterator[Table]:
    """Yield, for each protocol, a table of accuracies corrected by expert review, if a reviewed sample was given."""
    rows = frames["powered"].to_dicts()
    for protocol in dict.fromkeys(row["protocol"] for row in rows):
        here = [row for row in rows if row["protocol"] == protocol]
        whole = max(here, key=lambda row: row["reviewed"])
        note = (
            f"Accuracy in percent, mean of kinds. Reviewers answered {whole['reviewed']} random items blind; in "
            f"{whole['against_key']} of them their answer is not the key. {UNDER}"
        )
        table = plain_table("By the key, and by the reviewers", "", ["key", "reviewers"], note)
        for model in dict.fromkeys(row["model"] for row in here):
            table.add_row(Name(model, style="bold"))
            for row in here:
                if row["model"] == model:
                    table.add_row(Text(f"  {row['level']}"), spread(row, "keyed"), spread(row, "powered", 1))
        yield table


def _cell(row: Row | None) -> Text:
    text = spread(row, "difference")
    if row is None or not row["differ"]:
        return text
    first, _, rest = text.plain.partition("\n")
    return Text(f"{first} *").append(f"\n{rest}" if rest else "", style="dim")
