"""Scores of groups of patients and cases, and gaps between groups within the same finding and kind of question.

Groups of fewer than 30 patients are not shown. The cases of each finding are divided into thirds by lesion size, and
into thirds by the depth in pixels of the shallowest edit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from scipy import sparse

from chexqa.contract.kinds import LEVELS
from chexqa.eval.scoring.intervals import (
    LEAST_CLUSTERS,
    Estimates,
    Floats,
    Groups,
    Ints,
    Sums,
    corrected,
    jackknifed,
    proportion,
)
from chexqa.eval.scoring.sample import (
    CHANCE,
    RIGHT,
    STRATUM,
    WEIGHT,
    WHO,
    YES,
    ScoredSample,
    mask_incomplete,
    mean_by,
    mean_weights,
    ordered,
    strata,
)
from chexqa.eval.tables.grid import rows_of
from chexqa.eval.tables.levels_and_stages import beside

LEAST_PATIENTS = 30
AGES = (40, 60, 80)
GRID_SCORE = "grid"
THIRDS = ("smallest third", "middle third", "largest third")
# Every dimension with the order of its groups, if they have one.
DIMENSIONS: dict[str, tuple[str, ...]] = {
    "finding": (),
    "sex": ("F", "M"),
    "age": ("under 40", "40 to 59", "60 to 79", "80 and over"),
    "view": (),
    "lesion size": THIRDS,
    "edit depth": THIRDS,
}
SCHEMA: dict[str, Any] = {
    **dict.fromkeys([*WHO, "dimension", "group", "score"], pl.String), "patients": pl.UInt32, "items": pl.UInt32,
    **{f"{name}{end}": pl.Float64 for name in ("value", "gap") for end in ("", "_low", "_high")},
}  # fmt: skip
_CASE = ["case_id", "finding"]
# Number of models kept in memory at once: sums by group, finding, kind and cluster are a report's largest arrays.
_AT_ONCE = 3


def subgroups(study: ScoredSample) -> pl.DataFrame:
    """Return how well each model does in each group, such as women, and the gap to the other groups.

    A group is one value of a dimension (sex, age, finding, …).

    - ``model, protocol, dimension, group, score, patients, items, unfinished``; ``score`` is a level or the grid.
    - ``value``: for a level, the accuracy corrected for chance, averaged over kinds; for the grid, the hit rate,
      averaged over findings.
    - ``gap``: the group's accuracy minus the accuracy of the dimension's other groups, within finding and kind; null if
      the dimension is the finding.
    """
    rows = _rows(study)
    models = rows["model"].unique(maintain_order=True)
    some = [models[start : start + _AT_ONCE] for start in range(0, max(len(models), 1), _AT_ONCE)]
    parts = [
        _dimension(study, part, name)
        for chosen in some
        for part in [rows.filter(pl.col("model").is_in(chosen.to_list()))]
        for name in DIMENSIONS
    ]
    table = mask_incomplete(study, pl.concat(parts), ["value", "gap"])
    order = list(dict.fromkeys(group for groups in DIMENSIONS.values() for group in groups))
    table = table.sort("group", maintain_order=True)
    return ordered(study, table, dimension=list(DIMENSIONS), group=order, score=[*LEVELS, GRID_SCORE])


def _rows(study: ScoredSample) -> pl.DataFrame:
    """Return the study's rows with a column for each dimension, the score in which a row counts, and ``kind``.

    ``kind`` names the parts that a score averages over: kinds, or findings for the grid.
    """
    grid = rows_of(study).with_columns(
        pl.lit(GRID_SCORE).alias("score"),
        pl.col("finding").alias("kind"),
        pl.lit(0.0).alias(CHANCE),
        pl.lit(None, pl.Boolean).alias(YES),
        pl.lit(True).alias("scored"),
    )
    names = [*WHO, "score", "kind", "case_id", "item_id", "finding", "cluster", "sex", "age", "view", WEIGHT, RIGHT,
             CHANCE, YES, "scored"]  # fmt: skip
    level = study.rows.lazy().filter(pl.col("level").is_not_null()).with_columns(score=pl.col("level")).select(names)
    rows = pl.concat([level.collect(), grid.select(names)])
    return rows.with_columns(_age_band().alias("age")).join(_thirds(study), on=_CASE, how="left", maintain_order="left")


def _age_band() -> pl.Expr:
    """Return an expression for the name of the age band; null for an unknown age."""
    first, *others = DIMENSIONS["age"]
    band: pl.Expr = pl.when(pl.col("age") >= 0).then(pl.lit(first))
    for least, name in zip(AGES, others, strict=True):
        band = pl.when(pl.col("age") >= least).then(pl.lit(name)).otherwise(band)
    return band


def _thirds(study: ScoredSample) -> pl.DataFrame:
    """Return, for each measured size, the third to which a case belongs among the cases of its finding."""
    sizes = {"lesion size": "lesion_share", "edit depth": "edit_depth"}
    positive = pl.when(pl.col("lesion_share") > 0).then(pl.col("lesion_share"))
    sized = study.rows.select(*_CASE, *sizes.values())
    cases = sized.unique(_CASE, keep="first", maintain_order=True).with_columns(positive)
    named = [_third(pl.col(column)).alias(name) for name, column in sizes.items()]
    return cases.select(*_CASE, *named)


def _third(size: pl.Expr) -> pl.Expr:
    place = (size.rank("ordinal").over("finding") - 1) * 3 // size.count().over("finding")
    return place.replace_strict(dict(enumerate(THIRDS)), default=None, return_dtype=pl.String)


def _dimension(study: ScoredSample, rows: pl.DataFrame, name: str) -> pl.DataFrame:
    """Return the rows of :func:`subgroups` for one dimension."""
    known = rows.with_columns(pl.col(name).alias("group")).filter(pl.col("group").is_not_null())
    if known["group"].n_unique() == 1:  # a single group has nothing to compare with
        known = known.clear()
    known = _large(known)
    if not known.height:
        return pl.DataFrame(schema=SCHEMA)
    to = [*WHO, "group", "score", "kind"]
    scored = Groups(study.sample, strata(known.filter(pl.col("scored")), to), [*to, STRATUM])
    by_stratum = corrected(scored.sums(RIGHT), scored.sums(CHANCE), scored.sums(WEIGHT))
    kinds, by_kind = mean_by(scored.keys, by_stratum, to)
    groups = known.select([*WHO, "group", "score"]).unique(maintain_order=True)
    values = by_kind.combine(mean_weights(groups, kinds.drop("kind"), ~np.isnan(by_kind.value)))
    cells = Groups(study.sample, known, [*WHO, "group", "score", "finding", "kind"])
    right, whole = cells.sums(RIGHT), cells.sums(WEIGHT)
    facts = known.group_by([*WHO, "group", "score"], maintain_order=True).agg(
        pl.col("cluster").n_unique().alias("patients"), pl.col("item_id").n_unique().alias("items")
    )
    if name == "finding":
        apart = groups.with_columns(pl.lit(None, pl.Float64).alias(column) for column in ("gap", "gap_low", "gap_high"))
    else:
        apart = beside(groups, {"gap": gaps(cells.keys, right, whole, groups)})
    keyed = [*WHO, "group", "score"]
    table = beside(groups, {"value": values}).join(apart, on=keyed, how="left", maintain_order="left")
    joined = table.join(facts, on=keyed, how="left", maintain_order="left")
    return joined.with_columns(pl.lit(name).alias("dimension")).select(list(SCHEMA))


def _large(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows whose group has enough patients in this score."""
    by = [*WHO, "group", "score"]
    return rows.filter(pl.col("cluster").n_unique().over(by) >= LEAST_PATIENTS)


def pooled(groups: pl.DataFrame, by: list[str]) -> tuple[pl.DataFrame, sparse.csr_matrix]:
    """Merge the groups (the rows of ``groups``) that agree in the columns ``by``.

    Return a table with a row for each merged group, and a 0/1 matrix ``(merged groups, groups)`` that says which group
    belongs to which merged group. This matrix times the groups' sums gives the merged groups' sums.
    """
    numbered = groups.select(by).unique(maintain_order=True).with_row_index("_to")
    to = groups.select(by).join(numbered, on=by, how="left", maintain_order="left")["_to"].to_numpy()
    ones = (np.ones(groups.height), (to, np.arange(groups.height)))
    return numbered.drop("_to"), sparse.csr_matrix(ones, shape=(numbered.height, groups.height))


def _pool(sums: Sums, pooling: sparse.csr_matrix) -> Sums:
    return Sums(pooling @ sums.total, pooling @ sums.by_cluster)


def gaps(keys: pl.DataFrame, right: Sums, whole: Sums, groups: pl.DataFrame) -> Estimates:
    """Return each group's accuracy minus the accuracy of the other groups, within strata of finding and kind.

    Strata are weighted by n1 n2 / (n1 + n2), as by Mantel and Haenszel; n1 and n2 are the numbers of items of the group
    and of the other groups. A stratum is left out if one of these numbers is 0. The variance is the jackknife's over
    clusters. A gap has no interval if one of its sides has fewer than :data:`LEAST_CLUSTERS` clusters.
    """
    to_groups = pooled(keys, groups.columns)[1]
    to_strata = pooled(keys, [*WHO, "score", "finding", "kind"])[1]
    own = to_strata.tocsc().indices  # the stratum of each row: every column of the weighting has a single 1
    in_stratum = [
        Sums(sums.total[own], sums.by_cluster[own]) for sums in (_pool(right, to_strata), _pool(whole, to_strata))
    ]
    tables = (right, whole, *in_stratum)
    terms, weights = _weighted_gaps(*(sums.total for sums in tables))
    pooled_terms, pooled_weights = to_groups @ terms, to_groups @ weights
    with np.errstate(divide="ignore", invalid="ignore"):
        value = pooled_terms / pooled_weights
    # Leave out each cluster in turn: only its own strata change.
    rows, clusters = tables[3].by_cluster.nonzero()
    without = _weighted_gaps(*(sums.total[rows] - _entries(sums.by_cluster, rows, clusters) for sums in tables))
    of_terms, of_weights = (
        to_groups @ sparse.csr_matrix((less - every[rows], (rows, clusters)), shape=whole.by_cluster.shape)
        for less, every in zip(without, (terms, weights), strict=True)
    )
    moved = sparse.csr_matrix(sparse.diags(np.nan_to_num(value)) @ of_weights - of_terms).tocoo()
    left = pooled_weights[moved.row] + _entries(of_weights, moved.row, moved.col)
    apart = np.divide(moved.data, left, out=np.full(len(left), np.nan), where=left > 1e-9)  # decrease of the gap
    # The two sides of each gap: the group and the others, in the strata that count.
    to_inside = sparse.csr_matrix(to_groups @ sparse.diags((weights > 0).astype(np.float64)))
    to_others = sparse.csr_matrix(to_inside @ to_strata.T @ to_strata - to_inside)
    sides = [proportion(_pool(right, to), _pool(whole, to)) for to in (to_inside, to_others)]
    found = jackknifed(
        value, sparse.csr_matrix((apart, (moved.row, moved.col)), shape=moved.shape), (sides[0], sides[1])
    )
    few = np.minimum(sides[0].clusters, sides[1].clusters) < LEAST_CLUSTERS
    return replace(found, below=np.where(few, np.nan, found.below), above=np.where(few, np.nan, found.above))


def _entries(table: sparse.csr_matrix, rows: Ints, columns: Ints) -> Floats:
    table.sum_duplicates()  # sorted entries are found faster
    return np.asarray(table[rows, columns]).ravel() if len(rows) else np.zeros(0)


def _weighted_gaps(right: Floats, whole: Floats, every_right: Floats, every: Floats) -> tuple[Floats, Floats]:
    """Return the gaps of strata, multiplied by their weights, and the weights n1 n2 / (n1 + n2).

    The arguments have the numbers of right and of all answers: first of the group, then of all groups.
    """
    others = every - whole
    weights = np.divide(whole * others, every, out=np.zeros_like(every), where=every > 1e-9)
    terms = right * others - (every_right - right) * whole
    return np.divide(terms, every, out=np.zeros_like(every), where=every > 1e-9), weights
