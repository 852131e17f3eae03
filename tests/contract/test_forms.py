"""Answer forms: what guessing gets, and what part of a right answer earns."""

from __future__ import annotations

import pytest

from chexqa.contract.forms import FORMS


@pytest.mark.parametrize(
    ("form", "options", "right", "chance"),
    [
        ("single", 4, 1, 1 / 4),
        ("multi", 4, 1, 1 / 8),  # any subset of three options; none of them is the fourth
        ("multi", 9, 2, 1 / 256),
        ("cell", 64, 3, 3 / 64),
        ("cell", 64, 0, 0),
    ],
)
def test_chance_is_the_share_of_legal_answers_that_are_right(
    form: str, options: int, right: int, chance: float
) -> None:
    assert FORMS[form].chance(options, right) == chance


@pytest.mark.parametrize(
    ("form", "key", "said", "credit"),
    [
        ("single", (2,), (2,), 1),
        ("single", (2,), (3,), 0),
        ("multi", (1, 2), (2, 3), 1 / 3),
        ("multi", (1, 2), (1,), 1 / 2),
        ("multi", (4,), (4,), 1),
        ("cell", (10, 11), (11,), 1),
        ("cell", (10, 11), (12,), 0),
    ],
)
def test_credit_is_whole_for_the_key_and_a_share_only_where_several_can_be_named(
    form: str, key: tuple[int, ...], said: tuple[int, ...], credit: float
) -> None:
    assert FORMS[form].credit(key, said) == credit
