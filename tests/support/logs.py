"""Logs of runs, written turn by turn as a model would have answered."""

import json
from pathlib import Path
from typing import Any

from chexqa.contract import benchmark


def log(folder: Path, bench_folder: Path, model: str = "m", raw: str = "Answer: 1", protocol: str = "end_to_end",
        skip: int = 0) -> Path:  # fmt: skip
    """Write a run folder in which ``model`` replied ``raw`` to all items but the last ``skip``; return the folder."""
    bench = benchmark.load(bench_folder)
    about: dict[str, Any] = {
        "schema_version": 1,
        "tool_version": "0",
        "benchmark": {"name": bench.name, "version": "1", "hash": bench.hash, "path": str(bench_folder)},
        "question_bank": {"name": "en", "hash": bench.about["question_bank"]["hash"]},
        "protocol": protocol,
        "blind": False,
        "overlay_only": False,
        "rotations": 1,
        "repeats": 1,
        "limit": None,
        "limit_per_path": None,
        "seed": 0,
        "models": {model: {"litellm": "openai/m", "api_base": None, "decoding": {}}},
    }
    (folder / "turns").mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(about))
    lines = [
        {
            "model": model, "protocol": protocol, "case_id": item.case_id, "item_id": item.item_id, "repeat": 0,
            "rotation": 0, "blind": False, "attempts": 1, "state": "answered", "parsed": [1], "raw": raw,
            "finish_reason": "stop", "usage": None, "cost_usd": None, "latency_s": None, "provider_model": None,
            "request_hash": "0" * 64, "image_hashes": [], "started": "2026-01-01T00:00:00Z", "error": None,
            "overlay_only": False, "order": None,
        }
        for item in bench.items[: len(bench.items) - skip]
    ]  # fmt: skip
    (folder / "turns" / "m.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder
