"""The stability flag against a second implementation: nine whole measurements with SciPy's morphology and labels."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import shapes
from plans import perception
from rest_long import rest_long
from scipy import ndimage

from chexqa.generators.attributes import attribute_keys, stability
from chexqa.generators.attributes.attribute_keys import AttributeRules, Attributes
from chexqa.imaging.anatomy import Lungs, Mask, grow_lungs, regions

RECIPES = {name: perception(name).attributes for name in ("chexpercept", "strict")}


def slow_variants(mask: Mask) -> list[Mask]:
    """Shrunk, kept, grown by a disc of 3 px of 1024, at least 1; the picture's edge does neither."""
    radius = max(1, round(3 * max(mask.shape) / 1024))
    y, x = np.mgrid[-radius : radius + 1, -radius : radius + 1]
    disc = x * x + y * y <= radius * radius
    shrunk = ndimage.binary_erosion(mask, disc, border_value=1)
    return [shrunk, mask, ndimage.binary_dilation(mask, disc)]


def slow_parts(mask: Mask, least: float) -> list[Mask]:
    labels, count = ndimage.label(mask)
    parts = [labels == number for number in range(1, count + 1)]
    return [part for part in parts if np.count_nonzero(part) >= least]


def slow_stable(lesion: Mask, lungs: Lungs, drawn: Attributes, rules: AttributeRules) -> dict[str, bool]:
    least = rules.min_component * max(lesion.shape) ** 2
    lesions = slow_variants(lesion)
    answers = []
    for mask, right, left in itertools.chain.from_iterable(
        [(mask, right, left) for mask in lesions]
        for right, left in zip(slow_variants(lungs.right), slow_variants(lungs.left), strict=True)
    ):
        measures = attribute_keys.measure(mask, Lungs(right, left), rules)
        answers.append(attribute_keys.right_options(drawn, attribute_keys.judge(measures, rules), rules))
    kept = slow_parts(lesion, least)
    for other in (slow_parts(lesions[0], least), slow_parts(lesions[2], least)):
        meets = np.array([[bool((one & two).any()) for two in other] for one in kept]).reshape(len(kept), len(other))
        if not (meets.sum(axis=0) == 1).all() or not (meets.sum(axis=1) == 1).all():
            return dict.fromkeys(answers[4], False)
    return {kind: all(answer.get(kind) == options for answer in answers) for kind, options in answers[4].items()}


def compare(lesion: Mask, lungs: Lungs, name: str, seed: int) -> dict[str, bool] | None:
    """Both implementations agree; what they say, or None where nothing can be asked."""
    rules = RECIPES[name]
    measures = attribute_keys.measure(lesion, lungs, rules)
    clearance = {} if name == "chexpercept" else attribute_keys.clearances(lesion, regions(grow_lungs(lungs, lesion)))
    drawn = attribute_keys.draw(attribute_keys.judge(measures, rules), clearance, rules, np.random.default_rng(seed))
    if isinstance(drawn, str):
        return None
    right = attribute_keys.right_options(drawn, attribute_keys.judge(measures, rules), rules)
    fast = stability.stable_attributes(lesion, lungs, drawn, right, rules)
    assert fast == slow_stable(lesion, lungs, drawn, rules)
    return fast


@pytest.mark.parametrize("name", rest_long(RECIPES, keep=1))
def test_drawn_cases_agree_with_the_slow_way(name: str) -> None:
    """Lungs and lesions of every kind, at the border too, some without a right lung, some lesions in pieces."""
    rng = np.random.default_rng(4)
    said: Counter[tuple[bool, ...]] = Counter()
    for number in range(90):
        shape = int(rng.integers(60, 240)), int(rng.integers(60, 240))
        right, left = shapes.two_lungs(rng, shape)
        if number % 9 == 0:
            right[:] = False
        if number % 13 == 0:
            left[:, -1] = True
        lesion = shapes.some_lesion(rng, shape)
        if number % 5 == 0:
            lesion &= ~np.roll(lesion, int(rng.integers(1, 20)), axis=1)
        if lesion.any():
            found = compare(lesion, Lungs(right, left), name, number)
            said[tuple((found or {}).values())] += 1
    assert len(said) > 5, "stable and unstable in many combinations"


def test_real_lungs_agree_with_the_slow_way(real_data: Path) -> None:
    rng = np.random.default_rng(9)
    said = []
    lungs = [*list(shapes.jsrt(real_data, 200).values())[:6], *list(shapes.chexmask(real_data, 5).values())[:6]]
    for number, (right, left) in enumerate(lungs):
        said.append(compare(shapes.some_lesion(rng, right.shape), Lungs(right, left), "chexpercept", number))
    assert sum(one is not None for one in said) > len(lungs) / 2, "most lesions can be asked about"


def boxes() -> tuple[Lungs, Mask, Attributes]:
    """Two lungs of 1024 px, an empty lesion, and questions about the right lung."""
    right, left, lesion = (np.zeros((1024, 1024), bool) for _ in range(3))
    right[100:900, 100:450], left[100:900, 560:910] = True, True
    shown = ("right_upper_medial", "right_upper_lateral", "left_lower_medial")
    return Lungs(right, left), lesion, Attributes(True, shown, "right", attribute_keys.COMPARISON)


def judged(lesion: Mask, lungs: Lungs, drawn: Attributes) -> dict[str, bool]:
    rules = RECIPES["chexpercept"]
    measures = attribute_keys.measure(lesion, lungs, rules)
    right = attribute_keys.right_options(drawn, attribute_keys.judge(measures, rules), rules)
    return stability.stable_attributes(lesion, lungs, drawn, right, rules)


def test_a_part_that_splits_when_shrunk_makes_all_unstable_and_a_broad_bridge_does_not() -> None:
    lungs, lesion, drawn = boxes()
    lesion[150:300, 120:220], lesion[150:300, 300:400] = True, True
    lesion[200:206, 220:300] = True  # six pixels: gone when 3 px are taken from either side
    assert set(judged(lesion, lungs, drawn).values()) == {False}
    lesion[200:240, 220:300] = True
    assert True in judged(lesion, lungs, drawn).values()


def test_parts_that_merge_when_grown_make_all_unstable() -> None:
    lungs, lesion, drawn = boxes()
    lesion[150:300, 120:220], lesion[150:300, 225:400] = True, True
    assert set(judged(lesion, lungs, drawn).values()) == {False}


def test_the_margin_is_small_just_where_a_little_more_would_change_the_answer() -> None:
    """A third of a lung is the border between two severities; one and a half times the border of comparison."""
    lungs, lesion, drawn = boxes()
    rules = RECIPES["chexpercept"]
    lesion[100:368, 100:450] = True  # 268 of 800 rows: just over a third
    lesion[100:280, 560:910] = True  # 180 rows: 1.49 times less
    margins = attribute_keys.margins(
        drawn, attribute_keys.judge(attribute_keys.measure(lesion, lungs, rules), rules), rules
    )
    assert margins["severity"] == pytest.approx(268 / 800 * 3 - 1, abs=1e-4)
    assert margins["comparison"] == pytest.approx(abs(268 / 180 / 1.5 - 1), abs=1e-4)
    lesion[368:370, 100:450] = True
    wider = attribute_keys.margins(
        drawn, attribute_keys.judge(attribute_keys.measure(lesion, lungs, rules), rules), rules
    )
    assert wider["severity"] > margins["severity"]


def test_a_region_that_is_not_touched_is_as_far_as_nothing_is() -> None:
    lungs, lesion, drawn = boxes()
    rules = RECIPES["chexpercept"]
    lesion[110:360, 110:440] = True
    measures = attribute_keys.measure(lesion, lungs, rules)
    shares = measures.union
    expected = min(abs(shares[name] / 0.2 - 1) for name in drawn.location or ())
    assert shares["left_lower_medial"] == 0
    assert attribute_keys.margins(drawn, attribute_keys.judge(measures, rules), rules)["location"] == pytest.approx(
        min(expected, 1.0), abs=1e-4
    )


def test_a_grid_item_is_unstable_where_a_cell_is_half_covered() -> None:
    mask = np.zeros((1024, 1024), bool)
    mask[128:256, 128:192] = True  # half of B2, exactly
    assert not stability.stable_grid(mask, 0.5)
    mask[128:256, 192:220] = True
    assert stability.stable_grid(mask, 0.5)
