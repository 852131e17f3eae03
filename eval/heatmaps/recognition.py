"""Recognition: how well a map maker's scores separate radiographs with a finding from those without it.

The scores are in ``scores.csv`` beside the maps. F1, accuracy and balanced accuracy use a threshold with the best F1 on
other patients.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from chexqa.eval.heatmaps import influence
from chexqa.eval.heatmaps.influence import Score
from chexqa.eval.heatmaps.map_files import SCORES
from chexqa.eval.heatmaps.targets import Target, Truth
from chexqa.eval.scoring.sample import with_clusters
from chexqa.files.errors import InputError, WrongParts
from chexqa.files.seeds import digest
from chexqa.sources.tables import Table

FOLDS = 5  # parts into which the patients are divided
MACRO = "mean of findings"
MEASURES = ("recognition_auc", "f1", "accuracy", "balanced_accuracy")
COLUMNS: dict[str, Any] = {
    "model": pl.String, "finding": pl.String, "case_id": pl.String, "patient_id": pl.String, "study_id": pl.String,
    "picture": pl.String, "present": pl.Boolean, "score": pl.Float64,
}  # fmt: skip
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


def read_scores(model: str, folder: Path, truth: Truth) -> pl.DataFrame | None:
    """Return a model's scores of the cases of ``truth`` (columns :data:`COLUMNS`); None if there is no ``scores.csv``.

    Raise ``InputError`` that lists the first lines with a score that is not a number, or with a case given twice.
    """
    path = folder / SCORES
    if not path.exists():
        return None
    labelled: dict[str, tuple[Target, bool]] = {target.case_id: (target, True) for target in truth.targets}
    labelled |= {target.case_id: (target, False) for target in truth.absent}
    table = Table(path, ["case_id", "score"])
    rows, seen = [], set()
    wrong = WrongParts(path)
    for line, _, row in table.rows():
        with wrong.collected():
            case = row["case_id"].removeprefix("'") if row["case_id"] not in labelled else row["case_id"]
            if case in seen:
                raise InputError(f"{path}, line {line}: the case '{case}' has a second score; remove one of the two.")
            seen.add(case)
            if case not in labelled or not row["score"]:
                continue
            try:
                score = float(row["score"])
            except ValueError:
                score = math.nan
            if not math.isfinite(score):
                raise InputError(
                    f"{path}, line {line}: the score '{row['score']}' is not a number; correct it, or leave it empty."
                )
            target, present = labelled[case]
            about = (target.case_id, target.patient_id, target.study_id, target.picture)
            rows.append((model, target.finding, *about, present, score))
    wrong.conclude()
    return pl.DataFrame(rows, schema=COLUMNS, orient="row")


def fold_of(name: str) -> int:
    """Return the number (from 0) of the fold that a patient belongs to; it depends only on the patient's name."""
    return digest("fold of a patient", name)[0] % FOLDS


def summarise(scores: pl.DataFrame) -> pl.DataFrame:
    """Return a table with the recognition of each finding by each model, and the mean over findings.

    Columns: ``model``, ``finding``, ``present_cases``, ``absent_cases``, and each of :data:`MEASURES` with its interval
    (``_low``, ``_high``). A value is null if the finding is present in all cases or in none.
    """
    kept = clustered(scores)
    patients = kept["cluster"].n_unique()
    rows = []
    for (model,), own in kept.group_by("model", maintain_order=True):
        found: list[dict[str, Score]] = []
        for (finding,), part in own.group_by("finding", maintain_order=True):
            measures = _measures(part, patients)
            present = int(part["present"].sum())
            rows.append(_row(str(model), str(finding), present, part.height - present, measures))
            found.append(measures)
        macro = {
            name: influence.mean([one[name] for one in found if np.isfinite(one[name].value)], patients)
            for name in MEASURES
        }
        rows.append(_row(str(model), MACRO, int(own["present"].sum()), int((~own["present"]).sum()), macro))
    return pl.DataFrame(rows, schema=_schema())


def clustered(scores: pl.DataFrame) -> pl.DataFrame:
    """Return the scores with two new columns: ``cluster`` (the patient's number) and ``fold`` (:func:`fold_of`)."""
    kept, _ = with_clusters(scores)
    names = pl.coalesce("patient_id", "study_id", "picture")
    by_cluster = kept.group_by("cluster", maintain_order=True).agg(names.min().alias("name"))
    folds = [fold_of(name) for name in by_cluster["name"]]
    numbered = by_cluster.select("cluster").with_columns(pl.Series("fold", folds, pl.Int64))
    return kept.join(numbered, on="cluster", how="left", maintain_order="left")


def _measures(part: pl.DataFrame, patients: int) -> dict[str, Score]:
    score, present = part["score"].to_numpy(), part["present"].to_numpy()
    cluster = part["cluster"].to_numpy().astype(np.int64)
    said = judged(score, present, part["fold"].to_numpy())
    area = influence.area(score, present, cluster, patients)
    if said is None:
        return {**dict.fromkeys(MEASURES, Score(np.nan, np.zeros(patients))), "recognition_auc": area}
    right, ones = (said == present).astype(np.float64), np.ones(len(said))
    both, marked = (said & present).astype(np.float64), (said.astype(np.float64) + present)
    halves = [
        influence.ratio(right * group, ones * group, cluster, patients)
        for group in (present.astype(np.float64), 1.0 - present)
    ]
    return {
        "recognition_auc": area,
        "f1": influence.ratio(2 * both, marked, cluster, patients),
        "accuracy": influence.ratio(right, ones, cluster, patients),
        "balanced_accuracy": influence.mean(halves, patients),
    }


def judged(score: Floats, present: Bools, fold: npt.NDArray[np.integer]) -> Bools | None:
    """Return True for each case whose score reaches a threshold that was chosen on other patients.

    ``fold`` has the fold of each case's patient (:func:`fold_of`); the threshold is chosen on the other folds. Return
    None if the finding is present in all cases of the other folds or in none, so that no threshold can be chosen.
    """
    said = np.zeros(len(score), np.bool_)
    for one in np.unique(fold):
        others = fold != one
        if not present[others].any() or present[others].all():
            return None
        said[~others] = score[~others] >= best_threshold(score[others], present[others])
    return said


def best_threshold(score: Floats, present: Bools) -> float:
    """Return the highest threshold with the best F1; scores at or above it count as present.

    >>> best_threshold(np.array([0.1, 0.4, 0.6, 0.9]), np.array([False, False, True, True]))
    0.6
    """
    order = np.argsort(-score, kind="stable")
    hits = np.cumsum(present[order])
    f1 = 2 * hits / (np.arange(1, len(order) + 1) + present.sum())
    last = np.append(score[order][1:] != score[order][:-1], True)  # only where the next score differs
    return float(score[order][np.argmax(np.where(last, f1, -1.0))])


def _row(model: str, finding: str, present: int, absent: int, measures: Mapping[str, Score]) -> dict[str, Any]:
    row: dict[str, Any] = {"model": model, "finding": finding, "present_cases": present, "absent_cases": absent}
    for name in MEASURES:
        value, low, high = influence.estimate(measures[name])
        row |= {name: value, f"{name}_low": low, f"{name}_high": high}
    return row


def _schema() -> dict[str, Any]:
    ends = [f"{name}{end}" for name in MEASURES for end in ("", "_low", "_high")]
    counts = {"present_cases": pl.Int64, "absent_cases": pl.Int64}
    return {"model": pl.String, "finding": pl.String, **counts, **dict.fromkeys(ends, pl.Float64)}
