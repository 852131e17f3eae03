"""Runs read from their logs."""

import json
import tracemalloc

from chexqa.contract.read_run import Turn


def test_turns_of_many_models_need_little_more_than_what_differs_between_them() -> None:
    """Ids, names and hashes of pictures are kept once: a report on 14 models and 11,800 items has each 14 times."""
    record = {
        "model": "m", "protocol": "end_to_end", "case_id": "c" * 200, "item_id": "i" * 200, "repeat": 0, "rotation": 0,
        "blind": False, "attempts": 1, "state": "answered", "parsed": [1], "raw": None, "finish_reason": "stop",
        "usage": None, "cost_usd": None, "latency_s": None, "provider_model": "p" * 200, "request_hash": "0" * 64,
        "image_hashes": ["h" * 200], "started": "2026-01-01T00:00:00Z", "error": None, "overlay_only": False,
        "order": None,
    }  # fmt: skip
    line = json.dumps(record)
    tracemalloc.start()
    turns = [Turn.from_record(json.loads(line)) for _ in range(200)]
    size = tracemalloc.get_traced_memory()[0] / len(turns)
    tracemalloc.stop()
    assert turns[-1].to_record() == record
    assert size < 1000, "four texts of 200 letters each would be as much again"
