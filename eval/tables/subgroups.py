"""Scores of groups of patients and cases, and gaps between groups at equal finding and kind of question.

Groups of fewer than 30 patients are not shown. Thirds (of lesion size, and of how deep the shallowest
spoilt part of a contour is, which is how hard it is to see) are thirds of the cases of each finding, so that no finding
fills one of them.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from scipy import sparse

from chexqa.contract.kinds import LEVELS
from chexqa.eval.scoring.bootstrap import Estimates, Groups, Sums, corrected, mean_by, proportion
from chexqa.eval.scoring.sample import CHANCE, RIGHT, WEIGHT, WHO, Study, hide, ordered
from chexqa.eval.tables.grid import rows_of
from chexqa.eval.tables.levels_and_stages import beside

LEAST_PATIENTS = 30
AGES = (40, 60, 80)
GRID_SCORE = "grid"
THIRDS = ("smallest third", "middle third", "largest third")
# Every dimension with the order of its groups, where they have one.
DIMENSIONS: dict[str, tuple[str, ...]] = {
    "finding": (),
    "sex": ("F", "M"),
    "age": ("under 40", "40 to 59", "60 to 79", "80 and over"),
    "view": (),
    "lesion size": THIRDS,
    "edit depth": THIRDS,
}
_CASE = ["case_id", "finding"]
# Models whose replicates are held at once; those of every group, finding and kind are the largest arrays of a report.
_AT_ONCE = 5


def subgroups(study: Study) -> pl.DataFrame:
    """Per dimension, group and score (a level, or the grid): the score, and its gap to everyone else.

    Columns: ``model, protocol, dimension, group, score, patients, items, value`` (corrected for chance, the mean over
    the level's kinds; of the grid the hit rate, the mean over findings) ``, gap`` (accuracy minus that of the
    dimension's other groups, at equal finding and kind; null for findings) ``, unfinished``. What is not known of a
    case (sex, age, …) leaves it out of that dimension.
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
    table = hide(study, pl.concat(parts), ["value", "gap"])
    order = list(dict.fromkeys(group for groups in DIMENSIONS.values() for group in groups))
    table = table.sort("group", maintain_order=True)
    return ordered(study, table, dimension=list(DIMENSIONS), group=order, score=[*LEVELS, GRID_SCORE])


def _rows(study: Study) -> pl.DataFrame:
    """Rows with a score, ``kind`` being what is averaged over (of the grid, findings), and a column per dimension."""
    level = study.rows.filter(pl.col("level").is_not_null()).with_columns(pl.col("level").alias("score"))
    grid = rows_of(study).with_columns(
        pl.lit(GRID_SCORE).alias("score"), pl.col("finding").alias("kind"), pl.lit(0.0).alias(CHANCE)
    )
    names = [*WHO, "score", "kind", "case_id", "item_id", "finding", "cluster", "sex", "age", "view", WEIGHT, RIGHT,
             CHANCE]  # fmt: skip
    rows = pl.concat([level.select(names), grid.select(names)])
    return rows.with_columns(_age_band().alias("age")).join(_thirds(study), on=_CASE, how="left", maintain_order="left")


def _age_band() -> pl.Expr:
    """The name of the band an age lies in; null where it is not known."""
    first, *others = DIMENSIONS["age"]
    band: pl.Expr = pl.when(pl.col("age") >= 0).then(pl.lit(first))
    for least, name in zip(AGES, others, strict=True):
        band = pl.when(pl.col("age") >= least).then(pl.lit(name)).otherwise(band)
    return band


def _thirds(study: Study) -> pl.DataFrame:
    """Of each case the third of its finding's cases it lies in, by every measured size."""
    sizes = {"lesion size": "lesion_share", "edit depth": "edit_depth"}
    positive = pl.when(pl.col("lesion_share") > 0).then(pl.col("lesion_share"))
    cases = study.rows.unique(_CASE, keep="first", maintain_order=True).with_columns(positive)
    named = [_third(pl.col(column)).alias(name) for name, column in sizes.items()]
    return cases.select(*_CASE, *named)


def _third(size: pl.Expr) -> pl.Expr:
    place = (size.rank("ordinal").over("finding") - 1) * 3 // size.count().over("finding")
    return place.replace_strict(dict(enumerate(THIRDS)), default=None, return_dtype=pl.String)


def _dimension(study: Study, rows: pl.DataFrame, name: str) -> pl.DataFrame:
    """One dimension's part of :func:`subgroups`."""
    known = rows.with_columns(pl.col(name).alias("group")).filter(pl.col("group").is_not_null())
    if known["group"].n_unique() == 1:  # everyone is in it, so that it tells nothing
        known = known.clear()
    known = _large(known)
    cells = Groups(study.sample, known, [*WHO, "group", "score", "finding", "kind"])
    right, whole, chance = cells.sums(RIGHT), cells.sums(WEIGHT), cells.sums(CHANCE)
    to = [*WHO, "group", "score", "kind"]
    keys, pooling = pooled(cells.keys, to)
    by_kind = corrected(_pool(right, pooling), _pool(chance, pooling), _pool(whole, pooling))
    groups, values = mean_by(keys, by_kind, [*WHO, "group", "score"])
    facts = known.group_by([*WHO, "group", "score"], maintain_order=True).agg(
        pl.col("cluster").n_unique().alias("patients"), pl.col("item_id").n_unique().alias("items")
    )
    if name == "finding":
        gaps = groups.with_columns(pl.lit(None, pl.Float64).alias(column) for column in ("gap", "gap_low", "gap_high"))
    else:
        gaps = beside(groups, {"gap": _gaps(cells.keys, right, whole, groups)})
    keyed = [*WHO, "group", "score"]
    table = beside(groups, {"value": values}).join(gaps, on=keyed, how="left", maintain_order="left")
    return table.join(facts, on=keyed, how="left", maintain_order="left").select(
        *WHO, pl.lit(name).alias("dimension"), "group", "score", "patients", "items", "value", "value_low",
        "value_high", "gap", "gap_low", "gap_high",
    )  # fmt: skip


def _large(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of groups with enough patients, group by group and score by score."""
    by = [*WHO, "group", "score"]
    return rows.filter(pl.col("cluster").n_unique().over(by) >= LEAST_PATIENTS)


def pooled(keys: pl.DataFrame, by: list[str]) -> tuple[pl.DataFrame, sparse.csr_matrix]:
    """The groups of ``keys`` by fewer columns, and the zeros and ones that add their sums up."""
    numbered = keys.select(by).unique(maintain_order=True).with_row_index("_to")
    to = keys.select(by).join(numbered, on=by, how="left", maintain_order="left")["_to"].to_numpy()
    ones = (np.ones(keys.height), (to, np.arange(keys.height)))
    return numbered.drop("_to"), sparse.csr_matrix(ones, shape=(numbered.height, keys.height))


def _pool(sums: Sums, pooling: sparse.csr_matrix) -> Sums:
    small = pooling.astype(np.float32)
    return Sums(pooling @ sums.total, small @ sums.replicates, pooling @ sums.by_cluster)


def _gaps(keys: pl.DataFrame, right: Sums, whole: Sums, groups: pl.DataFrame) -> Estimates:
    """For each row of ``groups`` its accuracy minus the other groups', stratum by stratum of finding and kind.

    Strata are weighted by n1 n2 / (n1 + n2), as Mantel and Haenszel do, with the sample's own weights in every
    replicate; a stratum that only one side has plays no part, in the sample or in the replicate.
    """
    to_groups = pooled(keys, groups.columns)[1]
    strata = [*WHO, "score", "finding", "kind"]
    to_strata = pooled(keys, strata)[1]
    every_right, every_whole = _pool(right, to_strata), _pool(whole, to_strata)
    own = to_strata.tocsc().indices  # of each row its stratum: every column of the matrix holds a single one
    rest = every_whole.total[own] - whole.total
    weight = whole.total * rest / every_whole.total[own]
    with np.errstate(divide="ignore", invalid="ignore"):
        outside = (every_right.total[own] - right.total) / rest
        difference = np.where(weight > 0, right.total / whole.total - outside, 0)
        value = to_groups @ (weight * difference) / (to_groups @ weight)
        # In place: these are the largest arrays of a report.
        rest_drawn = every_whole.replicates[own]
        rest_drawn -= whole.replicates
        outside_drawn = every_right.replicates[own]
        outside_drawn -= right.replicates
        outside_drawn /= rest_drawn
        drawn = right.replicates / whole.replicates
        drawn -= outside_drawn
        here = np.isfinite(drawn) & (rest_drawn > 1e-3)  # less is rounding, not a part of an item
        drawn[~here] = 0
        weights = np.multiply(here, weight.astype(np.float32)[:, None], out=outside_drawn)
        drawn *= weights
        small = to_groups.astype(np.float32)
        replicates = (small @ drawn) / (small @ weights)
    # Where a group, or all the others in its strata, are wholly right or wrong, that side of the gap cannot vary.
    to_inside = sparse.csr_matrix(to_groups @ sparse.diags((weight > 0).astype(np.float64)))
    to_others = sparse.csr_matrix(to_inside @ to_strata.T @ to_strata - to_inside)
    inside = proportion(_pool(right, to_inside), _pool(whole, to_inside))
    others = proportion(_pool(right, to_others), _pool(whole, to_others))
    return Estimates(
        value, replicates, inside.below + others.above, inside.above + others.below,
        np.minimum(inside.clusters, others.clusters),
    )  # fmt: skip
