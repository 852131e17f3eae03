"""Graded answers with the confidence that the model stated, and the state of the statement (how it was read)."""

from __future__ import annotations

import polars as pl

from chexqa.eval.prompts import conditions, parser_confidence
from chexqa.eval.scoring.grade import Graded, protocol_name
from chexqa.eval.scoring.outcomes import ANSWERED
from chexqa.eval.scoring.sample import WEIGHT, WHO, ScoredSample, with_clusters

# Level of questions that belong to none of the three levels: those on the grid and on places.
OTHER = "grid and places"


def answers_with_confidence(study: ScoredSample) -> pl.DataFrame:
    """Return the answered items of models that state a confidence.

    Columns: ``model, protocol, level, item_id, cluster`` (index of the patient), the weight of a row (1 / number of
    times its item was asked), ``correct``, ``confidence`` (0 to 1, null if no confidence could be read) and
    ``statement`` (a state of ``chexqa.eval.prompts.parser_confidence``).
    """
    graded = study.graded
    asked = pl.any_horizontal(pl.lit(False), *(_of_run(*who) for who in _asked(graded)))
    rows = with_clusters(graded.grades)[0].filter(pl.col("state").is_in(ANSWERED))
    rows = rows.join(study.rows.select(*WHO, "item_id").unique(), on=[*WHO, "item_id"], how="semi")
    told = pl.col("confidence").is_not_null()
    rows = rows.filter(asked | told.any().over(WHO))
    unread = pl.col("reply").map_elements(lambda text: parser_confidence.read(text).state, return_dtype=pl.String)
    return rows.select(
        *WHO, pl.col("level").fill_null(OTHER), "item_id", "cluster",
        (1.0 / pl.len().over([*WHO, "item_id"])).alias(WEIGHT), "correct", "confidence",
        pl.when(told).then(pl.lit("stated")).when(asked).then(unread.fill_null("missing")).otherwise(pl.lit("missing"))
        .alias("statement"),
    )  # fmt: skip


def _asked(graded: Graded) -> list[tuple[str, str]]:
    """Return each model and protocol whose questions asked for a confidence."""
    return [(model, protocol_name(run)) for run in graded.runs if conditions.of_run(run.about).confidence
            for model in run.models]  # fmt: skip


def _of_run(model: str, protocol: str) -> pl.Expr:
    return (pl.col("model") == model) & (pl.col("protocol") == protocol)
