"""Items that each model has right, as a matrix with a row for each item and a column for each model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from chexqa.eval.scoring.sample import RIGHT, WEIGHT, WHO, ScoredSample

ALL = "all"
# The parts of the items in which two models are compared, each with its column.
PARTS = {ALL: None, "level": "level", "kind": "kind", "finding": "finding"}
_READ = (*WHO, "item_id", "level", "kind", "finding", "cluster", WEIGHT, RIGHT)


@dataclass(frozen=True, eq=False)
class RightItems:
    """Items that every finished model was asked under one protocol, and the models that have them right.

    - ``models``: the names of the finished models.
    - ``rows``: the grades of these models on these items.
    - ``items``: one row for each item, in the order of the rows of ``right``.
    - ``right``: bool ``(items, models)``; True if the model has the item right. An item asked several times (repeats,
      rotations) is right if more than half of the model's answers are right.
    """

    protocol: str
    models: list[str]
    rows: pl.DataFrame
    items: pl.DataFrame
    right: npt.NDArray[np.bool_]


def right_items(study: ScoredSample) -> Iterator[RightItems]:
    """Yield, for each protocol, which items each finished model has right.

    Only items that all finished models were asked are included. A model with unfinished questions is left out.
    """
    whole = study.completeness.filter((pl.col("unfinished") == 0) & pl.col("known"))
    for (protocol,), part in whole.group_by("protocol", maintain_order=True):
        models = part["model"].to_list()
        rows = study.rows.select(_READ).filter((pl.col("protocol") == protocol) & pl.col("model").is_in(models))
        shared = rows.group_by("item_id", maintain_order=True).agg(pl.col("model").n_unique().alias("models"))
        asked = shared.filter(pl.col("models") == len(models)).select("item_id")
        rows = rows.join(asked, on="item_id", how="semi", maintain_order="left")
        items = rows.unique("item_id", keep="first", maintain_order=True).with_row_index("_item")
        named = pl.DataFrame({"model": models}).with_row_index("_model")
        cells = (
            rows.group_by("item_id", "model")
            .agg(pl.col(RIGHT).sum() > 0.5)
            .join(items.select("item_id", "_item"), on="item_id")
            .join(named, on="model")
        )
        right = np.zeros((items.height, len(models)), bool)
        right[cells["_item"].to_numpy(), cells["_model"].to_numpy()] = cells[RIGHT].to_numpy()
        yield RightItems(str(protocol), models, rows, items.drop("_item"), right)
