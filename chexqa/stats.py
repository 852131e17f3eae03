"""Statistical rules that several packages share: clusters, Wilson's interval, Holm's correction, resampling.

The functions depend on neither items nor models.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from chexqa.files.seeds import stream

REPLICATES = 2000
CONFIDENCE = 0.95
TAIL = (1 - CONFIDENCE) / 2
Floats = npt.NDArray[np.floating]


def cluster_id(patient_id: str | None, study_id: str | None, picture: str) -> str:
    """Return the name of a case's cluster: the first known of patient, study and radiograph.

    ``picture`` identifies the radiograph. The name begins with the word ``patient``, ``study`` or ``picture``, so that
    the study 7 and the patient 7 have different names.

    >>> cluster_id("7", "7", "a1b2"), cluster_id(None, "7", "a1b2"), cluster_id(None, None, "a1b2")
    ('patient 7', 'study 7', 'picture a1b2')
    """
    if patient_id:
        return f"patient {patient_id}"
    return f"study {study_id}" if study_id else f"picture {picture}"


def wilson(
    share: Floats | float, size: Floats | float, tail: float = TAIL, quantile: Floats | float | None = None
) -> tuple[Floats, Floats]:
    """Return Wilson's interval ``(low, high)`` for a share of ``size`` independent answers; NaN for 0 answers.

    ``tail`` is the probability outside the interval on each side. ``size`` can be a fraction, such as an effective
    number of answers. ``quantile``, if given, is used instead of the normal quantile of ``tail``.

    >>> low, high = wilson(8 / 10, 10)
    >>> round(float(low), 3), round(float(high), 3)
    (0.49, 0.943)
    """
    from scipy import special

    z = -float(special.ndtri(tail)) if quantile is None else np.asarray(quantile, np.float64)
    share, size = np.asarray(share, np.float64), np.asarray(size, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        middle = (share + z * z / (2 * size)) / (1 + z * z / size)
        half = z / (1 + z * z / size) * np.sqrt(share * (1 - share) / size + (z / (2 * size)) ** 2)
    none = ~(size > 0)
    return np.where(none, np.nan, np.clip(middle - half, 0, 1)), np.where(none, np.nan, np.clip(middle + half, 0, 1))


def holm(p: Floats) -> Floats:
    """Return p-values adjusted by Holm's step-down method (Holm 1979), in the same order.

    All p-values in ``p``, of shape ``(N,)``, are corrected together, as N comparisons.

    >>> holm(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(stepped, 1)
    return adjusted


def bootstrap_draws(size: int, purpose: str, seed: int = 0, replicates: int = REPLICATES) -> npt.NDArray[np.float32]:
    """Return bootstrap draws of ``size`` clusters: for each replicate, how often it contains each cluster.

    The array has the shape ``(replicates, size)``, and each row sums to ``size``. ``purpose`` and ``seed`` select the
    random stream; the same values give the same draws.

    >>> bootstrap_draws(4, "an example", replicates=3).sum(axis=1).tolist()
    [4.0, 4.0, 4.0]
    """
    random = stream(seed, purpose, size)
    draws = np.empty((replicates, size), np.float32)
    for row in draws:
        row[:] = np.bincount(random.integers(0, size, size), minlength=size)
    return draws
