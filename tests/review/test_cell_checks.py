"""A cell turns orange where import reads nothing in it: LibreOffice works out the formulas, import reads the texts."""

from __future__ import annotations

import csv
import random
from pathlib import Path

import pytest
import xlsxwriter
from review_sheets import converted, write_small

from chexqa.contract import benchmark
from chexqa.contract.items import Item
from chexqa.review.cell_words import parse_answer, typed_words
from chexqa.review.sheets.cell_checks import not_cells, not_several

pytestmark = pytest.mark.xdist_group("sheets")

CELLS = ("F4", "f 4", "4F", "4-f", "F.4", "f4, G4", "F4 g4", "a1; b2 / c3", "F 4, G 4", "F4 and G5", "F4 F4",
         "z9", "I1", "a9", "F", "44", "f--4", "F4, z9", "F4 nonsense", "4", "yes", "F44", "f4g4", " h8 ")  # fmt: skip
SEVERAL = ("1", "1, 3", "1 3", "3;1", "1+2", "1 and 2", "2&3", "none", "None of these", "1, none", "9", "0", "1, 9",
           "1 x", "nonsense", "1..2", "yes", " 2 ", "1\n2", "first", "1, 1")  # fmt: skip


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Item, bool, str]]:
    """Items with typed texts, and whether a list of cells is read: those above, and lists of what an item reads."""
    bench = benchmark.load(write_small(tmp_path_factory.mktemp("small") / "bench"))
    rng = random.Random(3)
    cases: list[tuple[Item, bool, str]] = []
    seen: set[str] = set()
    for item in bench.items:
        if item.kind in seen or (item.form.lists_options and not item.form.takes_several):
            continue
        seen.add(item.kind)
        if not item.form.lists_options:
            cases += [(item, several, text) for several in (True, False) for text in CELLS]
            continue
        words = [word for word in typed_words(item) if "," not in word]
        lists = [rng.choice((", ", "; ", " and ")).join(rng.sample(words, rng.randint(1, 3))) for _ in range(12)]
        cases += [(item, False, text) for text in (*SEVERAL, *lists)]
    return cases


def test_orange_cells_are_those_that_are_not_read(asked: list[tuple[Item, bool, str]], tmp_path: Path) -> None:
    book = xlsxwriter.Workbook(str(tmp_path / "formulas.xlsx"))
    tab = book.add_worksheet()
    for row, (item, several, text) in enumerate(asked, start=1):
        tab.write_string(row - 1, 0, text)
        if item.form.lists_options:
            alone = typed_words(item, only=len(item.options))
            formula = not_several(f"$A{row}", typed_words(item), alone)
        else:
            formula = not_cells(f"$A{row}", several)
        # Without a stored result LibreOffice works it out.
        tab.write_formula(row - 1, 1, f"=IF({formula},1,0)", None, "")
    book.close()
    (made,) = converted([tmp_path / "formulas.xlsx"], "csv", tmp_path / "out", tmp_path / "profile")
    with made.open(newline="") as file:
        orange = [line[1] for line in csv.reader(file)]
    wrong = [
        (item.kind, several, text, mark)
        for (item, several, text), mark in zip(asked, orange, strict=True)
        if (mark == "1") != (parse_answer(item, text, several) is None)
    ]
    assert not wrong
    assert {"0", "1"} == set(orange)
