"""What an item, an answer and a turn are: the whole contract between generators, models and graders.

The JSON forms are in ``chexqa.schemas`` (item, answer, answer_case, turn); the classes here are the same
records inside the program. Option numbers count from 1 as displayed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from chexqa.stats import cluster_id

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Level = Literal["coarse", "fine", "semantic"]
Path = Literal["lesion_free", "revision_free", "revision_required"]
LEVELS: tuple[Level, ...] = ("coarse", "fine", "semantic")
PATHS: tuple[Path, ...] = ("lesion_free", "revision_free", "revision_required")


class Kind(NamedTuple):
    """Where a kind of item stands: its place in the conversation, its level and its stage."""

    seq: int
    level: Level | None
    stage: int | None
    multi: bool = False


KINDS: dict[str, Kind] = {
    "detection": Kind(1, "coarse", 1),
    "contour_evaluation": Kind(2, "fine", 2),
    "revision_expansion": Kind(3, "fine", 3, multi=True),
    "revision_contraction": Kind(4, "fine", 3, multi=True),
    "revision_result": Kind(5, "fine", 3),
    "distribution": Kind(6, "semantic", 4),
    "location": Kind(7, "semantic", 4, multi=True),
    "severity": Kind(8, "semantic", 4),
    "comparison": Kind(9, "semantic", 4),
    "grid_cell": Kind(1, None, None),
}
GRID = "grid_cell"
# The flag of an item whose reviewers disagree; it is graded apart.
CONTESTED = "contested"
PATH_STAGES: dict[Path, tuple[int, ...]] = {
    "lesion_free": (1,),
    "revision_free": (1, 2, 4),
    "revision_required": (1, 2, 3, 4),
}


@dataclass(frozen=True)
class Option:
    """One option: its number as displayed and its text, picture or point colour."""

    n: int
    text: str | None = None
    image: str | None = None
    color: str | None = None


@dataclass(frozen=True)
class Picture:
    """A picture and what it is (``radiograph, contour, points, option, grid``), so that it can be announced.

    ``control``: the same drawing on plain grey, where the benchmark was made with controls.
    """

    role: str
    image: str
    control: str | None = None


@dataclass(frozen=True)
class Item:
    """One question as a model may see it; holds nothing that gives the answer away."""

    item_id: str
    case_id: str
    seq: int
    kind: str
    level: Level | None
    stage: int | None
    finding: str
    question: str
    options: tuple[Option, ...]
    multi: bool
    turn_images: tuple[Picture, ...]
    alone_images: tuple[Picture, ...]

    @property
    def image_paths(self) -> set[str]:
        """Every picture the item uses, controls included."""
        pictures = self.turn_images + self.alone_images
        return {image for picture in pictures for image in (picture.image, picture.control) if image is not None}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Item:
        """From a checked record."""
        fields = dict(record)
        fields["options"] = tuple(Option(**option) for option in record["options"])
        for name in ("turn_images", "alone_images"):
            fields[name] = tuple(Picture(**picture) for picture in record[name])
        return cls(**fields)

    def to_record(self) -> dict[str, Any]:
        """The JSON form."""
        return _record(self)


@dataclass(frozen=True)
class Answer:
    """The key of one item.

    ``answer``: sorted option numbers (grid: every hit cell, none where no cell can be hit). ``chance``: one over the
    number of legal answers. ``prior``: accuracy of always giving the most frequent answer of the kind and finding.
    ``evidence``: every measured number behind the answer. ``difficulty``: the few of them that say how hard the item
    is, by name; empty where nothing was measured that does.
    """

    item_id: str
    answer: tuple[int, ...]
    chance: float
    prior: float
    path: Path | None
    evidence: dict[str, Any]
    flags: tuple[str, ...] = ()
    review: dict[str, Any] | None = None
    difficulty: dict[str, float] = field(default_factory=dict)

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Answer:
        """From a checked record."""
        return cls(**{**record, "answer": tuple(record["answer"]), "flags": tuple(record["flags"])})

    def to_record(self) -> dict[str, Any]:
        """The JSON form."""
        return _record(self)


@dataclass(frozen=True)
class CaseKey:
    """What the key knows of a case: its source, patient, path and measured numbers."""

    case_id: str
    source_case_id: str
    patient_id: str | None
    study_id: str | None
    path: Path | None
    sex: str | None
    age: float | None
    view: str | None
    access: str
    measures: dict[str, Any]

    def to_record(self) -> dict[str, Any]:
        """The JSON form."""
        return _record(self)


def chance_of(kind: str, options: int, right: int = 1) -> float:
    """The probability of a blind answer being right: one over the number of legal answers.

    ``options`` counts "none", which a multi-select item has as its last option and which is what an empty choice of
    the others means. ``right`` is the number of hit cells of a grid item.
    """
    if kind == GRID:
        return right / options
    return 2.0 ** -(options - 1) if KINDS[kind].multi else 1 / options


def _record(value: DataclassInstance) -> dict[str, Any]:
    """A dataclass as JSON: tuples become lists, throughout."""
    return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}


def _plain(value: Any) -> Any:
    if isinstance(value, Option | Picture):
        return _record(value)
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value


def is_right(item: Item, answer: Answer, parsed: tuple[int, ...]) -> bool:
    """Whether the option numbers ``parsed`` are the right answer; a grid cell is right when it is any hit cell."""
    if item.kind == GRID:
        return len(parsed) == 1 and parsed[0] in answer.answer
    return tuple(sorted(set(parsed))) == answer.answer


def radiographs(items: Iterable[Item], cases: Mapping[str, CaseKey]) -> dict[str, str]:
    """Return the identity of each case's radiograph: the source picture's hash, else that of its first picture."""
    found: dict[str, str] = {}
    for item in items:
        key = cases[item.case_id].measures.get("image_key")
        found.setdefault(item.case_id, str(key or PurePath(item.alone_images[0].image).stem))
    return found


def clusters(items: Iterable[Item], cases: Mapping[str, CaseKey]) -> dict[str, str]:
    """Return the cluster of each case that has an item (:func:`chexqa.stats.cluster_id`)."""
    return {
        case_id: cluster_id(cases[case_id].patient_id, cases[case_id].study_id, picture)
        for case_id, picture in radiographs(items, cases).items()
    }
