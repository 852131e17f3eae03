"""Which cases a trial asks and how a run is divided."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from chexqa.contract import benchmark
from chexqa.eval.design import subset
from chexqa.eval.design.subset import Shard
from chexqa.eval.prompts import option_order
from chexqa.eval.prompts.option_order import Modifiers
from chexqa.files.errors import InputError


@pytest.fixture
def bench(handmade: Any) -> benchmark.Benchmark:
    """Twelve cases: six free of lesions first, then four that fit, then two to be revised; a grid item each."""
    for number in range(6):
        handmade.case(f"free {number}", "effusion", "lesion_free")
    for number in range(4):
        handmade.case(f"fits {number}", "edema", "revision_free", grid=(1,))
    for number in range(2):
        handmade.case(f"revise {number}", "effusion", "revision_required", grid=(1,))
    return benchmark.load(handmade.write())


def cases(items: Any) -> set[str]:
    return {item.case_id for item in items}


def test_a_trial_has_so_many_whole_cases_and_a_smaller_one_is_part_of_a_larger(bench: benchmark.Benchmark) -> None:
    assert bench.cases is not None
    before: set[str] = set()
    for limit in range(1, 15):
        items = subset.chosen(bench, limit)
        assert len(cases(items)) == min(limit, 12)
        assert items == tuple(item for item in bench.items if item.case_id in cases(items))
        assert before <= cases(items)
        before = cases(items)
    first = [bench.cases[case_id].path for case_id in cases(subset.chosen(bench, 6))]
    assert set(first) != {"lesion_free"}, "a trial is a mixture, whatever comes first in the benchmark"


def test_a_trial_by_path_has_so_many_cases_of_each(bench: benchmark.Benchmark) -> None:
    assert bench.cases is not None
    items = subset.chosen(bench, limit_per_path=3)
    counts = Counter(bench.cases[case_id].path for case_id in cases(items))
    assert counts == {"lesion_free": 3, "revision_free": 3, "revision_required": 2}
    with pytest.raises(InputError, match="--limit-per-path needs the key"):
        subset.chosen(replace(bench, answers=None, cases=None), limit_per_path=3)


@pytest.mark.parametrize("count", [1, 2, 5, 12, 20])
def test_shares_are_whole_cases_without_overlap_and_of_nearly_one_size(bench: benchmark.Benchmark, count: int) -> None:
    shares = [subset.share(bench.items, Shard(index, count)) for index in range(1, count + 1)]
    assert sum(map(len, shares)) == len(bench.items)
    sizes = [len(cases(part)) for part in shares]
    assert sum(sizes) == 12
    assert max(sizes) - min(sizes) <= 1


def test_rotations_show_every_option_at_every_place_and_keep_what_has_an_order(bench: benchmark.Benchmark) -> None:
    for item in bench.items:
        moving = len(item.options) - item.multi
        shown = [option_order.shown(item, Modifiers(rotations=moving), rotation) for rotation in range(moving)]
        assert shown[0] is item
        for one in shown:
            assert sorted(option.n for option in one.options) == [option.n for option in item.options]
            assert {picture.image for picture in one.turn_images} == {picture.image for picture in item.turn_images}
            pictures = [picture.image for picture in one.turn_images if picture.role == "option"]
            assert pictures == [option.image for option in one.options if option.image]
            alone = [picture.image for picture in one.alone_images if picture.role == "option"]
            assert alone == pictures
        if item.is_ordered:
            assert all(one is item for one in shown)
            continue
        for place in range(moving):
            assert {one.options[place].n for one in shown} == set(range(1, moving + 1))
        if item.multi:
            assert {one.options[-1].n for one in shown} == {len(item.options)}
        for one in shown:
            assert [one.options[option_order.place(one, n) - 1].n for n in range(1, len(item.options) + 1)] == [
                option.n for option in item.options
            ]
