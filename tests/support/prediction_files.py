"""Files of answers that were made without chexqa."""

from __future__ import annotations

import json
from pathlib import Path

from chexqa.contract import benchmark


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def right(bench_folder: Path) -> list[dict[str, object]]:
    """Return the lines of a file with the right answer to every item."""
    bench = benchmark.load(bench_folder)
    assert bench.answers is not None
    kept = {item.item_id: bench.answers[item.item_id].answer for item in bench.items}
    return [{"item_id": item_id, "answer": list(answer if "grid" not in item_id else answer[:1])}
            for item_id, answer in kept.items()]  # fmt: skip
