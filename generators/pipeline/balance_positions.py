"""Positions of correct options among options without a natural order, balanced over the whole benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from chexqa.files.seeds import stream
from chexqa.generators.attributes.attribute_keys import COMPARISON
from chexqa.generators.pipeline.recipe import PerceptionRecipe
from chexqa.generators.pipeline.survey import AttributeSurvey, Survey


def correct_name(attributes: AttributeSurvey, recipe: PerceptionRecipe) -> str | None:
    """Return the name of the correct option of a case's comparison item.

    The result is None if the case gets no comparison item, or if the recipe keeps the options in their natural order.
    """
    if "comparison" not in attributes.right or recipe.attributes.rule != "union":
        return None
    if recipe.stable_only and not attributes.stable["comparison"]:
        return None
    return _right_name(attributes)


def _right_name(attributes: AttributeSurvey) -> str:
    """Return the name of the correct option of the comparison item."""
    return attributes.drawn.comparison[attributes.right["comparison"][0] - 1]


def assign_positions(rights: Mapping[str, tuple[str, str]], seed: int) -> dict[str, int]:
    """Return the position of each case's correct option, from 1, keyed by case id.

    ``rights`` has the name of each case's correct option, and the case's finding, keyed by case id. All positions are
    nearly equally frequent.
    """
    rng = stream(seed, "comparison places")
    ordered = sorted(rights)
    shuffled = [ordered[index] for index in rng.permutation(len(ordered))]
    # If each case drew its position, one position would be more frequent by chance, and a model that prefers it would
    # score higher.
    places = rng.permutation(len(COMPARISON)) + 1
    order = sorted(shuffled, key=lambda case_id: rights[case_id])
    return {case_id: int(places[number % len(places)]) for number, case_id in enumerate(order)}


def with_position(survey: Survey, place: int | None) -> Survey:
    """Return a survey in which the comparison item's correct option has the number ``place``; None: no change."""
    if place is None or survey.perception is None or survey.perception.attributes is None:
        return survey
    attributes = survey.perception.attributes
    right = _right_name(attributes)
    names = [name for name in attributes.drawn.comparison if name != right]
    names.insert(place - 1, right)
    moved = replace(
        attributes,
        drawn=replace(attributes.drawn, comparison=tuple(names)),
        right={**attributes.right, "comparison": (place,)},
    )
    return replace(survey, perception=replace(survey.perception, attributes=moved))
