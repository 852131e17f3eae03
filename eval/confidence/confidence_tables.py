"""Tables of confidences: measures of calibration, bins of confidence, and the curve of risk against coverage."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import polars as pl

from chexqa.contract.kinds import LEVELS
from chexqa.eval.confidence.answers import ESTIMATES, OTHER, answers_with_confidence
from chexqa.eval.confidence.calibration import BINS, bins, calibration, chance_error
from chexqa.eval.confidence.selective import area, auroc, handed_over, risk_coverage
from chexqa.eval.scoring.intervals import Groups, mean, proportion
from chexqa.eval.scoring.sample import WEIGHT, WHO, ScoredSample

ALL = "all answers"
_ORDER = (*LEVELS, OTHER, ALL)
_INTERVAL = ("", "_low", "_high")
_GROUP = [*WHO, "estimate", "level"]
SUMMARY: dict[str, Any] = {
    "model": pl.String, "protocol": pl.String, "estimate": pl.String, "level": pl.String, "answers": pl.UInt32,
    "stated": pl.Float64, "no_unit": pl.UInt32, **{f"mean_confidence{end}": pl.Float64 for end in _INTERVAL},
    **{f"overconfidence{end}": pl.Float64 for end in _INTERVAL}, **{f"brier{end}": pl.Float64 for end in _INTERVAL},
    "reliability": pl.Float64, "resolution": pl.Float64, "uncertainty": pl.Float64, "ece": pl.Float64,
    "ece_by_chance": pl.Float64, **{f"auroc{end}": pl.Float64 for end in _INTERVAL}, "risk_area": pl.Float64,
    "handed_over": pl.Float64, "errors_kept": pl.Float64,
}  # fmt: skip
BIN: dict[str, Any] = {
    "model": pl.String, "protocol": pl.String, "estimate": pl.String, "level": pl.String,
    "confidence_from": pl.Float64, "confidence_to": pl.Float64, "answers": pl.Float64, "mean_confidence": pl.Float64,
    "share_right": pl.Float64,
}  # fmt: skip
CURVE: dict[str, Any] = {
    "model": pl.String, "protocol": pl.String, "estimate": pl.String, "level": pl.String,
    "least_confidence": pl.Float64, "kept_share": pl.Float64, "share_wrong": pl.Float64,
}  # fmt: skip


def confidences(study: ScoredSample) -> dict[str, pl.DataFrame]:
    """Return three tables by name; each has its rows by model, protocol, source of confidence and level.

    - ``confidence``: measures (:data:`SUMMARY`).
    - ``confidence_bins``: a row (:data:`BIN`) for each bin of confidence that has answers.
    - ``confidence_curve``: a row (:data:`CURVE`) for each confidence: the share of answers with at least this
      confidence, and how many of these are wrong.
    """
    answers = answers_with_confidence(study)
    rows = pl.concat([answers, answers.with_columns(pl.lit(ALL).alias("level"))])
    stated = rows.filter(pl.col("confidence").is_not_null())
    return {
        "confidence": _summary(study, rows, stated),
        "confidence_bins": in_order(_each(stated, _bin_rows, BIN)),
        "confidence_curve": in_order(_each(stated, _curve_rows, CURVE)),
    }


def _summary(study: ScoredSample, rows: pl.DataFrame, stated: pl.DataFrame) -> pl.DataFrame:
    if not rows.height:
        return pl.DataFrame(schema=SUMMARY)
    by = _GROUP
    groups = Groups(study.sample, stated, by)
    whole, gap = groups.sums(WEIGHT), pl.col("confidence") - pl.col("correct").cast(pl.Float64)
    numbers = {
        "mean_confidence": proportion(groups.sums(pl.col(WEIGHT) * pl.col("confidence")), whole, binary=False),
        "overconfidence": mean(groups.sums(pl.col(WEIGHT) * gap), whole),
        "brier": proportion(groups.sums(pl.col(WEIGHT) * gap**2), whole, binary=False),
    }
    scores = groups.keys.with_columns(
        column for name, number in numbers.items() for column in number.columns(name).values()
    )
    counts = rows.group_by(by, maintain_order=True).agg(
        pl.len().alias("answers"), pl.col("confidence").is_not_null().mean().alias("stated"),
        (pl.col("statement") == "no unit").sum().alias("no_unit"),
    )  # fmt: skip
    more = _each(rows, lambda key, group: [(*key, *_measures(group))], _MEASURES)
    made = counts.join(scores, on=by, how="left").join(more, on=by, how="left")
    return in_order(made.select(pl.col(name).cast(kind) for name, kind in SUMMARY.items()))


_MEASURES = {name: kind for name, kind in SUMMARY.items() if name in (
    *_GROUP, "reliability", "resolution", "uncertainty", "ece", "ece_by_chance", "auroc", "auroc_low",
    "auroc_high", "risk_area", "handed_over", "errors_kept",
)}  # fmt: skip


def _columns(group: pl.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return four arrays of the rows: confidence (NaN if there is none), right (0 or 1), weight and cluster."""
    return (
        group["confidence"].fill_null(np.nan).to_numpy(), group["correct"].cast(pl.Float64).to_numpy(),
        group[WEIGHT].to_numpy(), group["cluster"].to_numpy().astype(np.int64),
    )  # fmt: skip


def _measures(group: pl.DataFrame) -> tuple[float, ...]:
    said, right, weight, cluster = _columns(group)
    known = ~np.isnan(said)
    held = calibration(bins(said[known], right[known], weight[known]))
    told = auroc(said[known], right[known] > 0, cluster[known])
    curve = risk_coverage(said[known], right[known], weight[known])
    return (
        held.reliability, held.resolution, held.uncertainty, held.error, chance_error(said[known], weight[known]),
        *told, area(curve), *handed_over(said, right, weight, cluster),
    )  # fmt: skip


def _bin_rows(key: tuple[Any, ...], group: pl.DataFrame) -> Iterable[tuple[Any, ...]]:
    said, right, weight, _ = _columns(group)
    for number, total, mean_confidence, share in zip(*bins(said, right, weight), strict=True):
        yield (*key, number / BINS, (number + 1) / BINS, total, mean_confidence, share)


def _curve_rows(key: tuple[Any, ...], group: pl.DataFrame) -> Iterable[tuple[Any, ...]]:
    said, right, weight, _ = _columns(group)
    for point in zip(*risk_coverage(said, right, weight), strict=True):
        yield (*key, *map(float, point))


def _each(
    rows: pl.DataFrame, make: Callable[[tuple[Any, ...], pl.DataFrame], Iterable[tuple[Any, ...]]],
    schema: dict[str, Any],
) -> pl.DataFrame:  # fmt: skip
    """Return the rows that ``make`` returns for each group (:data:`_GROUP`), with NaN replaced by null."""
    made = [row for key, group in rows.group_by(_GROUP, maintain_order=True) for row in make(key, group)]
    return pl.DataFrame(made, schema=schema, orient="row").with_columns(pl.selectors.float().fill_nan(None))


def in_order(table: pl.DataFrame) -> pl.DataFrame:
    """Return the table sorted by model, source of confidence (as in ``ESTIMATES``) and level (as in :data:`_ORDER`)."""
    names = {"estimate": ESTIMATES, "level": _ORDER}
    places = [pl.col(column).replace_strict({name: number for number, name in enumerate(order)}, default=len(order))
              for column, order in names.items() if column in table.columns]  # fmt: skip
    return table.sort([*WHO, *places], maintain_order=True)
