"""Robustness of scores (without the radiograph, in other orders of options, in repeats), and contradictory answers.

- ``without_radiograph``: runs with ``--blind`` or ``--overlay-only`` beside runs with radiographs.
- ``rotations``, ``positions``: runs with ``--rotate``.
- ``agreement``: runs with ``--repeats``.
- ``contradictions``: answers in one conversation.
- ``mirrored``: answers against a key with left and right exchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from chexqa import question_banks
from chexqa.contract.items import Item
from chexqa.contract.kinds import GRID_CELL, LEVELS
from chexqa.eval.scoring.associations import ratios
from chexqa.eval.scoring.grade import WITHOUT
from chexqa.eval.scoring.intervals import Estimates, Groups, corrected, proportion
from chexqa.eval.scoring.outcomes import ANSWERED
from chexqa.eval.scoring.sample import (
    CHANCE,
    RIGHT,
    STRATUM,
    WEIGHT,
    WHO,
    YES,
    ScoredSample,
    contrasts,
    mask_incomplete,
    mean_by,
    ordered,
    own_weight,
    rounds,
    strata,
)
from chexqa.eval.tables.asked_items import item_sets
from chexqa.eval.tables.levels_and_stages import beside, compared
from chexqa.eval.tables.subgroups import GRID_SCORE
from chexqa.files.errors import InputError
from chexqa.imaging.anatomy import side_of, zone_of

_SCORES = [*LEVELS, GRID_SCORE]
RULES = {
    "one lung, two sides": "'only one side is affected', but places named on both sides",
    "one lung, many zones": "'only one side is affected', but four or more of the six zones",
    "more zones than counted": "places named in more zones than were counted",
    "in and out": "one point to be moved both outwards and inwards",
}
SINGLE, LEFT_LUNG, RIGHT_LUNG = "single", "left", "right"
# Options of older versions of the English bank, whose questions did not name sides.
_FORMER_WORDS = {
    "larger in the left lung": LEFT_LUNG, "larger in the right lung": RIGHT_LUNG, "only one lung is affected": SINGLE,
}  # fmt: skip
_USED = ("comparison", "location", "distribution", "revision_expansion", "revision_contraction")
_MIRROR = {"right": "left", "left": "right"}
Meanings = Mapping[str, tuple[str, ...]]


_READ = ("item_id", "level", "kind", "finding", "scored", "cluster", YES, WEIGHT, RIGHT, CHANCE)


def level_scores(study: ScoredSample, rows: pl.DataFrame, by: Sequence[str]) -> tuple[pl.DataFrame, Estimates]:
    """Return scores of levels (corrected for chance) and of the grid (hit rate), grouped by ``by``.

    ``rows`` are rows of the study. The returned groups have the columns in ``by`` and the column ``score``.
    """
    level = compared(study, ["item_id"]).unique()
    rows = rows.select(list(dict.fromkeys([*by, *_READ])))
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

    - ``model, protocol, score, with_image, without_image, unfinished``
    - ``without``: what was shown instead of the radiograph: nothing (``blind``), or only what is drawn on it (``overlay
      only``).
    - ``difference``: ``with_image - without_image``.
    - ``retained``: ``without_image / with_image``; null if the score ``with_image`` is not above chance. The interval
      of ``retained`` is null if the lower end of the interval of ``with_image`` is not above chance.

    Runs that asked different items are not compared.
    """
    keys, scores = level_scores(study, study.rows, WHO)
    asked = item_sets(
        study.rows.select(*WHO, "item_id", score=pl.coalesce("level", pl.lit(GRID_SCORE))), [*WHO, "score"]
    )
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
    kept = ratios(scores, [(unseen, seen) for seen, unseen in pairs])
    table = beside(frame, numbers).with_columns(
        pl.Series("retained" if end == "value" else f"retained_{end}", column, pl.Float64).fill_nan(None)
        for end, column in kept.items()
    )
    return ordered(study, _hide_both(study, table), without=list(WITHOUT.values()), score=_SCORES)


def _hide_both(study: ScoredSample, table: pl.DataFrame) -> pl.DataFrame:
    """Return the table with null in place of the numbers of a row if one of its two runs has unfinished items."""
    other = study.completeness.select(
        "model", pl.col("protocol").alias("_other"), pl.col("known").alias("_known"),
        pl.col("unfinished").alias("_unfinished"),
    )  # fmt: skip
    numbers = ["with_image", "without_image", "difference", "retained"]
    spread = [f"{name}{end}" for name in numbers for end in ("", "_low", "_high")]
    hidden = mask_incomplete(study, table, numbers)
    named = hidden.with_columns(pl.format("{} ({})", "protocol", "without").alias("_other"))
    joined = named.join(other, on=["model", "_other"], how="left", maintain_order="left")
    return joined.with_columns(
        *(pl.when("_known").then(pl.col(name)).alias(name) for name in spread),
        pl.col("unfinished") + pl.col("_unfinished"),
    ).drop("_other", "_known", "_unfinished")


def rotations(study: ScoredSample) -> pl.DataFrame:
    """Return the scores in each order of options, and the largest gap between two orders.

    Columns: ``model, protocol, rotation, score, value, spread, unfinished``. Runs with a single order have no rows.
    """
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
    """Return how often the option at each position is chosen, and how often it is the key, for single-choice kinds.

    Columns: ``model, protocol, kind, position`` (as displayed), ``answers`` (readable answers), ``chosen, key_share``
    (shares), ``bias`` (``chosen`` minus ``key_share``), ``unfinished``. The grid is left out.
    """
    single = [kind for kind, about in study.benchmark.kinds.items() if about.form.name == "single"]
    read = study.said.select(*WHO, "kind", "item_id", "cluster", "parsed", "order", "answer")
    rows = read.filter(pl.col("kind").is_in(single) & (pl.col("parsed").list.len() == 1))
    rows = _displayed(_displayed(rows.with_columns(own_weight()), "parsed", "_chosen"), "answer", "_key")
    places = rows.group_by("kind").agg(pl.max_horizontal(pl.col("_chosen").max(), pl.col("_key").max()).alias("most"))
    every = places.select("kind", pl.int_ranges(1, pl.col("most") + 1).alias("position")).explode("position")
    crossed = rows.select(*WHO, "kind", "cluster", WEIGHT, "_chosen", "_key").join(every, on="kind")
    groups = Groups(study.sample, crossed, [*WHO, "kind", "position"])
    whole = groups.sums(WEIGHT)
    numbers = {
        "chosen": proportion(groups.sums(pl.col(WEIGHT) * (pl.col("_chosen") == pl.col("position"))), whole),
        "key_share": proportion(groups.sums(pl.col(WEIGHT) * (pl.col("_key") == pl.col("position"))), whole),
    }
    count = groups.keys.height
    numbers["bias"] = (
        numbers["chosen"]
        .join(numbers["key_share"])
        .combine(contrasts(2 * count, [(number, count + number) for number in range(count)]))
    )
    counted = groups.keys.with_columns(pl.Series("answers", whole.total).round().cast(pl.Int64))
    table = beside(counted, numbers).drop("key_share_low", "key_share_high")
    return ordered(
        study,
        mask_incomplete(study, table, ["chosen", "bias"]),
        kind=list(study.benchmark.kinds),
        position=range(1, 65),
    )


def _displayed(rows: pl.DataFrame, column: str, name: str) -> pl.DataFrame:
    """Return the rows with a column ``name``: the displayed position of the single option whose number is in
    ``column``.
    """
    own = pl.col(column).list.first()
    numbered = rows.with_row_index("_at")
    turned = numbered.filter(pl.col("order").is_not_null()).select(
        "_at", own.alias("_own"), "order", pl.int_ranges(1, pl.col("order").list.len() + 1).alias("_place")
    )
    placed = turned.explode("order", "_place").filter(pl.col("order") == pl.col("_own")).select("_at", "_place")
    joined = numbered.join(placed, on="_at", how="left", maintain_order="left")
    return joined.with_columns(pl.coalesce("_place", own).alias(name)).drop("_at", "_place")


def agreement(study: ScoredSample) -> pl.DataFrame:
    """Return how often two repeats of an item agree; runs without repeats have no rows.

    Only repeats with the options in the same order are paired. Columns:

    - ``model, protocol, kind, items, repeats, unfinished``
    - ``same_answer``: the share of pairs with equal answers; two unreadable answers are equal.
    - ``same_verdict``: the share of pairs in which both answers are right, or neither is.
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


def contradictions(study: ScoredSample) -> pl.DataFrame:
    """Return a row for each rule: how often two answers in one conversation contradict each other.

    Columns: ``model, protocol, rule, asked`` (conversations with both questions answered), ``contradictions, share,
    unfinished``.
    """
    meanings = option_meanings(study)
    keys = [*rounds(study), "cluster"]
    read = study.said.select(*keys, "kind", "item_id", "parsed", "state")
    rows = read.filter(pl.col("kind").is_in(_USED) & pl.col("state").is_in(ANSWERED))
    found: list[tuple[Any, ...]] = []
    grouped = rows.group_by(keys, maintain_order=True).agg("kind", "item_id", "parsed")
    for *key, kinds, item_ids, answers in grouped.iter_rows():
        said = {kind: (item_id, answer) for kind, item_id, answer in zip(kinds, item_ids, answers, strict=True)}
        found += [(*key, rule, broken) for rule, broken in _judge(said, meanings, study.benchmark.item)]
    schema: dict[str, Any] = {**{name: rows.schema[name] for name in keys}, "rule": pl.String, "broken": pl.Boolean}
    judged = pl.DataFrame(found, schema=schema, orient="row").with_columns(
        (1.0 / pl.len().over([*WHO, "case_id", "rule"])).alias(WEIGHT)
    )
    groups = Groups(study.sample, judged, [*WHO, "rule"])
    share = proportion(groups.sums(pl.col(WEIGHT) * pl.col("broken")), groups.sums(WEIGHT))
    facts = judged.group_by([*WHO, "rule"], maintain_order=True).agg(
        pl.len().alias("asked"), pl.col("broken").sum().alias("contradictions")
    )
    return ordered(
        study, mask_incomplete(study, beside(facts, {"share": share}), ["contradictions", "share"]), rule=list(RULES)
    )


def option_meanings(study: ScoredSample) -> Meanings:
    """Return what each option of an item on sides or zones means, in the order of option numbers, keyed by item id.

    - In the kind ``location``, an option means a region, and the last option means "" (no region).
    - In the kind ``comparison``, an option means ``similar``, ``left``, ``right`` or ``single``. Items with options
      that are not in the benchmark's question bank are left out.
    """
    answers, _ = study.benchmark.key("contradictions")
    words = _comparison_words(study)
    found: dict[str, tuple[str, ...]] = {}
    for item in study.benchmark.items:
        if item.kind == "location" and "shown" in answers[item.item_id].evidence:
            found[item.item_id] = (*answers[item.item_id].evidence["shown"], "")
        elif item.kind == "comparison" and all(option.text in words for option in item.options):
            found[item.item_id] = tuple(words[str(option.text)] for option in item.options)
    return found


def _comparison_words(study: ScoredSample) -> dict[str, str]:
    try:
        texts = question_banks.load(study.benchmark.about["question_bank"]["name"])["kinds"]["comparison"]
    except InputError:  # the user's own question bank, whose file is not known here
        return {}
    return _FORMER_WORDS | {texts[name]: name for name in ("similar", LEFT_LUNG, RIGHT_LUNG, SINGLE)}


def _judge(
    said: Mapping[str, tuple[str, list[int]]], meanings: Meanings, items: Mapping[str, Item]
) -> Iterator[tuple[str, bool]]:
    """Yield each rule that applies to the answers of one conversation, with True if the answers break the rule."""
    places = _meant(said.get("location"), meanings)
    compared = _meant(said.get("comparison"), meanings)
    zones = said["distribution"][1][0] if "distribution" in said else None
    single = compared == [SINGLE]
    named = [place for place in places or () if place]
    if places is not None and compared is not None:
        yield "one lung, two sides", single and len({side_of(place) for place in named}) == 2
    if zones is not None and compared is not None:
        yield "one lung, many zones", single and zones == 4
    if zones is not None and places is not None:
        yield "more zones than counted", len({zone_of(place) for place in named}) > zones
    if "revision_expansion" in said and "revision_contraction" in said:
        (item_id, outwards), (_, inwards) = said["revision_expansion"], said["revision_contraction"]
        none = len(items[item_id].options)  # "at none of the points" is the last option of both questions
        yield "in and out", bool((set(outwards) & set(inwards)) - {none})


def _meant(said: tuple[str, list[int]] | None, meanings: Meanings) -> list[str] | None:
    if said is None or said[0] not in meanings:
        return None
    return [meanings[said[0]][number - 1] for number in said[1]]


def mirrored(study: ScoredSample) -> pl.DataFrame:
    """Return the accuracy against the key, and against the key with left and right exchanged.

    Columns: ``model, protocol, kind, items, accuracy, mirrored, gain`` (mirrored minus accuracy), ``unfinished``. An
    item counts only if its key changes. The gain is positive for a model that takes the left of the picture for the
    patient's left.
    """
    meanings = option_meanings(study)
    keys = _swapped(study, meanings)
    read = study.said.select(*WHO, "kind", "item_id", "cluster", "parsed", "correct")
    rows = read.join(keys, on="item_id", how="inner", maintain_order="left")
    hit = pl.when(pl.col("kind") == GRID_CELL).then(
        (pl.col("parsed").list.len() == 1) & pl.col("_swapped").list.contains(pl.col("parsed").list.first())
    ).otherwise(pl.col("parsed") == pl.col("_swapped"))  # fmt: skip
    rows = rows.with_columns(own_weight(), hit.fill_null(False).alias("_mirrored"))
    groups = Groups(study.sample, rows, [*WHO, "kind"])
    whole = groups.sums(WEIGHT)
    accuracy = proportion(groups.sums(pl.col(WEIGHT) * pl.col("correct")), whole)
    swapped = proportion(groups.sums(pl.col(WEIGHT) * pl.col("_mirrored")), whole)
    count = groups.keys.height
    gain = swapped.join(accuracy).combine(contrasts(2 * count, [(at, count + at) for at in range(count)]))
    facts = rows.group_by([*WHO, "kind"], maintain_order=True).agg(pl.col("item_id").n_unique().alias("items"))
    table = beside(facts, {"accuracy": accuracy, "mirrored": swapped, "gain": gain})
    return ordered(
        study, mask_incomplete(study, table, ["accuracy", "mirrored", "gain"]), kind=list(study.benchmark.kinds)
    )


def _swapped(study: ScoredSample, meanings: Meanings) -> pl.DataFrame:
    """Return ``item_id`` and the exchanged key, for the items whose key changes when sides are exchanged."""
    answers, _ = study.benchmark.key("swapping sides")
    found: dict[str, list[int]] = {}
    for item in study.benchmark.items:
        other = _swapped_key(item, answers[item.item_id].answer, answers[item.item_id].evidence, meanings)
        if other and tuple(other) != answers[item.item_id].answer:
            found[item.item_id] = other
    return pl.DataFrame(
        {"item_id": list(found), "_swapped": list(found.values())},
        schema={"item_id": pl.String, "_swapped": pl.List(pl.Int64)},
    )


def _swapped_key(item: Item, answer: tuple[int, ...], evidence: Mapping[str, Any], meanings: Meanings) -> list[int]:
    if item.kind == GRID_CELL:
        return sorted(cell + 7 - 2 * ((cell - 1) % 8) for cell in answer)
    meant = meanings.get(item.item_id, ())
    if item.kind == "location" and "involved" in evidence and meant:
        swapped = [number for number, place in enumerate(meant, start=1) if place and other_side(place) in
                   evidence["involved"]]  # fmt: skip
        return swapped or [len(meant)]
    if item.kind == "comparison" and meant:
        return [1 + meant.index(_MIRROR.get(meant[answer[0] - 1], meant[answer[0] - 1]))]
    return []


def other_side(place: str) -> str:
    """Return the name of the same region on the other side: ``right_mid_medial`` becomes ``left_mid_medial``."""
    side = side_of(place)
    return place.replace(side, _MIRROR[side], 1)
