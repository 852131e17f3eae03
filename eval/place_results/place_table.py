"""Table of localization scores, with intervals.

The scores are the share of present findings with a right place, the share of absent findings with any place, and their
difference.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import sparse

from chexqa.eval.place_results.frame_proofs import ACCEPTED, frame_proofs
from chexqa.eval.place_results.guessers import place_references
from chexqa.eval.place_results.place_rows import place_kinds, place_rows
from chexqa.eval.places.coordinate_systems import BOXES as OF_BOXES
from chexqa.eval.places.score import BOX, BOXES, LOOSE
from chexqa.eval.scoring.intervals import Estimates, Groups, proportion
from chexqa.eval.scoring.outcomes import ANSWERED
from chexqa.eval.scoring.sample import WEIGHT, WHO, ScoredSample, mask_incomplete, mean_by, ordered

MACRO = "mean of findings"
BY = [*WHO, "kind", "finding"]
NUMBERS = ("net", "right_present", "placed_absent")
_SHARES = ("misplaced", "missed", "unread")
_MEANS = ("iou", "dice", "precision", "recall", "f1_10", "f1_30", "f1_50")
_REACHED = {f"iou_{100 * least:.0f}": least for least in (LOOSE, BOXES, BOX)}
_CHANCES = ("chance_uniform", "chance_average_map")
_COLUMNS = (*_SHARES, *_MEANS, *_REACHED, "distance", "ratio_error", *_CHANCES)


def places(study: ScoredSample) -> pl.DataFrame:
    """Return the scores of places, a row for each model, protocol, kind of question and finding.

    A further row for each model, protocol and kind has the means over the findings that are not on the heart.
    ``docs/columns.md`` explains the columns. Models whose coordinate system is not proved (``frame``) have no scores.
    """
    rows = place_rows(study)
    if rows.is_empty():
        return pl.DataFrame(schema=_schema())
    rows = rows.join(place_references(study), on="item_id", how="left", maintain_order="left")
    keys, numbers = _numbers(study, rows)
    facts = pl.concat([_facts(rows, BY), _macro_facts(rows)])
    for name, one in numbers.items():
        keys = keys.with_columns(**one.columns(name))
    table = keys.join(facts, on=BY, how="left", maintain_order="left")
    hidden = mask_incomplete(study, _proved(study, table), [*NUMBERS, *_COLUMNS])
    found = ordered(study, hidden, kind=place_kinds(study), finding=[*sorted(rows["finding"].unique()), MACRO])
    return found.select(list(_schema()))


def _schema() -> dict[str, type[pl.DataType]]:
    spread = [f"{name}{end}" for name in NUMBERS for end in ("", "_low", "_high")]
    counts: dict[str, type[pl.DataType]] = {"present": pl.UInt32, "absent": pl.UInt32}
    texts: dict[str, type[pl.DataType]] = dict.fromkeys(BY, pl.String)
    numbers: dict[str, type[pl.DataType]] = dict.fromkeys((*spread, *_COLUMNS), pl.Float64)
    return {**texts, **counts, **numbers, "frame": pl.String, "unfinished": pl.UInt32}


def _numbers(study: ScoredSample, rows: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, Estimates]]:
    """Return the groups and the three scores of each group; the mean of findings comes last."""
    groups, weight = Groups(study.sample, rows, BY), pl.col(WEIGHT)
    present, absent = (groups.sums(weight * is_so) for is_so in (pl.col("present"), ~pl.col("present")))
    right = proportion(groups.sums(weight * (pl.col("correct") & pl.col("present"))), present)
    placed, nowhere = (proportion(groups.sums(weight * (is_so & ~pl.col("present"))), absent)
                       for is_so in (pl.col("placed"), ~pl.col("placed")))  # fmt: skip
    both = sparse.hstack([sparse.eye(groups.keys.height)] * 2)
    parts = {
        "net": right.join(nowhere).combine(sparse.csr_matrix(both)).plus(-1),
        "right_present": right,
        "placed_absent": placed,
    }
    counted = np.flatnonzero(_in_headline(groups.keys, rows))
    numbers, keys = {}, groups.keys
    for name, one in parts.items():
        found, macro = mean_by(groups.keys[counted], one.take(counted), [*WHO, "kind"])
        named = found.with_columns(pl.lit(MACRO).alias("finding")).select(BY)
        keys, numbers[name] = pl.concat([groups.keys, named]), one.join(macro)
    return keys, numbers


def _in_headline(keys: pl.DataFrame, rows: pl.DataFrame) -> npt.NDArray[np.bool_]:
    """Return True for each group that counts in the mean of findings."""
    counted = rows.filter("headline").select(BY).unique().with_columns(pl.lit(True).alias("counts"))
    return keys.join(counted, on=BY, how="left", maintain_order="left")["counts"].fill_null(False).to_numpy()


def _facts(rows: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """Return counts, shares and means of the groups that the columns ``by`` form."""
    weight, present = pl.col(WEIGHT), pl.col("present")
    whole = weight.filter("present").sum()
    answered, given = pl.col("state").is_in(ANSWERED), pl.col("placed") & present

    def share(rule: pl.Expr) -> pl.Expr:
        return (weight * (rule & present)).sum() / whole

    def average(value: pl.Expr, of: pl.Expr) -> pl.Expr:
        total = (weight * value).filter(of & value.is_not_null()).sum()
        return total / weight.filter(of & value.is_not_null()).sum()

    place_rate = (weight * given).sum() / whole
    return rows.group_by(by, maintain_order=True).agg(
        pl.col("item_id").filter("present").n_unique().alias("present"),
        pl.col("item_id").filter(~present).n_unique().alias("absent"),
        share(given & ~pl.col("correct")).alias("misplaced"),
        share(answered & ~pl.col("placed")).alias("missed"),
        share(~answered).alias("unread"),
        *(
            pl.when(pl.col(name).is_not_null().any())
            .then((weight * pl.col(name).fill_null(0.0)).filter("present").sum() / whole)
            .alias(name)
            for name in _MEANS
        ),
        *(
            pl.when(pl.col("iou").is_not_null().any())
            .then(share((pl.col("iou") >= least).fill_null(False)))
            .alias(name)
            for name, least in _REACHED.items()
        ),
        average(pl.col("distance"), present).alias("distance"),
        average(pl.col("error").abs(), present).alias("ratio_error"),
        (place_rate * average(pl.col("uniform"), present)).alias("chance_uniform"),
        (place_rate * average(pl.col("average_map"), present)).alias("chance_average_map"),
    ).with_columns(pl.col(*_COLUMNS).fill_nan(None))  # fmt: skip


def _macro_facts(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the means over the findings that count in the headline."""
    facts = _facts(rows.filter("headline"), BY)
    return facts.group_by([*WHO, "kind"], maintain_order=True).agg(
        pl.lit(MACRO).alias("finding"), pl.col("present", "absent").sum(), pl.col(*_COLUMNS).mean(),
    ).select(facts.columns)  # fmt: skip


def _proved(study: ScoredSample, table: pl.DataFrame) -> pl.DataFrame:
    """Return the table with the column ``frame``.

    The rows of models whose coordinate system is not proved have no scores.
    """
    forms = {
        name: "box" if study.benchmark.kinds[name].form.name in OF_BOXES else "point" for name in place_kinds(study)
    }
    proofs = frame_proofs(study.graded).select(*WHO, "form", pl.col("proof").alias("frame"))
    joined = table.with_columns(pl.col("kind").replace_strict(forms, return_dtype=pl.String).alias("form")).join(
        proofs, on=[*WHO, "form"], how="left", maintain_order="left"
    )
    known = pl.col("frame").fill_null("unfinished")
    names = [*(f"{name}{end}" for name in NUMBERS for end in ("", "_low", "_high")), *_COLUMNS]
    return joined.with_columns(
        known.alias("frame"), *(pl.when(known.is_in(ACCEPTED)).then(pl.col(name)).alias(name) for name in names)
    ).drop("form")
