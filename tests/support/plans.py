"""Plans of contour items over many shapes, drawn once for all tests that look at them."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import NamedTuple

import numpy as np
import shapes

from chexqa.generators.contour import plan as contour
from chexqa.generators.contour.plan import ContourPlan
from chexqa.generators.pipeline import recipe
from chexqa.generators.pipeline.recipe import PerceptionRecipe


def perception(name: str = "chexpercept") -> PerceptionRecipe:
    """Return a perception recipe that comes with chexqa."""
    loaded = recipe.load(name)
    assert isinstance(loaded, PerceptionRecipe)
    return loaded


RECIPE = perception()
SEEDS = range(2)
MANY_SEEDS = range(4)


class Drawn(NamedTuple):
    """A lesion, the pixels that its outline may cover, and its plan."""

    name: str
    optimal: shapes.Mask
    field: shapes.Mask
    plan: ContourPlan

    @property
    def is_square(self) -> bool:
        """Return True if the four pictures are a two-by-two of errors.

        Otherwise each picture revises the suboptimal mask at one place.
        """
        first, *others = (frozenset(errors) for errors in self.plan.results)
        return not first ^ others[0] ^ others[1] ^ others[2]

    def altered_by(self, number: int) -> shapes.Mask:
        """Return the mask on which an edit was drawn."""
        by_error = self.is_square or number in self.plan.true
        return self.optimal if by_error else self.plan.suboptimal(self.optimal)


def draw(name: str, optimal: shapes.Mask, field: shapes.Mask, seed: int) -> Drawn | str:
    """Return a random plan for a mask, or the reason why there is none."""
    plan = contour.draw_plan(optimal, field, RECIPE.deformation, RECIPE.points, np.random.default_rng(seed))
    return f"{name}: {plan}" if isinstance(plan, str) else Drawn(name, optimal, field, plan)


@functools.cache
def of_drawn_shapes() -> tuple[Drawn, ...]:
    """Return a few plans for every kind of lesion; every second large lesion has a narrow field.

    Small lesions (a third of a percent of the picture) do not always have room for a plan, so the first ones with a
    plan are taken.
    """
    plans = []
    for kind in shapes.KINDS:
        found = 0
        for seed in MANY_SEEDS if kind == "small" else SEEDS:
            rng = np.random.default_rng(seed)
            optimal = shapes.lesion_of_kind(rng, kind)
            field = np.ones_like(optimal)
            if seed % 2 and kind != "small":
                field = optimal | shapes.blob(rng, optimal.shape, (512, 400), (420, 300))
            drawn = draw(f"{kind} {seed}", optimal, field, seed)
            if kind == "small" and not isinstance(drawn, Drawn):
                continue
            assert isinstance(drawn, Drawn), drawn
            plans.append(drawn)
            found += 1
            if found == len(SEEDS):
                break
    return tuple(plans)


@functools.cache
def of_real_shapes(folder: Path) -> tuple[Drawn, ...]:
    """Return plans for some of ChestX-Det's lesions that cover half a percent of the picture or more."""
    plans = []
    for name, optimal in shapes.chestx_det(folder, 0.005, 90):
        drawn = draw(name, optimal, np.ones_like(optimal), seed=3)
        assert isinstance(drawn, Drawn), drawn
        plans.append(drawn)
    return tuple(plans)
