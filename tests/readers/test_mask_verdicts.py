"""The second-reader score: same masks agree, hands that stray agree less, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np
import polars as pl
import prediction_files
import pytest
from blind_review import review
from plain_intervals import mean, share

import chexqa
from chexqa import api
from chexqa.contract import benchmark
from chexqa.contract.benchmark import Benchmark
from chexqa.eval.readers import second_reader
from chexqa.eval.readers.mask_verdicts import is_major, read_second_masks
from chexqa.generators.pipeline import recipe
from chexqa.generators.pipeline.recipe import PerceptionRecipe
from chexqa.imaging.masks import from_rle
from chexqa.phantoms import write_cases

pytestmark = pytest.mark.xdist_group("second_masks")

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Benchmark, Path]:
    """A benchmark of ten phantoms of effusion, and their manifest's folder."""
    from chexqa import question_banks
    from chexqa.generators.pipeline import generate_benchmark
    from chexqa.generators.pipeline.job import make_job

    place = tmp_path_factory.mktemp("second")
    write_cases(place / "cases", 10, 3, 256, findings=("effusion",))
    job = make_job([recipe.load(name) for name in recipe.DEFAULT], question_banks.load("en"), 0)
    generate_benchmark.generate(place / "cases", place / "bench", job)
    return benchmark.load(place / "bench"), place / "cases"


def second(made: tuple[Benchmark, Path], out: Path, px: float, count: int = 9) -> Path:
    """The first cases' masks, with their border moved by a smooth random distance of ``px`` of 1024 pixels."""
    bench, _ = made
    out.mkdir()
    random = np.random.default_rng(0)
    for case in (bench.cases or {}).values():
        if "lesion" not in case.measures["masks"]:
            continue
        mask = from_rle(case.measures["masks"]["lesion"], "x").astype(np.uint8)
        signed = cv2.distanceTransform(mask, cv2.DIST_L2, 5) - cv2.distanceTransform(1 - mask, cv2.DIST_L2, 5)
        noise = cv2.GaussianBlur(random.standard_normal(mask.shape).astype(np.float32), (0, 0), 20)
        moved = signed + px * noise / noise.std() > 0 if px else mask > 0
        if len(list(out.iterdir())) < count:
            cv2.imwrite(str(out / f"{case.source_case_id}.png"), moved.astype(np.uint8) * 255)
    return out


@pytest.mark.long
def test_the_same_masks_agree(made: tuple[Benchmark, Path], tmp_path: Path, cli: Cli) -> None:
    bench, _ = made
    code, out, _ = cli("second-reader", bench.folder, "--second-masks", second(made, tmp_path / "same", 0), "--json")
    assert code == 0
    same = {row["kind"]: row for row in json.loads(out)}
    assert {"contour_evaluation", "revision_result", "distribution", "grid_cell"} <= same.keys()
    assert all(row["by_second"] == row["by_first"] == row["second_reader"] == row["oracle"] for row in same.values())


def test_a_case_id_with_slashes_is_a_path_of_folders(made: tuple[Benchmark, Path], tmp_path: Path) -> None:
    bench, _ = made
    assert bench.cases is not None
    drawn = next(second(made, tmp_path / "flat", 0, 1).glob("*.png"))
    case = next(case for case in bench.cases.values() if case.source_case_id == drawn.stem)
    named = replace(bench, cases={**bench.cases, case.case_id: replace(case, source_case_id="test/1/effusion")})
    (tmp_path / "deep" / "test" / "1").mkdir(parents=True)
    drawn.rename(tmp_path / "deep" / "test" / "1" / "effusion.png")
    assert list(read_second_masks(tmp_path / "deep", named)) == [case.case_id]


def flipped(bench: Benchmark, folder: Path, kind: str) -> list[bool]:
    """Return for each item of a kind whether its answer stays, counted from the pixels of the other mask's file.

    A point's answer is the pixel below it; the answer on the grid is the cell with the most pixels.
    """
    assert bench.answers is not None
    assert bench.cases is not None
    stays = []
    for item in bench.items:
        key = bench.answers[item.item_id]
        if item.kind != kind or not key.scored:
            continue
        file = folder / f"{bench.cases[item.case_id].source_case_id}.png"
        if not file.is_file():
            continue
        mask = cv2.imread(str(file), cv2.IMREAD_GRAYSCALE)
        assert mask is not None
        if kind == "grid_cell":
            ends = [[round(place * size / 8) for place in range(9)] for size in mask.shape]
            filled = [(mask[a:b, c:d] > 0).mean() for a, b in pairwise(ends[0]) for c, d in pairwise(ends[1])]
            stays.append(1 + int(np.argmax(filled)) in key.answer)
            continue
        is_inside = kind == "revision_contraction"
        points = key.evidence["points"]
        said = [number for number, point in enumerate(points, 1) if point["inside"] == is_inside
                and bool(mask[point["xy"][1], point["xy"][0]]) != is_inside]  # fmt: skip
        stays.append(tuple(said or [len(points) + 1]) == key.answer)
    return stays


@pytest.mark.long
def test_shakier_hands_agree_less_by_just_the_answers_that_flip(
    made: tuple[Benchmark, Path], tmp_path: Path, cli: Cli
) -> None:
    """Hands of 3, 10 and 40 pixels of 1024; ``benchmarks/second_reader`` counts with a whole benchmark."""
    bench, _ = made
    means = []
    for px in (3, 10, 40):
        folder = second(made, tmp_path / str(px), px, 3)
        code, out, _ = cli("second-reader", bench.folder, "--second-masks", folder, "--json")
        assert code == 0
        rows = {row["kind"]: row for row in json.loads(out)}
        means.append(np.mean([row["by_second"] for row in rows.values()]))
        for kind in ("revision_expansion", "revision_contraction", "grid_cell"):
            assert rows[kind]["by_second"] == pytest.approx(np.mean(flipped(bench, folder, kind)), abs=1e-9)
    assert means == sorted(means, reverse=True)
    assert means[0] > means[-1] + 0.1


def test_grades_have_a_row_of_the_second_reader(made: tuple[Benchmark, Path], tmp_path: Path, cli: Cli) -> None:
    bench, _ = made
    assert cli("eval", bench.folder, "--models", "baseline/oracle", "-o", tmp_path / "run")[0] == 0
    folder = second(made, tmp_path / "second", 10, 1)
    code, out, _ = cli("grade", tmp_path / "run", "--second-masks", folder, "--out", tmp_path / "grades")
    assert code == 0
    assert any(line.startswith("second") for line in out.splitlines())
    table = pl.read_csv(tmp_path / "grades" / "tables" / "second_reader.csv")
    assert table["kind"].to_list()[0] == "contour_evaluation"
    assert (table["oracle"] >= table["by_second"]).all()
    code, _, err = cli("grade", tmp_path / "run", "--second-masks", tmp_path / "nowhere")
    assert code == 2
    assert "of the second reader's masks" in " ".join(err.split())


@pytest.mark.long
def test_the_function_grades_as_the_command_with_a_protocol_a_review_and_second_masks(
    made: tuple[Benchmark, Path], tmp_path: Path, cli: Cli
) -> None:
    bench, _ = made
    answers = prediction_files.write(tmp_path / "mine.jsonl", prediction_files.right(bench.folder))
    reviewed, masks = review(bench, tmp_path / "review", 0), second(made, tmp_path / "second", 10)
    assert cli("grade", answers, "--benchmark", bench.folder, "--protocol", "independent", "--reviewed", reviewed,
               "--second-masks", masks, "--out", tmp_path / "command")[0] == 0  # fmt: skip
    grades = chexqa.grade(answers, benchmark=bench, protocol="independent", reviewed=reviewed, second_masks=str(masks))
    api.write(grades, tmp_path / "function")
    by_command, by_function = (
        {path.name: path.read_bytes() for path in (tmp_path / way / "tables").iterdir()}
        for way in ("command", "function")
    )
    assert by_function == by_command
    assert {"powered.csv", "second_reader.csv"} <= by_command.keys()
    assert set(grades.grades["protocol"]) == {"independent"}


def test_intervals_of_a_second_reader_are_over_patients() -> None:
    """Twenty patients with two items forth and one back; the mean of both is a mean of shares."""
    right = np.random.default_rng(1).random((20, 3)) < 0.8
    rows = [("severity", f"p{patient}", None, "x", way == 2, bool(right[patient, way]), 0.25, True)
            for patient in range(20) for way in range(3)]  # fmt: skip
    rows.append(("severity", "p0", None, "x", False, None, 0.25, True))
    (row,) = second_reader.second_reader(pl.DataFrame(rows, schema=second_reader.COLUMNS, orient="row")).to_dicts()
    forth = share(right[:, :2].sum(axis=1).tolist(), [2.0] * 20)
    back = share(right[:, 2].astype(float).tolist(), [1.0] * 20)
    expected = {"kind": "severity", "items": 40, "patients": 20, "items_back": 20, "chance": 0.25, "oracle": 1.0,
                "ties": 1, **forth.columns("by_second"), **back.columns("by_first"),
                **mean(forth, back).columns("second_reader")}  # fmt: skip
    assert row == pytest.approx(expected)


def test_a_thin_rim_is_no_major_error_and_a_deep_dent_is_one() -> None:
    chosen = recipe.load("chexpercept")
    assert isinstance(chosen, PerceptionRecipe)
    disc = np.zeros((1024, 1024), np.uint8)
    cv2.circle(disc, (512, 512), 150, 1, -1)
    truth = disc.astype(bool)
    wider = cv2.dilate(disc, np.ones((5, 5), np.uint8)).astype(bool)
    dented = truth.copy()
    dented[362:420, 440:600] = False
    assert not is_major(truth, truth, chosen)
    assert not is_major(wider, truth, chosen)
    assert is_major(dented, truth, chosen)
    assert is_major(truth, dented, chosen)


def test_what_is_no_second_mask_is_refused(made: tuple[Benchmark, Path], tmp_path: Path, cli: Cli) -> None:
    bench, _ = made
    (tmp_path / "empty").mkdir()
    code, _, err = cli("second-reader", bench.folder, "--second-masks", tmp_path / "empty")
    assert code == 2
    assert "has no mask for any case" in " ".join(err.split())
    assert cli("second-reader", bench.folder, "--second-masks", tmp_path / "nowhere")[0] == 2
    wrong = second(made, tmp_path / "wrong", 0)
    for path in wrong.glob("*.png"):
        cv2.imwrite(str(path), np.zeros((300, 500), np.uint8))
    code, _, err = cli("second-reader", bench.folder, "--second-masks", wrong)
    assert code == 2
    assert "original size" in " ".join(err.split())
