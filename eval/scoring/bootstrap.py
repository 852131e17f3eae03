"""Numbers with intervals from one bootstrap of patients, shared by every number of a report.

The bootstrap draws patients: 2,000 replicates, each with as many patients as the sample. A number is made of sums over
patients (a numerator, a denominator), so its replicates are the product of those sums with the matrix of draws. All
numbers share the draws, so replicates of two numbers can be subtracted.

These rules hold for every table:

* 0/0 gives no number (NaN here, null in tables); a replicate without a denominator is left out, and if more than half
  of the replicates are left out, there is no interval;
* a number from one patient has no interval;
* the replicates of a share of exactly 0 or 1 cannot vary. It gets a Wilson interval on the effective number of
  patients, (sum of n)^2 / (sum of n^2) for patients with n items each: the design effect of answers that are all equal
  within a patient. In means and differences these distances add up; the sum is combined with the bootstrap's distance
  in quadrature.

All other shares have the percentile interval of the bootstrap, both ends included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import sparse

from chexqa.stats import REPLICATES, TAIL, bootstrap_draws, cluster_id, wilson

CLUSTER = "cluster"
Floats = npt.NDArray[np.floating]
Ints = npt.NDArray[np.integer]


@dataclass(frozen=True, eq=False)
class Sample:
    """A sample of clusters and its bootstrap replicates.

    ``unit`` names the clusters in the plural ("patients"). ``draws`` ``(size, replicates)`` counts how often each
    cluster is drawn.
    """

    unit: str
    draws: npt.NDArray[np.float32]

    @property
    def size(self) -> int:
        """Return the number of clusters."""
        return int(self.draws.shape[0])


def draw_sample(size: int, unit: str = "patients", seed: int = 0, replicates: int = REPLICATES) -> Sample:
    """Draw the replicates of a sample of ``size`` clusters."""
    return Sample(unit, np.ascontiguousarray(bootstrap_draws(size, "bootstrap", seed, replicates).T))


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
    """Sums of a value over groups of rows: ``total (G,)``, in every replicate ``(G, R)``, and by cluster ``(G, P)``."""

    total: Floats
    replicates: Floats
    by_cluster: sparse.csr_matrix


class Groups:
    """Rows sorted into groups, to be summed over clusters; ``rows`` needs the column ``cluster``.

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
        """Sum a column or expression (booleans count as 0 and 1, null as 0) over every group."""
        column = self.rows.select(pl.col(value) if isinstance(value, str) else value).to_series()
        values = column.cast(pl.Float64).fill_null(0.0).to_numpy()
        shape = (self.keys.height, self.sample.size)
        table = sparse.csr_matrix((values, (self._group, self._cluster)), shape=shape)
        table.eliminate_zeros()
        total = np.asarray(table.sum(axis=1), np.float64).ravel()
        return Sums(total, _products(table, self.sample.draws), table)

    def clusters(self) -> Ints:
        """Return the number of clusters in each group."""
        pairs = np.unique(np.stack([self._group, self._cluster]), axis=1)
        return np.bincount(pairs[0], minlength=self.keys.height)


def _products(table: sparse.csr_matrix, draws: npt.NDArray[np.float32]) -> Floats:
    """Return ``table @ draws``, multiplying equal rows once: sums such as chance are the same for each model."""
    first: dict[bytes, int] = {}
    place = np.empty(table.shape[0], np.intp)
    kept: list[int] = []
    for row, (start, stop) in enumerate(zip(table.indptr[:-1], table.indptr[1:], strict=True)):
        content = table.indices[start:stop].tobytes() + table.data[start:stop].tobytes()
        if content not in first:
            first[content] = len(kept)
            kept.append(row)
        place[row] = first[content]
    product = table[kept].astype(np.float32) @ draws
    return product if len(kept) == table.shape[0] else product[place]


@dataclass(frozen=True, eq=False)
class Estimates:
    """Numbers ``value (M,)`` with their replicates ``(M, R)``; NaN means no number.

    ``degenerate_low`` and ``degenerate_high`` are the interval's distances for a number that cannot vary in its
    replicates, zero for all others. ``clusters`` counts the clusters behind each number.
    """

    value: Floats
    replicates: Floats
    degenerate_low: Floats
    degenerate_high: Floats
    clusters: Ints

    def combine(self, matrix: sparse.csr_matrix | Floats) -> Estimates:
        """Return linear combinations with weights ``(C, M)``; numbers with weight zero are ignored, even NaN."""
        weights = sparse.csr_matrix(matrix)
        size = abs(weights)
        up, down = (size + weights) / 2, (size - weights) / 2
        rests = [self.clusters[weights.indices[a:b]] for a, b in zip(weights.indptr[:-1], weights.indptr[1:],
                                                                     strict=True)]  # fmt: skip
        empty = np.array([not len(entry) for entry in rests], bool)
        value = np.where(empty, np.nan, weights @ self.value)
        return Estimates(
            value,
            weights.astype(np.float32) @ self.replicates,
            up @ self.degenerate_low + down @ self.degenerate_high,
            up @ self.degenerate_high + down @ self.degenerate_low,
            np.array([entry.min() if len(entry) else 0 for entry in rests], np.int64),
        )

    def times(self, factors: Floats) -> Estimates:
        """Return each number times its positive factor, ``factors (M,)``."""
        return Estimates(self.value * factors, self.replicates * factors[:, None].astype(np.float32),
                         self.degenerate_low * factors, self.degenerate_high * factors, self.clusters)  # fmt: skip

    def join(self, other: Estimates) -> Estimates:
        """Return these numbers followed by the other ones."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Estimates(*(np.concatenate(pair) for pair in pairs))

    def take(self, places: Ints | Sequence[int]) -> Estimates:
        """Return the numbers at these places, in this order."""
        return Estimates(
            self.value[places],
            self.replicates[places],
            self.degenerate_low[places],
            self.degenerate_high[places],
            self.clusters[places],
        )

    def interval(self) -> tuple[Floats, Floats]:
        """Return the ends of the 95 % intervals, NaN for a number without an interval."""
        ordered = np.sort(self.replicates, axis=-1)  # NaN comes last
        valid = ordered.shape[-1] - np.isnan(ordered).sum(axis=-1)
        low, high = _quantile(ordered, valid, TAIL, np.floor), _quantile(ordered, valid, 1 - TAIL, np.ceil)
        none = (self.clusters < 2) | (valid < ordered.shape[-1] / 2) | np.isnan(self.value)
        under = np.hypot(np.maximum(self.value - low, 0), self.degenerate_low)
        over = np.hypot(np.maximum(high - self.value, 0), self.degenerate_high)
        lower = np.where(self.degenerate_low > 0, self.value - under, np.minimum(low, self.value))
        upper = np.where(self.degenerate_high > 0, self.value + over, np.maximum(high, self.value))
        return np.where(none, np.nan, lower), np.where(none, np.nan, upper)

    def columns(self, name: str) -> dict[str, pl.Series]:
        """Return the numbers and intervals as columns ``name``, ``name_low`` and ``name_high``; null for NaN."""
        low, high = self.interval()
        named = {name: self.value, f"{name}_low": low, f"{name}_high": high}
        return {key: pl.Series(key, values, pl.Float64).fill_nan(None) for key, values in named.items()}


def _quantile(ordered: Floats, valid: Ints, level: float, rounded: np.ufunc) -> Floats:
    """Return the order statistic at ``level`` of the first ``valid`` entries of each row, rounded outwards."""
    place = np.clip(rounded(level * (valid - 1)), 0, None).astype(np.intp)
    return np.take_along_axis(ordered, place[:, None], axis=-1)[:, 0].astype(np.float64)


def proportion(part: Sums, whole: Sums) -> Estimates:
    """Return the shares ``part`` / ``whole``; each row's part must lie between 0 and its whole."""
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.where(whole.total > 0, part.total / whole.total, np.nan)
        replicates = np.where(whole.replicates > 0, part.replicates / whole.replicates, np.float32(np.nan))
    rests = np.diff(whole.by_cluster.indptr)
    squares = np.asarray(whole.by_cluster.multiply(whole.by_cluster).sum(axis=1)).ravel()
    effective = np.divide(whole.total**2, squares, out=np.zeros_like(squares), where=squares > 0)
    low, high = wilson(value, effective)
    is_degenerate = np.isclose(value, 0, atol=1e-9) | np.isclose(value, 1, atol=1e-9)
    below, above = np.where(is_degenerate, value - low, 0.0), np.where(is_degenerate, high - value, 0.0)
    return Estimates(value, replicates, below, above, rests)


def corrected(right: Sums, chance: Sums, whole: Sums) -> Estimates:
    """Return pooled accuracy corrected for chance, sum(a - c) / sum(1 - c): 0 is guessing, 1 is all correct."""
    plain = proportion(right, whole)
    room = whole.total - chance.total
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.where(room > 1e-9, (right.total - chance.total) / room, np.nan)
        stretch = np.where(room > 1e-9, whole.total / room, np.nan)
        lively = whole.replicates - chance.replicates
        replicates = np.where(lively > 1e-6, (right.replicates - chance.replicates) / lively, np.float32(np.nan))
    return Estimates(value, replicates, plain.degenerate_low * stretch, plain.degenerate_high * stretch, plain.clusters)


def averaging(keys: pl.DataFrame, by: Sequence[str], known: npt.NDArray[np.bool_], all_needed: bool = False
              ) -> tuple[pl.DataFrame, sparse.csr_matrix]:  # fmt: skip
    """Return the groups of ``keys`` by fewer columns, and the weights that average their numbers.

    ``known`` marks the rows of ``keys`` with a number. Other rows are left out of the mean; with ``all_needed`` the
    mean of their group is NaN.
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
    """Return unweighted means of numbers over the rows of ``keys`` that agree in ``by`` (see :func:`averaging`)."""
    found, weights = averaging(keys, by, ~np.isnan(estimates.value), all_needed)
    return found, estimates.combine(weights)


def contrasts(size: int, pairs: Sequence[tuple[int, int]]) -> sparse.csr_matrix:
    """Return the weights ``(len(pairs), size)`` of differences: the first of each pair minus the second."""
    rows = np.repeat(np.arange(len(pairs)), 2)
    columns = np.array(pairs, np.intp).reshape(-1)
    return sparse.csr_matrix((np.tile([1.0, -1.0], len(pairs)), (rows, columns)), shape=(len(pairs), size))
