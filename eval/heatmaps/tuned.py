"""Segmentation of maps at a threshold chosen on other patients, and the sweep over all thresholds."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from chexqa.eval.heatmaps.metrics import SWEPT, THRESHOLDS
from chexqa.eval.heatmaps.recognition import clustered

COLUMNS: dict[str, Any] = {
    "model": pl.String, "finding": pl.String, "threshold": pl.Float64, "iou": pl.Float64, "dice": pl.Float64,
    "chosen": pl.Int64,
}  # fmt: skip


def with_tuned(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the rows with ``iou_tuned`` and ``dice_tuned``, and a table of all thresholds (the sweep).

    Patients are divided into folds. Each fold gets the threshold with the best mean IoU in the other folds.
    The sweep has a row for each threshold, finding and model:

    - ``iou``, ``dice``: the mean IoU and Dice of all cases at this threshold.
    - ``chosen``: the number of folds that got this threshold.

    A finding with patients in only one fold has no tuned values.
    """
    kept = clustered(rows).with_row_index("place")
    iou, dice = np.full(rows.height, np.nan), np.full(rows.height, np.nan)
    sweep: list[dict[str, Any]] = []
    for (model, finding), part in kept.group_by(["model", "finding"], maintain_order=True):
        graded = part.drop_nulls([*SWEPT["iou"], *SWEPT["dice"]])
        if not graded.height:
            continue
        values = {name: graded.select(columns).to_numpy() for name, columns in SWEPT.items()}
        fold, place = graded["fold"].to_numpy(), graded["place"].to_numpy()
        chosen = np.zeros(len(THRESHOLDS), np.int64)
        for one in np.unique(fold):
            own = fold == one
            if own.all():
                continue
            best = int(values["iou"][~own].mean(axis=0).argmax())
            chosen[best] += 1
            iou[place[own]], dice[place[own]] = values["iou"][own, best], values["dice"][own, best]
        means = zip(THRESHOLDS, values["iou"].mean(axis=0), values["dice"].mean(axis=0), chosen, strict=True)
        sweep += [
            {"model": model, "finding": finding, "threshold": threshold, "iou": float(first), "dice": float(second),
             "chosen": int(count)}
            for threshold, first, second, count in means
        ]  # fmt: skip
    tuned = {"iou_tuned": pl.Series(iou).fill_nan(None), "dice_tuned": pl.Series(dice).fill_nan(None)}
    return rows.with_columns(**tuned), pl.DataFrame(sweep, schema=COLUMNS)
