"""Scores of a report with 95 % intervals over patients: shares, other means, weighted sums and differences.

A score is a ratio of sums over clusters (patients), or a weighted sum of these ratios. All intervals use t quantiles:

- Share: Wilson's interval on the effective number of answers, which is their number divided by the design effect. The
  design effect is a weighted mean of two values. One is its estimate (at least 0.7), weighted by the number of the
  rarer answers. The other is its largest possible value (all answers of a patient are alike), with weight 1.
- Sum of shares with positive weights (means of kinds, levels and findings; scores corrected for chance): Wilson's
  interval on the scale from all wrong to all right, with the variance of the sum over patients.
- Mean of values that are not answers (overlaps, contrasts): a t interval; for values from 0 to 1, Wilson's interval.
- Difference: the squared half-widths of both scores are added, with the scores' correlation over patients (method of
  variance estimates recovery, Zou and Donner 2008). A correlation that makes the interval narrower is first multiplied
  by P / (P + 1) for P patients, so that the interval of two models with equal answers has a width above 0.

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
# Weight of the largest design effect, in answers; weight of independence, in clusters.
PRIOR_ANSWERS, PRIOR_CLUSTERS = 1.0, 1.0
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
    """Rows divided into groups, whose values are summed by cluster; ``rows`` must have the column ``cluster``.

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
    """Terms ``(M,)`` of Wilson's intervals of M scores; a score is ``best - scale * (share of wrong answers)``.

    - ``best``: the score if all answers are right; NaN for a score that is not made of shares.
    - ``scale``: the distance from ``best`` to the score if all answers are wrong.
    - ``variance``, ``least``: the variance of the score over clusters, and the smallest value to use for it.
    - ``rarer``: the number of right or of wrong answers in each share, the smaller of the two; summed over the shares.
    - ``alike``: the largest possible variance of the score (all answers of a cluster are alike), divided by p (1 - p);
      p is the share of right answers.
    - ``alike_squares``: the square of each share's part of ``alike``, divided by the share's degrees of freedom; summed
      over the shares.
    """

    best: Floats
    scale: Floats
    variance: Floats
    least: Floats
    rarer: Floats
    alike: Floats
    alike_squares: Floats

    @staticmethod
    def none(count: int) -> Makeup:
        """Return terms of NaN for ``count`` scores that are not computed from shares."""
        return Makeup(*np.full((len(fields(Makeup)), count), np.nan))

    def times(self, factors: Floats) -> Makeup:
        """Multiply the terms of each score by the score's factor (above 0), and return the result."""
        return self.sum(sparse.csr_matrix(sparse.diags(factors)), self.variance * factors**2)

    def sum(self, weights: sparse.csr_matrix, variance: Floats) -> Makeup:
        """Return the terms of C weighted sums of the scores; these sums have the given variances ``(C,)``."""
        count, first, square, fourth = (partial(_weighted, weights, power=power) for power in (0, 1, 2, 4))
        return Makeup(
            first(self.best), first(self.scale), variance, square(self.least), count(self.rarer), square(self.alike),
            fourth(self.alike_squares),
        )  # fmt: skip

    def distances(self, value: Floats, members: sparse.csr_matrix) -> tuple[Floats, Floats]:
        """Return the half-widths, downwards and upwards, of Wilson's intervals on the effective numbers of answers."""
        share = np.clip(1 - _ratio(self.best - value, self.scale), 0, 1)
        usual = _ratio(np.maximum(self.variance, self.least), share * (1 - share) * self.scale**2)
        together = _ratio(_row_sums(members, 2), self.scale**2)
        size = _ratio(self.rarer + PRIOR_ANSWERS, np.nan_to_num(usual) * self.rarer + together * PRIOR_ANSWERS)
        freedom = np.fmin(np.diff(members.indptr) - 1, _ratio(self.alike**2, self.alike_squares))
        low, high = wilson(share, size, quantile=_quantile(freedom))
        return (share - low) * self.scale, (high - share) * self.scale


@dataclass(frozen=True, eq=False)
class Estimates:
    """Estimates of M scores, with the half-widths of their intervals and their correlations over P clusters (patients).

    - ``value (M,)``: the scores; NaN for a score that cannot be computed.
    - ``low_parts, high_parts (M, P)``: the half-widths, downwards and upwards, divided over the clusters. The squares
      in a row sum to the squared half-width, and two rows have the correlation of the two scores.
    - ``low_fixed, high_fixed (M,)``: squared half-widths of components without variation (shares of 0 or 1).
    - ``low_alone, high_alone (M,)``: squared half-widths of the scores if their components were independent.
    - ``members (M, P)``: change of a score if all answers of a cluster turn from wrong to right; 0 without answers.
    - ``fewest (M,)``: number of clusters of the score's smallest component.
    - ``makeup``: the terms of Wilson's intervals.
    """

    value: Floats
    low_parts: sparse.csr_matrix
    high_parts: sparse.csr_matrix
    low_fixed: Floats
    high_fixed: Floats
    low_alone: Floats
    high_alone: Floats
    members: sparse.csr_matrix
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
        size = abs(weights)
        used = [weights.indices[a:b] for a, b in zip(weights.indptr[:-1], weights.indptr[1:], strict=True)]
        value = np.where([not len(entry) for entry in used], np.nan, _weighted(weights, self.value))
        members = sparse.csr_matrix(size @ self.members)
        members.eliminate_zeros()
        fewest = np.array([self.fewest[entry].min() if len(entry) else 0 for entry in used], np.int64)
        influence = weights @ self._influence()
        made = self.makeup.sum(size, _row_sums(influence, 2))
        positive = np.isfinite(made.scale) & (_by_row(weights, weights.data < 0) == 0)
        if positive.all():
            return _estimates(value, *made.distances(value, members), influence, members, fewest, made)
        up, down = (size + weights) / 2, (size - weights) / 2

        def squares(own: Floats, other: Floats) -> Floats:
            return _weighted(up, own, power=2) + _weighted(down, other, power=2)

        added = Estimates(
            value,
            sparse.csr_matrix(up @ self.low_parts - down @ self.high_parts),
            sparse.csr_matrix(up @ self.high_parts - down @ self.low_parts),
            squares(self.low_fixed, self.high_fixed),
            squares(self.high_fixed, self.low_fixed),
            squares(self.low_alone, self.high_alone),
            squares(self.high_alone, self.low_alone),
            members, fewest, Makeup.none(len(used)),
        )  # fmt: skip
        if not positive.any():
            return added
        sums, others = np.flatnonzero(positive), np.flatnonzero(~positive)
        order = np.argsort(np.concatenate([sums, others]))
        return self.combine(weights[sums]).join(added.take(others)).take(order)

    def _influence(self) -> sparse.csr_matrix:
        """Return each cluster's contribution (influence) to the scores that are computed from shares, ``(M, P)``."""
        norm = np.sqrt(_row_sums(self.low_parts, 2))
        scale = np.divide(np.sqrt(self.makeup.variance), norm, out=np.zeros_like(norm), where=norm > 0)
        return _scaled(np.nan_to_num(scale), self.low_parts)

    def times(self, factors: Floats) -> Estimates:
        """Multiply each score by its factor, ``factors (M,)`` (above 0), and return the result."""
        squares = factors**2
        return Estimates(
            self.value * factors, _scaled(factors, self.low_parts), _scaled(factors, self.high_parts),
            self.low_fixed * squares, self.high_fixed * squares, self.low_alone * squares, self.high_alone * squares,
            _scaled(factors, self.members), self.fewest, self.makeup.times(factors),
        )  # fmt: skip

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
        clusters = self.clusters
        none = np.isnan(self.value) | (clusters < LEAST_CLUSTERS) | (self.fewest < 2)
        independent = PRIOR_CLUSTERS / (clusters + PRIOR_CLUSTERS)
        ends = []
        for parts, fixed, alone in ((self.low_parts, self.low_fixed, self.low_alone),
                                    (self.high_parts, self.high_fixed, self.high_alone)):  # fmt: skip
            together = _row_sums(parts, 2)
            mixed = (1 - independent) * together + independent * alone
            ends.append(np.sqrt(fixed + np.maximum(together, mixed)))
        return np.where(none, np.nan, self.value - ends[0]), np.where(none, np.nan, self.value + ends[1])

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
    return _shares(part, whole, value, *_linearized(part, whole, value), np.ones(len(value)), binary)


def corrected(right: Sums, chance: Sums, whole: Sums) -> Estimates:
    """Return accuracies corrected for chance: (``right`` - ``chance``) / (``whole`` - ``chance``); guessing gives 0."""
    above = Sums(right.total - chance.total, right.by_cluster - chance.by_cluster)
    room = Sums(whole.total - chance.total, whole.by_cluster - chance.by_cluster)
    value = np.where(room.total > 1e-9, _ratio(above.total, room.total), np.nan)
    scale = np.where(room.total > 1e-9, _ratio(whole.total, room.total), np.nan)
    return _shares(right, whole, value, *_linearized(above, room, value), scale)


def _shares(
    part: Sums, whole: Sums, value: Floats, influence: sparse.csr_matrix, variance: Floats, scale: Floats,
    binary: bool = True,
) -> Estimates:  # fmt: skip
    """Return scores ``1 - scale * (share of wrong answers)`` with intervals from linearized contributions."""
    clusters = np.diff(whole.by_cluster.indptr)
    members = _scaled(np.nan_to_num(_ratio(scale, whole.total)), whole.by_cluster)
    members.eliminate_zeros()
    room = part.total * (whole.total - part.total)
    least = (LEAST_EFFECT if binary else 0) * _ratio(room * scale**2, whole.total**3)
    rarer = np.clip(np.minimum(part.total, whole.total - part.total), 0, None)
    alike = _row_sums(members, 2)
    made = Makeup(np.ones(len(value)), scale, variance, least, rarer, alike, alike**2 / np.maximum(clusters - 1, 1))
    return _estimates(value, *made.distances(value, members), influence, members, clusters, made)


def mean(part: Sums, whole: Sums) -> Estimates:
    """Return the means ``part`` / ``whole`` of values that have no bounds, with t intervals over clusters."""
    value = _ratio(part.total, whole.total)
    influence, variance = _linearized(part, whole, value)
    members = whole.by_cluster.astype(bool).astype(np.float64)
    clusters = np.diff(members.indptr)
    distance = _quantile(clusters - 1) * np.sqrt(variance)
    return _estimates(value, distance, distance, influence, members, clusters, Makeup.none(len(value)))


def linear(value: Floats, influence: sparse.csr_matrix, members: sparse.csr_matrix, fixed: tuple[Floats, Floats]
           ) -> Estimates:  # fmt: skip
    """Return the scores ``value (M,)`` with t intervals.

    The intervals follow from ``influence (M, P)``, each cluster's contribution to each score; the contributions to a
    score sum to about zero. ``members (M, P)`` is not zero for clusters that count in the score. ``fixed`` has, for the
    part of each score that has no variation, the squared half-widths ``(M,)``, downwards and upwards.
    """
    clusters = np.diff(members.indptr)
    distance = _quantile(clusters - 1) * np.sqrt(_variance(influence, clusters))
    made = _estimates(value, distance, distance, influence, members, clusters, Makeup.none(len(value)))
    low, high = (np.where(np.isnan(value), 0, entry) for entry in fixed)
    return replace(made, low_fixed=low, high_fixed=high)


def _estimates(
    value: Floats, low: Floats, high: Floats, influence: sparse.csr_matrix, members: sparse.csr_matrix, fewest: Ints,
    makeup: Makeup,
) -> Estimates:  # fmt: skip
    """Return scores with the given half-widths, each divided over the clusters in proportion to ``influence``."""
    low, high = np.nan_to_num(low), np.nan_to_num(high)
    norm = np.sqrt(_row_sums(influence, 2))
    varies = norm > 1e-9
    unit = _scaled(np.divide(1.0, norm, out=np.zeros_like(norm), where=varies), influence)
    return Estimates(
        value, _scaled(low, unit), _scaled(high, unit), np.where(varies, 0, low**2), np.where(varies, 0, high**2),
        np.where(varies, low**2, 0), np.where(varies, high**2, 0), members, fewest.astype(np.int64), makeup,
    )  # fmt: skip


def _linearized(part: Sums, whole: Sums, value: Floats) -> tuple[sparse.csr_matrix, Floats]:
    """Return each cluster's contribution to a ratio, ``(M, P)``, and the ratio's variance, ``(M,)``."""
    known = np.where(np.isfinite(value), value, 0)
    scale = np.divide(1.0, whole.total, out=np.zeros_like(whole.total), where=np.abs(whole.total) > 1e-12)
    influence = _scaled(scale, part.by_cluster - _scaled(known, whole.by_cluster))
    return influence, _variance(influence, np.diff(whole.by_cluster.indptr))


def _variance(influence: sparse.csr_matrix, clusters: Ints) -> Floats:
    """Return the variance of each score, from its ``influence (M, P)``; zero if the score has a single cluster."""
    return _row_sums(influence, 2) * np.where(clusters > 1, clusters / np.maximum(clusters - 1, 1), 0)


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
