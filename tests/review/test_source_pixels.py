"""Source pixels in a review page: a radiograph at its own size and depth, with a window of the reader's own."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from browser import QUIET, Tab, playwright_api, tab_in
from review_server import Served

from chexqa.imaging import masks
from chexqa.imaging.read import read_radiograph, read_samples
from chexqa.review.page.source_pixels import script

pytestmark = pytest.mark.xdist_group("review page")

HEIGHT, WIDTH = 2320, 2828
PLACES = [(0, 0), (1000, 900), (1159, 1414), (2319, 2827), (700, 2600)]


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A manifest with a drawn radiograph of 12 bits, and the page of its mask."""
    from chexqa.cli import main

    folder = tmp_path_factory.mktemp("deep")
    rows, columns = np.ogrid[:HEIGHT, :WIDTH]
    image = (200 + columns * 3600 // WIDTH + rows % 7).astype(np.uint16)
    lesion = (columns - 900) ** 2 + (rows - 1000) ** 2 < 300**2
    image[lesion] += 250
    cv2.imwrite(str(folder / "deep.png"), image)
    line = {
        "case_id": "one", "image": "deep.png", "finding": "lung_lesion", "access": "open", "present": True,
        "mask": masks.to_rle(lesion),
    }  # fmt: skip
    (folder / "cases.jsonl").write_text(json.dumps(line) + "\n")
    export = ["review", "export", str(folder), "--what", "masks", "--reviewers", "anna", "--page-only"]
    assert main.run([*export, "--source-pixels", "-o", str(folder / "sheets")]) == 0
    return folder


@pytest.fixture(scope="module")
def tab(chromium: str) -> Iterator[Tab]:
    with playwright_api().sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=QUIET)
        with tab_in(browser.new_context(viewport={"width": 1366, "height": 660})) as found:
            yield found
        browser.close()


def shades(page: Any) -> list[int]:
    """The shades of some pixels as the canvas has them."""
    found: list[int] = page.evaluate(
        "(places) => { const c = plates[0].canvas.getContext('2d');"
        "return places.map(([y, x]) => c.getImageData(x, y, 1, 1).data[0]); }",
        PLACES,
    )
    return found


def on_screen(page: Any, x: int, y: int) -> Any:
    """100 x 100 pixels of the screen where the source's pixel (x, y) is brought to."""
    page.evaluate(f"view.x = {(x + 50) / WIDTH}; view.y = {(y + 50) / HEIGHT}; placeAll()")
    left, top = page.evaluate(
        "(() => { const b = plates[0].canvas.getBoundingClientRect(); return [b.left, b.top]; })()"
    )
    clip = {"x": left + x, "y": top + y, "width": 100, "height": 100}
    picture = cv2.imdecode(np.frombuffer(page.screenshot(clip=clip), np.uint8), cv2.IMREAD_COLOR)
    assert np.ptp(picture, axis=2).max() == 0
    return picture[..., 0]


@pytest.mark.long
def test_a_deep_source_is_shown_at_its_own_size_and_in_any_window(deep: Path, tab: Tab) -> None:
    home = deep / "sheets" / "pages" / "anna-masks"
    assert not list((deep / "sheets").rglob("*.xlsx"))
    page = tab.open(home / "review.html")
    page.wait_for_selector("canvas[data-window=first]")
    image = cv2.imread(str(deep / "deep.png"), cv2.IMREAD_UNCHANGED).astype(np.float64)
    assert page.evaluate("[plates[0].canvas.width, plates[0].canvas.height]") == [WIDTH, HEIGHT]
    shown = read_radiograph(deep / "deep.png")
    assert shades(page) == [int(shown[place]) for place in PLACES]
    # One pixel of the source on one of the screen.
    tab.press("*")
    assert page.evaluate("plates[0].canvas.getBoundingClientRect().width") == pytest.approx(WIDTH, abs=0.5)
    assert shades(page) == [int(shown[place]) for place in PLACES]
    assert (on_screen(page, 2000, 1500) == shown[1500:1600, 2000:2100]).all()
    # A window that 8 bits could not show: 40 of 4,096 values from black to white.
    first = int(image.min())
    page.evaluate(f"setWindow({1000 - first}, 40)")
    page.wait_for_selector(f"canvas[data-window='{980 - first} {1020 - first}']")
    windowed = np.clip((image - 980) / 40 * 255, 0, 255)
    assert np.abs(np.array(shades(page)) - [windowed[place] for place in PLACES]).max() <= 0.51
    counted = page.evaluate(
        "(() => { const d = plates[0].canvas.getContext('2d').getImageData(0, 0, plates[0].canvas.width, 1).data;"
        "return new Set(Array.from({ length: plates[0].canvas.width }, (_, i) => d[4 * i])).size; })()"
    )
    assert counted > 25
    # The keys change the window, 0 brings back what was first shown.
    assert "window 40" in page.locator("#depth").inner_text()
    tab.press(".", "ArrowUp")
    page.locator("#depth", has_text="window 36").wait_for()
    tab.press("0")
    page.wait_for_selector("canvas[data-window=first]")
    assert shades(page) == [int(shown[place]) for place in PLACES]
    assert "connect-src 'none'" in (home / "review.html").read_text()
    assert all(url.startswith(home.as_uri()) for url in tab.requests)
    assert [told for told in tab.complaints if not told.startswith("Canvas2D: Multiple readback")] == []


@pytest.mark.long
def test_the_server_gives_the_same_pixels(deep: Path, tab: Tab) -> None:
    server = Served(deep / "sheets", names=("anna",))
    try:
        page = tab.open(server.addresses["anna"])
        page.wait_for_selector("canvas[data-window=first]")
        shown = read_radiograph(deep / "deep.png")
        assert shades(page) == [int(shown[place]) for place in PLACES]
    finally:
        server.kill()
        tab.complaints.clear()
        tab.requests.clear()


def test_a_missing_script_is_told_and_the_small_picture_stays(deep: Path, tab: Tab) -> None:
    home = deep / "sheets" / "pages" / "anna-masks"
    (home / "source").rename(home / "elsewhere")
    try:
        page = tab.open(home / "review.html")
        page.locator("#message", has_text='keep the folder "source"').wait_for()
        page.wait_for_selector("body[data-shown]")
        assert page.locator(".missing").count() == 0
        assert page.evaluate("plates[0].canvas") is None
        assert page.evaluate("plates[0].image.complete && plates[0].image.naturalWidth") == page.evaluate(
            "plates[0].width"
        )
        assert page.locator("figure img").first.bounding_box()["width"] > 100
        tab.press("u")
        assert page.evaluate("answers.of(row().id).verdict") == "unsure"
    finally:
        (home / "elsewhere").rename(home / "source")
        tab.complaints.clear()


@pytest.mark.parametrize("top", [1, 255, 4095, 65535])
def test_a_script_gives_every_sample_back(tmp_path: Path, top: int) -> None:
    rng = np.random.default_rng(top)
    image = rng.integers(0, top + 1, (40, 52)).astype(np.uint8 if top < 256 else np.uint16)
    image[0, :2] = 0, top
    cv2.imwrite(str(tmp_path / "a.png"), image)
    samples = read_samples(tmp_path / "a.png")
    text = script(samples).decode()
    about = json.loads(text[text.index("{") : text.rindex("}") + 1])
    data = np.frombuffer(zlib.decompress(base64.b64decode(about["data"])), np.uint8)
    count = about["top"] + 1
    folded = data[count:].reshape(2, *image.shape).astype(np.int64)
    folded = folded[0] * 256 + folded[1]
    steps = (folded >> 1) ^ -(folded & 1)
    first = np.cumsum(steps[:, 0])
    again = np.cumsum(np.column_stack([first, steps[:, 1:]]), axis=1) & 0xFFFF
    assert (again == image).all()
    assert (data[:count][again] == read_radiograph(tmp_path / "a.png")).all()
