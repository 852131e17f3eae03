"""Speed and size of a complete report: tables, page and gallery of 14 models on 11,800 items.

    python benchmarks/report/folder.py BENCH [--items N] [--models N] [--workers N] [--browser PROGRAM] [-o DIR]

Cases of BENCH are repeated or left out until there are about as many items as ``--items`` says. Simulated models
(``synthetic.py``) answer the items. With ``--browser`` the script also measures the milliseconds until this Chromium
shows a filter or an item of the gallery.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import synthetic

from chexqa.contract import benchmark
from chexqa.contract.benchmark import Benchmark, image_path, thumb_path
from chexqa.contract.items import Item, Picture
from chexqa.files.jsonio import sha256

PARTS = (
    "index.html",
    "gallery/pictures",
    "gallery/cases",
    "gallery/index",
    "gallery/first",
    "tables",
    "plots",
    "grades",
)
FILTERS = (
    "models=differ",
    "models=all_wrong&kind=location",
    "text=lobe+zone",
    "right=sim-01&wrong=sim-14",
    "state=wrong&model=sim-05",
)

_HEAD = 64  # bytes; a PNG's width and height are among them


def copies(source: Benchmark, wanted: int, folder: Path) -> Benchmark:
    """Return a benchmark with at least ``wanted`` items: the cases of ``source``, repeated under new names if needed.

    The benchmark has no case more than it needs. Its thumbnails are written into ``folder``.
    """
    assert source.answers is not None
    assert source.cases is not None
    of_case: dict[str, list[Item]] = {}
    for item in source.items:
        of_case.setdefault(item.case_id, []).append(item)
    items: list[Item] = []
    answers, cases = {}, {}
    for number, case_id in ((number, case_id) for number in count() for case_id in of_case):
        if len(items) >= wanted:
            break
        own, case = _own(case_id, number), source.cases[case_id]
        cases[own] = replace(case, case_id=own, patient_id=f"{case.patient_id}-{number}") if number else case
        for item in of_case[case_id]:
            copy = _copied(item, number, source, folder)
            items.append(copy)
            answer = source.answers[item.item_id]
            answers[copy.item_id] = replace(answer, item_id=copy.item_id) if number else answer
    about = {**source.about, "counts": {**source.about["counts"], "items": len(items), "cases": len(cases)}}
    return Benchmark(folder, about, source.hash, tuple(items), answers, cases)


def _own(name: str, number: int) -> str:
    return f"{name}-{number}" if number else name


def _write_new(path: Path, content: Callable[[], bytes]) -> None:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content())


def _copied(item: Item, number: int, source: Benchmark, folder: Path) -> Item:
    def image(path: str) -> str:
        copy = image_path(sha256(f"{path} {number}".encode())) if number else path
        _write_new(folder / thumb_path(copy), lambda: source.thumb_bytes(path))
        if item.form.is_place:
            _write_new(folder / copy, lambda: (source.folder / path).read_bytes()[:_HEAD])
        return copy

    def pictures(given: tuple[Picture, ...]) -> tuple[Picture, ...]:
        return tuple(replace(picture, image=image(picture.image)) for picture in given)

    copy = replace(
        item,
        item_id=f"{_own(item.case_id, number)}/{item.kind}",
        case_id=_own(item.case_id, number),
        options=tuple(replace(one, image=one.image and image(one.image)) for one in item.options),
        turn_images=pictures(item.turn_images),
        alone_images=pictures(item.alone_images),
    )
    return copy if number else item


def browse(page_file: Path, program: str, items: list[str]) -> None:
    """Print how long the page takes to open, to filter and to show items."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        start = time.perf_counter()
        page.set_default_timeout(20_000)
        page.goto(page_file.as_uri())
        page.wait_for_selector("body[data-ready]")
        print(f"page opens: {1000 * (time.perf_counter() - start):.0f} ms")
        filters = [_milliseconds(page, choice, "#cards") for choice in FILTERS]
        # Items far apart, so that each needs files that were not loaded.
        opened = [_milliseconds(page, f"item={one}", "#item .sides") for one in items]
        for name, times in (("filter", filters), ("item, its files not loaded", opened)):
            print(f"{name}: {len(times)} times, median {statistics.median(times):.0f} ms, slowest {max(times):.0f} ms")
        browser.close()


def _milliseconds(page: Any, where: str, laid_out: str) -> float:
    script = """async ([where, laidOut]) => {
      document.getElementById('item').replaceChildren();
      const start = performance.now();
      history.pushState(null, '', '#' + where);
      await route();
      document.querySelector(laidOut).getBoundingClientRect();
      const shown = [...document.querySelectorAll('#item .over img, #item .four img')];
      const loaded = (one) => new Promise((done) => one.addEventListener('load', done));
      const late = new Promise((_, failed) => setTimeout(() => failed(new Error('a picture is missing')), 5000));
      await Promise.race([late, Promise.all(shown.map((one) => one.src ? one.decode() : loaded(one)))]);
      return performance.now() - start;
    }"""
    return float(page.evaluate(script, [where, laid_out]))


class Memory:
    """Memory of this process and all processes that it started, in MB, measured every 50 ms.

    - ``peak``: the largest memory, with shared pages counted once.
    - ``resident_peak``: the largest sum of the processes' resident memory.
    """

    def __init__(self) -> None:
        self.peak = self.resident_peak = 0.0
        threading.Thread(target=self._watch, daemon=True).start()

    def now(self) -> tuple[float, float]:
        """Return two amounts of the memory in use now, in MB.

        The first counts a shared page once; the second counts it once for each process that uses it.
        """
        own, _ = _pages("self")
        started = list(map(_pages, _started()))
        once = own + sum(resident - shared for resident, shared in started)
        every = own + sum(resident for resident, _ in started)
        return once * resource.getpagesize() / 1e6, every * resource.getpagesize() / 1e6

    def _watch(self) -> None:
        while True:
            once, every = self.now()
            self.peak, self.resident_peak = max(self.peak, once), max(self.resident_peak, every)
            time.sleep(0.05)


def _started() -> Iterator[str]:
    """Yield the numbers of the processes that this process started, with multiprocessing's own."""
    own = Path("/proc/self/cmdline").read_bytes()
    for file in Path("/proc/self/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):
            for number in file.read_text(encoding="ascii").split():
                # Before its program begins, a process has the memory and the command line of this process.
                if Path(f"/proc/{number}/cmdline").read_bytes() != own:
                    yield number


def _pages(process: str) -> tuple[int, int]:
    """Return the number of resident pages of a process, and how many of them are of files."""
    with suppress(FileNotFoundError, ProcessLookupError):
        _, resident, shared, *_ = Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()
        return int(resident), int(shared)
    return 0, 0


def processor_seconds() -> float:
    """Return the processor time of this process and of all worker processes that have ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


class Clock:
    """A clock that prints the wall and processor time of each part of the work, in seconds."""

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Print ``name``, and then the time that the ``with`` block took."""
        start, cpu = time.perf_counter(), processor_seconds()
        yield
        print(f"{name}: {time.perf_counter() - start:.1f} s ({processor_seconds() - cpu:.1f} s of processor time)")

    def watch(self, module: Any, name: str) -> None:
        """Time every call of the function ``name`` of a module."""
        real = getattr(module, name)

        def timed(*given: Any) -> Any:
            with self.part(f"of these {module.__name__}.{name}"):
                return real(*given)

        setattr(module, name, timed)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("bench", type=Path)
    parser.add_argument("--items", type=int, default=11_800)
    parser.add_argument("--models", type=int, default=14)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--browser")
    parser.add_argument("-o", "--out", type=Path)
    given = parser.parse_args()
    # A worker process imports this file again, and needs none of these.
    from chexqa.eval.gallery.address import PAGE
    from chexqa.eval.report import build
    from chexqa.eval.scoring import grade
    from chexqa.eval.tables import all_tables

    memory = Memory()
    with tempfile.TemporaryDirectory() as scratch:
        bench = copies(benchmark.load(given.bench), given.items, Path(scratch) / "bench")
        run = synthetic.run(bench, given.models)
        print(f"{given.models} models x {len(bench.items):,} items; memory with items and turns: "
              f"{memory.now()[0]:,.0f} MB")  # fmt: skip
        out, clock = given.out or Path(scratch) / "report", Clock()
        with clock.part("grades, and all files made and written"):
            with clock.part("grades"):
                graded = grade.grade_runs(bench, [run])
            (group,) = all_tables.groups(graded)
            clock.watch(all_tables, "all_tables")
            clock.watch(build, "page_files")
            build.write_report([group], out, workers=given.workers)
        print(f"peak memory: {memory.peak:,.0f} MB ({memory.resident_peak:,.0f} MB if shared libraries count in every "
              "process)")  # fmt: skip
        sizes = {str(path.relative_to(out)): path.stat().st_size for path in out.rglob("*") if path.is_file()}
        parts = {name: sum(size for path, size in sizes.items() if path.startswith(name)) for name in PARTS}
        print(f"{len(sizes)} files, {sum(sizes.values()) / 1e6:.1f} MB:", end=" ")
        print(", ".join(f"{name} {size / 1e6:.1f}" for name, size in parts.items()))
        if given.browser:
            step = len(bench.items) // 12
            browse(out / PAGE, given.browser, [item.item_id for item in bench.items[step // 2 :: step]])


if __name__ == "__main__":
    main()
