"""Words of strangers (a case id, a finding, a comment) stay text everywhere; a name that is no name is refused."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pytest
from browser import Tab
from handmade import Handmade
from review_sheets import fill, rows_in, work_tabs
from source_files import save

from chexqa.review import columns
from chexqa.review.collect.verdicts import load_batch, read_store
from chexqa.review.page.answers import PartAnswers, page_data
from chexqa.review.page.board import board_html

pytestmark = pytest.mark.xdist_group("review page")

Cli = Callable[..., tuple[int, str, str]]
MARKUP = '<img src=x onerror="window.stolen=1"></script><script>window.stolen=1</script>'
CASE, FINDING, COMMENT = f'=HYPERLINK("http://evil.example","{MARKUP}")', f"+{MARKUP}", f"@SUM(A1)\n{MARKUP}"


@pytest.fixture
def sheets(tmp_path: Path, cli: Cli) -> Path:
    """Masks of two cases with hostile ids, as sheet and page, for one reviewer."""
    mask = np.pad(np.ones((100, 100), np.bool_), 100)
    save(tmp_path / "a.png", 90 * mask)
    save(tmp_path / "m.png", mask)
    about = {"present": True, "image": "a.png", "mask": "m.png", "access": "open", "finding": "edema"}
    lines = [{"case_id": CASE, **about}, {"case_id": f"-{CASE}", **about}]
    (tmp_path / "cases.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    export = ("review", "export", tmp_path / "cases.jsonl", "--what", "masks", "--reviewers", "anna")
    code, _, wrong = cli(*export, "--page", "-o", tmp_path / "sheets")
    assert code == 0, wrong
    return tmp_path / "sheets"


def assert_text(path: Path) -> None:
    """Fail unless each cell of the work tabs is text, save the number that leads to the viewer."""
    for work in work_tabs(openpyxl.load_workbook(path)):
        titles = [cell.value for cell in work[1]]
        cells = [cell for row in work.iter_rows(min_row=2) for cell in row if cell.value is not None]
        assert all(cell.data_type == "s" for cell in cells if titles[cell.column - 1] != columns.NUMBER)


def test_a_finding_of_a_foreign_benchmark_stays_text(tmp_path: Path, tab: Tab, cli: Cli) -> None:
    (tmp_path / "bench").mkdir()
    builder = Handmade(tmp_path / "bench")
    builder.case("a", "effusion", "revision_free", contour_evaluation=(2,))
    for item in builder.items:
        object.__setattr__(item, "finding", FINDING)
    export = ("review", "export", builder.write(), "--reviewers", "anna", "--page", "-o", tmp_path / "sheets")
    code, _, wrong = cli(*export)
    assert code == 0, wrong
    assert_text(tmp_path / "sheets" / "anna" / "anna.xlsx")
    assert rows_in(tmp_path / "sheets" / "anna" / "anna.xlsx")[0][columns.FINDING] == FINDING
    page = tab.open(tmp_path / "sheets" / "pages" / "anna" / "review.html")
    page.wait_for_selector("body[data-shown]")
    assert FINDING in page.locator("#row").inner_text()
    assert (page.evaluate("window.stolen"), page.locator("img[src=x]").count(), tab.complaints) == (None, 0, [])


def test_a_case_id_and_a_comment_stay_text_in_sheet_page_board_and_store(
    sheets: Path, tab: Tab, tmp_path: Path, cli: Cli
) -> None:
    # The sheet: text in every cell but the number that leads to the viewer, and in the viewer.
    path = sheets / "anna" / "anna-masks.xlsx"
    assert_text(path)
    assert {row[columns.ID] for row in rows_in(path)} == {f"m-{CASE}", f"m--{CASE}"}
    assert "<img src=x" not in (sheets / "anna" / "anna-masks.html").read_text()
    # The page.
    page = tab.open(sheets / "pages" / "anna-masks" / "review.html")
    page.wait_for_selector("body[data-shown]")
    tab.press("r", "k")
    page.keyboard.insert_text(COMMENT)
    tab.press("Enter", "Enter")
    with page.expect_download() as download:
        tab.press("Control+s")
    page.reload()
    page.wait_for_selector("body[data-ready]")
    assert page.locator("#id").inner_text() in {f"m-{CASE}", f"m--{CASE}"}
    assert (page.evaluate("window.stolen"), page.locator("img[src=x]").count(), tab.complaints) == (None, 0, [])
    # The board, and the store by both ways.
    answers = sheets / "answers" / "anna-masks.json"
    answers.parent.mkdir()
    download.value.save_as(answers)
    row = json.loads(answers.read_text())["rows"][0]["cells"][columns.ID]
    batch = load_batch(sheets)
    part = PartAnswers(sheets, page_data(sheets / "pages" / "anna-masks"))
    board = board_html(batch, sheets, {"anna": [part]}, {"anna-masks"})
    assert (part.judged, "<img" in board, "<script" in board) == (1, False, False)
    fill(path, lambda one: {columns.VERDICT: "reject", columns.COMMENT: COMMENT} if one == row else {})
    stores = []
    for given, store in ((answers, tmp_path / "page.jsonl"), (path, tmp_path / "sheet.jsonl")):
        assert cli("review", "import", given, "--batch", sheets, "-o", store)[0] == 0
        stores.append([(one.row, one.comment) for one in read_store(store).values()])
    assert stores[0] == stores[1] == [(row, COMMENT)]


def in_batch(about: Any, name: str) -> None:
    about["reviewers"] = [name]


def in_sheet(about: Any, name: str) -> None:
    about["sheets"][0]["reviewer"] = name


HISTORY = {"batch": "r-0123456789ab", "sheet": "anna-masks", "row": "m-1", "seconds": None, "changes": [],
           "file": "anna-masks.json", "locked": False}  # fmt: skip
REDRAWN = {"by": "dora", "edited_px": 1, "edited_share": 0.1, "hausdorff_px": 1.0, "signed_by": None}
HOSTILE_NAMES = ("../ben", "<b>ben</b>", "=1+1", "a\u202eb", "ben\nanna", "x" * 41, "")


def test_a_hostile_name_is_refused_in_one_sentence_wherever_a_name_can_be_given(
    sheets: Path, tmp_path: Path, cli: Cli
) -> None:
    cases = tmp_path / "cases.jsonl"
    fill(sheets / "anna" / "anna-masks.xlsx", lambda row: {columns.VERDICT: "fix", columns.REASON: "too small"})
    assert cli("review", "import", sheets)[0] == 0
    store, new = sheets / "verdicts.jsonl", tmp_path / "new"
    manifest = [json.loads(line) for line in cases.read_text().splitlines()]

    def refused(name: str, *command: object) -> None:
        code, _, wrong = cli(*command)
        assert (code, new.exists()) == (2, False), (name, command)
        assert re.search("cannot be a reviewer's name|give one name|must be a text of 1 or more characters", wrong), (
            wrong
        )
        told = [line for line in wrong.splitlines() if not line.startswith("1 problem, so no sheet was imported")]
        assert len(told) == 1, wrong
        assert not set(wrong) & {"\u202e", "\r"}

    for name in HOSTILE_NAMES:
        for command in (("export", cases, "--what", "masks", "--reviewers"), ("study", tmp_path, "--readers")):
            refused(name, "review", *command, name or " ", "-o", new)
        refused(name, "review", "adjudicate", cases, store, "--adjudicator", name, "-o", new)
        # Files that were changed by hand.
        for change in (in_batch, in_sheet):
            about = json.loads((sheets / "review.json").read_text())
            change(about, name)
            changed = tmp_path / "changed"
            shutil.copytree(sheets, changed)
            (changed / "review.json").write_text(json.dumps(about))
            for command in (("import", changed, "-o", new), ("status", changed), ("serve", changed), ("open", changed)):
                refused(name, "review", *command)
            shutil.rmtree(changed)
        line = json.loads(store.read_text().splitlines()[0])
        spoilt = tmp_path / "spoilt.jsonl"
        spoilt.write_text(json.dumps({**line, "reviewer": name}) + "\n")
        refused(name, "review", "agreement", cases, spoilt)
        refused(name, "review", "apply", cases, spoilt, "-o", new)
        data = page_data(sheets / "pages" / "anna-masks")
        saved = {"what": "chexqa review page", "schema_version": 1, "locked": False, "rows": [], "reviewer": name,
                 "saved": "2026-03-01", **{key: data[key] for key in ("page", "batch", "sheet")}}  # fmt: skip
        (tmp_path / "anna-masks.json").write_text(json.dumps(saved))
        refused(name, "review", "import", tmp_path / "anna-masks.json", "--batch", sheets, "-o", new, "--all-or-none")
        # A history of changes, the author of a redrawn mask, and its signer.
        (sheets / "page_history.jsonl").write_text(json.dumps(HISTORY | {"reviewer": name}) + "\n")
        refused(name, "review", "import", sheets, "-o", sheets / "new")
        (sheets / "page_history.jsonl").unlink()
        for redrawn in (REDRAWN | {"by": name}, REDRAWN | {"signed_by": name}):
            by_hand = tmp_path / "by_hand.jsonl"
            by_hand.write_text("".join(json.dumps(one | {"redrawn": redrawn}) + "\n" for one in manifest))
            refused(name, "review", "export", by_hand, "--what", "masks", "--reviewers", "anna", "-o", new)
            refused(name, "review", "apply", by_hand, store, "-o", new)
    (tmp_path / "redrawn" / "<b>ben<b>").mkdir(parents=True)
    save(tmp_path / "redrawn" / "<b>ben<b>" / "x.png", np.ones((9, 9), np.bool_))
    refused("<b>ben<b>", "review", "apply", cases, store, "--mask-dir", tmp_path / "redrawn", "-o", new)
