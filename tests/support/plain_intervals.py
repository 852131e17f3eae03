"""A second implementation of a report's intervals, in plain loops: shares by patient, their sums, and differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.stats import t

SPREAD = ("", "_low", "_high")


@dataclass(frozen=True)
class Share:
    """A share of right items, corrected for ``chance``; ``right`` and ``asked`` count each patient's items."""

    right: tuple[float, ...]
    asked: tuple[float, ...]
    chance: float
    least_effect: float

    @property
    def whole(self) -> float:
        return sum(self.asked)

    @property
    def plain(self) -> float:
        return sum(self.right) / self.whole

    @property
    def patients(self) -> int:
        return sum(asked > 0 for asked in self.asked)

    def parts(self) -> list[float]:
        """Return each patient's part of the plain share's deviation; their squares sum to its variance."""
        few = self.patients / (self.patients - 1) if self.patients > 1 else 0.0
        return [math.sqrt(few) * (right - self.plain * asked) / self.whole
                for right, asked in zip(self.right, self.asked, strict=True)]  # fmt: skip


@dataclass(frozen=True)
class Sum:
    """A sum of corrected shares with positive weights."""

    terms: tuple[tuple[float, Share], ...]

    def scales(self) -> list[tuple[float, Share]]:
        """Return each share with the change of the sum if this share goes from 0 to 1."""
        return [(weight / (1 - share.chance), share) for weight, share in self.terms]

    @property
    def value(self) -> float:
        return sum(scale * (share.plain - share.chance) for scale, share in self.scales())

    def parts(self) -> list[float]:
        """Return each patient's part of the sum's deviation."""
        by_share = [[scale * part for part in share.parts()] for scale, share in self.scales()]
        return [sum(own) for own in zip(*by_share, strict=True)]

    def members(self) -> list[float]:
        """Return, for each patient, the change of the sum if all items of the patient turn from wrong to right."""
        by_share = [[scale * asked / share.whole for asked in share.asked] for scale, share in self.scales()]
        return [sum(own) for own in zip(*by_share, strict=True)]

    def freedom(self) -> float:
        """Return Satterthwaite's degrees of freedom, at most the number of patients minus one."""
        alike = [(scale**2 * sum((asked / share.whole) ** 2 for asked in share.asked), share)
                 for scale, share in self.scales()]  # fmt: skip
        squares = sum(own**2 / max(share.patients - 1, 1) for own, share in alike)
        return min(sum(own for own, _ in alike) ** 2 / squares, sum(own > 0 for own in self.members()) - 1)

    def distances(self) -> tuple[float, float]:
        """Return the distances to the lower and upper end of Wilson's interval."""
        scale = sum(own for own, _ in self.scales())
        share = (self.value + sum(own * one.chance for own, one in self.scales())) / scale
        least = sum(own**2 * one.least_effect * one.plain * (1 - one.plain) / one.whole for own, one in self.scales())
        variance = max(sum(part**2 for part in self.parts()), least)
        varies = 1e-12 < share < 1 - 1e-12
        usual = variance / (share * (1 - share) * scale**2) if varies else 0.0
        together = sum(own**2 for own in self.members()) / scale**2
        rarer = sum(min(sum(one.right), one.whole - sum(one.right)) for _, one in self.terms)
        each = (usual * rarer + together) / (rarer + 1)  # one divided by the effective number of answers
        z = float(t.isf(0.025, max(self.freedom(), 1)))
        middle, wide = share + z * z * each / 2, 1 + z * z * each
        half = z * math.sqrt(share * (1 - share) * each + (z * each / 2) ** 2)
        return (share - (middle - half) / wide) * scale, ((middle + half) / wide - share) * scale


@dataclass(frozen=True)
class Number:
    """A sum, or a difference of sums."""

    sums: tuple[tuple[float, Sum], ...]

    @property
    def value(self) -> float:
        return sum(weight * one.value for weight, one in self.sums)

    def distance(self, upwards: bool) -> float:
        """Return the distance to one end of the interval.

        Distances of sums are combined with the sums' correlations; a sum that does not vary counts as independent.
        """
        patients = sum(any(own) for own in zip(*(one.members() for _, one in self.sums), strict=True))
        found = [(weight * one.distances()[(weight > 0) == upwards], one.parts()) for weight, one in self.sums]
        fixed = sum(step**2 for step, parts in found if max(map(abs, parts)) < 1e-12)
        varying = [(step, parts) for step, parts in found if max(map(abs, parts)) >= 1e-12]
        alone = sum(step**2 for step, _ in varying)
        together = sum(step * other_step * correlation(parts, other_parts)
                       for step, parts in varying for other_step, other_parts in varying)  # fmt: skip
        independent = 1 / (patients + 1)
        return math.sqrt(fixed + max(together, (1 - independent) * together + independent * alone))

    def columns(self, name: str) -> dict[str, float | None]:
        """Return the number and the ends of its interval by column name.

        A share of a single patient has no interval, and neither has a sum with such a share.
        """
        if any(share.patients < 2 for _, one in self.sums for _, share in one.terms):
            return {name: self.value, f"{name}_low": None, f"{name}_high": None}
        ends = self.value, self.value - self.distance(upwards=False), self.value + self.distance(upwards=True)
        return dict(zip((f"{name}{end}" for end in SPREAD), ends, strict=True))


def correlation(one: Sequence[float], other: Sequence[float]) -> float:
    product = sum(a * b for a, b in zip(one, other, strict=True))
    return product / math.sqrt(sum(a * a for a in one) * sum(b * b for b in other))


def share(right: Sequence[float], asked: Sequence[float], chance: float = 0.0, least_effect: float = 0.7) -> Number:
    """Return the share of right items, corrected for chance; ``right`` and ``asked`` are by patient."""
    return Number(((1.0, Sum(((1.0, Share(tuple(right), tuple(asked), chance, least_effect)),))),))


def weighted(weights: Sequence[float], numbers: Sequence[Number]) -> Number:
    """Return a weighted sum of numbers; with positive weights it is one sum of shares."""
    made = [(weight * own, one) for weight, number in zip(weights, numbers, strict=True) for own, one in number.sums]
    if any(weight < 0 for weight, _ in made):
        return Number(tuple(made))
    return Number(((1.0, Sum(tuple((weight * own, one) for weight, terms in made for own, one in terms.terms))),))


def mean(*numbers: Number) -> Number:
    return weighted([1 / len(numbers)] * len(numbers), numbers)
