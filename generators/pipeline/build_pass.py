"""Second pass over a case, after its question path is drawn: it makes the case's pictures, items and key."""

from __future__ import annotations

from collections.abc import Sequence

from chexqa.contract import codec
from chexqa.contract.cases import Case
from chexqa.contract.items import CaseKey, Path
from chexqa.contract.kinds import FRESH_KINDS, KINDS
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record
from chexqa.files.seeds import digest
from chexqa.generators.pipeline.builders import attributes, contour, detection, grid, plugins
from chexqa.generators.pipeline.builders.item_builder import ItemBuilder, Store
from chexqa.generators.pipeline.builders.registry import BUILDERS, CaseToBuild
from chexqa.generators.pipeline.builders.rule_values import rule_words
from chexqa.generators.pipeline.recipe import GridRecipe, PerceptionRecipe, PlacesRecipe
from chexqa.generators.pipeline.survey import Survey
from chexqa.imaging.read import Gray, read_radiograph, to_working

# The import of each of these modules registers its builders.
BUILDER_MODULES = (detection, contour, attributes, grid)


def bench_case_id(seed: int, source_case_id: str) -> str:
    """Return a case's id in the benchmark; the id reveals nothing about the case's source."""
    return "c" + digest(seed, source_case_id).hex()[:12]


def _read_again(case: Case) -> Gray:
    """Return the radiograph of a case, which the survey has read before.

    A radiograph that disappeared since then stops the generation. Otherwise a lost disk would silently make a smaller
    benchmark.
    """
    try:
        return read_radiograph(case.image)
    except InputError as error:
        raise InputError(
            f"{case.manifest.name}, line {case.line}: {str(error).rstrip('.')}, although an earlier pass read it; "
            "restore the file and run the same command to continue."
        ) from None


def build(
    case: Case, survey: Survey, path: Path | None, *, perception: PerceptionRecipe | None, grid: GridRecipe | None,
    bank: Record, seed: int, store: Store, controls: bool = False, questions: Sequence[plugins.Question] = (),
    places: PlacesRecipe | None = None, fresh: bool = False,
) -> Record:  # fmt: skip
    """Make the items of a case: the items of its ``path`` (if it has one), the grid item (if any), and items of
    ``questions``.

    ``questions`` are the kinds from outside the package, and the kinds on places, which need the recipe ``places``.
    ``fresh``: only the kinds of a fresh seed are made.
    Returns a record ready for JSON with ``case``, ``items`` and ``answers`` as in the benchmark's files.
    """
    builder = ItemBuilder(
        bench_case_id(seed, case.case_id), case.finding, path, bank, store, controls,
        plugins.texts_of(questions, bank["language"]), rule_words(bank, case.finding, perception, grid),
    )  # fmt: skip
    given = CaseToBuild(
        case.present, path, to_working(_read_again(case)), survey, perception, grid, builder, places
    )  # fmt: skip
    for name, kind in KINDS.items():
        if not fresh or name in FRESH_KINDS:
            BUILDERS[name](given, kind)
    for question in questions:
        question.builder(given, question.kind)
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
    }
