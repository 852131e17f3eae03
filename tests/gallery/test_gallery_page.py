"""The gallery in a real browser: filters, addresses, keys, drawings, replies as text, no request out, no overflow."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import Tab, playwright_api, serious, tab_in
from handmade import Handmade, six_cases
from logs import log
from PIL import Image
from rest_long import rest_long

from chexqa.eval.gallery import files as gallery
from chexqa.eval.gallery.address import address
from chexqa.eval.scoring.grade import grade_folders

pytestmark = pytest.mark.xdist_group("page")

HOSTILE = "<script>window.stolen = 1</script><img src=x onerror='window.stolen = 1'> \u202eAnswer\u202c \x07 Answer: 1"
NAME = "<b>hostile</b>"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The gallery of two models, one of which says hostile things and one of which never stops; the second answers 2.

    No test changes it.
    """
    home = tmp_path_factory.mktemp("gallery")
    bench = six_cases(Handmade(home))
    runs = [log(home / "one", bench, NAME, HOSTILE), log(home / "two", bench, "endless", "a" * 1_000_000)]
    turns = runs[1] / "turns" / "m.jsonl"
    said = [json.loads(line) for line in turns.read_text().splitlines()]
    for turn in said:
        turn["parsed"] = [2]
        if turn["item_id"].endswith("/location"):
            turn["raw"] = "A <b>hazy</b>\n left  base. (1+1)"
    turns.write_text("".join(json.dumps(turn) + "\n" for turn in said))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gallery, "LEAST_CASES", 1)  # a file for each case
        made = dict(gallery.files(grade_folders(runs)))
    for name, data in made.items():
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_bytes(data)
    return home


@pytest.fixture(scope="module")
def shared(place: Path, chromium: str) -> Iterator[Tab]:
    """One tab for all tests; each test goes to an address of its own."""
    with playwright_api().sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        with tab_in(browser.new_context(viewport={"width": 1400, "height": 900})) as tab:
            tab.open(place / "gallery.html")
            yield tab
        browser.close()


@pytest.fixture
def tab(shared: Tab) -> Iterator[Tab]:
    """The tab at the list of all items; nothing failed and nothing left the page."""
    go(shared, "")
    yield shared
    assert shared.complaints == []
    assert shared.page.evaluate("window.stolen") is None


def go(tab: Tab, where: str) -> None:
    """Follow an address, as a link in the report does, and wait until the page shows it."""
    tab.page.evaluate("(where) => { location.hash = where; }", where)
    part = "#item" if "item=" in where else "#list"
    tab.page.locator(f"{part}:not([hidden])").wait_for()


def kinds(tab: Tab) -> list[str]:
    return tab.page.locator("#cards strong").all_inner_texts()


def test_the_filters_leave_what_was_asked_for_and_stand_in_the_address(tab: Tab) -> None:
    page = tab.page
    assert len(kinds(tab)) == 30  # a page
    page.select_option("select[name=kind]", "location")
    tab.wait("document.querySelectorAll('#cards li').length === 3")
    assert set(kinds(tab)) == {"location"}
    page.select_option("select[name=finding]", "edema")
    tab.wait("document.querySelectorAll('#cards li').length === 1")
    assert page.url.endswith("#kind=location&finding=edema")
    page.locator(".chip", has_text="kind").click()
    tab.wait("location.hash === '#finding=edema'")
    page.fill("#text", "edema OUTLINE")
    tab.wait("location.hash.includes('text=')")
    assert len(kinds(tab)) < 5
    page.locator("#clear").click()
    tab.wait("document.querySelectorAll('.chip').length === 0")
    assert len(kinds(tab)) == 30


@pytest.mark.parametrize(
    ("choice", "found"),
    rest_long(
        [
            ({"kind": "detection", "right": "endless", "wrong": NAME}, 2),
            ({"kind": "location", "models": "all_wrong"}, 2),
            ({"kind": ["detection", "location"], "finding": "edema"}, 3),
            ({"kind": "detection", "key": 2, "said": 2, "model": "endless"}, 2),
            ({"kind": "detection", "state": "not_correct", "model": NAME}, 2),
            ({"stage": 1, "path": "lesion_free"}, 2),
            ({"kind": "detection", "difficulty": "middle"}, 6),
            ({"level": "none"}, 2),
            ({"flag": "contested"}, 0),
            ({"kind": "location"}, 3),
            ({"kind": "location", "right": NAME}, 1),
            ({"kind": "detection", "right": NAME, "wrong": "endless"}, 4),
            ({"kind": "detection", "models": "differ"}, 6),
            ({"kind": "detection", "key": 2}, 2),
            ({"kind": "detection", "said": 2, "model": NAME}, 0),
            ({"kind": "detection", "state": "correct", "model": NAME}, 4),
            ({"level": "coarse"}, 6),
            ({"condition": "target"}, 0),
        ],
        keep=5,
        names=2,
    ),
)
def test_an_address_leads_to_the_items_it_names(tab: Tab, choice: Any, found: int) -> None:
    go(tab, address(choice).removeprefix("gallery.html"))
    tab.wait(f"document.getElementById('count').textContent.startsWith('{found} of ')")
    assert len(kinds(tab)) == found


def test_a_filter_on_agreement_says_what_it_cannot_count(tab: Tab) -> None:
    go(tab, "#kind=grid_cell&models=all_wrong")
    tab.wait("document.getElementById('count').textContent.startsWith('1 of ')")
    count, told = tab.page.locator("#count"), "such as grids of which no cell can be hit"
    assert f"not counted: 1 without a possible right answer, {told}" in count.inner_text()
    go(tab, "#kind=grid_cell")
    tab.wait("document.getElementById('count').textContent.startsWith('2 of ')")
    assert "not counted" not in count.inner_text()


def test_a_search_without_hits_says_which_filter_to_leave_out(tab: Tab) -> None:
    go(tab, "#text=no-such-text&kind=location")
    told = tab.page.locator("#loosen")
    assert told.locator("li").all_inner_texts() == ["without text: no-such-text: 3 items"], "the kind keeps no item out"
    told.locator("a").click()
    tab.wait("document.querySelectorAll('#cards li').length === 3")
    assert not told.is_visible()
    go(tab, "#text=no-such-text&reply=no-such-reply&kind=location")
    tab.wait("!document.getElementById('loosen').hidden")
    assert "up to 3 items" in told.inner_text(), "replies are not searched again for this number"
    go(tab, "#text=no-such-text&kind=location&path=lesion_free")
    assert "none passes if one of them is left out" in told.inner_text()


def test_a_search_in_raw_replies_finds_them_wherever_they_lie(tab: Tab) -> None:
    page = tab.page
    page.fill("#reply", "HAZY</b> left base. (1+1)")
    tab.wait("document.getElementById('count').textContent.startsWith('3 of ')")
    assert kinds(tab) == ["location"] * 3
    assert page.locator("#stop").is_hidden()
    assert "reply=HAZY" in page.url
    page.locator(".excerpt mark").last.wait_for()
    assert page.locator(".excerpt").first.inner_text() == "endless: A <b>hazy</b> left base. (1+1)"
    page.locator("#cards a").first.click()
    page.locator("#item .raw mark").first.wait_for()
    assert page.locator("#item .raw mark").all_inner_texts() == ["hazy</b>\n left  base. (1+1)"]
    where = page.url.partition("#")[2]
    for more, found in (("&finding=edema", 1), ("&model=endless", 3), (f"&model={NAME}", 0), ("&said=1", 0)):
        go(tab, re.sub("item=[^&]*", "", where) + more)
        tab.wait(f"document.getElementById('count').textContent.startsWith('{found} of ')")
    go(tab, "#reply=aaaa&kind=location")
    tab.wait("document.getElementById('count').textContent.startsWith('0 of ')")


def test_a_search_in_replies_shows_how_far_it_is_and_stops(tab: Tab, place: Path) -> None:
    page = tab.page
    tab.open(place / "gallery.html")
    page.evaluate("""() => {
      const whole = script;
      window.held = [];
      window.script = async (name) => {
        if (name.startsWith("cases-") && name >= "cases-003") await new Promise((done) => window.held.push(done));
        return whole(name);
      };
    }""")
    page.fill("#reply", "hazy")
    tab.wait("window.held.length === 1")
    page.locator("#stop").click()
    assert page.locator("#count").inner_text().endswith("search stopped: 3 of 6 files")
    before = len(kinds(tab))
    page.evaluate("window.held.pop()()")
    page.locator("#stop", has_text="Continue").click()
    for _ in range(3):
        tab.wait("window.held.length > 0 || document.getElementById('stop').hidden")
        page.evaluate("window.held.splice(0).forEach((done) => done())")
    tab.wait("document.getElementById('count').textContent.startsWith('3 of ')")
    assert before < 3
    tab.wait("document.getElementById('stop').hidden")
    page.fill("#reply", "h")
    tab.wait("document.getElementById('count').textContent.includes('at least 2 characters')")
    tab.open(place / "gallery.html")


def test_an_address_of_an_unknown_name_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="'colour'"):
        address({"colour": "red"})
    assert address({"item": "a/b@c", "text": "ü &=#"}) == "gallery.html#item=a%2Fb%40c&text=%C3%BC+%26%3D%23"


def test_a_card_shows_the_picture_of_its_question_and_who_is_right(tab: Tab) -> None:
    go(tab, "#kind=detection&path=lesion_free")
    card = tab.page.locator("#cards li").first
    assert card.locator(".names.correct").inner_text() == "✓ 1 endless"
    assert card.locator(".names.wrong").inner_text() == f"✗ 1 {NAME}"
    go(tab, "#kind=revision_result")
    assert tab.page.locator("#cards li").first.locator("img").count() == 4
    go(tab, "")
    sources = tab.page.locator("#cards img").evaluate_all("(all) => all.map((one) => one.src.slice(0, 12))")
    assert set(sources) == {"data:image/w"} or set(sources) == {"data:image/j"}


def test_keys_go_through_the_items_that_pass_and_back(tab: Tab) -> None:
    go(tab, "#kind=location")
    page = tab.page
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.locator("#item-title").wait_for()
    assert "2 of 3" in page.locator("#item .turn").inner_text()
    first = page.url
    page.keyboard.press("ArrowRight")
    tab.wait("document.querySelector('#item .turn').textContent.includes('3 of 3')")
    page.keyboard.press("ArrowRight")  # the last one stays
    page.keyboard.press("ArrowLeft")
    tab.wait("document.querySelector('#item .turn').textContent.includes('2 of 3')")
    assert page.url == first
    page.keyboard.press("Escape")
    page.locator("#list:not([hidden])").wait_for()
    assert page.url.endswith("#kind=location")


def test_a_drawing_stored_without_its_radiograph_is_shown_over_it(tab: Tab) -> None:
    below, above = (
        base64.b64encode(picture).decode()
        for picture in (solid("WEBP", (90, 90, 90, 255)), solid("PNG", (0, 255, 255, 255)))
    )
    color = tab.page.evaluate(
        """async (pictures) => {
      gallery.pictures(JSON.parse(pictures), {});
      const image = new Image(), canvas = document.createElement("canvas");
      const board = canvas.getContext("2d", { willReadFrequently: true });
      image.src = await loadPicture(9001);
      await image.decode();
      board.drawImage(image, 0, 0);
      return [...board.getImageData(4, 4, 1, 1).data, ...board.getImageData(20, 20, 1, 1).data];
    }""",
        json.dumps({"9000": below, "9001": f"9000:{above}"}),
    )
    assert color == pytest.approx([0, 255, 255, 255, 90, 90, 90, 255], abs=12)


def solid(form: str, color: tuple[int, int, int, int]) -> bytes:
    """Return a picture of one colour; as a PNG it is transparent but for its upper left quarter."""
    picture, buffer = Image.new("RGBA", (32, 32), color), io.BytesIO()
    if form == "PNG":
        picture.paste((0, 0, 0, 0), (0, 16, 32, 32))
        picture.paste((0, 0, 0, 0), (16, 0, 32, 32))
    picture.save(buffer, form)
    return buffer.getvalue()


def test_an_item_shows_question_key_answers_and_its_whole_conversation(tab: Tab) -> None:
    go(tab, "#kind=location&finding=edema")
    tab.page.locator("#cards a").first.click()
    item = tab.page.locator("#item")
    item.locator(".options").wait_for()
    assert "key" in item.locator(".options li").nth(3).inner_text()
    assert item.locator(".options li").nth(1).locator("small").inner_text() == "1: endless"
    assert item.locator("tbody .state").first.inner_text() == "✗ wrong"
    asked = item.locator(".steps a").all_inner_texts()
    assert [text.rsplit(" ", 1)[0] for text in asked][:2] == ["detection", "contour evaluation"]
    item.locator(".conversation summary").click()
    item.locator(".turns > li").last.wait_for()
    assert item.locator(".turns > li").count() == len(asked)


def test_the_key_and_the_answers_are_drawn_on_the_grid(tab: Tab) -> None:
    go(tab, "#kind=grid_cell&key=10")
    tab.page.locator("#cards a").first.click()
    item = tab.page.locator("#item")
    item.locator(".over svg").wait_for()
    assert item.locator("svg .key").count() == 2, "cells 10 and 11"
    assert item.locator("svg text.said").all_text_contents() == ["1", "1"]
    item.locator(".who", has_text="endless").click()
    assert item.locator("svg .mine").count() == 1
    picture, answer = item.locator(".over").bounding_box(), item.locator(".who").last.bounding_box()
    assert answer["x"] > picture["x"] + picture["width"], "answers stand beside the picture that they are drawn on"
    item.get_by_label("key").uncheck()
    assert not item.locator("svg .key").first.is_visible()


def test_what_models_said_is_text_whatever_it_is(tab: Tab) -> None:
    go(tab, "#kind=detection")
    tab.page.locator("#cards a").first.click()
    tab.page.locator("#item .raw").first.wait_for()
    replies = tab.page.locator("#item .raw").all_inner_texts()
    assert "<script>window.stolen = 1</script><img src=x onerror='window.stolen = 1'>" in replies[0]
    assert "[U+202E]Answer[U+202C] [U+0007] Answer: 1" in replies[0]
    tab.page.locator("#item .raw summary").last.click()
    assert "980,000 more characters in the log" in tab.page.locator("#item .raw").last.inner_text()
    assert NAME in tab.page.locator("#item .who").all_inner_texts()
    go(tab, "#item=%3Cimg+src%3Dx+onerror%3D%22window.stolen%3D1%22%3E")
    assert "There is no such item" in tab.page.locator("#item").inner_text()


@pytest.mark.parametrize("width", [400, pytest.param(1400, marks=pytest.mark.long)])
def test_nothing_overflows_and_axe_finds_nothing_serious(tab: Tab, width: int) -> None:
    tab.page.set_viewport_size({"width": width, "height": 900})
    for where in ("", "#item=" + first_item(tab)):
        go(tab, where)
        tab.page.wait_for_timeout(50)
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
        assert serious(tab.page) == []
        assert tab.page.evaluate(PLACEHOLDERS) == [], "no placeholder is cut"
    tab.page.set_viewport_size({"width": 1400, "height": 900})


PLACEHOLDERS = """() => [...document.querySelectorAll("input[placeholder]")].filter((field) => {
  const style = getComputedStyle(field), ruler = document.createElement("canvas").getContext("2d");
  ruler.font = style.font;
  const room = field.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  return field.checkVisibility() && ruler.measureText(field.placeholder).width > room;
}).map((field) => field.placeholder)"""


def first_item(tab: Tab) -> str:
    link = tab.page.locator("#cards a").first.get_attribute("href") or ""
    return re.sub(r"^.*item=", "", link)


def test_the_page_asks_for_nothing_but_its_own_scripts(tab: Tab, place: Path) -> None:
    assert {url.split("#")[0] for url in tab.requests if url.startswith("file:")} <= {
        path.as_uri() for path in (place / "gallery.html", *(place / "gallery").iterdir())
    }
    assert all(url.startswith(("file:", "data:", "blob:")) for url in tab.requests)
