"""The kinds of question, each with its level, its stage in the conversation, its answer form and its type of evidence.

The levels are coarse (is the finding present), fine (is an outline right, and where not) and semantic (the lesion's
attributes). A kind from a plugin has no level and no stage, and counts in no headline.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from chexqa.contract import evidence
from chexqa.contract.evidence import Evidence
from chexqa.contract.forms import FORMS, Form, FormName

Level = Literal["coarse", "fine", "semantic"]
LEVELS: tuple[Level, ...] = ("coarse", "fine", "semantic")


@dataclass(frozen=True)
class Kind:
    """Kind of question.

    - ``seq``: position in a case's conversation.
    - ``level``, ``stage``: None for a kind that is asked in a separate conversation.
    - ``about``: the question as a benchmark's card words it.
    - ``heading``: the kind's name as the heading of a narrow column.
    - ``ordered``: True if the options have a natural order; no run changes this order.
    - ``points``: "inside" or "outside" if the right points lie inside or outside the shown outline, otherwise None.
    - ``yes_no``: True if option 1 means yes and option 2 no.
    - ``drawn_anew``: True if another seed gives the same case other outlines, points or options.
    """

    name: str
    seq: int
    level: Level | None
    stage: int | None
    form_name: FormName
    evidence: type[Evidence]
    about: str
    heading: str
    ordered: bool = False
    points: Literal["inside", "outside"] | None = None
    yes_no: bool = False
    drawn_anew: bool = False

    @property
    def form(self) -> Form:
        """The answer form."""
        return FORMS[self.form_name]

    @property
    def multi(self) -> bool:
        """True if an answer can name several options."""
        return self.form.takes_several

    def read(self, record: Mapping[str, Any]) -> Evidence | None:
        """Return the evidence in a key's record, or None if the record is not in chexqa's form."""
        try:
            return self.evidence.read(record)
        except ValueError:
            return None


_ALL = (
    Kind("detection", 1, "coarse", 1, "single", evidence.LesionEvidence,
         "is the finding visible? Yes or no.", "detec-\ntion", ordered=True, yes_no=True),
    Kind("contour_evaluation", 2, "fine", 2, "single", evidence.OutlineEvidence,
         "does the outline shown need a major revision? Yes if the outline was altered.", "con-\ntour", ordered=True,
         yes_no=True, drawn_anew=True),
    Kind("revision_expansion", 3, "fine", 3, "multi", evidence.PointsEvidence,
         "at which coloured points must the outline move outwards? Any number of points, or none.", "ex-\npand",
         points="outside", drawn_anew=True),
    Kind("revision_contraction", 4, "fine", 3, "multi", evidence.PointsEvidence,
         "at which of the same points must the outline move inwards?", "con-\ntract", points="inside",
         drawn_anew=True),
    Kind("revision_result", 5, "fine", 3, "single", evidence.ResultEvidence,
         "which of four other outlines fits best? One has no error. The other three have a first set of errors, a "
         "second set, or both.", "re-\nsult", drawn_anew=True),
    Kind("distribution", 6, "semantic", 4, "single", evidence.ZonesEvidence,
         "in how many of the six lung zones does the finding take up a notable part?", "distri-\nbution", ordered=True),
    Kind("location", 7, "semantic", 4, "multi", evidence.PlacesEvidence,
         "in which of three named parts of the lungs is the finding? Any number of parts, or none.", "loca-\ntion",
         drawn_anew=True),
    Kind("severity", 8, "semantic", 4, "single", evidence.LungEvidence,
         "what share of the named lung does the finding cover: under a third, up to two thirds, or more?",
         "sever-\nity", ordered=True),
    Kind("comparison", 9, "semantic", 4, "single", evidence.LungsEvidence,
         "is the finding larger in one lung, and if so, in which?", "compa-\nrison"),
    Kind("grid_cell", 1, None, None, "cell", evidence.CellsEvidence,
         "which cell of an 8 x 8 grid represents the finding best? Every cell that is covered enough is a hit.", "grid",
         ordered=True),
)  # fmt: skip
KINDS: dict[str, Kind] = {kind.name: kind for kind in _ALL}
GRID_CELL = "grid_cell"
_LAST_ANEW = max(kind.seq for kind in _ALL if kind.drawn_anew)
# The kinds of a fresh seed: those that are drawn anew, and those that a conversation asks before them.
FRESH_KINDS = frozenset(kind.name for kind in _ALL if kind.stage is not None and kind.seq <= _LAST_ANEW)


def kind_order(names: Iterable[str]) -> list[str]:
    """Return all of chexqa's own kinds in their order, then the other ``names``, sorted."""
    return [*KINDS, *sorted(set(names) - KINDS.keys())]
