"""The table of all who say where: cells, points, boxes and maps, by the cell that each of them names."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import chexqa
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.findings import FINDINGS
from chexqa.eval.heatmaps.targets import of_benchmark
from chexqa.eval.map_makers.cases_to_map import read_cases
from chexqa.eval.place_results.one_cell import MACRO
from chexqa.eval.places.target import target_of
from chexqa.phantoms import write_cases

pytestmark = pytest.mark.xdist_group("places")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    folder = tmp_path_factory.mktemp("where")
    write_cases(folder / "cases", 9, seed=5, size=256, findings=("effusion", "opacity"))
    return chexqa.generate(folder / "cases", folder / "bench", recipes=("places", "grid"), seed=3)


def test_cells_points_boxes_and_maps_stand_in_one_table(bench: Benchmark, tmp_path: Path) -> None:
    chexqa.evaluate(bench, ["baseline/oracle", "baseline/centre"], tmp_path / "run", protocol="independent")
    answers, cases = bench.key("the test")
    grid = [item for item in bench.items if item.kind == "grid_cell"]
    told = [{"model": "a map", "item_id": item.item_id, "answer": [1 + number % 2]} for number, item in enumerate(grid)]
    (tmp_path / "maps.jsonl").write_text("".join(json.dumps(one) + "\n" for one in told))
    table = chexqa.grade(tmp_path / "run", tmp_path / "maps.jsonl").tables["where"]
    asked = {kind: {item.case_id for item in bench.items if item.kind == kind and 1 in answers[item.item_id].answer}
             for kind in ("point_at", "box_around")}  # fmt: skip
    shared = {item.case_id for item in grid} & asked["point_at"] & asked["box_around"]
    by_hand: dict[str, list[float]] = {}
    for item in grid:
        if item.case_id in shared:
            target = target_of(cases[item.case_id].measures, "the test")
            assert target is not None
            (left, top, right, bottom), (width, height) = target.box, target.size
            cell = int((top + bottom) / 2 * 8 / height) * 8 + int((left + right) / 2 * 8 / width) + 1
            by_hand.setdefault(item.finding, []).append(cell in answers[item.item_id].answer)
    oracle = table.filter(model="baseline/oracle")
    boxes = oracle.filter(kind="box_around", finding=MACRO)
    assert boxes["hit_rate"].item() == pytest.approx(
        sum(sum(one) / len(one) for one in by_hand.values()) / len(by_hand)
    )
    assert set(oracle.filter(finding=MACRO)["kind"]) == {"grid_cell", "point_at", "box_around"}
    assert set(table.filter(finding=MACRO)["items"]) == {len(shared)}
    centre = table.filter(model="baseline/centre", finding=MACRO)
    assert centre["hit_rate"].to_list() == [0.0] * 3
    mapped = table.filter(model="a map", finding=MACRO)
    right = [one["answer"][0] in answers[one["item_id"]].answer for one in told]
    assert (mapped["kind"].to_list(), mapped["hit_rate"].item() > 0) == (["grid_cell"], any(right))


def test_an_unproved_coordinate_system_has_no_hits(bench: Benchmark, tmp_path: Path) -> None:
    chexqa.evaluate(bench, lambda messages: "Answer: [100, 100]", tmp_path / "run", protocol="independent")
    table = chexqa.grade(tmp_path / "run").tables["where"]
    assert table.filter(pl.col("kind") != "grid_cell")["hit_rate"].null_count() == table.filter(
        pl.col("kind") != "grid_cell").height > 0  # fmt: skip


def test_pictures_of_test_markers_get_no_map_and_are_not_graded(bench: Benchmark) -> None:
    truth = of_benchmark(bench.folder)
    assert {target.finding for target in truth.targets + truth.absent} == {"effusion", "opacity"}
    cases = read_cases(bench.folder).cases
    assert {case.finding for case in cases} == {"effusion", "opacity"}
    assert len(cases) == len({item.case_id for item in bench.items if item.finding in FINDINGS})
