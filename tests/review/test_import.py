"""Sheets that come back: whatever programs and people did to them, no verdict is lost or guessed."""

from __future__ import annotations

import csv
import datetime
import io
import itertools
import random
import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import openpyxl
import pytest
import sheet_bombs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from review_sheets import (
    another_answer,
    answer_cells,
    as_reviewer,
    converted,
    fill,
    rezip,
    rows_in,
    sheets_of,
    titles_of,
    with_shared_strings,
    work_tabs,
    write_small,
)

from chexqa.contract import benchmark
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Answer, Item
from chexqa.files.errors import InputError
from chexqa.files.terminal import progress
from chexqa.review import columns as layout
from chexqa.review.collect import xlsx_parts
from chexqa.review.collect.import_sheets import Imported, ImportOptions, import_sheets
from chexqa.review.collect.read_xlsx import as_text, read_workbook
from chexqa.review.collect.title_rows import Problem, fold
from chexqa.review.collect.verdicts import read_store
from chexqa.review.collect.xlsx_parts import MAX_ROWS
from chexqa.review.columns import item_row_id
from chexqa.review.sheets.export import Wish, export

pytestmark = pytest.mark.xdist_group("import")

# The blind sheets have five parts.
SHEETS = ("anna-1-blind-part-4", "anna-2", *(f"anna-1-blind-part-{number}" for number in (1, 2, 3, 5)),
          *(f"ben-1-blind-part-{number}" for number in range(1, 6)), "ben-2")  # fmt: skip
Rows = list[dict[str, str]]
Cli = Callable[..., tuple[int, str, str]]


class Dealt(NamedTuple):
    """A small benchmark and the sheets of two reviewers, who share everything."""

    bench: Benchmark
    folder: Path

    def sheet(self, name: str = "anna-2") -> Path:
        return self.folder / name / f"{name}.xlsx"

    def take(self, *paths: Path, skip_bad: bool = False, **options: Any) -> Imported:
        """Import everything, or with ``skip_bad`` what has no problem."""
        order = ImportOptions(paths or (self.folder,), self.folder, day="2026-03-01", **options)
        return import_sheets(order._replace(all_or_none=not skip_bad))

    @property
    def ids(self) -> list[str]:
        return [item_row_id(item.item_id) for item in self.bench.items]

    def row_of(self, kind: str) -> str:
        return next(item_row_id(item.item_id) for item in self.bench.items if item.kind == kind)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the benchmark and its sheets, made once."""
    folder = tmp_path_factory.mktemp("template")
    write_small(folder / "bench")
    export(folder / "bench", folder / "sheets", Wish(("anna", "ben"), 1.0, 2), None, progress)
    return folder


@pytest.fixture
def dealt(template: Path, tmp_path: Path) -> Dealt:
    """A copy of the sheets, to be filled; the benchmark is shared."""
    shutil.copytree(template / "sheets", tmp_path / "sheets", ignore=shutil.ignore_patterns("pictures"))
    return Dealt(benchmark.load(template / "bench"), tmp_path / "sheets")


def critic(seed: int, blind: bool = False) -> Callable[[Item, Answer], dict[str, str]]:
    """A reviewer who says everything that can be said."""
    rng = random.Random(seed)

    def review(item: Item, key: Answer) -> dict[str, str]:
        other = another_answer(item, key, rng)
        if blind:
            return answer_cells(item, other, layout.ANSWER)
        verdict = rng.choice(layout.VERDICTS)
        cells = {
            layout.VERDICT: verdict,
            layout.COMMENT: rng.choice(["ähnlich; „so“,\nzweite Zeile", "0012", "", "TRUE"]),
        }
        if verdict == layout.FIX:
            cells |= answer_cells(item, other, layout.CORRECTED)
        if rng.random() < 0.5:
            # "wrong answer", the first reason, contradicts "accept".
            cells[layout.REASON] = rng.choice(layout.ITEM_REASONS[verdict == layout.ACCEPT :])
        return cells

    return review


@pytest.fixture(scope="module")
def done_sheets(template: Path) -> Path:
    """A folder with both reviewers' sheets, filled; made once."""
    bench = benchmark.load(template / "bench")
    for number, name in enumerate(SHEETS):
        source = template / "sheets" / name / f"{name}.xlsx"
        (template / "done").mkdir(exist_ok=True)
        fill(source, as_reviewer(bench, critic(number, "blind" in name)), template / "done" / f"{name}.xlsx")
    return template / "done"


@pytest.fixture(scope="module")
def accepted(template: Path) -> Path:
    """A sheet that accepts everything."""
    accept = as_reviewer(benchmark.load(template / "bench"), lambda item, key: {layout.VERDICT: "accept"})
    return fill(template / "sheets" / "anna-2" / "anna-2.xlsx", accept, template / "accepted.xlsx")


@pytest.fixture
def filled(dealt: Dealt, done_sheets: Path) -> list[Path]:
    """Both reviewers' sheets in ``dealt``, filled."""
    paths = [dealt.sheet(name) for name in SHEETS]
    for path in paths:
        shutil.copyfile(done_sheets / path.name, path)
    return paths


@pytest.fixture(scope="module")
def empty_rows(template: Path) -> Rows:
    """The rows of a sheet as it was dealt."""
    return rows_in(template / "sheets" / "anna-2" / "anna-2.xlsx")


@pytest.fixture
def rows(empty_rows: Rows) -> Rows:
    """Those rows, to be filled."""
    return [dict(row) for row in empty_rows]


def said(done: Imported) -> dict[tuple[str, str, str], tuple[object, ...]]:
    return {key: verdict.said for key, verdict in done.verdicts.items()}


def everything(dealt: Dealt) -> dict[tuple[str, str, str], tuple[object, ...]]:
    """What is in the store after the filled sheets were imported as they are."""
    done = dealt.take(store=dealt.folder.parent / "expected.jsonl")
    assert done.problems == []
    return said(done)


def test_what_two_reviewers_wrote_is_in_the_store_and_twice_is_once(dealt: Dealt, filled: list[Path]) -> None:
    done = dealt.take()
    assert done.problems == []
    assert done.new == len(done.verdicts) == 4 * len(dealt.bench.items)
    data = done.store.read_bytes()
    again = dealt.take()
    assert (again.new, again.changed) == (0, 0)
    assert done.store.read_bytes() == data
    verdicts = read_store(done.store)
    assert {verdict.kind for verdict in verdicts.values()} == {"items", "blind"}
    wanted = {row[layout.ID]: row for row in rows_in(dealt.sheet("anna-2"))}
    for verdict in verdicts.values():
        if (verdict.sheet, verdict.reviewer) == ("anna-2", "anna"):
            row = wanted[verdict.row]
            assert verdict.verdict == row[layout.VERDICT]
            assert (verdict.comment or "") == row[layout.COMMENT]
            assert (verdict.reason or "") == row[layout.REASON]


def test_the_folder_of_the_store_is_made_if_verdicts_are_imported(dealt: Dealt, rows: Rows, tmp_path: Path) -> None:
    store = tmp_path / "new/deep/verdicts.jsonl"
    rows[0]["verdict"] = "perhaps"
    back = as_csv(rows, tmp_path / "back.csv")
    assert (dealt.take(back, store=store).written, (tmp_path / "new").exists()) == (False, False)
    rows[0]["verdict"] = "accept"
    done = dealt.take(as_csv(rows, back), store=store)
    assert done.problems == []
    assert len(read_store(store)) == done.new > 0


def test_what_people_type_is_read(dealt: Dealt, rows: Rows, tmp_path: Path) -> None:
    """Letters, numbers, ticks and cells as they are typed; a locked column that is gone or empty is not compared."""
    typed = {
        "detection": ({"verdict": "f", "reason": "Wrong contour"}, None),
        "distribution": ({"verdict": "f", "corrected answer": "3."}, (3,)),
        "location": ({"verdict": "F", "option 2": "✓", "option 3": "x", "option 1": "n"}, (2, 3)),
        "comparison": ({"verdict": "f", "corrected answer": "(2)"}, (2,)),
        "revision_expansion": ({"verdict": "f", "corrected answer": "red, green"}, (1, 4)),
        "grid_cell": ({"verdict": "f", "corrected answer": "F 4, g4"}, (30, 31)),
    }
    for kind, (cells, _) in typed.items():
        row = next(row for row in rows if row[layout.ID] == dealt.row_of(kind))
        row |= cells
        row[layout.OPTIONS] = ""
    for row in rows:
        del row[layout.FLAGS]
    done = dealt.take(as_csv(rows, tmp_path / "back.csv"))
    assert done.problems == []
    assert {row: verdict.answer for (_, _, row), verdict in done.verdicts.items()} == {
        dealt.row_of(kind): answer for kind, (_, answer) in typed.items()
    }


def test_an_emptied_row_is_withdrawn_and_its_verdict_kept_as_history(dealt: Dealt, rows: Rows, tmp_path: Path) -> None:
    for row in rows:
        row[layout.VERDICT] = "accept"
    store = tmp_path / "verdicts.jsonl"
    path = as_csv(rows, tmp_path / "anna.csv")
    dealt.take(path, store=store)
    rows[0][layout.VERDICT], rows[1][layout.VERDICT] = "", "unsure"
    as_csv(rows, path)
    done = dealt.take(path, store=store)
    assert not done.written
    assert (
        "is empty now, but was (accept) in an earlier import; give --replace to remove the earlier entry"
        in done.problems[-1]
    )
    done = dealt.take(path, store=store, replace=True)
    assert (done.problems, done.changed) == ([], 2)
    (line,) = done.withdrawn
    assert f"'{rows[0][layout.ID]}' is empty now, so its earlier entry (accept) is removed" in line
    kept = {verdict.row: verdict for verdict in read_store(store).values()}
    for row, word in ((rows[0], None), (rows[1], "unsure")):
        verdict = kept[row[layout.ID]]
        assert (verdict.verdict, verdict.is_judged) == (word, word is not None)
        assert [one["verdict"] for one in verdict.earlier or ()] == ["accept"]
    assert kept[rows[2][layout.ID]].earlier is None
    # A fresh copy, in which nothing is filled in, withdraws nothing.
    for row in rows:
        row[layout.VERDICT] = ""
    again = dealt.take(as_csv(rows, tmp_path / "anna-2.csv"), store=store, replace=True)
    assert (again.problems, again.changed, again.withdrawn) == ([], 0, ())


def test_notes_merged_cells_struck_out_words_and_formulas_cost_their_row_alone(dealt: Dealt, accepted: Path) -> None:
    path = dealt.sheet()
    book = openpyxl.load_workbook(accepted)
    tab = work_tabs(book)[0]
    titles = titles_of(tab)
    tab.cell(2, titles[layout.VERDICT]).comment = openpyxl.comments.Comment("but see the left side", "anna")
    tab.cell(3, titles[layout.VERDICT]).font = openpyxl.styles.Font(strike=True)
    letter = openpyxl.utils.get_column_letter(titles[layout.COMMENT])
    tab.merge_cells(f"{letter}5:{letter}6")
    tab.cell(8, titles[layout.QUESTION]).font = openpyxl.styles.Font(strike=True)  # locked, so it says nothing
    tab.cell(9, titles[layout.VERDICT]).value = '=IF(1=1,"accept","fix")'  # openpyxl stores no result
    book.save(path)
    done = dealt.take(path, skip_bad=True)
    said = " ".join(done.problems)
    assert "row 2: a cell has the note “but see the left side”" in said
    assert "row 3: “accept” under 'verdict' is struck out" in said
    assert "rows 5-6: its cells under 'comment' are merged" in said
    assert "row 9: the formula under 'verdict' has no stored result; save the file in LibreOffice or Excel" in said
    assert len(done.problems) == 4
    assert len(done.verdicts) == len(dealt.bench.items) - 5


@pytest.mark.parametrize("ending", [pytest.param("ods", marks=pytest.mark.long), "tsv"])
def test_other_formats_say_the_same(dealt: Dealt, filled: list[Path], tmp_path: Path, ending: str) -> None:
    expected = everything(dealt)
    if ending == "ods":
        paths = converted(filled, "ods", tmp_path / "ods", tmp_path / "profile")
    else:
        paths = [as_csv(rows_in(path), tmp_path / f"{path.stem}.tsv", delimiter="\t") for path in filled]
    done = dealt.take(*paths, store=tmp_path / "store.jsonl")
    assert done.problems == []
    assert said(done) == expected


def ods(path: Path, body: str, head: str = "") -> Path:
    """A spreadsheet of one table, made by hand."""
    content = (
        f'<?xml version="1.0"?>{head}<office:document-content xmlns:office="o" xmlns:table="t" xmlns:text="x" '
        f'xmlns:style="s"><table:table table:name="one">{body}</table:table></office:document-content>'
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("content.xml", content)
    return path


CELL = "<table:table-cell {}><text:p>{}</text:p></table:table-cell>"


@pytest.mark.parametrize(
    ("body", "head", "words"),
    [
        ("", '<!DOCTYPE a [<!ENTITY b "c">]>', "declares entities"),
        (f'<table:table-row table:number-rows-repeated="99999">{CELL.format("", "a")}</table:table-row>', "",
         "at most 20,000 rows"),
        ("<text:span>" * 70, "", "nests more than 64 levels"),
        ("<table:table-row>", "", "cannot be read as ods"),
        (f'<table:table-row>{CELL.format("table:number-columns-repeated=" + chr(34) + "x" + chr(34), "a")}'
         "</table:table-row>", "", "cannot be read as ods"),
    ],
)  # fmt: skip
def test_an_ods_is_read_within_bounds(tmp_path: Path, body: str, head: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_workbook(ods(tmp_path / "a.ods", body, head))


def test_the_cells_of_an_ods_are_read_as_they_are_shown(tmp_path: Path) -> None:
    cells = [
        CELL.format("", "a<text:s text:c='2'/>b</text:p><text:p>c"),
        "<table:table-cell table:number-columns-repeated='2'/>",
        CELL.format("office:value-type='float' office:value='2'", "2,00"),
        CELL.format("office:value-type='boolean' office:boolean-value='true'", "WAHR"),
        CELL.format("office:value-type='date' office:date-value='2026-03-01'", "1. März"),
        "<table:table-cell table:number-columns-repeated='16000'/>",
    ]
    empty = "<table:table-row table:number-rows-repeated='3'><table:table-cell/></table:table-row>"
    (sheet,) = read_workbook(ods(tmp_path / "a.ods", f"{empty}<table:table-row>{''.join(cells)}</table:table-row>"))
    assert sheet == ("one", [(4, ("a  b\nc", "", "", "2", "yes", "2026-03-01"))], ())


def test_an_ods_tells_of_struck_out_words_notes_and_formulas_without_a_result(tmp_path: Path) -> None:
    struck = (
        "<style:style style:name='T1'><style:text-properties style:text-line-through-type='single'/></style:style>"
        "<style:style style:name='T2'><style:text-properties style:text-line-through-style='none' "
        "style:text-line-through-type='none'/></style:style>"
    )
    note = (
        "<office:annotation><date>2026-03-01T00:00:00</date><creator>anna</creator><text:p>look</text:p>"
        "</office:annotation>"
    )
    cells = [
        CELL.format("", "1, <text:span text:style-name='T1'>3</text:span>"),
        CELL.format("", "<text:span text:style-name='T2'>4</text:span>"),
        f"<table:table-cell>{note}<text:p>a</text:p></table:table-cell>",
        "<table:table-cell table:formula='of:=[.A1]'/>",
        CELL.format("table:formula='of:=[.A1]' office:value-type='string'", ""),
    ]
    body = f"{struck}<table:table-row>{''.join(cells)}</table:table-row>"
    (sheet,) = read_workbook(ods(tmp_path / "a.ods", body))
    assert sheet.rows == [(1, ("1, 3", "4", "a"))]
    assert [(found.column, found.what, found.text) for found in sheet.remarks] == [
        (1, xlsx_parts.STRUCK, "1, 3"),
        (3, xlsx_parts.NOTE, "look"),
        (4, xlsx_parts.FORMULA, ""),
    ]


def test_an_empty_sheet_says_nothing(dealt: Dealt) -> None:
    done = dealt.take()
    assert done.problems == []
    assert done.verdicts == {}


# A row as hypothesis fills it: verdict, whether its case and spacing are changed, whether it comes twice.
row_fills = st.tuples(st.sampled_from([*layout.VERDICTS, ""]), st.integers(0, 3), st.booleans(), st.text(max_size=12))


@given(data=st.data())
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_verdicts_survive_shuffling_of_rows_and_columns(
    dealt: Dealt, rows: Rows, tmp_path: Path, data: st.DataObject
) -> None:
    titles = list(rows[0])
    fills = data.draw(st.lists(row_fills, min_size=len(rows), max_size=len(rows)))
    items = {item_row_id(item.item_id): item for item in dealt.bench.items}
    expected = {}
    out: list[dict[str, str]] = []
    for row, (verdict, style, twice, comment) in zip(rows, fills, strict=True):
        item = items[row[layout.ID]]
        cells = {layout.VERDICT: [verdict, f"  {verdict}\u00a0", verdict.upper(), verdict.title()][style]}
        kept = layout.clean(comment).strip()
        if kept.startswith("'") and layout.is_dangerous(kept[1:]):
            kept = kept[1:]  # an apostrophe before a formula is that of a csv, and is taken off
        cells[layout.COMMENT] = kept
        answer = None
        if verdict == layout.FIX:
            answer = another_answer(item, (dealt.bench.answers or {})[item.item_id], random.Random(style))
            cells |= answer_cells(item, answer, layout.CORRECTED)
        out += [{**row, **cells}] * (2 if twice else 1)
        if verdict or kept:
            expected[row[layout.ID]] = (verdict or None, answer, None, kept or None)
    rng = data.draw(st.randoms(use_true_random=False))
    rng.shuffle(out)
    columns = ["my notes", *titles]
    rng.shuffle(columns)
    text = io.StringIO()
    writer = csv.writer(text, delimiter=data.draw(st.sampled_from(",;\t")))
    writer.writerow(columns)
    writer.writerows([[layout.csv_cell(row.get(title, "mine")) for title in columns] for row in out])
    path = tmp_path / "shuffled.csv"
    path.write_bytes(text.getvalue().encode(data.draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]))))
    store = tmp_path / "store.jsonl"
    store.unlink(missing_ok=True)
    done = dealt.take(path, store=store)
    assert done.problems == []
    assert {row: verdict for (_, _, row), verdict in said(done).items()} == {
        row: (verdict, answer, reason, comment, None) for row, (verdict, answer, reason, comment) in expected.items()
    }


def shuffle_tabs(path: Path) -> Path:
    """Sort every work tab by its checksum column (an order nobody dealt), hide rows, and add columns and rows."""
    book = openpyxl.load_workbook(path)
    for tab in work_tabs(book):
        titles = titles_of(tab)
        rows = [[cell.value for cell in row] for row in tab.iter_rows(min_row=2)]
        rows.sort(key=lambda row: str(row[titles[layout.CHECKSUM] - 1]))
        for number, row in enumerate(rows, start=2):
            for place, value in enumerate(row, start=1):
                tab.cell(number, place).value = value
            tab.row_dimensions[number].hidden = number % 2 == 0
        tab.cell(1, tab.max_column + 1).value = "my own column"
        tab.cell(3, tab.max_column).value = 3.5
        tab.cell(tab.max_row + 3, 3).value = "a note below the rows"
        tab.title = f"Blatt {tab.title}"
        tab.sheet_state = "visible"
        tab.data_validations.dataValidation = []
    book.save(path)
    return path


def test_sorted_filtered_and_renamed_tabs_say_the_same(dealt: Dealt, filled: list[Path]) -> None:
    expected = everything(dealt)
    for path in filled:
        shuffle_tabs(path)
    done = dealt.take()
    assert done.problems == []
    assert said(done) == expected


def test_texts_kept_in_one_table_say_the_same(dealt: Dealt, filled: list[Path]) -> None:
    expected = everything(dealt)
    for path in filled:
        with_shared_strings(path)
        with zipfile.ZipFile(path) as archive:
            assert b"<is><t>" not in archive.read("xl/worksheets/sheet2.xml")
            assert archive.read("xl/sharedStrings.xml").count(b"<si>") > 50
    done = dealt.take()
    assert done.problems == []
    assert said(done) == expected


def test_a_tab_that_misstates_its_extent_is_read_whole(dealt: Dealt, filled: list[Path]) -> None:
    expected = everything(dealt)

    def change(name: str, data: bytes) -> bytes:
        return re.sub(rb'<dimension ref="[^"]*"', b'<dimension ref="A1"', data)

    for path in filled:
        rezip(path, change)
    assert said(dealt.take()) == expected


def test_numbers_dates_and_truth_values_are_read_as_they_are_shown(dealt: Dealt) -> None:
    """A program made "2" a number, "yes" a truth value and a comment a date."""
    single, several = dealt.row_of("distribution"), dealt.row_of("location")
    path = dealt.sheet()
    book = openpyxl.load_workbook(path)
    for tab in work_tabs(book):
        titles = titles_of(tab)
        for row in range(2, tab.max_row + 1):
            if tab.cell(row, titles[layout.ID]).value in (single, several):
                tab.cell(row, titles[layout.VERDICT]).value = "fix"
                tab.cell(row, titles[layout.COMMENT]).value = datetime.datetime(2026, 3, 1)
                if tab.cell(row, titles[layout.ID]).value == single:
                    tab.cell(row, titles[layout.CORRECTED]).value = 3.0
                else:
                    tab.cell(row, titles["option 2"]).value = True
                    tab.cell(row, titles["option 1"]).value = False
    book.save(path)
    done = dealt.take(path)
    assert done.problems == []
    by_row = {row: verdict for (_, _, row), verdict in done.verdicts.items()}
    assert by_row[single].answer == (3,)
    assert by_row[several].answer == (2,)
    assert by_row[single].comment == "2026-03-01"


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (2.0, "2"), (2.5, "2.5"), (7, "7"), (datetime.datetime(2026, 3, 1), "2026-03-01"),
     (datetime.datetime(2026, 3, 1, 14, 5), "2026-03-01T14:05:00"), (datetime.time(14, 5), "14:05:00"), (True, "yes"),
     ("x" * 40_000, "x" * 32_767)],
)  # fmt: skip
def test_a_cell_as_text(value: object, text: str) -> None:
    assert as_text(value) == text


# What a person may do to one row, and what the problem must say.
def spoiled(kind: str, cells: dict[str, str], words: str) -> Any:
    return pytest.param(kind, cells, words, id=words.replace(" ", "-")[:30])


@pytest.mark.parametrize(
    ("kind", "cells", "words"),
    [
        spoiled("detection", {"verdict": "acept"}, "did you mean 'accept'"),
        spoiled("detection", {"verdict": "ok"}, "is not in the cell's drop-down list"),
        spoiled("detection", {"verdict": "reject", "reason": "bordeline"}, "did you mean 'borderline'"),
        spoiled("detection", {"verdict": "accept", "finding": "edema!"}, "differ from the exported ones"),
        spoiled("detection", {"verdict": "accept", "checksum": "", "cell checksums": ""}, "its checksum is missing"),
        spoiled("detection", {"verdict": "accept", "id": ""}, "its id is missing"),
        spoiled("detection", {"verdict": "accept", "id": "i-c000000000000/detection"}, "was not given to 'anna'"),
        spoiled("detection", {"verdict": "accept", "benchmark": "b-0000000000000000"}, "review is of 'handmade'"),
        spoiled("detection", {"verdict": "accept", "batch": "r-000000000000"}, "belongs to batch r-000000000000"),
        spoiled("detection", {"verdict": "accept", "reviewer": "ben"}, "differ from the exported ones"),
        spoiled("distribution", {"verdict": "fix"}, "there is no corrected answer"),
        spoiled("distribution", {"corrected answer": "2. b"}, "but no verdict"),
        spoiled("distribution", {"verdict": "accept", "corrected answer": "9"}, "is not an answer to its question"),
        spoiled("distribution", {"verdict": "accept", "corrected answer": "4"}, "differs from the proposal"),
        spoiled("distribution", {"verdict": "accept", "reason": "wrong answer"}, "but the reason is 'wrong answer'"),
        spoiled("distribution", {"verdict": "fix", "option 1": "yes"}, "has one right answer"),
        spoiled("location", {"verdict": "fix", "corrected answer": "1; 9"}, "the numbers of all right options"),
        spoiled("location", {"verdict": "fix", "corrected answer": "1; 2", "option 1": "x"}, "different answers; keep"),
        spoiled("location", {"verdict": "fix", "option 1": "yes", "option 4": "yes"}, "no other option is right"),
        spoiled("location", {"verdict": "fix", "option 1": "no"}, "no option is marked 'yes'"),
        spoiled("location", {"verdict": "fix", "option 1": "maybe"}, "neither 'yes' nor 'no'"),
        spoiled("location", {"verdict": "fix", "option 5": "yes"}, "its question has only 4 options"),
        spoiled("grid_cell", {"verdict": "accept", "corrected answer": "J9"}, "known: A1 to H8"),
        spoiled("grid_cell", {"verdict": "fix", "reason": "wrong answer"}, "there is no corrected answer"),
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_taken_is_named_with_what_to_do(
    dealt: Dealt, rows: Rows, tmp_path: Path, kind: str, cells: dict[str, str], words: str
) -> None:
    target = next(n for n, row in enumerate(rows) if row[layout.ID] == dealt.row_of(kind))
    other = next(n for n, row in enumerate(rows) if n != target)
    rows[target] |= cells
    rows[other][layout.VERDICT] = "accept"
    path = as_csv(rows, tmp_path / "back.csv")
    done = dealt.take(path)
    assert len(done.problems) == 1, done.problems
    assert f"{path}, row {target + 2}: " in done.problems[0]
    assert words in done.problems[0]
    assert not done.written
    assert not done.store.exists()
    skipped = dealt.take(path, skip_bad=True)
    assert [row for _, _, row in skipped.verdicts] == [rows[other][layout.ID]]


def as_csv(rows: Rows, path: Path, encoding: str = "utf-8", delimiter: str = ",") -> Path:
    titles = list(dict.fromkeys(title for row in rows for title in row))
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter)
    writer.writerow(titles)
    writer.writerows([[row.get(title, "") for title in titles] for row in rows])
    path.write_bytes(text.getvalue().encode(encoding))
    return path


def test_a_sort_of_some_columns_alone_is_noticed(dealt: Dealt, rows: Rows, tmp_path: Path) -> None:
    """The ids moved, the questions did not: no verdict may go to another question."""
    moved = [row[layout.ID] for row in rows]
    moved = moved[1:] + moved[:1]
    for row, row_id in zip(rows, moved, strict=True):
        row |= {layout.ID: row_id, layout.VERDICT: "accept"}
    done = dealt.take(as_csv(rows, tmp_path / "back.csv"))
    assert done.verdicts == {}
    assert len(done.problems) == len(rows)
    assert "only some columns were sorted" in done.problems[0]


def test_cells_sorted_without_their_rows_are_noticed_and_copied_cells_are_read(dealt: Dealt) -> None:
    """LibreOffice sorts unlocked cells of a protected tab, and takes their formats along."""
    book = openpyxl.load_workbook(fill(dealt.sheet(), lambda row: {layout.VERDICT: "unsure", layout.COMMENT: row}))
    tab = work_tabs(book)[0]
    count, places = tab.max_row - 1, [titles_of(tab)[title] for title in (layout.VERDICT, layout.COMMENT)]
    for place in places:  # copied down by hand
        tab.cell(3, place).value, tab.cell(3, place)._style = tab.cell(2, place).value, tab.cell(2, place)._style
    book.save(dealt.sheet())
    assert dealt.take(dealt.sheet(), store=dealt.folder / "copied.jsonl").problems == []
    book = openpyxl.load_workbook(dealt.sheet())
    tab = work_tabs(book)[0]
    for place in places:
        cells = [(tab.cell(row, place).value, tab.cell(row, place)._style) for row in range(2, count + 2)]
        for row, (value, style) in enumerate(reversed(cells), start=2):
            tab.cell(row, place).value, tab.cell(row, place)._style = value, style
    book.save(dealt.sheet())
    done = dealt.take(dealt.sheet(), skip_bad=True)
    assert [
        line for line in done.problems if "yellow cells were sorted without the rest of their rows" not in line
    ] == []
    assert len(dealt.ids) - done.faults == len(done.verdicts) < len(dealt.ids) / 2
    assert all(verdict.comment == verdict.row for verdict in done.verdicts.values())


def test_a_sort_is_noticed_in_one_column_and_counts_for_all(dealt: Dealt) -> None:
    """Verdicts that were copied down and then changed have no marks of their own, and a row was inserted for a note."""
    said = {row: "accept" if place % 3 else "unsure" for place, row in enumerate(dealt.ids)}
    book = openpyxl.load_workbook(fill(dealt.sheet(), lambda row: {layout.VERDICT: said[row]}))
    tab = work_tabs(book)[0]
    count, at = tab.max_row - 1, titles_of(tab)
    tab.cell(2, at[layout.COMMENT]).value = "unclear"
    for row in range(2, count + 2):
        tab.cell(row, at[layout.VERDICT])._style = tab.cell(2, at[layout.VERDICT])._style
    for place in (at[layout.VERDICT], at[layout.COMMENT]):
        cells = [(tab.cell(row, place).value, tab.cell(row, place)._style) for row in range(2, count + 2)]
        for row, (value, style) in enumerate(reversed(cells), start=2):
            tab.cell(row, place).value, tab.cell(row, place)._style = value, style
    tab.insert_rows(4)
    for place in range(1, tab.max_column + 1):
        tab.cell(4, place)._style = tab.cell(3, place)._style
    tab.cell(4, at[layout.QUESTION]).value = "from here after lunch"
    book.save(dealt.sheet())
    done = dealt.take(dealt.sheet(), skip_bad=True)
    assert "yellow cells were sorted without the rest of their rows" in " ".join(done.problems)
    taken = {verdict.row: verdict.verdict for verdict in done.verdicts.values()}
    assert taken == {row: said[row] for row in taken}


def test_a_sheet_of_another_version_is_refused_by_name_in_one_line(dealt: Dealt, rows: Rows, tmp_path: Path) -> None:
    for row in rows:
        row |= {layout.BENCHMARK: layout.benchmark_mark("5" * 64), layout.VERDICT: "accept"}
    done = dealt.take(as_csv(rows, tmp_path / "v1.csv"))
    (line,) = done.problems
    assert line.startswith(
        f"{tmp_path / 'v1.csv'}, rows 2-{len(rows) + 1}: the row belongs to benchmark b-555555555555"
    )
    assert f"this review is of 'handmade' version 1 ({layout.benchmark_mark(dealt.bench.hash)})" in line


def test_a_row_twice_is_one_verdict_unless_it_says_two_things(dealt: Dealt, rows: Rows, tmp_path: Path) -> None:
    rows = rows[:3]
    for row in rows:
        row[layout.VERDICT] = "accept"
    same = dealt.take(as_csv([*rows, *rows], tmp_path / "same.csv"), store=tmp_path / "a.jsonl")
    assert (same.problems, len(same.verdicts)) == ([], 3)
    blank = [*rows, {**rows[0], layout.VERDICT: ""}]
    assert dealt.take(as_csv(blank, tmp_path / "blank.csv"), store=tmp_path / "b.jsonl").problems == []
    two = [*rows, {**rows[0], layout.VERDICT: "reject"}]
    done = dealt.take(as_csv(two, tmp_path / "two.csv"), store=tmp_path / "c.jsonl", skip_bad=True)
    assert "appears twice with different verdicts, first in" in done.problems[0]
    assert {row for _, _, row in done.verdicts} == {row[layout.ID] for row in rows[1:]}


def test_of_two_imports_of_a_day_the_later_one_is_known(dealt: Dealt, rows: Rows, tmp_path: Path) -> None:
    rows[0][layout.VERDICT] = "accept"
    order = ImportOptions((as_csv(rows, tmp_path / "back.csv"),), dealt.folder, store=tmp_path / "store.jsonl")
    before = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    (verdict,) = import_sheets(order).verdicts.values()
    assert before <= datetime.datetime.fromisoformat(verdict.imported) <= datetime.datetime.now(datetime.UTC)


def test_a_changed_mind_needs_a_word(dealt: Dealt, rows: Rows, tmp_path: Path) -> None:
    rows = rows[:2]
    for row in rows:
        row[layout.VERDICT] = "accept"
    dealt.take(as_csv(rows, tmp_path / "first.csv"))
    rows[1][layout.VERDICT] = "reject"
    second = as_csv(rows, tmp_path / "second.csv")
    done = dealt.take(second)
    assert "is now (reject), but was (accept) in an earlier import; give --replace" in done.problems[0]
    assert {verdict.verdict for verdict in read_store(done.store).values()} == {"accept"}
    done = dealt.take(second, replace=True)
    assert (done.problems, done.changed) == ([], 1)
    assert read_store(done.store)[done.batch.name, "anna-2", rows[1][layout.ID]].verdict == "reject"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_csv_as_programs_write_it(dealt: Dealt, tmp_path: Path, encoding: str, delimiter: str) -> None:
    rows = rows_in(dealt.sheet())
    rows[0] |= {layout.VERDICT: "reject", layout.COMMENT: "für mich; unklar, „zu blass“ – größer"}
    done = dealt.take(as_csv(rows, tmp_path / "back.csv", encoding, delimiter))
    assert done.problems == []
    (verdict,) = done.verdicts.values()
    assert verdict.comment == "für mich; unklar, „zu blass“ – größer"


def test_text_that_looks_like_a_formula_is_text(dealt: Dealt, rows: Rows, tmp_path: Path) -> None:
    for row, comment in zip(rows, ["=1+1", "@home", "-3", "'=1+1", "\tx"], strict=False):
        row |= {layout.VERDICT: "accept", layout.COMMENT: comment}
    done = dealt.take(as_csv(rows, tmp_path / "back.csv"))
    assert sorted(str(verdict.comment) for verdict in done.verdicts.values()) == ["-3", "=1+1", "=1+1", "@home", "x"]


def test_rows_above_the_titles_and_titles_that_are_gone(dealt: Dealt, rows: Rows, tmp_path: Path) -> None:
    rows[0][layout.VERDICT] = "accept"
    path = as_csv(rows, tmp_path / "back.csv")
    lines = path.read_text()
    path.write_text("my sheet\n\n" + lines)
    done = dealt.take(path)
    assert done.problems == []
    assert next(iter(done.verdicts.values())).source["row"] == 4
    path.write_text(lines.split("\n", 1)[1])
    (line,) = dealt.take(path).problems
    assert "the titles of the tab are missing" in line


@pytest.mark.parametrize("title", [layout.VERDICT, layout.COMMENT, "option 2"])
@pytest.mark.parametrize("now", ["", "{} (anna)"])
def test_a_title_that_was_changed_or_emptied_is_a_problem_and_nothing_below_it_is_lost(
    dealt: Dealt, rows: Rows, tmp_path: Path, title: str, now: str
) -> None:
    for row in rows:
        row |= {layout.VERDICT: "accept", layout.COMMENT: "sharp"}
    path = as_csv(rows, tmp_path / "back.csv")
    head, rest = path.read_text().split("\n", 1)
    titles = next(csv.reader([head]))
    titles[titles.index(title)] = now.format(title)
    path.write_text(",".join(titles) + "\n" + rest)
    done = dealt.take(path)
    assert not done.written
    assert any(f"the tab has no column titled '{title}'; restore the title" in line for line in done.problems)


def test_a_remark_beside_the_table_is_a_problem(dealt: Dealt, rows: Rows, tmp_path: Path) -> None:
    rows[0][layout.VERDICT] = "accept"
    path = as_csv(rows, tmp_path / "back.csv")
    with path.open(newline="") as file:
        head, first, *rest = csv.reader(file)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([head, [*first, "really?"], *rest])
    (line,) = dealt.take(path).problems
    assert "row 2: 'really?' is in a column without a title" in line
    assert len(dealt.take(path, skip_bad=True).verdicts) == 1


def test_rows_that_a_sort_put_above_the_titles_are_read(dealt: Dealt, rows: Rows, tmp_path: Path) -> None:
    for row in rows:
        row[layout.VERDICT] = "accept"
    path = as_csv(rows, tmp_path / "back.csv")
    with path.open(newline="") as file:
        head, *table = csv.reader(file)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([*table[:7], head, *table[7:]])
    done = dealt.take(path)
    assert done.problems == []
    assert len(done.verdicts) == len(rows)


def test_two_columns_of_one_title(dealt: Dealt, rows: Rows, tmp_path: Path) -> None:
    rows[0][layout.VERDICT] = "accept"
    rows[1][layout.VERDICT] = "reject"
    path = as_csv(rows, tmp_path / "back.csv")
    table = list(csv.reader(io.StringIO(path.read_text())))
    table = [[*line, {0: "Verdict ", 1: "accept", 2: "fix"}.get(number, "")] for number, line in enumerate(table)]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(table)
    (line,) = dealt.take(path).problems
    assert "row 3: two columns have the title 'verdict'" in line


def test_what_programs_leave_beside_a_sheet_is_no_sheet(dealt: Dealt, filled: list[Path]) -> None:
    (dealt.folder / "~$anna-2.xlsx").write_bytes(b"lock")
    (dealt.folder / ".~lock.anna-2.xlsx#").write_text("lock")
    (dealt.folder / "notes.txt").write_text("mine")
    assert dealt.take().problems == []


# What is not a sheet, or must not be opened: what is made of a good one, and what the refusal must say.
def zip_bomb(path: Path) -> None:
    rezip(path, lambda name, data: data, {"xl/worksheets/sheet99.xml": b"<a>" + b"0" * 40_000_000})


def lying_bomb(path: Path) -> None:
    """The directory says a hundred bytes, the part unpacks to 40 MB."""
    rezip(path, lambda name, data: b"<a>" + b"0" * 40_000_000 if name == "xl/worksheets/sheet2.xml" else data)
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        real = archive.getinfo("xl/worksheets/sheet2.xml").file_size
    for place in [found.start() for found in re.finditer(re.escape(real.to_bytes(4, "little")), bytes(data))]:
        data[place : place + 4] = (100).to_bytes(4, "little")
    path.write_bytes(bytes(data))


def endless(path: Path) -> None:
    def change(name: str, data: bytes) -> bytes:
        if name.startswith("xl/worksheets/sheet2"):
            row = b'<row r="900000"><c r="A900000" t="inlineStr"><is><t>x</t></is></c></row></sheetData>'
            return data.replace(b"</sheetData>", row)
        return data

    rezip(path, change)


def million_rows(path: Path) -> None:
    def change(name: str, data: bytes) -> bytes:
        if name.startswith("xl/worksheets/sheet2"):
            cells = b"".join(b'<row r="%d"><c r="A%d"><v>1</v></c></row>' % (n, n) for n in range(200, MAX_ROWS + 300))
            return data.replace(b"</sheetData>", cells + b"</sheetData>")
        return data

    rezip(path, change)


def with_part(part: str) -> Callable[[Path], None]:
    return lambda path: void(rezip(path, lambda name, data: data, {part: b"<x/>"}))


def void(value: object) -> None:
    return None


def replaced(part: str, old: bytes, new: bytes) -> Callable[[Path], None]:
    def change(name: str, data: bytes) -> bytes:
        return data.replace(old, new) if name == part else data

    return lambda path: void(rezip(path, change))


def opendocument(path: Path) -> None:
    rezip(path, lambda name, data: None, {"mimetype": b"application/vnd.oasis.opendocument.spreadsheet"})


ENTITIES = b'<!DOCTYPE a [<!ENTITY x "ha">]><worksheet '


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (zip_bomb, "compressed far more"),
        (lying_bomb, "damaged"),
        (endless, "has content in row 900,000"),
        (million_rows, "has content in row 20,001"),
        (with_part("xl/vbaProject.bin"), "contains macros"),
        (with_part("xl/externalLinks/externalLink1.xml"), "links to other workbooks"),
        (with_part("xl/connections.xml"), "data connections"),
        (with_part("xl/embeddings/oleObject1.bin"), "embedded files"),
        (with_part("xl/activeX/activeX1.xml"), "ActiveX"),
        (with_part("xl/macrosheets/sheet1.xml"), "contains macros"),
        (replaced("[Content_Types].xml", b"sheet.main+xml", b"sheet.macroEnabled.main+xml"), "contains macros"),
        (replaced("xl/worksheets/sheet2.xml", b"<worksheet ", ENTITIES), "declares entities"),
        (replaced("xl/workbook.xml", b"http://schemas.openxmlformats.org/spreadsheetml/2006/main",
                  b"http://purl.oclc.org/ooxml/spreadsheetml/main"), "Strict Open XML"),
        (replaced("xl/worksheets/sheet2.xml", b"</sheetData>", b"<oh>"), "cannot be read as xlsx"),
        (opendocument, "cannot be read as ods"),
        (lambda path: void(path.write_bytes(bytes.fromhex("d0cf11e0a1b11ae1") + b"0" * 600)), "password"),
        (lambda path: void(path.write_bytes(b"")), "damaged or not an xlsx"),
        (lambda path: void(path.write_bytes(b"\x00\xff" * 700)), "damaged or not an xlsx"),
        (lambda path: void(path.write_bytes(path.read_bytes()[:5000])), "damaged or not an xlsx"),
        (lambda path: void(rezip(path, lambda name, data: None, {"hello.txt": b"hello"})), "is not an xlsx"),
    ],
)  # fmt: skip
def test_what_must_not_be_opened_is_refused_and_the_others_are_listed_too(
    dealt: Dealt, rows: Rows, accepted: Path, tmp_path: Path, spoil: Callable[[Path], None], words: str
) -> None:
    good = as_csv([row | {layout.VERDICT: "accept"} for row in rows], tmp_path / "good.csv")
    bad = Path(shutil.copyfile(accepted, dealt.sheet("anna-2")))
    spoil(bad)
    before = bad.read_bytes()
    done = dealt.take(bad, good)
    assert len(done.problems) == 1
    assert done.problems[0].startswith(f"{bad}: ")
    assert words in done.problems[0]
    assert not done.written
    assert len(dealt.take(bad, good, skip_bad=True).verdicts) == len(dealt.bench.items)
    assert bad.read_bytes() == before


@pytest.mark.parametrize("ending", [".fods", ".xls", ".xlsm", ".numbers", ".xlsb"])
def test_a_folder_with_what_cannot_be_read_says_so(dealt: Dealt, tmp_path: Path, ending: str) -> None:
    (tmp_path / "back").mkdir()
    (tmp_path / "back" / f"anna{ending}").write_bytes(b"PK?")
    (line,) = dealt.take(tmp_path / "back").problems
    assert "save it as 'Excel Workbook (.xlsx)'" in line


def test_a_folder_without_sheets(dealt: Dealt, tmp_path: Path) -> None:
    (tmp_path / "back").mkdir()
    with pytest.raises(InputError, match="and no file saved by a review page"):
        dealt.take(tmp_path / "back")


def test_a_column_that_counts_the_rows_is_no_answer(dealt: Dealt, rows: Rows, tmp_path: Path) -> None:
    rows[0][layout.VERDICT] = "accept"
    path = as_csv(rows, tmp_path / "back.csv")
    with path.open(newline="") as file:
        head, *rest = csv.reader(file)
    for first in (0, 1):
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([["", *head], *([str(number), *row] for number, row in enumerate(rest, first))])
        done = dealt.take(path)
        assert (done.problems, len(done.verdicts)) == ([], 1)


def test_a_csv_of_something_else(dealt: Dealt, tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text("a,b\n1,2\n")
    (line,) = dealt.take(path).problems
    assert "has no tab with a column 'id'; a csv file holds one tab: save the tab with the rows" in line
    path.write_bytes(b"id,checksum\n" + b'"' + b"x" * 200_000)
    (line,) = dealt.take(path).problems
    assert "cannot be read as csv" in line


def test_rows_with_one_problem_are_one_line() -> None:
    rows = [2, 3, 4, 9, 7, 8]
    problems = [Problem("a.xlsx", "part 1", row, "is wrong") for row in rows]
    problems.append(Problem("a.xlsx", "part 2", 5, "is wrong"))
    problems.append(Problem("b.xlsx", "", None, "is no xlsx file"))
    assert fold(problems) == [
        "a.xlsx, tab 'part 1', rows 2-4, 7-9; tab 'part 2', row 5: is wrong.",
        "b.xlsx: is no xlsx file.",
    ]


def test_the_command_lists_every_problem_and_takes_nothing(dealt: Dealt, accepted: Path, cli: Cli) -> None:
    shutil.copyfile(accepted, dealt.sheet("anna-2"))
    rows = dealt.ids
    spoils: dict[str, dict[str, str]] = {
        rows[0]: {layout.VERDICT: "acceptt"}, rows[1]: {layout.QUESTION: "Is it?"}, rows[4]: {layout.REASON: "dunno"},
    }  # fmt: skip
    fill(dealt.sheet("anna-2"), lambda row: spoils.get(row, {}))
    code, out, err = cli("review", "import", dealt.folder, "--all-or-none")
    assert code == 2
    assert out.endswith("for anna to correct; send this reviewer the whole folder of the sheet\n")
    assert err.count("problem: ") == 3
    assert "did you mean 'accept'" in err
    assert "3 problems, so no sheet was imported" in err
    assert "Traceback" not in err
    code, out, err = cli("review", "import", dealt.folder)
    assert (code, err.count("problem: ")) == (2, 3)
    assert f"{len(rows) - 3:,} new" in out
    code, out, _ = cli("review", "import", dealt.folder, "--skip-bad")
    assert code == 0
    assert f"{len(rows) - 3:,} known before" in out
    assert "3 problems skipped" in out
    code, out, _ = cli("review", "status", dealt.folder)
    assert f"{len(rows) - 3} of {len(rows)}" in out
    assert "ben-2: nothing imported yet" in out


def test_a_benchmark_that_is_not_the_one_and_sheets_that_are_not_there(
    dealt: Dealt, tiny_benchmark: Path, cli: Cli
) -> None:
    code, _, err = cli("review", "import", dealt.folder, "--benchmark", tiny_benchmark)
    assert code == 2
    assert "give the reviewed benchmark as --benchmark" in err
    code, _, err = cli("review", "import", dealt.folder.parent / "nowhere", "--batch", dealt.folder)
    assert code == 2
    assert "no such file or folder" in err
    code, _, err = cli("review", "import", tiny_benchmark)
    assert code == 2
    assert "give the file's path as --batch" in err


def test_a_missing_benchmark_is_named_by_the_option_that_gave_it(dealt: Dealt, tmp_path: Path, cli: Cli) -> None:
    code, _, err = cli("review", "import", dealt.folder, "--benchmark", tmp_path / "gone")
    assert code == 2
    assert f"--benchmark {tmp_path / 'gone'}: does not exist; give the present path of " in " ".join(err.split())


def test_times_of_a_reader_study_are_spread_over_the_rows_of_their_tab(tiny_benchmark: Path, tmp_path: Path) -> None:
    export(tiny_benchmark, tmp_path / "study", Wish(("r1",), 0.0, 2, blind_answers=True), None, progress)
    paths, bench = sheets_of(tmp_path / "study", "r1-reader"), benchmark.load(tiny_benchmark)
    spans: list[tuple[object, object]] = [
        (datetime.datetime(2026, 3, 1, 9, 0), datetime.datetime(2026, 3, 1, 9, 12)), ("23:50", "0:10"),
    ]  # fmt: skip
    counts = {}
    for path, span in itertools.zip_longest(paths, spans):
        fill(path, as_reviewer(bench, lambda item, key: answer_cells(item, key.answer[:1] or (1,), layout.ANSWER)))
        tab, rows = set_times(path, span) if span else ("", 0)
        counts[tab] = rows
    done = import_sheets(ImportOptions((tmp_path / "study",), tmp_path / "study", day="2026-03-01"))
    assert done.problems == []
    seconds = {verdict.source["tab"]: verdict.seconds for verdict in done.verdicts.values()}
    for tab, total in (("presence 1", 720), ("attributes 1", 1200)):
        assert seconds[tab] == pytest.approx(total / counts[tab], abs=0.1)
    assert None in seconds.values()
    set_times(paths[0], ("soon", "0:10"))
    (line,) = import_sheets(ImportOptions((paths[0],), tmp_path / "study", replace=True)).problems
    assert "are not two times" in line


def set_times(path: Path, span: tuple[object, object]) -> tuple[str, int]:
    """Write when a reader began and ended the first tab of a sheet; return the tab and its number of rows."""
    book = openpyxl.load_workbook(path)
    first = book.worksheets[0]
    head = next(row for row in first.iter_rows() if row[0].value == "tab")
    places = {cell.value: cell.column for cell in head}
    row = head[0].row + 1
    first.cell(row, places["started"]).value, first.cell(row, places["ended"]).value = span
    book.save(path)
    return str(first.cell(row, places["tab"]).value), int(first.cell(row, places["rows"]).value)


def pictures_in(path: Path) -> int:
    """How many pictures a workbook shows."""
    with zipfile.ZipFile(path) as archive:
        drawings = [name for name in archive.namelist() if name.startswith("xl/drawings/drawing")]
        return sum(len(re.findall(rb"<(?:xdr:)?pic>", archive.read(name))) for name in drawings)


XLSX = "xlsx:Calc MS Excel 2007 XML"
EVERY_TAB_AS_CSV = "csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,true,false,false,false,-1"


@pytest.mark.long
def test_libreoffice_keeps_every_verdict_in_xlsx_ods_and_csv(dealt: Dealt, filled: list[Path], tmp_path: Path) -> None:
    """Its own xlsx of a filled and a sorted sheet, its ods made xlsx again, and its csv of every tab."""
    paths = filled[:2]
    blind = {row[layout.ID] for row in rows_in(paths[0])}
    expected = {
        key: value for key, value in everything(dealt).items()
        if key[1] == "anna-2" or (key[1] == "anna-1-blind" and key[2] in blind)
    }  # fmt: skip
    shuffle_tabs(paths[1])
    profile = tmp_path / "profile"
    saved = converted(paths, XLSX, tmp_path / "xlsx", profile)
    ods = converted(paths, "ods", tmp_path / "ods", profile)
    back = converted(ods, XLSX, tmp_path / "back", profile)
    tabs = converted(paths, EVERY_TAB_AS_CSV, tmp_path / "csv", profile)
    for before, *after in zip(sorted(paths), saved, back, strict=True):
        assert pictures_in(before) > 3
        assert [pictures_in(path) for path in after] == [pictures_in(before)] * 2
    for name, files in (("saved", saved), ("ods", ods), ("back", back), ("csv", tabs)):
        done = dealt.take(*files, store=tmp_path / f"{name}.jsonl", skip_bad=True)
        assert said(done) == expected, name
        # The first tab is no work tab, and says so where each tab is a file of its own.
        assert len(done.problems) == (2 if name == "csv" else 0)
        assert all("Start here.csv: has no tab" in line for line in done.problems)


def test_reading_never_writes(dealt: Dealt, filled: list[Path]) -> None:
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in filled}
    dealt.take()
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in filled} == before


def test_tabs_of_a_workbook_are_read_with_their_row_numbers(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.title = "one"
    book.active["B3"] = "x"
    book.active["D3"] = 4
    book.save(tmp_path / "a.xlsx")
    (sheet,) = read_workbook(tmp_path / "a.xlsx")
    assert sheet == ("one", [(3, ("", "x", "", "4"))], ())


@pytest.mark.parametrize("name", sheet_bombs.BOMBS)
def test_a_small_file_that_would_take_much_is_refused(tmp_path: Path, name: str) -> None:
    make, words = sheet_bombs.BOMBS[name]
    make(tmp_path / "a.xlsx")
    with pytest.raises(InputError, match=words):
        read_workbook(tmp_path / "a.xlsx")


@pytest.mark.parametrize("name", sheet_bombs.HARMLESS)
def test_what_a_sheet_does_not_need_is_not_read(tmp_path: Path, name: str) -> None:
    sheet_bombs.HARMLESS[name](tmp_path / "a.xlsx")
    assert read_workbook(tmp_path / "a.xlsx") == [("t1", [(1, ("1",))], ())]


@pytest.mark.parametrize(("bound", "value"), [("MAX_ELEMENTS", 20), ("MAX_CELLS", 3), ("MAX_TEXT", 3)])
def test_what_all_tabs_hold_is_bounded_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, value: int
) -> None:
    cells = sheet_bombs.sheet('<row><c><v>1</v></c><c t="str"><v>a</v></c></row>')
    sheet_bombs.write(tmp_path / "one.xlsx", cells)
    sheet_bombs.write(tmp_path / "two.xlsx", cells, tabs=["", "a"])
    assert len(read_workbook(tmp_path / "two.xlsx")) == 2
    monkeypatch.setattr(xlsx_parts, bound, value)
    assert read_workbook(tmp_path / "one.xlsx") == [("t1", [(1, ("1", "a"))], ())]
    with pytest.raises(InputError, match="more cells or text than a sheet may"):
        read_workbook(tmp_path / "two.xlsx")


def test_a_part_under_another_name_is_known_by_its_type(tmp_path: Path) -> None:
    sheet_bombs.write(tmp_path / "a.xlsx", sheet_bombs.sheet("<row/>"))
    rezip(tmp_path / "a.xlsx", lambda name, data: data.replace(b"worksheet+xml", b"externalLink+xml"))
    with pytest.raises(InputError, match="contains links to other workbooks"):
        read_workbook(tmp_path / "a.xlsx")


def test_cells_are_read_as_other_programs_write_them(tmp_path: Path) -> None:
    """Prefixes, texts in pieces with their pronunciation, cells and rows without a place, errors, dates since 1904."""
    texts = (
        f'<x:sst xmlns:x="{sheet_bombs.MAIN}"><x:si><x:r><x:t>a</x:t></x:r><x:rPh><x:t>no</x:t></x:rPh>'
        '<x:r><x:t xml:space="preserve"> b</x:t></x:r></x:si></x:sst>'
    )
    formats = (
        f'<styleSheet xmlns="{sheet_bombs.MAIN}"><numFmts><numFmt numFmtId="200" formatCode="yyyy\\-mm\\-dd"/>'
        '</numFmts><cellStyleXfs><xf numFmtId="14"/></cellStyleXfs><cellXfs><xf/><xf numFmtId="200"/>'
        '<xf numFmtId="46"/></cellXfs></styleSheet>'
    )
    tab = sheet_bombs.sheet(
        '<row><c t="s"><f>B1</f><v>0</v></c><c/><c t="e"><v>#N/A</v></c><c t="b"><v>1</v></c></row>'
        '<row r="3"><c r="B3" s="1"><v>46000</v></c><c s="2"><v>1.5</v></c><c t="d"><v>2026-03-01</v></c></row>'
        '<row><c r="ZZ4"><v>1</v></c><c r="A4" s="1"><v>1e300</v></c></row>'
    )
    sheet_bombs.write(tmp_path / "a.xlsx", tab, texts=texts, styles=formats)
    expected = [
        (1, ("a b", "", "#N/A", "yes")),
        (3, ("", "2025-12-09", "1 day, 12:00:00", "2026-03-01")),
        (4, ("#VALUE!",)),
    ]
    assert read_workbook(tmp_path / "a.xlsx") == [("t1", expected, ())]
    rezip(tmp_path / "a.xlsx", lambda name, data: data.replace(b"<sheets>", b'<workbookPr date1904="1"/><sheets>'))
    assert read_workbook(tmp_path / "a.xlsx")[0].rows[1][1][1] == "2029-12-10"
