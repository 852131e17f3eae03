"""Review pages from the server: what is answered is on the disk, whatever dies, and nobody sees more than is theirs."""

from __future__ import annotations

import base64
import datetime
import json
import re
import shutil
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import Tab, serious
from handmade import Handmade
from review_server import COMMAND, Served
from review_sheets import write_small
from source_files import save

from chexqa.files.terminal import progress
from chexqa.review.collect.import_sheets import ImportOptions, import_sheets
from chexqa.review.columns import ABOUT_QUESTIONS
from chexqa.review.page.board import lines
from chexqa.review.page.serve import Review
from chexqa.review.page.write_page import write_page
from chexqa.review.sheets.export import Wish, export
from chexqa.review.study.design import StudyWish

pytestmark = pytest.mark.xdist_group("review page")

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    write_small(folder / "bench")
    export(folder / "bench", folder / "out", Wish(("anna", "ben"), 1.0, 2, both_parts=True), None, progress, write_page)
    return folder


@pytest.fixture
def served(template: Path, tmp_path: Path) -> Iterator[Served]:
    shutil.copytree(template / "out", tmp_path / "out")
    server = Served(tmp_path / "out")
    yield server
    server.kill()


FIRST = "anna-1-blind-part-1"


def test_a_killed_server_and_two_tabs_lose_and_double_nothing(served: Served, tab: Tab) -> None:
    page = tab.open(served.addresses["anna"])
    assert page.url.endswith(f"/{FIRST}/")
    tab.press("1")
    page.locator("#saved", has_text=re.compile("^saved$")).wait_for()
    assert len(served.rows(FIRST)) == 1
    served.kill()
    tab.press("Enter", "2", "Control+z", "2")
    page.locator("#saved", has_text="Not sent yet").wait_for()
    served.start()
    page.locator("#saved", has_text=re.compile("^saved$")).wait_for()
    second = Tab(page.context.new_page())
    other = second.open(served.addresses["anna"])
    assert other.evaluate("DATA.rows.filter((row) => answers.judged(row.id)).length") == 2 == len(served.rows(FIRST))
    second.press("Home", "2")
    tab.wait("answers.of(DATA.rows[0].id).answer.startsWith('2')")  # the first tab has read the answer
    tab.press("Home", "t")
    for one in (page, other):
        one.locator("#saved", has_text=re.compile("^saved$")).wait_for()
    changes = [change["id"] for row in served.rows(FIRST) for change in row["changes"]]
    assert len(changes) == len(set(changes)) == 6
    assert served.rows(FIRST)[0]["cells"]["answer"].startswith("2")


@pytest.mark.long
def test_a_server_killed_after_every_row_and_two_tabs_lose_and_double_nothing(served: Served, tab: Tab) -> None:
    """Each row is answered while the server is down, in turns by two tabs, one of which closes before it can send."""
    page = tab.open(served.addresses["anna"])
    for number in (0, 2):
        second = Tab(page.context.new_page())
        other = second.open(served.addresses["anna"])
        served.kill()
        for one, place in ((tab, number), (second, number + 1)):
            one.page.evaluate(f"show({place})")
            one.press("1")
        # The first tab hears of the answer before the other tab is closed.
        tab.wait(f"answers.judged(DATA.rows[{number + 1}].id)")
        second.wait("!answers.pending")
        other.close()
        served.start()
        page.locator("#saved", has_text=re.compile("^saved$")).wait_for()
        kept = served.rows(FIRST)
        assert {row["cells"]["id"] for row in kept} == set(
            page.evaluate("DATA.rows.map((row) => row.id).filter((id) => answers.judged(id))")
        )
        changes = [change["id"] for row in kept for change in row["changes"]]
        assert len(changes) == len(set(changes))
        assert len(changes) == page.evaluate(
            "DATA.rows.reduce((n, row) => n + answers.record(row.id).changes.length, 0)"
        )


def test_a_row_that_changes_while_it_is_sent_is_sent_again(served: Served, tab: Tab) -> None:
    page = tab.open(served.addresses["anna"])
    page.route("**/rows", lambda route: (page.wait_for_timeout(200), route.continue_()))
    tab.press("1", "k")
    page.keyboard.type("cut off below", delay=30)
    tab.press("Enter")
    page.locator("#saved", has_text=re.compile("^saved$")).wait_for()
    assert served.rows(FIRST)[0]["cells"]["comment"] == "cut off below"


# Adds some pixels to the mask, as an editor does.
REDRAW = """(n) => {
    if (n === 1) judge("fix");
    const [height, width] = row().mask.size, mask = fromRuns(row().mask);
    mask.fill(1, 0, 9 * n);
    answers.drawn(row().id, { size: [height, width], counts: toRuns(mask, width, height), changes: n });
}"""


@pytest.mark.long
def test_an_outline_survives_a_tab_that_has_not_heard_of_it(tmp_path: Path, tab: Tab) -> None:
    mask = np.pad(np.ones((200, 200), np.bool_), ((300, 300), (200, 200)))
    save(tmp_path / "a.png", 90 * mask)
    save(tmp_path / "m.png", mask)
    about = {"case_id": "a", "present": True, "image": "a.png", "mask": "m.png", "finding": "edema", "access": "open"}
    (tmp_path / "cases.jsonl").write_text(json.dumps(about) + "\n")
    wish = Wish(("anna",), 0, 1, "masks", page_only=True)
    export(tmp_path / "cases.jsonl", tmp_path / "out", wish, None, progress, write_page)
    server = Served(tmp_path / "out", names=("anna",))
    try:
        first = tab.open(server.addresses["anna"])
        second = Tab(first.context.new_page())
        other = second.open(server.addresses["anna"])
        for changes in (1, 2):  # the second outline replaces the first one
            first.evaluate(f"({REDRAW})({changes})")
            second.wait(f"answers.contour(row().id)?.changes === {changes}")
            second.press("l")
            for page in (first, other):
                page.locator("#saved", has_text=re.compile("^saved$")).wait_for()
            assert server.rows("anna-masks")[0]["contour"]["changes"] == changes
        # A row that was sent before the newest outline takes nothing back.
        row = json.loads(server.ask("anna", "anna-masks/rows")[1])["rows"][0]
        server.ask("anna", "anna-masks/rows", [{**row, "contour": None, "contour_at": "2020-01-01T00:00:00.000Z"}])
        assert server.rows("anna-masks")[0]["contour"]["changes"] == 2
    finally:
        server.kill()


def test_repeated_items_wait_for_weeks_and_the_board_says_what_is_later(tmp_path: Path) -> None:
    write_small(tmp_path / "bench")
    wish = Wish(("anna", "ben"), 1.0, 2, blind_answers=True, page_only=True, study=StudyWish(0, 0.5))
    export(tmp_path / "bench", tmp_path / "out", wish, None, progress, write_page)
    review = Review(tmp_path / "out")
    own = review.parts()["anna"]
    study = [part for part in own if not part.answers.is_repeat]
    for number, part in enumerate(study, start=1):
        assert [one.home for one in review.open_parts("anna")] == [one.home for one in study[:number]]
        part.answers.close()
    assert (review.open_parts("anna"), len(own) > len(study)) == (study, True)
    shown = {part.home.name for part in review.open_parts("anna")}
    states = [line.state for line in lines(review.batch, {"anna": [part.answers for part in own]}, shown)]
    assert states == ["closed"] * len(study) + ["later"] * (len(own) - len(study))
    until = review.waits_until("anna")
    assert until is not None
    assert 13 < (until - datetime.datetime.now(datetime.UTC)).days + 1 <= 14
    for part in study:  # the study was finished weeks ago
        about = json.loads(part.answers.file.read_text())
        part.answers.file.write_text(json.dumps({**about, "saved": "2026-01-01T00:00:00+00:00"}))
    assert Review(tmp_path / "out").open_parts("anna")[-1].answers.is_repeat
    assert Review(tmp_path / "out", 0).open_parts("anna")[-1].answers.is_repeat


@pytest.mark.long
def test_a_reader_of_a_study_is_asked_for_experience_and_display_when_the_first_part_is_closed(
    tmp_path: Path, tab: Tab, cli: Cli
) -> None:
    write_small(tmp_path / "bench")
    wish = Wish(("anna", "ben"), 1.0, 2, blind_answers=True, page_only=True, study=StudyWish(0, 0))
    export(tmp_path / "bench", tmp_path / "out", wish, None, progress, write_page)
    # On a page from disk, by the keyboard alone; the words survive a reload.
    page = tab.open(tmp_path / "out" / "pages" / "ben-reader-part-1" / "review.html")
    page.wait_for_selector("body[data-shown]")
    assert page.locator("p.rule").all_inner_texts() == page.evaluate("DATA.task.slice(1)")
    assert len(page.evaluate("DATA.task")) == 3
    tab.press("1", "Control+Enter")
    page.keyboard.insert_text("12 years")
    page.reload()
    page.wait_for_selector("body[data-shown]")
    tab.press("Control+Enter", "Enter")
    page.keyboard.insert_text("<b>thorax</b>")
    tab.press("Enter", "Enter", "Enter")
    with page.expect_download() as download:
        tab.press("Enter")
    (tmp_path / "out" / "answers").mkdir()
    download.value.save_as(tmp_path / "out" / "answers" / "ben-reader-part-1.json")
    # On the server.
    server = Served(tmp_path / "out")
    try:
        page = tab.open(server.addresses["anna"])
        page.wait_for_selector("body[data-shown]")
        tab.press("1")
        page.locator("#saved", has_text=re.compile("^saved$")).wait_for()
        tab.press("Control+Enter")
        page.keyboard.insert_text("3 years")
        assert serious(page) == []
        with page.expect_navigation(url=re.compile("part-2/$")):
            page.click("#closing-yes")
        code, text = server.ask("ben", "ben-reader-part-2/lock", {"about": {"display": 1}})
        assert (code, text.startswith("Not closed: ")) == (400, True)
    finally:
        server.kill()
    code, out, _ = cli("review", "import", tmp_path / "out")
    assert (code, "conditions of 2 readers" in out) == (0, True)
    said = [json.loads(line) for line in (tmp_path / "out" / "readers.jsonl").read_text().splitlines()]
    years, special = ABOUT_QUESTIONS[:2]
    assert [one["said"] for one in said] == [{years: "3 years"}, {years: "12 years", special: "<b>thorax</b>"}]
    assert tab.complaints == []


@pytest.mark.long
def test_parts_open_one_after_the_other_and_the_board_has_no_names(served: Served, tab: Tab, tmp_path: Path) -> None:
    assert served.ask("anna", "anna-1-blind-part-2/")[0] == 403
    assert served.ask("anna", "anna-2/rows")[0] == 403
    assert served.ask("anna", "ben-1-blind-part-1/")[0] == 403
    code, text = served.ask("anna", f"{FIRST}/")
    assert code == 200
    assert "connect-src 'self'" in text
    assert "anna-1-blind-part-2" not in text
    board = served.ask("coordinator")[1]
    assert "Hidden until every blind part is closed" in board
    assert "anna" not in board.replace(str(served.folder), "")
    page = tab.open(served.addresses["anna"])
    parts = [f"{name}-1-blind-part-{number}" for name in ("anna", "ben") for number in range(1, 6)]
    for number in range(5):
        page.wait_for_selector("body[data-ready]")
        assert page.url.endswith(f"part-{number + 1}/")
        tab.press("t", "Enter")
        page.locator("#saved", has_text=re.compile("^saved$")).wait_for()
        page.click("#lock")
        with page.expect_navigation(url=re.compile(rf"part-{number + 2}/$|anna-2/$")):
            page.click("#closing-yes")
    assert page.url.endswith("/anna-2/")
    # What is closed stays as it is.
    before = (served.folder / "answers" / f"{FIRST}.json").read_bytes()
    shown = json.loads(served.ask("anna", f"{FIRST}/rows")[1])["rows"][0]
    later = {"id": "x-1", "at": "2999-01-01T00:00:00Z", "cells": {"answer": "2. No"}}
    code, text = served.ask("anna", f"{FIRST}/rows", [{**shown, "changes": [later]}])
    assert (code, json.loads(text)) == (200, {"locked": True})
    assert (served.folder / "answers" / f"{FIRST}.json").read_bytes() == before
    for part in parts[5:]:
        served.ask("ben", f"{part}/lock", {})
    board = served.ask("coordinator")[1]
    assert "Hidden" not in board
    done = import_sheets(ImportOptions([served.folder], served.folder, tmp_path / "verdicts.jsonl"))
    assert done.problems == []
    assert done.read == 5
    assert tab.complaints == []
    page.goto(served.addresses["coordinator"])
    assert serious(page) == []


SPOILT: tuple[Any, ...] = (
    {}, [{"id": "i-no such row", "changes": []}], [{"id": None}], [1],
    [{"changes": [{"id": "a", "at": "b", "cells": {"question": "?"}}]}],
    [{"changes": [{"id": "a", "at": "b", "cells": {"answer": 3}}]}],
    [{"changes": [{"id": "", "at": "b", "cells": {}}]}], [{"changes": [{"cells": {}}]}],
)  # fmt: skip


def test_what_a_page_does_not_send_is_refused_and_strangers_get_nothing(
    served: Served, template: Path, tmp_path: Path, cli: Cli
) -> None:
    text = served.ask("anna", f"{FIRST}/")[1]
    first = json.loads(text.partition('type="application/json">')[2].partition("</script>")[0])["rows"][0]["id"]
    for sent in SPOILT:
        rows = (
            [{"id": first, **row} if isinstance(row, dict) else row for row in sent] if isinstance(sent, list) else sent
        )
        code, text = served.ask("anna", f"{FIRST}/rows", rows)
        assert code == 400, sent
        assert text.startswith("Not kept: ")
    assert not (served.folder / "answers").exists()
    address = served.addresses["anna"]
    served.addresses["nobody"] = re.sub(r"/[\w-]+/$", "/AAAAAAAAAAAAAAAAAAAAAAAA/", address)
    assert served.ask("nobody")[0] == 404
    assert served.ask("anna", f"{FIRST}/", Host="evil.example:80")[0] == 403
    assert served.ask("anna", f"{FIRST}/rows", [], **{"Sec-Fetch-Site": "cross-site"})[0] == 403
    assert served.ask("anna", f"{FIRST}/pictures/..%2Freview.html")[0] == 404
    assert served.ask("anna", f"{FIRST}/pictures/no.png")[0] == 404
    # What stands in the way of a start is one sentence.
    command = [*COMMAND, str(served.folder), "--port", str(served.port)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "cannot be used" in done.stderr) == (2, True)
    code, _, wrong = cli("review", "serve", tmp_path)
    assert (code, "contains no review.json" in wrong) == (2, True)
    shutil.rmtree(served.folder / "pages")
    code, _, wrong = cli("review", "serve", served.folder)
    assert (code, "contains no review pages" in wrong) == (2, True)


def test_credentialed_data_and_other_hosts_need_a_password(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "bench").mkdir()
    builder = Handmade(tmp_path / "bench")
    builder.case("a", "effusion", "lesion_free", access="credentialed")
    builder.case("b", "effusion", "lesion_free", access="credentialed")
    out, word = tmp_path / "out", tmp_path / "word.txt"
    export(builder.write("real"), out, Wish(("anna", "ben"), 0, 1), None, progress, write_page)
    code, _, wrong = cli("review", "serve", out)
    assert (code, "data use agreement" in wrong) == (2, True)
    code, _, wrong = cli("review", "serve", out, "--host", "0.0.0.0")
    assert (code, "password" in wrong) == (2, True)
    word.write_text("correct horse\n")
    server = Served(out, "--password-file", str(word))
    try:
        assert server.ask("anna")[0] == 401
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(server.addresses["anna"], timeout=30)
        assert refused.value.headers["Cache-Control"] == "no-store"
        for password, code in (("wrong", 401), ("correct horse", 200)):
            given = base64.b64encode(f"anna:{password}".encode()).decode()
            assert server.ask("anna", Authorization=f"Basic {given}")[0] == code
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(20) == 0
    finally:
        server.kill()
