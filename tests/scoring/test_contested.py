"""Items on which reviewers disagree: graded apart, and never part of a headline or a depth."""

from dataclasses import replace
from typing import Any

import pytest
from grades import rows, run, said, study

from chexqa.contract import benchmark
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import CONTESTED
from chexqa.eval.tables import asked_items, levels_and_stages


@pytest.fixture
def bench(handmade: Any) -> Benchmark:
    """Two cases, of the first of which the contour is contested."""
    first = handmade.case("a", "effusion", "revision_free", contour_evaluation=(2,))
    handmade.case("b", "effusion", "revision_free", contour_evaluation=(2,))
    handmade.answers = [
        replace(answer, flags=(CONTESTED,)) if answer.item_id == f"{first}/contour_evaluation" else answer
        for answer in handmade.answers
    ]
    return benchmark.load(handmade.write())


def test_a_contested_item_counts_in_its_own_table_alone(bench: Benchmark) -> None:
    contested = next(answer.item_id for answer in bench.answers.values() if answer.flags)  # type: ignore[union-attr]
    made = study(bench, [run(said(bench, {contested: (1,)}))])
    (row,) = asked_items.contested(made).to_dicts()
    assert (row["items"], row["accuracy"]) == (1, 0)
    kinds = rows(levels_and_stages.kinds(made), "kind")
    assert (kinds["contour_evaluation"]["items"], kinds["contour_evaluation"]["accuracy"]) == (1, 1)


def test_a_case_with_a_contested_item_has_no_depth(bench: Benchmark) -> None:
    made = study(bench, [run(said(bench))])
    depth = rows(levels_and_stages.depth(made), "path")["revision_free"]
    assert (depth["cases"], depth["depth"]) == (1, 3)


def test_without_contested_items_their_table_is_empty(tiny_benchmark: Any) -> None:
    bench = benchmark.load(tiny_benchmark)
    assert asked_items.contested(study(bench, [run(said(bench))])).height == 0
