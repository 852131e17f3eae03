"""Models compared on the same items: differences, corrected tests, and groups of models that do not differ.

A test belongs to one of three families. Holm's method corrects the tests of the first two families, each by itself.

- ``confirmatory``: each model compared with each other model, and the group of medical models with that of general
  models, on the scores of the levels and on their mean.
- ``readers``: each person (a reader in a reader study) compared with each model and with each other person, on the same
  scores.
- ``exploratory``: all other tests, such as those of a baseline, of the grid, or of a protocol that is not the main one.

The main protocol is ``end_to_end`` if it was run, otherwise the first protocol. Models with partial scores, and models
of a run that a stopping rule ended, are not compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from math import comb
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from scipy import sparse

from chexqa.contract.kinds import LEVELS
from chexqa.eval.design.power import Assumptions, standard_error
from chexqa.eval.design.weights import MEAN, asked_items, by_patient, score_weights
from chexqa.eval.scoring.intervals import Estimates, Floats, Groups, Ints, Sample, change_per_cluster, corrected
from chexqa.eval.scoring.sample import CHANCE, RIGHT, STRATUM, WEIGHT, WHO, YES, ScoredSample, contrasts, strata
from chexqa.eval.scoring.significance import ALPHA, detectable, intervals_agreeing_with_p, letters, sign_flips
from chexqa.eval.tables.asked_items import is_stopped, item_sets
from chexqa.eval.tables.grid import rows_of
from chexqa.eval.tables.levels_and_stages import OVERALL, beside, compared
from chexqa.files.seeds import stream
from chexqa.stats import holm

MAIN = "end_to_end"
GRID_SCORE = "grid"
NO_RIVALS = ("baseline/", "reader/", "readers/")
CONFIRMATORY, READERS, EXPLORATORY = "confirmatory", "readers", "exploratory"
CORRECTED = (CONFIRMATORY, READERS)
ALIKE, DIFFERENT, NOT_SETTLED = VERDICTS = ("alike", "different", "not settled")
DIGITS = 9  # equal scores differ in later digits, by rounding alone
# All exchanges of the models' labels are made if there are at most this many, otherwise this many random ones.
EXCHANGES = 20_000
DOMAINS = ("medical", "general")
# Origins of the standard error in the table of detectable differences.
OBSERVED = "observed pairs of models"
ASSUMED = "assumed: one of two models right on 30 % of the items, correlation 0.2 within a patient"


@dataclass(frozen=True, eq=False)
class ScoreMatrix:
    """Scores of the models that can be compared under one protocol, as sums over clusters.

    - ``models``, ``scores``: M and S names.
    - ``values``: S x M values: the first score of every model, then the second score of every model, and so on.
    - ``cluster_parts (P, S x M)``: the part of each value that each of P clusters (patients) contributes.
    - ``main``: True if the tests on levels belong to the main family of tests.
    - ``cluster_weights (P, S)``: the largest contribution that each cluster can make to each score.
    """

    protocol: str
    main: bool
    models: list[str]
    scores: list[str]
    values: Estimates
    cluster_parts: Floats
    cluster_weights: Floats

    @property
    def patients(self) -> Ints:
        """Return the number of clusters that count in each score."""
        count: Ints = np.count_nonzero(self.cluster_weights > 0, axis=0)
        return count

    def place(self, score: int, model: int) -> int:
        """Return the index of a model's score in ``values`` and in the columns of ``cluster_parts``."""
        return score * len(self.models) + model


def matrices(study: ScoredSample) -> list[ScoreMatrix]:
    """Return a matrix for every protocol with at least one finished model, the main protocol first.

    A matrix has only the largest group of models that were asked the same items.
    """
    whole = study.completeness.filter((pl.col("unfinished") == 0) & ~is_stopped(study.graded))
    protocols = whole["protocol"].unique(maintain_order=True).to_list()
    protocols.sort(key=lambda name: name != MAIN)
    every = score_rows(study)
    found = []
    for protocol in protocols:
        models = whole.filter(pl.col("protocol") == protocol)["model"].to_list()
        rows = every.filter((pl.col("protocol") == protocol) & pl.col("model").is_in(models))
        same = _asked_the_same(rows, models)
        if same:
            kept = rows.filter(pl.col("model").is_in(same))
            found.append(make_matrix(study.sample, kept, same, protocol, protocol == protocols[0]))
    return found


def _asked_the_same(rows: pl.DataFrame, models: list[str]) -> list[str]:
    """Return the largest group of models that were asked the same items, in the order of ``models``."""
    asked = item_sets(rows, ["model"])
    groups: dict[tuple[int, int], list[str]] = {}
    for model in models:
        if (model,) in asked:
            groups.setdefault(asked[model,], []).append(model)
    return max(groups.values(), key=len, default=[])


SCORE_COLUMNS = ["model", "protocol", "item_id", "score", "part", "stratum", "cluster", WEIGHT, RIGHT, CHANCE]


def score_rows(study: ScoredSample) -> pl.DataFrame:
    """Return a row for each graded answer that counts in a level's score or in the hit rate on the grid.

    A score is the mean of its parts, and a part is the mean of its strata.

    - ``score``: the level, or ``grid``.
    - ``part``: the kind of question; on the grid, the finding.
    - ``stratum``: the finding and the key of a yes/no question; empty for other questions.
    """
    names = [*WHO, "item_id", "level", "kind", "finding", "scored", "cluster", YES, WEIGHT, RIGHT, CHANCE]
    level = strata(compared(study, names).filter(pl.col("scored")), WHO).with_columns(
        score=pl.col("level"), part=pl.col("kind"), stratum=pl.col(STRATUM)
    )
    grid = rows_of(study).with_columns(score=pl.lit(GRID_SCORE), part=pl.col("finding"), stratum=pl.lit(""))
    return pl.concat([level.select(SCORE_COLUMNS), grid.with_columns(pl.lit(0.0).alias(CHANCE)).select(SCORE_COLUMNS)])


def make_matrix(sample: Sample, rows: pl.DataFrame, models: list[str], protocol: str, main: bool) -> ScoreMatrix:
    """Return the score matrix of models that were asked the same items.

    The scores are the levels, then the mean of the levels, then the other scores of ``rows``. ``rows`` has rows of
    :func:`score_rows`, at least one.
    """
    groups = Groups(sample, rows, ["score", "part", "stratum", "model"])
    right, whole, chance = groups.sums(RIGHT), groups.sums(WEIGHT), groups.sums(CHANCE)
    present = groups.keys["score"].unique(maintain_order=True).to_list()
    weights: dict[str, Any] = {name: _weights(groups.keys, name, models) for name in LEVELS if name in present}
    if weights:
        weights[OVERALL] = reduce(lambda first, second: first + second, weights.values()) / len(weights)
    weights |= {name: _weights(groups.keys, name, models) for name in present if name not in weights}
    mixed = sparse.csr_matrix(sparse.vstack(list(weights.values())))
    room = sparse.diags(1 / np.maximum(whole.total - chance.total, 1e-12))
    parts = (mixed @ room @ right.by_cluster).toarray().T
    most = (mixed @ room @ whole.by_cluster).toarray()[:: len(models)]
    return ScoreMatrix(
        protocol, main, models, list(weights), corrected(right, chance, whole).combine(mixed), parts, most.T
    )  # fmt: skip


def _weights(keys: pl.DataFrame, score: str, models: list[str]) -> sparse.csr_matrix:
    """Return the weights ``(models, keys)`` of each model's score: a mean over parts, each of which is a mean over
    strata.
    """
    rows = keys.with_row_index("_at").filter(pl.col("score") == score)
    in_part = pl.col("stratum").n_unique().over("part")
    each = 1 / (rows["part"].n_unique() * rows.select(in_part).to_series().to_numpy())
    places = [models.index(model) for model in rows["model"]]
    return sparse.csr_matrix((each, (places, rows["_at"].to_numpy())), shape=(len(models), keys.height))


class Comparison(NamedTuple):
    """Tables that compare models; Holm's method corrects the tests of all of them together."""

    pairs: pl.DataFrame
    groups: pl.DataFrame
    contrast: pl.DataFrame
    detectable: pl.DataFrame


_TEXT, _NUMBER, _COUNT = pl.String, pl.Float64, pl.Int64
_TESTED: dict[str, Any] = {
    "difference": _NUMBER, "difference_low": _NUMBER, "difference_high": _NUMBER, "p": _NUMBER, "p_holm": _NUMBER,
    "family": _TEXT, "differ": pl.Boolean, "margin": _NUMBER, "p_alike": _NUMBER, "p_alike_holm": _NUMBER,
    "verdict": _TEXT,
}  # fmt: skip
_KEYS: dict[str, Any] = {"protocol": _TEXT, "score": _TEXT, "model_a": _TEXT, "model_b": _TEXT, "medical": _COUNT,
                         "general": _COUNT}  # fmt: skip
_GROUPS: dict[str, Any] = {
    "protocol": _TEXT, "score": _TEXT, "place": _COUNT, "model": _TEXT, "value": _NUMBER, "value_low": _NUMBER,
    "value_high": _NUMBER, "letters": _TEXT,
}  # fmt: skip
_SIZES: dict[str, Any] = {
    "protocol": _TEXT, "score": _TEXT, "patients": _COUNT, "basis": _TEXT, "standard_error": _NUMBER,
    "detectable": _NUMBER, "detectable_in_family": _NUMBER,
}  # fmt: skip


def compare_models(study: ScoredSample) -> Comparison:
    """Compare every two models, and the medical with the general models, on every score; return four tables.

    - ``pairs``: ``protocol, score, model_a, model_b, difference`` (a minus b), ``p, p_holm, family, differ, margin,
      p_alike, p_alike_holm, verdict``. The family is ``confirmatory``, ``readers`` or ``exploratory`` (no corrected p
      and no verdict).
    - ``groups``: ``protocol, score, place`` (rank), ``model, value, letters``. Models that share a letter do not differ
      significantly.
    - ``contrast``: ``protocol, score, medical, general`` (numbers of models), ``difference`` (mean of the medical
      models minus mean of the general models), ``p_labels`` (:func:`exchanges`).
    - ``detectable``: ``protocol, score, detectable, detectable_in_family``: the smallest difference that a test detects
      with 80 % power, as a single test at 5 %, and as the strictest test of the family ``confirmatory``.
    """
    found = matrices(study)
    domains, margin = study.graded.domains, study.graded.margin
    tested = pl.concat([pl.DataFrame(schema=_KEYS | _TESTED), *(tests(one, domains, margin) for one in found)])
    tested = _corrected(tested.with_columns(intervals_agreeing_with_p()))
    pairs = tested.filter(pl.col("model_a").is_not_null()).drop("medical", "general")
    contrast = tested.filter(pl.col("medical").is_not_null()).drop("model_a", "model_b").with_columns(
        pl.Series("p_labels", [p for one in found for p in exchanges(one, domains)], _NUMBER)
    )  # fmt: skip
    family = tested.filter(pl.col("family") == CONFIRMATORY).height
    groups = [_groups(matrix, pairs.filter(pl.col("protocol") == matrix.protocol)) for matrix in found]
    sizes = [_sizes(study, matrix, family) for matrix in found]
    return Comparison(
        pairs,
        pl.concat([pl.DataFrame(schema=_GROUPS), *groups]),
        contrast,
        pl.concat([pl.DataFrame(schema=_SIZES), *sizes]),
    )


def tests(matrix: ScoreMatrix, domains: Mapping[str, str], margin: float) -> pl.DataFrame:
    """Test the difference on every score between every two models, and between the medical and the general models.

    The p-values are not corrected. They are computed apart from the intervals: an interval may contain 0 although p is
    below 0.05. Models are called alike if their scores differ by less than ``margin`` (0.05 is 5 points).
    """
    count = len(matrix.models)
    rows: list[tuple[Any, ...]] = []
    weights: list[Floats] = []
    sides = _sides(matrix.models, domains)
    for number, score in enumerate(matrix.scores):
        for first, second in combinations(range(count), 2):
            rows.append((matrix.protocol, score, matrix.models[first], matrix.models[second], None, None))
            weights.append(_weighing(matrix, number, [first], [second]))
        if sides is not None:
            rows.append((matrix.protocol, score, None, None, len(sides[0]), len(sides[1])))
            weights.append(_weighing(matrix, number, *sides))
    keys = pl.DataFrame(rows, schema=_KEYS, orient="row")
    weighting = sparse.csr_matrix(np.array(weights).reshape(len(rows), matrix.cluster_parts.shape[1]))
    inside = pl.lit(matrix.main) & (pl.col("score") != GRID_SCORE)
    named = [pl.col(name).fill_null("") for name in ("model_a", "model_b")]
    baseline, reader = (pl.any_horizontal(name.str.contains(mark) for name in named)
                        for mark in ("^baseline/", "^readers?/"))  # fmt: skip
    family = pl.when(~inside | baseline).then(pl.lit(EXPLORATORY)).when(reader).then(pl.lit(READERS)).otherwise(
        pl.lit(CONFIRMATORY)
    )  # fmt: skip
    made = _differences(matrix.values, keys, weighting, margin).with_columns(
        pl.Series("p", sign_flips(matrix.cluster_parts, weighting) if rows else [], _NUMBER),
        pl.lit(None, _NUMBER).alias("p_holm"),
        family.alias("family"),
        pl.lit(None, pl.Boolean).alias("differ"),
        pl.lit(margin).alias("margin"),
        pl.lit(None, _NUMBER).alias("p_alike_holm"),
        pl.lit(None, _TEXT).alias("verdict"),
    )
    return made.select(list(_KEYS | _TESTED))


def _differences(values: Estimates, keys: pl.DataFrame, weighting: sparse.csr_matrix, margin: float) -> pl.DataFrame:
    """Return ``keys`` with the differences, their intervals and ``p_alike``."""
    differences = values.combine(weighting)
    p_alike = pl.Series("p_alike", differences.p_alike(margin), _NUMBER).fill_nan(None)
    return beside(keys, {"difference": differences}).with_columns(p_alike)


def _sides(models: list[str], domains: Mapping[str, str]) -> tuple[list[int], list[int]] | None:
    """Return the indices of the medical models and of the general models; None if either list is empty."""
    medical, general = ([place for place, model in enumerate(models) if domains.get(model) == domain]
                        for domain in DOMAINS)  # fmt: skip
    return (medical, general) if medical and general else None


def exchanges(matrix: ScoreMatrix, domains: Mapping[str, str]) -> list[float]:
    """Return p of a permutation test of medical against general models, for each score.

    The test asks whether the two sorts of models differ more than random groups of these models. All exchanges of
    labels are tried, or :data:`EXCHANGES` random ones if there are more.
    """
    sides = _sides(matrix.models, domains)
    if sides is None:
        return []
    places, size = [*sides[0], *sides[1]], len(sides[0])
    if comb(len(places), size) <= EXCHANGES:
        chosen = np.array(list(combinations(range(len(places)), size)))
    else:
        random = stream(0, "exchanged labels", len(places), size)
        chosen = np.array([random.permutation(len(places))[:size] for _ in range(EXCHANGES)])
        chosen[0] = range(size)  # the unexchanged labels count as one of the draws
    found = []
    for number in range(len(matrix.scores)):
        values = matrix.values.value[[matrix.place(number, place) for place in places]]
        medical = values[chosen].mean(axis=1)
        general = (values.sum() - values[chosen].sum(axis=1)) / (len(places) - size)
        difference = np.abs(medical - general)
        observed = abs(values[:size].mean() - values[size:].mean())
        found.append(float(np.mean(difference >= observed - 1e-12)))
    return found


def _weighing(matrix: ScoreMatrix, score: int, plus: list[int], minus: list[int]) -> Floats:
    """Return the weights of the matrix's values in the mean score of ``plus`` minus the mean score of ``minus``."""
    weights = np.zeros(matrix.cluster_parts.shape[1])
    weights[[matrix.place(score, model) for model in plus]] = 1 / len(plus)
    weights[[matrix.place(score, model) for model in minus]] = -1 / len(minus)
    return weights


def _corrected(tested: pl.DataFrame) -> pl.DataFrame:
    """Return the tests with both p-values corrected by Holm's method over the rows of each family."""
    columns = []
    for name in ("p", "p_alike"):
        adjusted, p = np.full(tested.height, np.nan), tested[name].fill_null(1.0).to_numpy()
        for family in CORRECTED:
            inside = (tested["family"] == family).to_numpy()
            adjusted[inside] = holm(p[inside])
        columns.append(pl.Series(f"{name}_holm", adjusted).fill_nan(None))
    return tested.with_columns(columns).with_columns(
        (pl.col("p_holm") < ALPHA).alias("differ"), verdict("p_holm", "p_alike_holm").alias("verdict")
    )


def verdict(p: str, p_alike: str) -> pl.Expr:
    """Return an expression for the verdict, from the columns of p-values ``p`` and ``p_alike``; null if ``p`` is null.

    - alike: ``p_alike`` (the test of a difference within the margin) is below 0.05.
    - different: ``p_alike`` is not below 0.05, but ``p`` (the test of any difference) is.
    - not settled: neither is below 0.05.
    """
    known = pl.col(p).is_not_null()
    return (
        pl.when(known & (pl.col(p_alike).fill_null(1.0) < ALPHA)).then(pl.lit(ALIKE))
        .when(known & (pl.col(p) < ALPHA)).then(pl.lit(DIFFERENT))
        .when(known).then(pl.lit(NOT_SETTLED))
    )  # fmt: skip


def _groups(matrix: ScoreMatrix, pairs: pl.DataFrame) -> pl.DataFrame:
    """Return, for each score, the models from best to worst, with the letters of their groups.

    The letters are null for scores whose tests are not corrected.
    """
    parts = []
    count = len(matrix.models)
    for number, score in enumerate(matrix.scores):
        values = matrix.values.take(range(number * count, (number + 1) * count))
        value = values.value.round(DIGITS)
        order = np.argsort(-value, kind="stable")
        rank = {matrix.models[place]: at for at, place in enumerate(order)}
        different = np.zeros((count, count), bool)
        here = pairs.filter(pl.col("score") == score)
        for first, second, differ in here.select("model_a", "model_b", "differ").iter_rows():
            different[[rank[first], rank[second]], [rank[second], rank[first]]] = bool(differ)
        is_tested = count == 1 or not here.filter(pl.col("family").is_in(CORRECTED)).is_empty()
        inside = sorted(rank[model] for model in matrix.models if is_tested and not model.startswith("baseline/"))
        named: list[str | None] = [None] * count
        for place, letter in zip(inside, letters(different[np.ix_(inside, inside)]), strict=True):
            named[place] = letter
        keys = pl.DataFrame(
            {"protocol": matrix.protocol, "score": score, "place": 1 + np.searchsorted(-value[order], -value[order]),
             "model": [matrix.models[place] for place in order]}
        )  # fmt: skip
        parts.append(beside(keys, {"value": values.take(order)}).with_columns(pl.Series("letters", named, _TEXT)))
    return pl.concat([pl.DataFrame(schema=_GROUPS), *parts])


def _sizes(study: ScoredSample, matrix: ScoreMatrix, family: int) -> pl.DataFrame:
    """Return the smallest differences that the benchmark can detect, computed from the observed pairs of models."""
    # Pairs with a baseline or reader are used only if there are no other pairs.
    count = len(matrix.models)
    rivals = [place for place, model in enumerate(matrix.models) if not model.startswith(NO_RIVALS)]
    pairs = list(combinations(rivals if len(rivals) > 1 else range(count), 2))
    assumed, basis = ({}, OBSERVED) if pairs else (_assumed_errors(study, matrix), ASSUMED)
    rows = []
    for number, score in enumerate(matrix.scores):
        here = matrix.values.take([matrix.place(number, model) for model in range(count)])
        seen = here.combine(contrasts(count, pairs)) if pairs else None
        errors = np.array([assumed[score]]) if seen is None else seen.standard_errors()
        one = () if seen is None else change_per_cluster(seen.influence, seen.members, seen.answers)
        in_family = detectable(errors, ALPHA / family, one) if matrix.main and family and score != GRID_SCORE else None
        rows.append((matrix.protocol, score, int(matrix.patients[number]), basis, float(np.median(errors)),
                     detectable(errors, per_cluster=one), in_family))  # fmt: skip
    return pl.DataFrame(rows, schema=_SIZES, orient="row").with_columns(pl.col(pl.Float64).fill_nan(None))


def _assumed_errors(study: ScoredSample, matrix: ScoreMatrix) -> dict[str, float]:
    """Return, for each score, the standard error of a difference that ``chexqa power`` assumes of the asked items."""
    rows = study.rows.filter((pl.col("model") == matrix.models[0]) & (pl.col("protocol") == matrix.protocol))
    asked = asked_items(study.benchmark, [study.benchmark.item[name] for name in rows["item_id"].unique()])
    return {
        OVERALL if score == MEAN else score: standard_error(by_patient(asked, weights).values(), Assumptions())
        for score, weights in score_weights(asked).items()
    }
