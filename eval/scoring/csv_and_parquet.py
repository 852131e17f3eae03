"""CSV and Parquet files of tables (data frames): floats are rounded, and no text can act as a spreadsheet formula."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from chexqa.files import text

NOTICE = "notice"
_DIGITS, _NOTHING = 12, 1e-12
_FORMULA = r"^ *[=+\-@\t\r\n＝＋－＠]"
_CONTROL = f"[{text.OBEYED}]"


def frame_of(rows: Sequence[tuple[Any, ...]], schema: Mapping[str, Any]) -> pl.DataFrame:
    """Return a data frame of the rows; tuples become lists."""
    # Equal lists are built once, which saves time.
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    made = []
    for (name, kind), values in zip(schema.items(), columns, strict=True):
        if isinstance(kind, pl.List):
            place = {value: number for number, value in enumerate(dict.fromkeys(values))}
            distinct = pl.Series(name, [None if value is None else list(value) for value in place], kind)
            made.append(distinct.gather([place[value] for value in values]))
        else:
            made.append(pl.Series(name, values, kind))
    return pl.DataFrame(made)


def csv_bytes(frame: pl.DataFrame, notice: str | None) -> bytes:
    """Return the frame as CSV (UTF-8) that is safe in spreadsheets; a notice is put into the column ``notice``."""
    lists = [name for name, kind in frame.schema.items() if isinstance(kind, pl.List)]
    joined = frame.with_columns(pl.col(name).cast(pl.List(pl.String)).list.join(" ") for name in lists)
    noted = joined.with_columns(pl.lit(notice).alias(NOTICE)) if notice else joined
    texts = [name for name, kind in noted.schema.items() if kind == pl.String]
    return noted.with_columns(data_text(name) for name in texts).write_csv().encode()


def data_text(name: str) -> pl.Expr:
    """Return an expression for a text column that is safe in spreadsheets."""
    # Formulas get an apostrophe; control characters are replaced.
    clean = pl.col(name).str.replace_all(_CONTROL, "\ufffd")
    formula = clean.str.contains(_FORMULA)
    return pl.when(formula).then(pl.concat_str(pl.lit("'"), clean)).otherwise(clean).alias(name)


def tidy(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame with floats rounded to 12 significant digits; absolute values below 1e-12 become 0."""
    floats = [name for name, kind in frame.schema.items() if kind == pl.Float64]
    return frame.with_columns(
        pl.when(pl.col(name).abs() < _NOTHING).then(0.0).otherwise(pl.col(name).round_sig_figs(_DIGITS)).alias(name)
        for name in floats
    )


def parquet_bytes(frame: pl.DataFrame, notice: str | None) -> bytes:
    """Return the frame as Parquet, with the notice in the file's metadata."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd", metadata={NOTICE: notice} if notice else None)
    return buffer.getvalue()
