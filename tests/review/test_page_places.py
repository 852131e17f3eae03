"""Places on the review page: clicked on the radiograph or typed, and graded beside models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from browser import Tab, serious

import chexqa
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Item
from chexqa.eval.places.target import target_of
from chexqa.phantoms import write_cases
from chexqa.review.page.answers import page_data
from chexqa.review.page.write_page import PAGE, PAGES

Cli = Callable[..., tuple[int, str, str]]
pytestmark = [pytest.mark.xdist_group("review page"), pytest.mark.usefixtures("quick")]


KINDS = {"point_at", "box_around", "boxes_around", "outline_of", "heart_width"}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    """A benchmark of places in six small phantoms: two cases with each finding, and two without."""
    folder = tmp_path_factory.mktemp("page_places")
    write_cases(folder / "cases", 6, seed=5, size=256, findings=("cardiomegaly", "effusion"))
    return chexqa.generate(folder / "cases", folder / "bench", recipes="places", seed=3)


@pytest.fixture(scope="module")
def study(bench: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A blind review of the benchmark by two readers, as pages."""
    from chexqa.cli.main import run

    made = tmp_path_factory.mktemp("page_places_review") / "study"
    assert run(["review", "export", str(bench.folder), "-o", str(made), "--reviewers", "anna,ben", "--blind-answers",
                "--page-only"]) == 0  # fmt: skip
    return made


def corners_of(bench: Benchmark, item: Item) -> list[list[tuple[float, float]]]:
    """The right shapes of an item, each as the corners that a reader clicks; none for nowhere."""
    answers, cases = bench.key("the test")
    target = target_of(cases[item.case_id].measures, "the test")
    if 1 not in answers[item.item_id].answer or target is None:
        return []
    if item.kind == "point_at":
        return [[target.inner_point]]
    if item.kind == "heart_width":
        assert target.heart is not None
        return [[(target.heart[1], 120), (target.heart[0], 120)]]
    if item.kind == "outline_of":
        return [apart(np.array(shape).reshape(-1, 2)) for shape in target.outlines]
    boxes = [target.box] if item.kind == "box_around" else target.boxes
    return [[(x1, y0), (x0, y1)] for x0, y0, x1, y1 in boxes]


def apart(corners: np.ndarray) -> list[tuple[float, float]]:
    """Corners of an outline that a reader can tell apart without magnifying."""
    kept = [corners[0]]
    for corner in corners[1:]:
        if min(np.hypot(*(corner - kept[-1])), np.hypot(*(corner - kept[0]))) >= 20:
            kept.append(corner)
    return [(float(x), float(y)) for x, y in kept]


def click(page: Any, place: tuple[float, float], size: list[int]) -> None:
    box = page.locator(".stage").bounding_box()
    page.mouse.click(box["x"] + place[0] / size[0] * box["width"], box["y"] + place[1] / size[1] * box["height"])


@pytest.mark.long
def test_places_are_clicked_on_the_radiograph_and_graded_beside_models(
    bench: Benchmark, study: Path, tab: Tab, cli: Cli, tmp_path: Path
) -> None:
    (home,) = sorted((study / PAGES).glob("anna-reader*"))
    rows = page_data(home)["rows"]
    page = tab.open(home / PAGE)
    assert serious(page) == []
    kinds = set()
    for number, row in enumerate(rows):
        item, size = bench.item[row["id"].removeprefix("i-")], row["place"]["size"]
        page.evaluate(f"show({number})")
        page.wait_for_selector(f"body[data-shown='{number}']")
        shapes = corners_of(bench, item)
        for corners in shapes:
            for corner in corners:
                click(page, corner, size)
            if item.kind == "outline_of":
                if number % 2:
                    click(page, corners[0], size)
                else:
                    tab.press("Enter")
        if shapes:
            assert page.locator("path.given").get_attribute("d") or page.locator("circle.given").count()
        else:
            tab.press("1")
        kinds.add((item.kind, bool(shapes)))
        tab.press("Enter")
    assert {kind for kind, is_somewhere in kinds if is_somewhere} == KINDS
    with tab.page.expect_download() as download:
        tab.press("Control+Enter")
        page.locator("#closing-yes").click()
    download.value.save_as(tmp_path / download.value.suggested_filename)
    code, out, err = cli("review", "import", tmp_path / download.value.suggested_filename, "--batch", study, "-o",
                         study / "verdicts.jsonl")  # fmt: skip
    assert code == 0, (out, err)
    table = chexqa.grade(study / "run").tables["places"].filter(pl.col("model") == "reader/anna")
    assert table["right_present"].drop_nulls().min() == 1.0
    assert table["placed_absent"].drop_nulls().max() in (0.0, None)


def test_a_place_is_typed_taken_back_and_drawn_anew(study: Path, tab: Tab, cli: Cli, tmp_path: Path) -> None:
    (home,) = sorted((study / PAGES).glob("anna-reader*"))
    page = tab.open(home / PAGE)
    number = next(at for at, row in enumerate(page_data(home)["rows"]) if row["id"].endswith("/boxes_around"))
    size = page_data(home)["rows"][number]["place"]["size"]
    page.evaluate(f"show({number})")
    page.wait_for_selector(f"body[data-shown='{number}']")
    said = "answers.of(row().id).answer ?? ''"
    tab.press("c")
    page.keyboard.type("10, 20, 60, 90")
    tab.press("Enter")
    for corner in ((100, 30), (160.0, 80.0)):
        click(page, corner, size)
    assert page.evaluate(said).startswith("[10, 20, 60, 90], [")
    tab.press("2")
    assert page.evaluate(said) == "10, 20, 60, 90"
    tab.press("1")
    assert page.evaluate(said) == "nowhere"
    tab.press("Control+z", "Control+z")
    assert page.evaluate(said).startswith("[10, 20, 60, 90], [")
    click(page, (30, 30), size)
    tab.press("Escape")
    assert page.evaluate(said).startswith("[10, 20, 60, 90], ["), "half a box is no answer"
    tab.press("c", "Control+a")
    page.keyboard.type("10, 20, 60")
    tab.press("Enter")
    with tab.page.expect_download() as download:
        tab.press("Control+s")
    download.value.save_as(tmp_path / "saved.json")
    code, out, err = cli("review", "import", tmp_path / "saved.json", "--batch", study, "-o", tmp_path / "v.jsonl")
    assert "'10, 20, 60' under 'answer' is not a place" in " ".join((out + err).split())
    assert code == 2
