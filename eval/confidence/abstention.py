"""Abstentions in runs with ``--may-abstain``: how often models abstain, and how their answers change."""

from __future__ import annotations

import re
from typing import Any

import polars as pl

from chexqa.eval.confidence.answers import OTHER
from chexqa.eval.confidence.confidence_tables import ALL, in_order
from chexqa.eval.prompts import conditions
from chexqa.eval.scoring.grade import Graded, protocol_name
from chexqa.eval.scoring.intervals import Groups, proportion
from chexqa.eval.scoring.outcomes import ANSWERED
from chexqa.eval.scoring.sample import WEIGHT, WHO, ScoredSample, own_weight, with_clusters

_SAID = re.compile(r"\banswer\W{0,6}(?:i\s+)?(?:must\s+|would\s+)?abst(?:ain|ention)\w{0,4}\b", re.IGNORECASE)
_ENDS = ("", "_low", "_high")
SCHEMA: dict[str, Any] = {
    "model": pl.String, "protocol": pl.String, "level": pl.String, "items": pl.Int64,
    **{f"abstained{end}": pl.Float64 for end in _ENDS}, **{f"accuracy_kept{end}": pl.Float64 for end in _ENDS},
    "accuracy_all": pl.Float64, **{f"changed{end}": pl.Float64 for end in _ENDS},
}  # fmt: skip


def is_abstention(reply: str | None) -> bool:
    """Return True if the reply abstains in its last line that contains the word "answer".

    >>> is_abstention("The apex is hidden.\\nAnswer: abstain"), is_abstention("Answer: 2")
    (True, False)
    """
    lines = [line for line in (reply or "").splitlines() if re.search(r"\banswer\b", line, re.IGNORECASE)]
    return bool(lines) and _SAID.search(re.sub(r"[*_`#]", "", lines[-1])) is not None


def abstention(study: ScoredSample) -> pl.DataFrame:
    """Return a table (:data:`SCHEMA`) of models that could abstain: a row for each level, and one for all levels.

    - ``abstained``: the share of items with an abstention.
    - ``accuracy_kept``: the share of right answers among the other items.
    - ``accuracy_all``: the share of right answers among all items.
    - ``changed``: the share of answers that differ from a run without ``--may-abstain``; null if there is none.
    """
    graded = study.graded
    plain = _plain_of(graded)
    if not plain:
        return pl.DataFrame(schema=SCHEMA)
    known = with_clusters(graded.grades.drop("evidence"))[0]
    rows = known.join(study.rows.select(*WHO, "item_id").unique(), on=[*WHO, "item_id"], how="semi")
    answer = pl.when(pl.col("state").is_in(ANSWERED)).then(pl.col("parsed").list.sort().cast(pl.List(pl.String))
                                                           .list.join(" "))  # fmt: skip
    said = pl.col("reply").map_elements(is_abstention, return_dtype=pl.Boolean).fill_null(False)
    rows = rows.with_columns(
        answer.alias("said"), (said & ~pl.col("state").is_in(ANSWERED)).alias("gone"), pl.col("level").fill_null(OTHER),
        own_weight(),
    )  # fmt: skip
    place = ["model", "repeat", "rotation", "item_id"]
    parts = []
    for protocol, other in plain.items():
        own = rows.filter(pl.col("protocol") == protocol)
        before = rows.filter(pl.col("protocol") == other).select(*place, pl.col("said").alias("before"))
        parts.append(own.join(before, on=place, how="left", maintain_order="left"))
    asked = pl.concat(parts)
    return _scored(study, pl.concat([asked, asked.with_columns(pl.lit(ALL).alias("level"))]))


def _scored(study: ScoredSample, rows: pl.DataFrame) -> pl.DataFrame:
    by = [*WHO, "level"]
    groups = Groups(study.sample, rows, by)
    weight, kept = pl.col(WEIGHT), (~pl.col("gone")).cast(pl.Float64)
    both = (pl.col("said").is_not_null() & pl.col("before").is_not_null()).cast(pl.Float64)
    new = both * (pl.col("said") != pl.col("before")).fill_null(False).cast(pl.Float64)
    numbers = {
        "abstained": proportion(groups.sums(weight * (1 - kept)), groups.sums(WEIGHT)),
        "accuracy_kept": proportion(groups.sums(weight * kept * pl.col("correct")), groups.sums(weight * kept)),
        "changed": proportion(groups.sums(weight * new), groups.sums(weight * both)),
    }
    scores = groups.keys.with_columns(
        column for name, number in numbers.items() for column in number.columns(name).values()
    )
    counts = rows.group_by(by, maintain_order=True).agg(
        pl.col("item_id").n_unique().cast(pl.Int64).alias("items"),
        ((pl.col(WEIGHT) * pl.col("correct")).sum() / pl.col(WEIGHT).sum()).alias("accuracy_all"),
    )
    made = counts.join(scores, on=by, how="left", maintain_order="left")
    return in_order(made.select(pl.col(name).cast(kind) for name, kind in SCHEMA.items()))


def _plain_of(graded: Graded) -> dict[str, str]:
    """Return the names of protocols without the permission to abstain, by their names with it."""
    found = {}
    for run in graded.runs:
        if conditions.of_run(run.about).may_abstain:
            held = {name: value for name, value in run.about["condition"].items() if name != "may_abstain"}
            without = {**run.about, "condition": held}
            found[protocol_name(run)] = protocol_name(type(run)(run.folder, without, ()))
    return found
