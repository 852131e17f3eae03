"""Graded answers, each with its confidence.

There are three sources of confidence:

- ``stated``: the model states it in its reply.
- ``repeats``: the share of an item's repeats with the most frequent answer.
- ``logprob``: the probability of the answer's tokens, as the model's server returns it.
"""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from chexqa.eval.prompts import conditions, parser_confidence
from chexqa.eval.scoring.grade import UNFINISHED, Graded, protocol_name
from chexqa.eval.scoring.outcomes import ANSWERED
from chexqa.eval.scoring.sample import WHO, ScoredSample, can_be_right, own_weight, with_clusters

# Level of questions that belong to none of the three levels: those on the grid and on places.
OTHER = "grid and places"
# Estimates of confidence: the model states it, it repeats its answer, or its server gives the answer's probability.
STATED, REPEATS, LOGPROB = "stated", "repeats", "logprob"
ESTIMATES = (STATED, REPEATS, LOGPROB)
# Columns of grades that this module reads; with the others, joins and filters would copy three times as much.
_READ = (
    "patient_id", "study_id", "picture", *WHO, "level", "item_id", "repeat", "rotation", "state", "parsed", "correct",
    "reply", "confidence", "answer_logprob",
)  # fmt: skip


def answers_with_confidence(study: ScoredSample) -> pl.DataFrame:
    """Return a table of graded answers with their confidence: a row for each answer and each source of confidence.

    Items of the grid on which no cell is a hit are left out, as no answer to them can be right.

    - ``estimate``: the source of the confidence: ``stated``, ``repeats`` or ``logprob``.
    - ``model, protocol, level, item_id, correct``: the answer. In rows with the source ``repeats``, this is the item's
      most frequent answer.
    - ``cluster``: the index of the patient.
    - ``confidence``: from 0 to 1; null if the source gives no confidence for this answer.
    - ``statement``: ``stated`` if there is a confidence; otherwise ``missing``, or the reason why the reply's statement
      cannot be read (a state of ``chexqa.eval.prompts.parser_confidence``).
    - ``_weight``: 1 divided by the number of rows with the same model, protocol, item and source.
    """
    rows = with_clusters(study.graded.grades.select(_READ))[0].drop("patient_id", "study_id", "picture")
    counted = study.said.select(*WHO, "item_id", "answer").filter(can_be_right()).drop("answer").unique()
    rows = rows.join(counted, on=[*WHO, "item_id"], how="semi")
    answered = rows.filter(pl.col("state").is_in(ANSWERED))
    return pl.concat([
        _stated(study.graded, answered), _selected(repeated(rows), REPEATS), _by_tokens(study.graded, answered)
    ])  # fmt: skip


def repeated(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the most frequent answer to each item that was asked at least twice in one order of options.

    The column ``confidence`` is the share of the item's repeats with this answer. Questions on places are left out.
    """
    # A repeat without a readable answer counts as one with another answer. Of equally frequent answers, the first wins.
    place = [*WHO, "item_id", "rotation"]
    said = pl.when(pl.col("state").is_in(ANSWERED)).then(pl.col("parsed").list.sort().cast(pl.List(pl.String))
                                                         .list.join(" "))  # fmt: skip
    asked = rows.filter(~pl.col("state").is_in(UNFINISHED)).with_columns(pl.len().over(place).alias("times"))
    known = asked.filter(pl.col("times") > 1).with_columns(said.alias("said")).filter(pl.col("said").is_not_null())
    votes = known.with_columns((pl.len().over([*place, "said"]) / pl.col("times")).alias("confidence"))
    first = votes.sort("confidence", -pl.col("repeat"), descending=True, maintain_order=True)
    return first.unique(place, keep="first", maintain_order=True)


def _stated(graded: Graded, rows: pl.DataFrame) -> pl.DataFrame:
    asked = _any_of((model, protocol_name(run)) for run in graded.runs if conditions.of_run(run.about).confidence
                    for model in run.models)  # fmt: skip
    told = pl.col("confidence").is_not_null()
    rows = rows.filter(asked | told.any().over(WHO))
    unread = pl.col("reply").map_elements(lambda text: parser_confidence.read(text).state, return_dtype=pl.String)
    state = pl.when(told).then(pl.lit("stated")).when(asked).then(unread.fill_null("missing"))
    return _selected(rows, STATED, state.otherwise(pl.lit("missing")))


def _by_tokens(graded: Graded, rows: pl.DataFrame) -> pl.DataFrame:
    asked = _any_of((model, protocol_name(run)) for run in graded.runs for model in run.models
                    if run.about["models"].get(model, {}).get("decoding", {}).get("logprobs"))  # fmt: skip
    told = pl.col("answer_logprob").is_not_null()
    return _selected(rows.filter(asked | told.any().over(WHO)).with_columns(confidence=pl.col("answer_logprob").exp()),
                     LOGPROB)  # fmt: skip


def _selected(rows: pl.DataFrame, estimate: str, statement: pl.Expr | None = None) -> pl.DataFrame:
    """Return the columns of :func:`answers_with_confidence`."""
    usual = pl.when(pl.col("confidence").is_null()).then(pl.lit("missing")).otherwise(pl.lit("stated"))
    return rows.select(
        *WHO, pl.lit(estimate).alias("estimate"), pl.col("level").fill_null(OTHER), "item_id", "cluster",
        own_weight(), "correct", "confidence",
        (usual if statement is None else statement).alias("statement"),
    )  # fmt: skip


def _any_of(who: Iterable[tuple[str, str]]) -> pl.Expr:
    """Return an expression that is True in rows with one of these pairs of model and protocol."""
    return pl.any_horizontal(
        pl.lit(False), *((pl.col("model") == model) & (pl.col("protocol") == protocol) for model, protocol in who)
    )
