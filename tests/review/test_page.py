"""The review page in a real browser, opened from disk: the keyboard, what is kept, what is sent back."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from browser import QUIET, Tab, serious, tab_in
from handmade import Handmade
from rest_long import rest_long
from review_sheets import another_answer, answer_cells, fill, sheets_of, write_small

from chexqa.contract import benchmark
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Answer, Item
from chexqa.files.jsonio import read_jsonl
from chexqa.files.terminal import progress
from chexqa.review import columns
from chexqa.review.collect.import_sheets import ImportOptions, import_sheets
from chexqa.review.collect.verdicts import Verdict, load_batch, read_store
from chexqa.review.columns import item_row_id
from chexqa.review.page.answers import PartAnswers
from chexqa.review.page.board import board_html
from chexqa.review.page.write_page import PAGE, PAGES, write_page
from chexqa.review.sheets.export import Wish, export

pytestmark = pytest.mark.xdist_group("review page")

DAY = "2026-03-01"
HOSTILE = '<img src=x onerror="window.stolen = 1"></script><script>window.stolen = 1</script> =1+1 \u202e “ende”'


class Made(NamedTuple):
    """A benchmark and its review: sheets and pages."""

    bench: Benchmark
    folder: Path

    def page(self, name: str) -> Path:
        return self.folder / PAGES / name / PAGE

    def data(self, name: str) -> dict[str, Any]:
        return page_data(self.page(name))

    def take(self, path: Path, store: Path, **options: Any) -> list[Verdict]:
        done = import_sheets(ImportOptions([path], self.folder, store, day=DAY, **options))
        assert done.problems == []
        return list(read_store(store).values())


def page_data(page: Path) -> dict[str, Any]:
    """What a page's script reads."""
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', page.read_text(encoding="utf-8"))
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Five cases of every kind for two reviewers who share all of them."""
    folder = tmp_path_factory.mktemp("made")
    write_small(folder / "bench")
    export(folder / "bench", folder / "out", Wish(("anna", "ben"), 1.0, 2), None, progress, write_page)
    return Made(benchmark.load(folder / "bench"), folder / "out")


@pytest.fixture(scope="module")
def hundred(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A hundred rows for one reviewer, with a question, a finding and a benchmark's name that are no markup."""
    folder = tmp_path_factory.mktemp("hundred")
    (folder / "bench").mkdir()
    builder = Handmade(folder / "bench")
    for number in range(12):
        builder.case(f"x{number}", "effusion", "revision_required", grid=(7, 8))
    for number in range(4):
        builder.case(f"y{number}", "edema", "lesion_free", detection=(2,))
    object.__setattr__(builder.items[0], "question", f"Is it {HOSTILE}?")
    object.__setattr__(builder.items[1], "finding", HOSTILE)
    about = builder.write() / "benchmark.json"
    about.write_text(about.read_text().replace('"handmade"', json.dumps(HOSTILE), 1))
    export(builder.folder, folder / "out", Wish(("anna",), 0, 1), None, progress, write_page)
    return Made(benchmark.load(folder / "bench"), folder / "out")


def save(tab: Tab, path: Path) -> Path:
    """Press Save and keep the file under the name that the page gives it."""
    with tab.page.expect_download() as download:
        tab.press("Control+s")
    path.mkdir(exist_ok=True)
    download.value.save_as(path / download.value.suggested_filename)
    return path / download.value.suggested_filename


@pytest.mark.parametrize("count", rest_long([20, 100], keep=1))
def test_rows_take_at_most_five_keys_for_two_and_no_mouse(hundred: Made, tab: Tab, tmp_path: Path, count: int) -> None:
    rows = hundred.data("anna")["rows"]
    assert len(rows) >= 100
    page = tab.open(hundred.page("anna"))
    keys = 0
    for _ in range(count):
        page.wait_for_selector("body[data-shown]")
        keys += tab.press("a", "Enter")
    assert keys <= 2.5 * count
    said = hundred.take(save(tab, tmp_path), tmp_path / "verdicts.jsonl")
    assert [verdict.verdict for verdict in said] == ["accept"] * count
    assert page.evaluate("window.stolen") is None
    assert HOSTILE.replace("\u202e", "") in page.title().replace("\u202e", "")
    assert page.locator("img[src=x]").count() == 0
    assert tab.complaints == []
    assert all(url.startswith((hundred.folder.as_uri(), "blob:file:", "blob:null")) for url in tab.requests)
    assert "connect-src 'none'" in hundred.page("anna").read_text()
    assert "default-src 'none'" in hundred.page("anna").read_text()


class Entries(NamedTuple):
    """What a reviewer says of an item: as cells of a sheet, and as keys on the page."""

    cells: dict[str, str]
    keys: list[str]
    comment: str


def entries(item: Item, key: Answer, rng: random.Random, blind: bool) -> Entries:
    """Say everything that can be said of an item: every verdict, corrections, cells, several options, comments."""
    title = columns.ANSWER if blind else columns.CORRECTED
    verdict = "fix" if blind else rng.choice(columns.VERDICTS)
    cells: dict[str, str] = {} if blind else {columns.VERDICT: verdict}
    keys: list[str] = [] if blind else [verdict[0]]
    if verdict == "fix":
        answer = another_answer(item, key, rng)
        cells |= answer_cells(item, answer, title)
        names = [str(item.options[number - 1].text) for number in answer]
        keys += [str(number) for number in answer] if item.form.lists_options else list(names[0].lower())
    if verdict in ("reject", "fix"):
        cells[columns.REASON] = "borderline"
        keys.append("n")
    comment = rng.choice(["", HOSTILE, "0012", "TRUE"])
    return Entries(cells | ({columns.COMMENT: comment} if comment else {}), keys, comment)


@pytest.mark.parametrize("blind", [False, pytest.param(True, marks=pytest.mark.long)])
def test_the_page_gives_the_same_bytes_as_the_sheet(made: Made, tab: Tab, tmp_path: Path, blind: bool) -> None:
    answers, items = made.bench.answers or {}, {item_row_id(item.item_id): item for item in made.bench.items}
    sheet, rng = "anna-1-blind" if blind else "anna-2", random.Random(4)
    said = {row: entries(item, answers[item.item_id], rng, blind) for row, item in items.items()}
    (tmp_path / "filled").mkdir()
    for path in sheets_of(made.folder, sheet):
        fill(path, lambda row: said[row].cells, tmp_path / "filled" / path.name)
    pages = sorted((made.folder / PAGES).glob(f"{sheet}*"))
    assert len(pages) == (5 if blind else 1)
    for folder in pages:
        page = tab.open(folder / PAGE)
        for row in page_data(folder / PAGE)["rows"]:
            page.wait_for_selector("body[data-shown]")
            tab.press(*said[row["id"]].keys)
            if said[row["id"]].comment:
                tab.press("k")
                page.keyboard.insert_text(said[row["id"]].comment)
                tab.press("Enter")
            tab.press("Enter")
        save(tab, tmp_path / "saved")
    made.take(tmp_path / "filled", tmp_path / "sheet.jsonl")
    made.take(tmp_path / "saved", tmp_path / "page.jsonl")
    assert (tmp_path / "page.jsonl").read_bytes() == (tmp_path / "sheet.jsonl").read_bytes()
    assert tab.page.evaluate("window.stolen") is None
    # A second import of the same files changes nothing, and the history has every change once.
    history = (tmp_path / "page_history.jsonl").read_bytes()
    made.take(tmp_path / "saved", tmp_path / "page.jsonl")
    assert (tmp_path / "page_history.jsonl").read_bytes() == history
    kept = [record for _, record in read_jsonl(tmp_path / "page_history.jsonl", "page_history")]
    assert len(kept) == len(items)
    assert all(record["changes"] and record["seconds"] is None for record in kept)


def test_no_part_of_a_blind_page_shows_a_proposal_or_a_later_part(made: Made) -> None:
    folders = sorted((made.folder / PAGES).glob("anna-1-blind*"))
    kinds = [
        {item.kind for item in made.bench.items if item_row_id(item.item_id) in ids} for ids in map(row_ids, folders)
    ]
    assert kinds[0] == {"detection"}
    assert len(set().union(*kinds)) == sum(map(len, kinds)) == 10
    evidence = {row["evidence"] for row in made.data("anna-2")["rows"] if row["evidence"]}
    every_id = {row for folder in folders for row in row_ids(folder)}
    for folder in folders:
        data = page_data(folder / PAGE)
        hidden = ("proposed", "evidence", "flags", "state", "case")
        assert all(row[name] is None for row in data["rows"] for name in hidden)
        assert data["cases"] == {}
        text = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
        assert not any(json.dumps(words)[1:-1].encode() in text for words in evidence)
        assert not any(row.encode() in text for row in every_id - row_ids(folder))
        shown = {
            Path(picture[name]).name
            for row in data["rows"]
            for picture in row["pictures"]
            for name in ("src", "over")
            if name in picture
        }
        assert {path.name for path in (folder / "pictures").iterdir()} == shown
    order = [row["id"] for row in page_data(folders[0] / PAGE)["rows"]]
    other = [row["id"] for row in made.data("ben-1-blind-part-1")["rows"]]
    assert sorted(order) == sorted(other)


def test_decoys_make_yes_no_better_guess_and_pages_come_instead_of_sheets(tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    builder = Handmade(tmp_path / "bench")
    for number in range(8):
        builder.case(f"present{number}", "effusion", "revision_free", contour_evaluation=(2,))
        builder.case(f"absent{number}", "effusion", "lesion_free", detection=(2,))
    builder.case("grid", "effusion", None, grid=(3,))
    wish = Wish(("anna", "ben"), 0.4, 2, both_parts=False, page_only=True)
    done = export(builder.write(), tmp_path / "out", wish, None, progress, write_page)
    assert not [path for path in (tmp_path / "out").rglob("*") if path.suffix in (".xlsx", ".csv")]
    pages = sorted((tmp_path / "out" / PAGES).iterdir())
    assert [page.file for page in done.pages] == [f"{PAGES}/{page.name}/{PAGE}" for page in pages]
    assert sum(page.rows for page in done.pages) == sum(len(row_ids(page)) for page in pages)
    bench = benchmark.load(tmp_path / "bench")
    answers = bench.answers or {}
    dealt = {(sheet["reviewer"], sheet["kind"]): sheet["rows"] for sheet in page_batch(tmp_path / "out")["sheets"]}
    for name in ("anna", "ben"):
        asked = row_ids(tmp_path / "out" / PAGES / f"{name}-1-blind-part-1")
        said = [answers[row.removeprefix("i-")].answer for row in asked]
        assert said.count((1,)) == said.count((2,)) >= 2
        assert asked <= set(dealt[name, "blind"])


def page_batch(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / columns.BATCH_FILE).read_text())
    return found


def row_ids(folder: Path) -> set[str]:
    return {row["id"] for row in page_data(folder / PAGE)["rows"]}


def test_a_reload_loses_nothing_and_a_saved_file_opens_elsewhere(
    made: Made, tab: Tab, tmp_path: Path, browser: Any
) -> None:
    page = tab.open(made.page("anna-2"))
    page.wait_for_selector("body[data-shown]")
    tab.press("r", "x", "k")
    page.keyboard.type("half a com")
    # A busy browser is behind the keys.
    page.wait_for_function("document.querySelector('#comment').value === 'half a com'")
    tab.page.reload()
    page.wait_for_selector("body[data-ready]")
    first = made.data("anna-2")["rows"][0]["id"]
    assert page.evaluate(f"answers.of('{first}')") == {"comment": "half a com", "reason": "other", "verdict": "reject"}
    tab.press("Home", "u", "Control+z", "Control+z")
    assert page.evaluate(f"answers.of('{first}')") == {"reason": "other", "verdict": "reject"}
    saved = save(tab, tmp_path)
    changes = json.loads(saved.read_text())["rows"][0]["changes"]
    assert [change["cells"].get("verdict") for change in changes] == [*["reject"] * 3, "unsure", *["reject"] * 2]
    tab.page.reload()
    page.wait_for_selector("body[data-ready]")
    tab.press("End", "Control+z", "Control+Shift+Z", "Control+y")
    assert page.evaluate(f"answers.of('{first}')") == {"comment": "half a com", "reason": "other", "verdict": "reject"}
    assert page.evaluate("at") == 0
    tab.press("Control+y", "Control+z", "x", "x", "Control+y")
    assert page.evaluate(f"answers.of('{first}').verdict") == "reject"
    assert page.locator("#message").inner_text() == "There is nothing to redo."
    saved = save(tab, tmp_path)
    with tab_in(browser.new_context()) as other:
        page = other.open(made.page("anna-2"))
        page.set_input_files("#file", saved)
        page.locator("#message", has_text="Read anna-2.json").wait_for()
        assert page.evaluate(f"answers.of('{first}').comment") == "half a com"
        page.set_input_files("#file", made.folder / "review.json")
        page.locator("#message", has_text="was not saved by").wait_for()
        page.clock.set_fixed_time("2020-01-01")  # a clock that is set back does not make the newest answer the oldest
        other.press("Home", "u", "Control+z", "Control+y")
        page.reload()
        page.wait_for_selector("body[data-ready]")
        assert page.evaluate(f"answers.of('{first}').verdict") == "unsure"


ASKED = {
    "accept": ("detection", False), "fix, one right option": ("distribution", False),
    "fix, two right options": ("revision_expansion", False), "fix, a cell of the grid": ("grid_cell", False),
    "answer blind, one right option": ("detection", True),
    "answer blind, two right options": ("revision_expansion", True),
    "answer blind, a cell of the grid": ("grid_cell", True),
}  # fmt: skip


def documented_keys() -> dict[tuple[str, bool], tuple[list[str], list[str]]]:
    """Return the keys in the sheet and on the page, by kind of question and blindness, from the table in the docs."""
    text = (Path(__file__).parents[2] / "docs" / "reviewing.md").read_text(encoding="utf-8")
    found = {}
    for name, sheet, page in re.findall(r"^\| ([a-z, ]+) \| (`.*?) \| (`.*?) \|$", text, re.MULTILINE):
        keys = tuple(re.findall("`(.*?)`", cell) for cell in (sheet, page))
        assert [len(one) for one in keys] == [int(cell.rpartition(": ")[2]) for cell in (sheet, page)]
        assert all(one.pop() == "Enter" for one in keys)
        found[ASKED[name]] = keys
    assert len(found) == len(ASKED)
    return found


def test_an_answer_takes_the_documented_keys_in_the_sheet(made: Made, tmp_path: Path) -> None:
    keys = {name: sheet for name, (sheet, _) in documented_keys().items()}
    for blind, sheet in ((True, "ben-1-blind"), (False, "ben-2")):
        typed: dict[str, dict[str, str]] = {}
        for item in made.bench.items:
            if (item.kind, blind) in keys:
                words = "".join(keys[item.kind, blind]).replace("Space", " ").split("Tab")
                titles = [columns.ANSWER] if blind else [columns.VERDICT, columns.CORRECTED]
                typed[item_row_id(item.item_id)] = dict(zip(titles, words, strict=False))
        (tmp_path / sheet).mkdir()
        for path in sheets_of(made.folder, sheet):
            fill(path, lambda row, typed=typed: typed.get(row, {}), tmp_path / sheet / path.name)  # type: ignore[misc]
        said = made.take(tmp_path / sheet, tmp_path / f"{sheet}.jsonl")
        assert {one.row for one in said} == set(typed)
        for one in said:
            kind = one.row.rpartition("/")[2]
            if blind or kind != "detection":
                assert len(one.answer or ()) == (2 if kind == "revision_expansion" else 1)
            assert blind or one.verdict == ("accept" if kind == "detection" else "fix")


def test_an_answer_takes_the_documented_keys_on_the_page(made: Made, tab: Tab) -> None:
    opened = Path()
    for (kind, blind), (_, keys) in sorted(documented_keys().items()):
        pages = sorted((made.folder / PAGES).glob("ben-1-blind*" if blind else "ben-2"))
        home = next(page for page in pages if any(row.endswith(f"/{kind}") for row in row_ids(page)))
        page = tab.page if home == opened else tab.open(home / PAGE)
        opened = home
        number = page.evaluate(f"DATA.rows.findIndex((one) => one.id.endsWith('/{kind}'))")
        page.evaluate(f"show({number})")
        page.wait_for_selector(f"body[data-shown='{number}']")
        said = page.evaluate("row().id")
        tab.press(*keys, "Enter")
        cells = page.evaluate(f"answers.of('{said}')")
        assert page.evaluate("at") == min(number + 1, page.evaluate("DATA.rows.length") - 1)
        if kind == "grid_cell":
            assert cells["answer" if blind else "corrected answer"] == "F4"
        elif kind == "revision_expansion":
            assert sum(title.startswith("option ") for title in cells) == 2
        elif blind:
            assert cells["answer"].startswith("2")
        else:
            assert cells["verdict"] == ("accept" if kind == "detection" else "fix")


def test_two_tabs_from_disk_lose_nothing_and_a_chosen_file_is_written_again(made: Made, tab: Tab) -> None:
    first = tab.open(made.page("anna-2"))
    context = first.context
    context.add_init_script(
        "window.written = []; window.showSaveFilePicker = async () => ({ name: 'mine.json', "
        "createWritable: async () => ({ write: async (text) => window.written.push(text), close: async () => {} }) });"
    )
    second = Tab(context.new_page())
    other = second.open(made.page("anna-2"))
    for one, page, number in ((tab, first, 0), (second, other, 1), (tab, first, 2), (second, other, 0)):
        page.evaluate(f"show({number})")
        page.wait_for_selector(f"body[data-shown='{number}']")
        one.press("u" if number else "r")
        page.locator("#saved", has_text="kept in this browser").wait_for()
    for page in (first, other):
        page.reload()
        page.wait_for_selector("body[data-ready]")
    for page in (first, other):
        assert page.evaluate("DATA.rows.slice(0, 3).map((one) => answers.judged(one.id))")[1:] == [True, True]
        assert len(page.evaluate("answers.record(DATA.rows[0].id).changes")) == 2
    for count in (1, 2):
        second.press("Control+s")
        other.locator("#message", has_text="Saved as mine.json").wait_for()
        assert len(other.evaluate("window.written")) == count
        second.press("ArrowRight")
    assert json.loads(other.evaluate("window.written[0]"))["page"] == "anna-2"


@pytest.mark.long
def test_a_killed_browser_has_every_row(made: Made, playwright: Any, chromium: str, tmp_path: Path) -> None:
    def start() -> Any:
        return playwright.chromium.launch_persistent_context(
            str(tmp_path / "profile"), executable_path=chromium, args=QUIET
        )

    tab = Tab(start().new_page())
    page = tab.open(made.page("ben-2"))
    for _ in range(4):
        page.wait_for_selector("body[data-shown]")
        tab.press("a", "Enter")
    tab.press("u")
    page.locator("#saved", has_text="kept in this browser").wait_for()
    kill_browser(tmp_path / "profile")
    context = start()
    page = Tab(context.new_page()).open(made.page("ben-2"))
    assert page.evaluate("DATA.rows.filter((row) => answers.judged(row.id)).length") == 5
    context.close()


def kill_browser(profile: Path) -> None:
    """Kill the browser that has this profile, as a power cut would: no handler runs."""
    holder = str((profile / "SingletonLock").readlink())
    os.kill(int(holder.rsplit("-", 1)[1]), signal.SIGKILL)
    for name in ("SingletonLock", "SingletonSocket", "SingletonCookie"):
        (profile / name).unlink(missing_ok=True)


def test_a_closed_part_cannot_be_changed(made: Made, tab: Tab, tmp_path: Path) -> None:
    name = "anna-1-blind-part-3"
    page = tab.open(made.page(name))
    tab.press("1", "End", "Enter")
    assert "still open" in page.locator("#message").inner_text()
    with page.expect_download() as download:
        tab.press("Control+Enter", "Enter")
    download.value.save_as(tmp_path / f"{name}.json")
    saved = json.loads((tmp_path / f"{name}.json").read_text())
    assert saved["locked"]
    assert len(saved["rows"]) == 1
    tab.press("Home", "2", "Control+z")
    page.reload()
    page.wait_for_selector("body[data-ready]")
    tab.press("2", "k")
    first = made.data(name)["rows"][0]["id"]
    assert page.evaluate(f"answers.of('{first}')") == saved["rows"][0]["changes"][-1]["cells"]
    assert page.locator("#saved").inner_text() == "closed; answers cannot be changed"


def test_the_outline_is_shown_before_it_can_be_accepted(made: Made, tab: Tab, tmp_path: Path) -> None:
    shutil.copytree(made.folder / PAGES / "anna-2", tmp_path / "page")
    shutil.rmtree(tmp_path / "page" / "pictures")
    page = tab.open(tmp_path / "page" / PAGE)
    tab.press("Home", "a")
    assert "cannot be accepted" in page.locator("#message").inner_text()
    page.locator(".missing").first.wait_for()


def test_an_accepted_row_takes_no_reason_that_calls_it_wrong(made: Made, tab: Tab) -> None:
    page = tab.open(made.page("anna-2"))
    page.wait_for_selector("body[data-shown]")
    tab.press("a", "w")
    assert page.evaluate("answers.of(row().id)") == {"verdict": "accept"}
    assert "press f first" in page.locator("#message").inner_text()
    tab.press("N")  # as with Caps Lock
    assert page.evaluate("answers.of(row().id)") == {"verdict": "accept", "reason": "borderline"}


def test_at_twice_the_size_the_question_is_reached_by_keys(made: Made, tab: Tab) -> None:
    """Browser zoom of 200 % at 1366 x 768 leaves 683 x 384."""
    tab.page.set_viewport_size({"width": 683, "height": 384})
    page = tab.open(made.page("anna-2"))
    page.wait_for_selector("body[data-shown]")
    first = page.evaluate("at")
    assert page.evaluate("document.querySelector('#question').getBoundingClientRect().top") < 340
    tab.press("PageDown", "PageDown", "PageDown")
    assert page.evaluate("document.querySelector('#undo').getBoundingClientRect().top") < 384
    tab.press("PageUp", "PageUp", "PageUp")
    assert page.evaluate("[scrollY, at]") == [0, first]


def test_on_an_upright_screen_two_pictures_lie_one_above_the_other(made: Made, tab: Tab) -> None:
    page = tab.open(made.page("anna-2"))
    page.evaluate("show(DATA.rows.findIndex((one) => one.pictures.length === 2))")
    page.wait_for_selector("body[data-shown]")
    for width, height, across in ((1200, 1600, 1), (1366, 768, 2)):
        tab.page.set_viewport_size({"width": width, "height": height})
        page.wait_for_function(
            "(count) => new Set([...document.querySelectorAll('figure')].map((one) => one.offsetLeft)).size === count",
            arg=across,
        )
        tops = page.evaluate("[...document.querySelectorAll('figure')].map((one) => one.offsetTop)")
        assert len(tops) == 2
        assert (tops[1] > tops[0]) == (across == 1)


def test_axe_finds_nothing_serious(made: Made, tab: Tab) -> None:
    for name in ("anna-2", "anna-1-blind-part-1"):
        assert serious(tab.open(made.page(name))) == []


def test_in_a_narrow_window_no_button_covers_another_one(made: Made, tab: Tab) -> None:
    tab.page.set_viewport_size({"width": 400, "height": 800})
    page = tab.open(made.page("anna-2"))
    page.wait_for_selector("body[data-shown]")
    hidden = page.evaluate("""[...document.querySelectorAll("button, select, textarea")].filter((node) => {
        if (!node.offsetParent) return false;
        node.scrollIntoView({ block: "center" });
        const box = node.getBoundingClientRect();
        const top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
        return !node.contains(top);
    }).map((node) => node.id || node.textContent)""")
    assert (hidden, page.evaluate("document.documentElement.scrollWidth")) == ([], 400)


def test_the_board_takes_hostile_words_for_words(hundred: Made) -> None:
    batch = load_batch(hundred.folder)
    data = hundred.data("anna")
    board = board_html(batch, hundred.folder, {"anna": [PartAnswers(hundred.folder, data)]}, {"anna"})
    assert "&lt;img" in board
    assert "<img" not in board
    assert "<script" not in board


def test_keys_stand_on_the_buttons_and_no_letter_means_two_things(made: Made) -> None:
    data = made.data("anna-2")
    text = made.page("anna-2").read_text()
    letters = [reason["key"] for reason in data["reasons"]]
    assert len(set(letters)) == len(letters)
    assert not set(letters) & set("afruozkije")
    for word, letter in [
        ("accept", "a"),
        ("fix", "f"),
        *((reason["word"], reason["key"]) for reason in data["reasons"]),
    ]:
        assert f"<kbd>{letter}</kbd> {word}" in text
    # Without a proposal, no reason calls one wrong.
    asked = [reason["word"] for reason in made.data("anna-1-blind-part-1")["reasons"]]
    assert asked == ["unclear question", "poor picture", "borderline", "cannot tell", "other"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda about: about.pop("rows"), "rows"),
        (lambda about: about["rows"][0].pop("cells"), "cells"),
        (lambda about: about["rows"][0]["cells"].update(verdict="maybe"), "'maybe'"),
        (lambda about: about["rows"][0]["cells"].update(question="Is it?"), "locked cells"),
        (lambda about: about.update(what="something"), "was not saved by a review page"),
    ],
)
def test_a_spoilt_file_is_one_sentence(made: Made, tmp_path: Path, change: Any, told: str) -> None:
    path = tmp_path / "anna-2.json"
    about = answered(made)
    change(about)
    path.write_text(json.dumps(about))
    done = import_sheets(ImportOptions([path], made.folder, tmp_path / "verdicts.jsonl", day=DAY, all_or_none=True))
    (problem,) = done.problems
    assert told in problem
    assert str(path) in problem
    assert not done.written
    assert not (tmp_path / "verdicts.jsonl").exists()


def answered(made: Made) -> dict[str, Any]:
    """A saved page without a browser: its first row is rejected."""
    data = made.data("anna-2")
    row = data["rows"][0]
    cells = {"verdict": "reject"}
    return {
        "what": "chexqa review page", "schema_version": 1, "page": data["page"], "batch": data["batch"],
        "sheet": data["sheet"], "reviewer": data["reviewer"], "saved": "2026-03-01T10:00:00Z", "locked": False,
        "rows": [{
            "tab": row["tab"], "row": row["row"], "cells": row["cells"] | cells, "seconds": 3.5, "contour": None,
            "changes": [{"id": "t-1", "at": "2026-03-01T10:00:00Z", "cells": cells}],
        }],
    }  # fmt: skip


def test_seconds_and_history_go_beside_the_verdicts(made: Made, tmp_path: Path) -> None:
    (tmp_path / "anna-2.json").write_text(json.dumps(answered(made)))
    (verdict,) = made.take(tmp_path, tmp_path / "verdicts.jsonl")
    assert verdict.seconds is None
    ((_, record),) = read_jsonl(tmp_path / "page_history.jsonl", "page_history")
    assert record["seconds"] == 3.5
    assert record["file"] == "anna-2.json"
