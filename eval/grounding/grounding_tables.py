"""Tables on grounding: by model, by finding, and the cases for which no altered picture was made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl

from chexqa.eval.grounding import followed_keys, published_measures
from chexqa.eval.grounding.answer_pairs import WHO, answer_pairs, left_out, originals
from chexqa.eval.grounding.net_grounding import NetGrounding, net_grounding, triples, verdict
from chexqa.eval.grounding.published_measures import published_class
from chexqa.eval.scoring.grade import UNFINISHED
from chexqa.eval.scoring.intervals import Estimates, Sample
from chexqa.eval.scoring.sample import ScoredSample

_RATES = ("true_removal", "key_following", "mirror", "mirror_side", "flips_again", "cgr", "uar", "is")
_ENDS = ("", "_low", "_high")
# Columns of a table with each model's drop on a fresh seed.
DROPS: dict[str, Any] = {
    **dict.fromkeys(WHO, pl.String), **{f"fresh_drop{end}": pl.Float64 for end in _ENDS}, "fresh_verdict": pl.String,
}  # fmt: skip


def grounding(study: ScoredSample) -> pl.DataFrame:
    """Return the grounding measures, a row for each model and protocol.

    Models and protocols that were asked neither altered items nor a fresh seed of the benchmark have no row.
    """
    detections = study.said.filter((pl.col("kind") == "detection") & ~pl.col("state").is_in(UNFINISHED))
    return grounding_rows(study.sample, answer_pairs(study), originals(study), detections, _drops(study),
                          study.benchmark.is_phantom)  # fmt: skip


def grounding_rows(
    sample: Sample, pairs: pl.DataFrame, unaltered: pl.DataFrame, detections: pl.DataFrame, drops: pl.DataFrame,
    phantoms: bool = True,
) -> pl.DataFrame:  # fmt: skip
    """Return the rows of :func:`grounding`.

    - ``pairs``: the rows of :func:`answer_pairs`.
    - ``unaltered``: the rows of :func:`originals`.
    - ``detections``: a row for each detection question; ``correct`` is False if the answer is not readable.
    - ``drops``: each model's drop on a fresh seed (:data:`DROPS`).
    - ``phantoms``: True if the radiographs are phantoms; if False, the column ``true_removal`` is empty.
    """
    asked = unaltered.select(WHO).unique(maintain_order=True)
    table = asked.join(pl.concat([pairs.select(WHO), drops.select(WHO)]), on=list(WHO), how="semi",
                       maintain_order="left")  # fmt: skip
    cases = triples(pairs)
    net = net_grounding(sample, cases)
    parts = [
        ("accuracy", published_measures.rate(sample, detections, pl.col("correct"))),
        ("net_grounding", (net.keys, net.macro)),
        ("right_and_grounded", (net.keys, net.right_and_grounded)),
        ("true_removal", followed_keys.right_without_lesion(sample, unaltered if phantoms else unaltered.clear())),
        ("key_following", followed_keys.followed(sample, pairs, "partial")),
        ("mirror", followed_keys.followed(sample, pairs, "mirror")),
        ("mirror_side", followed_keys.side_followed(sample, pairs)),
        ("flips_again", followed_keys.changed_on_repetition(sample, unaltered)),
        ("cgr", published_measures.cgr(sample, pairs)),
        ("uar", published_measures.uar(sample, unaltered)),
        ("is", published_measures.stability(sample, pairs)),
    ]  # fmt: skip
    for name, (keys, estimates) in parts:
        table = table.join(_columns(keys, estimates, name), on=list(WHO), how="left", maintain_order="left")
    counts = cases.group_by(WHO).agg(pl.col("item_id").n_unique().alias("audited"))
    table = table.join(counts, on=list(WHO), how="left", maintain_order="left")
    sizes = net.keys.select(WHO).with_columns(
        pl.Series("patients", net.macro.clusters, pl.Int64), pl.Series("findings", net.findings, pl.Int64)
    )
    table = table.join(sizes, on=list(WHO), how="left", maintain_order="left")
    table = table.with_columns(pl.col("audited", "patients", "findings").fill_null(0))
    for more in (_coverage(unaltered, cases), published_measures.cgr_answers(pairs), drops):
        table = table.join(more, on=list(WHO), how="left", maintain_order="left")
    rows = table.to_dicts()
    classes = [published_class(row["cgr"], row["cgr_answers"], row["uar"], row["is"]) for row in rows]
    verdicts = [verdict(*(row[f"net_grounding{end}"] for end in _ENDS)) for row in rows]
    made = table.with_columns(pl.Series("looks", verdicts, pl.String), pl.Series("published_class", classes, pl.String))
    shares = [f"{name}{end}" for name in ("net_grounding", "right_and_grounded", *_RATES) for end in _ENDS]
    return made.select(*WHO, *(f"accuracy{end}" for end in _ENDS), "audited", "patients", "findings", "audited_share",
                       "looks", *shares,
                       "published_class", *drops.drop(WHO).columns)  # fmt: skip


def _drops(study: ScoredSample) -> pl.DataFrame:
    """Return each model's drop on a fresh seed; empty if no run on a fresh seed was given."""
    if study.graded.fresh is None:
        return pl.DataFrame(schema=DROPS)
    return study.graded.fresh.rename({name.removeprefix("fresh_"): name for name in DROPS if name not in WHO})


def _columns(keys: pl.DataFrame, estimates: Estimates, name: str) -> pl.DataFrame:
    return keys.select(WHO).with_columns(**estimates.columns(name))


def _coverage(unaltered: pl.DataFrame, cases: pl.DataFrame) -> pl.DataFrame:
    """Return the share of answered detection items with the key yes that were also answered on both filled pictures."""
    present = unaltered.filter((pl.col("kind") == "detection") & (pl.col("answer").list.first() == 1))
    counts = present.group_by(WHO).agg(pl.col("item_id").n_unique().alias("_present"))
    seen = cases.group_by(WHO).agg(pl.col("item_id").n_unique().alias("_audited"))
    both = counts.join(seen, on=list(WHO), how="left")
    return both.select(*WHO, (pl.col("_audited").fill_null(0) / pl.col("_present")).alias("audited_share"))


def grounding_findings(study: ScoredSample) -> pl.DataFrame:
    """Return a table with the net grounding of each model, protocol and finding.

    - ``flipped_target``: the share of answers that change when the lesion is filled in.
    - ``flipped_irrelevant``: the share of answers that change when another part of the lung is filled in.
    - ``net_grounding``: ``flipped_target - flipped_irrelevant``.
    - ``audited``: the number of cases.
    - ``looks``: whether the model uses the lesion, as judged by :func:`verdict` from ``net_grounding``.
    """
    cases = triples(answer_pairs(study))
    net: NetGrounding = net_grounding(study.sample, cases)
    table = net.cells.with_columns(
        **net.target.columns("flipped_target"),
        **net.irrelevant.columns("flipped_irrelevant"),
        **net.by_finding.columns("net_grounding"),
    )
    counts = cases.group_by([*WHO, "finding"]).agg(pl.col("item_id").n_unique().alias("audited"))
    table = table.join(counts, on=[*WHO, "finding"], how="left", maintain_order="left")
    values: Iterable[Any] = table.select(f"net_grounding{end}" for end in _ENDS).iter_rows()
    return table.with_columns(pl.Series("looks", [verdict(*row) for row in values], pl.String))


def not_audited(study: ScoredSample) -> pl.DataFrame:
    """Return the number of cases without an altered picture, by finding, condition (such as ``target``) and reason."""
    rows = pl.DataFrame(
        [(row.finding, row.condition, row.reason) for row in left_out(study.graded)],
        schema={"finding": pl.String, "condition": pl.String, "reason": pl.String}, orient="row",
    )  # fmt: skip
    return rows.group_by(rows.columns, maintain_order=True).len("cases").sort("finding", "condition", "reason")
