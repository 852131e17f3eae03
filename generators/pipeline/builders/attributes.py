"""Items on the lesion's attributes, as far as they were drawn and the recipe releases them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from chexqa.contract.evidence import Component, Evidence, LungEvidence, LungsEvidence, PlacesEvidence, ZonesEvidence
from chexqa.contract.items import Option
from chexqa.contract.kinds import Kind
from chexqa.files.jsonio import Record
from chexqa.generators.attributes.measure import AttributeRules, Attributes, Judgement, Measures, judge, margins
from chexqa.generators.pipeline.builders.item_builder import ItemBuilder, numbered
from chexqa.generators.pipeline.builders.registry import CaseToBuild, builds


@dataclass(frozen=True)
class Measured:
    """The measures, drawn questions and judgement of one case, and each question's distance from a threshold."""

    record: Record
    drawn: Attributes
    measures: Measures
    judged: Judgement
    margin: dict[str, float]

    @property
    def components(self) -> list[Component]:
        """The lesion's parts."""
        return [Component(**part) for part in self.measures.components]


Parts = tuple[list[Option], Evidence]


def _measured(case: CaseToBuild, rules: AttributeRules) -> Measured:
    record = case.surveyed["perception"]["attributes"]
    drawn, measures = Attributes.from_record(record["drawn"]), Measures.from_record(record["measures"])
    return Measured(record, drawn, measures, judge(measures, rules), margins(drawn, measures, rules))


def _zones(builder: ItemBuilder, kind: Kind, found: Measured) -> Parts:
    return builder.words(kind, "one", "two", "three", "four"), ZonesEvidence(
        involved=found.judged.involved, union=found.measures.union, components=found.components
    )


def _places(builder: ItemBuilder, kind: Kind, found: Measured) -> Parts:
    shown = found.drawn.location or ()
    options = numbered([*(builder.bank["regions"][name] for name in shown), builder.texts(kind)["none"]])
    return options, PlacesEvidence(
        shown=shown,
        involved=found.judged.involved,
        union=found.measures.union,
        components=found.components,
    )


def _lung(builder: ItemBuilder, kind: Kind, found: Measured) -> Parts:
    return builder.words(kind, "low", "middle", "high"), LungEvidence(
        side=found.drawn.severity,
        lung_share=found.judged.lung_share,
        lung_area=found.judged.lung_area,
        components=found.components,
    )


def _lungs(builder: ItemBuilder, kind: Kind, found: Measured) -> Parts:
    return builder.words(kind, *found.drawn.comparison), LungsEvidence(
        lung_share=found.judged.lung_share,
        lung_area=found.judged.lung_area,
        components=found.components,
    )


def _attribute(make: Callable[[ItemBuilder, Kind, Measured], Parts], case: CaseToBuild, kind: Kind) -> None:
    """Ask a case with a lesion whose attributes were measured."""
    recipe = case.perception
    if recipe is None or case.path in (None, "lesion_free") or case.surveyed["perception"]["attributes"] is None:
        return
    found: Measured = case.once("attributes", partial(_measured, case, recipe.attributes))
    right, stable = found.record["right"].get(kind.name), found.record["stable"].get(kind.name)
    if right is None or (recipe.stable_only and not stable):
        return
    options, evidence = make(case.builder, kind, found)
    case.builder.ask(
        kind,
        options,
        tuple(right),
        turn=[],
        alone=[case.radiograph],
        evidence=evidence,
        difficulty={"margin": found.margin[kind.name]},
        stable=stable,
        side=case.builder.bank["sides"][found.drawn.severity],
    )


for _name, _make in (("distribution", _zones), ("location", _places), ("severity", _lung), ("comparison", _lungs)):
    builds(_name)(partial(_attribute, _make))
