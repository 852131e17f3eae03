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

    def side(self, sign: int) -> tuple[list[float], list[float]]:
        """Return each patient's largest change of one side of a difference, and the number of answers behind it."""
        mine = [(abs(weight), one) for weight, one in self.sums if weight * sign > 0]
        zero = [0.0] * len(self.sums[0][1].members())
        changes = [[weight * own for own in one.members()] for weight, one in mine]
        answers = [share.asked for _, one in mine for _, share in one.terms]
        return tuple([sum(own) for own in zip(zero, *parts, strict=True)] for parts in (changes, answers))  # type: ignore[return-value]

    def parts(self) -> list[float]:
        """Return each patient's part of the difference's deviation."""
        return [sum(own) for own in zip(*([weight * part for part in one.parts()] for weight, one in self.sums),
                                        strict=True)]  # fmt: skip

    def of_one(self) -> float:
        """Return the mean square change of the difference by a patient that differs."""
        parts = self.parts()
        (up, asked_up), (down, asked_down) = self.side(1), self.side(-1)
        who = [patient for patient, pair in enumerate(zip(up, down, strict=True)) if any(pair)]
        asked = {one: max(asked_up[one], asked_down[one]) for one in who}
        weights = {one: max(up[one], down[one]) / asked[one] for one in who}
        changes = {one: weights[one] * asked[one] for one in who}
        heavy, most = (sum(largest**2 for largest in sorted(of.values(), reverse=True)[:10]) / min(len(who), 10)
                       for of in (weights, changes))  # fmt: skip
        every = min(heavy * sum(count**2 for count in asked.values()) / len(who), most)
        sizes = []
        for units, unit in ((weights, heavy), (changes, most)):
            squares = [(parts[one] / units[one]) ** 2 for one in who]
            differ = sum(squares) ** 2 / sum(square**2 for square in squares) if any(squares) else 0.0
            sizes.append((unit * sum(squares) + every) / (differ + 1))
        return min(sizes)

    def distance(self, upwards: bool) -> float:
        """Return the distance to one end of the interval: of a sum, or of a difference with two more patients."""
        if len(self.sums) == 1 and self.sums[0][0] == 1:
            return self.sums[0][1].distances()[upwards]
        (up, _), (down, _) = self.side(1), self.side(-1)
        who = [patient for patient, pair in enumerate(zip(up, down, strict=True)) if any(pair)]
        shares = [(weight * own, share) for weight, one in self.sums for own, share in one.scales()]
        alike = [(own**2 * sum((count / share.whole) ** 2 for count in share.asked), share) for own, share in shares]
        freedom = min(len(who) - 1, sum(own for own, _ in alike) ** 2
                      / sum(own**2 / max(share.patients - 1, 1) for own, share in alike))  # fmt: skip
        variance = sum(part**2 for part in self.parts()) + 2 * self.of_one()
        half = float(t.isf(0.025, max(freedom, 1))) * math.sqrt(variance)
        room = sum(abs(own) * (1 - share.plain if (own > 0) == upwards else share.plain) for own, share in shares)
        return min(half * len(who) / (len(who) + 2), room)

    def columns(self, name: str) -> dict[str, float | None]:
        """Return the number and the ends of its interval by column name.

        A share of a single patient has no interval, and neither has a sum with such a share.
        """
        if any(share.patients < 2 for _, one in self.sums for _, share in one.terms):
            return {name: self.value, f"{name}_low": None, f"{name}_high": None}
        ends = self.value, self.value - self.distance(upwards=False), self.value + self.distance(upwards=True)
        return dict(zip((f"{name}{end}" for end in SPREAD), ends, strict=True))


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
