"""First pass over a case: it checks the case, measures its masks, and chooses its outline's errors at random.

The result is a :class:`~chexqa.generators.pipeline.survey.Survey`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from chexqa.contract.anatomy_checks import doubts
from chexqa.contract.cases import Case, LoadedCase, image_key, is_lateral, load_case
from chexqa.contract.findings import FINDINGS
from chexqa.files.errors import InputError
from chexqa.files.seeds import stream
from chexqa.generators.attributes import attribute_keys, stability
from chexqa.generators.attributes import grid as localization
from chexqa.generators.attributes.attribute_keys import AttributeRules
from chexqa.generators.contour import plan as contour
from chexqa.generators.contour.field import allowed_field
from chexqa.generators.pipeline.builders.place_cases import place_survey
from chexqa.generators.pipeline.recipe import GridRecipe, PerceptionRecipe, PlacesRecipe
from chexqa.generators.pipeline.survey import AttributeSurvey, GridSurvey, LesionSize, PerceptionSurvey, Survey
from chexqa.imaging.anatomy import Lungs, grow_lungs, regions
from chexqa.imaging.mask_source import is_box
from chexqa.imaging.masks import to_rle
from chexqa.review.binding import shown_mask

Mask = npt.NDArray[np.bool_]


def lungs_of(loaded: LoadedCase) -> Lungs:
    """Return the masks of both lungs at the working size; a missing lung is all False."""
    empty = np.zeros(loaded.working.shape, bool)
    return Lungs(
        empty if loaded.right_lung is None else loaded.right_lung,
        empty if loaded.left_lung is None else loaded.left_lung,
    )


def empty_survey(case: Case, reason: str | None = None) -> Survey:
    """Return the survey of a case that gives no items, with the reason."""
    return Survey(case.case_id, case.finding, case.present, skipped=() if reason is None else ((None, reason),))


def left_out(case: Case, reason: str) -> Survey:
    """Return the survey of a case that gives no items although a recipe could ask about it."""
    survey = empty_survey(case, reason)
    if case.present:
        with suppress(InputError):
            # The hash of the pixels is kept, so that a copy of a radiograph with the finding is not used as one without
            # it.
            return replace(survey, image_key=image_key(case))
    return survey


def survey(
    case: Case, perception: PerceptionRecipe | None, grid: GridRecipe | None, seed: int, others: tuple[str, ...] = (),
    reviewed: bool = False, places: PlacesRecipe | None = None,
) -> Survey:  # fmt: skip
    """Measure one case, and return what the recipes need of it.

    - ``perception``, ``grid``, ``places``: the recipes; None for a recipe that is not used.
    - ``others``: the findings that the manifest gives as present in the same radiograph.
    - ``reviewed``: True if only masks that reviewers approved may be used. If the mask, the lungs or the radiograph
      changed afterwards, the case gets no questions, and its survey says why.
    """
    wants_perception = perception is not None and case.finding in perception.findings
    wants_grid = grid is not None and case.finding in grid.findings and case.present
    wants_places = places is not None and case.finding in places.findings
    if not wants_perception and not wants_grid and not wants_places:
        reason = f"no recipe asks about {case.finding}" + ("" if case.present else " where it is absent")
        return empty_survey(case, reason)
    try:
        loaded = load_case(case)
    except InputError as error:
        return left_out(case, str(error))
    if reviewed and case.present and case.review_seen not in (None, shown_mask(loaded).seen):
        return left_out(
            case, "its mask, lungs or radiograph changed after the mask was approved; review the mask again"
        )
    if is_lateral(case.view):  # the lungs lie where the rules on lungs do not expect them
        loaded = replace(loaded, right_lung=None, left_lung=None, source_anatomy={})
    skipped: list[tuple[str | None, str]] = []
    plan = None
    if wants_perception and perception is not None:
        drawn = _perception(loaded, perception, seed, others)
        if isinstance(drawn, str):
            skipped.append(("perception", drawn))
        else:
            plan = drawn
    return replace(
        empty_survey(case),
        image_key=loaded.image_key,
        perception=plan,
        grid=_grid(loaded, grid) if wants_grid and grid is not None else None,
        places=place_survey(loaded, places) if wants_places and places is not None else None,
        size=_size(loaded),
        masks=_masks(loaded),
        skipped=tuple(skipped),
        lung_doubts=tuple(_lung_doubts(loaded)) if case.present else (),
        lungs_predicted=any(name != "heart" for name in case.predicted or ()),
    )


def _lung_doubts(loaded: LoadedCase) -> list[str]:
    lungs = lungs_of(loaded)
    return doubts(lungs.right, lungs.left)


def _size(loaded: LoadedCase) -> LesionSize | None:
    if loaded.lesion is None or loaded.source_mask is None:
        return None
    height, width = loaded.lesion.shape
    rows, columns = map(int, loaded.source_mask.shape)
    share = round(float(np.count_nonzero(loaded.lesion)) / (height * width), 6)
    return LesionSize(share, (rows, columns), (height, width))


def _masks(loaded: LoadedCase) -> dict[str, Any]:
    masks = {
        "lesion": loaded.lesion,
        "right_lung": loaded.right_lung,
        "left_lung": loaded.left_lung,
        "heart": loaded.heart,
    }
    return {name: to_rle(mask) for name, mask in masks.items() if mask is not None}


def _why_not_free(case: Case, recipe: PerceptionRecipe, others: tuple[str, ...]) -> str | None:
    """Return the reason why a radiograph without the finding cannot serve as lesion-free; None if it can."""
    if case.negative_kind not in recipe.negative_kinds:
        return "the finding is absent but another finding is present, and the recipe takes normal radiographs only"
    if recipe.exclude_relatives and case.negative_kind == "other":
        if not others:
            return f"another finding is present that the manifest does not name, and it may be taken for {case.finding}"
        relatives = sorted(set(others) & set(FINDINGS[case.finding].relatives))
        if relatives:
            return f"{relatives[0]} is present, which may be taken for {case.finding}"
    return None


def _perception(
    loaded: LoadedCase, recipe: PerceptionRecipe, seed: int, others: tuple[str, ...]
) -> PerceptionSurvey | str:
    """Return the survey for the items of any path, or the reason why the case cannot be on a path."""
    case = loaded.case
    if is_box(case.mask):
        return "its mask is a box, but the questions need an outline"
    if case.finding in recipe.pa_only and case.view != "PA":
        return f"the recipe asks about {case.finding} on PA views only, and the view is {case.view or 'not given'}"
    if not case.present:
        return _why_not_free(case, recipe, others) or PerceptionSurvey()
    assert loaded.lesion is not None
    field = allowed_field(loaded)
    if isinstance(field, str):
        return field
    attributes = None
    if FINDINGS[case.finding].attributes:
        drawn = draw_attributes(
            loaded.lesion, lungs_of(loaded), recipe.attributes, stream(seed, case.case_id, "attributes")
        )
        if isinstance(drawn, str):
            return drawn
        attributes = drawn
    rng = stream(seed, case.case_id, "contour")
    depths: list[float | None] = [recipe.depths[place] for place in rng.permutation(len(recipe.depths))] or [None]
    plan: contour.ContourPlan | str = ""
    for depth in depths:  # a small lesion has no room for deep edits
        plan = contour.draw_plan(loaded.lesion, field, recipe.deformation, recipe.points, rng, depth)
        if not isinstance(plan, str):
            return PerceptionSurvey(attributes, plan)
    return str(plan)


def draw_attributes(
    lesion: Mask, lungs: Lungs, rules: AttributeRules, rng: np.random.Generator
) -> AttributeSurvey | str:
    """Return the survey of the attribute questions, or the reason why these questions cannot be asked."""
    measures = attribute_keys.measure(lesion, lungs, rules)
    clearance = {}
    if rules.rule == "union":
        clearance = attribute_keys.clearances(lesion, regions(grow_lungs(lungs, lesion)))
    judged = attribute_keys.judge(measures, rules)
    drawn = attribute_keys.draw(judged, clearance, rules, rng)
    if isinstance(drawn, str):
        return drawn
    right = attribute_keys.right_options(drawn, judged, rules)
    stable = stability.stable_attributes(lesion, lungs, drawn, right, rules)
    return AttributeSurvey(judged, drawn, right, stable, attribute_keys.margins(drawn, judged, rules))


def _grid(loaded: LoadedCase, recipe: GridRecipe) -> GridSurvey:
    """Return the grid's survey (coverage and plausible cells), from masks in pixels of the source picture."""
    assert loaded.source_mask is not None
    parts = recipe.plausible_anatomy.get(loaded.case.finding)
    plausible = None
    if parts is not None:
        plausible = localization.plausible_cells(parts, loaded.source_anatomy, loaded.source_mask)
    return GridSurvey(
        tuple(localization.coverage(loaded.source_mask)),
        None if plausible is None else tuple(plausible),
        stability.stable_grid(loaded.source_mask, recipe.hit_share),
    )
