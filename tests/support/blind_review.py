"""Review in which readers answered items before they saw the key."""

from __future__ import annotations

from pathlib import Path

from chexqa.contract.benchmark import Benchmark
from chexqa.files.jsonio import write_json
from chexqa.review.collect.verdicts import Verdict, write_store
from chexqa.review.columns import item_row_id

BATCH = "r-0123456789ab"


def review(
    bench: Benchmark, folder: Path, false: int, drawn: bool = True, readers: tuple[str, ...] = ("anna",)
) -> Path:
    """Write a review of the first 60 items with options, ``false`` of which readers answer otherwise than the key."""
    assert bench.answers is not None
    folder.mkdir()
    items = [item for item in bench.items if item.form.lists_options][:60]
    rows = [item_row_id(item.item_id) for item in items]
    sheets = [{"file": f"{who}/{who}.xlsx", "reviewer": who, "kind": "blind", "rows": rows,
               "seen": ["0" * 32] * len(rows)} for who in readers]  # fmt: skip
    about = {
        "schema_version": 2, "tool_version": "1", "batch": BATCH, "what": "items", "blind_answers": False,
        "benchmark": {"name": bench.name, "version": "1", "hash": bench.hash, "path": str(bench.folder)},
        "data": "phantom", "credentialed": False, "reviewers": list(readers), "overlap": 1.0, "overlap_readers": 2,
        "only": None, "sample": None, "seed": 0, "sheets": sheets,
    }  # fmt: skip
    if drawn:
        about["drawn"] = {item.case_id: 0.75 for item in items}
    write_json(folder / "review.json", about, "review")
    verdicts = []
    for number, item in enumerate(items):
        key = bench.answers[item.item_id].answer
        for place, who in enumerate(readers):
            answer = (3 - key[0],) if number < false and place == 0 else key
            row, place_of = item_row_id(item.item_id), {"file": "x", "tab": "t", "row": 1}
            verdicts.append(Verdict(BATCH, bench.hash, f"{who}/{who}.xlsx", "blind", who, row, None, answer, None, None,
                                    None, "2026-01-01", place_of))  # fmt: skip
    write_store(folder / "verdicts.jsonl", verdicts)
    return folder
