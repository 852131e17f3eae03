"""Accuracy of each kind of question on each finding."""

from __future__ import annotations

import polars as pl

from chexqa.eval.scoring.sample import WHO, ScoredSample, mask_incomplete, ordered, scores


def finding_kinds(study: ScoredSample) -> pl.DataFrame:
    """Return the accuracy of each kind on each finding.

    Columns: ``model, protocol, finding, kind, items, patients, accuracy, chance, corrected, accuracy_answered,
    unfinished``; the scores ``accuracy``, ``corrected`` and ``accuracy_answered`` have intervals.
    """
    found = scores(study, study.rows, ["finding", "kind"])
    numbers = {"accuracy": found.accuracy, "corrected": found.corrected, "accuracy_answered": found.answered}
    columns = [column for name, entry in numbers.items() for column in entry.columns(name).values()]
    table = found.facts.with_columns(columns).select(
        *WHO, "finding", "kind", "items", "patients", "accuracy", "accuracy_low", "accuracy_high", "chance",
        *(f"{name}{end}" for name in ("corrected", "accuracy_answered") for end in ("", "_low", "_high")),
    )  # fmt: skip
    findings = sorted(study.rows["finding"].unique())
    hidden = mask_incomplete(study, table, numbers)
    return ordered(study, hidden, finding=findings, kind=list(study.benchmark.kinds)).select(
        pl.exclude("unfinished"), "unfinished"
    )
