"""A turn of a run, as a log holds it."""

from __future__ import annotations

from chexqa.contract import read_run

TURN = read_run.Turn(
    model="m/x", protocol="end_to_end", case_id="c1", item_id="c1/detection", repeat=0, rotation=0, blind=False,
    attempts=1, state="answered", parsed=(2,), raw="Answer: 2", finish_reason="stop",
    usage={"input_tokens": 3, "output_tokens": 1}, cost_usd=None, latency_s=0.1, provider_model="x",
    request_hash="0" * 64, image_hashes=("1" * 64,), started="2026-01-01", error=None,
)  # fmt: skip
