"""Localization maps of the corpus: maps in each file format, maps made by a plugin, and graded maps."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from chexqa.contract import benchmark
from chexqa.contract.kinds import GRID_CELL

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))

import torch_files  # noqa: E402


def heat_maps(folder: Path, run: Callable[..., None], radiograph: str) -> None:
    """Make maps in several formats, a table of thresholds, a folder of graded maps, and a plugin with its maps.

    Maps are made for the cases of the benchmark in ``folder``, and for ``radiograph``, a radiograph of the data set in
    CheXlocalize's layout.
    """
    values = np.random.default_rng(0).random((24, 24)).astype(np.float32)
    loaded = benchmark.load(folder / "bench")
    asked = [item for item in loaded.items if item.kind == GRID_CELL]
    (folder / "maps").mkdir()
    for number, item in enumerate(asked):
        write_map(folder / "maps" / f"{item.case_id}_{item.finding}", values, number)
    outlined = folder / "outlined-maps"
    outlined.mkdir()
    for number, finding in enumerate(("Pleural Effusion", "Edema")):
        path = outlined / f"{radiograph}_{finding}_map.pkl"
        tensor = torch_files.storage(values)
        path.write_bytes([torch_files.pickled(values, prob=0.25),
                          torch_files.zip_file(torch_files.as_dict(map=torch_files.tensor(values, tensor)), values)]
                         [number])  # fmt: skip
    (folder / "case-maps").mkdir()
    for number in range(4):
        write_map(folder / "case-maps" / f"p{number + 1}_effusion", values, number)
    rows = [f"{item.finding},0.5\n" for item in asked]
    (folder / "maps" / "thresholds.csv").write_text("finding,threshold\n" + "".join(rows))
    run("heatmaps", "grade", "maps", "--benchmark", "bench", "--allow-partial", "-o", "graded-maps")
    (folder / "maker").mkdir()
    (folder / "maker" / "plain.py").write_text(MAKER)
    shutil.copy(ROOT / "eval" / "map_makers" / "prompts.yaml", folder / "maker" / "prompts.yaml")
    run("heatmaps", "make", "bench", "--plugin", "maker/plain.py", "--maker", "plain", "--prompts",
        "maker/prompts.yaml", "-o", "made-maps")  # fmt: skip


MAKER = """
from chexqa.eval.map_makers.registry import map_maker


@map_maker("plain", domain="general")
def plain(picture, finding):
    return picture[::16, ::16].astype(float), float(picture.mean()) + len(finding)
"""


def write_map(path: Path, values: np.ndarray, number: int) -> None:
    """Write one map; ``number`` selects one of four file formats."""
    match number % 4:
        case 0:
            np.save(path.with_suffix(".npy"), values)
        case 1:
            np.savez_compressed(path.with_suffix(".npz"), map=values)
        case 2:
            Image.fromarray((values * 65535).astype(np.uint16)).save(path.with_suffix(".png"))
        case _:
            path.with_suffix(".pkl").write_bytes(torch_files.pickled(values))
