"""Data of the gallery: every item with its pictures, key and the answers of all models, as scripts beside the page.

A page opened from disk may load scripts but cannot fetch other files. The data are therefore calls of functions in
``page.js``: one index for filtering, and files of some cases each. A file is loaded when one of its
cases is opened. Items that no run asked, as in a trial, are left out. Replies are untrusted text: this module escapes
them for the script, and ``page.js`` never inserts them as markup.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import polars as pl

from chexqa.contract.benchmark import Benchmark, thumb_path
from chexqa.contract.items import Item, asking_order
from chexqa.eval.gallery import index, records
from chexqa.eval.place_results import gallery_drawings
from chexqa.eval.scoring.grade import Graded

FOLDER = "gallery"


def files(graded: Graded) -> dict[str, bytes]:
    """Return the gallery's scripts by their path in the report's folder.

    For a repeated or rotated item, the first turn is shown.
    """
    benchmark, grades = graded.benchmark, graded.grades
    answers, cases = benchmark.key("the report's gallery")
    rows = grades.select("model", "protocol").unique(maintain_order=True).rows()
    said = records.said_of(grades, rows)
    drawings = gallery_drawings.drawings(graded, rows)
    by_case: dict[str, list[Item]] = {}
    for item in sorted(asked_items(benchmark, grades), key=lambda item: (item.case_id, asking_order(item))):
        by_case.setdefault(item.case_id, []).append(item)
    ids = list(by_case)
    scripts = {"index": f"chexqa.index({script_json(index.index_record(rows, by_case, cases, said))});\n"}
    for number, start in enumerate(range(0, len(ids), index.CASES_A_FILE)):
        record = {
            case_id: records.case_record(
                cases[case_id],
                [records.item_record(item, answers[item.item_id], said) | drawings(item) for item in by_case[case_id]],
            )
            for case_id in ids[start : start + index.CASES_A_FILE]
        }
        scripts[f"cases-{number:04d}"] = f"chexqa.chunk({number},{script_json(record)});\n"
    return {f"{FOLDER}/{name}.js": text.encode("ascii") for name, text in scripts.items()}


def asked_items(benchmark: Benchmark, grades: pl.DataFrame) -> list[Item]:
    """Return the items that at least one run should ask, in the order of the benchmark."""
    asked = set(grades["item_id"].unique())
    return [item for item in benchmark.items if item.item_id in asked]


def thumbnails(items: Iterable[Item]) -> Iterator[str]:
    """Yield the path of each picture of the gallery, in the benchmark's folder.

    The report holds the picture under ``gallery`` at the same path.
    """
    pictures = {picture.image for item in items for picture in item.alone_images}
    return map(thumb_path, sorted(pictures))


def script_json(value: Any) -> str:
    """Return JSON that is safe in a script element of a page: only ASCII, and no ``<``."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
