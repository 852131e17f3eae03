"""Small folders in the layouts of several sources."""

from __future__ import annotations

from typing import Any

DICOM = "aaaaaaaa-bbbbbbbb"


def pair(target: str, kind: str = "global", mask: str | None = "default", **more: Any) -> dict[str, Any]:
    path = f"s1/s1_{target}_{kind}.png" if mask == "default" else mask
    return {"pair_id": f"s1_{target}", "type": kind, "target": target, "seg_mask_path": path, **more}


def study(positive: list[dict[str, Any]], negative: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {
        "subject_id": "p10000001", "dicom_id": DICOM, "image_path": "p10/p10000001/s1/x.jpg", "section_content": "…",
        "instruction_answer_pairs": {"positive_pairs": positive, "negative_pairs": negative}, **more,
    }  # fmt: skip
