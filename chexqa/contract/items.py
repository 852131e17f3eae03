"""What an item, an answer and a turn are: the whole contract between generators, models and graders.

The JSON forms are in ``chexqa.schemas`` (item, answer, answer_case, turn); the classes here are the same
records inside the program. Option numbers count from 1 as displayed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal

from chexqa.contract.forms import FORMS, Form
from chexqa.contract.kinds import KINDS, Kind, Level
from chexqa.stats import cluster_id

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Path = Literal["lesion_free", "revision_free", "revision_required"]
PATHS: tuple[Path, ...] = ("lesion_free", "revision_free", "revision_required")


# The flag of an item whose reviewers disagree; it is graded apart.
CONTESTED = "contested"
# The task of the items with a stage, which one conversation asks.
PERCEPTION = "perception"
PATH_STAGES: dict[Path, tuple[int, ...]] = {
    "lesion_free": (1,),
    "revision_free": (1, 2, 4),
    "revision_required": (1, 2, 3, 4),
}


@dataclass(frozen=True)
class Option:
    """One option: its number as displayed and its text, picture or point colour.

    ``letter``: the letter it is displayed with instead of a number. ``side``: the patient's side that it names.
    """

    n: int
    text: str | None = None
    image: str | None = None
    color: str | None = None
    letter: str | None = None
    side: str | None = None

    def to_record(self) -> dict[str, Any]:
        """The JSON form; ``letter`` and ``side`` stand in it where they are given."""
        record = _record(self)
        return {name: value for name, value in record.items() if value is not None or name not in ("letter", "side")}


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
    """One question as a model may see it; holds nothing that gives the answer away.

    ``declared``: its kind where that comes from outside the package, which no record of an item holds.
    """

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
    declared: Kind | None = field(default=None, repr=False, compare=False)

    @property
    def form(self) -> Form:
        """How it is answered: as its kind says, or where that is not known, by whether several options may be right."""
        kind = KINDS.get(self.kind, self.declared)
        return kind.form if kind else FORMS["multi" if self.multi else "single"]

    @property
    def task(self) -> str:
        """The conversation that it belongs to: the case's sequence, or for a kind without a stage its own."""
        return PERCEPTION if self.stage is not None else self.kind

    @property
    def is_ordered(self) -> bool:
        """Whether its options have an order of their own and are always shown in it."""
        kind = KINDS.get(self.kind, self.declared)
        return kind is not None and kind.ordered

    @property
    def image_paths(self) -> set[str]:
        """Every picture the item uses, controls included."""
        pictures = self.turn_images + self.alone_images
        return {image for picture in pictures for image in (picture.image, picture.control) if image is not None}

    @classmethod
    def from_record(cls, record: dict[str, Any], kinds: Mapping[str, Kind] = KINDS) -> Item:
        """From a checked record; ``kinds``: those of its benchmark."""
        fields = dict(record)
        fields["options"] = tuple(Option(**option) for option in record["options"])
        for name in ("turn_images", "alone_images"):
            fields[name] = tuple(Picture(**picture) for picture in record[name])
        fields["declared"] = None if record["kind"] in KINDS else kinds.get(record["kind"])
        return cls(**fields)

    def to_record(self) -> dict[str, Any]:
        """The JSON form."""
        record = _record(self)
        del record["declared"]
        return record


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


def _record(value: DataclassInstance) -> dict[str, Any]:
    """A dataclass as JSON: tuples become lists, throughout."""
    return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}


def _plain(value: Any) -> Any:
    if isinstance(value, Option):
        return value.to_record()
    if isinstance(value, Picture):
        return _record(value)
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value


def is_right(item: Item, answer: Answer, parsed: tuple[int, ...]) -> bool:
    """Whether the option numbers ``parsed`` are the right answer; a grid cell is right when it is any hit cell."""
    return item.form.is_right(answer.answer, parsed)


def asking_order(item: Item) -> tuple[bool, str, int]:
    """Sorts the items of a case: its sequence first, then each kind with a conversation of its own."""
    return (item.stage is None, "" if item.stage is not None or item.kind in KINDS else item.kind, item.seq)


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
