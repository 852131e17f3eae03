"""Comparison of models with a random sample of human readers; the results also apply to other readers and patients.

Each reader is compared with a model on the reader's own cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from chexqa.eval.design.weights import GRID, MEAN
from chexqa.eval.readers import jackknife
from chexqa.eval.readers.obuchowski_rockette import analyse, jackknife_covariance
from chexqa.eval.scoring.intervals import LEAST_CLUSTERS
from chexqa.eval.scoring.sample import ScoredSample
from chexqa.eval.scoring.significance import ALPHA
from chexqa.stats import holm

READER = "reader/"
LEAST_INTERVAL, LEAST_TEST = 3, 5
MEAN_OF_LEVELS = "mean of levels"
_SCHEMA: dict[str, Any] = {
    "protocol": pl.String, "score": pl.String, "model": pl.String, "readers": pl.Int64, "patients": pl.Int64,
    "difference": pl.Float64, "difference_low": pl.Float64, "difference_high": pl.Float64, "df": pl.Float64,
    "p": pl.Float64, "p_holm": pl.Float64, "differ": pl.Boolean,
}  # fmt: skip
Floats = npt.NDArray[np.floating]


def random_readers(study: ScoredSample) -> pl.DataFrame:
    """Return the comparison of models with the readers, a row for each protocol, score and model.

    ``docs/columns.md`` explains the columns.

    - A row is left out if it has fewer than three readers or fewer than :data:`LEAST_CLUSTERS` patients, or if the
      model has unfinished items.
    - ``p`` is null in rows with fewer than five readers.
    - ``p_holm`` and ``differ`` are null if ``p`` is null, in rows of baselines, and in rows of the grid's score.
    """
    known = study.completeness.filter((pl.col("unfinished") == 0) & pl.col("known"))
    rows: list[dict[str, Any]] = []
    for protocol in known["protocol"].unique(maintain_order=True):
        names = known.filter(pl.col("protocol") == protocol)["model"].to_list()
        readers = [name for name in names if name.startswith(READER)]
        models = [name for name in names if not name.startswith((READER, "readers/"))]
        if len(readers) >= LEAST_INTERVAL:
            rows += _of_protocol(study, str(protocol), readers, models)
    return _corrected(pl.DataFrame(rows, schema=_SCHEMA))


def _of_protocol(study: ScoredSample, protocol: str, readers: list[str], models: list[str]) -> list[dict[str, Any]]:
    here = study.rows.filter(pl.col("protocol") == protocol)
    parts = {str(name): part for (name,), part in here.group_by("model")}
    asked = {name: parts[name].select("item_id").unique() for name in readers if name in parts}
    own = {name: _values(study, parts[name], items) for name, items in asked.items()}
    read = here.filter(pl.col("model").is_in(readers))["cluster"].unique().sort().to_numpy().astype(np.intp)
    rows = []
    for model in models:
        if model not in parts:
            continue
        beside = {name: _values(study, parts[model], items) for name, items in asked.items()}
        scores = dict.fromkeys(score for values in own.values() for score in values)
        for score in scores:
            pairs = [(beside[name].get(score), own[name].get(score)) for name in own]
            gaps = [first - second for first, second in pairs if first is not None and second is not None]
            gaps = [gap for gap in gaps if np.isfinite(gap).all()]
            if len(gaps) >= LEAST_INTERVAL and len(read) >= LEAST_CLUSTERS:
                name = MEAN_OF_LEVELS if score == MEAN else score
                about = {"protocol": protocol, "score": name, "model": model, "patients": len(read)}
                rows.append(about | _row(gaps, read))
    return rows


def _values(study: ScoredSample, rows: pl.DataFrame, items: pl.DataFrame) -> dict[str, Floats]:
    """Return a model's scores on the given items, over all patients and with each patient left out."""
    kept = rows.join(items, on="item_id", how="semi", maintain_order="left")
    return jackknife.without_each(jackknife.cells_of(kept), study.sample.size)


def _row(gaps: Sequence[Floats], read: npt.NDArray[np.intp]) -> dict[str, Any]:
    """Return a row with the analysis of readers' differences ``(1 + clusters,)``.

    ``read`` has the indices of the clusters that were read.
    """
    table = np.array(gaps)
    found = analyse(table[:, 0], jackknife_covariance(table[:, 1 + read]))
    number = {"difference": found.mean, "difference_low": found.low, "difference_high": found.high, "df": found.df,
              "p": found.p if len(gaps) >= LEAST_TEST else np.array(np.nan)}  # fmt: skip
    values = {name: None if np.isnan(value) else float(value) for name, value in number.items()}
    return {"readers": len(gaps), **values, "p_holm": None, "differ": None}


def _corrected(table: pl.DataFrame) -> pl.DataFrame:
    """Return the table with Holm's correction."""
    # One family: all models except baselines, on all levels and on the mean of the levels.
    inside = table["p"].is_not_null() & (table["score"] != GRID) & ~table["model"].str.starts_with("baseline/")
    adjusted = np.full(table.height, np.nan)
    adjusted[inside.to_numpy()] = holm(table["p"].to_numpy()[inside.to_numpy()])
    corrected = pl.Series("p_holm", adjusted, pl.Float64).fill_nan(None)
    return table.with_columns(corrected).with_columns((pl.col("p_holm") < ALPHA).alias("differ"))
