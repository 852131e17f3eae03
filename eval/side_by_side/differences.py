"""Two models side by side: differences in each level, kind and finding, and items that both, one or neither has right.

The table ``pairs`` has the tests of the levels; their p-values are corrected within families that are fixed in advance.
The differences in this module have intervals but no tests, because there are many of them for each pair of models.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

from chexqa.eval.scoring.intervals import Groups, proportion
from chexqa.eval.scoring.sample import RIGHT, WEIGHT, ScoredSample, contrasts
from chexqa.eval.side_by_side.right_items import ALL, PARTS, RightItems, right_items

_SCHEMA: dict[str, Any] = {
    "protocol": pl.String, "model_a": pl.String, "model_b": pl.String, "dimension": pl.String, "group": pl.String,
    "items": pl.Int64, "patients": pl.Int64, "difference": pl.Float64, "difference_low": pl.Float64,
    "difference_high": pl.Float64, "both": pl.Int64, "only_a": pl.Int64, "only_b": pl.Int64, "neither": pl.Int64,
    "every": pl.Int64,
}  # fmt: skip


def differences(study: ScoredSample) -> pl.DataFrame:
    """Return the differences between every two models: on all items, and on the items of a level, a kind or a finding.

    - ``protocol, model_a, model_b, dimension, group, items, patients``
    - ``difference``: the share of right answers of model a minus that of model b, with its interval.
    - ``both, only_a, only_b, neither``: numbers of items.
    - ``every``: the number of items that every model of the table has right.

    In the rows of levels and findings, every item counts once: kinds are not averaged first.
    """
    parts = [_part(study, one, name) for one in right_items(study) if len(one.models) > 1 for name in PARTS]
    return pl.concat([pl.DataFrame(schema=_SCHEMA), *parts])


def _part(study: ScoredSample, one: RightItems, dimension: str) -> pl.DataFrame:
    """Return the rows of one dimension."""
    column = PARTS[dimension]
    value = pl.lit(ALL) if column is None else pl.col(column)
    rows = one.rows.with_columns(value.alias("group")).filter(pl.col("group").is_not_null())
    group = one.items.select(value.alias("group"))["group"] if column else pl.Series([ALL] * one.items.height)
    groups = Groups(study.sample, rows, ["group", "model"])
    place = {key: number for number, key in enumerate(groups.keys.rows())}
    found: list[dict[str, Any]] = []
    pairs = []
    for name in group.drop_nulls().unique(maintain_order=True):
        inside = (group == name).fill_null(False).to_numpy()
        right = one.right[inside].astype(np.int64)
        both, own = right.T @ right, right.sum(axis=0)
        patients = one.items.filter(pl.Series(inside))["cluster"].n_unique()
        for a, b in combinations(range(len(one.models)), 2):
            shared = int(both[a, b])
            only = int(own[a]) - shared, int(own[b]) - shared
            found.append({
                "protocol": one.protocol, "model_a": one.models[a], "model_b": one.models[b], "dimension": dimension,
                "group": name, "items": len(right), "patients": patients, "both": shared, "only_a": only[0],
                "only_b": only[1], "neither": len(right) - shared - sum(only), "every": int(right.all(axis=1).sum()),
            })  # fmt: skip
            pairs.append((place[name, one.models[a]], place[name, one.models[b]]))
    shares = proportion(groups.sums(RIGHT), groups.sums(WEIGHT))
    difference = shares.combine(contrasts(groups.keys.height, pairs))
    keys = pl.DataFrame(found, schema={name: _SCHEMA[name] for name in _SCHEMA if not name.startswith("difference")})
    return keys.with_columns(difference.columns("difference").values()).select(list(_SCHEMA))
