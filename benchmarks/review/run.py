"""Time, file sizes and memory of a review: export, import, sheets with proposals, figures, and the next version.

    python benchmarks/review/run.py [CASES|FOLDER] [--page-only]

A benchmark of 2,100 cases (about 10,400 items) is made from a few phantoms, or read from the subfolder `bench` of
FOLDER. The script fills in and imports the sheets of six reviewers. It prints the seconds of each step, the peak
memory, and the sizes of folders and files. LibreOffice, if installed, opens the largest file. With `--page-only` there
are review pages instead of sheets, and Chromium opens the largest one.
"""

from __future__ import annotations

import dataclasses
import io
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path

import numpy as np
import openpyxl
from openpyxl.utils import get_column_letter

from chexqa import question_banks
from chexqa.cli.main import run as chexqa
from chexqa.contract import benchmark
from chexqa.contract.benchmark import Benchmark, Contents, Origin, image_path, thumb_path
from chexqa.contract.items import Answer, CaseKey, Item, Picture
from chexqa.files.jsonio import sha256, write_json
from chexqa.files.terminal import progress
from chexqa.generators.pipeline import generate_benchmark, recipe
from chexqa.generators.pipeline.job import make_job
from chexqa.imaging import png
from chexqa.imaging.read import decode_png
from chexqa.phantoms import write_cases
from chexqa.review import columns
from chexqa.review.collect.read_page import WHAT
from chexqa.review.page.answers import ANSWERS, page_data
from chexqa.review.page.write_page import PAGES, write_page
from chexqa.review.sheets.export import Wish, export

REVIEWERS = tuple("abcdef")
MEGABYTE = 2**20
DAY = "2026-03-01T10:00:00Z"


def jpeg_with_comment(data: bytes, text: str) -> bytes:
    """Return the JPEG with a comment inserted after its first marker."""
    body = text.encode()
    return data[:2] + b"\xff\xfe" + (len(body) + 2).to_bytes(2, "big") + body + data[2:]


def moved(data: bytes, number: int) -> bytes:
    """Return the PNG with its pixels shifted cyclically; every ``number`` below 4,096 gives a different shift."""
    return png.encode(np.roll(decode_png(data, "a picture:"), divmod(number, 64), (0, 1)))


def copy_of(bench: Benchmark, number: int, folder: Path) -> Callable[[str], str]:
    """Return a function that copies a picture and its thumbnail into ``folder``; it returns the copy's path.

    ``number`` (0 to 4,095) changes each copy slightly; copies of a picture that were made with other numbers differ.
    """
    done: dict[str, str] = {}

    def copy(image: str) -> str:
        if image not in done:
            full = moved(bench.image_bytes(image), number)
            path = image_path(sha256(full))
            thumb = jpeg_with_comment(bench.thumb_bytes(image), f"copy {number}")
            for place, data in ((path, full), (thumb_path(path), thumb)):
                (folder / place).parent.mkdir(parents=True, exist_ok=True)
                (folder / place).write_bytes(data)
            done[image] = path
        return done[image]

    return copy


def copied_item(item: Item, case_id: str, copy: Callable[[str], str]) -> Item:
    """Return a copy of the item for the case ``case_id``; ``copy`` copies a picture and returns the new path."""

    def copied(pictures: tuple[Picture, ...]) -> tuple[Picture, ...]:
        return tuple(dataclasses.replace(picture, image=copy(picture.image), control=None) for picture in pictures)

    options = tuple(dataclasses.replace(option, image=option.image and copy(option.image)) for option in item.options)
    return dataclasses.replace(
        item,
        item_id=f"{case_id}/{item.kind}",
        case_id=case_id,
        options=options,
        turn_images=copied(item.turn_images),
        alone_images=copied(item.alone_images),
    )


def large_benchmark(seed_bench: Benchmark, folder: Path, count: int) -> int:
    """Write a benchmark of ``count`` cases, copied from ``seed_bench``, into ``folder``; return its number of items."""
    answers, keys = seed_bench.key("the benchmark")
    by_path: dict[str, list[str]] = {}
    for case_id, key in keys.items():
        if key.path is not None:
            by_path.setdefault(key.path, []).append(case_id)
    items: list[Item] = []
    new_answers: list[Answer] = []
    cases: list[CaseKey] = []
    for number in range(count):
        pool = list(by_path.values())[number % len(by_path)]
        old = pool[(number // len(by_path)) % len(pool)]
        case_id = f"c{number:012x}"
        copy = copy_of(seed_bench, number, folder)
        cases.append(
            dataclasses.replace(keys[old], case_id=case_id, source_case_id=f"s{number}", patient_id=f"p{number}")
        )
        for item in (item for item in seed_bench.items if item.case_id == old and item.level is not None):
            items.append(copied_item(item, case_id, copy))
            new_answers.append(dataclasses.replace(answers[item.item_id], item_id=items[-1].item_id))
    origin = Origin("large", "1", 0, (recipe.load("chexpercept").to_record(),), question_banks.load("en"), "phantom")
    benchmark.write_files(folder, origin, Contents(tuple(items), tuple(new_answers), tuple(cases)))
    return len(items)


def fill(path: Path, said: Callable[[str], dict[str, str]]) -> None:
    """Fill in a workbook; ``said`` returns the texts for a row's id, keyed by column title."""
    typed: dict[str, dict[bytes, str]] = {}
    for number, tab in enumerate(openpyxl.load_workbook(path, read_only=True).worksheets, start=1):
        lines = tab.iter_rows(values_only=True)
        titles = [str(cell) for cell in next(lines)]
        if columns.ID not in titles:
            continue
        letters = {title: get_column_letter(place) for place, title in enumerate(titles, start=1)}
        cells = typed.setdefault(f"xl/worksheets/sheet{number}.xml", {})
        for row, line in enumerate(lines, start=2):
            for title, text in said(str(line[titles.index(columns.ID)])).items():
                cells[f"{letters[title]}{row}".encode()] = text

    def write(found: re.Match[bytes], cells: dict[bytes, str]) -> bytes:
        text = cells.get(found[1])
        if text is None:
            return found[0]
        return b'<c r="%b" s="%b" t="inlineStr"><is><t>%b</t></is></c>' % (found[1], found[2], text.encode())

    copy = path.with_suffix(".filled")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(copy, "w", zipfile.ZIP_DEFLATED) as new:
        for part in old.infolist():
            data = old.read(part)
            cells = typed.get(part.filename)
            if cells:
                data = re.sub(rb'<c r="([A-Z]+[0-9]+)" s="([0-9]+)"/>', partial(write, cells=cells), data)
            new.writestr(part, data)
    copy.replace(path)


def answer(row: str) -> dict[str, str]:
    """Return what a reader enters into a row to choose option 1, keyed by column title."""
    return {columns.ANSWER: "1"}


def accept(row: str) -> dict[str, str]:
    """Return what a reviewer enters into a row to accept its proposal, keyed by column title."""
    return {columns.VERDICT: "accept"}


def timed(words: str, *arguments: object) -> None:
    """Run a ``chexqa`` command and print its seconds after ``words``; end the script if the command fails."""
    start, cpu_before = time.perf_counter(), time.process_time()
    with redirect_stdout(io.StringIO()):
        code = chexqa([str(argument) for argument in arguments])
    cpu = time.process_time() - cpu_before
    print(f"{words}: {time.perf_counter() - start:.0f} s elapsed, {cpu:.1f} s of processor time", flush=True)
    if code:
        raise SystemExit(f"{words}: exit code {code}")


def take_back(bench: Path, sheets: Path) -> None:
    """Fill in and import the blind sheets, then the sheets with proposals; write the benchmark's next version."""
    for path in sheets.glob("*-1-blind*/*.xlsx"):
        fill(path, answer)
    timed("import of the blind sheets", "review", "import", sheets)
    timed("sheets with proposals written", "review", "open", sheets)
    print_folders(sheets)
    for path in sheets.glob("*-2/*-2.xlsx"):
        fill(path, accept)
    timed("import of all sheets", "review", "import", sheets)
    use(bench, sheets)


def answer_page(page: Path, folder: Path) -> None:
    """Write into ``folder`` the file that a page saves when every row is judged."""
    data = page_data(page)
    cells = {columns.ANSWER: "1"} if data["blind"] else {columns.VERDICT: columns.ACCEPT}
    change = {"id": "t-1", "at": DAY, "cells": cells}
    rows = [{"tab": row["tab"], "row": row["row"], "cells": row["cells"] | cells, "changes": [change],
             "seconds": None, "contour": None} for row in data["rows"]]  # fmt: skip
    about = {"what": WHAT, "schema_version": 1, "saved": DAY, "locked": data["blind"], "rows": rows}
    about |= {key: data[key] for key in ("page", "batch", "sheet", "reviewer")}
    folder.mkdir(exist_ok=True)
    write_json(folder / f"{data['page']}.json", about, "page_answers")


def take_back_pages(bench: Path, sheets: Path) -> None:
    """Fill in and import the blind pages, then the pages with proposals; write the benchmark's next version."""
    for page in sorted((sheets / PAGES).iterdir()):
        answer_page(page, sheets / ANSWERS)
    timed("import of the blind pages", "review", "import", sheets)
    timed("pages with proposals written", "review", "open", sheets, "--page-only")
    for home in sorted(sheets.glob("*-2")):
        print_folders(home / PAGES)
        answer_page(home / PAGES / home.name, sheets / ANSWERS)
    timed("import of all pages", "review", "import", sheets)
    use(bench, sheets)
    largest = max(sheets.glob("*-2/pages/*/review.html"), key=lambda path: path.stat().st_size)
    print(opened_by_chromium(largest))


def use(bench: Path, sheets: Path) -> None:
    """Run the commands that use the imported verdicts (status, agreement, validity, apply), and print their times."""
    timed("status", "review", "status", sheets)
    timed("agreement", "review", "agreement", bench, sheets)
    timed("validity", "review", "validity", bench, sheets)
    timed("next version written", "review", "apply", bench, sheets, "-o", sheets / "next")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory of all steps: {peak:.0f} MB")


def opened_by_chromium(page: Path) -> str:
    """Open a page in Chromium; return a sentence with the times until the first and the second row are shown."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1366, "height": 660})
        start = time.perf_counter()
        tab.goto(page.as_uri())
        tab.wait_for_selector("body[data-shown]", timeout=600_000)
        first = time.perf_counter() - start
        tab.evaluate("show(at + 1)")
        tab.wait_for_selector("body[data-shown='1']", timeout=600_000)
        second, rows = time.perf_counter() - start - first, tab.evaluate("DATA.rows.length")
        browser.close()
    return (f"Chromium showed the first of {rows:,} rows of {page.stat().st_size / MEGABYTE:.1f} MB in {first:.1f} s, "
            f"the next one in {second:.2f} s")  # fmt: skip


def print_folders(sheets: Path) -> None:
    """Print the size of each folder in ``sheets``, such as the folder of one reviewer."""
    for home in sorted(path for path in sheets.iterdir() if path.is_dir()):
        size = sum(path.stat().st_size for path in home.rglob("*") if path.is_file())
        print(f"folder {home.name}: {size / MEGABYTE:.1f} MB", flush=True)


def opened_by_libreoffice(path: Path, folder: Path) -> str:
    """Return a sentence that says how long LibreOffice took to open and save a file, or that it is missing."""
    if shutil.which("soffice") is None:
        return "LibreOffice is not installed, so the largest file was not opened"
    start = time.perf_counter()
    command = ["soffice", f"-env:UserInstallation=file://{folder}/profile", "--headless", "--convert-to", "xlsx",
               "--outdir", str(folder / "opened"), str(path)]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    size = (folder / "opened" / path.name).stat().st_size / MEGABYTE
    return f"LibreOffice opened the largest file and saved it ({size:.0f} MB) in {time.perf_counter() - start:.0f} s"


def main(count: int, page_only: bool = False, made: Path | None = None) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = made or Path(name)
        if made is None:
            manifest = write_cases(folder / "cases", 21, seed=1)
            job = make_job([recipe.load("chexpercept")], question_banks.load("en"), seed=1)
            generate_benchmark.generate(manifest, folder / "seed", job)
            (folder / "bench").mkdir()
            large_benchmark(benchmark.load(folder / "seed"), folder / "bench", count)
        sheets = Path(name) / "sheets"
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        start, cpu_before = time.perf_counter(), time.process_time()
        wish = Wish(REVIEWERS, 0.2, 2, planted=0.05, both_parts=False, page_only=page_only)
        done = export(folder / "bench", sheets, wish, None, progress, write_page if page_only else None)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu_before
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        rows = sum(count for _, count in done.sheets)
        files = [page.file for page in done.pages] if page_only else [file for file, _ in done.sheets]
        largest = max((sheets / file for file in files), key=lambda path: path.stat().st_size)
        print(f"{done.cases:,} cases; {len(done.sheets)} blind sheets (without the key) with {rows:,} rows")
        print(f"export: {seconds:.1f} s elapsed, {cpu:.1f} s of processor time")
        print(f"peak memory {peak:.0f} MB ({before:.0f} MB before the export)")
        print_folders(sheets / PAGES if page_only else sheets)
        print(f"largest file {largest.name}: {largest.stat().st_size / MEGABYTE:.1f} MB")
        if page_only:
            take_back_pages(folder / "bench", sheets)
        else:
            take_back(folder / "bench", sheets)
            print(opened_by_libreoffice(largest, Path(name)))


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    numbers = [word for word in words if word.isdecimal()]
    folders = [Path(word) for word in words if not word.isdecimal()]
    main(int(numbers[0]) if numbers else 2100, "--page-only" in sys.argv, folders[0] if folders else None)
