"""Coefficients of the agreement of raters, with intervals from resampled patients.

- Percent agreement.
- Cohen's kappa (Cohen 1960 and 1968), also pooled over scales (De Vries 2008).
- Fleiss' kappa (Fleiss 1971), also with weights or unequal numbers of raters (Gwet 2014).
- Krippendorff's alpha (Krippendorff 2011).
- Gwet's AC1 (Gwet 2008).

Ordered categories also get kappas with quadratic weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from chexqa.stats import bootstrap_draws, wilson

# A missing rating in a table of codes ``(units, raters)``; categories are 0, 1, ….
MISSING = -1
RESAMPLES = 2_000
# Largest share of resamples in which a coefficient may be undefined and still get an interval.
UNDEFINED_SHARE = 0.1
# The remark on the paradox needs at least this share of agreement and less than this kappa.
HIGH_PERCENT, LOW_KAPPA = 0.8, 0.4

Codes = npt.NDArray[np.integer]
Floats = npt.NDArray[np.float64]
Formula = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Estimate:
    """Coefficient and its 95 % interval.

    - ``value``: the coefficient; ``None`` if it is undefined.
    - ``low``, ``high``: the ends of the interval; both ``None`` if the interval is undefined.
    """

    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings of units (questions) by raters.

    - ``codes``: ``(units, raters)``, the category of each rating, from 0, or ``MISSING``.
    - ``categories``: the number of categories.
    - ``patients``: ``(units,)``, the patient (0, 1, …) of each unit.
    - ``ordered``: True if the codes follow the order of the categories.
    """

    codes: Codes
    categories: int
    patients: Codes
    ordered: bool = False

    @property
    def rated_twice(self) -> npt.NDArray[np.bool_]:
        """Bool array ``(units,)``: True for units that at least two raters rated."""
        return np.asarray((self.codes != MISSING).sum(axis=1) >= 2)


# Every coefficient is a formula on sums over units, of all patients for the value and of resampled patients for the
# interval. If all ratings are of one category, percent and AC1 are 1, and the kappas and alpha are 0/0, so ``nan``.
# Terms summed over units: [has two ratings, agreed share, has a rating, agreed pairs of Krippendorff's coincidences,
# agreed share with weights, shares of the categories (q), ratings that can be paired (q)].
_SCALARS = 5


def closeness(categories: int) -> Floats:
    """Return the agreement weight of each pair of ordered categories, as a matrix ``(categories, categories)``.

    Of three categories, two equal ones have the weight 1, neighbours 0.75, the first and the last 0.
    """
    places = np.arange(categories)
    return 1 - ((places[:, None] - places) / max(1, categories - 1)) ** 2


def _terms(codes: Codes, categories: int) -> Floats:
    """Return the terms of every unit ``(units, 5 + 2 q)`` for q categories."""
    counts = (codes[:, :, None] == np.arange(categories)).sum(axis=1).astype(np.float64)
    ratings = counts.sum(axis=1)
    paired = ratings >= 2
    agreed = (counts * (counts - 1)).sum(axis=1)
    shares = counts / np.maximum(ratings, 1)[:, None]
    others = np.maximum(ratings - 1, 1)
    close = (counts * (counts @ closeness(categories) - 1)).sum(axis=1) / np.maximum(ratings, 1) / others
    scalars = (paired, agreed / np.maximum(ratings, 1) / others, ratings >= 1, agreed / others, paired * close)
    return np.concatenate([np.stack(scalars, axis=1), shares, counts * paired[:, None]], axis=1)


def _halves(sums: Floats) -> tuple[Floats, Floats]:
    """Return two arrays ``(…, q)``: the mean share of each category, and each category's number of pairable ratings."""
    # A rating is pairable if its unit has another rating. Shares also count units with one rating, as in Gwet's book.
    q = (sums.shape[-1] - _SCALARS) // 2
    shares = _ratio(sums[..., _SCALARS : _SCALARS + q], sums[..., 2, None])
    return shares, sums[..., _SCALARS + q :]


def _percent(sums: Floats) -> Floats:
    return _ratio(sums[..., 1], sums[..., 0])


def _fleiss(sums: Floats) -> Floats:
    shares, _ = _halves(sums)
    return _corrected(_percent(sums), (shares**2).sum(axis=-1))


def _weighted(sums: Floats) -> Floats:
    """Return Fleiss's kappa with quadratic weights."""
    shares, _ = _halves(sums)
    by_chance = ((shares @ closeness(shares.shape[-1])) * shares).sum(axis=-1)
    return _corrected(_ratio(sums[..., 4], sums[..., 0]), by_chance)


def _ac1(sums: Floats) -> Floats:
    shares, _ = _halves(sums)
    spread = (shares * (1 - shares)).sum(axis=-1) / max(1, shares.shape[-1] - 1)
    return _corrected(_percent(sums), spread)


def _alpha(sums: Floats) -> Floats:
    _, counts = _halves(sums)
    values = counts.sum(axis=-1)
    expected = (counts * (counts - 1)).sum(axis=-1)
    return _ratio((values - 1) * sums[..., 3] - expected, values * (values - 1) - expected)


def _pair_terms(codes: Codes, categories: int) -> Floats:
    """Return the terms of every unit for two raters, ``(units, 3 + 2 q)`` for q categories."""
    # Columns: both rated, same category, closeness, the first rater's category (q), the second rater's category (q).
    both = (codes != MISSING).all(axis=1)
    first, second = ((codes[:, rater, None] == np.arange(categories)) & both[:, None] for rater in (0, 1))
    same = both & (codes[:, 0] == codes[:, 1])
    close = both * closeness(categories)[codes[:, 0], codes[:, 1]]
    return np.concatenate([np.stack([both, same, close], axis=1), first, second], axis=1).astype(np.float64)


def _cohen(sums: Floats) -> Floats:
    first, second = _margins(sums)
    return _corrected(_ratio(sums[..., 1], sums[..., 0]), (first * second).sum(axis=-1))


def _weighted_cohen(sums: Floats) -> Floats:
    first, second = _margins(sums)
    by_chance = ((first @ closeness(first.shape[-1])) * second).sum(axis=-1)
    return _corrected(_ratio(sums[..., 2], sums[..., 0]), by_chance)


def _margins(sums: Floats) -> tuple[Floats, Floats]:
    """Return the shares of the categories ``(…, q)`` for the first and for the second rater."""
    q = (sums.shape[-1] - 3) // 2
    units = sums[..., 0, None]
    return _ratio(sums[..., 3 : 3 + q], units), _ratio(sums[..., 3 + q :], units)


def _ratio(upper: Floats, lower: Floats) -> Floats:
    """Return ``upper / lower``; return ``nan`` where ``lower`` is 0 up to rounding."""
    empty = np.abs(lower) < 1e-12
    return np.where(empty, np.nan, upper / np.where(empty, 1.0, lower))


def _corrected(observed: Floats, expected: Floats) -> Floats:
    return _ratio(observed - expected, 1 - expected)


COEFFICIENTS: dict[str, Formula] = {
    "percent": _percent,
    "fleiss": _fleiss,
    "alpha": _alpha,
    "ac1": _ac1,
}
# Formulas with weights, for ordered categories.
WEIGHTED = "weighted"


def resamples(patients: int, seed: int = 0) -> Floats:
    """Return how often each bootstrap resample contains each patient, ``(RESAMPLES, patients)``."""
    return bootstrap_draws(patients, "agreement", seed, RESAMPLES).astype(np.float64)


def estimates(ratings: Ratings, weights: Floats) -> dict[str, Estimate]:
    """Return every agreement coefficient, keyed by name, over the units that at least two raters rated.

    ``weights`` is the result of :func:`resamples`.
    """
    twice = ratings.rated_twice
    terms = _terms(ratings.codes[twice], ratings.categories)
    formulas = {**COEFFICIENTS, WEIGHTED: _weighted} if ratings.ordered else COEFFICIENTS
    found = _with_intervals(terms, ratings.patients[twice], weights, formulas)
    return found | {"percent": _at_an_end(found["percent"], ratings.patients[twice])}


class PairEstimate(NamedTuple):
    """Agreement of two raters on the units that both rated.

    - ``units``: the number of these units; ``same``: the share of equal ratings.
    - ``cohen``: Cohen's kappa; ``weighted``: weighted kappa, ``None`` if the categories have no order.
    """

    units: int
    same: Estimate
    cohen: Estimate
    weighted: Estimate | None


def pair_estimate(ratings: Ratings, first: int, second: int, weights: Floats) -> PairEstimate:
    """Return the agreement of the raters with the numbers ``first`` and ``second``."""
    terms = _pair_terms(ratings.codes[:, [first, second]], ratings.categories)
    formulas: dict[str, Formula] = {"same": lambda sums: _ratio(sums[..., 1], sums[..., 0]), "cohen": _cohen}
    if ratings.ordered:
        formulas[WEIGHTED] = _weighted_cohen
    found = _with_intervals(terms, ratings.patients, weights, formulas)
    return PairEstimate(int(terms[:, 0].sum()), found["same"], found["cohen"], found.get(WEIGHTED))


def pooled_kappa(
    pairs: Sequence[tuple[int, int]], scales: Sequence[tuple[str, int]], patients: Codes, weights: Floats
) -> Estimate:
    """Return Cohen's kappa of two ratings of each unit, pooled over scales; undefined without units.

    - ``pairs``: the two ratings of each unit.
    - ``scales``: the name of each unit's scale, and the scale's number of categories.
    """
    starts: dict[tuple[str, int], int] = {}
    width = 0
    for scale in scales:
        if scale not in starts:
            starts[scale] = width
            width += 2 + 2 * scale[1]
    if not pairs:
        return Estimate(None)
    terms = np.zeros((len(pairs), width))
    for unit, ((first, second), scale) in enumerate(zip(pairs, scales, strict=True)):
        start = starts[scale]
        terms[unit, [start, start + 2 + first, start + 2 + scale[1] + second]] = 1
        terms[unit, start + 1] = first == second

    # Agreement by chance is computed within each scale, then averaged over units.
    def kappa(sums: Floats) -> Floats:
        units, same, chance = (np.zeros(sums.shape[:-1]) for _ in range(3))
        for (_, size), start in starts.items():
            own = sums[..., start]
            first, second = sums[..., start + 2 : start + 2 + size], sums[..., start + 2 + size : start + 2 + 2 * size]
            units, same = units + own, same + sums[..., start + 1]
            chance = chance + (first * second).sum(axis=-1) / np.maximum(own, 1)
        return _corrected(_ratio(same, units), _ratio(chance, units))

    return _with_intervals(terms, patients, weights, {"kappa": kappa})["kappa"]


def share_estimate(right: npt.NDArray[np.bool_], patients: Codes, weights: Floats) -> Estimate:
    """Return the share of units for which ``right`` is True, with its interval over patients."""
    terms = np.stack([np.ones(len(right)), right], axis=1).astype(np.float64)
    found = _with_intervals(terms, patients, weights, {"share": lambda sums: _ratio(sums[..., 1], sums[..., 0])})
    return _at_an_end(found["share"], patients)


def _at_an_end(share: Estimate, patients: Codes) -> Estimate:
    """Return a share of 0 or 1 with Wilson's interval, and any other share unchanged."""
    # All resamples give 0 or 1 there. Patients, not units, are counted, which is the largest possible design effect.
    if share.value not in (0.0, 1.0):
        return share
    low, high = wilson(share.value, len(np.unique(patients)))
    return Estimate(share.value, float(low), float(high))


def _with_intervals(
    terms: Floats, patients: Codes, weights: Floats, formulas: dict[str, Formula]
) -> dict[str, Estimate]:
    """Return the value and interval of each formula."""
    by_patient = np.zeros((weights.shape[1], terms.shape[1]))
    np.add.at(by_patient, patients, terms)
    total, drawn = by_patient.sum(axis=0), weights @ by_patient
    return {name: _estimate(float(formula(total)), formula(drawn)) for name, formula in formulas.items()}


def _estimate(value: float, drawn: Floats) -> Estimate:
    """Return a value with its percentile interval; no interval if too few resamples are defined or all are equal."""
    if np.isnan(value):
        return Estimate(None)
    defined = drawn[~np.isnan(drawn)]
    if len(defined) < (1 - UNDEFINED_SHARE) * len(drawn) or np.ptp(defined) < 1e-12:
        return Estimate(value)
    low, high = np.percentile(defined, [2.5, 97.5])
    return Estimate(value, float(low), float(high))


def paradox(ratings: Ratings, found: dict[str, Estimate]) -> str | None:
    """Return a remark if agreement is high but kappa is low or undefined; otherwise ``None``."""
    percent, kappa = found["percent"].value, found["fleiss"].value
    if percent is None or percent < HIGH_PERCENT or (kappa is not None and kappa >= LOW_KAPPA):
        return None
    codes = ratings.codes[ratings.rated_twice]
    counts = np.bincount(codes[codes != MISSING], minlength=1)
    share = counts.max() / counts.sum()
    stated = "undefined" if kappa is None else f"{kappa:.2f}"
    return (
        f"Reviewers agree on {percent:.0%}, yet kappa is {stated}, because one choice makes up {share:.0%} of the "
        "ratings. Kappa then says little about the reviewers; see AC1 and percent instead."
    )
