"""Agreement of a benchmark's key with the masks of a second reader, for each kind of question, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import radiographs
from chexqa.eval.scoring.csv_and_parquet import tidy
from chexqa.eval.scoring.intervals import CLUSTER, Groups, Sample, proportion
from chexqa.eval.scoring.sample import with_clusters

COLUMNS: dict[str, Any] = {
    "kind": pl.String, "patient_id": pl.String, "study_id": pl.String, "picture": pl.String, "back": pl.Boolean,
    "right": pl.Boolean, "chance": pl.Float64, "has_answer": pl.Boolean,
}  # fmt: skip


def load(folder: Path, benchmark: Benchmark, recipes: Sequence[str] = (), image_root: Path | None = None
         ) -> pl.DataFrame:  # fmt: skip
    """Let each reader's masks answer the items made from the other reader's masks; return a table (:data:`COLUMNS`).

    The first reader's masks are those of the benchmark. Each row is one item:

    - If ``back`` is False, the item is the benchmark's, and the second reader's mask answers it.
    - If ``back`` is True, the item is made from the second reader's mask, and the benchmark's mask answers it.

    ``right`` says whether the answer is correct. It is null if the mask fits two of the item's pictures about equally
    well.

    - ``folder``: the folder or manifest of the second reader's masks.
    - ``recipes``: names or files of the benchmark's recipes, needed if they are not chexqa's own.

    Raises ``InputError`` if no case of the benchmark has a second mask, or if a second mask does not fit the radiograph
    or was redrawn in a review.
    """
    # These modules load slowly, and few reports have a second reader.
    from chexqa.eval.readers.mask_verdicts import read_second_masks, second_reader_verdicts
    from chexqa.generators.pipeline import recipe

    names = recipes or [entry["name"] for entry in benchmark.about["recipes"]]
    second = read_second_masks(folder, benchmark, image_root)
    verdicts = second_reader_verdicts(benchmark, second, [recipe.load(name) for name in names])
    cases = benchmark.key("--second-masks")[1]
    pictures = radiographs(benchmark.items, cases)
    rows = [(one.kind, cases[one.case_id].patient_id, cases[one.case_id].study_id, pictures[one.case_id], one.back,
             one.right, one.key.chance, bool(one.key.answer)) for one in verdicts]  # fmt: skip
    return pl.DataFrame(rows, schema=COLUMNS, orient="row")


def second_reader(verdicts: pl.DataFrame | None) -> pl.DataFrame:
    """Return a row for each kind of question: how often both readers' masks give the same answer.

    The first reader's masks are those of the benchmark.

    - ``items``, ``patients``: the number of the benchmark's items that the second reader's masks answer, and the number
      of patients.
    - ``chance``: the mean chance of the items.
    - ``oracle``: the share of the items that can be answered correctly (a grid may have no cell that is a hit).
    - ``by_second``: the share of the items that the second reader's masks answer correctly.
    - ``items_back``: the number of items made from the second reader's masks.
    - ``by_first``: the share of items made from the second reader's masks that the first reader's masks answer
      correctly.
    - ``second_reader``: the mean of ``by_second`` and ``by_first``.
    - ``ties``: the number of answers left out because a mask fits two of an item's pictures about equally well.

    The table is empty without a second reader.
    """
    if verdicts is None or not verdicts.height:
        return pl.DataFrame(schema=_TABLE)
    clustered = with_clusters(verdicts)[0].with_columns(
        (~pl.col("back") & pl.col("right").is_not_null()).alias("forth"),
        (pl.col("back") & pl.col("right").is_not_null()).alias("again"),
    )
    groups = Groups(Sample("patients", int(clustered[CLUSTER].n_unique())), clustered, ["kind"])
    there, back = (proportion(groups.sums(pl.col("right") & pl.col(way)), groups.sums(way))
                   for way in ("forth", "again"))  # fmt: skip
    count = groups.keys.height
    weights = np.zeros((count, 2 * count))
    for row, known in enumerate(zip(~np.isnan(there.value), ~np.isnan(back.value), strict=True)):
        weights[row, [row, count + row]] = np.array(known) / max(sum(known), 1)
    numbers = {"by_second": there, "by_first": back, "second_reader": there.join(back).combine(weights)}
    forth = pl.col("forth")
    facts = clustered.group_by("kind", maintain_order=True).agg(
        forth.sum().alias("items"), pl.col("again").sum().alias("items_back"),
        pl.col(CLUSTER).n_unique().alias("patients"), pl.col("chance").filter(forth).mean(),
        pl.col("has_answer").filter(forth).mean().alias("oracle"), pl.col("right").is_null().sum().alias("ties"),
    )  # fmt: skip
    columns = [column for name, number in numbers.items() for column in number.columns(name).values()]
    return tidy(facts.with_columns(columns).filter(pl.col("items") > 0).select(*_TABLE))


def _spread(name: str) -> dict[str, Any]:
    return dict.fromkeys((name, f"{name}_low", f"{name}_high"), pl.Float64)


_TABLE: dict[str, Any] = {
    "kind": pl.String, "items": pl.UInt32, "patients": pl.UInt32, **_spread("by_second"), "items_back": pl.UInt32,
    **_spread("by_first"), **_spread("second_reader"), "chance": pl.Float64, "oracle": pl.Float64, "ties": pl.UInt32,
}  # fmt: skip
