"""The simulated reader of known skill: what it knows is its skill, what it does not know it guesses."""

from pathlib import Path
from typing import Any

import pytest

from chexqa.contract import benchmark
from chexqa.eval.models import baselines
from chexqa.eval.prompts import answer_parser
from chexqa.files.errors import InputError


def shares(folder: Path, name: str, tries: int = 400) -> dict[str, float]:
    """By kind, how often the reader ``name`` is right over many repeats of every item."""
    bench = benchmark.load(folder)
    answers, _ = bench.key("this test")
    responder = baselines.BaselineResponder(bench, seed=3)
    right: dict[str, list[bool]] = {}
    for item in bench.items:
        for repeat in range(tries):
            said = answer_parser.parse(item, responder.reply(name, item, repeat))
            right.setdefault(item.kind, []).append(said == answers[item.item_id].answer)
    return {kind: sum(values) / len(values) for kind, values in right.items()}


def test_a_reader_of_full_skill_is_always_right_and_one_of_none_guesses(handmade: Any) -> None:
    handmade.case("a", "effusion", "revision_required", location=(2,))
    folder = handmade.write()
    assert set(shares(folder, "skill-100-100-100-100", 3).values()) == {1.0}
    guessed = shares(folder, "skill-0-0-0-0")
    assert guessed["detection"] == pytest.approx(1 / 2, abs=0.08)
    assert guessed["severity"] == pytest.approx(1 / 4, abs=0.08)


def test_each_level_has_a_skill_of_its_own_and_what_is_not_known_is_guessed(handmade: Any) -> None:
    handmade.case("a", "effusion", "revision_required", location=(2,))
    found = shares(handmade.write(), "skill-80-0-50-0")
    assert found["detection"] == pytest.approx(0.8 + 0.2 / 2, abs=0.06)
    assert found["contour_evaluation"] == pytest.approx(1 / 2, abs=0.08)
    assert found["distribution"] == pytest.approx(0.5 + 0.5 / 4, abs=0.08)


def test_a_skill_that_is_not_spelt_out_is_no_model() -> None:
    with pytest.raises(InputError, match="baseline/skill-80"):
        baselines.check_name("skill-80")
