"""Items (questions), answers (keys) and cases: the data that generators, models and graders exchange.

The JSON forms are in ``chexqa.schemas`` (item, answer, answer_case); the classes have the same fields.
Option numbers count from 1 in the displayed order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from chexqa.contract.forms import FORMS, Form
from chexqa.contract.kinds import KINDS, Kind, Level
from chexqa.stats import cluster_id

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class _OfItem(Protocol):
    """Object with the id of the item that it belongs to, such as a turn."""

    @property
    def item_id(self) -> str:
        """The id of the item."""


TurnType = TypeVar("TurnType", bound=_OfItem)
Path = Literal["lesion_free", "revision_free", "revision_required"]
PATHS: tuple[Path, ...] = ("lesion_free", "revision_free", "revision_required")


# The flag of an item whose reviewers disagree; such items are graded separately.
CONTESTED = "contested"
# The flag of an item on lungs with doubtful masks; the case's measures give the reason.
DOUBTFUL_LUNGS = "doubtful_lungs"
# The flag of an item on lungs that a model predicted; the case's measures name the model.
PREDICTED_LUNGS = "predicted_lungs"
# The task of all items that have a stage; one conversation asks them.
PERCEPTION = "perception"
# The condition of an item that is asked with the benchmark's own pictures. An altered item's id ends with "@" and the
# name of another condition.
ORIGINAL = "original"
# The finding of items on a mark in a plain picture; these items prove which coordinate system a model uses.
MARKER = "marker"
PATH_STAGES: dict[Path, tuple[int, ...]] = {
    "lesion_free": (1,),
    "revision_free": (1, 2, 4),
    "revision_required": (1, 2, 3, 4),
}


@dataclass(frozen=True)
class Option:
    """Option of an item: its number in the item's order, and its text, its picture or its point's colour.

    - ``letter``: a letter that is shown instead of the number.
    - ``side``: the patient's side that it names, or the side of the outline on which its point lies.
    """

    n: int
    text: str | None = None
    image: str | None = None
    color: str | None = None
    letter: str | None = None
    side: str | None = None

    def to_record(self) -> dict[str, Any]:
        """Return the JSON form; ``letter`` and ``side`` are left out if they are None."""
        record = _record(self)
        return {name: value for name, value in record.items() if value is not None or name not in ("letter", "side")}


@dataclass(frozen=True)
class Picture:
    """Picture of an item.

    - ``role``: ``radiograph, contour, points, option`` or ``grid``; it selects the sentence that announces the picture.
    - ``control``: the drawing on plain grey, in a benchmark made with controls.
    - ``layer``, ``base``: a mask of the drawing's pixels, and the radiograph without the drawing, in a benchmark made
      with layers.
    """

    role: str
    image: str
    control: str | None = None
    layer: str | None = None
    base: str | None = None

    def to_record(self) -> dict[str, Any]:
        """Return the JSON form; ``layer`` and ``base`` are left out if they are None."""
        record = _record(self)
        return {name: value for name, value in record.items() if value is not None or name not in ("layer", "base")}


@dataclass(frozen=True)
class Item:
    """Question as a model sees it, without anything that reveals the answer.

    ``declared`` is the item's kind if a plugin declares it.
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
        """The answer form of the item's kind; for an unknown kind, ``multi`` if ``self.multi``, else ``single``."""
        kind = KINDS.get(self.kind, self.declared)
        return kind.form if kind else FORMS["multi" if self.multi else "single"]

    @property
    def condition(self) -> str:
        """The condition of the item's pictures: ``original``, or the name of an intervention that altered them."""
        return condition_of(self.item_id)

    @property
    def task(self) -> str:
        """The name of the conversation that asks the item.

        All kinds with a stage share one conversation. A kind without a stage has its own conversation, named after the
        kind.
        """
        return PERCEPTION if self.stage is not None else self.kind

    @property
    def is_ordered(self) -> bool:
        """True if the options have a natural order, such as mild, moderate, severe; no run changes this order."""
        kind = KINDS.get(self.kind, self.declared)
        return kind is not None and kind.ordered

    @property
    def image_paths(self) -> set[str]:
        """The paths of all pictures of the item, including those in ``control``, ``layer`` and ``base``
        (:class:`Picture`).
        """
        pictures = self.turn_images + self.alone_images
        paths = (path for one in pictures for path in (one.image, one.control, one.layer, one.base))
        return {path for path in paths if path is not None}

    @classmethod
    def from_record(cls, record: dict[str, Any], kinds: Mapping[str, Kind] = KINDS) -> Item:
        """Return the item of a checked record; ``kinds`` has the benchmark's kinds, keyed by name."""
        fields = dict(record)
        fields["options"] = tuple(Option(**option) for option in record["options"])
        for name in ("turn_images", "alone_images"):
            fields[name] = tuple(Picture(**picture) for picture in record[name])
        fields["declared"] = None if record["kind"] in KINDS else kinds.get(record["kind"])
        return cls(**fields)

    def to_record(self) -> dict[str, Any]:
        """Return the JSON form."""
        record = _record(self)
        del record["declared"]
        return record


@dataclass(frozen=True)
class Answer:
    """Key of one item.

    - ``answer``: the sorted numbers of all right options; empty for a grid without a right cell.
    - ``chance``: the probability of a right answer for a guesser who knows how items are made.
    - ``prior``: the accuracy of always giving the most frequent answer of the kind and finding.
    - ``evidence``: every measured number that decides the answer.
    - ``difficulty``: numbers that say how hard the item is, keyed by name.
    - ``scored``: False if only one answer is possible.

    A case has two questions on coloured points. Only these questions have two more fields:

    - ``chance_uniform``: 1 / the number of possible answers.
    - ``chance_joint``: the probability that a guesser answers both questions right.
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
    chance_uniform: float | None = None
    chance_joint: float | None = None
    scored: bool = True

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Answer:
        """Return the answer of a checked record."""
        return cls(**{**record, "answer": tuple(map(int, record["answer"])), "flags": tuple(record["flags"])})

    def to_record(self) -> dict[str, Any]:
        """Return the JSON form; chances that are None are left out, and so is ``scored`` if it is True."""
        silent = {"chance_uniform": None, "chance_joint": None, "scored": True}
        return {name: value for name, value in _record(self).items() if name not in silent or value != silent[name]}


@dataclass(frozen=True)
class CaseKey:
    """Entry of a case in the key: its source, its patient, its path and its measurements."""

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
        """Return the JSON form."""
        return _record(self)


def _record(value: DataclassInstance) -> dict[str, Any]:
    """Return a dataclass as JSON; tuples become lists at every level."""
    return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}


def _plain(value: Any) -> Any:
    if isinstance(value, Option):
        return value.to_record()
    if isinstance(value, Picture):
        return value.to_record()
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value


def condition_of(item_id: str) -> str:
    """Return the condition that an item's id names after "@", or ``original`` if the id has no "@".

    >>> condition_of("c1/detection@target"), condition_of("c1/detection")
    ('target', 'original')
    """
    return item_id.partition("@")[2] or ORIGINAL


def asked_conditions(about: Mapping[str, Any]) -> list[str]:
    """Return the conditions (original or altered pictures) that a run asks about; ``about`` is its ``run.json``."""
    return list(about.get("interventions", (ORIGINAL,)))


def split_by_condition(turns: Iterable[TurnType]) -> tuple[tuple[TurnType, ...], tuple[TurnType, ...]]:
    """Return the turns on the benchmark's original pictures, and the turns on altered pictures."""
    rows = list(turns)
    own = tuple(turn for turn in rows if condition_of(turn.item_id) == ORIGINAL)
    return own, tuple(turn for turn in rows if condition_of(turn.item_id) != ORIGINAL)


def is_right(item: Item, answer: Answer, parsed: tuple[int, ...]) -> bool:
    """Return True if ``parsed``, the option numbers of an answer, are right by the key.

    They must be exactly the numbers of the key. On the grid, there must be one number, and the key must list it.
    """
    return item.form.is_right(answer.answer, parsed)


def asking_order(item: Item) -> tuple[bool, str, int]:
    """Return a sort key for the items of one case: first the kinds with a stage, in their order, then all others."""
    return (item.stage is None, "" if item.stage is not None or item.kind in KINDS else item.kind, item.seq)


def radiographs(items: Iterable[Item], cases: Mapping[str, CaseKey]) -> dict[str, str]:
    """Return a hash of each case's radiograph, keyed by case id; equal radiographs have equal hashes."""
    found: dict[str, str] = {}
    for item in items:
        # The source picture's hash or, if unknown, the hash of the first picture that the case's items show.
        key = cases[item.case_id].measures.get("image_key")
        found.setdefault(item.case_id, str(key or PurePath(item.alone_images[0].image).stem))
    return found


def clusters(items: Iterable[Item], cases: Mapping[str, CaseKey]) -> dict[str, str]:
    """Return the cluster (see :func:`chexqa.stats.cluster_id`) of each case with an item, keyed by case id."""
    return {
        case_id: cluster_id(cases[case_id].patient_id, cases[case_id].study_id, picture)
        for case_id, picture in radiographs(items, cases).items()
    }


def with_priors(items: Iterable[Item], answers: Iterable[Answer]) -> list[Answer]:
    """Return the answers with the field ``prior`` filled in, computed over all of them."""
    group_of = {item.item_id: (item.kind, item.finding, item.form) for item in items}
    rows = list(answers)
    best = priors((*group_of[answer.item_id], answer.answer) for answer in rows)
    return [replace(answer, prior=best[group_of[answer.item_id][:2]]) for answer in rows]


def priors(answers: Iterable[tuple[str, str, Form, Sequence[int]]]) -> dict[tuple[str, str], float]:
    """Return the accuracy of always giving the most frequent answer, keyed by ``(kind, finding)``.

    ``answers`` has kind, finding, form and key of each item. For the grid, the answer is the cell that is right most
    often.
    """
    counts: dict[tuple[str, str], Counter[Any]] = defaultdict(Counter)
    sizes: Counter[tuple[str, str]] = Counter()
    for kind, finding, form, answer in answers:
        sizes[kind, finding] += 1
        counts[kind, finding].update(form.right_answers(answer))
    return {group: max(counts[group].values(), default=0) / size for group, size in sizes.items()}


@dataclass
class Tally:
    """Counter of items and cases while a benchmark is written; a case must be counted after all of its items."""

    kinds: Counter[str] = field(default_factory=Counter)
    access: Counter[str] = field(default_factory=Counter)
    images: set[str] = field(default_factory=set)
    _findings: dict[str, str] = field(default_factory=dict)
    _paths: dict[str, dict[str, int]] = field(default_factory=dict)

    def item(self, item: Item) -> Item:
        """Add an item to the counts, and return it unchanged."""
        self.kinds[item.kind] += 1
        self.images.update(item.image_paths)
        self._findings[item.case_id] = item.finding
        return item

    def case(self, case: CaseKey) -> CaseKey:
        """Add a case to the counts, and return it unchanged."""
        self.access[case.access] += 1
        if case.path is not None:
            self._paths.setdefault(self._findings[case.case_id], dict.fromkeys(PATHS, 0))[case.path] += 1
        return case

    @property
    def paths(self) -> dict[str, dict[str, int]]:
        """Number of cases, keyed by finding and then by path; cases without a path are left out."""
        return dict(sorted(self._paths.items()))

    @property
    def items_by_kind(self) -> dict[str, int]:
        """Number of items, keyed by kind of question; chexqa's own kinds come first."""
        return {kind: self.kinds[kind] for kind in {**KINDS, **dict(sorted(self.kinds.items()))}}
