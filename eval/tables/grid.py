"""Tables of the grid task: hit rates of findings, the highest possible hit rate, kinds of misses, and chosen cells.

Definitions: Beyond Diagnosis (arXiv 2509.18015). A cell is a cell of the 8 x 8 grid.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from chexqa.contract.kinds import GRID_CELL
from chexqa.eval.scoring.associations import correlation
from chexqa.eval.scoring.intervals import Estimates, Groups, proportion
from chexqa.eval.scoring.outcomes import ANSWERED, MISSES
from chexqa.eval.scoring.sample import (
    WEIGHT,
    WHO,
    YES,
    ScoredSample,
    can_be_right,
    count_patients,
    mask_incomplete,
    mean_by,
    ordered,
)
from chexqa.eval.tables.levels_and_stages import beside

MACRO = "mean of findings"
BY = [*WHO, "finding"]


def rows_of(study: ScoredSample) -> pl.DataFrame:
    """Return the answers of the grid task with the items' keys.

    The column ``can`` is True if at least one of the item's cells is a hit, so that the item can be answered right.
    """
    rows = study.said.filter(pl.col("kind") == GRID_CELL)
    return rows.with_columns(can_be_right().alias("can"))


def estimates(study: ScoredSample) -> tuple[pl.DataFrame, dict[str, Estimates]]:
    """Return a table of the groups ``model, protocol, finding``, and the scores of these groups, keyed by name.

    The names are ``hit_rate``, ``hit_rate_attainable`` and ``coverage``. The last groups are the means over findings.
    """
    rows = rows_of(study)
    groups = Groups(study.sample, rows, BY)
    weight = pl.col(WEIGHT)
    hits, whole = groups.sums(weight * pl.col("correct")), groups.sums(WEIGHT)
    known = groups.sums(weight * pl.col("coverage").is_not_null())
    parts = {
        "hit_rate": proportion(hits, whole),
        "hit_rate_attainable": proportion(hits, groups.sums(weight * pl.col("can"))),
        "coverage": proportion(groups.sums(weight * pl.col("coverage")), known, binary=False),
    }
    numbers = {}
    keys = groups.keys
    for name, entry in parts.items():
        keys, numbers[name] = _with_macro(groups.keys, entry)
    return keys, numbers


def _with_macro(keys: pl.DataFrame, numbers: Estimates) -> tuple[pl.DataFrame, Estimates]:
    found, macro = mean_by(keys, numbers, WHO)
    named = found.with_columns(pl.lit(MACRO).alias("finding")).select(BY)
    return pl.concat([keys, named]), numbers.join(macro)


def grid(study: ScoredSample) -> pl.DataFrame:
    """Return each model's hit rate on each finding, and the unweighted mean of these rates.

    Columns besides ``model, protocol, finding, items, patients, chance, unfinished``:

    - ``hit_rate``: the share of hits among all items.
    - ``hit_rate_attainable``: the share of hits among the items in which at least one cell is a hit.
    - ``attainable``: the number of items in which at least one cell is a hit.
    - ``ceiling``: the share of items in which at least one cell is a hit.
    - ``coverage``: the share of the chosen cell that the lesion covers, divided by the largest such share of any cell.
    - ``most_frequent``: the hit rate of always choosing the cell that is a hit most often in other patients.

    Shares of all items:

    - ``partial_hit``: misses in a cell that the lesion covers too little.
    - ``position_error``: misses in a cell that the lesion does not touch, in anatomy plausible for the finding.
    - ``anatomy_error``: misses in a cell outside the anatomy plausible for the finding.
    - ``position_unknown``: misses in cases without masks of the anatomy, which cannot be classified.
    - ``no_answer``: items without a readable answer.
    """
    rows, weight = rows_of(study), pl.col(WEIGHT)
    keys, numbers = estimates(study)
    whole = weight.sum()
    facts = rows.group_by(BY, maintain_order=True).agg(
        pl.col("item_id").n_unique().alias("items"),
        pl.col("cluster").n_unique().alias("patients"),
        pl.col("item_id").filter("can").n_unique().alias("attainable"),
        ((weight * pl.col("chance")).sum() / whole).alias("chance"),
        ((weight * pl.col("can")).sum() / whole).alias("ceiling"),
        ((weight * pl.col("prior")).sum() / whole).alias("most_frequent"),
        *[((weight * (pl.col("miss") == miss).fill_null(False)).sum() / whole).alias(miss) for miss in MISSES],
        ((weight * ~pl.col("state").is_in(ANSWERED)).sum() / whole).alias("no_answer"),
    )
    rates = ["chance", "ceiling", "most_frequent", *MISSES, "no_answer"]
    macro = facts.drop("patients").group_by(WHO, maintain_order=True).agg(
        pl.lit(MACRO).alias("finding"), pl.col("items", "attainable").sum(), pl.col(rates).mean(),
    ).join(count_patients(rows, WHO), on=WHO)  # fmt: skip
    every = pl.concat([facts, macro.select(facts.columns)])
    table = beside(keys, numbers).join(every, on=BY, how="left", maintain_order="left")
    spread = [f"{name}{end}" for name in numbers for end in ("", "_low", "_high")]
    named = table.select(*BY, "items", "patients", "attainable", *spread, *rates)
    hidden = mask_incomplete(study, named, [*numbers, *MISSES, "no_answer"])
    return ordered(study, hidden, finding=[*sorted(rows["finding"].unique()), MACRO])


def cells(study: ScoredSample) -> pl.DataFrame:
    """Return how often each cell of the grid is chosen, and in how many items it is a hit.

    Columns: ``model, protocol, finding, cell`` (1 to 64, by row), ``column, row, chosen`` (number of answers),
    ``correct`` (number of items in which the cell is a hit). Cells with neither an answer nor a hit are left out.
    """
    rows = rows_of(study)
    by = [*BY, "cell"]
    chosen = rows.filter(pl.col("parsed").list.len() == 1).with_columns(pl.col("parsed").list.first().alias("cell"))
    first = rows.unique([*WHO, "item_id"], keep="first", maintain_order=True)
    right = first.explode("answer").rename({"answer": "cell"})
    counts = (
        chosen.group_by(by)
        .agg(pl.len().alias("chosen"))
        .join(right.drop_nulls("cell").group_by(by).agg(pl.len().alias("correct")), on=by, how="full", coalesce=True)
        .with_columns(pl.col("chosen", "correct").fill_null(0))
        .sort("finding", "cell")
    )
    place = pl.col("cell") - 1
    named = counts.with_columns(
        place.mod(8).replace_strict(dict(enumerate("ABCDEFGH")), return_dtype=pl.String).alias("column"),
        (place // 8 + 1).alias("row"),
    )
    return ordered(study, named.select(*by, "column", "row", "chosen", "correct"))


READINGS = ("all findings", "within findings", "within findings, at equal lesion size")


def pointing(study: ScoredSample) -> pl.DataFrame:
    """Return each model's correlation between a right detection and a grid hit, over the cases with the finding.

    The column ``how`` says what is removed from the two scores (detection and grid) before they are correlated:

    - "all findings": nothing.
    - "within findings": each finding's mean.
    - "within findings, at equal lesion size": each finding's mean, and the linear effect of log lesion size.

    Further columns: ``model, protocol, cases, patients, correlation, correlation_low, correlation_high, unfinished``.
    """
    case = [*WHO, "case_id", "finding", "cluster", "lesion_share"]
    right = pl.col("correct").cast(pl.Float64).mean()
    found = study.rows.filter((pl.col("stage") == 1) & pl.col(YES)).group_by(case, maintain_order=True).agg(
        right.alias("found")
    )  # fmt: skip
    hits = study.rows.filter(pl.col("kind") == GRID_CELL).group_by([*WHO, "case_id"]).agg(right.alias("hit"))
    both = found.join(hits, on=[*WHO, "case_id"], how="inner", maintain_order="left")
    rows = []
    for who, cases in both.group_by(WHO, maintain_order=True):
        for place, how in enumerate(READINGS):
            known = cases.filter(pl.col("lesion_share") > 0) if place == 2 else cases
            first, second, cluster = (known[name].to_numpy() for name in ("found", "hit", "cluster"))
            findings = known["finding"].rank("dense").to_numpy().astype(np.int64) - 1 if place else None
            size = np.log(known["lesion_share"].to_numpy()) if place == 2 else None
            number = correlation(first, second, cluster, findings, size)
            rows.append((*who, how, known.height, known["cluster"].n_unique(), *number))
    names = [*WHO, "how", "cases", "patients", "correlation", "correlation_low", "correlation_high"]
    texts, counts = {*WHO, "how"}, {"cases", "patients"}
    schema = {name: pl.String if name in texts else pl.Int64 if name in counts else pl.Float64 for name in names}
    table = pl.DataFrame(rows, schema=schema, orient="row").with_columns(pl.col(names[-3:]).fill_nan(None))
    return mask_incomplete(study, table, ["correlation"])
