"""Places from phantoms to the table: baselines of known score, and models whose frame is or is not the declared one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import chexqa
from chexqa.contract.benchmark import Benchmark
from chexqa.eval.models.place_baselines import PlaceBaselines
from chexqa.eval.place_results.place_table import MACRO
from chexqa.eval.places import markers
from chexqa.eval.places.average import AverageMaps
from chexqa.eval.places.coordinate_systems import FRAMES
from chexqa.eval.places.pictures import picture_size
from chexqa.eval.places.score import is_hit
from chexqa.eval.places.target import Target, target_of
from chexqa.files.errors import InputError
from chexqa.imaging.masks import from_rle
from chexqa.phantoms import write_cases

BASELINES = ("oracle", "chance", "centre", "average-map", "blind-prior")
FINDINGS = ("cardiomegaly", "edema", "effusion", "lung_lesion")

pytestmark = pytest.mark.xdist_group("places")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    """A benchmark of small phantoms: two cases of each finding with it, and one without."""
    folder = tmp_path_factory.mktemp("places")
    write_cases(folder / "cases", 12, seed=5, size=256, findings=FINDINGS)
    return chexqa.generate(folder / "cases", folder / "bench", recipes="places", seed=3)


@pytest.fixture(scope="module")
def run_of_baselines(bench: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("run") / "run"
    chexqa.evaluate(bench, [f"baseline/{name}" for name in BASELINES], run, protocol="independent")
    return run


@pytest.fixture(scope="module")
def places(run_of_baselines: Path) -> pl.DataFrame:
    return chexqa.grade(run_of_baselines).tables["places"]


def of(places: pl.DataFrame, model: str) -> pl.DataFrame:
    return places.filter(pl.col("model") == f"baseline/{model}")


def test_present_and_absent_findings_are_asked_and_diffuse_ones_have_no_box(bench: Benchmark) -> None:
    asked = {(item.kind, item.finding) for item in bench.items}
    assert {finding for kind, finding in asked if kind == "point_at"} == set(FINDINGS)
    assert ("box_around", "edema") not in asked
    assert {finding for kind, finding in asked if kind == "heart_width"} == {"cardiomegaly"}
    answers = bench.key("the test")[0]
    points = [answers[item.item_id].answer for item in bench.items if item.kind == "point_at"]
    assert {answer: points.count(answer) for answer in points} == {(1,): 8, (2,): 4}
    assert sum(item.kind == "marker_point" for item in bench.items) == markers.COUNT


def test_the_oracle_is_always_right_and_always_nowhere_is_worth_nothing(places: pl.DataFrame) -> None:
    oracle = of(places, "oracle").filter(pl.col("kind") != "heart_width")
    assert oracle["net"].to_list() == [1.0] * oracle.height
    assert of(places, "oracle").filter(kind="heart_width")["right_present"].to_list() == [1.0]
    assert set(oracle["iou"].drop_nulls()) == {1.0}
    assert oracle["dice"].drop_nulls().min() == 1.0
    for name in ("iou_10", "iou_30", "iou_50"):
        assert set(oracle.filter(pl.col("kind").is_in(["box_around", "outline_of"]))[name]) == {1.0}
        assert set(oracle.filter(pl.col("kind").is_in(["point_at", "boxes_around"]))[name]) == {None}
    never = of(places, "blind-prior").filter(pl.col("kind") != "heart_width")
    assert set(never["net"]) == {0.0}
    assert set(never["missed"]) == {1.0}


def test_findings_on_the_heart_count_in_no_mean(places: pl.DataFrame) -> None:
    rows = of(places, "average-map").filter(kind="point_at")
    lungs = rows.filter(~pl.col("finding").is_in(["cardiomegaly", MACRO]))
    assert rows.filter(finding=MACRO)["net"].item() == pytest.approx(lungs["net"].mean())


def test_the_average_map_of_a_case_is_that_of_other_patients(bench: Benchmark) -> None:
    """Two cases show the finding, so the average map of each is the mask of the other one."""
    averages, cases = AverageMaps(bench), bench.key("the test")[1]
    shown = {item.case_id for item in bench.items if item.kind == "point_at" and item.finding == "effusion"}
    masks = {case_id: runs["lesion"] for case_id in shown if "lesion" in (runs := cases[case_id].measures["masks"])}
    (one, first), (other, second) = ((case_id, from_rle(runs, "the test")) for case_id, runs in masks.items())
    assert abs(first.mean() - second.mean()) > 1e-3
    for case_id, mask in ((one, second), (other, first)):
        average = averages.of("effusion", case_id)
        assert average is not None
        assert average.mean() == pytest.approx(mask.mean(), abs=1e-5)


def test_the_average_map_scores_what_its_reference_says(places: pl.DataFrame) -> None:
    mapped = of(places, "average-map").filter(pl.col("finding") != MACRO)
    assert mapped["right_present"].to_list() == pytest.approx(mapped["chance_average_map"].to_list())


@pytest.mark.long
def test_even_points_hit_as_often_as_the_reference_says(bench: Benchmark) -> None:
    answers, cases = bench.key("the test")
    baselines, hits, expected = PlaceBaselines(bench), [], []
    for item in bench.items:
        target = target_of(cases[item.case_id].measures, "the test")
        if item.kind != "point_at" or answers[item.item_id].answer != (1,) or target is None:
            continue
        said = [baselines.reply("chance", item, np.random.default_rng(seed)) for seed in range(100)]
        given = [json.loads(text.removeprefix("Answer: ")) for text in said if "nowhere" not in text]
        assert 30 < len(given) < 70
        hits += [is_hit(tuple(point), target) for point in given]
        expected += [2 * answers[item.item_id].chance] * len(given)
    error = np.sqrt(sum(share * (1 - share) for share in expected)) / len(expected)
    assert abs(np.mean(hits) - np.mean(expected)) < 3 * error


def test_the_middle_of_the_picture_is_right_where_the_mask_holds_it(bench: Benchmark, places: pl.DataFrame) -> None:
    answers, cases = bench.key("the test")
    right = []
    for item in bench.items:
        if item.kind == "point_at" and answers[item.item_id].answer == (1,) and item.finding != "cardiomegaly":
            target = target_of(cases[item.case_id].measures, "the test")
            assert target is not None
            width, height = target.size
            right.append((item.finding, bool(target.near[height // 2, width // 2])))
    expected = (
        pl.DataFrame(right, schema=["finding", "right"], orient="row").group_by("finding").agg(pl.col("right").mean())
    )
    found = of(places, "centre").filter(kind="point_at", finding=MACRO)
    assert found["right_present"].item() == pytest.approx(expected["right"].mean())
    assert found["placed_absent"].item() == 1.0


def seer(bench: Benchmark, spoken: str) -> Callable[[list[dict[str, Any]]], str]:
    """A model that sees everything and gives its coordinates in one frame, whatever it is asked for."""
    answers, cases = bench.key("the test")
    by_question = {(item.alone_images[0].image.rpartition("/")[2], item.question): item for item in bench.items}
    frame = FRAMES[spoken]

    def answer(messages: list[dict[str, Any]]) -> str:
        parts = messages[-1]["content"]
        picture = next(part["image"].name for part in parts if part["type"] == "image")
        text = parts[-1]["text"]
        item = next(item for (name, question), item in by_question.items() if name == picture and question in text)
        if answers[item.item_id].answer == (2,):
            return "Answer: nowhere"
        target, form, size = target_of(cases[item.case_id].measures, ""), item.form.name, picture_size(bench, item)
        assert target is not None
        shapes = [list(frame.from_pixels(shape, form, size)) for shape in whole(form, target)]
        return f"Answer: {json.dumps(shapes if form in ('boxes', 'outline') else shapes[0])}"

    answer.pictures = "path"  # type: ignore[attr-defined]
    return answer


def whole(form: str, target: Target) -> list[tuple[float, ...]]:
    if form == "width":
        assert target.heart is not None
        return [(target.heart[0], 5.0, target.heart[1], 5.0)]
    made: dict[str, list[tuple[float, ...]]] = {
        "point": [target.inner_point], "box": [target.box], "boxes": [*target.boxes], "outline": [*target.outlines],
    }  # fmt: skip
    return made[form]


@pytest.fixture(scope="module")
def seen(bench: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a model that sees everything and gives thousandths, as declared; no test changes it."""
    run = tmp_path_factory.mktemp("seen") / "run"
    chexqa.evaluate(bench, seer(bench, "thousand"), run, frame="thousand", protocol="independent", name="seer")
    return run


@pytest.fixture(scope="module")
def tables_of_seen(seen: Path) -> Mapping[str, pl.DataFrame]:
    return chexqa.grade(seen).tables


@pytest.mark.long
def test_a_model_in_the_declared_frame_counts(seen: Path, tables_of_seen: Mapping[str, pl.DataFrame], cli: Any) -> None:
    assert_frame(tables_of_seen, "thousand", "proved")
    table = tables_of_seen["places"]
    assert set(table.filter(pl.col("kind") != "heart_width")["net"]) == {1.0}
    kinds = tables_of_seen["kinds"].filter(~pl.col("kind").str.starts_with("marker"))
    assert kinds["accuracy"].null_count() == 0
    code, out, err = cli("grade", seen)
    assert code == 0, err
    assert "Places (percent)" in out  # shares in percent, whatever the coordinates are
    assert "proved" in out
    assert "proved: " not in " ".join(out.split())
    assert "Headline" not in out  # nothing is asked at the three levels


def test_a_model_in_another_frame_than_the_declared_one_does_not_count(
    bench: Benchmark, tmp_path: Path, cli: Any
) -> None:
    run = tmp_path / "run"
    chexqa.evaluate(bench, seer(bench, "fraction-yxyx"), run, protocol="independent", name="seer")
    tables = chexqa.grade(run).tables
    assert_frame(tables, "fraction-yxyx", "another fits")
    assert "another fits: fraction-yxyx" in " ".join(cli("grade", run)[1].split())
    table = tables["places"].filter(pl.col("kind") != "heart_width")
    assert table["net"].null_count() == table.height
    assert tables["places"]["iou"].null_count() == tables["places"].height
    kinds = tables["kinds"].filter(~pl.col("kind").str.starts_with("marker"))
    assert kinds["accuracy"].null_count() == kinds.height


def assert_frame(tables: Mapping[str, pl.DataFrame], spoken: str, verdict: str) -> None:
    assert set(tables["place_frames"]["proof"]) == {verdict}
    assert all(spoken in fitting.split(", ") or fitting == spoken for fitting in tables["place_frames"]["fitting"])
    assert set(tables["places"]["frame"]) == {verdict}


@pytest.mark.long
def test_places_are_read_again_in_the_frame_of_the_run(bench: Benchmark, tmp_path: Path) -> None:
    run = tmp_path / "run"
    chexqa.evaluate(bench, seer(bench, "percent"), run, frame="percent", protocol="independent", name="seer", limit=30)
    again = chexqa.grade(run, reread=True)
    assert again.changed is not None
    assert again.changed.is_empty()


@pytest.mark.long
def test_places_leave_and_return_as_predictions(
    bench: Benchmark, seen: Path, tables_of_seen: Mapping[str, pl.DataFrame], tmp_path: Path, cli: Any
) -> None:
    file = tmp_path / "told.jsonl"
    assert cli("run", "export", seen, "--format", "predictions", "-o", file)[0] == 0
    here, back = tables_of_seen, chexqa.grade(file, benchmark=bench).tables
    assert set(back["place_frames"]["proof"]) == {"proved"}
    assert back["places"].select("kind", "finding", "net").equals(here["places"].select("kind", "finding", "net"))
    point = next(item.item_id for item in bench.items if item.kind == "point_at")
    for place, message in (([[1, 2, 3, 4]], "asks for a point"), ([[1]], "2 or more entries")):
        file.write_text(json.dumps({"item_id": point, "place": place}) + "\n")
        with pytest.raises(InputError, match=message):
            chexqa.grade(file, benchmark=bench)


def test_examples_are_refused_where_coordinates_are_asked_for(bench: Benchmark, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="asks for coordinates, but the right answer of an example cannot be shown"):
        chexqa.evaluate(bench, seer(bench, "percent"), tmp_path / "run", shots=1)
    assert not (tmp_path / "run").exists()


def test_an_unknown_frame_is_refused(bench: Benchmark, tmp_path: Path, cli: Any) -> None:
    code, _, err = cli("eval", bench.folder, "--model-id", "m", "--api-base", "http://127.0.0.1:9", "--frame", "inch",
                       "-o", tmp_path / "run")  # fmt: skip
    assert code == 2
    assert "there is no coordinate system 'inch'" in err
    assert not (tmp_path / "run").exists()


def test_where_masks_are_boxes_nobody_is_asked_for_an_outline(tmp_path: Path) -> None:
    write_cases(tmp_path / "cases", 3, seed=5, size=256, findings=("effusion",))
    manifest = tmp_path / "cases" / "cases.jsonl"
    lines = [json.loads(line) for line in manifest.read_text().splitlines()]
    for line in lines:
        line["mask"] = {"box": [20, 60, 30, 30]} if line["present"] else None
    manifest.write_text("".join(json.dumps(line) + "\n" for line in lines))
    made = chexqa.generate(manifest, tmp_path / "bench", recipes="places", seed=3)
    answers = made.key("the test")[0]
    asked = {kind: {answers[item.item_id].answer for item in made.items if item.kind == kind}
             for kind in ("point_at", "box_around", "outline_of")}  # fmt: skip
    assert asked == {"point_at": {(1,), (2,)}, "box_around": {(1,), (2,)}, "outline_of": set()}
