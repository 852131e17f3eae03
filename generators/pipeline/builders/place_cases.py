"""Questions that ask for a place: the kinds that a case gets, and the draw of the cases to ask about."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from chexqa.contract.cases import LoadedCase
from chexqa.eval.places.target import make_target
from chexqa.files.seeds import stream
from chexqa.generators.pipeline.case_paths import Candidate, draw_lesion_free
from chexqa.generators.pipeline.recipe import PlacesRecipe
from chexqa.generators.pipeline.survey import PlacesSurvey, Survey
from chexqa.imaging.mask_source import is_box

HEART_WIDTH, OUTLINE_OF = "heart_width", "outline_of"
BOXES = ("box_around", "boxes_around")


def place_survey(loaded: LoadedCase, recipe: PlacesRecipe) -> PlacesSurvey | None:
    """Return the kinds of questions on places that a case gets; None if it gets none."""
    finding, lesion = loaded.case.finding, loaded.lesion
    sides = [lung for lung in (loaded.right_lung, loaded.left_lung) if lung is not None and lung.any()]
    left_out: set[str] = set()
    if finding in recipe.diffuse or (finding in recipe.diffuse_in_both_lungs and _is_in_both(loaded)):
        left_out.update(BOXES)
    if loaded.case.present and is_box(loaded.case.mask):
        left_out.add(OUTLINE_OF)
    has_width = len(sides) == 2 and loaded.heart is not None and loaded.heart.any()
    if finding in recipe.heart:
        left_out.add("boxes_around")
    if finding not in recipe.heart or not has_width:
        left_out.add(HEART_WIDTH)
    # A diffuse finding has no box, a mask that is a box has no outline, and the heart's width needs heart and lungs.
    kinds = tuple(kind for kind in recipe.kinds if kind not in left_out)
    if not kinds or (loaded.case.present and (lesion is None or not lesion.any())):
        return None
    share = 0.0
    if lesion is not None and loaded.case.present and sides:
        lungs = np.logical_or.reduce(sides)
        near = make_target({"lesion": lesion}).near
        share = round(float(np.count_nonzero(near & lungs) / np.count_nonzero(lungs)), 6)
    return PlacesSurvey(kinds, share)


def kinds_of_present(present: Iterable[tuple[str, tuple[str, ...]]]) -> dict[str, set[str]]:
    """Return, for each finding, the kinds of questions that at least one case with this finding gets.

    ``present`` has a pair for each drawn case in which a finding is present: the finding, and the kinds of questions
    that the case gets.
    """
    found: dict[str, set[str]] = {}
    for finding, kinds in present:
        found.setdefault(finding, set()).update(kinds)
    return found


def with_place_kinds(survey: Survey, of_present: Mapping[str, set[str]]) -> Survey:
    """Return the survey of a case; if the case lacks the finding, leave out kinds that no case with the finding gets.

    These kinds stay: ``heart_width``, and those that ``of_present`` (the result of :func:`kinds_of_present`) lists for
    the finding.
    """
    if survey.places is None or survey.present:
        return survey
    # A kind that only cases without the finding are asked would always have the answer "nowhere". The heart's width
    # stays, because every case has a heart.
    asked = of_present.get(survey.finding, set())
    kinds = tuple(kind for kind in survey.places.kinds if kind in asked or kind == HEART_WIDTH)
    return replace(survey, places=replace(survey.places, kinds=kinds))


def _is_in_both(loaded: LoadedCase) -> bool:
    """Return True if a lesion has pixels in both lungs."""
    lungs = (loaded.right_lung, loaded.left_lung)
    return loaded.lesion is not None and all(lung is not None and bool((lung & loaded.lesion).any()) for lung in lungs)


def draw_place_cases(candidates: Iterable[Candidate], recipe: PlacesRecipe, seed: int) -> set[str]:
    """Draw the cases to ask about, and return their ids: all cases with a finding, and some cases without one."""
    rows = sorted(candidates, key=lambda row: row.source_case_id)
    present = [row for row in rows if row.present]
    pools: dict[str, list[Candidate]] = {}
    for finding in recipe.findings:
        pool = [row for row in rows if row.finding == finding and not row.present]
        order = stream(seed, "places", finding).permutation(len(pool))
        shown = {row.image_key for row in present if row.finding == finding}
        pools[finding] = [pool[index] for index in order if pool[index].image_key not in shown]
    wanted = {
        finding: min(
            len({row.image_key for row in pool}),
            math.ceil(recipe.absent_per_present * sum(row.finding == finding for row in present)),
        )
        for finding, pool in pools.items()
    }
    absent = draw_lesion_free(pools, wanted, [row.image_key for row in present])
    return {row.source_case_id for row in (*present, *(row for drawn in absent.values() for row in drawn))}
