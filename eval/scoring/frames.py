"""Frames as bytes for machines, CSV and Parquet: floats are rounded, and no text reads as a spreadsheet's formula."""

from __future__ import annotations

import io

import polars as pl

from chexqa.files import text

NOTICE = "notice"
_DIGITS, _NOTHING = 12, 1e-12
_FORMULA = r"^ *[=+\-@\t\r\n＝＋－＠]"
_CONTROL = f"[{text.OBEYED}]"


def csv_bytes(frame: pl.DataFrame, notice: str | None) -> bytes:
    """The frame as CSV (UTF-8), its text never a formula, with the notice as a column of its own where there is one."""
    lists = [name for name, kind in frame.schema.items() if isinstance(kind, pl.List)]
    joined = frame.with_columns(pl.col(name).cast(pl.List(pl.String)).list.join(" ") for name in lists)
    noted = joined.with_columns(pl.lit(notice).alias(NOTICE)) if notice else joined
    texts = [name for name, kind in noted.schema.items() if kind == pl.String]
    return noted.with_columns(data_text(name) for name in texts).write_csv().encode()


def data_text(name: str) -> pl.Expr:
    """Text a spreadsheet shows as it is: an apostrophe before what would be a formula, no control characters."""
    clean = pl.col(name).str.replace_all(_CONTROL, "\ufffd")
    formula = clean.str.contains(_FORMULA)
    return pl.when(formula).then(pl.concat_str(pl.lit("'"), clean)).otherwise(clean).alias(name)


def tidy(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame without the last digits that computing adds: floats of twelve digits, and what is nearly 0 is 0."""
    floats = [name for name, kind in frame.schema.items() if kind == pl.Float64]
    return frame.with_columns(
        pl.when(pl.col(name).abs() < _NOTHING).then(0.0).otherwise(pl.col(name).round_sig_figs(_DIGITS)).alias(name)
        for name in floats
    )


def parquet_bytes(frame: pl.DataFrame, notice: str | None) -> bytes:
    """The frame as Parquet; the notice is in the file's own metadata."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd", metadata={NOTICE: notice} if notice else None)
    return buffer.getvalue()
