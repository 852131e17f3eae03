"""Scores with 95 % intervals over patients: shares, other means, weighted sums and differences.

- Share, or sum of shares with positive weights: Wilson's interval.
- Difference, or mean of values that can lie outside 0 to 1: a t interval.

A score that cannot be computed is NaN (null in tables). A score from fewer than :data:`LEAST_CLUSTERS` clusters
(patients) has no interval. ``docs/intervals.md`` explains the intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import sparse, special

from chexqa.stats import TAIL, wilson

CLUSTER = "cluster"
LEAST_CLUSTERS = 10
LEAST_EFFECT = 0.7
# Weight of the largest possible design effect, in answers; weight of the largest possible difference, in clusters.
PRIOR_ANSWERS, PRIOR_CLUSTERS = 1.0, 1.0
# Clusters with a difference that are added to each difference.
ADDED = 2
Floats = npt.NDArray[np.floating]
Ints = npt.NDArray[np.integer]
Table = sparse.csr_matrix


@dataclass(frozen=True)
class Sample:
    """A number of clusters (``size``), with the plural noun for them (``unit``), such as "patients"."""

    unit: str
    size: int


class Sums(NamedTuple):
    """Sums of a column in G groups: over all rows (``total (G,)``), and for P clusters (``by_cluster (G, P)``)."""

    total: Floats
    by_cluster: Table


class Groups:
    """Rows divided into groups by the columns ``by``; the table ``keys`` has one row for each group.

    The column ``cluster`` of ``rows`` has the index of the row's patient.
    """

    def __init__(self, sample: Sample, rows: pl.DataFrame, by: Sequence[str]) -> None:
        self.sample, self.rows, self.by = sample, rows, list(by)
        numbered = rows.select(self.by).unique(maintain_order=True).with_row_index("_group")
        self.keys = numbered.drop("_group")
        placed = rows.select(self.by).join(numbered, on=self.by, how="left", nulls_equal=True, maintain_order="left")
        self._group = placed["_group"].to_numpy()
        self._cluster = rows[CLUSTER].to_numpy()

    def sums(self, value: pl.Expr | str) -> Sums:
        """Return the sums of a column or an expression in each group; False and null count as 0, True as 1."""
        column = self.rows.select(pl.col(value) if isinstance(value, str) else value).to_series()
        values = column.cast(pl.Float64).fill_null(0.0).to_numpy()
        shape = (self.keys.height, self.sample.size)
        table = sparse.csr_matrix((values, (self._group, self._cluster)), shape=shape)
        table.eliminate_zeros()
        return Sums(_row_sums(table), table)


@dataclass(frozen=True, eq=False)
class IntervalTerms:
    """Terms ``(M,)`` of the formulas in ``docs/intervals.md`` for M scores, each a weighted sum of groups' scores.

    - ``best``: the largest possible score; NaN if it is not known.
    - ``scale``: the largest possible score minus the smallest possible score.
    - ``variance``: the variance of the score, with clusters as units.
    - ``least``: the lower limit of ``variance`` in Wilson's interval; NaN for a score that has no such interval.
    - ``rarer``: the number of right or of wrong answers in a group, whichever is smaller, summed over the groups.
    - ``squares``: the sum of the squared weights of all clusters in all groups.
    - ``by_freedom``: (a group's part of ``squares``)² / (number of its clusters - 1), summed over the groups.
    """

    best: Floats
    scale: Floats
    variance: Floats
    least: Floats
    rarer: Floats
    squares: Floats
    by_freedom: Floats

    def weighted_sums(self, weights: Table, variance: Floats) -> IntervalTerms:
        """Return the :class:`IntervalTerms` of the sums ``weights @ scores``, which have the given variances."""
        down = (abs(weights) - weights) / 2
        least = np.where(_by_row(weights, weights.data < 0) > 0, np.nan, _weighted(weights, self.least, 2))
        return IntervalTerms(
            _weighted(weights, self.best) + _weighted(down, self.scale), _weighted(abs(weights), self.scale), variance,
            least, _weighted(weights, self.rarer, 0), _weighted(weights, self.squares, 2),
            _weighted(weights, self.by_freedom, 4),
        )  # fmt: skip

    def freedom(self, members: Table) -> Floats:
        """Return each score's degrees of freedom ``(M,)`` by Satterthwaite, at most its number of clusters minus 1."""
        return np.asarray(np.fmin(np.diff(members.indptr) - 1, _ratio(self.squares**2, self.by_freedom)))

    def of_shares(self, value: Floats, members: Table) -> tuple[Floats, Floats]:
        """Return how far Wilson's interval of each score ``value`` reaches below and above it: two arrays ``(M,)``.

        ``members`` is the field of :class:`Estimates`.
        """
        share = np.clip(1 - _ratio(self.best - value, self.scale), 0, 1)
        usual = _ratio(np.maximum(self.variance, self.least), share * (1 - share) * self.scale**2)
        together = _ratio(_row_sums(members, 2), self.scale**2)
        size = _ratio(self.rarer + PRIOR_ANSWERS, np.nan_to_num(usual) * self.rarer + together * PRIOR_ANSWERS)
        low, high = wilson(share, size, quantile=_quantile(self.freedom(members)))
        return (share - low) * self.scale, (high - share) * self.scale

    def of_differences(self, value: Floats, influence: Table, members: Table, answers: Table) -> tuple[Floats, Floats]:
        """Return how far the t interval of each difference ``value`` reaches below and above it: two arrays ``(M,)``.

        The arguments are fields of :class:`Estimates`.
        """
        # As if two more patients had been seen (Bonett and Price 2012). If a row of ``answers`` is empty, as for
        # overlaps, none is added. No end lies beyond what is possible.
        added = ADDED * change_per_cluster(influence, members, answers) ** 2
        clusters = np.diff(members.indptr)
        fewer = np.where(np.diff(answers.indptr) > 0, clusters / (clusters + ADDED), 1)
        half = _quantile(self.freedom(members)) * np.sqrt(self.variance + added) * fewer
        return np.fmin(half, value - self.best + self.scale), np.fmin(half, self.best - value)


@dataclass(frozen=True, eq=False)
class Estimates:
    """M scores with their 95 % intervals, from the answers on P clusters (patients).

    - ``value (M,)``: the scores; NaN for a score that cannot be computed.
    - ``below, above (M,)``: the distances from the score to the lower and to the upper end of its interval.
    - ``influence (M, P)``: the clusters' contributions to the score's error. Their squares sum to the score's variance.
    - ``members (M, P)``: the weight of a cluster in the score: the change if all its answers turn from wrong to right.
    - ``answers (M, P)``: the number of a cluster's answers; empty for scores without answers, such as overlaps.
    - ``min_clusters (M,)``: the number of clusters; for a score combined from several, the smallest of their numbers.
    - ``terms``: the terms from which the intervals are computed.
    """

    value: Floats
    below: Floats
    above: Floats
    # The products of two rows sum to the covariance of the two scores.
    influence: Table
    # In a difference of two shares, the larger one of their entries; in other means, 1 for a cluster with answers.
    members: Table
    answers: Table
    min_clusters: Ints
    terms: IntervalTerms

    @property
    def clusters(self) -> Ints:
        """Return the number of clusters (patients) in each score, ``(M,)``."""
        return np.diff(self.members.indptr)

    def combine(self, matrix: Table | Floats) -> Estimates:
        """Return C weighted sums of these scores, with the weights ``matrix (C, M)``; a score with weight 0 is ignored.

        If all scores are shares and all weights are positive, the interval is Wilson's; otherwise it is a t interval.
        """
        weights = sparse.csr_matrix(matrix)
        weights.eliminate_zeros()
        used = [weights.indices[a:b] for a, b in zip(weights.indptr[:-1], weights.indptr[1:], strict=True)]
        value = np.where([not len(entry) for entry in used], np.nan, _weighted(weights, self.value))
        min_clusters = np.array([self.min_clusters[entry].min() if len(entry) else 0 for entry in used], np.int64)
        influence = sparse.csr_matrix(weights @ self.influence)
        members, answers = (_larger_side(weights, self.members), _larger_side(weights.sign(), self.answers))
        made = self.terms.weighted_sums(weights, _row_sums(influence, 2))
        below, above = made.of_shares(value, members)
        other = ~np.isfinite(made.least)
        if other.any():
            tables = (table[other] for table in (influence, members, answers))
            below[other], above[other] = _each(lambda terms: terms[other], made).of_differences(value[other], *tables)
        return Estimates(value, below, above, influence, members, answers, min_clusters, made)

    def times(self, factors: Floats) -> Estimates:
        """Return the scores multiplied by ``factors (M,)``, which are above 0."""
        return self.combine(sparse.csr_matrix(sparse.diags(factors)))

    def plus(self, constant: float) -> Estimates:
        """Return each score plus a constant."""
        return replace(self, value=self.value + constant, terms=replace(self.terms, best=self.terms.best + constant))

    def join(self, other: Estimates) -> Estimates:
        """Return these scores, then the scores of ``other``, as one object."""

        def stacked(own: Any, others: Any) -> Any:
            join: Any = np.concatenate if isinstance(own, np.ndarray) else partial(sparse.vstack, format="csr")
            return join((own, others))

        return cast(Estimates, _each(stacked, self, other))

    def take(self, places: Ints | Sequence[int]) -> Estimates:
        """Return the scores with these indices, in this order."""
        rows = np.asarray(places, np.intp)
        return cast(Estimates, _each(lambda table: table[rows], self))

    def interval(self) -> tuple[Floats, Floats]:
        """Return the lower and upper ends of the 95 % intervals, ``(M,)`` each; NaN for a score without an interval."""
        none = np.isnan(self.value) | (self.clusters < LEAST_CLUSTERS) | (self.min_clusters < 2)
        return np.where(none, np.nan, self.value - self.below), np.where(none, np.nan, self.value + self.above)

    def standard_errors(self) -> Floats:
        """Return the standard errors ``(M,)`` of differences: the interval's longer arm, divided by the t quantile."""
        half = np.abs(np.subtract(self.interval(), self.value)).max(axis=0)
        return np.asarray(half / _quantile(self.terms.freedom(self.members)))

    def p_alike(self, margin: float) -> Floats:
        """Test whether each score is closer to zero than ``margin`` (above 0); return p ``(M,)``, NaN without interval.

        p is below 0.05 if and only if the 90 % interval lies between ``-margin`` and ``margin``.
        """
        # Two one-sided t tests (TOST). The 90 % interval is the 95 % interval, scaled by the ratio of the t quantiles.
        (low, high), freedom = self.interval(), np.fmax(self.terms.freedom(self.members), 1)
        quantile = _quantile(freedom)
        ends = ((self.value + margin, self.value - low), (margin - self.value, high - self.value))
        tests = [special.stdtr(freedom, -_ratio(inside * quantile, distance)) for inside, distance in ends]
        return np.asarray(np.maximum(*tests))

    def columns(self, name: str) -> dict[str, pl.Series]:
        """Return the scores and intervals as columns ``name``, ``name_low`` and ``name_high``; NaN becomes null."""
        low, high = self.interval()
        named = {name: self.value, f"{name}_low": low, f"{name}_high": high}
        return {key: pl.Series(key, values, pl.Float64).fill_nan(None) for key, values in named.items()}


def proportion(part: Sums, whole: Sums, binary: bool = True) -> Estimates:
    """Return the shares ``part / whole`` of G groups with intervals.

    With ``binary``, ``part`` counts right answers. Without it, ``part`` is a sum of values from 0 to 1.
    """
    value = _ratio(part.total, whole.total)
    return _shares(part, whole, value, _linearized(part, whole, value), np.ones(len(value)), binary)


def corrected(right: Sums, chance: Sums, whole: Sums) -> Estimates:
    """Return accuracies corrected for chance: a guesser gets 0 on average, and all answers right give 1.

    The result is ``(right - chance) / (whole - chance)``, or NaN if ``whole`` equals ``chance``.

    - ``right``: the summed weights of the right answers.
    - ``chance``: the sums that guessing gives on average.
    - ``whole``: the summed weights of all answers.
    """
    above = Sums(right.total - chance.total, right.by_cluster - chance.by_cluster)
    room = Sums(whole.total - chance.total, whole.by_cluster - chance.by_cluster)
    value = np.where(room.total > 1e-9, _ratio(above.total, room.total), np.nan)
    scale = np.where(room.total > 1e-9, _ratio(whole.total, room.total), np.nan)
    return _shares(right, whole, value, _linearized(above, room, value), scale)


def _shares(part: Sums, whole: Sums, value: Floats, influence: Table, scale: Floats, binary: bool = True) -> Estimates:
    """Return scores with Wilson's intervals; a score is ``1 - scale * (share of wrong answers)``."""
    clusters = np.diff(whole.by_cluster.indptr)
    members = _scaled(np.nan_to_num(_ratio(scale, whole.total)), whole.by_cluster)
    members.eliminate_zeros()
    room = part.total * (whole.total - part.total)
    least = (LEAST_EFFECT if binary else 0) * np.nan_to_num(_ratio(room * scale**2, whole.total**3))
    rarer = np.clip(np.minimum(part.total, whole.total - part.total), 0, None)
    squares, freedom = _row_sums(members, 2), np.fmax(clusters - 1, 1)
    made = IntervalTerms(
        np.ones(len(value)), scale, _row_sums(influence, 2), least, rarer, squares, squares**2 / freedom
    )
    below, above = made.of_shares(value, members)
    return Estimates(value, below, above, influence, members, whole.by_cluster, clusters.astype(np.int64), made)


def mean(part: Sums, whole: Sums) -> Estimates:
    """Return the means ``part / whole`` with t intervals, for values that can lie outside 0 to 1."""
    value = _ratio(part.total, whole.total)
    members = whole.by_cluster.astype(bool).astype(np.float64)
    return _differences(value, _linearized(part, whole, value), members, sparse.csr_matrix(members.shape), np.nan)


def jackknifed(value: Floats, apart: Table, sides: tuple[Estimates, Estimates]) -> Estimates:
    """Return the differences ``value (M,)`` between two shares, with jackknife intervals.

    - ``apart (M, P)``: by how much each difference decreases if one cluster is left out, for each of the P clusters.
    - ``sides``: the two shares.
    """
    members = sparse.csr_matrix(sides[0].members.maximum(sides[1].members))
    answers = sparse.csr_matrix(sides[0].answers.maximum(sides[1].answers))
    shrink = np.sqrt(1 - 1 / np.maximum(np.diff(members.indptr), 1))
    return _differences(value, _scaled(shrink, apart), members, answers, 1)


def _differences(value: Floats, influence: Table, members: Table, answers: Table, most: float) -> Estimates:
    """Return scores with the intervals of differences; the scores lie between ``-most`` and ``most``."""
    clusters, none, best = np.diff(members.indptr), np.full(len(value), np.nan), np.full(len(value), most)
    squares = 1 / np.maximum(clusters, 1)
    made = IntervalTerms(
        best, 2 * best, _row_sums(influence, 2), none, none, squares, squares**2 / np.maximum(clusters - 1, 1)
    )
    below, above = made.of_differences(value, influence, members, answers)
    return Estimates(value, below, above, influence, members, answers, clusters.astype(np.int64), made)


def change_per_cluster(influence: Table, members: Table, answers: Table) -> Floats:
    """Return how much one cluster changes each of M differences between two scores, on average: ``(M,)``."""
    # Root mean square, estimated from differences in answers and from shares of the largest possible changes. The
    # smaller estimate is used, as few patients have many answers that weigh much.
    weight = _divided(members, answers)
    heavy, most = (_mean_square(_heaviest(table)) for table in (weight, members))
    largest = np.fmin(_mean_square(answers) * heavy, most) * PRIOR_CLUSTERS

    def size(seen: Table, unit: Floats) -> Floats:
        square = _row_sums(seen, 2)
        differ = np.nan_to_num(_ratio(square**2, _row_sums(seen, 4)))
        return np.nan_to_num((square * unit + largest) / (differ + PRIOR_CLUSTERS))

    return np.sqrt(np.fmin(size(_divided(influence, weight), heavy), size(_divided(influence, members), most)))


def _linearized(part: Sums, whole: Sums, value: Floats) -> Table:
    """Return each cluster's contribution ``(M, P)`` to the error of a ratio; their squares sum to its variance."""
    known, clusters = np.where(np.isfinite(value), value, 0), np.diff(whole.by_cluster.indptr)
    scale = np.divide(1.0, whole.total, out=np.zeros_like(whole.total), where=np.abs(whole.total) > 1e-12)
    few = np.sqrt(np.where(clusters > 1, clusters / np.maximum(clusters - 1, 1), 0))
    return _scaled(few * scale, part.by_cluster - _scaled(known, whole.by_cluster))


def _larger_side(weights: Table, table: Table) -> Table:
    """Return two sums of a table's rows, with the positive and the negative weights; in each entry, the larger one."""
    up, down = (sparse.csr_matrix(side / 2 @ table) for side in (abs(weights) + weights, abs(weights) - weights))
    larger = sparse.csr_matrix(up.maximum(down)) if down.nnz else up
    larger.eliminate_zeros()
    return larger


def _divided(table: Table, by: Table) -> Table:
    """Return the quotients of two tables' entries; an entry that one of the tables lacks is 0."""
    return sparse.csr_matrix(table.multiply(sparse.csr_matrix((1 / by.data, by.indices, by.indptr), shape=by.shape)))


def _heaviest(table: Table) -> Table:
    """Return a table with only the :data:`LEAST_CLUSTERS` largest entries of each row."""
    rows = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr))
    order = np.lexsort((-table.data, rows))
    kept = order[np.arange(len(rows)) - table.indptr[rows] < LEAST_CLUSTERS]
    return sparse.csr_matrix((table.data[kept], (rows[kept], table.indices[kept])), shape=table.shape)


def _mean_square(table: Table) -> Floats:
    """Return the mean square of each row's entries that are not zero; 0 for a row without entries."""
    return _row_sums(table, 2) / np.maximum(np.diff(table.indptr), 1)


def _quantile(freedom: Floats | Ints) -> Floats:
    """Return the two-sided 95 % t quantile for each number of degrees of freedom; below 1 counts as 1."""
    return np.asarray(-special.stdtrit(np.fmax(freedom, 1), TAIL))


def _each(change: Callable[..., Any], *tables: Any) -> Any:
    """Apply ``change`` to the arrays of ``tables``, field by field; return an object of their class."""
    made: Any = type(tables[0])
    if made not in (Estimates, IntervalTerms):
        return change(*tables)
    return made(*(_each(change, *(getattr(table, field.name) for table in tables)) for field in fields(made)))


def _row_sums(table: Table, power: int = 1) -> Floats:
    """Return the sums of the rows' entries to a power."""
    return _by_row(table, table.data**power)


def _by_row(table: Table, values: npt.NDArray[Any]) -> Floats:
    """Return the sums of ``values`` over the rows; ``values`` has a number for each stored entry of ``table``."""
    # Works on the table's arrays, because operations between small tables take far longer.
    rows = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr))
    return np.bincount(rows, values, table.shape[0]).astype(np.float64)  # sums of no entries are integers


def _scaled(factors: Floats, table: Table) -> Table:
    """Return a table whose rows are multiplied by their factors."""
    values = np.repeat(factors, np.diff(table.indptr)) * table.data
    return sparse.csr_matrix((values, table.indices, table.indptr), shape=table.shape, copy=True)


def _weighted(weights: Table, values: Floats, power: int = 1) -> Floats:
    """Return each row's sum of ``weight**power * value``; a value with weight 0 is ignored, even if it is NaN."""
    own = np.where(weights.data != 0, values[weights.indices], 0)
    known = np.isfinite(own)
    total = _by_row(weights, np.where(known, weights.data**power * own, 0))
    return total if known.all() else np.where(_by_row(weights, ~known) > 0, np.nan, total)


def _ratio(part: Floats, whole: Floats) -> Floats:
    """Return ``part / whole``; NaN where ``whole`` is 0."""
    return np.asarray(np.divide(part, whole, out=np.full(np.shape(part), np.nan), where=np.abs(whole) > 1e-12))
