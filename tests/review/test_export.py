"""Exporting a review: who gets what, and sheets that people can work in and that come back whole."""

from __future__ import annotations

import collections
import csv
import io
import itertools
import json
import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from review_sheets import sheets_of, write_small

from chexqa.cli.validate import validate
from chexqa.contract import benchmark
from chexqa.contract.evidence import percent, place
from chexqa.contract.items import Answer, CaseKey, Item, Option
from chexqa.files.errors import InputError
from chexqa.files.jsonio import sha256
from chexqa.review import columns
from chexqa.review.assignment import Work, deal, shuffled, spread
from chexqa.review.cell_words import parse_choice
from chexqa.review.export_options import reviewer_names, usual_overlap
from chexqa.review.sheets.cover_tab import About
from chexqa.review.sheets.evidence_text import (
    BOTH,
    HARD,
    LUNGS,
    MOST,
    NEAR,
    NO_CELL,
    UNSTABLE,
    evidence_words,
    flags,
    proposed_words,
)
from chexqa.review.sheets.export import Done, Wish, export
from chexqa.review.sheets.pictures import Page, Plate, write_viewer
from chexqa.review.sheets.sheet import Book, SheetRow, fill_tabs, marked_cells, write_workbook
from chexqa.review.sheets.thumbnails import Thumb, compose

pytestmark = pytest.mark.xdist_group("export")

Cli = Callable[..., tuple[int, str, str]]
Cells = list[dict[str, Any]]


@contextmanager
def silent(label: str, total: int) -> Iterator[Callable[[], None]]:
    yield lambda: None


def exported(
    source: Path, out: Path, names: tuple[str, ...] = ("anna", "ben"), overlap: float = 0.4, **wish: Any
) -> Done:
    return export(source, out, Wish(names, overlap, min(2, len(names)), **wish), None, silent)


def rows_of(path: Path) -> dict[str, Cells]:
    """The rows of every work tab by title."""
    book = openpyxl.load_workbook(path)
    tabs = {}
    for sheet in book.worksheets:
        lines = [[cell.value for cell in row] for row in sheet.iter_rows()]
        if columns.ID in lines[0]:
            tabs[sheet.title] = [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]
    return tabs


# Dealing.

WORKS = st.lists(
    st.tuples(
        st.integers(0, 12),  # the patient
        st.sampled_from(["edema", "effusion", "opacity"]),
        st.sampled_from(["lesion_free", "revision_free", "revision_required"]),
        st.booleans(),
        st.integers(1, 10),
    ),
    min_size=1,
    max_size=40,
).map(
    lambda rows: [
        Work(f"case-{number}", f"patient-{patient}", (finding, path), flagged, size)
        for number, (patient, finding, path, flagged, size) in enumerate(rows)
    ]
)


@settings(max_examples=80, deadline=None)
@given(WORKS, st.integers(2, 6), st.floats(0, 1), st.integers(0, 5), st.data())
def test_every_case_is_dealt_and_no_patient_is_split(
    works: list[Work], count: int, overlap: float, seed: int, data: st.DataObject
) -> None:
    readers = data.draw(st.integers(2, count))
    names = [f"r{number}" for number in range(count)]
    shares = deal(works, names, overlap, readers, seed)
    takers: dict[str, set[str]] = collections.defaultdict(set)
    for share in shares:
        assert len(set(share.cases)) == len(share.cases)
        for case in share.cases:
            takers[case].add(share.reviewer)
    assert set(takers) == {work.case_id for work in works}
    by_patient: dict[str, set[frozenset[str]]] = collections.defaultdict(set)
    for work in works:
        by_patient[work.patient].add(frozenset(takers[work.case_id]))
    assert all(len(groups) == 1 for groups in by_patient.values())
    assert {len(group) for group in takers.values()} <= {1, readers}
    shared = {case for case, group in takers.items() if len(group) == readers}
    assert {case for share in shares for case in share.shared} == shared
    # As many cases as were wanted, or as few more as the last whole patient brings.
    wanted = round(overlap * len(works))
    largest = max(collections.Counter(work.patient for work in works).values())
    assert wanted <= len(shared) < wanted + largest
    assert deal(list(reversed(works)), names, overlap, readers, seed) == shares


def test_another_seed_deals_otherwise() -> None:
    works = [Work(f"case-{n}", f"p{n}", ("edema", "x"), False, 1) for n in range(40)]
    assert deal(works, ["a", "b"], 0.2, 2, 0) != deal(works, ["a", "b"], 0.2, 2, 1)


def test_findings_paths_and_work_are_even_where_patients_have_one_case() -> None:
    sizes = {"lesion_free": 1, "revision_free": 6, "revision_required": 9}
    works = [
        Work(f"c{number}", f"p{number}", (finding, path), number % 3 == 0, size)
        for number, (finding, path, size) in enumerate(
            (finding, path, size) for finding in "abcdefg" for path, size in sizes.items() for _ in range(100)
        )
    ]
    shares = deal(works, [f"r{n}" for n in range(6)], 0.2, 2, 3)
    by_id = {work.case_id: work for work in works}
    for finding in "abcdefg":
        for path in sizes:
            counts = [sum(by_id[case].stratum == (finding, path) for case in share.cases) for share in shares]
            assert max(counts) - min(counts) <= 1, (finding, path)
    rows = [sum(by_id[case].size for case in share.cases) for share in shares]
    assert max(rows) - min(rows) <= 0.02 * sum(rows) / 6
    # Pairs of readers are even too: 420 shared cases, 15 pairs.
    pairs = collections.Counter(
        frozenset(share.reviewer for share in shares if case in share.cases)
        for case in {case for share in shares for case in share.shared}
    )
    assert len(pairs) == 15
    assert max(pairs.values()) - min(pairs.values()) <= 12


def test_any_beginning_of_the_order_is_a_stratified_sample() -> None:
    works = [Work(f"c{n}", f"p{n}", ("abc"[n % 3], "x"), n % 10 == 0, 1) for n in range(300)]
    order = spread(works, 5, "order")
    for length in (30, 90, 150):
        beginning = collections.Counter(work.stratum[0] for work in order[:length])
        assert max(beginning.values()) - min(beginning.values()) <= 4
        assert abs(sum(work.flagged for work in order[:length]) - length / 10) <= 3


def test_a_patients_cases_stand_next_to_each_other() -> None:
    works = [Work(f"c{n}", f"p{n % 7}", ("a", "x"), False, 1) for n in range(21)]
    for share in deal(works, ["a", "b"], 0, 2, 0):
        patients = [int(case[1:]) % 7 for case in share.cases]
        assert len([1 for one, two in itertools.pairwise(patients) if one != two]) == len(set(patients)) - 1


# Words.

CASE = CaseKey("c1", "s", None, None, "revision_required", None, None, None, "open", {"negative_kind": "other"})


def item(kind: str, options: int = 4, multi: bool = False) -> Item:
    shown = tuple(Option(n, f"option {n}", color=("red", "green", "blue", None)[n - 1]) for n in range(1, options + 1))
    return Item(f"c1/{kind}", "c1", 1, kind, None, None, "edema", "?", shown, multi, (), ())


def answer(evidence: dict[str, Any], right: tuple[int, ...] = (1,), given: tuple[str, ...] = ()) -> Answer:
    fields = {"item_id": "c1/x", "answer": right, "chance": 0.5, "prior": 0.5, "path": None, "evidence": evidence}
    return Answer(**fields, flags=given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "evidence", "words"),
    [
        ("detection", {"lesion_share": 0.034}, "the mask covers 3.4 % of the picture"),
        ("detection", {"lesion_share": 0.0}, "no mask; its source says: other findings, not this one"),
        ("severity", {"side": "left", "lung_share": {"left": 0.34}}, "covers 34 % of the left lung"),
        ("location", {"shown": ["left_mid_lateral"], "union": {"left_mid_lateral": 0.34}},
         "covers 34 % of the lateral part of the left mid zone"),
        ("comparison", {"lung_area": {"right": 3000, "left": 1500}, "lung_share": {"right": 0.3, "left": 0.1}},
         "right lung: 3,000 px covered, 30 % of the lung\nleft lung: 1,500 px covered, 10 % of the lung\n"
         "one area is 2.0 times the other"),
        ("contour_evaluation", {"iou": 1.0, "edits": []}, "the outline shown is the approved outline"),
        ("contour_evaluation", {"iou": 0.82, "edits": [
            {"over": True, "true": True, "depth": 40.2, "share": 0.12},
            {"over": False, "true": False, "depth": 30.0, "share": 0.1}]},
         "overlaps the approved outline by 82 % (IoU)\ntakes in too much (40 px deep, 12 % of the lesion)"),
        ("revision_expansion", {"points": [
            {"edit": None, "inside": True, "distance": 9.0}, {"edit": 0, "inside": False, "distance": 23.4}]},
         "green: 23 px outside: a part is left out\nthe outline is right at the other points"),
        ("revision_result", {"errors": [[], [0]], "edits": [{"over": False, "depth": 20.0, "share": 0.2}]},
         "1: the approved outline\n2: leaves out a part (20 px deep, 20 % of the lesion)"),
        ("distribution", {"involved": ["left_lower_medial", "left_costophrenic_angle"],
                          "union": {"left_lower_medial": 0.5, "left_costophrenic_angle": 0.7, "left_mid_medial": 0.1}},
         "1 of six zones\ncovers 70 % of the left costophrenic angle\ncovers 50 % of the medial part of the left lower "
         "zone\nnot counted: 10 % of the medial part of the left mid zone"),
    ],
)  # fmt: skip
def test_evidence_reads_as_a_radiologist_would_say_it(kind: str, evidence: dict[str, Any], words: str) -> None:
    assert evidence_words(item(kind), answer(evidence), CASE) == words


def test_evidence_of_another_make_is_shown_as_it_is_and_flags_nothing() -> None:
    strange = answer({"dice": 0.5, "edits": 3})
    assert evidence_words(item("contour_evaluation"), strange, CASE) == "dice: 0.5; edits: 3"
    assert flags(item("contour_evaluation"), strange) == ()
    assert evidence_words(item("severity"), answer({}), CASE) == ""


# A part of a lesion that touches both lungs.
BRIDGE = {"pixels": 9, "regions": {}, "lungs": {"right": 9, "left": 9}}


@pytest.mark.parametrize(
    ("kind", "evidence", "flag"),
    [
        ("severity", {"side": "left", "lung_share": {"left": 0.31}}, NEAR),
        ("severity", {"side": "left", "lung_share": {"left": 0.5}}, None),
        ("comparison", {"lung_area": {"left": 150, "right": 100}, "lung_share": {}}, NEAR),
        ("comparison", {"lung_area": {"left": 150, "right": 0}, "lung_share": {}}, None),
        ("grid_cell", {"coverage": [0.0, 0.47]}, NEAR),
        ("location", {"shown": ["left_mid_medial"], "union": {"left_mid_medial": 0.22}}, NEAR),
        ("distribution", {"involved": [], "union": {"left_mid_medial": 0.22, "left_mid_lateral": 0.9}}, None),
        ("location", {"shown": ["left_mid_medial"], "union": {"left_mid_medial": 0.05}, "involved": ["x"]}, NEAR),
        ("location", {"shown": ["left_mid_medial"], "union": {}, "involved": ["x"]}, None),
        ("location", {"shown": [], "union": {}, "involved": ["x"], "filled_most": ["left_mid_medial"]}, MOST),
        ("severity", {"side": "left", "lung_share": {"left": 0.5}, "components": [BRIDGE]}, BOTH),
        ("detection", {"lesion_share": 0.003}, HARD),
        ("detection", {"lesion_share": 0.0}, None),
        (
            "contour_evaluation",
            {"iou": 0.8, "edits": [{"over": True, "true": True, "depth": 14.0, "share": 0.3}]},
            HARD,
        ),
        (
            "contour_evaluation",
            {"iou": 0.8, "edits": [{"over": True, "true": False, "depth": 14.0, "share": 0.3}]},
            None,
        ),
    ],
)
def test_flags_mark_what_is_near_a_threshold_or_hard(kind: str, evidence: dict[str, Any], flag: str | None) -> None:
    assert flags(item(kind), answer(evidence)) == (() if flag is None else (flag,))


@pytest.mark.parametrize(("margin", "near"), [(0.0, True), (0.1, True), (0.11, False)])
def test_a_margin_in_the_key_decides_before_the_numbers(margin: float, near: bool) -> None:
    evidence = {"side": "left", "lung_share": {"left": 0.31}}
    told = replace(answer(evidence), difficulty={"margin": margin})
    assert (NEAR in flags(item("severity"), told)) == near


def test_the_doubts_about_lungs_stand_in_the_evidence_of_the_items_they_flag() -> None:
    evidence = {"side": "left", "lung_share": {"left": 0.5}}
    case = replace(CASE, measures={**CASE.measures, "lung_doubts": ["the lungs overlap by 5% of the smaller one"]})
    doubted = answer(evidence, given=("doubtful_lungs",))
    assert evidence_words(item("severity"), doubted, case).splitlines()[1:] == [
        "look at the masks: the lungs overlap by 5% of the smaller one"
    ]
    assert flags(item("severity"), doubted) == (LUNGS,)
    assert len(evidence_words(item("severity"), answer(evidence), case).splitlines()) == 1


def test_the_keys_own_flags_come_first_and_once() -> None:
    near = answer({"side": "left", "lung_share": {"left": 0.31}}, given=("unstable", "unstable"))
    assert flags(item("severity"), near) == (UNSTABLE, NEAR)


def test_small_shares_keep_a_decimal() -> None:
    assert [percent(share) for share in (0, 0.004, 0.0994, 0.0996, 0.5)] == ["0 %", "0.4 %", "9.9 %", "10 %", "50 %"]
    assert place("right_costophrenic_angle") == "right costophrenic angle"


def test_a_proposal_is_spelled_out() -> None:
    assert proposed_words(item("location", multi=True), answer({}, (1, 3))) == "1. option 1\n3. option 3"
    assert proposed_words(item("grid_cell"), answer({}, (2, 3))) == "any of option 2, option 3"
    assert proposed_words(item("grid_cell"), answer({}, ())) == NO_CELL


# The contract with import.

TEXT = st.text(max_size=60)


@given(TEXT, TEXT, TEXT)
def test_a_checksum_minds_words_and_neither_layout_nor_what_is_filled_in(
    question: str, evidence: str, own: str
) -> None:
    cells = {columns.ID: "i-c1/detection", columns.QUESTION: question, columns.EVIDENCE: evidence, columns.BATCH: "r-1"}
    told = columns.checksum(cells)
    assert re.fullmatch("k-[0-9a-f]{16}", told)
    spaced = {title: f" {columns.clean(text)}\r\n" for title, text in reversed(cells.items())}
    if not columns.is_dangerous(question) and not question.startswith("'"):
        assert columns.checksum({**spaced, columns.EVIDENCE: evidence}) == told
    assert (
        columns.checksum({**cells, columns.COMMENT: own, columns.NUMBER: "7", "my notes": own, columns.CHECKSUM: own})
        == told
    )
    assert columns.checksum({**cells, columns.QUESTION: question + "x"}) != told
    assert columns.checksum({**cells, columns.ID: "i-c2/detection"}) != told


@given(TEXT)
def test_text_for_csv_never_begins_as_a_formula_and_reads_back(text: str) -> None:
    cell = columns.csv_cell(text)
    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
    assert columns.plain(cell) == columns.plain(text)


@pytest.mark.parametrize("text", ["2", "2.0", " 2. no ", "NO", "No", "2. No"])
def test_an_answer_is_known_by_number_or_words(text: str) -> None:
    yes_no = Item("c/detection", "c", 1, "detection", "coarse", 1, "edema", "?", (Option(1, "Yes"), Option(2, "No")),
                  False, (), ())  # fmt: skip
    assert columns.choices(yes_no) == ("1. Yes", "2. No")
    assert parse_choice(yes_no, text) == 2
    assert [parse_choice(yes_no, wrong) for wrong in ("", "3", "22", "no yes", "maybe", "-2")] == [None] * 6


def test_drop_downs_hold_what_a_list_can_hold() -> None:
    commas = item("severity")
    commas = Item(**{**vars(commas), "options": (Option(1, "yes, a part"), Option(2, 'the "rim"'))})
    assert columns.choices(commas) == ("1. yes; a part", "2. the 'rim'")
    assert parse_choice(commas, "1. yes; a part") == 1
    assert parse_choice(commas, "yes, a part") == 1
    long = Item(**{**vars(commas), "options": tuple(Option(n, "x" * 90) for n in (1, 2, 3))})
    assert columns.choices(long) == ("1", "2", "3")
    cells = tuple(Option(n, f"{'ABCDEFGH'[(n - 1) % 8]}{(n - 1) // 8 + 1}") for n in range(1, 65))
    grid = Item(**{**vars(commas), "kind": "grid_cell", "options": cells})
    assert len(",".join(columns.choices(grid))) <= 255
    assert (parse_choice(grid, "b1"), parse_choice(grid, "2")) == (2, None)


# Sheets.


def book_of(rows: list[SheetRow], kind: columns.SheetKind = "items", **about: Any) -> Book:
    said = {"phantom": False, "credentialed": False, **about}
    first = About(kind, "anna", "bench", len(rows), viewer="anna.html", **said)
    return Book(kind, fill_tabs([rows], "part"), {columns.BENCHMARK: "b-1", columns.BATCH: "r-1"}, first)


NASTY = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\n=1", "{=1}", "https://example.org", "007", "1e5", "2024-01-02",
         "a\x00b\x1bc\ud800", "_x0041_", "<b>&amp;", "'quoted", "TRUE", "é" * 300]  # fmt: skip


def test_any_text_is_stored_as_text(tmp_path: Path) -> None:
    rows = [SheetRow(f"i-c{n}/x", {columns.QUESTION: text, columns.OPTIONS: text}) for n, text in enumerate(NASTY)]
    book = book_of(rows)
    write_workbook(tmp_path / "a.xlsx", book, lambda row: None, None, lambda: None)
    sheet = openpyxl.load_workbook(tmp_path / "a.xlsx")["part 1"]
    titles = [cell.value for cell in sheet[1]]
    for number, text in enumerate(NASTY, start=2):
        cell = sheet.cell(number, titles.index(columns.QUESTION) + 1)
        assert (cell.data_type, cell.value) == ("s", columns.clean(text))
        assert bool(cell.quotePrefix) == columns.is_dangerous(columns.clean(text))
        assert cell.hyperlink is None
        cells = {title: str(sheet.cell(number, place).value or "") for place, title in enumerate(titles, start=1)}
        assert (
            columns.checksum(cells) == cells[columns.CHECKSUM] == marked_cells(book, rows[number - 2])[columns.CHECKSUM]
        )


def test_a_text_too_long_for_a_cell_is_refused(tmp_path: Path) -> None:
    book = book_of([SheetRow("i-c/x", {columns.QUESTION: "x" * 32_768})])
    with pytest.raises(InputError, match="a cell holds 32,767"):
        write_workbook(tmp_path / "a.xlsx", book, lambda row: None, None, lambda: None)


@given(st.lists(st.integers(1, 12), max_size=40))
def test_tabs_hold_at_most_100_rows_and_no_case_is_torn_apart(sizes: list[int]) -> None:
    groups = [[SheetRow(f"i-{case}-{n}", {}) for n in range(size)] for case, size in enumerate(sizes)]
    tabs = fill_tabs(groups, "part")
    assert [row for tab in tabs for row in tab.rows] == [row for group in groups for row in group]
    assert all(0 < len(tab.rows) <= 100 for tab in tabs)
    homes: dict[str, set[str]] = collections.defaultdict(set)
    for tab in tabs:
        for row in tab.rows:
            homes[row.row_id.rsplit("-", 1)[0]].add(tab.name)
    assert all(len(names) == 1 for names in homes.values())


def test_a_case_of_more_rows_than_a_tab_goes_on_on_the_next() -> None:
    assert [len(tab.rows) for tab in fill_tabs([[SheetRow(str(n), {}) for n in range(230)]], "part")] == [100, 100, 30]


def test_a_picture_says_what_it_belongs_to_and_where_its_parts_are(tmp_path: Path) -> None:
    four = [Thumb(str(n), np.full((900, 1024), 90, np.uint8)) for n in (1, 2, 3, 4)]
    for thumbs, across in ((four[:1], 1), (four[:2], 2), (four, 2)):
        data, size = compose("i-c1/detection", thumbs, (640, 540))
        with Image.open(io.BytesIO(data)) as picture:
            assert picture.size == size
            # As large as the box lets it be, in one direction.
            assert (picture.width >= 630 and picture.height <= 540) or (picture.height >= 530 and picture.width <= 640)
            assert across == 1 or picture.width > 400
            # Words in the margin: dark on white above the first thumbnail.
            assert picture.convert("L").crop((0, 0, 150, 20)).getextrema()[0] < 140


# The whole export.


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small(tmp_path_factory.mktemp("small") / "bench")


@pytest.fixture(scope="module")
def sheets(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sheets of the small benchmark for two reviewers; read only."""
    folder = tmp_path_factory.mktemp("sheets") / "sheets"
    exported(small, folder)
    return folder


def test_each_reviewer_gets_a_folder_with_everything_and_no_more(sheets: Path) -> None:
    parts = [f"{name}-1-blind-part-{number}" for name in ("anna", "ben") for number in range(1, 6)]
    assert {path.name for path in sheets.iterdir()} == {"review.json", "anna-2", "ben-2", *parts}
    assert validate(sheets).summary == "1 review file, checked by schema"
    for sheet in ("anna-2", *parts):
        names = {path.name for path in (sheets / sheet).iterdir()}
        assert names == {f"{sheet}.xlsx", f"{sheet}.html", "pictures"}


def test_no_file_of_a_folder_is_one_of_another_folder_or_of_the_benchmark(sheets: Path, small: Path) -> None:
    files = [path for path in (*sheets.rglob("*"), *small.rglob("*")) if path.is_file()]
    assert len({path.stat().st_ino for path in files}) == len(files)
    assert {path.stat().st_nlink for path in files} == {1}


def test_the_batch_file_says_what_every_sheet_holds(sheets: Path, small: Path) -> None:
    batch = json.loads((sheets / columns.BATCH_FILE).read_text())
    bench = benchmark.load(small)
    assert batch["benchmark"]["hash"] == bench.hash
    dealt = collections.Counter()
    for sheet in batch["sheets"]:
        books = [rows_of(sheets / file) for file in sheet.get("parts", [sheet["file"]])]
        rows = [row for tabs in books for tab in tabs.values() for row in tab]
        assert [row[columns.ID] for row in rows] == sheet["rows"]
        for row in rows:
            texts = {title: str(value) for title, value in row.items() if value is not None}
            assert columns.checksum(texts) == row[columns.CHECKSUM]
            assert row[columns.BENCHMARK] == columns.benchmark_mark(bench.hash)
            assert (row[columns.SHEET], row[columns.REVIEWER], row[columns.BATCH]) == (
                sheet["kind"], sheet["reviewer"], batch["batch"],
            )  # fmt: skip
            assert re.match("[a-z]", row[columns.ID])
        if sheet["kind"] == "items":
            dealt.update(sheet["rows"])
    assert set(dealt) == {columns.item_row_id(item.item_id) for item in bench.items}
    blind = {row for sheet in batch["sheets"] if sheet["kind"] == "blind" for row in sheet["rows"]}
    assert blind == {row for row, count in dealt.items() if count == 2}
    assert blind


def test_a_blind_round_has_no_proposal_and_no_later_picture(sheets: Path, small: Path) -> None:
    bench = benchmark.load(small)
    seen: list[str] = []
    paths = sheets_of(sheets, "anna-1-blind")
    for path, title in zip(paths, ("presence", "attributes", "outline", "points", "outlines"), strict=True):
        ((tab, rows),) = rows_of(path).items()
        assert tab == f"{title} 1"
        assert not {columns.PROPOSED, columns.EVIDENCE, columns.FLAGS, columns.VERDICT} & set(rows[0])
        assert columns.ANSWER in rows[0]
        items = [bench.item[row[columns.ID][2:]] for row in rows]
        seen += [item.item_id for item in items]
        assert "approved outline" not in path.with_suffix(".html").read_text()
        # The folder has only the pictures that its own questions show.
        assert len(list((path.parent / "pictures").iterdir())) <= len(
            {one.image for item in items for one in item.alone_images}
            | {one.image for item in items for one in item.options}
        )
    about = json.loads((sheets / columns.BATCH_FILE).read_text())["sheets"]
    assert [f"i-{one}" for one in seen] == next(one["rows"] for one in about if one["kind"] == "blind")


def test_rows_of_a_round_are_shuffled_for_each_reader() -> None:
    rows = list(range(100))
    orders = [shuffled(rows, "r-1", name, "presence") for name in ("anna-1-blind", "ben-1-blind")]
    assert all(sorted(order) == rows != order for order in orders)
    assert orders[0] != orders[1]
    assert shuffled(rows, "r-1", "anna-1-blind", "presence") == orders[0]


def test_a_sheet_with_proposals_keeps_cases_together_in_asking_order(sheets: Path, small: Path) -> None:
    bench = benchmark.load(small)
    assert bench.answers is not None
    rows = [row for tab in rows_of(sheets / "anna-2" / "anna-2.xlsx").values() for row in tab]
    cases = [row[columns.ID].split("/")[0] for row in rows]
    assert len([1 for one, two in itertools.pairwise(cases) if one != two]) == len(set(cases)) - 1
    for case in set(cases):
        asked = [bench.item[row[columns.ID][2:]] for row in rows if row[columns.ID].startswith(f"{case}/")]
        assert asked == sorted(asked, key=lambda item: (item.kind == "grid_cell", item.seq))
    for row in rows:
        shown = bench.item[row[columns.ID][2:]]
        assert row[columns.QUESTION] == shown.question
        assert row[columns.PROPOSED] == proposed_words(shown, bench.answers[shown.item_id])


def test_only_the_answer_columns_are_open_and_each_has_its_list(sheets: Path, small: Path) -> None:
    bench = benchmark.load(small)
    book = openpyxl.load_workbook(sheets / "anna-2" / "anna-2.xlsx")
    assert all(sheet.protection.sheet and sheet.protection.password is None for sheet in book.worksheets)
    sheet = book["part 1"]
    # openpyxl reads what is locked: False is what the file lets a person do.
    assert not any((sheet.protection.autoFilter, sheet.protection.formatColumns))
    assert sheet.protection.sort  # in a protected tab, only the yellow cells could be sorted
    assert (sheet.freeze_panes, sheet.auto_filter.ref is not None) == ("C2", True)
    titles = [cell.value for cell in sheet[1]]
    assert titles[-len(columns.MARKS) :] == list(columns.MARKS)
    found = [rule for rule in sheet.data_validations.dataValidation if rule.type == "list"]
    assert not any(rule.showErrorMessage for rule in found)  # nothing is forbidden
    lists = {
        (cell.row, cell.column): rule.formula1.strip('"').split(",")
        for rule in sheet.data_validations.dataValidation
        if rule.type == "list"
        for cells in rule.sqref.ranges
        for line in sheet.iter_rows(cells.min_row, cells.max_row, cells.min_col, cells.max_col)
        for cell in line
    }
    for number in range(2, sheet.max_row + 1):
        item = bench.item[sheet.cell(number, titles.index(columns.ID) + 1).value[2:]]
        open_titles = {title for title, cell in zip(titles, sheet[number], strict=True) if not cell.protection.locked}
        choice = {columns.option_title(n) for n in range(1, len(item.options) + 1)} if item.multi else set()
        assert open_titles == {columns.VERDICT, columns.CORRECTED, columns.REASON, columns.COMMENT} | choice
        assert lists[number, titles.index(columns.VERDICT) + 1] == list(columns.VERDICTS)
        assert lists[number, titles.index(columns.REASON) + 1] == list(columns.ITEM_REASONS)
        if item.multi:
            assert lists[number, titles.index("option 1") + 1] == ["yes", "no"]
        else:
            assert lists[number, titles.index(columns.CORRECTED) + 1] == list(columns.choices(item))


def test_every_row_has_its_own_picture_which_moves_with_its_cell(sheets: Path) -> None:
    path = sheets / "anna-2" / "anna-2.xlsx"
    rows = sum(len(tab) for tab in rows_of(path).values())
    with zipfile.ZipFile(path) as archive:
        assert len([name for name in archive.namelist() if name.startswith("xl/media/")]) == rows
        drawings = "".join(archive.read(name).decode() for name in archive.namelist() if "drawings/drawing" in name)
    assert drawings.count("<xdr:twoCellAnchor>") == rows  # no editAs: it moves and shrinks with its cells
    assert drawings.count('descr="i-') == rows


def test_the_viewer_holds_every_row_and_finds_its_pictures(sheets: Path) -> None:
    html = (sheets / "anna-2" / "anna-2.html").read_text()
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', html, re.DOTALL)
    assert found
    pages = json.loads(found[1])
    rows = [row[columns.ID] for tab in rows_of(sheets / "anna-2" / "anna-2.xlsx").values() for row in tab]
    assert [page["id"] for page in pages] == rows
    for page in pages:
        assert page["plates"]
        for plate in page["plates"]:
            for name in filter(None, (plate["src"], plate["over"])):
                assert Path(name).stem == sha256((sheets / "anna-2" / name).read_bytes())
    assert "http" not in html.replace("http-equiv", "")


def test_a_viewer_takes_hostile_words_for_words(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script>"
    write_viewer(tmp_path / "v.html", evil, [evil], [Page(evil, "t", 1, evil, (evil,), (Plate(evil, "x.png"),))])
    html = (tmp_path / "v.html").read_text()
    assert "<script>alert" not in html
    assert html.count("</script>") == 2


def test_the_first_tab_says_what_must_be_said(small: Path, handmade: Any, tmp_path: Path) -> None:
    def words(path: Path) -> str:
        sheet = openpyxl.load_workbook(path).worksheets[0]
        assert sheet.title == columns.FIRST_TAB
        return "\n".join(str(cell.value) for row in sheet.iter_rows() for cell in row if cell.value is not None)

    exported(small, tmp_path / "phantom")
    said = words(tmp_path / "phantom" / "anna-2" / "anna-2.xlsx")
    assert "Drawn phantoms: a software test, without clinical meaning." in said
    assert "shared drives" not in said
    assert all(word in said for word in ("accept", "fix", "reject", "unsure", "Worked examples", "COUNTA"))
    assert "Drawn phantoms" in (tmp_path / "phantom" / "anna-2" / "anna-2.html").read_text()
    handmade.case("z", "edema", "lesion_free", access="credentialed")
    exported(handmade.write("real"), tmp_path / "real", ("anna",), 0.0)
    said = words(tmp_path / "real" / "anna" / "anna.xlsx")
    assert "Do not put this workbook, its pictures or the viewer on shared drives, in web sheets" in said
    assert "phantom" not in said


def test_a_reader_study_asks_everybody_everything_and_gives_nothing_away(small: Path, tmp_path: Path) -> None:
    names = ("r1", "r2", "r3")
    overlap, readers = usual_overlap(names, None, None, True)
    export(small, tmp_path / "s", Wish(names, overlap, readers, blind_answers=True), None, silent)
    bench = benchmark.load(small)
    every = sorted(columns.item_row_id(item.item_id) for item in bench.items)
    for name in names:
        paths = sheets_of(tmp_path / "s", f"{name}-reader")
        books = {path: rows_of(path) for path in paths}
        rows = [row for tabs in books.values() for tab in tabs.values() for row in tab]
        assert sorted(row[columns.ID] for row in rows) == every
        assert all(row[columns.SHEET] == "readers" for row in rows)
        assert not {columns.PROPOSED, columns.EVIDENCE, columns.FLAGS} & set().union(*rows)
        first, tabs = openpyxl.load_workbook(paths[0]).worksheets[0], books[paths[0]]
        grid = [[cell.value for cell in row] for row in first.iter_rows()]
        asked = [
            columns.ABOUT_TITLES[0] in {row[0].value for row in openpyxl.load_workbook(path).worksheets[0].iter_rows()}
            for path in paths
        ]
        assert asked == [True, *[False] * (len(paths) - 1)]
        head = next(number for number, row in enumerate(grid) if row[0] == "tab")
        assert [title for title in grid[head] if title in columns.TIME_TITLES] == list(columns.TIME_TITLES)
        assert [row[0] for row in grid[head + 1 : head + 1 + len(tabs)]] == list(tabs)
        assert not first.cell(head + 2, 4).protection.locked


def test_flagged_cases_and_samples(handmade: Any, tmp_path: Path) -> None:
    for number in range(6):
        handmade.case(f"n{number}", "edema", "lesion_free")
    marked = handmade.case("flagged", "edema", "revision_free")
    handmade.answers[-1] = Answer(**{**vars(handmade.answers[-1]), "flags": ("unstable",)})
    bench = handmade.write()
    done = exported(bench, tmp_path / "flagged", ("anna",), 0.0, only="flagged")
    rows = [row for tab in rows_of(tmp_path / "flagged" / "anna" / "anna.xlsx").values() for row in tab]
    assert done.cases == 1
    assert {row[columns.ID].split("/")[0] for row in rows} == {f"i-{marked}"}
    assert "unstable" in [row[columns.FLAGS] for row in rows]
    assert exported(bench, tmp_path / "sample", ("anna",), 0.0, sample=3).cases == 3


@pytest.mark.long
def test_the_same_wish_deals_the_same_and_another_seed_is_another_batch(small: Path, tmp_path: Path) -> None:
    texts = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        exported(small, tmp_path / name, seed=seed)
        texts.append((tmp_path / name / columns.BATCH_FILE).read_text())
    assert texts[0] == texts[1]
    assert json.loads(texts[0])["batch"] != json.loads(texts[2])["batch"]


# Masks.


@pytest.fixture(scope="module")
def phantom_cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from chexqa.phantoms import write_cases

    return write_cases(tmp_path_factory.mktemp("phantoms") / "cases", 3, seed=2, size=256)


def test_masks_of_a_manifest_are_shown_with_their_outlines(phantom_cases: Path, tmp_path: Path) -> None:
    done = export(phantom_cases, tmp_path / "s", Wish(("anna",), 0, 2, "masks"), None, silent)
    rows = rows_of(tmp_path / "s" / "anna" / "anna-masks.xlsx")["part 1"]
    assert done.sheets == (("anna/anna-masks.xlsx", 3),)
    assert {row[columns.STATE] for row in rows} == {"present", "absent"}
    assert all(row[columns.ID].startswith("m-p") for row in rows)
    assert json.loads((tmp_path / "s" / columns.BATCH_FILE).read_text())["benchmark"]["version"] is None
    # Three pictures of a present finding, outline and lungs as layers over the radiograph; one of an absent one.
    present = sum(row[columns.STATE] == "present" for row in rows)
    endings = collections.Counter(path.suffix for path in (tmp_path / "s" / "anna" / "pictures").iterdir())
    assert endings == {".jpg": 3, ".png": 2 * present}


def test_masks_of_real_radiographs_are_shown_at_their_own_proportions(
    real_data: Path, tmp_path: Path, cli: Cli
) -> None:
    data = real_data / "radiographs"
    manifest = tmp_path / "cases.jsonl"
    folders = ("--images", data / "images", "--masks", data / "masks")
    assert cli("ingest", "masks", *folders, "--access", "open", "-o", manifest)[0] == 0
    export(manifest, tmp_path / "s", Wish(("anna",), 0, 2, "masks"), data, silent)
    path = tmp_path / "s" / "anna" / "anna-masks.xlsx"
    assert {row[columns.FINDING] for row in rows_of(path)["part 1"]} == {"cardiomegaly", "consolidation", "opacity"}
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.startswith("xl/media/")]
        sizes = [Image.open(io.BytesIO(archive.read(name))).size for name in names]
    # Two pictures side by side fill the column; one of the three radiographs is not square.
    assert {width for width, _ in sizes} == {640}
    assert len({height for _, height in sizes}) == 2


def test_masks_as_csv_have_the_published_columns(phantom_cases: Path, tmp_path: Path) -> None:
    export(phantom_cases, tmp_path / "s", Wish(("anna",), 0, 2, "masks", csv=True), None, silent)
    path = tmp_path / "s" / "anna" / "anna-masks.csv"
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {"key_id", "dicom_id", "target", "plot_path", "optimal?"} <= set(rows[0])
    for row in rows:
        assert row["optimal?"] == ""
        assert columns.checksum(row) == row[columns.CHECKSUM]
        assert (path.parent / row["plot_path"]).is_file()
    said = path.with_suffix(".txt").read_text()
    assert "Drawn phantoms: a software test, without clinical meaning." in said
    assert "Under 'optimal?' write y" in said


def test_a_case_that_cannot_be_shown_is_left_out_and_named(phantom_cases: Path, tmp_path: Path, cli: Cli) -> None:
    folder = tmp_path / "cases"
    shutil.copytree(phantom_cases.parent, folder)
    broken = json.loads((folder / "cases.jsonl").read_text().splitlines()[0])
    (folder / broken["image"]).write_bytes(b"no picture")
    code, out, err = cli("review", "export", folder, "-o", tmp_path / "s", "--reviewers", "anna", "--what", "masks")
    assert code == 0, err
    assert "left out:" in err
    assert Path(broken["image"]).name in err
    assert "2 cases to judge" in out


# What the command says, and what it refuses.


def test_the_command_tells_what_it_wrote_and_what_comes_next(small: Path, tmp_path: Path, cli: Cli) -> None:
    code, out, err = cli("review", "export", small, "-o", tmp_path / "s", "--reviewers", "2", "--seed", "3")
    assert (code, err) == (0, "")
    assert "reviewer-a-1-blind-part-1/reviewer-a-1-blind-part-1.xlsx: " in out
    assert f"chexqa review import RETURNED --batch {tmp_path / 's'}" in out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--reviewers", "anna,../ben"], "'../ben' cannot be a reviewer's name"),
        (["--reviewers", "anna,Anna"], "a name is given twice"),
        (["--reviewers", "0"], "a number from 1 to 26"),
        (["--reviewers", "anna,,ben"], "'' cannot be a reviewer's name"),
        (["--reviewers", "2", "--overlap", "1.5"], "a share between 0 and 1"),
        (["--reviewers", "1", "--overlap", "0.2"], "name more reviewers, or give --overlap 0"),
        (["--reviewers", "2", "--overlap-readers", "3"], "number of reviewers (2)"),
        (["--reviewers", "2", "--sample", "0"], "a number of cases, at least 1"),
        (["--reviewers", "2", "--sample", "7"], "there are only 5 cases to choose from"),
        (["--reviewers", "2", "--only", "flagged"], "no case has a flagged item"),
        (["--reviewers", "2", "--format", "csv"], "only mask sheets can be csv files"),
        (["--reviewers", "2", "--what", "masks", "--blind-answers"], "'--what masks' exports no questions"),
        (["--reviewers", "12"], "would get no case, because there are only 5 cases to judge; name fewer reviewers"),
    ],
)
def test_wrong_wishes_are_refused_in_one_sentence_and_leave_nothing(
    small: Path, tmp_path: Path, cli: Cli, options: list[str], said: str
) -> None:
    before = sorted(tmp_path.iterdir())
    code, out, err = cli("review", "export", small, "-o", tmp_path / "s", *options)
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err
    assert sorted(tmp_path.iterdir()) == before


def test_a_folder_with_sheets_is_never_written_over(sheets: Path, small: Path) -> None:
    before = (sheets / columns.BATCH_FILE).read_bytes()
    with pytest.raises(InputError, match="its sheets may be filled in"):
        exported(small, sheets)
    assert (sheets / columns.BATCH_FILE).read_bytes() == before


def test_a_benchmark_without_its_key_cannot_be_reviewed(tiny_benchmark: Path, tmp_path: Path) -> None:
    (tiny_benchmark / benchmark.ANSWERS).unlink()
    with pytest.raises(InputError, match="needs the key"):
        exported(tiny_benchmark, tmp_path / "s")


def test_names_are_kept_as_given_and_numbers_become_names() -> None:
    assert reviewer_names("Anna Müller, b-2") == ("Anna Müller", "b-2")
    assert reviewer_names("3") == ("reviewer-a", "reviewer-b", "reviewer-c")
    assert reviewer_names("²") == ("²",)


# A real spreadsheet program.


@pytest.mark.long
def test_libreoffice_saves_a_sheet_with_every_cell_and_picture(sheets: Path, tmp_path: Path) -> None:
    program = shutil.which("soffice")
    if program is None:
        pytest.skip("LibreOffice (soffice) is not installed")
    path = sheets / "anna-1-blind-part-2" / "anna-1-blind-part-2.xlsx"
    command = [program, f"-env:UserInstallation=file://{tmp_path}/profile", "--headless", "--convert-to", "xlsx",
               "--outdir", str(tmp_path / "again"), str(path)]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    again = tmp_path / "again" / path.name
    before, after = rows_of(path), rows_of(again)
    assert list(after) == list(before)
    for tab, rows in before.items():
        for old, new in zip(rows, after[tab], strict=True):
            texts = {title: str(value) for title, value in new.items() if title and value is not None}
            assert columns.checksum(texts) == old[columns.CHECKSUM] == new[columns.CHECKSUM]
    with zipfile.ZipFile(path) as old_file, zipfile.ZipFile(again) as new_file:
        pictures = [sum(name.startswith("xl/media/") for name in file.namelist()) for file in (old_file, new_file)]
    assert pictures[0] == pictures[1] > 0
    sheet = openpyxl.load_workbook(again).worksheets[1]
    assert sheet.protection.sheet
    assert len(sheet.data_validations.dataValidation) >= 2
