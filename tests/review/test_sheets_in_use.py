"""Sheets in use: links clicked in a browser, layout at the width of a laptop, the second part after the first."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import openpyxl
import pytest
from rest_long import rest_long
from review_sheets import (
    answer_cells,
    as_reviewer,
    converted,
    fill,
    fill_all,
    rows_in,
    sheets_of,
    titles_of,
    work_tabs,
    write_small,
)

from chexqa.contract import benchmark
from chexqa.phantoms import write_cases
from chexqa.review import columns
from chexqa.review.sheets.export import Wish, export

pytestmark = pytest.mark.xdist_group("sheets")

Cli = Callable[..., tuple[int, str, str]]


@contextmanager
def silent(label: str, total: int) -> Iterator[Callable[[], None]]:
    yield lambda: None


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small(tmp_path_factory.mktemp("small") / "bench")


@pytest.fixture(scope="module")
def five_kinds(small: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A sheet of each kind; the reviewer's name has a space and a letter that no address has."""
    from chexqa.review.followup.adjudication_sheet import adjudicate

    home = tmp_path_factory.mktemp("five kinds")
    name = "Zoë B"
    cases = write_cases(home / "cases", 2, seed=2, size=256)
    export(small, home / "items", Wish((name, "ben"), 1.0, 2), None, silent)
    export(small, home / "readers", Wish((name,), 0, 1, blind_answers=True), None, silent)
    export(cases, home / "masks", Wish((name,), 0, 1, "masks"), None, silent)
    verdicts = [said(small, who, word) for who, word in (("anna", "accept"), ("ben", "reject"))]
    adjudicate(small, verdicts, home / "again", name, False, silent)
    return {
        "items": home / "items" / f"{name}-2" / f"{name}-2.xlsx",
        "blind": home / "items" / f"{name}-1-blind-part-4" / f"{name}-1-blind-part-4.xlsx",
        "readers": home / "readers" / f"{name}-reader-part-2" / f"{name}-reader-part-2.xlsx",
        "masks": home / "masks" / name / f"{name}-masks.xlsx",
        "adjudication": home / "again" / name / f"{name}.xlsx",
    }


def said(folder: Path, reviewer: str, word: str) -> Any:
    from chexqa.review.collect.verdicts import Verdict

    bench = benchmark.load(folder)
    row = columns.item_row_id(bench.items[0].item_id)
    source = {"file": "x", "tab": "", "row": 2}
    return Verdict(
        "r-1", bench.hash, f"{reviewer}-2", "items", reviewer, row, word, None, None, None, None, "now", source
    )


def links(path: Path) -> list[tuple[str, str]]:
    """Every row's id with its link, as the file holds it."""
    found = []
    for tab in work_tabs(openpyxl.load_workbook(path)):
        for row in range(2, tab.max_row + 1):
            link = tab.cell(row, 1).hyperlink
            found.append((tab.cell(row, titles_of(tab)[columns.ID]).value, f"{link.target}#{link.location}"))
    return found


@pytest.fixture(scope="module")
def page(chromium: str) -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    quiet = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=quiet)
        context = browser.new_context()
        context.set_default_timeout(120_000)
        yield context.new_page()
        browser.close()


@pytest.mark.parametrize("kind", rest_long(["items", "readers", "blind", "masks", "adjudication"]))
def test_a_link_opens_the_viewer_on_its_own_row(kind: str, five_kinds: dict[str, Path], page: Any) -> None:
    path = five_kinds[kind]
    rows = links(path)
    assert rows
    for row_id, link in rows[:1] + rows[-3:]:
        page.goto("about:blank")
        page.goto(f"{path.parent.as_uri()}/{link}")
        assert page.text_content("#id") == row_id
        page.evaluate("Promise.all([...document.querySelectorAll('.frame img')].map((one) => one.decode()))")
        assert page.evaluate("[...document.querySelectorAll('.frame img')].every((one) => one.naturalWidth > 0)")
        assert page.locator(".missing").count() == 0


@pytest.mark.long
def test_links_are_the_same_after_libreoffice_saved_the_sheet(
    five_kinds: dict[str, Path], soffice: str, tmp_path: Path
) -> None:
    (again,) = converted([five_kinds["items"]], "xlsx", tmp_path / "again", tmp_path / "profile")
    with zipfile.ZipFile(again) as archive:
        parts = [archive.read(name).decode() for name in archive.namelist() if "worksheets" in name]
    anchors = set(re.findall(r"#?(r-[0-9a-f]{16})", unquote(" ".join(parts))))
    assert {columns.anchor(row_id) for row_id, _ in links(five_kinds["items"])} <= anchors


def test_an_unknown_row_is_said_to_be_unknown(five_kinds: dict[str, Path], page: Any) -> None:
    viewer = five_kinds["items"].with_suffix(".html")
    page.goto(f"{viewer.as_uri()}#i-c0%5Cdetection")
    assert 'has no row "i-c0\\detection"' in page.text_content("#lost")
    assert page.locator(".frame").count() == 0
    page.keyboard.press("Home")
    assert page.locator("#lost").count() == 0


@pytest.mark.parametrize("kind", rest_long(["items", "masks", "blind", "readers"]))
def test_what_is_worked_with_is_in_view_beside_the_picture(kind: str, five_kinds: dict[str, Path]) -> None:
    path = five_kinds[kind]
    for tab in work_tabs(openpyxl.load_workbook(path)):
        titles = titles_of(tab)
        wide = {
            title: tab.column_dimensions[openpyxl.utils.get_column_letter(place)].width * 7
            for title, place in titles.items()
        }
        fill_in = [
            columns.COMMENT,
            columns.REASON,
            *({columns.VERDICT, columns.CORRECTED, columns.ANSWER} & set(titles)),
        ]
        last = max(titles[title] for title in fill_in)
        before = [title for title, place in titles.items() if place <= last]
        # LibreOffice draws columns about 2 % wider and leaves them 1,267 of 1,366 px.
        assert 1.021 * sum(wide[title] for title in before) <= 1275
        assert titles[columns.PICTURE] == 2
        assert tab.freeze_panes == "C2"
        assert tab.sheet_view.zoomScale in (None, 100)
        behind = {columns.EVIDENCE, columns.FLAGS, columns.FINDING} & set(titles)
        assert all(titles[title] > last for title in behind)


# The second part.


def test_proposals_are_written_when_the_blind_sheet_is_back(small: Path, tmp_path: Path, cli: Cli) -> None:
    sheets = tmp_path / "sheets"
    code, out, _ = cli("review", "export", small, "-o", sheets, "--reviewers", "anna,ben", "--overlap", 1)
    assert code == 0
    assert f"run 'chexqa review open {sheets}'" in out
    blind = {path.name for path in sheets.iterdir()} - {"review.json"}
    assert blind == {f"{name}-1-blind-part-{number}" for name in ("anna", "ben") for number in range(1, 6)}
    bench = benchmark.load(small)
    assert b"accept" not in b"".join(path.read_bytes() for path in sheets.glob("anna-1-blind*/*.html"))
    assert cli("review", "open", sheets)[0] == 2
    answer = as_reviewer(bench, lambda item, key: answer_cells(item, (1,), columns.ANSWER))
    fill_all(sheets, "anna-1-blind", answer)
    rows = [row for path in sheets_of(sheets, "ben-1-blind") for row in rows_in(path)]
    fill_all(sheets, "ben-1-blind", lambda row: {} if row == rows[0][columns.ID] else answer(row))
    code, out, _ = cli("review", "import", sheets)
    assert code == 0
    assert f"Next, for anna: chexqa review open {sheets}" in out
    assert cli("review", "status", sheets, "--verdicts", tmp_path / "typo.jsonl")[0] == 2
    code, out, _ = cli("review", "status", sheets)
    told = " ".join(out.split())
    assert f"anna-2: all blind rows are answered; write the second part with 'chexqa review open {sheets}'" in told
    assert f"ben-2: ben has not answered 1 of {len(rows)} blind rows" in told
    code, out, _ = cli("review", "open", sheets, "--page")
    assert code == 0
    assert (sheets / "anna-2" / "pages" / "anna-2" / "review.html").is_file()
    assert f"ben: 1 of {len(rows)} blind rows not answered yet" in out
    assert {path.name for path in (sheets / "anna-2").iterdir()} == {"anna-2.xlsx", "anna-2.html", "pictures", "pages"}
    assert not (sheets / "ben-2").exists()
    # What is opened later is what would have been written at once.
    export(small, tmp_path / "both", Wish(("anna", "ben"), 1.0, 2, planted=0.05), None, silent)
    other = json.loads((tmp_path / "both" / columns.BATCH_FILE).read_text())
    late, once = rows_in(sheets / "anna-2" / "anna-2.xlsx"), rows_in(tmp_path / "both" / "anna-2" / "anna-2.xlsx")
    marks = {columns.BATCH, columns.CHECKSUM, columns.CELL_SUMS}
    assert [{k: v for k, v in row.items() if k not in marks} for row in late] == [
        {k: v for k, v in row.items() if k not in marks} for row in once
    ]
    assert {row[columns.BATCH] for row in late} != {other["batch"]}
    # A row that stays open does not keep its reader from the proposals for ever.
    code, _, _ = cli("review", "open", sheets, "--incomplete")
    assert (code, (sheets / "ben-2" / "ben-2.xlsx").is_file()) == (0, True)
    fill(sheets / "anna-2" / "anna-2.xlsx", lambda row: {columns.VERDICT: "accept"})
    code, _, err = cli("review", "import", sheets)
    assert (code, err) == (0, "")
