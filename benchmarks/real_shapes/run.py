"""Drawn radiographs for the real lesion outlines of ChestX-Det, made without the data set's pictures.

For each radiograph of the data set, the script draws JSRT lungs that fit the lesions, with the lesions as soft shadows:

    python benchmarks/real_shapes/run.py DATA det
    chexqa ingest chestx-det det --images det/images --anatomy det/anatomy -o det/cases.jsonl
    chexqa generate det -o bench --recipe chexpercept
    chexqa audit bench

The folder `DATA` contains `chestx_det/ChestX_Det_test.json` and `anatomy/jsrt_contours.json`.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]
SIDE = 1024
PARTS = ("right_lung", "left_lung", "heart")


def filled(polygons: list[Any], scale: float = 1.0) -> Mask:
    """Return the union of polygons (lists of x, y points, times ``scale``) as a mask ``(1024, 1024)``."""
    canvas = np.zeros((SIDE, SIDE), np.uint8)
    for points in polygons:
        cv2.fillPoly(canvas, [np.round(np.asarray(points, float) * scale).astype(np.int32)], 1)
    return canvas.astype(bool)


def anatomies(data: Path) -> list[dict[str, Mask]]:
    """Return the masks of right lung, left lung and heart of every JSRT radiograph, keyed by the part's name."""
    record = json.loads((data / "anatomy" / "jsrt_contours.json").read_text(encoding="utf-8"))
    scale = SIDE / record["image_size"][0]
    return [
        {name: filled([parts[name]], scale) for name in PARTS if name in parts} for parts in record["contours"].values()
    ]


def best_of(all_anatomies: list[dict[str, Mask]], lesion: Mask) -> dict[str, Mask]:
    """Return the anatomy whose lungs contain the most pixels of a lesion."""
    return max(all_anatomies, key=lambda own: int(((own["right_lung"] | own["left_lung"]) & lesion).sum()))


def noise(rng: np.random.Generator, cells: int) -> npt.NDArray[np.float32]:
    """Return smooth random values, about -1 to 1."""
    small = rng.standard_normal((cells, cells)).astype(np.float32)
    return np.asarray(cv2.resize(small, (SIDE, SIDE), interpolation=cv2.INTER_CUBIC))


def radiograph(rng: np.random.Generator, anatomy: dict[str, Mask], lesion: Mask) -> npt.NDArray[np.uint8]:
    """Draw a grey picture ``(1024, 1024)``: dark lungs in a bright chest, with the lesion as a brighter shadow."""
    lungs = (anatomy["right_lung"] | anatomy["left_lung"]).astype(np.float32)
    picture = 190 - 120 * cv2.GaussianBlur(lungs, (0, 0), 6)
    picture += 60 * cv2.GaussianBlur(lesion.astype(np.float32), (0, 0), 8)
    picture += 8 * noise(rng, 12) + 5 * noise(rng, 60) + rng.normal(0, 2, picture.shape).astype(np.float32)
    return np.clip(picture, 0, 255).astype(np.uint8)


def main(data: Path, out: Path) -> None:
    cases = json.loads((data / "chestx_det" / "ChestX_Det_test.json").read_text(encoding="utf-8"))
    all_anatomies = anatomies(data)
    (out / "images").mkdir(parents=True)
    shutil.copy(data / "chestx_det" / "ChestX_Det_test.json", out)
    for number, case in enumerate(cases):
        lesion = filled(case["polygons"])
        anatomy = best_of(all_anatomies, lesion)
        name = Path(case["file_name"]).stem
        picture = radiograph(np.random.default_rng(number), anatomy, lesion)
        cv2.imwrite(str(out / "images" / case["file_name"]), picture)
        (out / "anatomy" / name).mkdir(parents=True)
        for part, mask in anatomy.items():
            cv2.imwrite(str(out / "anatomy" / name / f"{part}.png"), mask.astype(np.uint8) * 255)
    print(f"{len(cases)} radiographs written to {out}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
