"""Places of right options: as even as a deal can be, whatever the answers are."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from chexqa.generators.attributes.attribute_keys import COMPARISON, Attributes, Judgement, Measures
from chexqa.generators.pipeline import recipe
from chexqa.generators.pipeline.balance_positions import assign_positions, correct_name, with_position
from chexqa.generators.pipeline.survey import AttributeSurvey, PerceptionSurvey, Survey

NUMBERS = range(1, 5)


def attributes(order: tuple[str, ...], right: str, stable: bool = True) -> AttributeSurvey:
    """What a survey keeps of the attributes: options in this order, and the right one."""
    return AttributeSurvey(
        Judgement(Measures((), {}, {}), (), {}, {}),
        Attributes(True, None, "left", order),
        {"comparison": (1 + order.index(right),), "severity": (2,)},
        {"comparison": stable, "severity": True},
        {},
    )


@given(st.lists(st.tuples(st.sampled_from(COMPARISON), st.sampled_from(["edema", "effusion"]))), st.integers(0, 9))
def test_places_are_even_over_all_and_for_each_right_option(rights: list[tuple[str, str]], seed: int) -> None:
    places = assign_positions({f"case {number}": right for number, right in enumerate(rights)}, seed)
    assert len(places) == len(rights)
    over_all = Counter(places.values())
    assert max(over_all[n] for n in NUMBERS) - min(over_all[n] for n in NUMBERS) <= 1
    for name in COMPARISON:
        own = Counter(places[f"case {number}"] for number, right in enumerate(rights) if right[0] == name)
        assert max(own[n] for n in NUMBERS) - min(own[n] for n in NUMBERS) <= 1


def test_the_deal_depends_on_the_seed_and_not_on_the_order_of_the_cases() -> None:
    rights = {f"case {number}": ("left", "edema") for number in range(40)}
    assert (
        assign_positions(rights, 1)
        == assign_positions(dict(reversed(rights.items())), 1)
        != assign_positions(rights, 2)
    )


@given(st.permutations(COMPARISON), st.sampled_from(COMPARISON), st.sampled_from(NUMBERS))
def test_the_right_option_is_moved_and_stays_right(order: list[str], right: str, place: int) -> None:
    before = Survey("case", "edema", True, perception=PerceptionSurvey(attributes(tuple(order), right)))
    after = with_position(before, place)
    assert after.perception is not None
    found = after.perception.attributes
    assert found is not None
    assert found.right == {"comparison": (place,), "severity": (2,)}
    assert found.drawn.comparison[place - 1] == right
    assert [name for name in found.drawn.comparison if name != right] == [name for name in order if name != right]
    assert with_position(before, None) is before


def test_only_what_is_released_in_another_order_than_the_natural_one_takes_part() -> None:
    strict, published = recipe.load("strict"), recipe.load("chexpercept")
    assert correct_name(attributes(("left", "similar", "single", "right"), "single"), strict) == "single"
    assert correct_name(attributes(("left", "similar", "single", "right"), "single", stable=False), strict) is None
    assert correct_name(attributes(COMPARISON, "single"), published) is None
