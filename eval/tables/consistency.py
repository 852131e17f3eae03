"""Tables of contradictory answers in one conversation, and of scores with left and right exchanged in the key.

Both tables translate answers into regions, sides and zones by the key's evidence and the question bank's wording, so
the order of the options does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from chexqa import question_banks
from chexqa.contract.items import Item
from chexqa.contract.kinds import GRID_CELL
from chexqa.eval.scoring.intervals import Groups, proportion
from chexqa.eval.scoring.outcomes import ANSWERED
from chexqa.eval.scoring.sample import WEIGHT, WHO, ScoredSample, contrasts, mask_incomplete, ordered, rounds, weighed
from chexqa.eval.tables.levels_and_stages import beside
from chexqa.files.errors import InputError
from chexqa.imaging.anatomy import side_of, zone_of

RULES = {
    "one lung, two sides": "'only one side is affected', but places named on both sides",
    "one lung, many zones": "'only one side is affected', but four or more of the six zones",
    "more zones than counted": "places named in more zones than were counted",
    "in and out": "one point to be moved both outwards and inwards",
}
SINGLE, LEFT, RIGHT = "single", "left", "right"
# Options of older versions of the English bank, whose questions did not name sides.
_FORMER_WORDS = {
    "larger in the left lung": LEFT, "larger in the right lung": RIGHT, "only one lung is affected": SINGLE,
}  # fmt: skip
_USED = ("comparison", "location", "distribution", "revision_expansion", "revision_contraction")
_MIRROR = {"right": "left", "left": "right"}
Meanings = Mapping[str, tuple[str, ...]]


def contradictions(study: ScoredSample) -> pl.DataFrame:
    """Return how often each rule is broken.

    Columns: ``model, protocol, rule, asked`` (conversations in which both questions were answered) ``, contradictions,
    share, unfinished``.
    """  # fmt: skip
    meanings = option_meanings(study)
    rows = study.said.filter(pl.col("kind").is_in(_USED) & pl.col("state").is_in(ANSWERED))
    found: list[tuple[Any, ...]] = []
    keys = [*rounds(study), "cluster"]
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
    """Return the meanings of the options of each item about sides or zones, in the order of their numbers.

    Meanings of ``location`` are region names; meanings of ``comparison`` are ``similar, left, right, single``. An item
    with a wording other than that of the benchmark's question bank is left out.
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
    return _FORMER_WORDS | {texts[name]: name for name in ("similar", LEFT, RIGHT, SINGLE)}


def _judge(
    said: Mapping[str, tuple[str, list[int]]], meanings: Meanings, items: Mapping[str, Item]
) -> Iterator[tuple[str, bool]]:
    """Yield every rule that the answers of one conversation can break, with True if the answers break the rule."""
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
    """Return accuracy with the key and with left and right exchanged in the key.

    Only items whose key is changed by the exchange count. Columns: ``model, protocol, kind, items, accuracy, mirrored,
    gain`` (mirrored minus accuracy) ``, unfinished``. Kinds are ``location`` (its exchanged key has the offered places
    whose other side is involved), ``comparison``, and ``grid_cell`` (its exchanged key has the mirrored cells). The
    gain is positive for a model that takes the picture's left for the patient's left.
    """
    meanings = option_meanings(study)
    keys = _swapped(study, meanings)
    rows = study.said.join(keys, on="item_id", how="inner", maintain_order="left")
    hit = pl.when(pl.col("kind") == GRID_CELL).then(
        (pl.col("parsed").list.len() == 1) & pl.col("_swapped").list.contains(pl.col("parsed").list.first())
    ).otherwise(pl.col("parsed") == pl.col("_swapped"))  # fmt: skip
    rows = weighed(rows).with_columns(hit.fill_null(False).alias("_mirrored"))
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
    """Return ``item_id`` and the key with sides exchanged, for items whose key changes by the exchange."""
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
    """Return the region on the other side: ``right_mid_medial`` for ``left_mid_medial``."""
    side = side_of(place)
    return place.replace(side, _MIRROR[side], 1)
