"""Protocols compared on the same models and items, and rankings of models by two scores or under two protocols.

The two protocols of a pair differ in one thing, for example:

- in the earlier answers that a model is shown: ``end_to_end`` and ``oracle_passed``;
- in a condition, written in brackets in the protocol's name: ``end_to_end`` and ``end_to_end (blind)``.

All tests are exploratory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations

import numpy as np
import polars as pl
from scipy import sparse, stats

from chexqa.contract.kinds import LEVELS
from chexqa.eval.scoring.intervals import Floats
from chexqa.eval.scoring.sample import WHO, ScoredSample, contrasts
from chexqa.eval.scoring.significance import intervals_agreeing_with_p, sign_flips
from chexqa.eval.tables import model_pairs
from chexqa.eval.tables.asked_items import item_sets
from chexqa.eval.tables.levels_and_stages import OVERALL, beside
from chexqa.eval.tables.model_pairs import DIGITS, GRID_SCORE, MAIN, ScoreMatrix

LEAST_RANKED = 3
_PAIR = {"model": pl.String, "protocol_a": pl.String, "protocol_b": pl.String, "score": pl.String}
_PROTOCOLS = _PAIR | dict.fromkeys(
    ["value_a", "value_b", "difference", "difference_low", "difference_high", "p", "margin", "p_alike"], pl.Float64
)
_RANKED = dict.fromkeys(["protocol_a", "score_a", "protocol_b", "score_b"], pl.String)
_RANKINGS = _RANKED | {"models": pl.Int64} | dict.fromkeys(["tau", "tau_least", "tau_most"], pl.Float64)
_LABEL = "\0"


def protocols(study: ScoredSample) -> pl.DataFrame:
    """Return the scores of each model under two protocols that differ in one thing, on the same items.

    Columns: ``model, protocol_a, protocol_b, score, value_a, value_b, difference`` (a minus b), ``p`` (sign-flip test
    over patients, not corrected), ``margin, p_alike`` (:meth:`chexqa.eval.scoring.intervals.Estimates.p_alike`). A
    model with unfinished items is not compared.
    """
    whole = study.completeness.filter((pl.col("unfinished") == 0) & pl.col("known")).select(WHO)
    wanted = list(_wanted(whole.rows()))
    if not wanted:
        return pl.DataFrame(schema=_PROTOCOLS)
    labels = sorted({(model, protocol) for model, *pair in wanted for protocol in pair})
    every = model_pairs.score_rows(study).join(
        pl.DataFrame(labels, schema=WHO, orient="row"), on=WHO, how="semi", maintain_order="left"
    )
    rows = every.with_columns(pl.concat_str(WHO, separator=_LABEL).alias("model"))
    asked: dict[tuple[int, int], list[str]] = {}
    for (label,), mark in item_sets(rows, ["model"]).items():
        asked.setdefault(mark, []).append(label)
    parts = [pl.DataFrame(schema=_PROTOCOLS)]
    for same in asked.values():
        here = [pair for pair in wanted if {_label(pair[0], pair[1]), _label(pair[0], pair[2])} <= set(same)]
        if here:
            kept = rows.filter(pl.col("model").is_in(same))
            matrix = model_pairs.make_matrix(study.sample, kept, same, "", False)
            parts.append(_differences(matrix, here, study.graded.margin))
    return pl.concat(parts)


def _label(model: str, protocol: str) -> str:
    return f"{model}{_LABEL}{protocol}"


def _wanted(finished: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str, str]]:
    """Yield the model and the two protocols of each pair (:func:`pairs_of`)."""
    own: dict[str, list[str]] = {}
    for model, protocol in finished:
        own.setdefault(model, []).append(protocol)
    for model, names in own.items():
        for pair in pairs_of(names):
            yield model, *pair


def pairs_of(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return the pairs of protocols to compare: those that differ in one thing.

    A name can end in brackets. Two protocols are a pair in these cases:

    - Only one name has brackets, and the text before them is the other name. The name without brackets comes first.
    - Both names end in the same brackets, or neither has brackets. If one of them is ``end_to_end``, with or without
      brackets, it comes first.

    >>> pairs_of(["independent", "end_to_end (blind)", "end_to_end"])
    [('end_to_end', 'independent'), ('end_to_end', 'end_to_end (blind)')]
    """
    split = {name: name.partition(" (") for name in names}
    ordered = sorted(split, key=lambda name: (split[name][2] != "", split[name][0] != MAIN))
    return [
        (first, second)
        for first, second in combinations(ordered, 2)
        if second.startswith(f"{first} (") or split[first][2] == split[second][2]
    ]


def uncompared(frames: Mapping[str, pl.DataFrame]) -> Iterator[str]:
    """Yield a sentence with the reason if several protocols were asked and no model is compared under two of them.

    ``frames`` has the tables ``states`` and ``protocols``.
    """
    names = frames["states"]["protocol"].unique(maintain_order=True).to_list()
    if len(names) < 2 or frames["protocols"].height:
        return
    reason = (
        "no model finished the same questions under two of them that differ in one thing"
        if pairs_of(names)
        else "they differ in more than one thing"
    )
    yield f"The protocols {' and '.join(names)} are not compared with each other: {reason}."


def _differences(matrix: ScoreMatrix, pairs: list[tuple[str, str, str]], margin: float) -> pl.DataFrame:
    """Return the differences on every score of a matrix; each pair is (model, first protocol, second protocol)."""
    keys, places = [], []
    for model, first, second in pairs:
        sides = [matrix.models.index(_label(model, protocol)) for protocol in (first, second)]
        for number, score in enumerate(matrix.scores):
            keys.append((model, first, second, score))
            places.append((matrix.place(number, sides[0]), matrix.place(number, sides[1])))
    weights = sparse.csr_matrix(contrasts(matrix.cluster_parts.shape[1], places))
    differences = matrix.values.combine(weights)
    table = beside(pl.DataFrame(keys, schema=_PAIR, orient="row"), {"difference": differences})
    firsts, seconds = np.array(places).T
    return (
        table.with_columns(
            pl.Series("value_a", matrix.values.value[firsts]),
            pl.Series("value_b", matrix.values.value[seconds]),
            pl.Series("p", sign_flips(matrix.cluster_parts, weights)),
            pl.lit(margin).alias("margin"),
            pl.Series("p_alike", differences.p_alike(margin)).fill_nan(None),
        )
        .with_columns(intervals_agreeing_with_p())
        .select(list(_PROTOCOLS))
    )


def rankings(groups: pl.DataFrame) -> pl.DataFrame:
    """Return how well the models' rankings agree: those by different scores, and those under different protocols.

    ``groups`` is the report's table of this name; its baselines and readers are not ranked. The returned table has a
    row for each pair of rankings, with the columns ``protocol_a, score_a, protocol_b, score_b``, ``models`` (how many
    are ranked), ``tau`` (Kendall's tau-b), and ``tau_least, tau_most`` (range of tau when any one model is left out).
    """
    ranked = groups.filter(~pl.any_horizontal(pl.col("model").str.starts_with(mark) for mark in model_pairs.NO_RIVALS))
    values: dict[tuple[str, str], dict[str, float]] = {}
    for protocol, score, model, value in ranked.select("protocol", "score", "model", "value").drop_nulls().iter_rows():
        values.setdefault((protocol, score), {})[model] = value
    known = list(dict.fromkeys(protocol for protocol, _ in values))
    scores = [*LEVELS, OVERALL, GRID_SCORE]
    within = [((name, one), (name, two)) for name in known
              for one, two in combinations([score for score in scores if score != OVERALL], 2)]  # fmt: skip
    between = [((first, score), (second, score)) for first, second in pairs_of(known) for score in scores]
    rows = []
    for first, second in [*within, *between]:
        models = [model for model in values.get(first, {}) if model in values.get(second, {})]
        if len(models) >= LEAST_RANKED:
            pair = np.array([[values[side][model] for model in models] for side in (first, second)])
            rows.append((*first, *second, len(models), *_taus(pair)))
    return pl.DataFrame(rows, schema=_RANKINGS, orient="row")


def _taus(pair: Floats) -> tuple[float | None, float | None, float | None]:
    """Return tau of two rows of values ``(2, models)``, and the smallest and largest tau when one model is left out."""
    count = pair.shape[1]
    without = [_tau(np.delete(pair, place, axis=1)) for place in range(count)] if count > LEAST_RANKED else []
    known = [value for value in without if value is not None]
    return _tau(pair), min(known, default=None), max(known, default=None)


def _tau(pair: Floats) -> float | None:
    """Return Kendall's tau-b; values that differ by rounding alone are ties. Return None if a row has one value."""
    tau = float(stats.kendalltau(*pair.round(DIGITS)).statistic)
    return None if np.isnan(tau) else tau
