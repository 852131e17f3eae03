"""Files that reviewers return instead of a spreadsheet: a saved page, and a CSV of masks."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from chexqa.review import columns
from chexqa.review.page.answers import page_data


def save_page(folder: Path, name: str) -> None:
    """Write the file that a review page saves when all of its rows have been rejected."""
    data = page_data(folder / "pages" / name)
    cells = {columns.VERDICT: "reject", columns.REASON: "other", columns.COMMENT: "looked at"}
    change = {"id": "tab-1", "at": "2026-03-01T10:00:00Z", "cells": cells}
    rows = [
        {"tab": row["tab"], "row": row["row"], "cells": row["cells"] | cells, "changes": [change], "seconds": 2.5,
         "contour": None}
        for row in data["rows"]
    ]  # fmt: skip
    record = {
        "what": "chexqa review page", "schema_version": 1, "saved": "2026-03-01T10:00:00Z", "locked": False,
        **{name: data[name] for name in ("page", "batch", "sheet", "reviewer")}, "rows": rows,
    }  # fmt: skip
    (folder / f"{name}.json").write_text(json.dumps(record))


def fill_csv(path: Path) -> None:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row[columns.OPTIMAL] = "y" if path.name.startswith("anna") else "n"
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
