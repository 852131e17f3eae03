"""Items that ask for a place: a point, boxes, an outline or the heart's width.

Items on a test marker at a known place show whether a model's coordinates are read correctly.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from chexqa import question_banks
from chexqa.chances import Chance
from chexqa.contract.declared import DeclaredEvidence, measured
from chexqa.contract.forms import NOWHERE, SOMEWHERE, FormName
from chexqa.contract.items import MARKER, CaseKey
from chexqa.contract.kinds import Kind
from chexqa.eval.places import markers
from chexqa.eval.places.target import Target, make_target
from chexqa.files.jsonio import Record
from chexqa.generators.pipeline.builders.item_builder import ItemBuilder, Store
from chexqa.generators.pipeline.builders.plugins import Question
from chexqa.generators.pipeline.builders.registry import CaseToBuild
from chexqa.generators.pipeline.recipe import PlacesRecipe
from chexqa.imaging.masks import to_rle

_SIDE = 1_000_000


@dataclass(frozen=True, kw_only=True)
class PlaceEvidence(DeclaredEvidence):
    """The place of a finding: the box around its areas, and the number of areas large enough for a box.

    All numbers are 0 if the finding is absent.
    """

    words = "the box {x0}, {y0} to {x1}, {y1} of a picture of {width} x {height} px holds {areas} area(s)"
    width: int = measured("width of the picture, in pixels", 1, _SIDE)
    height: int = measured("height of the picture, in pixels", 1, _SIDE)
    x0: int = measured("left side of the box, in pixels", 0, _SIDE)
    y0: int = measured("upper side of the box, in pixels", 0, _SIDE)
    x1: int = measured("right side of the box, in pixels", 0, _SIDE)
    y1: int = measured("lower side of the box, in pixels", 0, _SIDE)
    areas: int = measured("areas that count, each with a box of its own", 0, _SIDE)
    headline: bool = measured("whether the item counts in the headline of places")


def _kind(name: str, form: FormName, about: str, heading: str) -> Kind:
    return Kind(name, 1, None, None, form, PlaceEvidence, about, heading, ordered=True)


KINDS = {
    kind.name: kind
    for kind in (
        _kind("point_at", "point", "a point inside the finding, or nowhere", "point"),
        _kind("box_around", "box", "the smallest box round the finding, or nowhere", "box"),
        _kind("boxes_around", "boxes", "a box round each area of the finding, or nowhere", "boxes"),
        _kind("outline_of", "outline", "the finding's outline, or nowhere", "out-\nline"),
        _kind("heart_width", "width", "the two ends of the heart's width", "heart\nwidth"),
        _kind("marker_point", "point", "the corner of a test marker on a plain picture, which proves the coordinate "
        "system of points",
              "mark"),
        _kind("marker_box", "box", "the box round a test marker on a plain picture, which proves the coordinate "
        "system of boxes",
              "mark\nbox"),
    )
}  # fmt: skip


def questions(recipe: PlacesRecipe, language: str) -> list[Question]:
    """Return a question for each kind in the recipe, then one for each kind of test marker that these kinds need."""
    words = question_banks.place_wordings(language)
    marks = [name for name, form in markers.KINDS.items() if any(_needs(kind, form) for kind in recipe.kinds)]
    return [
        Question(KINDS[name], _build if name in recipe.kinds else _never, {language: _texts(words, name)})
        for name in (*recipe.kinds, *marks)
    ]


def _needs(kind: str, form: str) -> bool:
    """Return True if test markers of this form prove a kind's coordinates.

    Box markers prove boxes, and point markers prove all other forms.
    """
    return (KINDS[kind].form_name in ("box", "boxes")) == (form == "box")


def _texts(words: Record, kind: str) -> Record:
    options = {name: words[name] for name in ("somewhere", "nowhere")}
    return {"question": words["questions"][kind], **options}


def _never(case: CaseToBuild, kind: Kind) -> None:
    """Build no item: test markers belong to no case."""


def _build(case: CaseToBuild, kind: Kind) -> None:
    """Add a question on a place to a case that was drawn for places, if the case's survey lists the kind."""
    survey = case.survey.places
    if case.places is None or survey is None or kind.name not in survey.kinds:
        return
    present = case.present or kind.form_name == "width"  # the heart is always there
    target = case.once("place", partial(_target, case)) if case.present else None
    hit = survey.hit_share if kind.form_name == "point" else 0.0
    chance = (hit if kind.form_name != "width" else 0.0) / 2 if present else 0.5
    height, width = case.working.shape
    counts = kind.form_name != "width" and case.survey.finding not in case.places.heart
    case.builder.ask(
        kind, case.builder.words(kind, "somewhere", "nowhere"), (SOMEWHERE if present else NOWHERE,),
        turn=[case.radiograph], alone=[case.radiograph], evidence=_evidence(target, (width, height), counts),
        difficulty={}, chance=Chance(chance),
    )  # fmt: skip


def _target(case: CaseToBuild) -> Target:
    lesion = case.mask("lesion")
    assert lesion is not None
    return make_target({"lesion": lesion})


def _evidence(target: Target | None, size: tuple[int, int], headline: bool) -> PlaceEvidence:
    box = [0, 0, 0, 0] if target is None else [int(side) for side in target.box]
    return PlaceEvidence(
        width=size[0], height=size[1], x0=box[0], y0=box[1], x1=box[2], y1=box[3],
        areas=0 if target is None else len(target.boxes), headline=headline,
    )  # fmt: skip


def marker_records(names: Iterable[tuple[str, str]], asked: Iterable[Question], bank: Record, seed: int,
                   store: Store) -> dict[str, Record]:  # fmt: skip
    """Return a record for each test marker, with its case, items and answers; the keys are the markers' source ids.

    The records have the same form as those of built cases.

    - ``names``: each marker's source id and its case id in the benchmark.
    - ``asked``: the benchmark's questions; only the questions about test markers are used.
    - ``store``: the function that saves the markers' pictures (:class:`ItemBuilder`).
    """
    kinds = [(one.kind, one.texts[bank["language"]]) for one in asked if one.kind.name in markers.KINDS]
    made: dict[str, Record] = {}
    for number, (source, case_id) in enumerate(names):
        mark = markers.draw(seed, number)
        target = make_target({"lesion": mark.mask})
        height, width = mark.mask.shape
        builder = ItemBuilder(
            case_id, MARKER, None, bank, store, more_texts={kind.name: texts for kind, texts in kinds}
        )
        picture = builder.radiograph(mark.picture)
        for kind, _ in kinds:
            builder.ask(
                kind, builder.words(kind, "somewhere", "nowhere"), (SOMEWHERE,), turn=[picture], alone=[picture],
                evidence=_evidence(target, (width, height), False), difficulty={}, chance=Chance(0.0),
            )  # fmt: skip
        key = CaseKey(
            case_id=case_id, source_case_id=source, patient_id=None, study_id=None, path=None, sex=None, age=None,
            view=None, access="open", measures={"masks": {"lesion": to_rle(mark.mask)}},
        )  # fmt: skip
        made[source] = {
            "case": key.to_record(),
            "items": [item.to_record() for item in builder.items],
            "answers": [answer.to_record() for answer in builder.answers],
        }
    return made
