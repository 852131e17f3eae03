"""Table of thresholds, with one row for each task of each model or reader."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from chexqa.eval.scoring.sample import WHO, ScoredSample, mask_incomplete
from chexqa.eval.thresholds.fit import LEAST_OBSERVATIONS, Threshold, fit
from chexqa.eval.thresholds.observations import TASKS, mm_per_pixel, observations
from chexqa.eval.thresholds.psychometric import Task, task_of

_SCHEMA: dict[str, Any] = {
    **dict.fromkeys(WHO, pl.String), "seen_in": pl.String, "items": pl.Int64, "patients": pl.Int64,
    "with_error": pl.Int64, "false_alarms": pl.Float64, "criterion": pl.Float64, "threshold": pl.Float64,
    "threshold_low": pl.Float64, "threshold_high": pl.Float64, "reads": pl.String, "reads_between": pl.String,
    "threshold_mm": pl.Float64, "threshold_mm_low": pl.Float64, "threshold_mm_high": pl.Float64, "slope": pl.Float64,
    "lapse": pl.Float64,
}  # fmt: skip
# Texts in place of a threshold: the responses do not determine it, or they are too few for an interval.
NOT_TOLD = "cannot be told"
TOO_FEW = f"{NOT_TOLD}: fewer than {LEAST_OBSERVATIONS} responses"
_FLOATS = [name for name, kind in _SCHEMA.items() if kind == pl.Float64]


def thresholds(study: ScoredSample) -> pl.DataFrame:
    """Return how deep an error of an outline must be to be noticed: a row for each task of each model or reader.

    ``docs/columns.md`` explains the columns.
    """
    rows = observations(study)
    scale = mm_per_pixel(study.benchmark)
    made: list[tuple[Any, ...]] = []
    for who, part in rows.group_by(WHO, maintain_order=True):
        parts = {str(name): own for (name,), own in part.group_by("seen_in", maintain_order=True)}
        found = fit({name: _task(name, own) for name, own in parts.items()})
        made += [(*who, name, *_row(parts[name], found.get(name), scale)) for name in TASKS if name in parts]
    table = pl.DataFrame(made, schema=_SCHEMA, orient="row").with_columns(pl.col(_FLOATS).fill_nan(None))
    hidden = ["false_alarms", "criterion", "threshold", "reads", "reads_between", "threshold_mm", "slope", "lapse"]
    return mask_incomplete(study, table, hidden)


def _task(name: str, part: pl.DataFrame) -> Task:
    depth = part["depth"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    return task_of(TASKS[name], depth, part["response"].to_numpy(), part["cluster"].cast(pl.Int64).to_numpy())


def _row(part: pl.DataFrame, found: Threshold | None, scale: dict[str, float]) -> tuple[Any, ...]:
    """Return the values of the columns after ``seen_in``."""
    fitting = part.filter(pl.col("depth").is_null())
    alarms = float(fitting["response"].cast(pl.Float64).mean()) if fitting.height else np.nan  # type: ignore[arg-type]
    counts = (part["item_id"].n_unique(), part["cluster"].n_unique(), part.height - fitting.height, alarms)
    if found is None:
        return *counts, *[None] * (len(_SCHEMA) - len(WHO) - 1 - len(counts))
    is_few = bool(np.isnan(found.low))
    if is_few or not found.is_determined:
        return *counts, *[None] * 4, TOO_FEW if is_few else NOT_TOLD, *[None] * 5, found.lapse
    criterion = found.bias if TASKS[part["seen_in"][0]] == "yes_no" else np.nan
    ends = found.value, found.low, found.high
    shown = [value if found.tested[0] <= value <= found.tested[1] else np.nan for value in ends]
    reads = [_reads(value, found.tested) for value in ends]
    cases = part["case_id"].unique()
    known = [scale[case] for case in cases if case in scale]
    factor = float(np.mean(known)) if len(known) == len(cases) else np.nan
    millimetres = [factor * value for value in shown]
    return *counts, criterion, *shown, reads[0], f"{reads[1]} to {reads[2]}", *millimetres, found.slope, found.lapse


def _reads(value: float, tested: tuple[float, float]) -> str:
    """Return a depth as text; outside the tested depths, it is the nearest tested depth after "<" or ">"."""
    least, most = tested
    return f"< {least:.1f}" if value < least else f"> {most:.1f}" if value > most else f"{value:.1f}"
