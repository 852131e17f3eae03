"""Annotations as other tools leave them: names that differ from the pictures', and shapes that cannot be right."""

from __future__ import annotations

import json
import shutil
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from chexqa.contract import cases

Cli = Callable[..., tuple[int, str, str]]
TALL, WIDE = 120, 160
FLUID = np.zeros((TALL, WIDE), bool)
FLUID[70:110, 15:60] = True
SQUARE = [[15, 70, 59, 70, 59, 109, 15, 109]]
BOX = [15, 70, 45, 40]


def png(path: Path, mask: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(mask.astype(np.uint8) * 255).save(path)
    return path


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "images"
    folder.mkdir()
    Image.fromarray(np.add.outer(np.arange(TALL), np.arange(WIDE)).astype(np.uint8)).save(folder / "a.png")
    return folder


def coco(path: Path, names: list[str], **more: Any) -> Path:
    """A COCO file with one effusion on each picture."""
    shape = {"segmentation": SQUARE, "bbox": BOX, "category_id": 1, **more}
    data = {
        "images": [{"id": n, "file_name": name, "width": WIDE, "height": TALL} for n, name in enumerate(names)],
        "categories": [{"id": 1, "name": "effusion"}],
        "annotations": [{"id": n, "image_id": n, **shape} for n in range(len(names))],
    }
    path.write_text(json.dumps(data))
    return path


def loaded(out: Path) -> list[cases.LoadedCase]:
    return [cases.load_case(case) for case in cases.read_manifest(out)]


@pytest.mark.parametrize(
    "name",
    [
        "../../data/upload/3/0a1b2c3d-a.png",
        "a_png.rf.0123456789abcdef0123456789abcdef.jpg",
        "C:\\export\\a.png",
    ],
)
def test_pictures_are_found_by_the_names_that_tools_give_them(
    images: Path, tmp_path: Path, cli: Cli, name: str
) -> None:
    png(tmp_path / "lungs/a/right_lung.png", FLUID)
    command = ("ingest", "coco", coco(tmp_path / "c.json", [name]), "--images", images)
    code, _, err = cli(*command, "--anatomy", tmp_path / "lungs", "-o", tmp_path / "m.jsonl")
    assert code == 0, err
    (made,) = loaded(tmp_path / "m.jsonl")
    assert np.array_equal(made.source_mask, FLUID)
    assert np.array_equal(made.source_anatomy["right_lung"], FLUID)


def test_two_names_of_one_picture_make_no_case(images: Path, tmp_path: Path, cli: Cli) -> None:
    file = coco(tmp_path / "c.json", ["train/a.png", "val/a.png"])
    code, _, err = cli("ingest", "coco", file, "--images", images, "-o", tmp_path / "m.jsonl")
    assert code == 2
    assert "train/a.png: another picture of the annotations also leads to a.png" in " ".join(err.split())


def test_a_picture_is_taken_from_the_folder_that_its_name_has(images: Path, tmp_path: Path, cli: Cli) -> None:
    for folder in ("train/x", "val/x"):
        (images / folder).mkdir(parents=True)
        shutil.copy(images / "a.png", images / folder / "a.png")
    (images / "a.png").unlink()
    code, _, err = cli(
        "ingest", "coco", coco(tmp_path / "c.json", ["/data/val/x/a.png", "a.png"]), "--images", images,
        "-o", tmp_path / "m.jsonl",
    )  # fmt: skip
    assert code == 0, err
    assert [case.image.relative_to(images).as_posix() for case in cases.read_manifest(tmp_path / "m.jsonl")] == [
        "val/x/a.png"
    ]
    assert "a.png: 2 pictures in" in err


@pytest.mark.parametrize("form", ["folders", "flat", "coco"])
def test_accents_may_be_written_in_two_ways(images: Path, tmp_path: Path, cli: Cli, form: str) -> None:
    whole, apart = (unicodedata.normalize(way, "Müller") for way in ("NFC", "NFD"))
    (images / "a.png").rename(images / f"{whole}.png")
    png(tmp_path / f"masks/{apart}/effusion.png", FLUID)
    png(tmp_path / f"flat/{apart}_effusion.png", FLUID)
    png(tmp_path / f"lungs/{apart}/right_lung.png", FLUID)
    command = {
        "folders": ("masks", "--masks", tmp_path / "masks"),
        "flat": ("masks", "--flat", "--masks", tmp_path / "flat"),
        "coco": ("coco", coco(tmp_path / "c.json", [f"{apart}.png"])),
    }[form]
    out = ("--anatomy", tmp_path / "lungs", "-o", tmp_path / "m.jsonl")
    code, _, err = cli("ingest", *command, "--images", images, *out)
    assert code == 0, err
    (made,) = loaded(tmp_path / "m.jsonl")
    assert np.array_equal(made.source_mask, FLUID)
    assert "right_lung" in made.source_anatomy
