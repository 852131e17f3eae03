"""Accuracy as expert reviewers judge it, estimated from a reviewed sample by prediction-powered inference.

A model's answers to all items are graded by the key. Its answers to the reviewed items are also graded by the
reviewers' answers. The estimate combines both grades (Angelopoulos et al. 2023, "Prediction-powered inference" and
"PPI++"); docs/readers.md has the formula. The accuracy on a level is the mean over its kinds of question. Variances are
over patients.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import special

from chexqa.contract.kinds import LEVELS
from chexqa.eval.design.weights import NOT_COMPARED
from chexqa.eval.scoring.intervals import LEAST_CLUSTERS
from chexqa.eval.scoring.sample import WEIGHT, WHO, ScoredSample
from chexqa.stats import TAIL

MEAN_OF_LEVELS = "mean of levels"
# Number of reviewed items against the key that the variance counts in addition: a sample may have none.
ADDED = 1.0
# The factor of least variance is moved towards 1 by this share, because few patients determine the factor badly.
TOWARDS_ONE = 0.5
_SCHEMA: dict[str, Any] = {
    "model": pl.String, "protocol": pl.String, "level": pl.String, "items": pl.Int64, "reviewed": pl.Int64,
    "against_key": pl.Int64, "unsettled": pl.Int64, "keyed": pl.Float64, "powered": pl.Float64,
    "powered_low": pl.Float64, "powered_high": pl.Float64, "factor": pl.Float64,
}  # fmt: skip
Floats = npt.NDArray[np.floating]
Ints = npt.NDArray[np.integer]


class Answers(NamedTuple):
    """Answers of one model, as arrays with one entry for each item.

    - ``kind``: index of the item's kind, from 0.
    - ``patient``: index of the item's cluster.
    - ``keyed``: credit (0 to 1) of the answer by the key.
    - ``reviewed``: credit of the answer by the reviewers; NaN for an item that was not reviewed.
    - ``probability``: probability that the item is reviewed.
    """

    kind: Ints
    patient: Ints
    keyed: Floats
    reviewed: Floats
    probability: Floats


class Powered(NamedTuple):
    """Estimate of the accuracy that a model would have if the reviewers' answers were the key.

    - ``low``, ``high``: the ends of the estimate's 95 % interval.
    - ``factor``: the weight of the benchmark's own key in the estimate, from 0 to 1.
    """

    value: float
    low: float
    high: float
    factor: float


def corrected(answers: Answers, weights: Floats) -> Powered:
    """Estimate the accuracy that a model would have if the reviewers' answers were the key.

    The estimate is a weighted mean over kinds. ``weights`` has each kind's weight; the sum of the weights is 1. All
    numbers are NaN if a kind has no reviewed item. Only the interval is NaN if too few patients were reviewed.
    """
    kinds, reviewed = np.arange(len(weights)), ~np.isnan(answers.reviewed)
    if any(not reviewed[answers.kind == kind].any() for kind in kinds):
        return Powered(np.nan, np.nan, np.nan, np.nan)
    # A reviewed item stands for 1 / probability items.
    drawn = np.where(reviewed, 1 / answers.probability, 0.0)
    truth = _mean(answers, np.nan_to_num(answers.reviewed), drawn, weights)
    whole = _mean(answers, answers.keyed, np.ones(len(drawn)), weights)
    part = _mean(answers, answers.keyed, drawn, weights)
    # The value is truth + factor * (whole - part); each patient's part of its deviation follows.
    gap = whole.influence - part.influence
    power = float(gap @ gap)
    least = float(np.clip(-(truth.influence @ gap) / power, 0, 1)) if power > 1e-18 else 1.0
    factor = least + TOWARDS_ONE * (1 - least)
    value = truth.value + factor * (whole.value - part.value)
    patients = len(np.unique(answers.patient[reviewed]))
    if patients < LEAST_CLUSTERS:
        return Powered(value, np.nan, np.nan, factor)
    influence = truth.influence + factor * gap
    variance = float(influence @ influence) * patients / (patients - 1) + ADDED / int(reviewed.sum()) ** 2
    distance = float(-special.stdtrit(patients - 1, TAIL)) * np.sqrt(variance)
    return Powered(value, max(value - distance, 0.0), min(value + distance, 1.0), factor)


class _Mean(NamedTuple):
    """Mean, and the contribution of each patient to its deviation, ``(patients,)``."""

    value: float
    influence: Floats


def _mean(answers: Answers, values: Floats, weight: Floats, kinds: Floats) -> _Mean:
    """Return the mean over kinds of a weighted mean over items.

    - ``kinds``: the kinds' weights.
    - ``weight``: the items' weights.
    """
    whole = np.bincount(answers.kind, weight, len(kinds))
    means = np.bincount(answers.kind, weight * values, len(kinds)) / whole
    parts = kinds[answers.kind] * weight * (values - means[answers.kind]) / whole[answers.kind]
    return _Mean(float(kinds @ means), np.bincount(answers.patient, parts).astype(np.float64))


def powered(study: ScoredSample) -> pl.DataFrame:
    """Return a row for each model, protocol and level; a model's last row is the mean of its levels.

    - ``items, reviewed``: the numbers of items and of reviewed items.
    - ``against_key``: the number of reviewed items with a settled answer that is not the key.
    - ``unsettled``: the number of reviewed items without a settled answer.
    - ``keyed``, ``powered``: the accuracy by the key, and by the reviewers with its interval.
    - ``factor``: as in :class:`Powered`.

    The table is empty if there is no reviewed sample.
    """
    sample = study.graded.reviewed
    if sample is None:
        return pl.DataFrame(schema=_SCHEMA)
    known = study.completeness.filter(pl.col("known")).select(WHO)
    rows = study.said.filter(pl.col("level").is_not_null() & (pl.col("finding") != NOT_COMPARED))
    rows = rows.join(known, on=WHO, how="semi", maintain_order="left").join(sample, on="item_id", how="left")
    right = pl.col("parsed").is_not_null() & (pl.col("parsed") == pl.col("reviewed"))
    one = rows.group_by([*WHO, "level", "kind", "item_id", "cluster"], maintain_order=True).agg(
        (pl.col(WEIGHT) * pl.col("correct")).sum().alias("keyed"), (pl.col(WEIGHT) * right).sum().alias("right"),
        pl.col("answer", "reviewed", "probability", "settled").first(),
    )  # fmt: skip
    found = []
    for (model, protocol), part in one.group_by(WHO, maintain_order=True):
        levels = [level for level in LEVELS if level in part["level"].to_list()]
        for name in (*levels, MEAN_OF_LEVELS):
            here = part if name == MEAN_OF_LEVELS else part.filter(pl.col("level") == name)
            found.append({"model": model, "protocol": protocol, "level": name, **_row(here)})
    return pl.DataFrame(found, schema=_SCHEMA)


def _row(rows: pl.DataFrame) -> dict[str, Any]:
    kinds = rows.select("level", "kind").unique(maintain_order=True).with_row_index("_kind")
    each = 1 / (pl.col("kind").n_unique().over("level") * pl.col("level").n_unique())
    weights = kinds.select(each).to_series().to_numpy()
    places = rows.select("level", "kind").join(kinds, on=["level", "kind"], how="left", maintain_order="left")
    chance = rows["probability"].to_numpy()
    right = rows.select(pl.when(pl.col("probability").is_not_null()).then("right")).to_series()
    answers = Answers(places["_kind"].to_numpy(), rows["cluster"].to_numpy(), rows["keyed"].to_numpy(),
                      right.cast(pl.Float64).fill_null(np.nan).to_numpy(), np.nan_to_num(chance, nan=1.0))  # fmt: skip
    value = corrected(answers, weights)
    means = np.bincount(answers.kind, answers.keyed, len(weights)) / np.bincount(answers.kind, minlength=len(weights))
    reviewed = rows.filter(pl.col("probability").is_not_null())
    names = {"powered": value.value, "powered_low": value.low, "powered_high": value.high, "factor": value.factor}
    return {
        "items": rows.height, "reviewed": reviewed.height,
        "against_key": reviewed.filter(pl.col("answer") != pl.col("reviewed")).height,
        "unsettled": reviewed.filter(~pl.col("settled")).height, "keyed": float(weights @ means),
        **{name: None if np.isnan(number) else number for name, number in names.items()},
    }  # fmt: skip
