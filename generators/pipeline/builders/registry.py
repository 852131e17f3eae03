"""Class of the builders' input, and registry of the builders, keyed by kind of question."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from chexqa.contract.cases import STRUCTURES
from chexqa.contract.items import Path, Picture
from chexqa.contract.kinds import Kind
from chexqa.generators.pipeline.builders.item_builder import ItemBuilder
from chexqa.generators.pipeline.recipe import GridRecipe, PerceptionRecipe, PlacesRecipe
from chexqa.generators.pipeline.survey import Survey
from chexqa.imaging.masks import from_rle
from chexqa.imaging.read import Gray, Mask

MASKS = ("lesion", *STRUCTURES)


@dataclass(frozen=True, eq=False)
class CaseToBuild:
    """Input of the builders: a case with its survey.

    - ``working``: the radiograph at the working size, ``(H, W)``.
    - ``survey``: the result of the first pass.
    - ``perception``, ``grid``, ``places``: the recipes of these tasks; None for a task that the benchmark does not
      have. ``places`` is also None if the case was not drawn for questions on places.
    - ``builder``: the collector of the items.
    """

    present: bool
    path: Path | None
    working: Gray
    survey: Survey
    perception: PerceptionRecipe | None
    grid: GridRecipe | None
    builder: ItemBuilder
    places: PlacesRecipe | None = None
    shared: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def radiograph(self) -> Picture:
        """Return the radiograph as a picture of the benchmark, stored at the first access."""
        return self.builder.radiograph(self.working)

    def mask(self, name: str) -> Mask | None:
        """Return a mask at the working size, ``(H, W)`` bool; None if the case lacks it.

        ``name`` is ``lesion`` (whatever the finding), ``right_lung``, ``left_lung`` or ``heart``. Raise ``ValueError``
        for any other name.
        """
        if name not in MASKS:
            raise ValueError(f"there is no mask '{name}' (known: {', '.join(MASKS)})")
        runs = self.survey.masks.get(name)
        return None if runs is None else from_rle(runs, f"the survey of {self.survey.source_case_id}")

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """Return the result of ``make``; it is computed once for all builders that use the same ``name``."""
        if name not in self.shared:
            self.shared[name] = make()
        return self.shared[name]


Builder = Callable[[CaseToBuild, Kind], None]
BUILDERS: dict[str, Builder] = {}


def builds(*kinds: str) -> Callable[[Builder], Builder]:
    """Return a decorator that registers a function as the builder of the given kinds.

    A builder adds an item to a case, or no item.
    """

    def register(builder: Builder) -> Builder:
        BUILDERS.update(dict.fromkeys(kinds, builder))
        return builder

    return register
