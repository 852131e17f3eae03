"""Evidence: the measurements from which the right answer to a question follows; one class for each kind of question.

Lengths are in pixels of the working image. Areas are numbers of these pixels, or shares from 0 to 1.
:meth:`Evidence.read` raises an error for evidence in another form, which a benchmark of another program may have.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from chexqa.contract.codec import decode, encode

if TYPE_CHECKING:
    from typing import Self

    from chexqa.contract.items import CaseKey, Option

# For each threshold, by name: the intervals in which a number counts as near it, ends included.
Near = Mapping[str, Sequence[tuple[float, float]]]
# Intervals around the thresholds of chexqa's own recipes, for a key without a margin.
NEAR: Near = {
    "region": ((0.15, 0.3125),),
    "lung": ((1 / 3 - 0.05, 1 / 3 + 0.05), (2 / 3 - 0.05, 2 / 3 + 0.05)),
    "larger": ((1.35, 1.65),),
    "cell": ((0.45, 0.55),),
}
# Flags of the key that follow from the evidence.
NEAR_THRESHOLD, MOST_FILLED, BOTH_LUNGS = "near_threshold", "most_filled", "both_lungs"
_SMALL_LESION, _SMALL_DEPTH, _SMALL_SHARE = 0.005, 18.0, 0.08
_MAX_PLACES = 6


def percent(share: float) -> str:
    """Return a share (0 to 1) as text in percent, with one decimal below 10 %."""
    return f"{100 * share:.0f} %" if share >= 0.0995 or share == 0 else f"{100 * share:.1f} %"


@dataclass(frozen=True, kw_only=True)
class Evidence(ABC):
    """Measurements from which the right answer to one question follows."""

    near: ClassVar[Near] = NEAR
    near_margin: ClassVar[float] = 0.1  # largest margin that counts as near (a share of the threshold)

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> Self:
        """Return the evidence of a JSON record; raise ``ValueError`` if a field is missing or of another type."""
        return decode(cls, record)

    def to_record(self) -> dict[str, Any]:
        """Return the JSON form, with the fields in their order."""
        record = encode(self)
        assert isinstance(record, dict)
        return record

    @classmethod
    def misfit(cls, record: Mapping[str, Any], options: int) -> str | None:
        """Return an error text if a JSON record does not fit the item's number of options, otherwise None.

        The text is the end of the sentence "item X has …".
        """
        return None

    @abstractmethod
    def sentence(self, options: Sequence[Option], case: CaseKey) -> str:
        """Return the evidence in words that a reviewer can check by eye, one fact per line."""

    def deciding(self) -> dict[str, list[float]]:
        """Return the measured numbers that are compared with thresholds, keyed by the threshold's name."""
        return {}

    def is_near(self, margin: float | None = None) -> bool:
        """Return True if a measured number that decides the answer is near its threshold.

        ``margin`` is the item's smallest ``abs(number - threshold) / threshold``. The number is near if ``margin`` is
        at most :attr:`near_margin`. If ``margin`` is None, a number is near if it lies in an interval of :attr:`near`.
        """
        if margin is not None:
            return margin <= self.near_margin
        return any(
            low <= value <= high
            for name, values in self.deciding().items()
            for low, high in self.near.get(name, ())
            for value in values
        )

    def flags(self, margin: float | None = None) -> tuple[str, ...]:
        """Return the key's flags (remarks such as "near a threshold"); ``margin`` is as in :meth:`is_near`."""
        return (NEAR_THRESHOLD,) if self.is_near(margin) else ()

    def is_hard(self) -> bool:
        """Return True if the lesion, or an error in the outline, is small enough to be missed."""
        return False


@dataclass(frozen=True, kw_only=True)
class Edit:
    """Local change of an outline.

    - ``over``: True if the changed outline includes too much.
    - ``share``: the changed area divided by the lesion's area.
    """

    over: bool
    true: bool = True
    depth: float
    share: float
    point_xy: Sequence[float] = ()

    def words(self) -> str:
        """Return the edit in words: whether too much or too little is included, its depth and its size."""
        wrong = "takes in too much" if self.over else "leaves out a part"
        return f"{wrong} ({self.depth:.0f} px deep, {percent(self.share)} of the lesion)"


@dataclass(frozen=True, kw_only=True)
class MarkedPoint:
    """Coloured point; ``edit`` is the index of the edit at this point, or None if there is no edit."""

    xy: Sequence[float] = ()
    edit: int | None
    inside: bool
    distance: float


@dataclass(frozen=True, kw_only=True)
class Component:
    """Connected part of the lesion: its size, the share of each region that it covers, and its pixels in each lung."""

    pixels: int
    regions: Mapping[str, float]
    lungs: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class LesionEvidence(Evidence):
    """Evidence on whether the finding is present: the share of the picture that the mask covers, 0 without a mask."""

    lesion_share: float

    def sentence(self, options: Sequence[Option], case: CaseKey) -> str:
        """Return the mask's size; for a case without a mask, return what the source says about the finding."""
        if self.lesion_share:
            return f"the mask covers {percent(self.lesion_share)} of the picture"
        kind = {"normal": "its source says: no finding", "other": "its source says: other findings, not this one"}
        return "no mask; " + kind.get(str(case.measures.get("negative_kind")), "its source says: absent")

    def is_hard(self) -> bool:
        """Return True if the lesion is small."""
        return 0 < self.lesion_share < _SMALL_LESION


def _small(edits: Sequence[Edit]) -> bool:
    return any(edit.true and (edit.depth < _SMALL_DEPTH or edit.share < _SMALL_SHARE) for edit in edits)


@dataclass(frozen=True, kw_only=True)
class OutlineEvidence(Evidence):
    """Evidence on the shown outline: the overlap (IoU) of its mask with the optimal mask, and its edits (errors)."""

    iou: float
    edits: Sequence[Edit]

    def sentence(self, options: Sequence[Option], case: CaseKey) -> str:
        """Return the shown outline's overlap with the outline of the optimal mask, and its errors, as text."""
        errors = [edit.words() for edit in self.edits if edit.true]
        if not errors:
            return "the outline shown is the approved outline"
        return "\n".join([f"overlaps the approved outline by {percent(self.iou)} (IoU)", *errors])

    def is_hard(self) -> bool:
        """Return True if an edit (error) of the shown outline is shallow or small."""
        return _small(self.edits)


@dataclass(frozen=True, kw_only=True)
class PointsEvidence(Evidence):
    """Evidence of a question on coloured points: the points, in the order of the options."""

    points: Sequence[MarkedPoint]

    @classmethod
    def misfit(cls, record: Mapping[str, Any], options: int) -> str | None:
        """Return an error text if there are more points than options, otherwise None."""
        points = len(record.get("points", ()))
        return f"evidence for {points} points, but {options} options" if points > options else None

    def sentence(self, options: Sequence[Option], case: CaseKey) -> str:
        """Return, for each point that marks an error, its distance from the outline and its side (inside, outside)."""
        lines = []
        for option, point in zip(options, self.points, strict=False):
            if point.edit is not None:
                # The deepest place of an error is inside the outline if the outline includes too much, otherwise
                # outside.
                where = "inside: too much is taken in" if point.inside else "outside: a part is left out"
                lines.append(f"{option.color}: {point.distance:.0f} px {where}")
        return "\n".join([*lines, "the outline is right at the other points"])


@dataclass(frozen=True, kw_only=True)
class ResultEvidence(Evidence):
    """Evidence of the question that offers four outlines.

    - ``edits``: the case's edits (possible errors); the indices below are positions in this list.
    - ``errors``: the indices of each outline's errors.
    - ``true_edits``: the indices of the suboptimal outline's errors.
    - ``iou``: the IoU of each outline's mask with the optimal mask.
    """

    errors: Sequence[Sequence[int]]
    true_edits: Sequence[int] = ()
    edits: Sequence[Edit]
    iou: Sequence[float] = ()

    def sentence(self, options: Sequence[Option], case: CaseKey) -> str:
        """Return the errors of each outline in words."""
        lines = []
        for number, errors in enumerate(self.errors, start=1):
            wrong = "; ".join(self.edits[edit].words() for edit in errors)
            lines.append(f"{number}: {wrong or 'the approved outline'}")
        return "\n".join(lines)

    def is_hard(self) -> bool:
        """Return True if an error of the suboptimal outline is shallow or small."""
        return _small(self.edits)


def place(region: str) -> str:
    """Return a region's name in words: ``right_mid_lateral`` becomes "lateral part of the right mid zone"."""
    side, zone, part = region.split("_")
    return f"{side} costophrenic angle" if zone == "costophrenic" else f"{part} part of the {side} {zone} zone"


def _zone(region: str) -> tuple[str, str]:
    side, zone, _ = region.split("_")
    return side, "lower" if zone == "costophrenic" else zone


@dataclass(frozen=True, kw_only=True)
class _PartsEvidence(Evidence):
    """Components of the lesion, with their pixels in each lung."""

    components: Sequence[Component] = ()

    def flags(self, margin: float | None = None) -> tuple[str, ...]:
        """Return the key's flags: those of :meth:`Evidence.flags`, and one if a component touches both lungs."""
        in_both = any(all(part.lungs.get(side, 0) for side in ("right", "left")) for part in self.components)
        return super().flags(margin) + (BOTH_LUNGS,) * in_both


@dataclass(frozen=True, kw_only=True)
class _RegionEvidence(_PartsEvidence):
    """Involved regions, the covered share of every region, and the components of the lesion.

    A component below the threshold in every region still involves the region that it covers most. ``filled_most`` has
    the regions that are involved for this reason alone.
    """

    near_margin: ClassVar[float] = 0.25

    involved: Sequence[str] = ()
    union: Mapping[str, float]
    filled_most: Sequence[str] = ()

    def flags(self, margin: float | None = None) -> tuple[str, ...]:
        """Return the flags of the key; :data:`MOST_FILLED` is added if ``filled_most`` names a region."""
        return super().flags(margin) + (MOST_FILLED,) * bool(self.filled_most)

    def most_filled_lines(self) -> list[str]:
        """Return a line for each region of ``filled_most``: its share, and why it counts as involved."""
        return [
            f"the {place(name)} counts with only {percent(self.union.get(name, 0.0))}: no other place is covered more"
            for name in self.filled_most
        ]


@dataclass(frozen=True, kw_only=True)
class ZonesEvidence(_RegionEvidence):
    """Evidence of a question on the number of zones."""

    involved: Sequence[str]

    def sentence(self, options: Sequence[Option], case: CaseKey) -> str:
        """Return the number of involved zones, the involved regions, and the largest region that is not involved."""
        union = self.union
        involved = sorted(self.involved, key=lambda name: -union[name])
        others = sorted((name for name in union if name not in involved and union[name]), key=lambda name: -union[name])
        lines = [f"{len({_zone(name) for name in involved})} of six zones"]
        lines += [f"covers {percent(union[name])} of the {place(name)}" for name in involved[:_MAX_PLACES]]
        if len(involved) > _MAX_PLACES:
            lines.append(f"and {len(involved) - _MAX_PLACES} more places")
        if others:
            lines.append(f"not counted: {percent(union[others[0]])} of the {place(others[0])}")
        return "\n".join(lines + self.most_filled_lines())

    def deciding(self) -> dict[str, list[float]]:
        """Return ``{"region": [...]}``, one number for each zone: the covered share of its most covered region."""
        most: dict[tuple[str, str], float] = {}
        for name, share in self.union.items():
            most[_zone(name)] = max(share, most.get(_zone(name), 0.0))
        return {"region": list(most.values())}


@dataclass(frozen=True, kw_only=True)
class PlacesEvidence(_RegionEvidence):
    """Evidence of a question on location: the regions that the options name, and the covered share of every region."""

    shown: Sequence[str]

    @classmethod
    def misfit(cls, record: Mapping[str, Any], options: int) -> str | None:
        """Return None if there is one region for each option but the last, otherwise an error text."""
        if "shown" not in record or len(record["shown"]) + 1 == options:
            return None
        return f"evidence of {len(record['shown'])} regions, but {options} options (the last one names no region)"

    def sentence(self, options: Sequence[Option], case: CaseKey) -> str:
        """Return a line for each region that is an option: the share of the region that the mask covers."""
        lines = [f"covers {percent(self.union.get(name, 0.0))} of the {place(name)}" for name in self.shown]
        return "\n".join(lines + self.most_filled_lines())

    def deciding(self) -> dict[str, list[float]]:
        """Return ``{"region": [...]}``, one number for each region that is an option: its covered share."""
        return {"region": [self.union.get(name, 0.0) for name in self.shown]}

    def is_near(self, margin: float | None = None) -> bool:
        """Return True if a share is near its threshold, or the lesion also reaches a wrong option's region."""
        touched = [name for name in self.shown if self.union.get(name, 0.0) > 0 and name not in self.involved]
        return (bool(self.involved) and bool(touched)) or super().is_near(margin)


@dataclass(frozen=True, kw_only=True)
class LungEvidence(_PartsEvidence):
    """Evidence of a question on severity in one lung, ``side``. Shares and pixels of both lungs are given."""

    side: str
    lung_share: Mapping[str, float]
    lung_area: Mapping[str, int] = field(default_factory=dict)

    def sentence(self, options: Sequence[Option], case: CaseKey) -> str:
        """Return the covered share of the lung that the question asks about, such as "covers 25 % of the left lung"."""
        return f"covers {percent(self.lung_share.get(self.side, 0.0))} of the {self.side} lung"

    def deciding(self) -> dict[str, list[float]]:
        """Return ``{"lung": [share]}``: the covered share of the lung that the question asks about."""
        return {"lung": [self.lung_share.get(self.side, 0.0)]}


@dataclass(frozen=True, kw_only=True)
class LungsEvidence(_PartsEvidence):
    """Evidence of the comparison of both lungs: the covered share and the number of covered pixels of each."""

    lung_share: Mapping[str, float]
    lung_area: Mapping[str, int]

    def sentence(self, options: Sequence[Option], case: CaseKey) -> str:
        """Return the lesion's area and share in each lung, and the ratio of the areas, as text."""
        areas = {side: self.lung_area.get(side, 0) for side in ("right", "left")}
        lines = [f"{side} lung: {area:,} px covered, {percent(self.lung_share.get(side, 0.0))} of the lung"
                 for side, area in areas.items()]  # fmt: skip
        return "\n".join([*lines, *(f"one area is {ratio:.1f} times the other" for ratio in self.deciding()["larger"])])

    def deciding(self) -> dict[str, list[float]]:
        """Return ``{"larger": [ratio]}``, the larger covered area divided by the smaller; no ratio if an area is 0."""
        small, large = sorted(self.lung_area.get(side, 0) for side in ("right", "left"))
        return {"larger": [large / small] if small else []}


@dataclass(frozen=True, kw_only=True)
class CellsEvidence(Evidence):
    """Evidence of a grid question.

    - ``coverage``: the covered share of each cell of the grid.
    - ``plausible``: the cells where the finding can lie.
    - ``attainable``: True if at least one cell is a hit.
    """

    coverage: Sequence[float]
    plausible: Sequence[int] | None = None
    attainable: bool = True

    @classmethod
    def misfit(cls, record: Mapping[str, Any], options: int) -> str | None:
        """Return an error text if ``record`` does not have one covered share for each of the ``options`` (cells)."""
        if "coverage" not in record or len(record["coverage"]) == options:
            return None
        return f"evidence of {len(record['coverage'])} cells and {options} options"

    def sentence(self, options: Sequence[Option], case: CaseKey) -> str:
        """Return the cells that are covered most, with their shares."""
        covered = sorted(zip(self.coverage, options, strict=True), key=lambda cell: -cell[0])
        cells = [f"{percent(share)} of {option.text}" for share, option in covered[:_MAX_PLACES] if share]
        return f"covers {', '.join(cells)}" if cells else "the mask is empty"

    def deciding(self) -> dict[str, list[float]]:
        """Return ``{"cell": [...]}``, one number for each cell: its covered share."""
        return {"cell": list(self.coverage)}
