"""Tables of effects that do not come from the radiograph: missing pictures, order of options, random replies.

``without_radiograph`` compares a run with ``--blind`` or ``--overlay-only`` to the same model's run with pictures.
``rotations`` and ``positions`` use runs with ``--rotate``, and ``agreement`` uses runs with ``--repeats``.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from chexqa.contract.kinds import GRID_CELL, LEVELS
from chexqa.eval.scoring.grade import WITHOUT
from chexqa.eval.scoring.intervals import Estimates, Groups, corrected, proportion
from chexqa.eval.scoring.sample import (
    CHANCE,
    RIGHT,
    STRATUM,
    WEIGHT,
    WHO,
    ScoredSample,
    contrasts,
    mask_incomplete,
    mean_by,
    ordered,
    strata,
    weighed,
)
from chexqa.eval.tables.asked_items import item_sets
from chexqa.eval.tables.levels_and_stages import beside, compared
from chexqa.eval.tables.subgroups import GRID_SCORE

_SCORES = [*LEVELS, GRID_SCORE]


def level_scores(study: ScoredSample, rows: pl.DataFrame, by: Sequence[str]) -> tuple[pl.DataFrame, Estimates]:
    """Return scores of levels (corrected for chance) and of the grid (hit rate, mean of findings), grouped by ``by``.

    ``rows`` are rows of the study. The groups that are returned have the columns ``by`` and ``score``.
    """
    level = compared(study).select("item_id").unique()
    scored = rows.join(level, on="item_id", how="semi", maintain_order="left").filter(pl.col("scored"))
    named = strata(scored, by).with_columns(pl.col("level").alias("score"), pl.col("kind").alias("part"))
    grid = rows.filter(pl.col("kind") == GRID_CELL).with_columns(
        pl.lit(GRID_SCORE).alias("score"), pl.col("finding").alias("part"), pl.lit("").alias(STRATUM),
        pl.lit(0.0).alias(CHANCE),
    )  # fmt: skip
    names = [*by, "score", "part", STRATUM, "cluster", WEIGHT, RIGHT, CHANCE]
    groups = Groups(study.sample, pl.concat([named.select(names), grid.select(names)]), [*by, "score", "part", STRATUM])
    values = corrected(groups.sums(RIGHT), groups.sums(CHANCE), groups.sums(WEIGHT))
    return mean_by(*mean_by(groups.keys, values, [*by, "score", "part"]), [*by, "score"])


def without_radiograph(study: ScoredSample) -> pl.DataFrame:
    """Return scores with and without the radiograph.

    Columns: ``model, protocol, without, score, with_image, without_image, difference, retained, unfinished``.
    ``without``: ``blind`` or ``overlay only``. ``difference`` is the score with the radiograph minus the score without
    it. ``retained`` is the score without the radiograph divided by the score with it; null if the latter is not above
    chance. Runs that asked different items are not compared.
    """
    keys, scores = level_scores(study, study.rows, WHO)
    asked = item_sets(study.rows.with_columns(score=pl.coalesce("level", pl.lit(GRID_SCORE))), [*WHO, "score"])
    place = {row: number for number, row in enumerate(keys.rows())}
    rows, pairs = [], []
    for model, protocol, score in keys.rows():
        for words in WITHOUT.values():
            other = (model, f"{protocol} ({words})", score)
            if other in place and asked[other] == asked[model, protocol, score]:
                rows.append((model, protocol, words, score))
                pairs.append((place[model, protocol, score], place[other]))
    frame = pl.DataFrame(rows, schema=dict.fromkeys([*WHO, "without", "score"], pl.String), orient="row")
    first, second = ([pair[side] for pair in pairs] for side in (0, 1))
    numbers = {"with_image": scores.take(first), "without_image": scores.take(second),
               "difference": scores.combine(contrasts(keys.height, pairs))}  # fmt: skip
    table = beside(frame, numbers).with_columns(
        pl.when(pl.col("with_image") > 0).then(pl.col("without_image") / pl.col("with_image")).alias("retained")
    )
    return ordered(study, _hide_both(study, table), without=list(WITHOUT.values()), score=_SCORES)


def _hide_both(study: ScoredSample, table: pl.DataFrame) -> pl.DataFrame:
    """Return the table with null instead of numbers where either of the two runs has unfinished items."""
    other = study.completeness.select(
        "model", pl.col("protocol").alias("_other"), pl.col("known").alias("_known"),
        pl.col("unfinished").alias("_unfinished"),
    )  # fmt: skip
    spread = [f"{name}{end}" for name in ("with_image", "without_image", "difference") for end in ("", "_low", "_high")]
    hidden = mask_incomplete(study, table, ["with_image", "without_image", "difference", "retained"])
    named = hidden.with_columns(pl.format("{} ({})", "protocol", "without").alias("_other"))
    joined = named.join(other, on=["model", "_other"], how="left", maintain_order="left")
    return joined.with_columns(
        *(pl.when("_known").then(pl.col(name)).alias(name) for name in [*spread, "retained"]),
        pl.col("unfinished") + pl.col("_unfinished"),
    ).drop("_other", "_known", "_unfinished")


def rotations(study: ScoredSample) -> pl.DataFrame:
    """Return scores in each order of options, and the largest gap between two orders:

    ``model, protocol, rotation, score, value, spread, unfinished``. Only runs with more than one order have rows.
    """  # fmt: skip
    many = study.rows.filter(pl.col("rotation").n_unique().over(WHO) > 1)
    rows = many.with_columns(
        (pl.col(name) * pl.col("rotation").n_unique().over([*WHO, "item_id"])).alias(name)
        for name in (WEIGHT, RIGHT, CHANCE)
    )
    keys, values = level_scores(study, rows, [*WHO, "rotation"])
    table = beside(keys, {"value": values})
    spread = (pl.col("value").max() - pl.col("value").min()).over([*WHO, "score"]).alias("spread")
    return ordered(study, mask_incomplete(study, table.with_columns(spread), ["value", "spread"]), score=_SCORES)


def positions(study: ScoredSample) -> pl.DataFrame:
    """Return how often the option in each place is chosen, and how often it is right: ``model, protocol, kind,
    position, answers, chosen, right, bias, unfinished``, for single-choice kinds with options.

    ``position`` is the displayed place; ``answers`` counts readable answers; ``bias`` is ``chosen`` minus ``right``.
    """  # fmt: skip
    single = [kind for kind, about in study.benchmark.kinds.items() if about.form.name == "single"]
    rows = study.said.filter(pl.col("kind").is_in(single) & (pl.col("parsed").list.len() == 1))
    rows = _displayed(_displayed(weighed(rows), "parsed", "_chosen"), "answer", "_key")
    places = rows.group_by("kind").agg(pl.max_horizontal(pl.col("_chosen").max(), pl.col("_key").max()).alias("most"))
    every = places.select("kind", pl.int_ranges(1, pl.col("most") + 1).alias("position")).explode("position")
    crossed = rows.select(*WHO, "kind", "item_id", "cluster", WEIGHT, "_chosen", "_key").join(every, on="kind")
    groups = Groups(study.sample, crossed, [*WHO, "kind", "position"])
    whole = groups.sums(WEIGHT)
    numbers = {
        "chosen": proportion(groups.sums(pl.col(WEIGHT) * (pl.col("_chosen") == pl.col("position"))), whole),
        "right": proportion(groups.sums(pl.col(WEIGHT) * (pl.col("_key") == pl.col("position"))), whole),
    }
    count = groups.keys.height
    numbers["bias"] = (
        numbers["chosen"]
        .join(numbers["right"])
        .combine(contrasts(2 * count, [(number, count + number) for number in range(count)]))
    )
    counted = groups.keys.with_columns(pl.Series("answers", whole.total).round().cast(pl.Int64))
    table = beside(counted, numbers).drop("right_low", "right_high")
    return ordered(
        study,
        mask_incomplete(study, table, ["chosen", "bias"]),
        kind=list(study.benchmark.kinds),
        position=range(1, 65),
    )


def _displayed(rows: pl.DataFrame, column: str, name: str) -> pl.DataFrame:
    """Return the rows with a column ``name``: the displayed place of the single option number in ``column``."""
    own = pl.col(column).list.first()
    numbered = rows.with_row_index("_at")
    turned = numbered.filter(pl.col("order").is_not_null()).select(
        "_at", own.alias("_own"), "order", pl.int_ranges(1, pl.col("order").list.len() + 1).alias("_place")
    )
    placed = turned.explode("order", "_place").filter(pl.col("order") == pl.col("_own")).select("_at", "_place")
    joined = numbered.join(placed, on="_at", how="left", maintain_order="left")
    return joined.with_columns(pl.coalesce("_place", own).alias(name)).drop("_at", "_place")


def agreement(study: ScoredSample) -> pl.DataFrame:
    """Return the agreement of repeats.

    Columns: ``model, protocol, kind, items, repeats, same_answer, same_verdict, unfinished``. Two repeats of an item in
    the same order of options form a pair. ``same_answer`` is the share of pairs with the same answer (two unreadable
    answers agree); ``same_verdict`` is the share in which both are right or both are not right. Only runs with repeats
    have rows.
    """
    by = [*WHO, "kind", "item_id", "rotation"]
    many = study.said.filter(pl.col("repeat").n_unique().over(WHO) > 1).with_columns(
        pl.col("parsed").cast(pl.List(pl.String)).list.join(",").fill_null("").alias("_said")
    )
    count = pl.len().cast(pl.Int64)

    def same(column: str, name: str) -> pl.Expr:
        # Evaluated once: value_counts returns its rows in another order at each evaluation.
        squares = pl.col(column).value_counts().struct.field("count").cast(pl.Int64).pow(2).sum()
        return ((squares - count) / (count * (count - 1))).alias(f"same_{name}")

    rounds = (
        many.group_by([*by, "cluster"], maintain_order=True)
        .agg(pl.len().alias("repeats"), same("_said", "answer"), same("correct", "verdict"), pl.lit(1.0).alias(WEIGHT))
        .filter(pl.col("repeats") > 1)
    )
    groups = Groups(study.sample, rounds, [*WHO, "kind"])
    whole = groups.sums(WEIGHT)
    numbers = {"same_answer": proportion(groups.sums("same_answer"), whole, binary=False),
               "same_verdict": proportion(groups.sums("same_verdict"), whole, binary=False)}  # fmt: skip
    facts = rounds.group_by([*WHO, "kind"], maintain_order=True).agg(
        pl.col("item_id").n_unique().alias("items"), pl.col("repeats").max()
    )
    return ordered(
        study, mask_incomplete(study, beside(facts, numbers), list(numbers)), kind=list(study.benchmark.kinds)
    )
