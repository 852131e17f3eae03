"""Tables of facts about the asked items (counts, patients and chance of every kind) and of published figures."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import polars as pl

from chexqa.contract.benchmark import Benchmark
from chexqa.eval.scoring.sample import ScoredSample
from chexqa.files.jsonio import Record, read_yaml

ALL = "all"
UNSTABLE = "unstable"


def dataset_summary(study: ScoredSample) -> pl.DataFrame:
    """Return a row of facts for each kind and one for all kinds.

    Columns: ``kind, level, stage, items, cases, patients, findings, chance, prior`` (means) ``, unstable`` (items whose
    key changes with a little noise in the masks), ``clusters`` (the unit that intervals are over).
    """  # fmt: skip
    items = study.graded.grades.unique("item_id", keep="first", maintain_order=True).join(
        study.rows.select("item_id", "cluster").unique(), on="item_id", how="left", maintain_order="left"
    )
    counts = [
        pl.len().alias("items"),
        pl.col("case_id").n_unique().alias("cases"),
        pl.col("cluster").drop_nulls().n_unique().alias("patients"),
        pl.col("finding").n_unique().alias("findings"),
        pl.col("chance").mean(),
        pl.col("prior").mean(),
        pl.col("flags").list.contains(UNSTABLE).sum().alias("unstable"),
    ]
    by_kind = items.group_by("kind", "level", "stage", maintain_order=True).agg(counts)
    whole = items.select(pl.lit(ALL).alias("kind"), pl.lit(None, pl.String).alias("level"),
                         pl.lit(None, pl.Int64).alias("stage"), *counts)  # fmt: skip
    order = {kind: place for place, kind in enumerate(study.benchmark.kinds)}
    table = pl.concat([by_kind, whole]).sort(pl.col("kind").replace_strict(order, default=len(order)))
    return table.with_columns(pl.lit(study.sample.unit).alias("clusters"))


def published(benchmark: Benchmark) -> list[Record]:
    """Return the published figures on the grid task; an empty list for a benchmark of phantoms."""
    if benchmark.about["data"] != "real":
        return []
    path = Path(str(resources.files("chexqa.eval.tables").joinpath("published.yaml")))
    rows: list[Record] = read_yaml(path, "published")["rows"]
    return rows


def published_table(benchmark: Benchmark) -> pl.DataFrame:
    """Return the published figures as a table; each row is marked as published and as from another sample."""
    names = ["task", "name", "value", "measure", "source", "sample"]
    schema = {name: pl.Float64 if name == "value" else pl.String for name in names}
    frame = pl.DataFrame(published(benchmark), schema=schema)
    return frame.with_columns(pl.lit("published, on another sample").alias("note"))
