"""NIfTI masks: whatever their directions, they lie on the picture as it is displayed."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from chexqa.files.errors import InputError
from chexqa.imaging.mask_source import read, read_nifti

nibabel = pytest.importorskip("nibabel", reason="the extra 'nifti' is not installed: pip install 'chexqa[nifti]'")

SHAPE = 40, 60
MASK = np.zeros(SHAPE, np.uint8)
MASK[4:20, 6:18] = 1  # above and on the left: every turn and flip shows


def saved(path: Path, values: np.ndarray, *diagonal: float) -> Path:
    nibabel.save(nibabel.Nifti1Image(values, np.diag([*(diagonal or (1, 1, 1)), 1.0])), path)
    return path


@pytest.mark.parametrize(
    ("values", "diagonal"),
    [
        (MASK.T[:, :, None], (-1, -1, 1)),  # as ITK writes a picture: to the left, down
        (MASK.T, (-0.2, -0.2, 1)),
        (MASK.T[:, ::-1, None], (-1, 1, 1)),  # upwards
        (MASK.T[::-1, :, None], (2, -2, 1)),  # to the patient's right
        (MASK.T[:, None, ::-1], (-1, 1, 1)),  # a coronal slice, upwards
        (MASK[:, :, None], (1, 1, 1)),  # an array without directions: the shape tells
        (MASK.T[:, :, None], (1, 1, 1)),
        ((MASK.T * 3.0)[:, :, None], (-1, -1, 1)),
    ],
)
def test_a_mask_lies_as_the_picture_is_displayed(
    values: np.ndarray, diagonal: tuple[float, ...], tmp_path: Path
) -> None:
    path = saved(tmp_path / "m.nii.gz", values, *diagonal)
    assert np.array_equal(read(path, SHAPE, "a mask"), MASK > 0)


def test_a_mask_of_half_the_size_is_enlarged(tmp_path: Path) -> None:
    path = saved(tmp_path / "m.nii", MASK[::2, ::2].T, -1, -1, 1)
    assert read(path, SHAPE, "a mask").sum() == MASK.sum()


@pytest.mark.parametrize(
    ("values", "diagonal", "said"),
    [
        (np.ones((50, 50), np.uint8), (1, 1, 1), "does not state the directions of its axes"),
        (np.ones((50, 50, 3), np.uint8), (-1, -1, 1), "one slice"),
        (np.full((60, 40), 0.5), (-1, -1, 1), "whole numbers"),
        (np.arange(2400).reshape(60, 40).astype(np.int16), (-1, -1, 1), "only 0 and one other value"),
        (MASK, (-1, -1, 1), "give a mask of the image's proportions"),
    ],
)
def test_what_is_no_mask_is_told(values: np.ndarray, diagonal: tuple[float, ...], said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        read(saved(tmp_path / "m.nii.gz", values, *diagonal), SHAPE, "a mask")


@pytest.mark.parametrize(
    "change", [lambda data: data[:100], lambda data: data[:-50], lambda data: data[:40] + b"\xff" * 16 + data[56:]]
)
def test_damage_is_one_sentence(change: Any, tmp_path: Path) -> None:
    path = saved(tmp_path / "m.nii.gz", MASK.T, -1, -1, 1)
    path.write_bytes(gzip.compress(change(gzip.decompress(path.read_bytes()))))
    with pytest.raises(InputError, match="cannot be read as NIfTI"):
        read_nifti(path, SHAPE)


def test_files_of_every_layout_become_cases(tmp_path: Path, cli: Any) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "masks" / "a").mkdir(parents=True)
    (tmp_path / "maps").mkdir()
    picture = np.random.default_rng(0).integers(0, 255, SHAPE).astype(np.uint8)
    cv2.imwrite(str(tmp_path / "images" / "a.png"), picture)
    saved(tmp_path / "masks" / "a" / "effusion.nii.gz", MASK.T, -1, -1, 1)
    saved(tmp_path / "masks" / "a_edema.nii", MASK.T, -1, -1, 1)
    saved(tmp_path / "maps" / "a.nii.gz", MASK.T * 7, -1, -1, 1)
    flat = ("--masks", tmp_path / "masks", "--flat")
    for number, layout in enumerate(
        (("--masks", tmp_path / "masks"), flat, ("--masks", tmp_path / "maps", "--label", "7=opacity"))
    ):
        out = tmp_path / f"{number}.jsonl"
        code, _, err = cli("ingest", "masks", "--images", tmp_path / "images", *layout, "-o", out)
        assert code == 0, err
        (record,) = map(json.loads, out.read_text().splitlines())
        assert record["finding"] == ("effusion", "edema", "opacity")[number]
        assert cli("validate", out)[0] == 0
