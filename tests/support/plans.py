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
    """A perception recipe of chexqa's."""
    loaded = recipe.load(name)
    assert isinstance(loaded, PerceptionRecipe)
    return loaded


RECIPE = perception()
SEEDS = range(2)
MANY_SEEDS = range(4)


class Drawn(NamedTuple):
    """A lesion, where its outline may lie, and its plan."""

    name: str
    optimal: shapes.Mask
    field: shapes.Mask
    plan: ContourPlan

    @property
    def is_square(self) -> bool:
        """Whether the four pictures are a two by two of errors; else each revises the suboptimal mask at one place."""
        first, *others = (frozenset(errors) for errors in self.plan.results)
        return not first ^ others[0] ^ others[1] ^ others[2]

    def altered_by(self, number: int) -> shapes.Mask:
        """The mask that an edit was drawn on."""
        by_error = self.is_square or number in self.plan.true
        return self.optimal if by_error else self.plan.suboptimal(self.optimal)


def draw(name: str, optimal: shapes.Mask, field: shapes.Mask, seed: int) -> Drawn | str:
    """One plan, or why there is none."""
    plan = contour.draw_plan(optimal, field, RECIPE.deformation, RECIPE.points, np.random.default_rng(seed))
    return f"{name}: {plan}" if isinstance(plan, str) else Drawn(name, optimal, field, plan)


@functools.cache
def of_drawn_shapes() -> tuple[Drawn, ...]:
    """A few plans for every kind of lesion, every other large one in a narrow field; each of these lesions has one.

    Small lesions, a third of a percent of the picture, have not always room; those taken here are among the first few.
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
    """Plans for some of ChestX-Det's lesions of half a percent of the picture or more; each of these has one."""
    plans = []
    for name, optimal in shapes.chestx_det(folder, 0.005, 90):
        drawn = draw(name, optimal, np.ones_like(optimal), seed=3)
        assert isinstance(drawn, Drawn), drawn
        plans.append(drawn)
    return tuple(plans)
