"""Numbers of a report with 95 % intervals over patients: shares, other means, weighted sums and differences.

A number is a sum over clusters (patients) divided by another such sum, or a weighted sum of such numbers. Each sort of
number has one rule. All rules use t quantiles for the number of clusters:

* A share has Wilson's interval. It uses the effective number of answers: the number of answers divided by the design
  effect. The design effect is estimated and is at least 0.7. It is then mixed with its largest possible value (all
  answers of a patient alike), as if one more of the rarer answers had been seen. So a share of 0 or 1 has an interval
  too.
* A mean of values that are not answers (overlaps, contrasts) has a t interval. If the values lie from 0 to 1, the
  interval is Wilson's, as for shares.
* A weighted sum (a mean of kinds, levels or findings, or a difference of models) has an interval by the method of
  variance estimates recovery (Zou and Donner 2008). The distances from each number to the ends of its interval are
  added like standard deviations, with the correlations of the numbers over patients. For P patients, correlations are
  reduced by the factor P / (P + 1) where this makes the interval wider. So two models with equal answers have the
  difference 0 with an interval around it.

0/0 gives no number (NaN here, null in tables). A number from fewer than :data:`LEAST_CLUSTERS` clusters has no
interval. ``docs/intervals.md`` shows how often the intervals contain the true value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import sparse, special

from chexqa.stats import TAIL, cluster_id, wilson

CLUSTER = "cluster"
LEAST_CLUSTERS = 10
LEAST_EFFECT = 0.7
# Prior strength of the largest design effect, in answers, and of independence, in clusters.
PRIOR_ANSWERS, PRIOR_CLUSTERS = 1.0, 1.0
Floats = npt.NDArray[np.floating]
Ints = npt.NDArray[np.integer]


@dataclass(frozen=True)
class Sample:
    """A sample of ``size`` clusters; ``unit`` names them in the plural ("patients")."""

    unit: str
    size: int


def with_clusters(rows: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """Return the rows with the column ``cluster`` (numbers from 0), and the name of a cluster in the plural.

    ``rows`` has ``patient_id`` and ``study_id``, which may be null, and ``picture``; :func:`chexqa.stats.cluster_id`
    says which rows are one cluster. Raises ``ValueError`` for a row without a picture.
    """
    columns = ["patient_id", "study_id", "picture"]
    people = rows.select(columns).unique(maintain_order=True)
    if people["picture"].null_count():
        raise ValueError("a row has no picture")
    names = [cluster_id(*person) for person in people.iter_rows()]
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    numbered = people.with_columns(pl.Series(CLUSTER, [places[name] for name in names], pl.UInt32))
    joined = rows.join(numbered, on=columns, how="left", nulls_equal=True, maintain_order="left")
    units = {"patient": "patients", "study": "studies", "picture": "pictures"}
    used = {name.partition(" ")[0] for name in names}
    return joined, " and ".join(plural for unit, plural in units.items() if unit in used) or "patients"


class Sums(NamedTuple):
    """Sums of a value over G groups of rows: ``total (G,)``, and the part of each of P clusters ``(G, P)``."""

    total: Floats
    by_cluster: sparse.csr_matrix


class Groups:
    """Rows divided into groups, whose values are summed by cluster; ``rows`` needs the column ``cluster``.

    ``keys`` has one row for each group, in order of first appearance.
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
class Estimates:
    """M numbers ``value (M,)`` with the distances from each to the ends of its interval; NaN means no number.

    ``low_parts`` and ``high_parts (M, P)`` divide each distance among P clusters: the squares of a row sum to the
    squared distance, and two rows have the correlation of their numbers. ``low_fixed`` and ``high_fixed (M,)`` are
    squared distances that come from shares of 0 or 1, which do not vary between clusters. ``low_alone`` and
    ``high_alone (M,)`` are the squared distances if all parts of a weighted sum were independent. ``members (M, P)`` is
    not zero for the clusters of a number. ``fewest (M,)`` is the number of clusters in the smallest part of a number.
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

    @property
    def clusters(self) -> Ints:
        """Return the number of clusters behind each number."""
        return np.diff(self.members.indptr)

    def combine(self, matrix: sparse.csr_matrix | Floats) -> Estimates:
        """Return linear combinations of these numbers with weights ``(C, M)``.

        A number with weight zero is ignored, even if it is NaN.
        """
        weights = sparse.csr_matrix(matrix)
        weights.eliminate_zeros()
        size = abs(weights)
        up, down = (size + weights) / 2, (size - weights) / 2
        used = [weights.indices[a:b] for a, b in zip(weights.indptr[:-1], weights.indptr[1:], strict=True)]
        empty = np.array([not len(entry) for entry in used], bool)
        members = sparse.csr_matrix(size @ self.members)
        members.eliminate_zeros()

        def squares(own: Floats, other: Floats) -> Floats:
            return _weighted(up.power(2), own) + _weighted(down.power(2), other)

        return Estimates(
            np.where(empty, np.nan, _weighted(weights, self.value)),
            sparse.csr_matrix(up @ self.low_parts - down @ self.high_parts),
            sparse.csr_matrix(up @ self.high_parts - down @ self.low_parts),
            squares(self.low_fixed, self.high_fixed),
            squares(self.high_fixed, self.low_fixed),
            squares(self.low_alone, self.high_alone),
            squares(self.high_alone, self.low_alone),
            members,
            np.array([self.fewest[entry].min() if len(entry) else 0 for entry in used], np.int64),
        )

    def times(self, factors: Floats) -> Estimates:
        """Return each number times its positive factor, ``factors (M,)``."""
        scale, squares = sparse.diags(factors), factors**2
        return Estimates(
            self.value * factors, sparse.csr_matrix(scale @ self.low_parts), sparse.csr_matrix(scale @ self.high_parts),
            self.low_fixed * squares, self.high_fixed * squares, self.low_alone * squares, self.high_alone * squares,
            self.members, self.fewest,
        )  # fmt: skip

    def join(self, other: Estimates) -> Estimates:
        """Return these numbers followed by the numbers of ``other``."""
        joined: dict[str, Any] = {}
        for field in fields(self):
            pair = getattr(self, field.name), getattr(other, field.name)
            joined[field.name] = sparse.vstack(pair, "csr") if sparse.issparse(pair[0]) else np.concatenate(pair)
        return Estimates(**joined)

    def take(self, places: Ints | Sequence[int]) -> Estimates:
        """Return the numbers with these indices, in this order."""
        rows = np.asarray(places, np.intp)
        chosen: dict[str, Any] = {field.name: getattr(self, field.name)[rows] for field in fields(self)}
        return Estimates(**chosen)

    def interval(self) -> tuple[Floats, Floats]:
        """Return the ends of the 95 % intervals; the ends are NaN for a number without an interval."""
        clusters = self.clusters
        none = np.isnan(self.value) | (clusters < LEAST_CLUSTERS) | (self.fewest < 2)
        independent = PRIOR_CLUSTERS / (clusters + PRIOR_CLUSTERS)
        ends = []
        for parts, fixed, alone in ((self.low_parts, self.low_fixed, self.low_alone),
                                    (self.high_parts, self.high_fixed, self.high_alone)):  # fmt: skip
            together = _row_sums(parts.power(2))
            mixed = (1 - independent) * together + independent * alone
            ends.append(np.sqrt(fixed + np.maximum(together, mixed)))
        return np.where(none, np.nan, self.value - ends[0]), np.where(none, np.nan, self.value + ends[1])

    def p_alike(self, margin: float) -> Floats:
        """Return p ``(M,)`` of two one-sided t tests of equivalence: each number lies within ``margin`` of zero.

        ``margin`` is above 0. p is below 0.05 if and only if the 90 % interval lies within the margin. The distances of
        the 90 % interval are those of the 95 % interval times the ratio of the t quantiles. A number without an
        interval has no p (NaN).
        """
        (low, high), quantile = self.interval(), _quantile(self.clusters)
        freedom = np.maximum(self.clusters - 1, 1)
        ends = ((self.value + margin, self.value - low), (margin - self.value, high - self.value))
        tests = [special.stdtr(freedom, -_ratio(inside * quantile, distance)) for inside, distance in ends]
        p: Floats = np.maximum(*tests)
        return p

    def columns(self, name: str) -> dict[str, pl.Series]:
        """Return the numbers and intervals as columns ``name``, ``name_low`` and ``name_high``; NaN becomes null."""
        low, high = self.interval()
        named = {name: self.value, f"{name}_low": low, f"{name}_high": high}
        return {key: pl.Series(key, values, pl.Float64).fill_nan(None) for key, values in named.items()}


def proportion(part: Sums, whole: Sums, binary: bool = True) -> Estimates:
    """Return the shares ``part`` / ``whole``; each row's part must lie between 0 and its whole.

    With ``binary`` the part counts answers. Otherwise the part sums values from 0 to 1, which may vary less than
    answers.
    """
    value = _ratio(part.total, whole.total)
    influence, variance = _linearized(part, whole, value)
    members = np.diff(whole.by_cluster.indptr)
    most = _ratio(_row_sums(whole.by_cluster.power(2)), whole.total)
    rarer = np.clip(np.minimum(part.total, whole.total - part.total), 0, None)
    effect = _ratio(variance * whole.total, value * (1 - value))
    effect = np.maximum(np.nan_to_num(effect), LEAST_EFFECT if binary else 0)
    effect = (effect * rarer + most * PRIOR_ANSWERS) / (rarer + PRIOR_ANSWERS)
    low, high = wilson(value, _ratio(whole.total, effect), quantile=_quantile(members))
    return _estimates(value, value - low, high - value, influence, whole.by_cluster, members)


def corrected(right: Sums, chance: Sums, whole: Sums) -> Estimates:
    """Return pooled accuracy corrected for chance, sum(a - c) / sum(1 - c): 0 is guessing, 1 is all correct.

    a is the accuracy and c the chance of each row. The distances to the ends of the interval are those of the share,
    multiplied by the ratio of the standard deviations of both numbers over clusters.
    """
    plain = proportion(right, whole)
    above = Sums(right.total - chance.total, right.by_cluster - chance.by_cluster)
    room = Sums(whole.total - chance.total, whole.by_cluster - chance.by_cluster)
    value = np.where(room.total > 1e-9, _ratio(above.total, room.total), np.nan)
    influence, variance = _linearized(above, room, value)
    before = _linearized(right, whole, plain.value)[1]
    stretch = np.where(room.total > 1e-9, _ratio(whole.total, room.total), np.nan)
    varies = (variance > 1e-18) & (before > 1e-18)
    factor = np.where(varies, np.sqrt(_ratio(variance, before)), stretch)
    low = factor * np.sqrt(plain.low_fixed + plain.low_alone)
    high = factor * np.sqrt(plain.high_fixed + plain.high_alone)
    return _estimates(value, low, high, influence, whole.by_cluster, plain.fewest)


def mean(part: Sums, whole: Sums) -> Estimates:
    """Return the means ``part`` / ``whole`` of values without bounds, with t intervals over clusters."""
    value = _ratio(part.total, whole.total)
    influence, variance = _linearized(part, whole, value)
    members = np.diff(whole.by_cluster.indptr)
    distance = _quantile(members) * np.sqrt(variance)
    return _estimates(value, distance, distance, influence, whole.by_cluster, members)


def linear(value: Floats, influence: sparse.csr_matrix, members: sparse.csr_matrix, fixed: tuple[Floats, Floats]
           ) -> Estimates:  # fmt: skip
    """Return numbers with intervals, made from the part of each cluster in a number's deviation, ``influence (M, P)``.

    The parts of a number sum to about zero. ``members (M, P)`` is not zero for the clusters of a number. ``fixed``
    holds the squared distances ``(M,)``, downwards and upwards, of the part that does not vary between clusters.
    """
    clusters = np.diff(members.indptr)
    distance = _quantile(clusters) * np.sqrt(_variance(influence, clusters))
    made = _estimates(value, distance, distance, influence, members, clusters)
    low, high = (np.where(np.isnan(value), 0, entry) for entry in fixed)
    return replace(made, low_fixed=low, high_fixed=high)


def _estimates(
    value: Floats, low: Floats, high: Floats, influence: sparse.csr_matrix, whole: sparse.csr_matrix, fewest: Ints
) -> Estimates:
    """Return numbers from their distances to the ends.

    Each distance is split over clusters in proportion to ``influence``.
    """
    low, high = np.nan_to_num(low), np.nan_to_num(high)
    norm = np.sqrt(_row_sums(influence.power(2)))
    varies = norm > 1e-9
    unit = sparse.diags(np.divide(1.0, norm, out=np.zeros_like(norm), where=varies)) @ influence
    return Estimates(
        value,
        sparse.csr_matrix(sparse.diags(low) @ unit),
        sparse.csr_matrix(sparse.diags(high) @ unit),
        np.where(varies, 0, low**2),
        np.where(varies, 0, high**2),
        np.where(varies, low**2, 0),
        np.where(varies, high**2, 0),
        _pattern(whole),
        fewest.astype(np.int64),
    )


def _linearized(part: Sums, whole: Sums, value: Floats) -> tuple[sparse.csr_matrix, Floats]:
    """Return each cluster's part of a ratio's deviation ``(M, P)``, and the ratio's variance over clusters ``(M,)``."""
    known = np.where(np.isfinite(value), value, 0)
    scale = np.divide(1.0, whole.total, out=np.zeros_like(whole.total), where=np.abs(whole.total) > 1e-12)
    influence = sparse.csr_matrix(sparse.diags(scale) @ (part.by_cluster - sparse.diags(known) @ whole.by_cluster))
    return influence, _variance(influence, np.diff(whole.by_cluster.indptr))


def _variance(influence: sparse.csr_matrix, clusters: Ints) -> Floats:
    """Return the variance of each number from its ``influence (M, P)``.

    A number with a single cluster has variance zero.
    """
    return _row_sums(influence.power(2)) * np.where(clusters > 1, clusters / np.maximum(clusters - 1, 1), 0)


def _quantile(clusters: Ints) -> Floats:
    """Return the two-sided 95 % t quantile for each number of clusters."""
    quantile: Floats = -special.stdtrit(np.maximum(clusters - 1, 1), TAIL)
    return quantile


def _row_sums(table: sparse.csr_matrix) -> Floats:
    return np.asarray(table.sum(axis=1), np.float64).ravel()


def _weighted(weights: sparse.csr_matrix, values: Floats) -> Floats:
    """Return ``weights @ values``, in which a NaN counts only where its weight is not zero."""
    known = np.isfinite(values)
    lacking = _pattern(weights) @ (~known).astype(np.float64)
    return np.where(lacking > 0, np.nan, weights @ np.where(known, values, 0))


def _pattern(table: sparse.csr_matrix) -> sparse.csr_matrix:
    """Return a table that is 1 wherever ``table`` is not zero, and 0 elsewhere."""
    ones = sparse.csr_matrix(table, dtype=np.float64, copy=True)
    ones.eliminate_zeros()
    ones.data[:] = 1
    return ones


def _ratio(part: Floats, whole: Floats) -> Floats:
    """Return ``part / whole``, NaN where the whole is 0."""
    ratio: Floats = np.divide(part, whole, out=np.full(np.shape(part), np.nan), where=np.abs(whole) > 1e-12)
    return ratio


def averaging(keys: pl.DataFrame, by: Sequence[str], known: npt.NDArray[np.bool_], all_needed: bool = False
              ) -> tuple[pl.DataFrame, sparse.csr_matrix]:  # fmt: skip
    """Return the groups of ``keys`` by the columns ``by``, and the weights that average the numbers of each group.

    ``known`` marks the rows of ``keys`` that have a number. Other rows are left out of the mean. With ``all_needed``, a
    group with such a row has the mean NaN.
    """
    numbered = keys.select(by).unique(maintain_order=True).with_row_index("_to")
    to = keys.select(by).join(numbered, on=list(by), how="left", nulls_equal=True, maintain_order="left")["_to"]
    rows, columns = to.to_numpy()[known], np.flatnonzero(known)
    if all_needed:
        broken = np.unique(to.to_numpy()[~known])
        kept = ~np.isin(rows, broken)
        rows, columns = rows[kept], columns[kept]
    counts = np.bincount(rows, minlength=numbered.height)
    shape = (numbered.height, keys.height)
    weights = sparse.csr_matrix((1.0 / counts[rows], (rows, columns)), shape=shape)
    return numbered.drop("_to"), weights


def mean_by(
    keys: pl.DataFrame, estimates: Estimates, by: Sequence[str], all_needed: bool = False
) -> tuple[pl.DataFrame, Estimates]:
    """Return the unweighted mean of the numbers whose rows of ``keys`` agree in the columns ``by``
    (:func:`averaging`).
    """
    found, weights = averaging(keys, by, ~np.isnan(estimates.value), all_needed)
    return found, estimates.combine(weights)


def contrasts(size: int, pairs: Sequence[tuple[int, int]]) -> sparse.csr_matrix:
    """Return weights ``(len(pairs), size)`` that give a difference for each pair of indices: first minus second."""
    rows = np.repeat(np.arange(len(pairs)), 2)
    columns = np.array(pairs, np.intp).reshape(-1)
    return sparse.csr_matrix((np.tile([1.0, -1.0], len(pairs)), (rows, columns)), shape=(len(pairs), size))
