"""Size and speed of a report's gallery at the published size: megabytes, seconds to make it, milliseconds to use it.

The cases and pictures of the benchmark BENCH are copied under other ids until there are enough items. Simulated models
(``synthetic.py``) answer them. With ``--browser PROGRAM`` the page is opened in this Chromium, and the script measures
the milliseconds until a filter or an item is shown. Run it with ``python benchmarks/report/gallery.py BENCH [--items N]
[--models N] [--browser PROGRAM] [-o DIR]``.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import synthetic

from chexqa.contract import benchmark
from chexqa.contract.benchmark import Benchmark, image_path
from chexqa.contract.items import Item, Picture
from chexqa.eval.gallery import files as gallery
from chexqa.eval.scoring import grade
from chexqa.files.jsonio import sha256

FILTERS = (
    "models=differ",
    "models=all_wrong&kind=location",
    "text=lobe+zone",
    "right=sim-01&wrong=sim-14",
    "state=wrong&model=sim-05",
)


@dataclass(frozen=True)
class Copies(Benchmark):
    """Benchmark whose cases are copies of another one's; ``of`` has the original of each picture, keyed by its path."""

    of: dict[str, str] = field(default_factory=dict)
    source: Benchmark | None = None

    def thumb_bytes(self, image: str) -> bytes:
        """Return the thumbnail of the picture that was copied."""
        assert self.source is not None
        return self.source.thumb_bytes(self.of[image])


def copies(source: Benchmark, wanted: int) -> Copies:
    """Return a benchmark of at least ``wanted`` items, made of copies of all cases of ``source``."""
    assert source.answers is not None
    assert source.cases is not None
    items, answers, cases, of = [], {}, {}, {}
    number = 0
    while len(items) < wanted:
        for case_id, case in source.cases.items():
            own = f"{case_id}-{number}"
            cases[own] = replace(case, case_id=own, patient_id=f"{case.patient_id}-{number}")
        for item in source.items:
            copy = _copied(item, number, of)
            items.append(copy)
            answers[copy.item_id] = replace(source.answers[item.item_id], item_id=copy.item_id)
        number += 1
    about = {**source.about, "counts": {**source.about["counts"], "items": len(items), "cases": len(cases)}}
    return Copies(source.folder, about, source.hash, tuple(items), answers, cases, of, source)


def _copied(item: Item, number: int, of: dict[str, str]) -> Item:
    def image(path: str) -> str:
        copy = image_path(sha256(f"{path} {number}".encode()))
        of[copy] = path
        return copy

    def pictures(given: tuple[Picture, ...]) -> tuple[Picture, ...]:
        return tuple(replace(picture, image=image(picture.image)) for picture in given)

    return replace(
        item,
        item_id=f"{item.case_id}-{number}/{item.kind}",
        case_id=f"{item.case_id}-{number}",
        options=tuple(replace(one, image=one.image and image(one.image)) for one in item.options),
        turn_images=pictures(item.turn_images),
        alone_images=pictures(item.alone_images),
    )


def browse(page_file: Path, program: str, items: list[str]) -> None:
    """Print how long the page takes to open, to filter and to show items."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        start = time.perf_counter()
        page.goto(page_file.as_uri())
        page.wait_for_selector("body[data-ready]")
        print(f"page opens: {1000 * (time.perf_counter() - start):.0f} ms")
        filters = [_milliseconds(page, choice, "#cards") for choice in FILTERS]
        # Items far apart, so that each needs files that were not loaded.
        opened = [_milliseconds(page, f"item={one}", "#item .sides") for one in items]
        for name, times in (("filter", filters), ("item, its files not loaded", opened)):
            print(f"{name}: median {statistics.median(times):.0f} ms, slowest {max(times):.0f} ms of {len(times)}")
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
      await Promise.all(shown.map((one) => one.src ? one.decode() : loaded(one)));
      return performance.now() - start;
    }"""
    return float(page.evaluate(script, [where, laid_out]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("bench", type=Path)
    parser.add_argument("--items", type=int, default=10_400)
    parser.add_argument("--models", type=int, default=14)
    parser.add_argument("--browser")
    parser.add_argument("-o", "--out", type=Path)
    given = parser.parse_args()
    bench = copies(benchmark.load(given.bench), given.items)
    graded = grade.grade_runs(bench, [synthetic.run(bench, given.models)])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    start, cpu = time.perf_counter(), time.process_time()
    made = gallery.files(graded)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    size = {name: len(data) for name, data in made.items()}
    print(f"{given.models} models x {len(bench.items):,} items, {len(bench.of):,} pictures")
    print(f"gallery made in {seconds:.1f} s ({cpu:.1f} s of processor time)")
    print(f"peak memory: {memory:,.0f} MB, of which {before:,.0f} MB are benchmark, turns and grades")
    print(
        f"{len(made)} files, {sum(size.values()) / 1e6:.1f} MB: "
        + ", ".join(
            f"{part} {sum(value for name, value in size.items() if part in name) / 1e6:.1f}"
            for part in ("gallery.html", "index", "first", "pictures", "cases")
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        out = given.out or Path(folder)
        (out / gallery.FOLDER).mkdir(parents=True, exist_ok=True)
        for name, data in made.items():
            (out / name).write_bytes(data)
        if given.browser:
            step = len(bench.items) // 12
            browse(out / gallery.PAGE, given.browser, [item.item_id for item in bench.items[step // 2 :: step]])


if __name__ == "__main__":
    main()
