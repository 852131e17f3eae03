"""Three tables that relate localization to lesion size, training domain and recognition, as XBench (arXiv 2510.19599).

The tables only describe the given models. A correlation over findings or over models has no interval. The table shows
instead the lowest and the highest correlation that results if one finding or one model is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from chexqa.eval.heatmaps import influence, recognition
from chexqa.eval.heatmaps.influence import Score
from chexqa.eval.scoring.associations import correlation
from chexqa.eval.scoring.sample import with_clusters

THIRDS = ("small", "medium", "large")
SMALL_MINUS_LARGE = "small minus large"
GROUNDING = ("pointing", "pointing_15px", "dice_otsu")
LEAST_POINTS = 3
SIZE_COLUMNS: dict[str, Any] = {
    "model": pl.String, "size": pl.String, "targets": pl.Int64,
    **{f"{name}{end}": pl.Float64 for name in GROUNDING for end in ("", "_low", "_high")},
}  # fmt: skip
DOMAIN_COLUMNS: dict[str, Any] = {
    "domain": pl.String, "models": pl.Int64, **{f"{name}{end}": pl.Float64 for name in (*GROUNDING, "recognition_auc")
                                                for end in ("", "_least", "_greatest")},
}  # fmt: skip
CORRELATION_COLUMNS: dict[str, Any] = {
    "scope": pl.String, "model": pl.String, "first": pl.String, "second": pl.String, "points": pl.Int64,
    "correlation": pl.Float64, "correlation_low": pl.Float64, "correlation_high": pl.Float64,
    "least_without_one": pl.Float64, "greatest_without_one": pl.Float64,
}  # fmt: skip
Floats = npt.NDArray[np.float64]


def with_thirds(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with the column ``size``: the smallest, middle or largest third of the finding's lesions.

    ``size`` is null for a finding with fewer than three lesions.
    """
    lesions = rows.select("finding", "case_id", "lesion_share").unique(maintain_order=True)
    rank = pl.col("lesion_share").rank("ordinal").over("finding") - 1
    third = (3 * rank // pl.len().over("finding")).cast(pl.Int64)
    names = pl.when(pl.len().over("finding") >= len(THIRDS)).then(
        third.replace_strict(dict(enumerate(THIRDS)), return_dtype=pl.String)
    )
    placed = lesions.sort("finding", "lesion_share", "case_id").with_columns(size=names)
    return rows.join(placed.select("finding", "case_id", "size"), on=["finding", "case_id"], how="left",
                     maintain_order="left")  # fmt: skip


def sizes(rows: pl.DataFrame) -> pl.DataFrame:
    """Return each model's localization of small, medium and large lesions, and the difference (small minus large).

    A value is the unweighted mean over findings. ``rows`` has the columns of grading and ``size``
    (:func:`with_thirds`).
    """
    kept, _ = with_clusters(rows)
    patients = kept["cluster"].n_unique()
    made = []
    for (model,), own in kept.group_by("model", maintain_order=True):
        means: dict[str, dict[str, Score]] = {}
        for third in THIRDS:
            part = own.filter(pl.col("size") == third)
            means[third] = {name: _mean_of_findings(part, name, patients) for name in GROUNDING}
            values = {name: influence.estimate(score) for name, score in means[third].items()}
            made.append({"model": model, "size": third, "targets": part.height, **_columns(values)})
        gaps = {name: influence.difference(means["small"][name], means["large"][name]) for name in GROUNDING}
        made.append({"model": model, "size": SMALL_MINUS_LARGE, "targets": own.height, **_columns(gaps)})
    return pl.DataFrame(made, schema=SIZE_COLUMNS)


def _mean_of_findings(rows: pl.DataFrame, metric: str, patients: int) -> Score:
    """Return the unweighted mean over findings of a metric."""
    scores = []
    for _, part in rows.group_by("finding", maintain_order=True):
        part = part.drop_nulls(metric)
        values, cluster = part[metric].to_numpy(), part["cluster"].to_numpy().astype(np.int64)
        score = influence.ratio(values, np.ones(len(values)), cluster, patients)
        own = len(np.unique(cluster))
        # In a third of lesion size, a finding often has fewer than ten patients. After scaling, the sum of squares of
        # the influences is the unbiased variance of the finding's mean.
        scores.append(score._replace(influence=score.influence * np.sqrt(own / max(1, own - 1))))
    return influence.mean(scores, patients)


def _columns(values: Mapping[str, influence.Estimate]) -> dict[str, float | None]:
    ends = zip(("", "_low", "_high"), range(3), strict=True)
    return {f"{name}{end}": one[place] for end, place in ends for name, one in values.items()}


def domains(table: pl.DataFrame, known: pl.DataFrame, domain: Mapping[str, str | None]) -> pl.DataFrame:
    """Return, for each training domain, the mean, the lowest and the highest score of its models.

    The scores are localization and recognition; each is a model's mean over findings.

    - ``table``: the localization scores of the models.
    - ``known``: the recognition scores of the models.
    - ``domain``: each model's domain; models of unknown domain (None) are left out.
    """
    macro = table.filter(pl.col("finding") == recognition.MACRO).select("model", *GROUNDING)
    auc = known.filter(pl.col("finding") == recognition.MACRO).select("model", "recognition_auc")
    both = macro.join(auc, on="model", how="left", maintain_order="left")
    names = pl.Series([domain.get(model) for model in both["model"]], dtype=pl.String)
    grouped = both.with_columns(domain=names).drop_nulls("domain").group_by("domain", maintain_order=True)
    measured = (*GROUNDING, "recognition_auc")
    made = grouped.agg(
        pl.len().cast(pl.Int64).alias("models"),
        *(pl.col(name).mean().cast(pl.Float64) for name in measured),
        *(pl.col(name).min().cast(pl.Float64).alias(f"{name}_least") for name in measured),
        *(pl.col(name).max().cast(pl.Float64).alias(f"{name}_greatest") for name in measured),
    )
    return made.select(list(DOMAIN_COLUMNS))


def correlations(rows: pl.DataFrame, table: pl.DataFrame, scores: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """Return the correlations between localization and recognition over findings, over models, and over cases.

    The measure of localization is ``pointing``. Over findings, its correlations with lesion size and with the number of
    areas are also returned.

    - ``rows``: the grades of maps, by case.
    - ``table``: the means of the grades, by model and finding.
    - ``scores``: recognition scores, by case.
    - ``known``: recognition, by model and finding.
    """
    made = [*_over_findings(rows, table, known), _over_models(table, known), *_over_cases(rows, scores)]
    return pl.DataFrame(made, schema=CORRELATION_COLUMNS)


def _over_findings(rows: pl.DataFrame, table: pl.DataFrame, known: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield each model's correlations of localization with recognition, lesion size and number of areas."""
    size = rows.group_by("finding").agg(pl.col("lesion_share").median(), pl.col("components").mean())
    localized = table.filter(pl.col("finding") != recognition.MACRO).select("model", "finding", "pointing")
    both = localized.join(known.select("model", "finding", "recognition_auc"), on=["model", "finding"], how="left")
    both = both.join(size, on="finding", how="left").sort("model", "finding")
    for (model,), own in both.group_by("model", maintain_order=True):
        for first in ("recognition_auc", "lesion_share", "components"):
            yield _over_points("findings", str(model), first, own)


def _over_models(table: pl.DataFrame, known: pl.DataFrame) -> dict[str, Any]:
    """Return the correlation of the models' localization with their recognition."""
    macro = table.filter(pl.col("finding") == recognition.MACRO).select("model", "pointing")
    auc = known.filter(pl.col("finding") == recognition.MACRO).select("model", "recognition_auc")
    return _over_points("models", None, "recognition_auc", macro.join(auc, on="model", how="inner"))


def _over_cases(rows: pl.DataFrame, scores: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield each model's correlation of localization with recognition, over cases of the same finding.

    A second correlation of each model holds lesion size constant.
    """
    # A case's recognition is the share of the cases without the finding that have a lower score; an equal score counts
    # as half.
    for (model,), own in _placed(rows, scores).group_by("model", maintain_order=True):
        yield from _within_findings(str(model), own)


def _over_points(scope: str, model: str | None, first: str, points: pl.DataFrame) -> dict[str, Any]:
    pairs = points.select(first, "pointing").drop_nulls().to_numpy().astype(np.float64)
    without = [pearson(np.delete(pairs, place, axis=0)) for place in range(len(pairs))]
    usual = [value for value in without if np.isfinite(value)] if len(pairs) > LEAST_POINTS else []
    return {
        "scope": scope, "model": model, "first": first, "second": "pointing", "points": len(pairs),
        "correlation": _finite(pearson(pairs)), "correlation_low": None, "correlation_high": None,
        "least_without_one": min(usual, default=None), "greatest_without_one": max(usual, default=None),
    }  # fmt: skip


def pearson(pairs: Floats) -> float:
    """Return Pearson's correlation of pairs ``(N, 2)``; NaN for fewer than three pairs or a constant column.

    >>> round(pearson(np.array([[0.0, 1.0], [1.0, 3.0], [2.0, 5.0]])), 6)
    1.0
    """
    if len(pairs) < LEAST_POINTS or float(np.ptp(pairs, axis=0).min()) < 1e-12:
        return float("nan")
    return float(np.asarray(np.corrcoef(pairs.T))[0, 1])


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _placed(rows: pl.DataFrame, scores: pl.DataFrame) -> pl.DataFrame:
    """Return the rows that have a score, with the column ``placement``: the share of cases without the
    finding that have a lower score.
    """
    parts = []
    for _, own in scores.group_by(["model", "finding"], maintain_order=True):
        absent = own.filter(~pl.col("present"))["score"].to_numpy()
        present = own.filter(pl.col("present"))
        if not len(absent) or not present.height:
            continue
        place = influence.placements(present["score"].to_numpy(), absent)
        parts.append(present.select("model", "finding", "case_id").with_columns(placement=pl.Series(place)))
    if not parts:
        return rows.clear().with_columns(placement=pl.lit(None, pl.Float64))
    return rows.join(pl.concat(parts), on=["model", "finding", "case_id"], how="inner", maintain_order="left")


def _within_findings(model: str, placed: pl.DataFrame) -> list[dict[str, Any]]:
    kept, _ = with_clusters(placed.drop_nulls(["pointing", "lesion_share"]))
    groups = kept["finding"].rank("dense").to_numpy().astype(np.int64) - 1
    cluster, area = kept["cluster"].to_numpy().astype(np.int64), np.log(kept["lesion_share"].to_numpy())
    made = []
    for scope, covariate in (("within findings", None), ("within findings, same lesion size", area)):
        found = correlation(kept["placement"].to_numpy(), kept["pointing"].to_numpy(), cluster, groups, covariate)
        value, low, high = (_finite(float(number)) for number in found)
        made.append({
            "scope": scope, "model": model, "first": "recognition", "second": "pointing", "points": kept.height,
            "correlation": value, "correlation_low": low, "correlation_high": high,
            "least_without_one": None, "greatest_without_one": None,
        })  # fmt: skip
    return made
