"""Simulated reviewers who fill exported sheets, and programs that save the sheets in their own way."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from handmade import Handmade

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Answer, Item
from chexqa.review import columns
from chexqa.review.columns import item_row_id

# A reviewer: a function from an item and its key to the text of the fill-in cells, by title.
Reviewer = Callable[[Item, Answer], dict[str, str]]


def write_small(folder: Path) -> Path:
    """Write a benchmark of five handmade cases with all ten kinds of items; two cases are of the same patient."""
    folder.mkdir()
    made = Handmade(folder)
    made.case("a", "effusion", "lesion_free", detection=(2,))
    made.case("b", "effusion", "revision_free", contour_evaluation=(2,), location=(1, 3), grid=(10, 11))
    made.case("c", "effusion", "revision_required", patient="patient-b", revision_expansion=(1, 3),
              revision_contraction=(5,), revision_result=(3,), distribution=(2,), grid=(7,))  # fmt: skip
    made.case("d", "cardiomegaly", "revision_required", revision_expansion=(2,), revision_contraction=(1, 4))
    made.case("e", "edema", "revision_free", contour_evaluation=(2,), location=(4,), comparison=(4,))
    return made.write()


def work_tabs(book: Any) -> list[Any]:
    """Return the tabs of a workbook whose first row has the title ``id``."""
    return [tab for tab in book.worksheets if any(cell.value == columns.ID for cell in tab[1])]


def titles_of(tab: Any) -> dict[str, int]:
    """Return the column numbers (from 1) of a tab by title."""
    return {str(cell.value): cell.column for cell in tab[1] if cell.value}


def fill(path: Path, said: Callable[[str], dict[str, str]], out: Path | None = None) -> Path:
    """Write into each row the cells that ``said`` returns for its id, by title.

    The workbook is saved as ``out`` or, without ``out``, replaced.
    """
    book = openpyxl.load_workbook(path)
    for tab in work_tabs(book):
        titles = titles_of(tab)
        for row in range(2, tab.max_row + 1):
            for title, text in said(str(tab.cell(row, titles[columns.ID]).value)).items():
                tab.cell(row, titles[title]).value = text
    book.save(out or path)
    return out or path


def sheets_of(folder: Path, name: str) -> list[Path]:
    """Return the files of a sheet of an export, one for each of its parts, in the order of work."""
    parts = sorted(folder.glob(f"{name}-part-*/*.xlsx"))
    return parts or list(folder.glob(f"*/{name}.xlsx"))


def fill_all(folder: Path, name: str, said: Callable[[str], dict[str, str]]) -> None:
    """Fill every part of a sheet as :func:`fill` does."""
    for path in sheets_of(folder, name):
        fill(path, said)


def as_reviewer(bench: Benchmark, review: Reviewer) -> Callable[[str], dict[str, str]]:
    """Return the argument ``said`` of :func:`fill` for a reviewer of a benchmark's items."""
    answers = bench.answers or {}
    items = {item_row_id(item.item_id): item for item in bench.items}
    return lambda row: review(items[row], answers[items[row].item_id])


def answer_cells(item: Item, answer: Iterable[int], title: str) -> dict[str, str]:
    """Return the cells that give an answer: one under ``title``, or ``yes`` under the options."""
    numbers = sorted(answer)
    if item.multi:
        return {columns.option_title(number): columns.YES for number in numbers}
    return {title: columns.choices(item)[numbers[0] - 1]}


def another_answer(item: Item, key: Answer, rng: random.Random) -> tuple[int, ...]:
    """Return a random wrong answer."""
    if not item.multi:
        return (rng.choice([option.n for option in item.options if option.n not in key.answer]),)
    none = len(item.options)
    while True:
        chosen = tuple(n for n in range(1, none) if rng.random() < 0.5) or (none,)
        if chosen != key.answer:
            return chosen


def rows_in(path: Path) -> list[dict[str, str]]:
    """Return all rows of a workbook's work tabs as text by title, as openpyxl reads them."""
    rows = []
    for tab in work_tabs(openpyxl.load_workbook(path, read_only=False, data_only=True)):
        titles = titles_of(tab)
        for row in range(2, tab.max_row + 1):
            rows.append({title: str(tab.cell(row, place).value or "") for title, place in titles.items()})
    return rows


def rezip(path: Path, change: Callable[[str, bytes], bytes | None], extra: dict[str, bytes] | None = None) -> Path:
    """Rewrite a zip file's parts by ``change(name, bytes)``, ``None`` to drop one; ``extra`` parts are added."""
    with zipfile.ZipFile(path) as archive:
        parts = [(info.filename, archive.read(info)) for info in archive.infolist()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts:
            new = change(name, data)
            if new is not None:
                archive.writestr(name, new)
        for name, data in (extra or {}).items():
            archive.writestr(name, data)
    return path


def with_shared_strings(path: Path) -> Path:
    """Rewrite a workbook as Excel writes it, and return its path.

    Texts are in one table, and some consist of runs with different formatting.
    """
    table: list[bytes] = []

    def cell(found: re.Match[bytes]) -> bytes:
        text = found[2]
        half = text.find(b" ") + 1
        runs = b"".join(b'<r><t xml:space="preserve">' + part + b"</t></r>" for part in (text[:half], text[half:]))
        table.append(runs if half else b'<t xml:space="preserve">' + text + b"</t>")
        return found[1] + b't="s"><v>%d</v></c>' % (len(table) - 1)

    def change(name: str, data: bytes) -> bytes | None:
        if name.startswith("xl/worksheets/sheet"):
            return re.sub(rb'(<c [^>]*?)t="inlineStr"[^>]*><is><t[^>]*>([^<]*)</t></is></c>', cell, data)
        if name == "[Content_Types].xml":
            return data.replace(b"</Types>", _SHARED_TYPE + b"</Types>")
        if name == "xl/_rels/workbook.xml.rels":
            return data.replace(b"</Relationships>", _SHARED_LINK + b"</Relationships>")
        return data

    rezip(path, change)
    strings = b"".join(b"<si>" + text + b"</si>" for text in table)
    return rezip(path, lambda name, data: data, {"xl/sharedStrings.xml": _SST % strings})


_MAIN = b"http://schemas.openxmlformats.org"
_SHARED_TYPE = (
    b'<Override PartName="/xl/sharedStrings.xml" ContentType="application/vnd.openxmlformats-officedocument.'
    b'spreadsheetml.sharedStrings+xml"/>'
)
_SHARED_LINK = (
    b'<Relationship Id="rIdShared" Target="sharedStrings.xml" Type="' + _MAIN
    + b'/officeDocument/2006/relationships/sharedStrings"/>'
)  # fmt: skip
_SST = b'<sst xmlns="' + _MAIN + b'/spreadsheetml/2006/main">%b</sst>'


def soffice() -> str:
    """Return the path of LibreOffice's program; skip the test if LibreOffice is not installed."""
    found = shutil.which("soffice") or shutil.which("libreoffice")
    if found is None:
        pytest.skip("LibreOffice (soffice) is not installed")
    return found


def converted(paths: Iterable[Path], to: str, folder: Path, profile: Path) -> list[Path]:
    """Convert files by a headless LibreOffice into ``folder``; return the new files.

    ``to`` is the value of LibreOffice's option ``--convert-to``.
    """
    command = [soffice(), f"-env:UserInstallation=file://{profile}", "--headless", "--norestore", "--convert-to", to]
    done = subprocess.run(
        [*command, "--outdir", str(folder), *map(str, paths)], capture_output=True, text=True, timeout=240, check=False
    )
    made = sorted(folder.iterdir()) if folder.is_dir() else []
    assert made, done.stderr
    return made
