"""A second implementation of a report's intervals, in plain loops: shares by patient, and weighted sums of shares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.stats import t

SPREAD = ("", "_low", "_high")


@dataclass(frozen=True)
class Share:
    """A share corrected for ``chance``, with the distances to the ends of its interval.

    ``parts`` has the part of each patient in the deviation.
    """

    value: float
    below: float
    above: float
    parts: tuple[float, ...]
    members: frozenset[int]

    @property
    def is_fixed(self) -> bool:
        return all(abs(part) < 1e-12 for part in self.parts)


@dataclass(frozen=True)
class Number:
    """A weighted sum of shares."""

    terms: tuple[tuple[float, Share], ...]

    @property
    def value(self) -> float:
        return sum(weight * share.value for weight, share in self.terms)

    def distance(self, upwards: bool) -> float:
        """Return the distance to one end of the interval.

        The distances of the shares are added with their correlations; shares that do not vary count as independent.
        """
        patients = len(frozenset[int]().union(*(share.members for _, share in self.terms)))
        steps = [share.above if (weight > 0) == upwards else share.below for weight, share in self.terms]
        fixed = alone = together = 0.0
        for (weight, one), step in zip(self.terms, steps, strict=True):
            if one.is_fixed:
                fixed += (weight * step) ** 2
                continue
            alone += (weight * step) ** 2
            for (other_weight, other), other_step in zip(self.terms, steps, strict=True):
                if not other.is_fixed:
                    together += weight * step * other_weight * other_step * correlation(one.parts, other.parts)
        independent = 1 / (patients + 1)
        return math.sqrt(fixed + max(together, (1 - independent) * together + independent * alone))

    def columns(self, name: str) -> dict[str, float | None]:
        """Return the number and the ends of its interval by column name.

        A share of a single patient has no interval, and neither has a sum with such a share.
        """
        if any(len(share.members) < 2 for _, share in self.terms):
            return {name: self.value, f"{name}_low": None, f"{name}_high": None}
        ends = self.value, self.value - self.distance(upwards=False), self.value + self.distance(upwards=True)
        return dict(zip((f"{name}{end}" for end in SPREAD), ends, strict=True))


def correlation(one: Sequence[float], other: Sequence[float]) -> float:
    product = sum(a * b for a, b in zip(one, other, strict=True))
    return product / math.sqrt(sum(a * a for a in one) * sum(b * b for b in other))


def share(right: Sequence[float], asked: Sequence[float], chance: float = 0.0, least_effect: float = 0.7) -> Number:
    """Return the share of right items, corrected for chance, with Wilson's interval, design effect and t quantile.

    ``right`` and ``asked`` have each patient's numbers of items.
    """
    members = frozenset(place for place, count in enumerate(asked) if count)
    whole, part, patients = sum(asked), sum(right), len(members)
    value = part / whole
    parts = tuple((r - value * n) / whole for r, n in zip(right, asked, strict=True))
    variance = sum(p * p for p in parts) * patients / (patients - 1) if patients > 1 else 0.0
    most = sum(n * n for n in asked) / whole
    rarer = min(part, whole - part)
    effect = max(variance * whole / (value * (1 - value)), least_effect) if 0 < value < 1 else 0.0
    size = whole / ((effect * rarer + most) / (rarer + 1))
    z = float(t.isf(0.025, max(patients - 1, 1)))
    middle, scale = value + z * z / (2 * size), 1 + z * z / size
    half = z * math.sqrt(value * (1 - value) / size + z * z / (4 * size * size))
    below, above = value - (middle - half) / scale, (middle + half) / scale - value
    room = 1 - chance
    return Number(((1.0, Share((value - chance) / room, below / room, above / room, parts, members)),))


def weighted(weights: Sequence[float], numbers: Sequence[Number]) -> Number:
    return Number(tuple((w * own, share) for w, number in zip(weights, numbers, strict=True)
                        for own, share in number.terms))  # fmt: skip


def mean(*numbers: Number) -> Number:
    return weighted([1 / len(numbers)] * len(numbers), numbers)
