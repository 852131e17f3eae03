"""Attributes by the published rules, against plain loops over pixels and whole fractions."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import shapes
from plans import perception
from slow_anatomy import AROUND_4, Pixels, parts_of, pixels_of, slow_growth, slow_regions

from chexqa.contract import codec
from chexqa.contract.evidence import Component
from chexqa.generators.attributes import attribute_keys
from chexqa.generators.attributes.attribute_keys import LEFT, RIGHT, SIMILAR, SINGLE, Attributes, Judgement, Measures
from chexqa.imaging.anatomy import REGIONS, Lungs, Mask, height_of, part_of

RECIPE = perception().attributes
NOTHING = Measures((), {}, {})
ZONES = ("right_upper", "right_mid", "right_lower", "left_upper", "left_mid", "left_lower")


def slow_judgement(lesion: Mask, right: Mask, left: Mask) -> tuple[list[str], dict[str, Fraction], dict[str, int]]:
    """Involved regions, covered share and covered pixels of each lung that is there."""
    picture = max(lesion.shape)
    pixels = pixels_of(lesion)
    kept = [part for part in parts_of(pixels, AROUND_4) if len(part) * 1024 * 1024 >= 1000 * picture * picture]
    lungs = {"right": slow_growth(pixels_of(right), pixels), "left": slow_growth(pixels_of(left), pixels)}
    regions = slow_regions(lungs["right"], lungs["left"], lesion.shape)
    involved: set[str] = set()
    for part in kept:
        shares = {name: Fraction(len(part & region), len(region)) for name, region in regions.items() if region}
        mine = {name for name, value in shares.items() if value >= Fraction(1, 5)}
        most = max(shares.values(), default=Fraction(0))
        if not mine and most > 0:
            mine = {next(name for name in REGIONS if shares.get(name) == most)}
        involved |= mine
    area = covered(kept, lungs)
    share = {side: Fraction(pixels, len(lungs[side])) for side, pixels in area.items()}
    return [name for name in REGIONS if name in involved], share, area


def covered(parts: list[Pixels], lungs: dict[str, Pixels]) -> dict[str, int]:
    """Pixels of each lung under the parts that cover a hundredth of it; under all where there is no such part."""
    there = {side: lung for side, lung in lungs.items() if lung}
    large = {side: [part for part in parts if 100 * len(part & lung) >= len(lung)] for side, lung in there.items()}
    if not any(large.values()):
        large = dict.fromkeys(there, parts)
    return {side: sum(len(part & lung) for part in large[side]) for side, lung in there.items()}


def judge(lesion: Mask, right: Mask, left: Mask) -> Judgement:
    return attribute_keys.judge(attribute_keys.measure(lesion, Lungs(right, left), RECIPE), RECIPE)


def assert_agrees(lesion: Mask, right: Mask, left: Mask) -> None:
    fast = judge(lesion, right, left)
    involved, share, area = slow_judgement(lesion, right, left)
    assert list(fast.involved) == involved
    assert fast.lung_area == area
    assert fast.lung_share == {side: float(value) for side, value in share.items()}


@pytest.mark.parametrize("seed", range(30))
def test_drawn_lesions_agree_with_plain_loops(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = int(rng.integers(50, 90)), int(rng.integers(50, 90))
    right, left = shapes.two_lungs(rng, shape)
    assert_agrees(shapes.some_lesion(rng, shape), right, left)


def test_real_lungs_agree_with_plain_loops(real_data: Path) -> None:
    rng = np.random.default_rng(7)
    lungs = [*list(shapes.jsrt(real_data, 90).values())[8:12], *list(shapes.chexmask(real_data, 12).values())[8:12]]
    for right, left in lungs:
        assert_agrees(shapes.some_lesion(rng, right.shape), right, left)


@pytest.mark.parametrize("missing", ["right", "left", "both"])
def test_a_missing_lung_is_no_lung_without_lesion(missing: str) -> None:
    rng = np.random.default_rng(3)
    right, left = shapes.two_lungs(rng, (80, 80))
    nothing = np.zeros_like(right)
    pair = {"right": (nothing, left), "left": (right, nothing), "both": (nothing, nothing)}[missing]
    lesion = shapes.blob(rng, right.shape, (40, 40), (25, 15))
    assert_agrees(lesion, *pair)
    assert set(judge(lesion, *pair).lung_share) == {"right": {"left"}, "left": {"right"}, "both": set()}[missing]


def box_lungs() -> tuple[Mask, Mask]:
    """Two lungs of 40 x 103 pixels in a picture of 128 x 128, so that 16 pixels are the smallest component."""
    right, left = np.zeros((128, 128), bool), np.zeros((128, 128), bool)
    right[10:113, 10:50], left[10:113, 70:110] = True, True
    return right, left


def test_a_component_of_just_the_least_size_counts_and_one_pixel_less_does_not() -> None:
    right, left = box_lungs()
    lesion = np.zeros_like(right)
    lesion[20:24, 20:24] = True  # 16 px; the bound is 1,000 / 1024^2 x 128^2 = 15.6 px
    assert len(attribute_keys.measure(lesion, Lungs(right, left), RECIPE).components) == 1
    lesion[20, 20] = False
    assert attribute_keys.measure(lesion, Lungs(right, left), RECIPE).components == ()
    assert "smaller than 1,000 px" in str(
        attribute_keys.draw(
            attribute_keys.judge(attribute_keys.measure(lesion, Lungs(right, left), RECIPE), RECIPE),
            {},
            RECIPE,
            np.random.default_rng(0),
        )
    )


def test_components_that_meet_at_a_corner_are_two() -> None:
    right, left = box_lungs()
    lesion = np.zeros_like(right)
    lesion[20:24, 20:24], lesion[24:28, 24:28] = True, True
    assert len(attribute_keys.measure(lesion, Lungs(right, left), RECIPE).components) == 2


def test_a_fifth_of_a_region_involves_it_and_one_pixel_less_does_not() -> None:
    right, left = box_lungs()
    region = slow_regions(pixels_of(right), pixels_of(left), right.shape)["right_upper_medial"]
    by_row = sorted(region, key=lambda pixel: (pixel[1], pixel[0]))
    fifth = len(region) // 5
    assert len(region) % 5 == 0
    lesion = np.zeros_like(right)
    for x, y in by_row[:fifth]:
        lesion[y, x] = True
    other = np.zeros_like(right)
    other[60:100, 72:108] = True  # involves its own regions, so that none is added for covering most
    assert "right_upper_medial" in judge(lesion | other, right, left).involved
    lesion[by_row[0][1], by_row[0][0]] = False
    measures = attribute_keys.measure(lesion, Lungs(right, left), RECIPE)
    assert measures.components[0].regions["right_upper_medial"] < 0.2
    assert judge(lesion, right, left).involved == ("right_upper_medial",), "it covers that region most"


def test_two_components_that_cover_a_fifth_together_do_not_involve_a_region() -> None:
    made = Measures(
        components=(
            Component(pixels=900, regions={"left_mid_medial": 0.15, "left_mid_lateral": 0.5}, lungs={"left": 900}),
            Component(pixels=900, regions={"left_mid_medial": 0.15, "left_upper_medial": 0.4}, lungs={"left": 900}),
        ),
        regions={"left_mid_medial": 999, "left_mid_lateral": 999, "left_upper_medial": 999},
        lungs={"left": 9000},
    )
    assert attribute_keys.judge(made, RECIPE).involved == ("left_upper_medial", "left_mid_lateral")


def test_of_regions_covered_alike_the_first_in_their_order_is_added() -> None:
    names = ("left_mid_lateral", "right_lower_medial", "right_upper_peripheral")
    part = Component(pixels=99, regions=dict.fromkeys(names, 0.1), lungs={"right": 66, "left": 33})
    made = Measures((part,), dict.fromkeys(names, 330), {"right": 1000, "left": 1000})
    assert attribute_keys.judge(made, RECIPE).involved == ("right_upper_peripheral",)


@pytest.mark.parametrize("size", [100, 700, 2900, 5700, 23_300, 91_100, 148_700])
def test_a_component_counts_for_a_lung_from_just_a_hundredth_of_it(size: int) -> None:
    large = Component(pixels=9000, regions={}, lungs={"right": 90, "left": size // 100})
    made = Measures((large,), {}, {"right": 9000, "left": size})
    assert attribute_keys.judge(made, RECIPE).lung_area == {"right": 90, "left": size // 100}
    less = replace(large, lungs={"right": 90, "left": size // 100 - 1})
    assert attribute_keys.judge(Measures((less,), {}, made.lungs), RECIPE).lung_area == {"right": 90, "left": 0}


def test_a_lesion_too_small_for_any_lung_still_lies_in_one() -> None:
    part = Component(pixels=1200, regions={"left_mid_medial": 0.05}, lungs={"right": 0, "left": 1200})
    judged = attribute_keys.judge(Measures((part,), {}, {"right": 200_000, "left": 180_000}), RECIPE)
    assert judged.lung_area == {"right": 0, "left": 1200}
    assert attribute_keys.compare(judged.lung_area, 1.5) == SINGLE


@pytest.mark.parametrize(
    ("right", "left", "expected"),
    [
        (100, 150, LEFT),
        (100, 149, SIMILAR),
        (150, 100, RIGHT),
        (149, 100, SIMILAR),
        (100, 100, SIMILAR),
        (0, 100, SINGLE),
        (100, 0, SINGLE),
    ],
)
def test_a_lung_is_larger_from_just_one_and_a_half_times(right: int, left: int, expected: int) -> None:
    assert attribute_keys.compare({"right": right, "left": left}, 1.5) == expected


def test_a_lung_that_is_not_there_is_not_affected() -> None:
    assert attribute_keys.compare({"left": 100}, 1.5) == SINGLE


@pytest.mark.parametrize("order", list(itertools.permutations(("similar", "left", "right", "single")))[::5])
@pytest.mark.parametrize(
    ("right", "left", "word"), [(100, 100, "similar"), (100, 200, "left"), (200, 100, "right"), (0, 9, "single"),
                                (9, 0, "single"), (None, 9, "single"), (9, None, "single")],
)  # fmt: skip
def test_the_right_option_of_comparison_is_the_one_with_the_word_whatever_the_order(
    right: int | None, left: int | None, word: str, order: tuple[str, ...]
) -> None:
    area = {side: pixels for side, pixels in (("right", right), ("left", left)) if pixels is not None}
    judged = Judgement(NOTHING, ("left_mid_medial",), area, dict.fromkeys(area, 0.1))
    (number,) = answers(judged, Attributes(True, None, "left", order))["comparison"]
    assert order[number - 1] == word


def answers(judged: Judgement, drawn: Attributes) -> dict[str, tuple[int, ...]]:
    return attribute_keys.right_options(drawn, judged, RECIPE)


@pytest.mark.parametrize(("covered", "expected"), [(299, 1), (300, 2), (599, 2), (600, 3), (900, 3), (0, 1)])
def test_severity_changes_at_just_one_and_two_thirds(covered: int, expected: int) -> None:
    judged = Judgement(NOTHING, ("left_mid_medial",), {"left": covered}, {"left": covered / 900})
    drawn = Attributes(
        True, ("left_mid_medial", "left_mid_lateral", "left_upper_medial"), "left", attribute_keys.COMPARISON
    )
    assert answers(judged, drawn)["severity"] == (expected,)


@pytest.mark.parametrize("zones", range(1, 7))
def test_distribution_counts_zones_up_to_four_or_more(zones: int) -> None:
    involved = tuple(name for name in REGIONS if name.startswith(ZONES[:zones]))
    drawn = Attributes(True, ("left_lower_medial",) * 3, "right", attribute_keys.COMPARISON)
    assert answers(Judgement(NOTHING, involved, {}, {}), drawn)["distribution"] == (min(zones, 4),)


def test_a_costophrenic_angle_alone_is_one_zone() -> None:
    drawn = Attributes(True, ("left_lower_medial",) * 3, "right", attribute_keys.COMPARISON)
    for involved in (("right_costophrenic_angle",), ("right_lower_medial", "right_costophrenic_angle")):
        assert answers(Judgement(NOTHING, involved, {}, {}), drawn)["distribution"] == (1,)


def measures_of(involved: tuple[str, ...]) -> Measures:
    """Measures of one component that involves just these regions."""
    sides = {name.split("_")[0] for name in involved}
    lungs = {side: 5000 if side in sides else 0 for side in ("right", "left")}
    part = Component(pixels=9999, regions=dict.fromkeys(involved, 0.5), lungs=lungs)
    return Measures((part,), dict.fromkeys(REGIONS, 2000), {"right": 30_000, "left": 30_000})


def drawn_many(involved: tuple[str, ...], times: int = 400) -> list[tuple[Attributes, dict[str, tuple[int, ...]]]]:
    measures = measures_of(involved)
    judged = attribute_keys.judge(measures, RECIPE)
    assert set(judged.involved) == set(involved)
    drawn = []
    for seed in range(times):
        one = attribute_keys.draw(attribute_keys.judge(measures, RECIPE), {}, RECIPE, np.random.default_rng(seed))
        assert isinstance(one, Attributes)
        drawn.append((one, answers(judged, one)))
    return drawn


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_location_has_none_to_three_right_names_each_number_equally_often(count: int) -> None:
    involved = REGIONS[2 : 2 + count]
    counts: Counter[int] = Counter()
    places: Counter[int] = Counter()
    for one, right in drawn_many(involved):
        assert one.location is not None
        assert len(set(one.location)) == 3
        named = tuple(n for n, name in enumerate(one.location, start=1) if name in involved)
        assert right["location"] == (named or (4,))
        counts[len(named)] += 1
        places.update(named)
    assert set(counts) == set(range(min(3, count) + 1))
    assert min(counts.values()) > 0.7 * 400 / len(counts)
    assert min(places[n] for n in (1, 2, 3)) > 0.75 * sum(places.values()) / 3


@pytest.mark.parametrize("involved", ["right_costophrenic_angle", "left_mid_medial"])
def test_wrong_regions_are_the_same_place_of_the_other_lung_and_places_like_it(involved: str) -> None:
    """Fluid lies in the angles: with other regions beside them, the word "angle" alone would be the answer."""
    side, place = involved.split("_", 1)
    mirrored = f"{'left' if side == 'right' else 'right'}_{place}"
    like = []
    for one, _ in drawn_many((involved,), 60):
        assert one.location is not None
        wrong = set(one.location) - {involved}
        assert mirrored in wrong
        like += [
            part_of(name) == part_of(involved) or height_of(name) == height_of(involved) for name in wrong - {mirrored}
        ]
    assert all(like) or (place == "costophrenic_angle" and np.mean(like) > 0.5)


def test_the_name_of_a_place_that_a_disease_prefers_is_no_hint() -> None:
    """Lesions in the mid zones of either lung: the word "mid" is right about as often as it is wrong."""
    named: Counter[bool] = Counter()
    for involved in (("right_mid_medial", "right_mid_lateral"), ("left_mid_lateral", "left_mid_peripheral")):
        for one, _ in drawn_many(involved, 200):
            assert one.location is not None
            named.update(name in involved for name in one.location if "_mid_" in name)
    assert 0.35 < named[True] / named.total() < 0.65


@pytest.mark.parametrize("left_out", [0, 1, 2])
def test_location_is_topped_up_with_right_names_where_wrong_ones_run_out(left_out: int) -> None:
    involved = REGIONS[left_out:]
    for one, right in drawn_many(involved, 60):
        assert one.location is not None
        assert len(set(one.location)) == 3
        assert sum(name in involved for name in one.location) >= 3 - left_out
        assert right["location"] != (4,)


def test_location_names_no_region_of_a_lung_that_is_not_given() -> None:
    right, _ = box_lungs()
    lesion = np.zeros_like(right)
    lesion[20:60, 15:35], lesion[20:60, 75:95] = True, True
    measures = attribute_keys.measure(lesion, Lungs(right, np.zeros_like(right)), RECIPE)
    for seed in range(60):
        drawn = attribute_keys.draw(attribute_keys.judge(measures, RECIPE), {}, RECIPE, np.random.default_rng(seed))
        assert isinstance(drawn, Attributes)
        assert drawn.location is not None
        assert all(name.startswith("right") for name in drawn.location)


@pytest.mark.parametrize("rules", ["published", "strict"])
def test_what_needs_both_lungs_is_not_asked_of_one(rules: str) -> None:
    right, _ = box_lungs()
    lesion = np.zeros_like(right)
    lesion[20:60, 15:35] = True
    recipe_rules = RECIPE if rules == "published" else STRICT
    judged = attribute_keys.judge(
        attribute_keys.measure(lesion, Lungs(right, np.zeros_like(right)), recipe_rules), recipe_rules
    )
    far = dict.fromkeys(REGIONS, 1.0)
    drawn = attribute_keys.draw(judged, far, recipe_rules, np.random.default_rng(0))
    assert isinstance(drawn, Attributes)
    assert set(answers(judged, drawn)) <= {"location", "severity"}


def test_wrong_places_are_free_of_the_lesion_as_long_as_there_are_such() -> None:
    touched = {name: 0.1 for name in REGIONS if name.startswith("left")}
    part = {**touched, "left_mid_medial": 0.4}
    for left_over, free in ((REGIONS, True), (tuple(part), False)):
        measures = Measures(
            (Component(pixels=9999, regions=part, lungs={"right": 0, "left": 5000}),),
            dict.fromkeys(left_over, 2000), {"right": 30_000, "left": 30_000},
        )  # fmt: skip
        for seed in range(40):
            drawn = attribute_keys.draw(attribute_keys.judge(measures, RECIPE), {}, RECIPE, np.random.default_rng(seed))
            assert isinstance(drawn, Attributes)
            wrong = [name for name in drawn.location or () if name != "left_mid_medial"]
            assert all(measures.union[name] == 0 for name in wrong) == free


def test_a_small_part_names_the_region_that_it_fills_most_as_counting_for_that_alone() -> None:
    small = {"left_mid_lateral": 0.12, "left_mid_peripheral": 0.19}
    judged = attribute_keys.judge(measures_by_share(small, {"right_upper_medial": 0.5}), RECIPE)
    assert judged.by_small_components == ("left_mid_peripheral",)
    assert set(judged.involved) == {"left_mid_peripheral", "right_upper_medial"}
    large = attribute_keys.judge(measures_by_share(small, {"left_mid_peripheral": 0.3}), RECIPE)
    assert large.by_small_components == (), "another part reaches the threshold there"


def test_one_lung_has_too_few_regions_for_eleven_options_and_says_so() -> None:
    right, _ = box_lungs()
    many = replace(RECIPE, location_options=11)
    measures = attribute_keys.measure(right, Lungs(right, np.zeros_like(right)), many)
    assert "too few regions" in str(
        attribute_keys.draw(attribute_keys.judge(measures, many), {}, many, np.random.default_rng(0))
    )


def test_severity_asks_about_the_side_of_the_right_names() -> None:
    involved = ("right_upper_medial", "left_lower_medial")
    asked: Counter[tuple[frozenset[str], str]] = Counter()
    for one, _ in drawn_many(involved):
        assert one.location is not None
        sides = frozenset(name.split("_")[0] for name in one.location if name in involved)
        asked[sides, one.severity] += 1
        assert len(sides) != 1 or one.severity in sides
    both, none = frozenset({"right", "left"}), frozenset[str]()
    for sides in (both, none):
        assert min(asked[sides, side] for side in ("right", "left")) > 0, "drawn, where the names do not say"


def test_severity_never_asks_about_a_lung_that_is_not_affected() -> None:
    assert {one.severity for one, _ in drawn_many(("left_mid_medial", "left_upper_medial"))} == {"left"}


def test_measures_and_questions_survive_being_written_and_read() -> None:
    measures = measures_of(("left_mid_medial",))
    assert codec.decode(Measures, json.loads(json.dumps(codec.encode(measures)))) == measures
    drawn = drawn_many(("left_mid_medial",), 1)[0][0]
    assert codec.decode(Attributes, json.loads(json.dumps(codec.encode(drawn)))) == drawn


STRICT = perception("strict").attributes


def measures_by_share(*parts: dict[str, float]) -> Measures:
    """Measures of parts that cover these shares of regions, both lungs affected alike."""
    made = tuple(Component(pixels=9999, regions=part, lungs={"right": 5000, "left": 5000}) for part in parts)
    return Measures(made, dict.fromkeys(REGIONS, 2000), {"right": 30_000, "left": 30_000})


def test_by_the_strict_rule_parts_count_together_from_just_a_quarter() -> None:
    name, other = "left_mid_medial", "right_mid_medial"
    for shares, involved in (((0.125, 0.125), (name,)), ((0.125, 0.1245), ()), ((0.25,), (name,)), ((0.2499,), ())):
        judged = attribute_keys.judge(measures_by_share(*({name: share} for share in shares)), STRICT)
        assert judged.involved == involved, "nothing is added for being covered most"
    two = attribute_keys.judge(measures_by_share({name: 0.3, other: 0.25}), STRICT)
    assert two.involved == (other, name)


@pytest.mark.parametrize("wanted", ["component", "union"])
def test_why_there_are_no_attributes_is_said_for_each_rule(wanted: str) -> None:
    rules = replace(STRICT, rule=wanted)
    nowhere = attribute_keys.draw(
        attribute_keys.judge(measures_by_share({}), rules), dict.fromkeys(REGIONS, 1.0), rules, np.random.default_rng(0)
    )
    assert nowhere == "the lesion involves no region of a lung" + (" clearly" if wanted == "union" else "")
    nothing = attribute_keys.draw(attribute_keys.judge(measures_by_share(), rules), {}, rules, np.random.default_rng(0))
    assert nothing == "every part of the lesion is smaller than 1,000 px in a picture of 1024 x 1024 px"


@pytest.mark.long
def test_strict_locations_are_clear_and_never_two_names_of_nearly_one_place() -> None:
    involved = {"left_lower_lateral": 0.5, "left_lower_peripheral": 0.6, "left_lower_medial": 0.4}
    doubtful = {"left_mid_medial": 0.1}
    near = {"right_upper_medial"}
    clearance = {name: 0.0 if name in near else STRICT.clear_distance for name in REGIONS}
    counts: Counter[int] = Counter()
    for seed in range(200):
        drawn = attribute_keys.draw(
            attribute_keys.judge(measures_by_share(involved | doubtful), STRICT),
            clearance,
            STRICT,
            np.random.default_rng(seed),
        )
        assert isinstance(drawn, Attributes)
        assert drawn.location is not None
        assert len(drawn.location) == len(set(drawn.location)) == 3
        assert not {*doubtful, *near} & {*drawn.location}
        rims = Counter(
            name.rsplit("_", 1)[0].replace("_costophrenic", "_lower") for name in drawn.location
            if not name.endswith("medial")
        )  # fmt: skip
        assert max(rims.values(), default=0) <= 1, drawn.location
        counts[len({*drawn.location} & {*involved})] += 1
        assert sorted(drawn.comparison) == ["left", "right", "similar", "single"]
        assert not drawn.distribution, "a zone in doubt could be one more"
    assert set(counts) == {0, 1, 2}, "three of them are two places"


def test_strict_distribution_is_asked_where_no_zone_is_in_doubt() -> None:
    clearance = dict.fromkeys(REGIONS, 1.0)
    measures = measures_by_share({"left_lower_lateral": 0.5, "left_lower_medial": 0.1})
    drawn = attribute_keys.draw(attribute_keys.judge(measures, STRICT), clearance, STRICT, np.random.default_rng(0))
    assert isinstance(drawn, Attributes)
    assert drawn.distribution, "the doubtful region lies in a zone that is involved anyhow"
