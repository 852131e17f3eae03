"""Results as CheXpercept's own evaluation writes them."""

from __future__ import annotations

import json
from pathlib import Path

from release_files import Entry, steps


def write_results(folder: Path, results: dict[str, Entry], setting: str = "implicit") -> Path:
    path = folder / "gemini_gemini-3.1-pro" / f"oracle_{setting}" / "all_results.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(results))
    return path


def right_replies(made: Entry) -> dict[str, str]:
    contour, attributes = made.get("contour_qa") or {}, made.get("attribute_extraction_qa") or {}
    parts = {"detection": made["detection_qa"], "evaluation": contour.get("contour_eval_qa"), **attributes}
    parts |= {
        name: contour.get(f"contour_revision_qa_{name}") for name in ("expansion", "contraction", "revision_result")
    }
    index = {step: parts[step]["answer_index"] for step in steps(made)}
    return {step: ",".join(map(str, n)) if isinstance(n, list) else str(n) for step, n in index.items()}
