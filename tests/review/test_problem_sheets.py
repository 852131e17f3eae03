"""Rows that could not be read come back to their reviewers, who correct them in LibreOffice and send them again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import openpyxl
import pytest
from libreoffice import sort_in_libreoffice
from openpyxl.comments import Comment
from openpyxl.styles import Font
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
from chexqa.review.collect.verdicts import read_store

pytestmark = pytest.mark.xdist_group("sheets")
Cli = Callable[..., tuple[int, str, str]]


def said(path: Path) -> dict[str, tuple[object, ...]]:
    return {verdict.row: verdict.said for verdict in read_store(path).values()}


@pytest.mark.long
def test_bad_rows_come_back_are_corrected_in_libreoffice_and_count(tmp_path: Path, cli: Cli) -> None:
    """Nonsense, a note, a struck-out word and a changed question: each costs its row alone, twice over."""
    bench = benchmark.load(write_small(tmp_path / "bench"))
    sheets, returned = tmp_path / "sheets", tmp_path / "returned"
    assert cli("review", "export", bench.folder, "-o", sheets, "--reviewers", "anna", "--planted", 0)[0] == 0
    sheet = fill(sheets / "anna" / "anna.xlsx", lambda row: {columns.VERDICT: "accept"}, tmp_path / "anna.xlsx")
    book = openpyxl.load_workbook(sheet)
    (tab,) = work_tabs(book)
    at = titles_of(tab)
    rows = [str(tab.cell(row, at[columns.ID]).value) for row in range(2, 7)]
    tab.cell(2, at[columns.VERDICT]).value = "perhaps"
    tab.cell(3, at[columns.VERDICT]).comment = Comment("look at the apex", "anna")
    tab.cell(4, at[columns.VERDICT]).font = Font(strike=True)
    tab.cell(5, at[columns.QUESTION]).value = "Is it well?"
    tab.cell(6, at[columns.VERDICT]).value = "fix"
    tab.cell(6, at[columns.REASON]).value = "nonsense"
    returned.mkdir()
    book.save(returned / "anna.xlsx")
    code, out, err = cli("review", "import", returned, "--batch", sheets)
    assert code == 2, err
    mend = sheets / "problems" / "round-1" / "anna" / "problems.xlsx"
    assert f"{mend}: 5 rows for anna to correct" in out
    assert len(said(sheets)) == len(bench.items) - 5
    # Asked again, the same rows are not written again.
    assert cli("review", "import", returned, "--batch", sheets)[0] == 2
    assert [path.name for path in (sheets / "problems").iterdir()] == ["round-1"]
    given = {row[columns.ID]: row for row in rows_in(mend)}
    assert set(given) == set(rows)
    assert given[rows[0]][columns.VERDICT] == "perhaps"
    assert "'perhaps' under 'verdict' is not in the cell's drop-down list" in given[rows[0]]["problem 1"]
    assert given[rows[1]][columns.COMMENT] == "look at the apex"
    assert given[rows[2]][columns.VERDICT] == given[rows[3]][columns.VERDICT] == ""
    assert "the entries were verdict: accept" in given[rows[3]]["problem 1"]
    assert (mend.parent / "problems.html").is_file()
    assert list((mend.parent / "pictures").iterdir())
    # Sent back as it is, the two that were unreadable still are, and nothing is taken for corrected but the note.
    (again,) = converted([mend], "xlsx", tmp_path / "mended", tmp_path / "profile")
    untouched = shutil.copy(again, returned / "mended.xlsx")
    code, out, err = cli("review", "import", returned, "--batch", sheets)
    assert code == 2, err
    assert said(sheets)[rows[1]][:4] == ("accept", None, None, "look at the apex")
    assert set(rows) - set(said(sheets)) == {rows[0], rows[2], rows[3], rows[4]}
    second = sheets / "problems" / "round-2" / "anna" / "problems.xlsx"
    assert {row[columns.ID] for row in rows_in(second)} == {rows[0], rows[2], rows[3], rows[4]}
    # Corrected, all count, though the first sheet with the bad rows lies beside them.
    mended = {columns.VERDICT: "reject", columns.REASON: "other", columns.CORRECTED: None}
    fill(second, lambda row: mended, returned / "mended.xlsx")
    assert untouched
    code, out, err = cli("review", "import", returned, sheets / "problems" / "round-1", "--batch", sheets)
    assert (code, err) == (0, "")
    assert {said(sheets)[row][0] for row in rows if row != rows[1]} == {"reject"}
    assert len(said(sheets)) == len(bench.items)


@pytest.mark.long
def test_a_sort_of_the_yellow_cells_in_libreoffice_is_noticed(tmp_path: Path, cli: Cli) -> None:
    """LibreOffice protects locked cells alone, and takes the formats of sorted cells along."""
    bench = benchmark.load(write_small(tmp_path / "bench"))
    sheets = tmp_path / "sheets"
    assert cli("review", "export", bench.folder, "-o", sheets, "--reviewers", "anna", "--planted", 0)[0] == 0
    files = [tmp_path / f"anna.{ending}" for ending in ("xlsx", "ods")]

    def words(row: str) -> dict[str, str]:
        return {columns.VERDICT: "accept" if int(columns.anchor(row)[2:], 16) % 2 else "unsure", columns.COMMENT: row}

    sheet = sheets / "anna" / "anna.xlsx"
    sort_in_libreoffice(sheet, words, (columns.VERDICT, columns.COMMENT), files, tmp_path / "libreoffice")
    for file in files:
        store = tmp_path / f"{file.suffix[1:]}.jsonl"
        assert cli("review", "import", file, "--batch", sheets, "-o", store)[0] == 2
        assert all(verdict.comment == verdict.row for verdict in read_store(store).values())
        assert len(read_store(store)) < len(bench.items) / 2


def test_a_row_corrected_in_the_first_sheet_counts_beside_its_untouched_copy(tmp_path: Path, cli: Cli) -> None:
    """The review's own folder holds the sheets of rows to correct, too."""
    bench = benchmark.load(write_small(tmp_path / "bench"))
    sheets = tmp_path / "sheets"
    assert cli("review", "export", bench.folder, "-o", sheets, "--reviewers", "anna", "--planted", 0)[0] == 0
    fill(sheets / "anna" / "anna.xlsx", lambda row: {columns.VERDICT: "perhaps"})
    for _ in range(2):
        code, _, err = cli("review", "import", sheets)
        assert code == 2
        assert f"{len(bench.items)} problems, and no row could be read" in err
        assert err.count("problem: ") == 1, "the copies are not told beside the first sheet"
    fill(sheets / "anna" / "anna.xlsx", lambda row: {columns.VERDICT: "accept"})
    assert cli("review", "import", sheets)[0] == 0
    assert len(said(sheets)) == len(bench.items)


@pytest.mark.long
def test_blind_and_mask_rows_come_back_too(tmp_path: Path, cli: Cli) -> None:
    bench = benchmark.load(write_small(tmp_path / "bench"))
    sheets, masks = tmp_path / "sheets", tmp_path / "masks"
    assert cli("review", "export", bench.folder, "-o", sheets, "--reviewers", "anna,ben", "--overlap", 1)[0] == 0
    answers = as_reviewer(bench, lambda item, key: answer_cells(item, (1,), columns.ANSWER))
    fill_all(sheets, "anna-1-blind", lambda row: answers(row) | {columns.REASON: "?"})
    assert cli("review", "import", sheets)[0] == 2
    given = rows_in(sheets / "problems" / "round-1" / "anna-1-blind" / "problems.xlsx")
    assert len(given) == sum(len(rows_in(path)) for path in sheets_of(sheets, "anna-1-blind"))
    assert not [row for row in given if columns.PROPOSED in row or columns.EVIDENCE in row]
    fill(sheets / "problems" / "round-1" / "anna-1-blind" / "problems.xlsx", lambda row: {columns.REASON: "other"})
    assert cli("review", "import", sheets)[0] == 0
    assert len(said(sheets)) == len(given)
    code, out, _ = cli("review", "apply", bench.folder, sheets, "-o", tmp_path / "early")
    told = f"The review is unfinished: {len(given)} items with blind answers, and no verdict on their proposals."
    assert (code, told in out) == (0, True)

    cases = write_cases(tmp_path / "cases", 2, seed=2, size=256)
    assert cli("review", "export", cases, "-o", masks, "--what", "masks", "--reviewers", "anna",
               "--format", "csv")[0] == 0  # fmt: skip
    table = masks / "anna" / "anna-masks.csv"
    text = table.read_text(encoding="utf-8-sig")
    first, row, *rest = text.splitlines()
    place = first.split(",").index(columns.OPTIMAL)
    cells = row.split(",")
    cells[place] = "maybe"
    table.write_text("\n".join([first, ",".join(cells), *rest]), encoding="utf-8-sig")
    assert cli("review", "import", masks)[0] == 2
    mend = masks / "problems" / "round-1" / "anna-masks" / "problems.xlsx"
    assert [row[columns.VERDICT] for row in rows_in(mend)] == ["maybe"]
    fill(mend, lambda row: {columns.VERDICT: "fix", columns.REASON: "too small"})
    assert cli("review", "import", masks)[0] == 0
    assert json.loads((masks / "verdicts.jsonl").read_text().splitlines()[0])["verdict"] == "fix"
