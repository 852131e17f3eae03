"""Scores of a report, over all patients and again with each single patient left out (jackknife).

The scores are those of :mod:`chexqa.eval.tables.model_pairs`.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import polars as pl

from chexqa.contract.kinds import GRID_CELL, LEVELS
from chexqa.eval.design.weights import GRID, MEAN, NOT_COMPARED
from chexqa.eval.scoring.sample import CHANCE, RIGHT, WEIGHT, YES

Floats = npt.NDArray[np.floating]
CELL = ["_score", "_part", "finding", YES]
_NOTHING = 1e-9


def cells_of(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows that count in scores, with two new columns.

    - ``_score``: the name of the score that the row counts in: a level, or the grid.
    - ``_part``: the kind of question; in rows of the grid, the finding. A score is the mean over its parts.
    """
    level = rows.filter(pl.col("level").is_not_null() & pl.col("scored") & (pl.col("finding") != NOT_COMPARED))
    level = level.with_columns(
        pl.col("level").alias("_score"), pl.col("kind").alias("_part"),
        pl.when(pl.col(YES).is_null()).then(pl.lit("")).otherwise(pl.col("finding")).alias("finding"),
    )  # fmt: skip
    grid = rows.filter(pl.col("kind") == GRID_CELL).with_columns(
        # A grid score is not corrected for chance.
        pl.lit(GRID).alias("_score"), pl.col("finding").alias("_part"), pl.lit(0.0).alias(CHANCE),
        pl.lit("").alias("finding"),
    )  # fmt: skip
    return pl.concat([level, grid]).select(*CELL, "cluster", RIGHT, CHANCE, WEIGHT)


def without_each(rows: pl.DataFrame, patients: int) -> dict[str, Floats]:
    """Return each score over all patients, and without each single patient; keyed by the score's name.

    ``rows`` is the result of :func:`cells_of` for one model. The result has an array ``(1 + patients,)`` for each score
    that has rows: first the score over all patients, then the score without the first patient, without the second, and
    so on. A value that cannot be computed is NaN.
    """
    summed = rows.group_by([*CELL, "cluster"], maintain_order=True).agg(pl.col(RIGHT, CHANCE, WEIGHT).sum())
    strata: dict[str, dict[str, dict[str, dict[bool | None, Floats]]]] = {}
    for (score, part, finding, yes), cell in summed.group_by(CELL, maintain_order=True):
        place = strata.setdefault(str(score), {}).setdefault(str(part), {}).setdefault(str(finding), {})
        place[None if yes is None else bool(yes)] = _corrected(cell, patients)
    values = {score: _mean([_part(findings) for findings in parts.values()]) for score, parts in strata.items()}
    levels = [values[level] for level in LEVELS if level in values]
    named = {str(level): values[level] for level in LEVELS if level in values}
    named |= {MEAN: _mean(levels)} if levels else {}
    return named | ({GRID: values[GRID]} if GRID in values else {})


def _corrected(cell: pl.DataFrame, patients: int) -> Floats:
    """Return the accuracy corrected for chance, over all patients and with each left out; NaN without items."""
    place = cell["cluster"].to_numpy()
    left = []
    for name in (RIGHT, CHANCE, WEIGHT):
        own = np.zeros(patients + 1)
        own[place + 1] = cell[name].to_numpy()
        left.append(float(own.sum()) - own)
    right, chance, whole = left
    room = np.where(whole > _NOTHING, whole - chance, np.nan)
    found: Floats = (right - chance) / room
    return found


def _part(findings: Mapping[str, Mapping[bool | None, Floats]]) -> Floats:
    """Return the mean over findings; NaN if no finding counts."""
    # A finding of a yes/no kind counts only if items of both keys (yes and no) are left.
    kept = [np.mean(list(keys.values()), axis=0) for keys in findings.values() if None in keys or len(keys) == 2]
    return _mean(kept) if kept else np.full(len(next(iter(next(iter(findings.values())).values()))), np.nan)


def _mean(values: list[Floats]) -> Floats:
    """Return the mean of all values that are not NaN; NaN if all values are NaN."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        found: Floats = np.nanmean(np.array(values), axis=0)
    return found
