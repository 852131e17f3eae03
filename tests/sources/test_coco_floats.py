"""Sizes and counts in COCO JSON that are written with a point, as a schema allows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image


def test_whole_numbers_written_with_a_point_are_whole_numbers(
    tmp_path: Path, cli: Callable[..., tuple[int, str, str]]
) -> None:
    Image.fromarray(np.zeros((4, 6), np.uint8)).save(tmp_path / "a.png")
    runs = {"size": [4.0, 6.0], "counts": [8.0, 4.0, 12.0]}
    entry = {"id": 1, "image_id": 1, "category_id": 1}
    data = {
        "images": [{"id": 1, "file_name": "a.png", "width": 6.0, "height": 4.0}],
        "categories": [{"id": 1, "name": "effusion"}],
        "annotations": [{**entry, "segmentation": runs}, {**entry, "id": 2, "segmentation": [[0, 0, 2, 0, 2, 2]]}],
    }
    (tmp_path / "coco.json").write_text(json.dumps(data))
    code, _, err = cli("ingest", "coco", tmp_path / "coco.json", "--images", tmp_path, "-o", tmp_path / "cases.jsonl")
    assert code == 0, err
    (line,) = (tmp_path / "cases.jsonl").read_text().splitlines()
    assert json.loads(line)["finding"] == "effusion"
