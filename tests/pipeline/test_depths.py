"""The recipe ``jnd``: edits of a wanted depth, and cases that cross depths with sizes of lesions."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from rest_long import rest_long

from chexqa.generators.contour.plan import ContourPlan, draw_plan
from chexqa.generators.pipeline import recipe
from chexqa.generators.pipeline.case_paths import Candidate, draw_paths
from chexqa.generators.pipeline.recipe import PerceptionRecipe


def jnd() -> PerceptionRecipe:
    loaded = recipe.load("jnd")
    assert isinstance(loaded, PerceptionRecipe)
    return loaded


def blob(radius: int) -> np.ndarray:
    """Return a lesion with a wavy outline in a picture of 1024 px."""
    down, right = np.mgrid[:1024, :1024] - 512.0
    angle = np.arctan2(down, right)
    return np.asarray(np.hypot(down, right) < radius * (1 + 0.08 * np.sin(5 * angle) + 0.05 * np.cos(3 * angle)))


@pytest.mark.parametrize("number", rest_long([0, 7, *range(1, 7)]))
def test_every_edit_of_a_plan_has_the_depth_that_was_wanted(number: int) -> None:
    rules, mask = jnd(), blob(150)
    depth = rules.depths[number]
    rng = np.random.default_rng(number)
    plan = draw_plan(mask, np.ones_like(mask), rules.deformation, rules.points, rng, depth)
    assert isinstance(plan, ContourPlan), plan
    assert len(plan.true) == 1
    for edit in plan.edits:
        assert 0.88 < edit.depth / (1024 * depth) < 1.13
    changed = np.count_nonzero(plan.suboptimal(mask) != mask)
    assert changed == np.count_nonzero(plan.edits[plan.true[0]].area)


def test_paths_cross_depths_with_thirds_of_lesion_size() -> None:
    """Deep edits are rare and mostly on large lesions; the drawn cases hold them as often as the others."""
    rules, rng = replace(jnd(), findings=("edema",)), np.random.default_rng(1)
    rows = []
    for number in range(600):
        size = float(rng.random())
        weights = np.ones(8) if size > 0.6 else np.array([4, 4, 4, 4, 2, 2, 1, 1.0])
        depth = float(rng.choice(rules.depths, p=weights / weights.sum())) * float(rng.uniform(0.9, 1.1))
        rows.append(Candidate(f"c{number}", "edema", True, f"k{number}", depth=depth, size=size))
    paths = draw_paths(rows, rules, 0).paths
    sizes = np.sort([row.size for row in rows])
    cells: dict[str, Counter[tuple[int, int]]] = {"revision_free": Counter(), "revision_required": Counter()}
    for row in rows:
        if row.source_case_id in paths:
            assert row.depth is not None
            level = int(np.argmin(np.abs(np.array(rules.depths) - row.depth)))
            cells[paths[row.source_case_id]][level, int(np.searchsorted(sizes, row.size) * 3 // 600)] += 1
    assert {path: sum(found.values()) for path, found in cells.items()} == {
        "revision_free": 40,
        "revision_required": 40,
    }
    whole = cells["revision_free"] + cells["revision_required"]
    assert set(whole.values()) <= {3, 4}, "80 cases in 24 cells"
    assert len(whole) == 24
    for found in cells.values():
        assert set(found.values()) <= {1, 2, 3}, "each path has its share of each cell"


def test_recipes_without_depths_keep_their_record() -> None:
    loaded = recipe.load("chexpercept")
    assert "depths" not in loaded.to_record()
    assert jnd().to_record()["depths"][0] == 0.00195
