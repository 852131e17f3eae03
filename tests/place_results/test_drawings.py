"""Places over a radiograph: whose is whose by letter and colour, in the contact sheet, the gallery and its page."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import playwright_api, tab_in

import chexqa
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.read_run import load
from chexqa.eval.gallery import entries
from chexqa.eval.gallery import files as gallery
from chexqa.eval.places import markers
from chexqa.eval.places.drawn_places import (
    ANSWER_RGB,
    KEY,
    KEY_RGB,
    Label,
    answerer,
    answerers,
    hex_of,
    letter_of,
    painted,
    strokes,
)  # fmt: skip
from chexqa.eval.places.target import make_target
from chexqa.eval.scoring.grade import grade_folders
from chexqa.phantoms import write_cases

pytestmark = pytest.mark.xdist_group("places")
SIZE = (400, 300)
BOX = (100.0, 100.0, 200.0, 180.0)


def target() -> Any:
    mask = np.zeros((300, 400), bool)
    mask[100:180, 100:200] = True
    return make_target({"lesion": mask})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three baselines on two small phantoms with an effusion and one without."""
    home = tmp_path_factory.mktemp("drawings")
    write_cases(home / "cases", 3, seed=5, size=256, findings=("effusion",))
    bench = chexqa.generate(home / "cases", home / "bench", recipes="places", seed=3)
    names = ("oracle", "centre", "blind-prior")
    chexqa.evaluate(bench, [f"baseline/{name}" for name in names], home / "run", protocol="independent")
    return home / "run"


def test_every_answer_has_its_own_colour_and_letter_and_the_key_is_red_and_named() -> None:
    told = [(answerer(0, "one"), [BOX]), (answerer(1, "two"), []), (answerer(2, "three"), [(5.0, 5.0, 60.0, 50.0)])]
    drawn = strokes("box", SIZE, target(), told)
    assert [(stroke.letter, stroke.rgb) for stroke in drawn] == [
        (KEY, KEY_RGB), ("A", ANSWER_RGB[0]), ("C", ANSWER_RGB[2]),
    ]  # fmt: skip
    assert drawn[1].lines == ((100, 100, 200, 100, 200, 180, 100, 180, 100, 100),)
    large = strokes("box", (1024, 1024), None, [(answerer(2, "three"), [(50.0, 500.0, 600.0, 900.0)])])
    picture = painted(np.full((1024, 1024, 3), 90, np.uint8), large)
    assert (picture[500, 60:590] == ANSWER_RGB[2]).all()
    assert [letter_of(number) for number in (0, 25, 26)] == ["A", "Z", "AA"]


def test_an_absent_finding_has_only_answers_and_no_answer_leaves_the_radiograph_as_it_is() -> None:
    assert [one.letter for one in strokes("point", SIZE, None, [(answerer(0, "one"), [(9.0, 9.0)])])] == ["A"]
    picture = np.full((300, 400, 3), 90, np.uint8)
    assert (painted(picture, strokes("point", SIZE, None, [(answerer(0, "one"), None)])) == picture).all()


def test_letters_of_equal_places_do_not_cover_each_other_and_stay_in_the_picture() -> None:
    drawn = strokes("box", SIZE, target(), [(answerer(number, ""), [BOX]) for number in range(4)])
    labels: list[Label] = [label for stroke in drawn for label in stroke.labels]
    apart = [max(abs(one.x - two.x), abs(one.y - two.y)) for one in labels for two in labels if one is not two]
    assert min(apart) > 400 / 32 * 0.6
    corner = strokes("box", SIZE, None, [(answerer(0, ""), [(0.0, 0.0, 400.0, 300.0)])])[0].labels[0]
    assert 0 < corner.x < 400
    assert 0 < corner.y < 300


@pytest.mark.parametrize(
    ("form", "shape", "around"),
    [
        ("point", (50.0, 60.0), (45.6, 55.6, 54.4, 64.4)),
        ("outline", (10.0, 10.0, 50.0, 10.0, 50.0, 60.0), (10, 10, 50, 60)),
        ("width", (60.0, 90.0, 300.0, 90.0), (60, 85.6, 300, 94.4)),
    ],
)
def test_a_place_is_drawn_where_it_was_answered(form: str, shape: tuple[float, ...], around: tuple[float, ...]) -> None:
    (stroke,) = strokes(form, SIZE, None, [(answerer(0, ""), [shape])])
    corners = np.concatenate([np.reshape(line, (-1, 2)) for line in stroke.lines])
    assert (*corners.min(axis=0), *corners.max(axis=0)) == pytest.approx(around, abs=0.1)


def test_the_gallery_has_the_key_and_each_models_place(run: Path) -> None:
    graded = grade_folders([run])
    scripts = dict(gallery.files(graded))
    index = json.loads(scripts["gallery/index.js"].decode()[len("gallery.index(") : -3])
    assert [(row["letter"], row["model"]) for row in index["rows"]] == [
        ("A", "baseline/oracle"), ("B", "baseline/centre"), ("C", "baseline/blind-prior"),
    ]  # fmt: skip
    assert [row["color"] for row in index["rows"]] == [hex_of(rgb) for rgb in ANSWER_RGB[:3]]
    assert [who.letter for who in answerers([load(run)]).values()] == ["A", "B", "C"]
    keys = {row[2]: row[5] for row in index["items"]}
    for case in gallery.unpacked(scripts["gallery/cases-000.js"]).values():
        for item_id, item in case["items"].items():
            if not item_id.endswith("/box_around"):
                continue
            present = keys[item_id] == "1"
            letters = [stroke["letter"] for stroke in item["drawn"]["strokes"]]
            assert letters == ([KEY, "A", "B"] if present else ["B"])  # the oracle says nowhere, the prior always
            if present:
                key, oracle = item["drawn"]["strokes"][:2]
                assert key["lines"][-1] == oracle["lines"][0]  # the key's box comes after the mask's outline


def test_a_place_in_a_coordinate_system_that_is_not_proved_is_neither_right_nor_wrong(
    run: Path, tmp_path: Path
) -> None:
    """The oracle's answers to the test markers are changed; its places on the radiographs stay right."""
    changed = Path(shutil.copytree(run, tmp_path / "run"))
    path = changed / "turns" / "baseline--oracle.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if line["item_id"].rpartition("/")[2] in markers.KINDS:
            line["raw"] = "Answer: nowhere"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    by_case = entries.collect(grade_folders([changed])).flat()
    states = {(entry.key, entry.said[0].state) for entry in by_case if entry.item.kind in ("point_at", "box_around")
              and entry.said[0] is not None}  # fmt: skip
    assert states == {((1,), entries.UNPROVED), ((2,), "correct")}
    shares = [entry.share for entry in by_case if entry.item.kind == "point_at" and entry.key == (1,)]
    assert None not in shares


@pytest.mark.long
def test_the_page_shows_whose_place_is_whose_and_hides_one(run: Path, tmp_path: Path, chromium: str, cli: Any) -> None:
    assert cli("report", run, "-o", tmp_path / "report")[0] == 0
    bench: Benchmark = grade_folders([run]).benchmark
    answers = bench.key("the test")[0]
    item = next(item for item in bench.items if item.kind == "point_at" and answers[item.item_id].answer == (1,))
    with playwright_api().sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        with tab_in(browser.new_context()) as tab:
            tab.page.goto((tmp_path / "report" / "gallery.html").as_uri() + f"#item={item.item_id}")
            article = tab.page.locator("#item")
            article.locator(".legend").wait_for()
            legend = [" ".join(text.split()) for text in article.locator(".legend li").all_inner_texts()]
            assert legend[0] == "key"
            assert legend[1::2] == ["A baseline/oracle: correct", "C baseline/blind-prior: nowhere, wrong"]
            shown = [group.get_attribute("data-letter") for group in article.locator("svg g[data-letter]").all()]
            assert shown == [KEY, "A", "B"]
            article.locator(".legend").get_by_label("baseline/centre").uncheck()
            assert not article.locator("svg g[data-letter=B]").is_visible()
            assert article.locator("svg g[data-letter=A]").is_visible()
            assert tab.complaints == []
        browser.close()


def page_rows(page: Path) -> list[dict[str, Any]]:
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found
    rows: list[dict[str, Any]] = json.loads(found[1])["rows"]
    return rows


def test_reviewers_see_places_beside_proposals_and_never_before_a_blind_answer(
    run: Path, tmp_path: Path, cli: Any
) -> None:
    bench = grade_folders([run]).benchmark
    code, _, err = cli("review", "export", bench.folder, "-o", tmp_path / "out", "--reviewers", "ann,ben", "--run", run,
                       "--page-only", "--both-parts", "--overlap", 0.4, "--planted", 0)  # fmt: skip
    assert code == 0, err
    assert json.loads((tmp_path / "out" / "review.json").read_text())["runs"] == [str(run)]
    answers = bench.key("the test")[0]
    proposals = 0
    for page in (tmp_path / "out").glob("**/review.html"):
        for row in page_rows(page):
            if row["proposed"] is None:
                assert "places" not in row
                continue
            proposals += 1
            present = answers[row["id"].removeprefix("i-")].answer == (1,)
            letters = [stroke["letter"] for stroke in row["places"]]
            assert letters == ([KEY, "A", "B"] if present else ["B"])
            assert [name for _, _, name in row["legend"]][-1] == "baseline/blind-prior: nowhere"
    assert proposals


def test_a_run_of_another_benchmark_or_without_places_is_refused(run: Path, tmp_path: Path, cli: Any) -> None:
    bench = grade_folders([run]).benchmark
    about = json.loads((run / "run.json").read_text())
    other = tmp_path / "other"
    shutil.copytree(run, other)
    (other / "run.json").write_text(json.dumps(about | {"benchmark": about["benchmark"] | {"hash": "0" * 64}}))
    code, _, err = cli("review", "export", bench.folder, "-o", tmp_path / "out", "--reviewers", "ann", "--run", other)
    assert code == 2
    assert "is a run of another benchmark" in err
    assert not (tmp_path / "out").exists()
