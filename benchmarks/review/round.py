"""A complete review by six simulated readers, who judge about 210 items on the review page in a real browser.

    python benchmarks/review/round.py [CASES]

CASES is the number of phantoms in the benchmark (default: 38). The review has these steps:

1. The readers answer all questions blind, by keyboard.
2. They judge the proposals, by keyboard. Their answers are imported from the page and, in a separate test, from a
   spreadsheet; both imports must give the same ``verdicts.jsonl``.
3. A rejected mask is redrawn, and another reader signs it.
4. The benchmark is generated again, and the verdicts are carried over.

In steps 1 and 2, the script reloads the page several times and makes it crash. It prints the keys pressed and the
seconds of each step, and fails if an answer is lost.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import openpyxl
from playwright.sync_api import Browser, Error, Page, sync_playwright

from chexqa.cli.main import run
from chexqa.contract import benchmark
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.cases import load_case, read_manifest
from chexqa.contract.items import Answer, Item
from chexqa.review import columns
from chexqa.review.collect.import_sheets import ImportOptions, import_sheets

READERS = ("anna", "ben", "carla", "dora", "emil", "fatima")
DAY = "2026-03-01T00:00:00+00:00"
_DATA = re.compile(r'<script id="data" type="application/json">(.*?)</script>', re.DOTALL)


def chexqa(*args: object) -> None:
    """Run a ``chexqa`` command; end the script if the command fails."""
    words = [str(arg) for arg in args]
    code = run(words)
    if code:
        raise SystemExit(f"'chexqa {' '.join(words)}' failed with exit code {code}")


def page_data(page: Path) -> dict[str, Any]:
    """Return the data that the script inside a review page reads."""
    found = _DATA.search((page / "review.html").read_text(encoding="utf-8"))
    assert found is not None, page
    data: dict[str, Any] = json.loads(found[1])
    return data


class Reader:
    """A simulated reader at the keyboard; ``keys`` counts the keys pressed, by purpose."""

    def __init__(self, browser: Browser, keys: Counter[str], rng: random.Random) -> None:
        self._context = browser.new_context(viewport={"width": 1366, "height": 660})
        self._context.add_init_script("delete window.showSaveFilePicker")
        self.page: Page = self._context.new_page()
        self._keys, self._rng = keys, rng

    def open(self, folder: Path) -> None:
        """Open the page in ``folder`` and wait until it has read its stored answers."""
        self.page.goto((folder / "review.html").as_uri())
        self.page.wait_for_selector("body[data-ready]")

    def press(self, purpose: str, *keys: str) -> None:
        """Press keys and count them under the name ``purpose``."""
        for key in keys:
            self.page.keyboard.press(key)
        self._keys[purpose] += len(keys)

    def work(self, folder: Path, keys_of: dict[str, list[str]], purpose: str) -> None:
        """Judge every row of the page in ``folder`` by pressing the row's keys, and check that no verdict is lost.

        The script reloads the page a few times and makes it crash once; all verdicts must still be there.

        - ``keys_of``: the keys to press for each row, keyed by the row's id.
        - ``purpose``: the name under which the pressed keys are counted.
        """
        self.open(folder)
        rows = page_data(folder)["rows"]
        crash = self._rng.randrange(len(rows))
        for number, row in enumerate(rows):
            self.page.wait_for_selector(f"body[data-shown='{number}']")
            self.press(purpose, *keys_of[row["id"]])
            self.page.locator("#saved", has_text="kept in this browser").wait_for()
            if number == crash or self._rng.random() < 0.08:
                self._again(folder, number == crash)
                done = self.page.evaluate("DATA.rows.filter((row) => answers.judged(row.id)).length")
                assert done == number + 1, f"after loading the page again, {done} of {number + 1} answers are there"
                self.page.evaluate(f"show({number})")
            self.press(purpose, "Enter")

    def _again(self, folder: Path, crash: bool) -> None:
        if not crash:
            self.page.reload()
            self.page.wait_for_selector("body[data-ready]")
            return
        with suppress(Error):
            self.page.goto("chrome://crash", timeout=3000)
        self.page = self._context.new_page()
        self.open(folder)

    def save(self, out: Path, close: bool = False) -> Path:
        """Save the answers into the folder ``out`` and return the file.

        If ``close`` is True, close the part; its answers are then final.
        """
        with self.page.expect_download() as download:
            if close:
                self.page.click("#lock")
                self.page.click("#closing-yes")
            else:
                self.page.keyboard.press("Control+s")
        path = out / download.value.suggested_filename
        download.value.save_as(path)
        return path


def answer_keys(item: Item, answer: tuple[int, ...]) -> list[str]:
    """Return the keyboard keys that give an answer on the page."""
    if not item.form.lists_options:
        return list(str(item.options[answer[0] - 1].text).lower() if answer else "a1")
    return [str(number) for number in answer]


def right_or_wrong(item: Item, key: Answer, rng: random.Random) -> tuple[int, ...]:
    """Return the right answer with a probability of 90 %, otherwise the next option."""
    if item.form.takes_several or not item.form.lists_options or rng.random() < 0.9:
        return key.answer if item.form.lists_options else key.answer[:1]
    return (key.answer[0] % len(item.options) + 1,)


def same_bytes(saved: Path, sheet: Path, batch: Path, work: Path) -> None:
    """Raise ``AssertionError`` unless a page and a sheet with the same answers give identical files of verdicts.

    - ``saved``: the saved page; its answers are copied into the sheet.
    - ``sheet``: the workbook with the same rows as the page.
    - ``batch``: the exported folder.
    - ``work``: a folder for the filled sheet and the imported verdicts.
    """
    rows = {row["cells"][columns.ID]: row["cells"] for row in json.loads(saved.read_text())["rows"]}
    book = openpyxl.load_workbook(sheet)
    for tab in book.worksheets:
        titles = {str(cell.value): cell.column for cell in tab[1] if cell.value}
        for number in range(2, tab.max_row + 1) if columns.ID in titles else ():
            cells = rows.get(str(tab.cell(number, titles[columns.ID]).value), {})
            for title in (columns.VERDICT, columns.CORRECTED, columns.REASON, columns.COMMENT, *titles):
                if title in cells and (title in titles) and (title in _FILLED or columns.option_number(title)):
                    tab.cell(number, titles[title]).value = cells[title]
    typed = work / sheet.name
    book.save(typed)
    stores = [work / f"{sheet.stem}-{way}" / "verdicts.jsonl" for way in ("page", "sheet")]
    for source, store in zip((saved, typed), stores, strict=True):
        store.parent.mkdir()
        done = import_sheets(ImportOptions([source], batch, store, day=DAY))
        assert done.problems == [], done.problems
    assert stores[0].read_bytes() == stores[1].read_bytes(), sheet


_FILLED = {columns.VERDICT, columns.CORRECTED, columns.REASON, columns.COMMENT}


def review_items(browser: Browser, bench: Benchmark, folder: Path, keys: Counter[str]) -> str:
    """Let all readers answer blind, then judge the proposals; return the id of the case with a rejected outline."""
    answers, items = bench.answers or {}, {columns.item_row_id(item.item_id): item for item in bench.items}
    sheets, rng = folder / "sheets", random.Random(7)
    chexqa("review", "export", bench.folder, "-o", sheets, "--reviewers", ",".join(READERS), "--page")
    back = folder / "back"
    back.mkdir()
    for name in READERS:
        for part in sorted((sheets / columns.PAGES).glob(f"{name}-1-blind*")):
            said = {}
            for row in page_data(part)["rows"]:
                item = items[row["id"]]
                said[row["id"]] = answer_keys(item, right_or_wrong(item, answers[item.item_id], rng))
            reader = Reader(browser, keys, rng)
            reader.work(part, said, "blind")
            reader.save(back, close=True)
    chexqa("review", "import", back, "--batch", sheets)
    chexqa("review", "open", sheets, "--page")
    about = json.loads((sheets / columns.BATCH_FILE).read_text())
    shown = {sheet["reviewer"]: sheet for sheet in about["sheets"] if sheet["kind"] == "items"}
    dealt = Counter(row for sheet in shown.values() for row in sheet["rows"])
    wrong = {row for sheet in shown.values() for row in sheet.get("planted", {})}
    outlines = [row for row, item in items.items() if item.stage == 2 and dealt[row] == 2 and row not in wrong]
    doubted = outlines[0]
    for name in READERS:
        part = next(iter(sheets.glob(f"{name}*/{columns.PAGES}/{name}-2")), sheets / columns.PAGES / name)
        said = {}
        for row in page_data(part)["rows"]:
            item, planted = items[row["id"]], row["id"] in shown[name].get("planted", {})
            said[row["id"]] = ["f", *answer_keys(item, answers[item.item_id].answer)] if planted else ["a"]
        if doubted in said:
            said[doubted] = ["f", "l"]
        reader = Reader(browser, keys, rng)
        reader.work(part, said, "proposals")
        saved = reader.save(back)
        same_bytes(saved, next(sheets.glob(f"{name}*/{saved.stem}.xlsx")), sheets, folder)
    chexqa("review", "import", back, "--batch", sheets)
    lines = (sheets / "verdicts.jsonl").read_text().splitlines()
    assert len(lines) == sum(len(sheet["rows"]) for sheet in about["sheets"]), "a row is missing in the store"
    return items[doubted].case_id


def redraw_mask(browser: Browser, folder: Path, keys: Counter[str]) -> Path:
    """Redraw the masks that the review rejected, let another reader sign them, and return the corrected manifest."""
    cases, rng = folder / "cases", random.Random(8)
    redrawn, signed = cases / "redrawn.jsonl", cases / "signed.jsonl"
    steps = (
        ("fatima", cases / "cases.jsonl", ["--cases", folder / "bench-2" / "mask_review.jsonl"], redrawn),
        ("emil", redrawn, ["--only", "redrawn"], signed),
    )
    for name, manifest, which, out in steps:
        sheets = folder / f"masks-{name}"
        export = ("review", "export", manifest, "--what", "masks", "--page-only", "--reviewers", name, *which)
        chexqa(*export, "-o", sheets)
        reader = Reader(browser, keys, rng)
        reader.open(sheets / columns.PAGES / f"{name}-masks")
        reader.page.wait_for_selector("body[data-shown]")
        if out == redrawn:
            reader.press("masks", "e", "4")
            point = reader.page.locator("path.drawn").bounding_box()
            assert point is not None
            reader.page.mouse.move(point["x"], point["y"] + point["height"] / 2)
            reader.page.mouse.down()
            reader.page.mouse.move(point["x"] + 30, point["y"] + point["height"] / 2, steps=4)
            reader.page.mouse.up()
            reader.press("masks", "Enter", "l")
        else:
            reader.press("masks", "a")
        reader.save(sheets)
        chexqa("review", "import", sheets)
        chexqa("review", "apply", manifest, sheets, "-o", out)
    return signed


def carry_over(browser: Browser, folder: Path, manifest: Path, keys: Counter[str]) -> None:
    """Generate the benchmark again, carry the verdicts over, judge the new items, and make the next version."""
    new, store, rest = folder / "bench-3", folder / "carried" / "verdicts.jsonl", folder / "again.txt"
    chexqa("generate", manifest, "-o", new)
    store.parent.mkdir()
    chexqa("review", "carry", folder / "bench", new, folder / "sheets", "-o", store, "--rest", rest)
    again = folder / "again"
    chexqa("review", "export", new, "--cases", rest, "--page-only", "--reviewers", "anna", "-o", again, "--planted", 0)
    reader = Reader(browser, keys, random.Random(9))
    part = again / columns.PAGES / "anna"
    reader.work(part, {row["id"]: ["a"] for row in page_data(part)["rows"]}, "again")
    reader.save(again)
    chexqa("review", "import", again, "-o", store)
    chexqa("review", "apply", new, store, "-o", folder / "bench-4")
    chexqa("validate", folder / "bench-4")


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Print the seconds that the ``with`` block took, after the name ``what``."""
    start = time.perf_counter()
    yield
    print(f"== {what}: {time.perf_counter() - start:.0f} s", flush=True)


def main(count: int) -> None:
    keys: Counter[str] = Counter()
    program = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        with timed("phantoms and benchmark"):
            chexqa("synth", folder / "cases", "--cases", count, "--size", 512)
            chexqa("generate", folder / "cases", "-o", folder / "bench")
        bench = benchmark.load(folder / "bench")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        with timed(f"{len(READERS)} readers, {len(bench.items)} items"):
            case_id = review_items(browser, bench, folder, keys)
            chexqa("review", "status", folder / "sheets")
            chexqa("review", "validity", bench.folder, folder / "sheets")
            chexqa("review", "apply", bench.folder, folder / "sheets", "-o", folder / "bench-2")
        with timed("a mask redrawn and signed"):
            manifest = redraw_mask(browser, folder, keys)
        with timed("verdicts carried over and applied"):
            carry_over(browser, folder, manifest, keys)
        browser.close()
        _, cases = bench.key("the redrawn mask")
        new_case = next(case for case in read_manifest(manifest) if case.case_id == cases[case_id].source_case_id)
        assert new_case.redrawn is not None
        assert new_case.redrawn["signed_by"] == "emil", new_case.redrawn
        before = next(case for case in read_manifest(folder / "cases") if case.case_id == new_case.case_id)
        old, new = load_case(before).source_mask, load_case(new_case).source_mask
        assert old is not None
        assert new is not None
        assert (old != new).sum() == new_case.redrawn["edited_px"]
        print("keys pressed:", ", ".join(f"{what} {number:,}" for what, number in keys.items()))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 38)
