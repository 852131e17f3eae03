"""Readers who type coordinates into the sheets of a study, graded beside models."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from review_sheets import fill_all, rows_in, sheets_of

import chexqa
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import MARKER
from chexqa.eval.place_results.place_table import MACRO
from chexqa.eval.places.common import common_place
from chexqa.eval.places.pictures import picture_size
from chexqa.eval.places.target import target_of
from chexqa.phantoms import write_cases
from chexqa.review import columns
from chexqa.review.collect.verdicts import read_store
from chexqa.review.sheets.panels import ruled_picture

Cli = Callable[..., tuple[int, str, str]]
pytestmark = [pytest.mark.xdist_group("places"), pytest.mark.usefixtures("quick")]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    """A benchmark of places in six small phantoms: two cases with each finding, and one without."""
    folder = tmp_path_factory.mktemp("reader_places")
    write_cases(folder / "cases", 6, seed=5, size=256, findings=("cardiomegaly", "effusion"))
    return chexqa.generate(folder / "cases", folder / "bench", recipes="places", seed=3)


def dealt(bench: Benchmark, cli: Cli, study: Path) -> None:
    code, out, err = cli("review", "export", bench.folder, "-o", study, "--reviewers", "anna,ben", "--blind-answers")
    assert code == 0, (out, err)


def knows(bench: Benchmark) -> Callable[[str], dict[str, str]]:
    """A reader who types the right place of every item as its question asks."""
    answers, cases = bench.key("the test")

    def said(row: str) -> dict[str, str]:
        item = bench.item[row.removeprefix("i-")]
        target = target_of(cases[item.case_id].measures, "the test")
        if 1 not in answers[item.item_id].answer or target is None:
            return {columns.ANSWER: "Nowhere."}
        numbers = {
            "point_at": lambda: target.inner_point,
            "box_around": lambda: target.box,
            "heart_width": lambda: (target.heart[0], 200, target.heart[1], 200),
        }.get(item.kind)
        if numbers is not None:
            return {columns.ANSWER: ", ".join(f"{number:.1f}" for number in numbers())}
        shapes = target.boxes if item.kind == "boxes_around" else target.outlines
        return {columns.ANSWER: ", ".join(str([round(float(number), 1) for number in shape]) for shape in shapes)}

    return said


def scores(folders: list[Path]) -> dict[tuple[str, str], float]:
    places = (
        chexqa.grade(*folders).tables["places"].filter((pl.col("finding") == MACRO) | (pl.col("kind") == "heart_width"))
    )
    return {(row["model"], row["kind"]): row["net"] if row["finding"] == MACRO else row["right_present"]
            for row in places.to_dicts()}  # fmt: skip


def test_readers_type_places_and_stand_beside_models(bench: Benchmark, cli: Cli, tmp_path: Path) -> None:
    study, right = tmp_path / "study", knows(bench)
    dealt(bench, cli, study)
    rows = [row for path in sheets_of(study, "anna-reader") for row in rows_in(path)]
    assert {row[columns.ID].rpartition("/")[2] for row in rows} >= {"point_at", "box_around", "outline_of"}
    for row in rows:
        width, height = picture_size(bench, bench.item[row[columns.ID].removeprefix("i-")])
        assert f"in pixels of the picture ({width} x {height}); or: nowhere" in row[columns.OPTIONS]
    fill_all(study, "anna-reader", right)
    fill_all(study, "ben-reader", lambda row: {columns.ANSWER: "nowhere"})
    code, out, err = cli("review", "import", study)
    assert code == 0, (out, err)
    chexqa.evaluate(bench, ["baseline/oracle"], tmp_path / "run", protocol="end_to_end")
    found = scores([study / "run", tmp_path / "run"])
    for kind in {kind for _, kind in found}:
        assert found["reader/anna", kind] == found["baseline/oracle", kind] == 1.0, kind
        assert found["reader/ben", kind] == 0.0, kind
    code, out, _ = cli("review", "validity", bench.folder, study / "verdicts.jsonl")
    assert code == 0, out


@pytest.mark.long
def test_a_cell_that_is_no_place_is_a_problem_of_its_row_only(bench: Benchmark, cli: Cli, tmp_path: Path) -> None:
    study, right = tmp_path / "study", knows(bench)
    dealt(bench, cli, study)
    wrong = {
        "point_at": ["120", "5000, 20", "lower left", "120, 340; 100, 90", "1. a place in the picture", "nan, 4"],
        "box_around": ["400, 300, 120, 100", "1, 2, 3"],
    }
    odd: dict[str, str] = {}
    for item in bench.items:
        if wrong.get(item.kind) and item.finding != MARKER:
            odd[columns.item_row_id(item.item_id)] = wrong[item.kind].pop()
    fill_all(study, "anna-reader", lambda row: {columns.ANSWER: odd[row]} if row in odd else right(row))
    code, out, err = cli("review", "import", study)
    told = " ".join((out + err).split())
    assert "'400, 300, 120, 100' under 'answer' is not a place: the second corner of a box must lie" in told
    assert "'5000, 20' under 'answer' is not a place: it lies outside the picture; give x, y, such as" in told
    assert not any(wrong.values()), wrong
    store = {verdict.row: verdict for verdict in read_store(study).values()}
    items = {columns.item_row_id(item.item_id) for item in bench.items if item.finding != MARKER}
    assert store.keys() == items - odd.keys()
    assert {verdict.place == () for verdict in store.values()} == {True, False}

    shutil.rmtree(study / "problems")
    fill_all(
        study,
        "anna-reader",
        lambda row: {columns.ANSWER: "1, 2, 3, 4"} if row.endswith("/boxes_around") else right(row),
    )
    code, out, err = cli("review", "import", study, "--replace")
    assert code == 0, (out, err)
    moved = [verdict for verdict in read_store(study).values() if verdict.row.endswith("/boxes_around")]
    assert {verdict.place for verdict in moved} == {((1.0, 2.0, 3.0, 4.0),)}
    assert any(verdict.earlier for verdict in moved), "the earlier place is kept"
    code, out, err = cli("review", "validity", bench.folder, study / "verdicts.jsonl")
    assert code == 0, err


def test_the_rulers_say_the_pixels_of_the_radiograph_and_cover_none() -> None:
    picture = np.full((836, 1024), 90, np.uint8)
    ruled = ruled_picture(picture)
    top, left = (ruled.shape[place] - picture.shape[place] for place in (0, 1))
    assert (ruled[top:, left:] == 90).all()
    ticks = np.flatnonzero((ruled[top - 2, left:] == 0).all(axis=1))
    assert {100 * round(tick / 100) for tick in ticks} == {*range(0, 1100, 100)} - {1100}
    assert max(abs(tick - 100 * round(tick / 100)) for tick in ticks) <= 1


def test_what_readers_have_in_common_is_the_median_or_the_area_of_most() -> None:
    boxes = [
        [(10.0, 10.0, 50.0, 50.0)],
        [(30.0, 20.0, 70.0, 60.0), (80.0, 80.0, 90.0, 90.0)],
        [(28.0, 0.0, 60.0, 55.0)],
    ]
    assert common_place("box", [boxes[0], boxes[2]], (100, 100)) == ((19.0, 5.0, 55.0, 52.5),)
    assert common_place("boxes", boxes, (100, 100)) == ((28.0, 10.0, 60.0, 55.0),)
    assert common_place("width", [[(10.0, 5.0, 90.0, 5.0)], [(80.0, 7.0, 20.0, 7.0)]], (100, 100)) == (
        (15.0, 6.0, 85.0, 6.0),
    )
    assert common_place("boxes", [[boxes[0][0]], [boxes[1][1]]], (100, 100)) is None
    square = (10.0, 10.0, 60.0, 10.0, 60.0, 60.0, 10.0, 60.0)
    found = common_place("outline", [[square]] * 2, (100, 100))
    assert found is not None
    assert np.abs(np.array(found[0]).reshape(-1, 2).max(axis=0) - 60).max() <= 1
