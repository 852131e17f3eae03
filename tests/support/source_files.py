"""Small data sets in the layouts of ChestX-Det and CheXmask, for the tests of their sources."""

from __future__ import annotations

import csv
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from chexqa.contract import cases

Cli = Callable[..., tuple[int, str, str]]
SIDE = 1024
RAMP = np.add.outer(np.arange(SIDE), np.arange(SIDE)).astype(np.uint16).__rshift__(3).astype(np.uint8)
BOX = [[100, 200], [300, 200], [300, 400], [100, 400]]
OTHER = [[600, 200], [700, 200], [700, 300], [600, 300]]
BOW_TIE = [[100, 200], [300, 400], [300, 200], [100, 400]]
RIGHT, LEFT, HEART = (np.zeros((SIDE, SIDE), np.bool_) for _ in range(3))
RIGHT[100:800, 100:450] = True
LEFT[100:800, 580:930] = True
HEART[500:850, 440:700] = True
STRUCTURES = {"right_lung": RIGHT, "left_lung": LEFT, "heart": HEART}


def save(path: Path, array: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array.astype(np.uint8) * (255 if array.dtype == np.bool_ else 1)).save(path)


def load_all(manifest: Path, root: Path | None = None) -> list[cases.LoadedCase]:
    return [cases.load_case(case) for case in cases.read_manifest(manifest, root)]


def entry(name: str, **outlines: Any) -> dict[str, Any]:
    """Return the record of a radiograph in ChestX-Det; ``_`` in a finding's name becomes a space."""
    instances = [(finding.replace("_", " "), polygon) for finding, many in outlines.items() for polygon in many]
    return {
        "file_name": name, "syms": [finding for finding, _ in instances], "boxes": [[0, 0, 1, 1]] * len(instances),
        "polygons": [polygon for _, polygon in instances],
    }  # fmt: skip


def make_det(folder: Path) -> Path:
    """Write a data set in ChestX-Det's layout, with one abnormal radiograph and one normal one; return its folder."""
    root = folder / "det"
    for name in ("1.png", "2.png"):
        save(root / "test_data" / name, RAMP)
    write_det(root, entry("1.png", Effusion=[BOX, OTHER], Pleural_Thickening=[OTHER]), entry("2.png"))
    return root


def write_det(root: Path, *entries: Any) -> None:
    (root / "ChestX_Det_test.json").write_text(json.dumps(entries))


def ingest_det(cli: Cli, root: Path, *more: object) -> tuple[int, str, str]:
    return cli("ingest", "chestx-det", root, "-o", root, *more)


def runs(mask: np.ndarray) -> str:
    """Return CheXmask's run lengths of a mask: starts counted from 1, along the rows."""
    steps = np.flatnonzero(np.diff(mask.ravel().astype(np.int8), prepend=0, append=0))
    return " ".join(f"{start + 1} {end - start}" for start, end in steps.reshape(-1, 2).tolist())


RUNS = {"Right Lung": runs(RIGHT), "Left Lung": runs(LEFT), "Heart": runs(HEART), "Height": SIDE, "Width": SIDE}


def write_chexmask(path: Path, key_column: str, rows: dict[str, dict[str, Any]], delimiter: str = ",") -> Path:
    names = [key_column, "Dice RCA (Mean)", "Landmarks", "Left Lung", "Right Lung", "Heart", "Height", "Width"]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, names, delimiter=delimiter)
        writer.writeheader()
        for key, cells in rows.items():
            writer.writerow({key_column: key, "Dice RCA (Mean)": 0.9, "Landmarks": "1,2,3", **cells})
    return path


def check_anatomy(loaded: cases.LoadedCase) -> None:
    assert set(loaded.source_anatomy) == set(STRUCTURES)
    for name, mask in STRUCTURES.items():
        assert np.array_equal(loaded.source_anatomy[name], mask)


def peak(action: Callable[[], object]) -> int:
    """Return the peak memory in bytes that an action allocates.

    The smallest of several runs counts, because the first run imports modules and other threads allocate memory too.
    """
    runs = []
    for _ in range(3):
        tracemalloc.start()
        try:
            action()
            runs.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    return min(runs)


# The warning of every ingest for data without an absent case.
NO_NEGATIVES = (
    "warning: every case shows its finding, so the right answer to 'is the finding present' is always yes; "
    "add cases without the finding.\n"
)
