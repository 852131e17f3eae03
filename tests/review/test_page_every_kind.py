"""Pages of adjudications and of training, and crashes of the browser after every row."""

from __future__ import annotations

import contextlib
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser import Tab, serious, tab_in
from review_server import Served
from review_sheets import another_answer, answer_cells, as_reviewer, fill, fill_all, write_small

from chexqa.contract import benchmark
from chexqa.contract.items import Answer, Item
from chexqa.phantoms import write_cases
from chexqa.review import columns
from chexqa.review.collect.verdicts import read_store
from chexqa.review.columns import item_row_id
from chexqa.review.page.answers import PartAnswers, page_data
from chexqa.review.page.write_page import PAGE, PAGES

pytestmark = pytest.mark.xdist_group("review page")

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small(tmp_path_factory.mktemp("small") / "bench")


def save(tab: Tab, path: Path) -> Path:
    with tab.page.expect_download() as download:
        tab.press("Control+s")
    download.value.save_as(path / download.value.suggested_filename)
    return path / str(download.value.suggested_filename)


# Adjudication.


@pytest.fixture(scope="module")
def disputed(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A blind adjudication, as sheet and page, of items that anna accepts and ben answers otherwise."""
    from chexqa.cli.main import run

    home, bench = tmp_path_factory.mktemp("disputed"), benchmark.load(small)

    def ben(item: Item, key: Answer) -> dict[str, str]:
        other = another_answer(item, key, random.Random(1))
        return {columns.VERDICT: "fix", **answer_cells(item, other, columns.CORRECTED)}

    def said(*arguments: object) -> None:
        assert run([str(one) for one in arguments]) == 0

    said("review", "export", small, "-o", home / "sheets", "--reviewers", "anna,ben", "--overlap", 1, "--both-parts",
         "--planted", 0)  # fmt: skip
    fill_all(home / "sheets", "anna-2", lambda row: {columns.VERDICT: "accept"})
    fill_all(home / "sheets", "ben-2", as_reviewer(bench, ben))
    said("review", "import", home / "sheets")
    said("review", "adjudicate", small, home / "sheets", "-o", home / "blind", "--adjudicator", "dora", "--blind",
         "--page")  # fmt: skip
    said("review", "adjudicate", small, home / "sheets", "-o", home / "open", "--adjudicator", "dora", "--page-only")
    return home


@pytest.mark.long
def test_a_blind_adjudication_page_hides_the_key_and_gives_the_bytes_of_its_sheet(
    disputed: Path, small: Path, tab: Tab, tmp_path: Path, cli: Cli
) -> None:
    bench, home = benchmark.load(small), disputed / "blind" / PAGES / "dora"
    data = page_data(home)
    rows, items = data["rows"], {item_row_id(item.item_id): item for item in bench.items}
    assert not data["blind"]
    hidden = ("proposed", "evidence", "flags", "state", "case")
    assert rows
    assert all(row[name] is None for row in rows for name in hidden)
    assert data["cases"] == {}
    assert all(len(row["votes"]) == 3 for row in rows)  # two answers and the key
    assert not any(name in vote for row in rows for vote in row["votes"] for name in ("anna", "ben", "accept"))
    page = tab.open(home / PAGE)
    assert serious(page) == []
    tab.press("a")
    assert "No answer is proposed" in page.locator("#message").inner_text()
    assert not page.locator("[data-verdict=accept]").is_visible()
    answers, cells = bench.answers or {}, {}
    for number, row in enumerate(rows):
        item = items[row["id"]]
        if number == 0:
            tab.press("u", "p", "Enter")
            cells[row["id"]] = {columns.VERDICT: "unsure", columns.REASON: "poor picture"}
            continue
        said = answers[item.item_id].answer
        keys = [str(one) for one in said]
        if not item.form.lists_options:
            said, keys = said[:1], list(str(item.options[said[0] - 1].text).lower())
        tab.press(*keys, "Enter")
        cells[row["id"]] = answer_cells(item, said, columns.CORRECTED)
    # The same option once more takes the answer back, and the row is open again.
    one = next(number for number, row in enumerate(rows) if number and not row["several"] and not row["grid"])
    before = page.evaluate(f"show({one}), answers.of('{rows[one]['id']}')")
    key = str(answers[items[rows[one]["id"]].item_id].answer[0])
    tab.press(key)
    assert page.evaluate(f"answers.judged('{rows[one]['id']}')") is False
    tab.press(key)
    assert page.evaluate(f"answers.of('{rows[one]['id']}')") == before
    saved = save(tab, tmp_path)
    sheet = fill(disputed / "blind" / "dora" / "dora.xlsx", cells.__getitem__, tmp_path / "dora.xlsx")
    stores = []
    for path in (saved, sheet):
        store = tmp_path / path.suffix[1:] / "verdicts.jsonl"
        store.parent.mkdir()
        code, _, err = cli("review", "import", path, "--batch", disputed / "blind", "-o", store)
        assert (code, err) == (0, "")
        stores.append([{**one.to_record(), "imported": ""} for one in read_store(store).values()])
    assert stores[0] == stores[1]
    assert [record["verdict"] for record in stores[0]].count("accept") == len(rows) - 1
    assert tab.complaints == []


def test_an_open_adjudication_page_shows_proposal_and_verdicts(disputed: Path, tab: Tab) -> None:
    assert not list((disputed / "open").rglob("*.xlsx"))
    page = tab.open(disputed / "open" / PAGES / "dora" / PAGE)
    assert page.locator("#votes li").all_inner_texts()[0].startswith("anna:")
    assert page.locator("[data-verdict=accept]").is_visible()
    assert page.evaluate("row().proposed") is not None


def test_disputed_masks_have_a_page_on_which_they_are_redrawn(tmp_path: Path, tab: Tab, cli: Cli) -> None:
    cases, sheets = write_cases(tmp_path / "cases", 3, seed=2, size=256), tmp_path / "sheets"
    assert cli("review", "export", cases, "-o", sheets, "--what", "masks", "--reviewers", "anna,ben",
               "--overlap", 1)[0] == 0  # fmt: skip
    for name, word in (("anna", "accept"), ("ben", "fix")):
        fill(sheets / name / f"{name}-masks.xlsx", lambda row, word=word: {columns.VERDICT: word})
    assert cli("review", "import", sheets)[0] == 0
    assert cli("review", "adjudicate", cases, sheets, "-o", tmp_path / "d", "--adjudicator", "dora", "--page-only",
               "--blind-names")[0] == 0  # fmt: skip
    home = tmp_path / "d" / PAGES / "dora"
    data = page_data(home)
    assert all(sorted(row["votes"]) == ["accept", "fix"] for row in data["rows"])
    page = tab.open(home / PAGE)
    number = next(place for place, row in enumerate(data["rows"]) if data["cases"][row["case"]]["mask"])
    page.evaluate(f"show({number})")
    page.wait_for_selector(f"body[data-shown='{number}']")
    assert page.locator("h1").inner_text() == "Review of lesion outlines"
    tab.press("f", "l", "e", "4")
    assert page.locator("#editor").is_visible()
    assert serious(page) == []
    # The brush begins on the outline.
    case = data["cases"][data["rows"][number]["case"]]
    outline = next(layer["lines"][0] for layer in case["layers"] if layer["kind"] == "outline")
    box = page.locator(".stage").bounding_box()
    x, y = (box[at] + outline[place] / case["size"][1 - place] * box[size]
            for place, (at, size) in enumerate((("x", "width"), ("y", "height"))))  # fmt: skip
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 20, y + 20, steps=4)
    page.mouse.up()
    tab.press("Enter")
    page.locator("#saved", has_text="kept in this browser").wait_for()
    saved = save(tab, tmp_path)
    code, _, err = cli("review", "import", saved, "--batch", tmp_path / "d", "-o", sheets / "verdicts.jsonl")
    assert (code, err) == (0, "")
    (contour,) = map(json.loads, (sheets / "contours.jsonl").read_text().splitlines())
    assert contour["row"] == data["rows"][number]["id"]
    assert contour["reviewer"] == "dora"


# Training.


def test_a_training_page_says_what_the_key_says_once_a_row_is_answered(
    small: Path, tab: Tab, tmp_path: Path, cli: Cli
) -> None:
    study, bench = tmp_path / "study", benchmark.load(small)
    code, out, _ = cli("review", "study", small, "-o", study, "--readers", "anna", "--sample", 1, "--training", 3,
                       "--repeat", 0, "--page-only")  # fmt: skip
    assert code == 0
    assert [*study.rglob("*.xlsx")] == []
    assert "double-click its review.html" in out
    data = page_data(study / PAGES / "anna-training")
    page = tab.open(study / PAGES / "anna-training" / PAGE)
    assert serious(page) == []
    for number, row in enumerate(data["rows"]):
        item = bench.item[row["id"][2:]]
        key = (bench.answers or {})[item.item_id].answer
        page.evaluate(f"show({number})")
        assert page.locator("#told").is_hidden()
        right = number % 2 == 0
        if item.form.takes_several:
            tab.press(str(key[0]))
        elif item.form.lists_options:
            tab.press(str(key[0] if right else key[0] % len(item.options) + 1))
        else:
            wrong = next(one for one in range(1, 65) if one not in key)
            tab.press(*str(item.options[(key[0] if right else wrong) - 1].text).lower())
        text = page.locator("#told").inner_text()
        assert "The key: " in text
        if not item.form.takes_several:
            assert text.startswith("Right. " if right else "The key says otherwise. ")
    saved = save(tab, tmp_path)
    code, out, err = cli("review", "import", saved, "--batch", study, "-o", tmp_path / "v.jsonl")
    assert (code, err) == (0, "")
    assert "training cases alone" in out
    said = read_store(tmp_path / "v.jsonl").values()
    assert {one.kind for one in said} == {"training"}
    # The study's own pages hold no feedback.
    for home in (study / PAGES).glob("anna-reader*"):
        assert all(row["feedback"] is None for row in page_data(home)["rows"])


# Crashes.


def crash(page: Any) -> None:
    """Let the process of a page crash, so that none of its handlers runs."""
    with page.expect_event("crash"), contextlib.suppress(Exception):
        page.goto("chrome://crash")


@pytest.mark.long
@pytest.mark.parametrize("where", ["disk", "server"])
def test_a_crash_after_every_row_loses_none(where: str, small: Path, tmp_path: Path, cli: Cli, browser: Any) -> None:
    sheets = tmp_path / "sheets"
    assert cli("review", "export", small, "-o", sheets, "--reviewers", "anna", "--overlap", 0, "--page-only")[0] == 0
    home = sheets / PAGES / "anna"
    server = Served(sheets, names=("anna",)) if where == "server" else None
    address = home / PAGE if server is None else server.addresses["anna"]
    said: dict[str, str] = {}
    done = re.compile("saved|kept in this browser")
    try:
        with tab_in(browser.new_context()) as first:
            context, tab = first.page.context, first
            for number, row in enumerate(page_data(home)["rows"]):
                page = tab.open(address)
                assert page.evaluate("at") == number, "the page opens on the first open row"
                verdict = "ru"[number % 2]
                tab.press(verdict)
                said[row["id"]] = {"r": "reject", "u": "unsure"}[verdict]
                page.locator("#saved", has_text=done).wait_for()
                crash(page)
                if server is not None:
                    kept = PartAnswers(sheets, page_data(home)).rows
                    assert {row: kept[row]["cells"]["verdict"] for row in kept} == said
                tab = Tab(context.new_page())
            page = tab.open(address)
            assert page.evaluate("Object.fromEntries(DATA.rows.map((r) => [r.id, answers.of(r.id).verdict]))") == said
            changes = page.evaluate("DATA.rows.map((r) => answers.record(r.id).changes.length)")
            assert changes == [1] * len(said)
    finally:
        if server is not None:
            server.kill()
