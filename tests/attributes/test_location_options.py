"""Names of regions when only clear places may be named, each once."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from chexqa.generators.attributes import location_options
from chexqa.imaging.anatomy import REGIONS, height_of


def shown(involved: tuple[str, ...], clear: list[str], times: int) -> list[tuple[str, ...]]:
    drawn = [location_options.draw_apart(involved, clear, 3, np.random.default_rng(seed)) for seed in range(times)]
    return [names for names in drawn if names is not None]


@pytest.mark.long
def test_the_middle_of_a_lung_is_wrong_more_often_where_it_can_be() -> None:
    """A disease of both middles leaves none that is wrong: without more of them elsewhere the word "mid" is a hint."""
    involved = ("left_mid_medial", "left_lower_medial")
    clear = [name for name in REGIONS if name.startswith("right")]
    told: Counter[tuple[str, bool]] = Counter()
    for names in shown(involved, clear, 400):
        right = [name in involved for name in names]
        if any(right) and not all(right):
            told.update((height_of(name), own) for name, own in zip(names, right, strict=True))
    of_right, of_wrong = (
        told["mid", own] / sum(told[height, own] for height in ("upper", "mid", "lower")) for own in (True, False)
    )
    assert of_right < of_wrong - 0.05
    assert of_right > 0.25, "it is right often enough for the name not to be a hint the other way"


def test_there_are_none_where_the_clear_names_are_too_few() -> None:
    assert location_options.draw_apart(("left_mid_medial",), ["right_mid_medial"], 3, np.random.default_rng(0)) is None
    one_place = ["left_lower_lateral", "left_lower_peripheral", "left_costophrenic_angle"]
    assert location_options.draw_apart(("left_mid_medial",), one_place, 3, np.random.default_rng(0)) is None
    names = location_options.draw_apart(
        ("left_mid_medial",), ["right_mid_medial", *one_place], 3, np.random.default_rng(0)
    )
    assert names is not None
    assert len({*names} & {*one_place}) == 1


@pytest.mark.long
def test_every_number_of_right_names_comes_equally_often() -> None:
    involved = ("left_mid_medial", "left_lower_medial", "left_upper_medial")
    counts = Counter(
        len({*names} & {*involved}) for names in shown(involved, [name for name in REGIONS if "right" in name], 400)
    )
    assert sorted(counts) == [0, 1, 2, 3]
    assert min(counts.values()) > 70
