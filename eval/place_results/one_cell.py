"""Table of hit rates of models, maps and readers that each name one cell of the grid.

Answers to the grid's items name a cell directly. A point names the cell in which it lies, and a box names the cell of
its middle. Localization maps and readers answer the grid's items: a map with the cell of its maximum, a reader with the
marked cell.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import polars as pl

from chexqa.contract.forms import SOMEWHERE
from chexqa.contract.read_run import Turn
from chexqa.eval.place_results.frame_proofs import mask_unproved
from chexqa.eval.places import markers
from chexqa.eval.places.pictures import picture_size
from chexqa.eval.scoring.grade import protocol_name
from chexqa.eval.scoring.intervals import Groups, proportion
from chexqa.eval.scoring.sample import WEIGHT, WHO, ScoredSample, count_patients, mask_incomplete, mean_by, ordered
from chexqa.imaging.grid import cells_at

FORMS, CELL = ("cell", "point", "box"), "cell"
MACRO = "mean of findings"
BY = [*WHO, "kind", "finding"]
_TURN = [*WHO, "repeat", "rotation", "item_id"]


def kinds_of_one_cell(study: ScoredSample) -> list[str]:
    """Return the benchmark's kinds of question that are answered by a cell, a point or one box.

    There must be a kind that is answered by a cell and a kind that is answered by a point or a box; otherwise the
    result is empty.
    """
    asked = {item.kind for item in study.benchmark.items}
    kinds = {name: kind.form.name for name, kind in study.benchmark.kinds.items()
             if name in asked and kind.form.name in FORMS and name not in markers.KINDS}  # fmt: skip
    return list(kinds) if CELL in kinds.values() and len(kinds) > 1 else []


def where(study: ScoredSample) -> pl.DataFrame:
    """Return how often the named cell is a hit, for each kind and finding, and the mean over findings.

    Columns: ``model, protocol, kind, finding, items, patients, hit_rate`` with its interval, ``chance`` (hit rate of a
    cell drawn at random), ``unfinished``. A case counts only if the finding is present and the case has items of all
    kinds in the table, so that all rows are about the same radiographs. A model has no hit rate for kinds in which its
    coordinate system is not proved.
    """
    kinds = kinds_of_one_cell(study)
    answers = study.benchmark.key("the table 'where'")[0]
    forms = {name: kind.form.name for name, kind in study.benchmark.kinds.items()}
    items = [item for item in study.benchmark.items if item.kind in kinds]
    hits = {item.case_id: answers[item.item_id].answer for item in items if forms[item.kind] == CELL}
    present = {kind: {item.case_id for item in items if item.kind == kind
                      and (forms[kind] == CELL or SOMEWHERE in answers[item.item_id].answer)}
               for kind in kinds}  # fmt: skip
    shared: set[str] = reduce(set.intersection, present.values())
    rows = study.said.filter(pl.col("kind").is_in(kinds) & pl.col("case_id").is_in(list(shared)))
    if rows.is_empty():
        return pl.DataFrame(schema=_SCHEMA)
    cells = pl.DataFrame([(case, len(hit) / 64) for case, hit in hits.items()],
                         schema={"case_id": pl.String, "even": pl.Float64}, orient="row")  # fmt: skip
    rows = rows.join(_placed(study, hits), on=_TURN, how="left", maintain_order="left").join(cells, on="case_id")
    is_cell = pl.col("kind").replace_strict(forms, return_dtype=pl.String) == CELL
    hit = pl.when(is_cell).then(pl.col("correct")).otherwise(pl.col("hit").fill_null(False)).cast(pl.Float64)
    rows = rows.with_columns(hit.alias("hit"))
    groups = Groups(study.sample, rows, BY)
    whole = groups.sums(WEIGHT)
    rate = proportion(groups.sums(pl.col(WEIGHT) * pl.col("hit")), whole)
    found, macro = mean_by(groups.keys, rate, [*WHO, "kind"])
    keys = pl.concat([groups.keys, found.with_columns(pl.lit(MACRO).alias("finding")).select(BY)])
    facts = rows.group_by(BY, maintain_order=True).agg(
        pl.col("item_id").n_unique().alias("items"), pl.col("cluster").n_unique().alias("patients"),
        ((pl.col(WEIGHT) * pl.col("even")).sum() / pl.col(WEIGHT).sum()).alias("chance"),
    )  # fmt: skip
    to = [*WHO, "kind"]
    mean = facts.group_by(to, maintain_order=True).agg(
        pl.lit(MACRO).alias("finding"), pl.col("items").sum(), pl.col("chance").mean()
    ).join(count_patients(rows, to), on=to)  # fmt: skip
    table = keys.with_columns(**rate.join(macro).columns("hit_rate")).join(
        pl.concat([facts, mean.select(facts.columns)]), on=BY, how="left", maintain_order="left"
    )
    hidden = mask_unproved(study, mask_incomplete(study, table, ["hit_rate"]), ["hit_rate"])
    order = [*sorted(rows["finding"].unique()), MACRO]
    return ordered(study, hidden, kind=kinds, finding=order).select(list(_SCHEMA))


def _placed(study: ScoredSample, hits: dict[str, tuple[int, ...]]) -> pl.DataFrame:
    """Return, for each answered point or box, True if its cell is a hit."""
    found: list[Any] = []
    for run in study.graded.runs:
        protocol = protocol_name(run)
        for turn in run.turns:
            item = study.benchmark.item.get(turn.item_id)
            if turn.place and item is not None and item.form.name in FORMS and turn.case_id in hits:
                is_hit = _cell(turn, picture_size(study.benchmark, item)) in hits[turn.case_id]
                found.append((turn.model, protocol, turn.repeat, turn.rotation, turn.item_id, is_hit))
    schema = {"model": pl.String, "protocol": pl.String, "repeat": pl.Int64, "rotation": pl.Int64,
              "item_id": pl.String, "hit": pl.Boolean}  # fmt: skip
    return pl.DataFrame(found, schema=schema, orient="row").unique(_TURN, keep="last")


def _cell(turn: Turn, size: tuple[int, int]) -> int:
    """Return the number of the cell in which a point, or the middle of a box, lies; ``size`` is the width and
    height.
    """
    assert turn.place
    pairs = np.array(turn.place[0]).reshape(-1, 2).mean(axis=0)
    column, row = (min(max(int(value), 0), side - 1) for value, side in zip(pairs, size, strict=True))
    return int(cells_at(np.array([row]), np.array([column]), (size[1], size[0]))[0])


_SCHEMA: dict[str, Any] = {
    **dict.fromkeys(BY, pl.String), "items": pl.UInt32, "patients": pl.UInt32,
    **dict.fromkeys(("hit_rate", "hit_rate_low", "hit_rate_high", "chance"), pl.Float64), "unfinished": pl.UInt32,
}  # fmt: skip
