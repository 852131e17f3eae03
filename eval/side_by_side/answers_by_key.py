"""Counts of answers for each right option, for kinds of question that are answered with one of a few options."""

from __future__ import annotations

import polars as pl

from chexqa.eval.scoring.outcomes import ANSWERED
from chexqa.eval.scoring.sample import WHO, ScoredSample, ordered

# The largest number of different option texts of a kind; a table of more options tells little.
MOST_OPTIONS = 8
NO_ANSWER = "no answer"
_TEXTS = ("model", "protocol", "kind", "key", "answer")
_SCHEMA = pl.Schema({**dict.fromkeys(_TEXTS, pl.String()), "items": pl.Int64()})


def option_texts(study: ScoredSample) -> dict[str, list[str]]:
    """Return, keyed by kind, the texts of the options in the order shown, for kinds answered with one of a few options.

    Kinds whose options are pictures, cells or places, and kinds that take several options, are left out.
    """
    found: dict[str, dict[str, None]] = {}
    left_out = set()
    for item in study.benchmark.items:
        texts = [option.text for option in item.options]
        if item.form.takes_several or item.form.is_place or not texts or None in texts:
            left_out.add(item.kind)
        elif item.kind not in left_out:
            seen = found.setdefault(item.kind, {})
            seen |= dict.fromkeys(str(text) for text in texts)
            if len(seen) > MOST_OPTIONS:
                left_out.add(item.kind)
    return {kind: list(texts) for kind, texts in found.items() if kind not in left_out}


def answers_by_key(study: ScoredSample) -> pl.DataFrame:
    """Return how often each option was named, for each right option: ``model, protocol, kind, key, answer, items``.

    ``items`` counts questions; repeats and orders of options count separately. A reply without a readable answer counts
    as :data:`NO_ANSWER`.
    """
    kinds = option_texts(study)
    texts = pl.DataFrame(
        [(item.item_id, option.n, option.text) for item in study.benchmark.items if item.kind in kinds
         for option in item.options],
        schema={"item_id": pl.String, "_n": pl.Int64, "text": pl.String}, orient="row",
    )  # fmt: skip
    said = study.said.filter(pl.col("kind").is_in(list(kinds))).with_columns(
        pl.col("answer").list.first().alias("_key"),
        pl.when(pl.col("state").is_in(ANSWERED)).then(pl.col("parsed").list.first()).alias("_said"),
    )
    for number, name in (("_key", "key_text"), ("_said", "answer_text")):
        said = said.join(texts.rename({"_n": number, "text": name}), on=["item_id", number], how="left")
    counted = (
        said.filter(pl.col("key_text").is_not_null())
        .group_by(*WHO, "kind", pl.col("key_text").alias("key"), pl.col("answer_text").fill_null(NO_ANSWER).alias("_a"))
        .agg(pl.len().cast(pl.Int64).alias("items"))
        .rename({"_a": "answer"})
    )
    options = [text for kind in kinds.values() for text in kind]
    return ordered(
        study, counted.select(list(_SCHEMA)).cast(_SCHEMA), kind=list(kinds), key=options, answer=[*options, NO_ANSWER]
    )  # fmt: skip
