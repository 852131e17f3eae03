"""Scores of a report with 95 % intervals over patients: shares, other means, weighted sums and differences.

A score is a ratio of sums over clusters (patients), or a weighted sum of these ratios. All intervals use t quantiles:

- Share: Wilson's interval on the number of answers divided by the design effect, ``(r · e + m) / (r + 1)``. ``e`` is
  the estimated design effect (at least 0.7), ``m`` the largest one possible (each patient's answers all right or all
  wrong), and ``r`` the number of right or of wrong answers, whichever is smaller.
- Sum of shares with positive weights (means of kinds, levels and findings; scores corrected for chance): Wilson's
  interval on the scale from all wrong to all right, with the variance of the sum over patients.
- Mean of values that are not answers (overlaps, contrasts): a t interval; for values from 0 to 1, Wilson's interval.
- Difference: a t interval of the difference over patients, as if two more patients had been seen, one with a difference
  in each direction (for one answer a patient and one share: Bonett and Price 2012). The square of each of these two
  differences is the mean of two values. The first one is the mean square of the patients' differences, weighted by the
  number of patients that differ. The second one, with weight 1, is the largest possible: the mean square of the
  patients' numbers of answers. Both are counted in answers, each with the weight of an answer of the ten patients whose
  answers weigh most. The second one is at most the mean square of the ten largest members (see :class:`Estimates`).

0/0 is NaN (null in tables). A score from fewer than :data:`LEAST_CLUSTERS` clusters has no interval.
``docs/intervals.md`` shows how often the intervals contain the true value.
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
# Weight of the largest design effect, in answers; weight of the largest difference of a cluster, in clusters.
PRIOR_ANSWERS, PRIOR_CLUSTERS = 1.0, 1.0
# Clusters with a difference that are added to each difference.
ADDED = 2
Floats = npt.NDArray[np.floating]
Ints = npt.NDArray[np.integer]


@dataclass(frozen=True)
class Sample:
    """A sample of ``size`` clusters; ``unit`` is the plural noun for a cluster ("patients")."""

    unit: str
    size: int


class Sums(NamedTuple):
    """Sums of a value in each of G groups of rows: ``total (G,)``, and in each of P clusters: ``by_cluster (G, P)``."""

    total: Floats
    by_cluster: sparse.csr_matrix


class Groups:
    """Rows divided into groups; in each group, the rows' values are summed for each ``cluster`` (a column of ``rows``).

    ``keys`` has one row for each group, in the order in which the groups first appear.
    """

    def __init__(self, sample: Sample, rows: pl.DataFrame, by: Sequence[str]) -> None:
        self.sample, self.rows, self.by = sample, rows, list(by)
        numbered = rows.select(self.by).unique(maintain_order=True).with_row_index("_group")
        self.keys = numbered.drop("_group")
        placed = rows.select(self.by).join(numbered, on=self.by, how="left", nulls_equal=True, maintain_order="left")
        self._group = placed["_group"].to_numpy()
        self._cluster = rows[CLUSTER].to_numpy()

    def sums(self, value: pl.Expr | str) -> Sums:
        """Return the sums of a column or expression over every group; booleans count as 0 and 1, and null as 0."""
        column = self.rows.select(pl.col(value) if isinstance(value, str) else value).to_series()
        values = column.cast(pl.Float64).fill_null(0.0).to_numpy()
        shape = (self.keys.height, self.sample.size)
        table = sparse.csr_matrix((values, (self._group, self._cluster)), shape=shape)
        table.eliminate_zeros()
        return Sums(_row_sums(table), table)


@dataclass(frozen=True, eq=False)
class Makeup:
    """Terms ``(M,)`` of the intervals of M scores; a score is a share of right answers or a weighted sum of shares.

    - ``best``: the largest possible score; NaN if it is not known.
    - ``scale``: the distance from ``best`` to the smallest possible score.
    - ``variance``: the variance of the score over clusters.
    - ``least``: the value to use if ``variance`` is smaller than this value; NaN for a score without Wilson's interval.
    - ``rarer``: the number of right or of wrong answers, whichever is smaller; summed over the score's shares.
    - ``alike``: the largest possible variance of the score, divided by p (1 - p); p is the share of right answers. The
      variance is largest if each cluster's answers are all right or all wrong. Shares count as independent.
    - ``alike_squares``: the sum of a² / f over the score's shares, where a is a share's contribution to ``alike`` and f
      the number of degrees of freedom of this share.
    """

    best: Floats
    scale: Floats
    variance: Floats
    least: Floats
    rarer: Floats
    alike: Floats
    alike_squares: Floats

    def sum(self, weights: sparse.csr_matrix, variance: Floats) -> Makeup:
        """Return the makeup of C weighted sums of the M scores; ``variance (C,)`` has the variances of the sums."""
        down = (abs(weights) - weights) / 2
        least = np.where(_by_row(weights, weights.data < 0) > 0, np.nan, _weighted(weights, self.least, 2))
        return Makeup(
            _weighted(weights, self.best) + _weighted(down, self.scale), _weighted(abs(weights), self.scale), variance,
            least, _weighted(weights, self.rarer, 0), _weighted(weights, self.alike, 2),
            _weighted(weights, self.alike_squares, 4),
        )  # fmt: skip

    def freedom(self, members: sparse.csr_matrix) -> Floats:
        """Return Satterthwaite's degrees of freedom, at most the number of clusters minus 1."""
        freedom: Floats = np.fmin(np.diff(members.indptr) - 1, _ratio(self.alike**2, self.alike_squares))
        return freedom

    def of_shares(self, value: Floats, members: sparse.csr_matrix) -> tuple[Floats, Floats]:
        """Return the half-widths, downwards and upwards, of Wilson's intervals of ``value`` (see the module)."""
        share = np.clip(1 - _ratio(self.best - value, self.scale), 0, 1)
        usual = _ratio(np.maximum(self.variance, self.least), share * (1 - share) * self.scale**2)
        together = _ratio(_row_sums(members, 2), self.scale**2)
        size = _ratio(self.rarer + PRIOR_ANSWERS, np.nan_to_num(usual) * self.rarer + together * PRIOR_ANSWERS)
        low, high = wilson(share, size, quantile=_quantile(self.freedom(members)))
        return (share - low) * self.scale, (high - share) * self.scale

    def of_differences(
        self, value: Floats, influence: sparse.csr_matrix, members: sparse.csr_matrix, answers: sparse.csr_matrix
    ) -> tuple[Floats, Floats]:
        """Return the half-widths, downwards and upwards, of the intervals of differences ``value`` (see the module).

        The arguments are the fields of :class:`Estimates` with the same names. If a row of ``answers`` is empty, as for
        overlaps, the interval is a plain t interval. No interval reaches beyond the largest or smallest possible score.
        """
        weight = _divided(members, answers)
        in_answers = _divided(influence, weight)
        heavy, square = _mean_square(_heaviest(weight)), _row_sums(in_answers, 2)
        differ = np.nan_to_num(_ratio(square**2, _row_sums(in_answers, 4)))
        largest = np.fmin(_mean_square(answers) * heavy, _mean_square(_heaviest(members)))
        added = ADDED * np.nan_to_num((square * heavy + largest * PRIOR_CLUSTERS) / (differ + PRIOR_CLUSTERS))
        clusters = np.diff(members.indptr)
        fewer = np.where(np.diff(answers.indptr) > 0, clusters / (clusters + ADDED), 1)
        half = _quantile(self.freedom(members)) * np.sqrt(self.variance + added) * fewer
        return np.fmin(half, value - self.best + self.scale), np.fmin(half, self.best - value)


@dataclass(frozen=True, eq=False)
class Estimates:
    """Estimates of M scores from P clusters (patients), with the half-widths of their intervals.

    - ``value (M,)``: the scores; NaN for a score that cannot be computed.
    - ``below, above (M,)``: the half-widths, downwards and upwards.
    - ``influence (M, P)``: each cluster's contribution to the deviation of a score. The squares in a row sum to the
      variance of the score, and the products of two rows to the covariance of the two scores.
    - ``members (M, P)``: by how much a score changes if all answers of a cluster change from wrong to right; 0 for a
      cluster without answers. A difference of two scores has the larger one of their changes.
    - ``answers (M, P)``: the number of answers of a cluster in a score; empty for scores that are not made of answers.
    - ``fewest (M,)``: the number of clusters in a score; if it is made of several shares, in the smallest of them.
    - ``makeup``: the terms from which the half-widths are computed.
    """

    value: Floats
    below: Floats
    above: Floats
    influence: sparse.csr_matrix
    members: sparse.csr_matrix
    answers: sparse.csr_matrix
    fewest: Ints
    makeup: Makeup

    @property
    def clusters(self) -> Ints:
        """Return the number of clusters (patients) that count in each score."""
        return np.diff(self.members.indptr)

    def combine(self, matrix: sparse.csr_matrix | Floats) -> Estimates:
        """Return C linear combinations of these scores, with weights ``(C, M)``.

        A score with weight zero is ignored, even if it is NaN. A combination of shares with positive weights has
        Wilson's interval. Any other combination has the interval of a difference (see the module).
        """
        weights = sparse.csr_matrix(matrix)
        weights.eliminate_zeros()
        used = [weights.indices[a:b] for a, b in zip(weights.indptr[:-1], weights.indptr[1:], strict=True)]
        value = np.where([not len(entry) for entry in used], np.nan, _weighted(weights, self.value))
        fewest = np.array([self.fewest[entry].min() if len(entry) else 0 for entry in used], np.int64)
        influence = sparse.csr_matrix(weights @ self.influence)
        members, answers = (_larger_side(weights, self.members), _larger_side(weights.sign(), self.answers))
        made = self.makeup.sum(weights, _row_sums(influence, 2))
        below, above = made.of_shares(value, members)
        other = ~np.isfinite(made.least)
        if other.any():
            tables = (table[other] for table in (influence, members, answers))
            below[other], above[other] = _each(lambda terms: terms[other], made).of_differences(value[other], *tables)
        return Estimates(value, below, above, influence, members, answers, fewest, made)

    def times(self, factors: Floats) -> Estimates:
        """Multiply each score by its factor, ``factors (M,)`` (above 0), and return the result."""
        return self.combine(sparse.csr_matrix(sparse.diags(factors)))

    def plus(self, constant: float) -> Estimates:
        """Return each score plus a constant."""
        return replace(self, value=self.value + constant, makeup=replace(self.makeup, best=self.makeup.best + constant))

    def join(self, other: Estimates) -> Estimates:
        """Return these scores followed by the scores of ``other``."""

        def stacked(own: Any, others: Any) -> Any:
            join: Any = np.concatenate if isinstance(own, np.ndarray) else partial(sparse.vstack, format="csr")
            return join((own, others))

        return cast(Estimates, _each(stacked, self, other))

    def take(self, places: Ints | Sequence[int]) -> Estimates:
        """Return the scores with these indices, in this order."""
        rows = np.asarray(places, np.intp)
        return cast(Estimates, _each(lambda table: table[rows], self))

    def interval(self) -> tuple[Floats, Floats]:
        """Return the ends of the 95 % intervals; the ends are NaN for a score without an interval."""
        none = np.isnan(self.value) | (self.clusters < LEAST_CLUSTERS) | (self.fewest < 2)
        return np.where(none, np.nan, self.value - self.below), np.where(none, np.nan, self.value + self.above)

    def p_alike(self, margin: float) -> Floats:
        """Test by two one-sided t tests (TOST) whether each score is closer to zero than ``margin``; return p ``(M,)``.

        ``margin`` is above 0. p is below 0.05 if and only if the 90 % interval lies within the margin. The half-widths
        of the 90 % interval are those of the 95 % interval multiplied by the ratio of the t quantiles. A score without
        an interval has no p (NaN).
        """
        (low, high), quantile = self.interval(), _quantile(self.clusters - 1)
        freedom = np.maximum(self.clusters - 1, 1)
        ends = ((self.value + margin, self.value - low), (margin - self.value, high - self.value))
        tests = [special.stdtr(freedom, -_ratio(inside * quantile, distance)) for inside, distance in ends]
        p: Floats = np.maximum(*tests)
        return p

    def columns(self, name: str) -> dict[str, pl.Series]:
        """Return the scores and intervals as columns ``name``, ``name_low`` and ``name_high``; NaN becomes null."""
        low, high = self.interval()
        named = {name: self.value, f"{name}_low": low, f"{name}_high": high}
        return {key: pl.Series(key, values, pl.Float64).fill_nan(None) for key, values in named.items()}


def proportion(part: Sums, whole: Sums, binary: bool = True) -> Estimates:
    """Return the shares ``part`` / ``whole`` with intervals; in each row, ``part`` must lie between 0 and ``whole``.

    With ``binary``, ``part`` counts right answers. Without it, ``part`` sums values from 0 to 1.
    """
    value = _ratio(part.total, whole.total)
    return _shares(part, whole, value, _linearized(part, whole, value), np.ones(len(value)), binary)


def corrected(right: Sums, chance: Sums, whole: Sums) -> Estimates:
    """Return accuracies corrected for chance: (``right`` - ``chance``) / (``whole`` - ``chance``); guessing gives 0."""
    above = Sums(right.total - chance.total, right.by_cluster - chance.by_cluster)
    room = Sums(whole.total - chance.total, whole.by_cluster - chance.by_cluster)
    value = np.where(room.total > 1e-9, _ratio(above.total, room.total), np.nan)
    scale = np.where(room.total > 1e-9, _ratio(whole.total, room.total), np.nan)
    return _shares(right, whole, value, _linearized(above, room, value), scale)


def _shares(
    part: Sums, whole: Sums, value: Floats, influence: sparse.csr_matrix, scale: Floats, binary: bool = True
) -> Estimates:  # fmt: skip
    """Return scores ``1 - scale * (share of wrong answers)`` with intervals from linearized contributions."""
    clusters = np.diff(whole.by_cluster.indptr)
    members = _scaled(np.nan_to_num(_ratio(scale, whole.total)), whole.by_cluster)
    members.eliminate_zeros()
    room = part.total * (whole.total - part.total)
    least = (LEAST_EFFECT if binary else 0) * np.nan_to_num(_ratio(room * scale**2, whole.total**3))
    rarer = np.clip(np.minimum(part.total, whole.total - part.total), 0, None)
    alike = _row_sums(members, 2)
    made = Makeup(
        np.ones(len(value)), scale, _row_sums(influence, 2), least, rarer, alike, alike**2 / np.maximum(clusters - 1, 1)
    )
    below, above = made.of_shares(value, members)
    return Estimates(value, below, above, influence, members, whole.by_cluster, clusters.astype(np.int64), made)


def mean(part: Sums, whole: Sums) -> Estimates:
    """Return the means ``part`` / ``whole`` of values that have no bounds, with t intervals over clusters."""
    value = _ratio(part.total, whole.total)
    members = whole.by_cluster.astype(bool).astype(np.float64)
    return _without_bounds(value, _linearized(part, whole, value), members, sparse.csr_matrix(members.shape))


def linear(value: Floats, influence: sparse.csr_matrix, sides: tuple[Estimates, Estimates]) -> Estimates:
    """Return estimates of differences of two shares: the given differences ``value (M,)`` with their intervals.

    ``influence (M, P)`` has each cluster's contribution to each difference; the contributions to a difference sum to
    about zero. ``sides`` has the estimates of the two shares.
    """
    members, answers = (sparse.csr_matrix(one.maximum(other)) for one, other in
                        ((sides[0].members, sides[1].members), (sides[0].answers, sides[1].answers)))  # fmt: skip
    return _without_bounds(value, _spread(influence, np.diff(members.indptr)), members, answers)


def _without_bounds(
    value: Floats, influence: sparse.csr_matrix, members: sparse.csr_matrix, answers: sparse.csr_matrix
) -> Estimates:  # fmt: skip
    """Return scores of which no largest and smallest value is known, with the intervals of differences."""
    clusters, none = np.diff(members.indptr), np.full(len(value), np.nan)
    alike = 1 / np.maximum(clusters, 1)
    made = Makeup(none, none, _row_sums(influence, 2), none, none, alike, alike**2 / np.maximum(clusters - 1, 1))
    below, above = made.of_differences(value, influence, members, answers)
    return Estimates(value, below, above, influence, members, answers, clusters.astype(np.int64), made)


def _linearized(part: Sums, whole: Sums, value: Floats) -> sparse.csr_matrix:
    """Return each cluster's contribution to a ratio, ``(M, P)``; the squares in a row sum to the ratio's variance."""
    known = np.where(np.isfinite(value), value, 0)
    scale = np.divide(1.0, whole.total, out=np.zeros_like(whole.total), where=np.abs(whole.total) > 1e-12)
    influence = _scaled(scale, part.by_cluster - _scaled(known, whole.by_cluster))
    return _spread(influence, np.diff(whole.by_cluster.indptr))


def _spread(influence: sparse.csr_matrix, clusters: Ints) -> sparse.csr_matrix:
    """Return contributions whose squares sum to the variance; the variance of a single cluster is zero."""
    return _scaled(np.sqrt(np.where(clusters > 1, clusters / np.maximum(clusters - 1, 1), 0)), influence)


def _larger_side(weights: sparse.csr_matrix, table: sparse.csr_matrix) -> sparse.csr_matrix:
    """Return the sums of a table's rows with positive weights or with negative ones, entry by entry the larger."""
    up, down = (sparse.csr_matrix(side / 2 @ table) for side in (abs(weights) + weights, abs(weights) - weights))
    larger = sparse.csr_matrix(up.maximum(down)) if down.nnz else up
    larger.eliminate_zeros()
    return larger


def _divided(table: sparse.csr_matrix, by: sparse.csr_matrix) -> sparse.csr_matrix:
    """Return the quotients of two tables' entries; an entry that one of the tables lacks is 0."""
    return sparse.csr_matrix(table.multiply(sparse.csr_matrix((1 / by.data, by.indices, by.indptr), shape=by.shape)))


def _heaviest(table: sparse.csr_matrix) -> sparse.csr_matrix:
    """Return a table with only the :data:`LEAST_CLUSTERS` largest entries of each row."""
    rows = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr))
    order = np.lexsort((-table.data, rows))
    kept = order[np.arange(len(rows)) - table.indptr[rows] < LEAST_CLUSTERS]
    return sparse.csr_matrix((table.data[kept], (rows[kept], table.indices[kept])), shape=table.shape)


def _mean_square(table: sparse.csr_matrix) -> Floats:
    """Return the mean square of each row's entries that are not zero; 0 for a row without entries."""
    return _row_sums(table, 2) / np.maximum(np.diff(table.indptr), 1)


def _quantile(freedom: Floats | Ints) -> Floats:
    """Return the two-sided 95 % t quantile for each number of degrees of freedom; below 1 counts as 1."""
    quantile: Floats = -special.stdtrit(np.fmax(freedom, 1), TAIL)
    return quantile


def _each(change: Callable[..., Any], *tables: Any) -> Any:
    """Apply ``change`` to the arrays of ``tables``, field by field; return an object of their class."""
    made: Any = type(tables[0])
    if made not in (Estimates, Makeup):
        return change(*tables)
    return made(*(_each(change, *(getattr(table, field.name) for table in tables)) for field in fields(made)))


def _row_sums(table: sparse.csr_matrix, power: int = 1) -> Floats:
    """Return the sums of the rows' entries to a power."""
    return _by_row(table, table.data**power)


def _by_row(table: sparse.csr_matrix, values: npt.NDArray[Any]) -> Floats:
    """Return the sums of ``values``, one for each stored entry of ``table``, over its rows.

    This works on the arrays of the table, because operations between small tables take far longer.
    """
    rows = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr))
    return np.bincount(rows, values, table.shape[0]).astype(np.float64)  # sums of no entries are integers


def _scaled(factors: Floats, table: sparse.csr_matrix) -> sparse.csr_matrix:
    """Return a table whose rows are multiplied by their factors."""
    values = np.repeat(factors, np.diff(table.indptr)) * table.data
    return sparse.csr_matrix((values, table.indices, table.indptr), shape=table.shape, copy=True)


def _weighted(weights: sparse.csr_matrix, values: Floats, power: int = 1) -> Floats:
    """Return the rows' sums of (weight to a power) times ``values``; a NaN with weight zero is ignored."""
    own = np.where(weights.data != 0, values[weights.indices], 0)
    known = np.isfinite(own)
    total = _by_row(weights, np.where(known, weights.data**power * own, 0))
    return total if known.all() else np.where(_by_row(weights, ~known) > 0, np.nan, total)


def _ratio(part: Floats, whole: Floats) -> Floats:
    """Return ``part / whole``; NaN where ``whole`` is 0."""
    ratio: Floats = np.divide(part, whole, out=np.full(np.shape(part), np.nan), where=np.abs(whole) > 1e-12)
    return ratio
