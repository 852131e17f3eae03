"""The second-reader score: same masks agree, hands that stray agree less, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest

from chexqa.contract import benchmark
from chexqa.contract.benchmark import Benchmark
from chexqa.generators.pipeline import recipe
from chexqa.generators.pipeline.recipe import PerceptionRecipe
from chexqa.generators.pipeline.second_reader import is_major
from chexqa.imaging.masks import from_rle
from chexqa.phantoms import write_cases

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Benchmark, Path]:
    """A benchmark of nine phantoms of effusion, and their manifest's folder."""
    from chexqa import question_banks
    from chexqa.generators.pipeline import generate_benchmark

    place = tmp_path_factory.mktemp("second")
    write_cases(place / "cases", 9, 3, 256, findings=("effusion",))
    job = generate_benchmark.make_job([recipe.load(name) for name in recipe.DEFAULT], question_banks.load("en"), 0)
    generate_benchmark.generate(place / "cases", place / "bench", job)
    return benchmark.load(place / "bench"), place / "cases"


def second(made: tuple[Benchmark, Path], out: Path, px: float) -> Path:
    """The cases' masks, with their border moved by a smooth random distance of ``px`` of 1024 pixels."""
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
        cv2.imwrite(str(out / f"{case.source_case_id}.png"), moved.astype(np.uint8) * 255)
    return out


def test_the_same_masks_agree_and_points_are_answered_by_their_side_of_the_outline(
    made: tuple[Benchmark, Path], tmp_path: Path, cli: Cli
) -> None:
    bench, _ = made
    code, out, _ = cli("second-reader", bench.folder, "--second-masks", second(made, tmp_path / "same", 0), "--json")
    assert code == 0
    same = {row["kind"]: row for row in json.loads(out)}
    assert {"contour_evaluation", "revision_result", "distribution", "grid_cell"} <= same.keys()
    assert all(row["forth"] == row["back"] == row["oracle"] for row in same.values())
    far = second(made, tmp_path / "far", 40)
    code, out, _ = cli("second-reader", bench.folder, "--second-masks", far, "--json")
    moved = {row["kind"]: row for row in json.loads(out)}
    assert np.mean([row["forth"] for row in moved.values()]) < np.mean([row["forth"] for row in same.values()])
    # A second way to the points: the pixel under each point, from the benchmark's files alone.
    assert bench.answers is not None
    assert bench.cases is not None
    agreed = []
    for item in bench.items:
        key = bench.answers[item.item_id]
        if item.kind == "revision_expansion" and key.scored:
            mask = cv2.imread(str(far / f"{bench.cases[item.case_id].source_case_id}.png"), cv2.IMREAD_GRAYSCALE)
            assert mask is not None
            points = key.evidence["points"]
            said = [n for n, point in enumerate(points, 1)
                    if not point["inside"] and mask[point["xy"][1], point["xy"][0]]]  # fmt: skip
            agreed.append(tuple(said or [len(points) + 1]) == key.answer)
    assert moved["revision_expansion"]["forth"] == pytest.approx(np.mean(agreed))


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
    assert "has no mask of a case" in " ".join(err.split())
    assert cli("second-reader", bench.folder, "--second-masks", tmp_path / "nowhere")[0] == 2
    wrong = second(made, tmp_path / "wrong", 0)
    for path in wrong.glob("*.png"):
        cv2.imwrite(str(path), np.zeros((300, 500), np.uint8))
    code, _, err = cli("second-reader", bench.folder, "--second-masks", wrong)
    assert code == 2
    assert "own size" in " ".join(err.split())
