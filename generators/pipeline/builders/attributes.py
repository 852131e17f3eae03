"""Builders of items on the lesion's attributes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from chexqa.contract.evidence import Evidence, LungEvidence, LungsEvidence, PlacesEvidence, ZonesEvidence
from chexqa.contract.items import DOUBTFUL_LUNGS, PREDICTED_LUNGS, Option
from chexqa.contract.kinds import Kind
from chexqa.generators.pipeline.builders.item_builder import ItemBuilder, numbered
from chexqa.generators.pipeline.builders.registry import CaseToBuild, builds
from chexqa.generators.pipeline.survey import AttributeSurvey

Parts = tuple[list[Option], Evidence]


def _zones(builder: ItemBuilder, kind: Kind, found: AttributeSurvey) -> Parts:
    return builder.words(kind, "one", "two", "three", "four"), ZonesEvidence(
        involved=found.judged.involved,
        union=found.judged.measures.union,
        components=found.judged.measures.components,
        filled_most=found.judged.by_small_components,
    )


def _places(builder: ItemBuilder, kind: Kind, found: AttributeSurvey) -> Parts:
    shown = found.drawn.location or ()
    options = numbered([*(builder.bank["regions"][name] for name in shown), builder.texts(kind)["none"]])
    return options, PlacesEvidence(
        shown=shown,
        involved=found.judged.involved,
        union=found.judged.measures.union,
        components=found.judged.measures.components,
        filled_most=found.judged.by_small_components,
    )


def _lung(builder: ItemBuilder, kind: Kind, found: AttributeSurvey) -> Parts:
    return builder.words(kind, "low", "middle", "high"), LungEvidence(
        side=found.drawn.severity,
        lung_share=found.judged.lung_share,
        lung_area=found.judged.lung_area,
        components=found.judged.measures.components,
    )


def _lungs(builder: ItemBuilder, kind: Kind, found: AttributeSurvey) -> Parts:
    return builder.words(kind, *found.drawn.comparison), LungsEvidence(
        lung_share=found.judged.lung_share,
        lung_area=found.judged.lung_area,
        components=found.judged.measures.components,
    )


def _attribute(make: Callable[[ItemBuilder, Kind, AttributeSurvey], Parts], case: CaseToBuild, kind: Kind) -> None:
    """Add an attribute item to a case whose attributes were measured."""
    recipe, perception = case.perception, case.survey.perception
    if recipe is None or perception is None or perception.attributes is None or case.path in (None, "lesion_free"):
        return
    found = perception.attributes
    right = found.right.get(kind.name)
    if right is None or (recipe.stable_only and not found.stable[kind.name]):
        return
    options, evidence = make(case.builder, kind, found)
    case.builder.ask(
        kind,
        options,
        right,
        turn=[],
        alone=[case.radiograph],
        evidence=evidence,
        difficulty={"margin": found.margin[kind.name]},
        stable=found.stable[kind.name],
        flags=(DOUBTFUL_LUNGS,) * bool(case.survey.lung_doubts) + (PREDICTED_LUNGS,) * case.survey.lungs_predicted,
        side=case.builder.bank["sides"][found.drawn.severity],
    )


for _name, _make in (("distribution", _zones), ("location", _places), ("severity", _lung), ("comparison", _lungs)):
    builds(_name)(partial(_attribute, _make))
