"""Analysis of variance of Obuchowski and Rockette for random readers of random cases, with a single treatment.

Each reader has one value, such as a model's score minus the reader's score on the same cases. The degrees of freedom
are those of Hillis (2007, Stat. Med. 26, 596).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from chexqa.stats import TAIL

Floats = npt.NDArray[np.floating]


class Analysis(NamedTuple):
    """Mean of the readers' values, with standard error, degrees of freedom, 95 % interval and two-sided p.

    All fields but ``mean`` are NaN if the values vary neither between readers nor between patients. For several
    studies, each field is an array with an entry per study.
    """

    mean: Floats
    standard_error: Floats
    df: Floats
    low: Floats
    high: Floats
    p: Floats


def analyse(values: Floats, covariance: Floats) -> Analysis:
    """Return the mean of the values ``(…, J)`` of J readers (at least 2), with its interval and p.

    ``covariance`` ``(…, J, J)`` is the covariance of the values over cases (:func:`jackknife_covariance`).
    """
    readers = values.shape[-1]
    every = covariance.sum(axis=(-2, -1)) - np.trace(covariance, axis1=-2, axis2=-1)
    return of_sums(values.mean(axis=-1), values.var(axis=-1, ddof=1), every / (readers * (readers - 1)), readers)


def of_sums(mean: Floats | float, mean_square: Floats | float, cov2: Floats | float, readers: int) -> Analysis:
    """Analyse the mean of the readers' values.

    - ``mean_square``: the variance of the values between readers.
    - ``cov2``: the mean covariance of two readers.
    - ``readers``: the number of readers.

    >>> found = of_sums(0.8222222, 0.009135802, 0.001646465, 5)  # MRMCaov's VanDyke example, sensitivity
    >>> round(float(found.standard_error), 5), round(float(found.df), 3)
    (0.05894, 14.457)
    """
    mean, square = np.asarray(mean, np.float64), np.asarray(mean_square, np.float64)
    # Standard error: sqrt((MS + J Cov2) / J). Degrees of freedom: (J - 1) ((MS + J Cov2) / MS)^2.
    both = square + readers * np.maximum(np.asarray(cov2, np.float64), 0)
    error = np.sqrt(both / readers)
    with np.errstate(divide="ignore", invalid="ignore"):
        df = np.where(square > 1e-15, (readers - 1) * (both / square) ** 2, np.inf)
        ratio = np.abs(mean) / error
    known = error > 1e-9
    error, bounded = np.where(known, error, np.nan), np.minimum(df, 1e9)
    distance = -special.stdtrit(bounded, TAIL) * error
    p = np.where(known, 2 * special.stdtr(bounded, -np.where(known, ratio, 0.0)), np.nan)
    return Analysis(mean, error, np.where(known, df, np.nan), mean - distance, mean + distance, p)


def jackknife_covariance(without: Floats) -> Floats:
    """Return the covariance ``(…, J, J)`` of the values of J readers, estimated by leaving out one patient at a time.

    ``without[…, j, p]`` is the value of reader j, computed without patient p.
    """
    patients = without.shape[-1]
    # Leaving out a patient whom a reader did not read changes nothing, so the patient adds nothing.
    centred = without - without.mean(axis=-1, keepdims=True)
    found: Floats = (patients - 1) / patients * centred @ np.swapaxes(centred, -1, -2)
    return found
