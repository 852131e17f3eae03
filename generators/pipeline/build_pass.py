"""Second pass over a case, after its question path is drawn: it makes the case's pictures, items and key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chexqa import question_banks
from chexqa.contract import codec
from chexqa.contract.cases import Case, load_case
from chexqa.contract.items import CaseKey, Path
from chexqa.contract.kinds import FRESH_KINDS, KINDS
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record
from chexqa.files.seeds import digest
from chexqa.generators.interventions.alter_case import CaseToAlter, alter
from chexqa.generators.interventions.fills import Fill
from chexqa.generators.interventions.partial_and_mirror import Asked
from chexqa.generators.pipeline.builders import attributes, contour, detection, grid, plugins
from chexqa.generators.pipeline.builders.item_builder import ItemBuilder, Store
from chexqa.generators.pipeline.builders.registry import BUILDERS, CaseToBuild
from chexqa.generators.pipeline.builders.rule_values import rule_words
from chexqa.generators.pipeline.recipe import GridRecipe, PerceptionRecipe, PlacesRecipe
from chexqa.generators.pipeline.survey import Survey
from chexqa.imaging.masks import from_rle
from chexqa.imaging.read import Gray, Mask, read_radiograph, to_working

# The import of each of these modules registers its builders.
BUILDER_MODULES = (detection, contour, attributes, grid)
# Other findings in a case's radiograph: a mask as run lengths, or a case whose mask is read when it is needed.
Others = tuple[Mapping[str, Any] | Case, ...]


def bench_case_id(seed: int, source_case_id: str) -> str:
    """Return a case's id in the benchmark; the id reveals nothing about the case's source."""
    return "c" + digest(seed, source_case_id).hex()[:12]


def _read_again(case: Case) -> Gray:
    """Return the radiograph of a case, which the first pass has read already.

    Raise an error that stops the generation if it can no longer be read.
    """
    # If the case were only left out, a disk that is lost meanwhile would give a smaller benchmark without a warning.
    try:
        return read_radiograph(case.image)
    except InputError as error:
        raise InputError(
            f"{case.manifest.name}, line {case.line}: {str(error).rstrip('.')}; the file could be read when the "
            "generation began: restore it, and run the same command to continue."
        ) from None


def build(
    case: Case, survey: Survey, path: Path | None, *, perception: PerceptionRecipe | None, grid: GridRecipe | None,
    bank: Record, seed: int, store: Store, controls: bool = False, questions: Sequence[plugins.Question] = (),
    places: PlacesRecipe | None = None, fresh: bool = False, fill: Fill | None = None, others: Others = (),
    layers: bool = False,
) -> Record:  # fmt: skip
    """Make the items of a case; return a record, ready for JSON.

    The record has ``case``, ``items`` and ``answers`` as in the benchmark's files, and ``interventions`` if altered
    pictures are made.

    - ``path``: the path of questions that the case gets; None for none.
    - ``questions``: the kinds from plugins, and the kinds that ask for places, which need the recipe ``places``.
    - ``fresh``: True to make only the kinds of question that a fresh seed asks.
    - ``fill``: how lesions are filled in altered pictures; None for no altered pictures.
    - ``others``: the other findings of the radiograph.
    """
    builder = ItemBuilder(
        bench_case_id(seed, case.case_id), case.finding, path, bank, store, controls,
        layers, plugins.texts_of(questions, bank["language"]), rule_words(bank, case.finding, perception, grid),
    )  # fmt: skip
    given = CaseToBuild(
        case.present, path, to_working(_read_again(case)), survey, perception, grid, builder, places
    )  # fmt: skip
    for name, kind in KINDS.items():
        if not fresh or name in FRESH_KINDS:
            BUILDERS[name](given, kind)
    for question in questions:
        question.ask(given)
    key = CaseKey(
        case_id=builder.case_id,
        source_case_id=case.case_id,
        patient_id=case.patient_id,
        study_id=case.study_id,
        path=path,
        sex=case.sex,
        age=case.age,
        view=case.view,
        access=case.access,
        measures={
            **({} if survey.size is None else codec.encode(survey.size)),
            "image_key": survey.image_key,
            "negative_kind": case.negative_kind,
            "source": case.source,
            "license": case.license,
            **case.acquisition,
            **({"lung_doubts": list(survey.lung_doubts)} if survey.lung_doubts else {}),
            "masks": survey.masks,
        },
    )
    return {
        "case": key.to_record(),
        "items": [item.to_record() for item in builder.items],
        "answers": [answer.to_record() for answer in builder.answers],
        **({} if fill is None else _altered(given, case, fill, seed, others)),
    }


def _altered(given: CaseToBuild, case: Case, fill: Fill, seed: int, others: Others) -> Record:
    """Return a record with the field ``interventions``; empty if the case has no finding or no detection item."""
    builder, perception = given.builder, given.survey.perception
    lesion = given.mask("lesion")
    if not case.present or lesion is None or not any(item.kind == "detection" for item in builder.items):
        return {}
    names = ("right_lung", "left_lung", "heart")
    masks = {name: mask for name in names if (mask := given.mask(name)) is not None}
    attributes = None if perception is None else perception.attributes
    rules = None if given.perception is None else given.perception.attributes
    asked = None if attributes is None or rules is None else Asked(attributes.drawn, dict(attributes.right), rules)
    words = question_banks.wordings(builder.bank["language"])
    to_alter = CaseToAlter(
        case.finding, given.working, masks | {"lesion": lesion}, _read_masks(others), builder.items, builder.answers,
        asked, None if words is None else words["mirror"],
    )  # fmt: skip
    return {"interventions": alter(to_alter, lambda image: builder.radiograph(image).image, fill, seed)}


def _read_masks(others: Others) -> list[Mask] | None:
    """Return the masks of the other findings at the working size, or None if one of them cannot be read."""
    found: list[Mask] = []
    for other in others:
        if not isinstance(other, Case):
            found.append(from_rle(other, "the survey of another finding"))
            continue
        try:
            mask = load_case(other).lesion
        except InputError:
            return None
        if mask is None:
            return None
        found.append(mask)
    return found
