"""Two models side by side, answers against the key, and findings by kinds, counted by hand."""

from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from grades import rows, run, said, study
from handmade import Handmade, six_cases

from chexqa.contract import benchmark
from chexqa.contract.benchmark import Benchmark
from chexqa.eval.scoring import intervals
from chexqa.eval.side_by_side.answers_by_key import NO_ANSWER, answers_by_key, option_texts
from chexqa.eval.side_by_side.differences import differences
from chexqa.eval.side_by_side.finding_kinds import finding_kinds


@pytest.fixture
def bench(handmade: Handmade) -> Benchmark:
    return benchmark.load(six_cases(handmade))


def of(bench: Benchmark, **mistakes: dict[str, Any]) -> list[Any]:
    """Turns of several models, each with its mistakes."""
    return [replace(turn, model=name) for name, wrong in mistakes.items() for turn in said(bench, wrong)]


def items(bench: Benchmark, kind: str) -> list[str]:
    return [item.item_id for item in bench.items if item.kind == kind]


def test_items_that_both_one_or_neither_has_right_are_counted(
    bench: Benchmark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intervals, "LEAST_CLUSTERS", 2)
    seen = items(bench, "detection")  # six items, of four effusions or edemas with and two without a finding
    first = {seen[0]: (), seen[1]: (), seen[2]: "refused"}
    other = {seen[0]: (), seen[3]: ()}
    table = differences(study(bench, [run(of(bench, a=first, b=other, c={}), ("a", "b", "c"))]))
    found = rows(table.filter((pl.col("model_a") == "a") & (pl.col("model_b") == "b")), "dimension", "group")
    row = found["kind", "detection"]
    counts = {name: row[name] for name in ("items", "both", "only_a", "only_b", "neither", "every")}
    assert counts == {"items": 6, "both": 2, "only_a": 1, "only_b": 2, "neither": 1, "every": 2}
    assert row["difference"] == pytest.approx((3 - 4) / 6)
    assert row["difference_low"] < row["difference"] < row["difference_high"]
    assert row["patients"] == 6
    for (dimension, group), one in found.items():
        assert one["both"] + one["only_a"] + one["only_b"] + one["neither"] == one["items"], (dimension, group)
        assert one["difference"] == pytest.approx((one["only_a"] - one["only_b"]) / one["items"])
    assert found["all", "all"]["items"] == len([item for item in bench.items if item.kind])
    assert {name for dimension, name in found if dimension == "level"} == {"coarse", "fine", "semantic"}
    assert table.filter(pl.col("group") == "all").height == 3, "every pair once"


def test_a_model_that_has_not_finished_is_left_out(bench: Benchmark) -> None:
    turns = of(bench, a={}, b={})
    short = [turn for turn in of(bench, c={}) if turn.item_id != bench.items[0].item_id]
    table = differences(study(bench, [run([*turns, *short], ("a", "b", "c"))]))
    assert set(table["model_a"]) | set(table["model_b"]) == {"a", "b"}


def test_an_item_asked_several_times_is_right_if_most_answers_are(bench: Benchmark) -> None:
    item = items(bench, "detection")[0]
    turns = [replace(turn, repeat=repeat) for repeat in range(3) for turn in of(bench, a={item: ()} if repeat else {})]
    turns += [replace(turn, repeat=repeat) for repeat in range(3) for turn in of(bench, b={} if repeat else {item: ()})]
    asked = run(turns, ("a", "b"))
    asked = replace(asked, about={**asked.about, "repeats": 3})
    row = rows(differences(study(bench, [asked])), "dimension", "group")["kind", "detection"]
    assert (row["both"], row["only_a"], row["only_b"], row["neither"]) == (5, 0, 1, 0)


def test_answers_stand_against_the_key(bench: Benchmark) -> None:
    seen = items(bench, "detection")  # a and f are keyed no
    table = answers_by_key(study(bench, [run(of(bench, m={seen[0]: (1,), seen[1]: "refused", seen[2]: (2,)}), ("m",))]))
    detection = table.filter(pl.col("kind") == "detection").select("key", "answer", "items").rows()
    assert detection == [("Yes", "Yes", 2), ("Yes", "No", 1), ("Yes", NO_ANSWER, 1), ("No", "Yes", 1), ("No", "No", 1)]
    kinds = option_texts(study(bench, [run(of(bench, m={}), ("m",))]))
    assert list(kinds) == ["detection", "contour_evaluation", "distribution", "severity", "comparison"], "single choice"
    assert kinds["severity"] == ["a", "b", "c", "d"]


def test_findings_by_kinds_add_up_to_kinds(bench: Benchmark) -> None:
    seen = items(bench, "detection")
    made = study(bench, [run(of(bench, m={seen[1]: ()}), ("m",))])
    found = rows(finding_kinds(made), "finding", "kind")
    by_finding = {name: found[name, "detection"] for name in ("effusion", "edema", "cardiomegaly")}
    assert {name: row["items"] for name, row in by_finding.items()} == {"effusion": 3, "edema": 2, "cardiomegaly": 1}
    assert by_finding["effusion"]["accuracy"] == pytest.approx(2 / 3)
    assert by_finding["edema"]["accuracy"] == 1
    assert ("cardiomegaly", "location") not in found
