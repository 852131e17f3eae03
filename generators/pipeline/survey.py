"""Survey of a case: everything that the first pass measures and draws at random, for the second pass to build items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chexqa.contract import codec
from chexqa.files.jsonio import Record
from chexqa.generators.attributes.attribute_keys import Attributes, Judgement
from chexqa.generators.contour.plan import ContourPlan


@dataclass(frozen=True)
class AttributeSurvey:
    """Measures of a lesion's attributes, and the questions on them that were drawn at random.

    The fields ``right``, ``stable`` and ``margin`` have one value for each kind of question:

    - ``right``: which options are correct, as numbers from 1.
    - ``stable``: False if a slightly different mask would change the answer.
    - ``margin``: ``abs(measure - threshold) / threshold`` of the measure that decides the answer.
    """

    judged: Judgement
    drawn: Attributes
    right: Mapping[str, tuple[int, ...]]
    stable: Mapping[str, bool]
    margin: Mapping[str, float]


@dataclass(frozen=True)
class PerceptionSurvey:
    """Data from which a case's items are made, for every possible question path.

    A case without the finding has neither a plan nor attributes.
    """

    attributes: AttributeSurvey | None = None
    plan: ContourPlan | None = None


@dataclass(frozen=True)
class GridSurvey:
    """Measures of a case for the grid question.

    - ``coverage``: the share of each cell that the lesion covers, from 0 to 1.
    - ``plausible``: the cells that contain a part of the finding's usual anatomy or a part of the lesion, as cell
      numbers from 1; None if the case has no masks of this anatomy.
    - ``stable``: True if the same cells count as hits when the mask shrinks or grows a little.
    """

    coverage: tuple[float, ...]
    plausible: tuple[int, ...] | None
    stable: bool


@dataclass(frozen=True)
class PlacesSurvey:
    """Questions on places for one case.

    - ``kinds``: the names of the kinds of questions that are asked.
    - ``hit_share``: the share of the lungs' area in which a point is a hit; 0 if the finding is absent or the lungs are
      not given.
    """

    kinds: tuple[str, ...]
    hit_share: float


@dataclass(frozen=True)
class LesionSize:
    """The mask's share of the picture, and ``(height, width)`` of the source mask and of the working image."""

    lesion_share: float
    source_size: tuple[int, int]
    working_size: tuple[int, int]


@dataclass(frozen=True)
class Survey:
    """All measures and random draws of the first pass over a case.

    A recipe has up to three tasks: ``perception``, ``grid`` and ``places``.

    - ``image_key``: the hash of the radiograph's pixels; None if they were not read.
    - ``perception``, ``grid``, ``places``: the measures for this task; None if the case gets no items of this task.
    - ``size``: the size of the lesion; None if there is no lesion.
    - ``masks``: the masks of lesion, lungs and heart in pixels of the working image, as run lengths.
    - ``skipped``: ``(task, reason)`` for each task that leaves the case out; the task None stands for all tasks.
    - ``lung_doubts``: a short text for each reason to doubt the masks of the lungs.
    - ``lungs_predicted``: True if a model predicted the lungs.
    """

    source_case_id: str
    finding: str
    present: bool
    image_key: str | None = None
    perception: PerceptionSurvey | None = None
    grid: GridSurvey | None = None
    places: PlacesSurvey | None = None
    size: LesionSize | None = None
    masks: Mapping[str, Any] = field(default_factory=dict)
    skipped: tuple[tuple[str | None, str], ...] = ()
    lung_doubts: tuple[str, ...] = ()
    lungs_predicted: bool = False

    def to_record(self) -> Record:
        """Return the JSON form, which is stored in the folder ``OUT.partial`` of an unfinished generation."""
        record: Record = codec.encode(self)
        return record

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Survey:
        """Return the survey from its JSON form."""
        return codec.decode(cls, record)
