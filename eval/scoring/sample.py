"""Grades prepared for tables: the rows that count, their weights, and the clusters (patients) of the intervals.

These rules are the same in every table:

- An item that was asked in several repeats or rotations counts once, with its mean score.
- A model with unfinished items gets no scores, unless partial scores are requested. Partial scores use only the model's
  finished items.
- Contested items, on which reviewers disagree, count only in their own table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import starmap

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import sparse

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import CONTESTED
from chexqa.eval.scoring.grade import NO_REPLY, ROUND, UNFINISHED, Graded
from chexqa.eval.scoring.intervals import (
    CLUSTER,
    Estimates,
    Groups,
    Sample,
    Sums,
    corrected,
    proportion,
)
from chexqa.eval.scoring.outcomes import ANSWERED
from chexqa.stats import cluster_id

WHO = ["model", "protocol"]
# Columns that most tables sum; the weight of a row is 1 / the number of times its item was asked.
WEIGHT, RIGHT, CHANCE, PRIOR, ANSWERED_WEIGHT, ANSWERED_CHANCE = (
    "_weight",
    "_right",
    "_chance",
    "_prior",
    "_answered",
    "_answered_chance",
)
# YES: the column with the key of a yes/no question, null for other kinds. STRATUM: the column with a row's stratum
# within its kind.
YES, STRATUM = "_yes", "_stratum"
# Columns of grades that no table needs. The long ones have most of the bytes, and a join or a filter copies them.
LONG = ("evidence", "reply", "reasoning")
_LEFT_OUT = (
    "patient_id",
    "study_id",
    "picture",
    "flags",
    "cost_usd",
    "latency_s",
    "output_tokens",
    "confidence",
    "answer_logprob",
)


def with_clusters(rows: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """Return the rows with the column ``cluster`` (index from 0), and the plural noun for a cluster ("patients").

    ``rows`` has the columns ``patient_id`` and ``study_id`` (null if unknown) and ``picture``. Raise ``ValueError`` for
    a row without a picture.
    """
    columns = ["patient_id", "study_id", "picture"]
    people = rows.select(columns).unique(maintain_order=True)
    if people["picture"].null_count():
        raise ValueError("a row has no picture")
    names = [cluster_id(*person) for person in people.iter_rows()]
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    numbered = people.with_columns(pl.Series(CLUSTER, [places[name] for name in names], pl.UInt32))
    # A join of all columns would copy them.
    own = rows.select(columns).join(numbered, on=columns, how="left", nulls_equal=True, maintain_order="left")
    units = {"patient": "patients", "study": "studies", "picture": "pictures"}
    used = {name.partition(" ")[0] for name in names}
    named = " and ".join(plural for unit, plural in units.items() if unit in used)
    return rows.with_columns(own[CLUSTER]), named or "patients"


@dataclass(frozen=True, eq=False)
class ScoredSample:
    """Grades prepared for tables: the input of every table.

    - ``sample``: the clusters (patients) over which every score is computed.
    - ``rows``: the grades that count, with the columns ``cluster`` and the weights, without long texts and lists.
    - ``said``: the same rows, with answers and keys (``parsed, order, answer``).
    - ``completeness``: a row for each model and protocol, with the columns:

      - ``items``: the number of questions to be answered.
      - ``unfinished``: the number of unfinished questions.
      - ``known``: True if the model gets scores.
    """

    graded: Graded
    sample: Sample
    rows: pl.DataFrame
    said: pl.DataFrame
    completeness: pl.DataFrame

    @property
    def benchmark(self) -> Benchmark:
        """Return the benchmark that was graded."""
        return self.graded.benchmark


def scored_sample(graded: Graded) -> ScoredSample:
    """Return the grades prepared for tables: the rows that count, with clusters and weights."""
    known, unit = with_clusters(graded.grades.drop(LONG))
    size = known["cluster"].n_unique()
    completeness = _completeness(known, graded.allow_partial)
    counts = ~pl.col("flags").list.contains(CONTESTED)
    if graded.allow_partial:
        counts &= ~pl.col("state").is_in(UNFINISHED)
    counted = known.drop(*_LEFT_OUT).filter(known.select(counts).to_series())
    said = weighed(counted).with_columns(_keyed_yes(graded.benchmark).alias(YES))
    # Tables filter their rows often, which is slow with columns of lists.
    return ScoredSample(graded, Sample(unit, max(size, 1)), said.drop("parsed", "order", "answer"), said, completeness)


def own_weight() -> pl.Expr:
    """Return an expression for a row's weight: 1 / the number of rows of its model, protocol and item."""
    return (1.0 / pl.len().over([*WHO, "item_id"])).alias(WEIGHT)


def can_be_right() -> pl.Expr:
    """Return an expression that is False for items that no answer can get right: grids on which no cell is a hit."""
    return pl.col("answer").list.len() > 0


def weighed(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with each row's weight (:func:`own_weight`) and with weighted values, which tables add up.

    - ``RIGHT``, ``CHANCE``, ``PRIOR``: the weight times ``correct``, ``chance`` and ``prior``.
    - ``ANSWERED_WEIGHT``, ``ANSWERED_CHANCE``: the weight, and the weight times ``chance``; 0 without an answer.
    """
    answered = pl.col("state").is_in(ANSWERED)
    weight = pl.col(WEIGHT)
    return rows.with_columns(own_weight()).with_columns(
        (weight * pl.col("correct")).alias(RIGHT),
        (weight * pl.col("chance")).alias(CHANCE),
        (weight * pl.col("prior")).alias(PRIOR),
        (weight * answered).alias(ANSWERED_WEIGHT),
        (weight * answered * pl.col("chance")).alias(ANSWERED_CHANCE),
    )


def _keyed_yes(benchmark: Benchmark) -> pl.Expr:
    asked = [name for name, kind in benchmark.kinds.items() if kind.yes_no]
    return pl.when(pl.col("kind").is_in(asked)).then(pl.col("answer").list.first() == 1)


def strata(rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Return the rows that count in scores corrected for chance, with the column :data:`STRATUM`.

    - A yes/no kind has two strata for each finding: items with the key yes, and items with the key no.
    - Any other kind has one stratum.

    The corrected score of a kind is the mean over its strata. ``by`` names the columns that form groups. In a group, a
    finding is left out if all its items there have the same key.
    """
    # With chance 1/2, a stratum scores 2 * (share of right answers) - 1. The mean over strata is therefore the mean
    # over findings of sensitivity + specificity - 1, which is 0 for every constant answer.
    yes = pl.col(YES)
    both = yes.n_unique().over([*by, "kind", "finding"]) == 2
    name = pl.when(yes.is_null()).then(pl.lit("")).otherwise(pl.format("{} {}", "finding", yes.cast(pl.String)))
    return rows.filter(yes.is_null() | both).with_columns(name.alias(STRATUM))


def _completeness(grades: pl.DataFrame, allow_partial: bool) -> pl.DataFrame:
    counted = grades.group_by(WHO, maintain_order=True).agg(
        pl.len().alias("items"),
        pl.col("state").is_in(UNFINISHED).sum().alias("unfinished"),
        (~pl.col("state").is_in(NO_REPLY)).any().alias("known"),
    )
    # A model gets scores if it replied at least once, and no question is unfinished or partial scores are allowed.
    return counted.with_columns((pl.col("known") & ((pl.col("unfinished") == 0) | allow_partial)).alias("known"))


@dataclass(frozen=True, eq=False)
class Scores:
    """Accuracies of G groups of rows; each field has an entry or a row for each group.

    - ``keys``: the groups.
    - ``whole``: the sums of the weights.
    - ``accuracy``, ``corrected``: the accuracy, and the accuracy corrected for chance.
    - ``answered``, ``answered_corrected``: the two accuracies on items with a readable answer only.
    - ``guessed_corrected``: the corrected accuracy if an item without a readable answer counts as guessed.
    - ``facts``: the table that :func:`scores` describes.
    """

    keys: pl.DataFrame
    whole: Sums
    accuracy: Estimates
    corrected: Estimates
    answered: Estimates
    answered_corrected: Estimates
    guessed_corrected: Estimates
    facts: pl.DataFrame


# Columns that :func:`scores` reads, besides those of its groups.
SCORED = (
    "kind", "finding", "item_id", "scored", "cluster", YES, WEIGHT, RIGHT, CHANCE, PRIOR, ANSWERED_WEIGHT,
    ANSWERED_CHANCE,
)  # fmt: skip


def scores(study: ScoredSample, rows: pl.DataFrame, by: Sequence[str]) -> Scores:
    """Return accuracies grouped by model, protocol and the columns ``by``, which must include ``kind``.

    The table ``facts`` of the result has these columns:

    - ``items``, ``patients``: numbers of items and patients.
    - ``answered``: the share of items with a readable answer.
    - ``chance``: the accuracy of a random guess.
    - ``prior``: the accuracy of a guesser who gives the most frequent answer.
    - ``prior_corrected``: ``prior``, corrected for chance.
    """
    to = [*WHO, *by]
    rows = rows.select(list(dict.fromkeys([*to, *SCORED])))
    counted = strata(rows.filter(pl.col("scored")), to)  # the other items have only one possible answer
    facts = _facts(rows, counted, to)
    groups = Groups(study.sample, rows, to)
    whole = groups.sums(WEIGHT)
    accuracy, of_answered = (proportion(groups.sums(RIGHT), asked) for asked in (whole, groups.sums(ANSWERED_WEIGHT)))
    cells = Groups(study.sample, counted, [*to, STRATUM])
    right, chance, asked = cells.sums(RIGHT), cells.sums(CHANCE), cells.sums(WEIGHT)
    omitted = pl.col(CHANCE) - pl.col(ANSWERED_CHANCE)
    corrections = (
        (right, chance, asked),
        (right, cells.sums(ANSWERED_CHANCE), cells.sums(ANSWERED_WEIGHT)),
        (cells.sums(pl.col(RIGHT) + omitted), chance, asked),
    )
    means = [part.combine(mean_weights(groups.keys, cells.keys, ~np.isnan(part.value)))
             for part in starmap(corrected, corrections)]  # fmt: skip
    return Scores(groups.keys, whole, accuracy, means[0], of_answered, means[1], means[2], facts)


def _facts(rows: pl.DataFrame, counted: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Return the facts of :class:`Scores`; ``counted`` has the rows that count in corrected scores."""
    excess = counted.group_by([*by, STRATUM]).agg(_excess(pl.col(PRIOR)).alias("prior_corrected"))
    facts = rows.group_by(by, maintain_order=True).agg(
        pl.col("item_id").n_unique().alias("items"),
        pl.col("cluster").n_unique().alias("patients"),
        (pl.col(ANSWERED_WEIGHT).sum() / pl.col(WEIGHT).sum()).alias("answered"),
        (pl.col(CHANCE).sum() / pl.col(WEIGHT).sum()).alias("chance"),
        (pl.col(PRIOR).sum() / pl.col(WEIGHT).sum()).alias("prior"),
    )
    means = excess.group_by(by).agg(pl.col("prior_corrected").mean())
    return facts.join(means, on=by, how="left", maintain_order="left")


def mean_weights(keys: pl.DataFrame, cells: pl.DataFrame, counts: npt.NDArray[np.bool_]) -> sparse.csr_matrix:
    """Return weights ``(keys.height, cells.height)`` that turn scores into means, for :meth:`Estimates.combine`.

    - ``keys``: a table with one row for each mean.
    - ``cells``: a table with one row for each score. A score belongs to the mean with the same values in the columns of
      ``keys``.
    - ``counts``: True for each score that counts in its mean.
    """
    named = keys.with_row_index("_to")
    to = cells.join(named, on=keys.columns, how="left", nulls_equal=True, maintain_order="left")["_to"].to_numpy()
    sizes = np.bincount(to[counts], minlength=keys.height)
    places = np.flatnonzero(counts)
    return sparse.csr_matrix((1.0 / sizes[to[counts]], (to[counts], places)), shape=(keys.height, cells.height))


def mean_by(keys: pl.DataFrame, estimates: Estimates, by: Sequence[str]) -> tuple[pl.DataFrame, Estimates]:
    """Group the rows of ``keys`` on the columns named in ``by``; return the groups and the mean score of each group.

    ``estimates`` has one score for each row of ``keys``. Rows without a score are left out.
    """
    groups = keys.select(by).unique(maintain_order=True)
    return groups, estimates.combine(mean_weights(groups, keys.select(by), ~np.isnan(estimates.value)))


def count_patients(rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Return a table with the number of different patients in each group of rows.

    The columns are those named in ``by``, which define the groups, and ``patients``.
    """
    return rows.group_by(by, maintain_order=True).agg(pl.col("cluster").n_unique().alias("patients"))


def contrasts(size: int, pairs: Sequence[tuple[int, int]]) -> sparse.csr_matrix:
    """Return the weights ``(len(pairs), size)`` of differences: in each pair, the first score minus the second."""
    rows = np.repeat(np.arange(len(pairs)), 2)
    columns = np.array(pairs, np.intp).reshape(-1)
    return sparse.csr_matrix((np.tile([1.0, -1.0], len(pairs)), (rows, columns)), shape=(len(pairs), size))


def _excess(share: pl.Expr) -> pl.Expr:
    """Return an expression for a score corrected for chance; null if chance is always right."""
    room = (pl.col(WEIGHT) - pl.col(CHANCE)).sum()
    return pl.when(room > 1e-12).then((share - pl.col(CHANCE)).sum() / room)


def mask_incomplete(study: ScoredSample, table: pl.DataFrame, results: Iterable[str]) -> pl.DataFrame:
    """Return the table with one more column, ``unfinished``: the number of a model's unfinished questions.

    If a model gets no scores (``known`` is false in ``study.completeness``), its values in the columns ``results`` and
    in their intervals' columns become null.
    """
    joined = table.join(study.completeness.drop("items"), on=WHO, how="left", maintain_order="left")
    names = {f"{name}{end}" for name in results for end in ("", "_low", "_high")} & set(table.columns)
    return joined.with_columns(pl.when(pl.col("known")).then(pl.col(name)).alias(name) for name in sorted(names)).drop(
        "known"
    )


def ordered(study: ScoredSample, table: pl.DataFrame, **orders: Sequence[object]) -> pl.DataFrame:
    """Return the table sorted by model and protocol, then by the columns named in ``orders``.

    Models and protocols come in the order of the grades. ``orders`` gives, for each further column, its values in the
    wanted order; a value that is not listed comes last.
    """
    ranked = table.join(
        study.completeness.select(WHO).with_row_index("_who"), on=WHO, how="left", maintain_order="left"
    )
    for column, order in orders.items():
        ranks = {value: place for place, value in enumerate(order)}
        place = pl.col(column).replace_strict(ranks, default=len(ranks), return_dtype=pl.Int64)
        ranked = ranked.with_columns(place.alias(f"_by_{column}"))
    columns = ["_who", *(f"_by_{column}" for column in orders)]
    return ranked.sort(columns, maintain_order=True).drop(columns)


def rounds(study: ScoredSample) -> list[str]:
    """Return the names of the columns that together identify one conversation."""
    return [*WHO, *ROUND, "case_id"]
