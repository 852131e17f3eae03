"""Outlines redrawn on the page: only what was moved changes, at the source's resolution, and a second reader signs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
import pytest
from browser import Tab

from chexqa.contract.cases import load_case, read_manifest
from chexqa.files.jsonio import read_jsonl
from chexqa.imaging import masks
from chexqa.imaging.read import Mask, resample
from chexqa.review.collect.contours import compare

pytestmark = pytest.mark.xdist_group("review page")

HEIGHT, WIDTH = 2320, 2828
Cli = Callable[..., tuple[int, str, str]]


class Drawn(NamedTuple):
    """A manifest of large radiographs of 12 bits, and the pages of a review of its masks."""

    folder: Path

    @property
    def page(self) -> Path:
        return self.folder / "sheets" / "pages" / "anna-masks" / "review.html"


def disc(x: int, y: int, radius: int) -> Mask:
    rows, columns = np.ogrid[:HEIGHT, :WIDTH]
    return np.asarray((columns - x) ** 2 + (rows - y) ** 2 < radius**2)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Drawn:
    from chexqa.cli import main

    folder = tmp_path_factory.mktemp("drawn")
    ramp = np.linspace(200, 3800, WIDTH, dtype=np.uint16)
    image = np.tile(ramp, (HEIGHT, 1))
    lesion = disc(900, 1000, 300)
    image[lesion] += 250
    cv2.imwrite(str(folder / "deep.png"), image)
    cv2.imwrite(str(folder / "mask.png"), lesion.astype(np.uint8) * 255)
    about = {"image": "deep.png", "finding": "lung_lesion", "access": "open"}
    lines = [
        {"case_id": "<b>one</b>", "present": True, "mask": "mask.png", "pixel_spacing_mm": [0.15, 0.15], **about},
        {"case_id": "two", "present": True, "mask": masks.to_rle(disc(1900, 900, 200)), **about, "finding": "edema"},
    ]
    (folder / "cases.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    export = ["review", "export", str(folder), "--what", "masks", "--reviewers", "anna", "--page"]
    assert main.run([*export, "-o", str(folder / "sheets")]) == 0
    return Drawn(folder)


def on_screen(tab: Tab, x: float, y: float) -> tuple[float, float]:
    """Where a pixel of the source is on the screen."""
    box = tab.page.locator(".stage").bounding_box()
    return box["x"] + x / WIDTH * box["width"], box["y"] + y / HEIGHT * box["height"]


def drag(tab: Tab, start: tuple[float, float], end: tuple[float, float]) -> None:
    tab.page.mouse.move(*on_screen(tab, *start))
    tab.page.mouse.down()
    tab.page.mouse.move(*on_screen(tab, *end), steps=4)
    tab.page.mouse.up()


def edit(tab: Tab, drawn: Drawn, case: str = "m-<b>one</b>") -> Any:
    page = tab.open(drawn.page)
    if page.evaluate("row().id") != case:
        tab.press("ArrowRight")
    page.wait_for_selector("body[data-shown]")
    tab.press("e")
    assert page.locator("#changed").inner_text() == "2828 × 2320 px, 0 px changed"
    return page


def saved(tab: Tab, path: Path) -> dict[str, Any]:
    with tab.page.expect_download() as download:
        tab.press("Control+s")
    download.value.save_as(path)
    about: dict[str, Any] = json.loads(path.read_text())
    return about


def test_tracing_and_filling_give_a_mask_back_to_the_pixel(drawn: Drawn, tab: Tab) -> None:
    page = tab.open(drawn.page)
    rng = np.random.default_rng(3)
    for shape in ((1, 1), (7, 5), (40, 60)):
        mask = rng.random(shape) < 0.5
        mask[0, 0] = True
        runs = masks.to_rle(mask)
        script = """([runs, h, w]) => {
            const mask = fromRuns(runs);
            return [toRuns(fill(trace(mask, w, h), w, h), w, h), toRuns(mask, w, h)];
        }"""
        again, same = page.evaluate(script, [runs, *shape])
        assert again == same
        assert (masks.from_rle({"size": list(shape), "counts": again}, "it") == mask).all()


def test_a_dragged_point_changes_its_stretch_alone_and_undo_takes_it_back(
    drawn: Drawn, tab: Tab, tmp_path: Path
) -> None:
    page = edit(tab, drawn)
    point = page.evaluate("(() => { const c = [...document.querySelectorAll('circle.point')]"
                          ".map((n) => [Number(n.getAttribute('cx')), Number(n.getAttribute('cy'))]);"
                          "return c.reduce((a, b) => (b[0] > a[0] ? b : a)); })()")  # fmt: skip
    drag(tab, tuple(point), (point[0] + 120, point[1]))
    about = saved(tab, tmp_path / "anna-masks.json")
    (row,) = [row for row in about["rows"] if row["contour"]]
    assert row["cells"]["verdict"] == "fix"
    after = masks.from_rle(row["contour"], "it")
    before = disc(900, 1000, 300)
    rows, columns = np.nonzero(before != after)
    assert rows.size > 3000
    assert columns.min() > 1100  # a stretch on the right; the other side of the disc is as it was
    assert 90 < compare(before, after).hausdorff_px < 130
    tab.press("Control+z")
    assert page.locator("#changed").inner_text().endswith(" 0 px changed")
    assert page.locator("#message").inner_text() == "The outline is the first one again; the row has no verdict."
    # Nothing is drawn any more, so the row is as open as before.
    assert saved(tab, tmp_path / "again.json")["rows"][0]["contour"] is None
    assert page.evaluate("answers.of(row().id)") == {}
    tab.press("Control+y")
    assert saved(tab, tmp_path / "redone.json")["rows"][0]["contour"]["counts"] == row["contour"]["counts"]


@pytest.mark.long
def test_brush_rubber_and_points_work_and_a_reload_keeps_the_outline(drawn: Drawn, tab: Tab, tmp_path: Path) -> None:
    page = edit(tab, drawn)
    tab.press("4")
    drag(tab, (1150, 1000), (1400, 1000))
    tab.press("5")
    drag(tab, (500, 1000), (650, 1000))
    painted = fromfile(saved(tab, tmp_path / "a.json"))
    before = disc(900, 1000, 300)
    assert np.count_nonzero(painted & ~before) > 2000
    assert np.count_nonzero(before & ~painted) > 1000
    page.reload()
    page.wait_for_selector("body[data-ready]")
    page.evaluate("show(DATA.rows.findIndex((one) => one.id !== 'm-two'))")
    page.locator("path.drawn").wait_for()
    assert (fromfile(saved(tab, tmp_path / "b.json")) == painted).all()
    tab.press("e", "3")
    count = page.locator("circle.point").count()
    place = page.locator("circle.point").nth(count // 2).bounding_box()
    page.mouse.click(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
    assert page.locator("circle.point").count() == count - 1
    page.click("#edit-drop")
    assert page.locator("#changed").inner_text().endswith(" 0 px changed")


def fromfile(about: dict[str, Any]) -> Mask:
    (row,) = [row for row in about["rows"] if row["contour"]]
    return masks.from_rle(row["contour"], "it")


def test_a_redrawn_mask_is_measured_and_counts_once_a_second_reader_has_signed(
    drawn: Drawn, tab: Tab, tmp_path: Path, cli: Cli
) -> None:
    page = edit(tab, drawn)
    tab.press("4")
    drag(tab, (1150, 1000), (1300, 1000))
    tab.press("Enter", "d", "Home" if page.evaluate("at") else "End")
    page.wait_for_selector("body[data-shown]")
    tab.press("a")
    after = fromfile(saved(tab, tmp_path / "anna-masks.json"))
    store, out = tmp_path / "verdicts.jsonl", tmp_path / "out"
    code, told, _ = cli(
        "review", "import", tmp_path / "anna-masks.json", "--batch", drawn.folder / "sheets", "-o", store
    )
    assert code == 0
    assert "redrawn by anna" in told
    ((_, kept),) = read_jsonl(tmp_path / "contours.jsonl", "contour")
    before = disc(900, 1000, 300)
    assert kept["edited_px"] == np.count_nonzero(before != after)
    assert kept["hausdorff_mm"] == round(kept["hausdorff_px"] * 0.15, 2)
    # The new mask is in the manifest, but nobody has signed it.
    first = drawn.folder / "first.jsonl"
    code, told, _ = cli("review", "apply", drawn.folder, store, "-o", first)
    assert "1 redrawn mask must be signed" in told
    case = read_manifest(first)[0]
    assert case.review == "fix"
    assert case.redrawn == {"by": "anna", "signed_by": None} | {
        name: kept[name] for name in ("edited_px", "edited_share", "hausdorff_px")
    }
    loaded = load_case(case).source_mask
    assert loaded is not None
    assert (loaded == after).all()
    signing = ["review", "export", first, "--what", "masks", "--only", "redrawn", "--format", "csv", "-o", out]
    code, _, wrong = cli(*signing, "--reviewers", "anna")
    assert (code, "anna drew some of these masks" in wrong) == (2, True)
    assert cli(*signing, "--reviewers", "ben")[0] == 0
    sheet = out / "ben" / "ben-masks.csv"
    text = sheet.read_text(encoding="utf-8-sig")
    assert text.count("m-") == 1
    sheet.write_text(text.replace(".jpg,,", ".jpg,y,"), encoding="utf-8-sig")
    assert cli("review", "import", out)[0] == 0
    last = drawn.folder / "last.jsonl"
    assert cli("review", "apply", first, out, "-o", last)[0] == 0
    case = read_manifest(last)[0]
    assert case.review == "approved"
    assert case.redrawn is not None
    assert case.redrawn["signed_by"] == "ben"
    first.unlink()
    last.unlink()


def test_missing_radiographs_are_told_with_the_option_that_finds_them(drawn: Drawn, tmp_path: Path, cli: Cli) -> None:
    text = drawn.page.read_text()
    data = json.loads(text.partition('type="application/json">')[2].partition("</script>")[0])
    counts = [HEIGHT * 800, HEIGHT * 200, HEIGHT * (WIDTH - 1000)]
    contour = {"size": [HEIGHT, WIDTH], "counts": counts, "changes": 1}
    about = page_answers(data, data["rows"][0], contour)
    (tmp_path / "anna-masks.json").write_text(json.dumps(about))
    manifest, store, root = tmp_path / "cases.jsonl", tmp_path / "v.jsonl", ("--image-root", drawn.folder)
    manifest.write_text((drawn.folder / "cases.jsonl").read_text())
    command = ("review", "import", tmp_path / "anna-masks.json", "--batch", drawn.folder / "sheets", "-o", store)
    code, _, wrong = cli(*command, "--benchmark", manifest)
    assert (code, "deep.png was not found; if the data lies elsewhere, give --image-root" in wrong) == (2, True)
    assert cli(*command, "--benchmark", manifest, *root)[0] == 0
    # The advice on the next step names the same folder.
    code, out, _ = cli("review", "apply", manifest, store, *root, "-o", tmp_path / "new.jsonl")
    assert (code, f"--only redrawn --image-root {drawn.folder} --reviewers NAME" in out) == (0, True)


@pytest.mark.parametrize(
    ("contour", "told"),
    [
        ({"size": [10, 10], "counts": [50, 50], "changes": 1}, "for 10 x 10 px, but its picture is 2828 x 2320"),
        ({"size": [HEIGHT, WIDTH], "counts": [HEIGHT * WIDTH], "changes": 1}, "is empty"),
        ({"size": [HEIGHT, WIDTH], "counts": [5, 5], "changes": 1}, "add up to 10 pixels"),
    ],
)
def test_an_outline_that_does_not_fit_is_a_problem(
    drawn: Drawn, tmp_path: Path, cli: Cli, contour: dict[str, Any], told: str
) -> None:
    text = drawn.page.read_text()
    data = json.loads(text.partition('type="application/json">')[2].partition("</script>")[0])
    about = page_answers(data, data["rows"][0], contour)
    (tmp_path / "anna-masks.json").write_text(json.dumps(about))
    store = tmp_path / "verdicts.jsonl"
    code, _, wrong = cli(
        "review", "import", tmp_path / "anna-masks.json", "--batch", drawn.folder / "sheets", "-o", store
    )
    assert code == 2
    assert told in wrong
    assert not store.exists()


class Generated(NamedTuple):
    """A benchmark with its manifest of larger radiographs, and the first case with a mask."""

    cases: Path
    bench: Path

    @property
    def about(self) -> list[str]:
        return ["review", "export", str(self.bench), "--what", "masks", "--reviewers", "anna", "--page-only"]


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Generated:
    from chexqa.cli import main

    folder = tmp_path_factory.mktemp("generated")
    assert main.run(["synth", str(folder / "cases"), "--cases", "2", "--size", "1500", "--findings", "effusion"]) == 0
    assert main.run(["generate", str(folder / "cases"), "-o", str(folder / "bench")]) == 0
    return Generated(folder / "cases", folder / "bench")


def test_the_mask_of_a_benchmark_is_redrawn_and_changes_that_stretch_at_its_source(
    generated: Generated, tab: Tab, tmp_path: Path, cli: Cli
) -> None:
    assert cli(*generated.about, "-o", tmp_path / "sheets")[0] == 0
    page = tab.open(tmp_path / "sheets" / "pages" / "anna-masks" / "review.html")
    page.evaluate("show(DATA.rows.findIndex((one) => one.mask))")
    page.wait_for_selector("body[data-shown]")
    tab.press("e", "4")
    height, width = page.evaluate("row().mask.size")
    assert max(height, width) == 1024
    at = page.evaluate("trace(fromRuns(row().mask), row().mask.size[1], row().mask.size[0])[0].slice(0, 2)")
    x, y = at[0] / width * WIDTH, at[1] / height * HEIGHT
    drag(tab, (x, y), (x + 60, y + 60))
    about = saved(tab, tmp_path / "anna-masks.json")
    (row,) = [row for row in about["rows"] if row["contour"]]
    code, told, _ = cli("review", "import", tmp_path / "anna-masks.json", "--batch", tmp_path / "sheets")
    assert (code, "redrawn by anna" in told) == (0, True)
    store = tmp_path / "sheets" / "verdicts.jsonl"
    new = generated.cases / "redrawn.jsonl"
    code, told, _ = cli("review", "apply", generated.cases, store, "--benchmark", generated.bench, "-o", new)
    assert (code, "1 redrawn mask must be signed" in told) == (0, True)
    try:
        redrawn = next(case for case in read_manifest(new) if case.redrawn)
        before = next(case for case in read_manifest(generated.cases) if case.case_id == redrawn.case_id)
        after, old = load_case(redrawn).source_mask, load_case(before).source_mask
    finally:
        new.unlink()
    assert after is not None
    assert old is not None
    assert after.shape == old.shape
    assert max(old.shape) == 1500
    assert (masks.from_rle(row["contour"], "it") == resample(after, (height, width))).mean() > 0.9999
    ys, xs = np.nonzero(after != old)
    # The brush covers 20 pixels of the screen, so nothing far from its stroke has changed.
    assert 500 < ys.size == redrawn.redrawn["edited_px"]
    assert max(np.ptp(ys), np.ptp(xs)) < 350


def test_the_mask_of_a_benchmark_has_its_sources_size_where_the_manifest_is_given(
    generated: Generated, tmp_path: Path, cli: Cli
) -> None:
    assert cli(*generated.about, "--manifest", generated.cases, "-o", tmp_path / "sheets")[0] == 0
    home = tmp_path / "sheets" / "pages" / "anna-masks"
    data = json.loads(
        (home / "review.html").read_text().partition('type="application/json">')[2].partition("</script>")[0]
    )
    row = next(row for row in data["rows"] if row["case"] and data["cases"][row["case"]]["mask"])
    shown = data["cases"][row["case"]]["mask"]
    assert max(shown["size"]) == 1500
    old = masks.from_rle(shown, "it")
    new = old.copy()
    place = np.argwhere(old)[0]
    new[place[0] - 20 : place[0], place[1] - 20 : place[1] + 20] = True
    about = page_answers(data, row, {"size": list(new.shape), "counts": runs(new), "changes": 1})
    (tmp_path / "anna-masks.json").write_text(json.dumps(about))
    code, told, wrong = cli("review", "import", tmp_path / "anna-masks.json", "--batch", tmp_path / "sheets")
    assert (code, wrong) == (0, "")
    assert f"{np.count_nonzero(new != old):,} px changed" in told
    ((_, kept),) = read_jsonl(tmp_path / "sheets" / "contours.jsonl", "contour")
    assert kept["mask"] == masks.to_rle(new)


@pytest.mark.long
def test_source_pixels_of_questions_come_from_the_manifest(generated: Generated, tmp_path: Path, cli: Cli) -> None:
    export = ["review", "export", generated.bench, "--reviewers", "anna", "--page-only"]
    code, _, wrong = cli(*export, "-o", tmp_path / "none", "--source-pixels")
    assert (code, "--manifest" in wrong) == (2, True)
    code, told, _ = cli(*export, "-o", tmp_path / "sheets", "--source-pixels", "--manifest", generated.cases)
    assert code == 0
    assert "MB of source pixels" in told
    home = tmp_path / "sheets" / "pages" / "anna"
    text = (home / "review.html").read_text()
    rows = json.loads(text.partition('type="application/json">')[2].partition("</script>")[0])["rows"]
    names = {picture.get("source") for row in rows for picture in row["pictures"]} - {None}
    assert {path.stem for path in (home / "source").iterdir()} == names
    assert all(any("source" in picture for picture in row["pictures"]) for row in rows if not row["grid"])
    code, _, wrong = cli(*export[:-1], "--source-pixels", "-o", tmp_path / "x")
    assert (code, "--page" in wrong) == (2, True)


def runs(mask: Mask) -> list[int]:
    """Lengths of runs down the columns, as a page saves them; the first is outside."""
    flat = mask.ravel(order="F")
    edges = np.flatnonzero(np.diff(flat)) + 1
    counts = np.diff([0, *edges, flat.size]).tolist()
    return [0, *counts] if flat[0] else counts


def page_answers(data: dict[str, Any], row: dict[str, Any], contour: dict[str, Any]) -> dict[str, Any]:
    """What a page saves of one redrawn mask."""
    cells = {"verdict": "fix"}
    change = {"id": "t-1", "at": "2026-03-01T10:00:00Z", "cells": cells}
    return {
        "what": "chexqa review page", "schema_version": 1, "page": data["page"], "batch": data["batch"],
        "sheet": data["sheet"], "reviewer": "anna", "saved": "2026-03-01T10:00:00Z", "locked": False,
        "rows": [{"tab": row["tab"], "row": row["row"], "cells": row["cells"] | cells, "changes": [change],
                  "seconds": None, "contour": contour}],
    }  # fmt: skip
