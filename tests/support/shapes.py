"""Random masks for tests: lungs and lesions made of a few curves, and real ones if the data are present."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]


def blob(
    rng: np.random.Generator,
    shape: tuple[int, int],
    center_xy: tuple[float, float],
    radii_xy: tuple[float, float],
    roughness: float = 0.25,
) -> Mask:
    """Return a filled curve around a centre: an ellipse with five random waves, clipped to ``shape`` (H, W)."""
    angles = np.linspace(0, 2 * np.pi, 120, endpoint=False)
    waves = rng.normal(0, roughness / 2, (5, 2)) / np.arange(1, 6)[:, None]
    radius = 1 + sum(a * np.sin(n * angles) + b * np.cos(n * angles) for n, (a, b) in enumerate(waves, start=1))
    radius = np.clip(radius, 0.3, 1.8)
    x = center_xy[0] + radii_xy[0] * radius * np.cos(angles)
    y = center_xy[1] + radii_xy[1] * radius * np.sin(angles)
    return polygon(shape, np.stack([x, y], axis=1))


def polygon(shape: tuple[int, int], points_xy: npt.ArrayLike) -> Mask:
    """Return a filled polygon of x, y points, clipped to ``shape`` (H, W)."""
    canvas = np.zeros(shape, np.uint8)
    cv2.fillPoly(canvas, [np.round(np.asarray(points_xy)).astype(np.int32)], 1)
    return canvas.astype(bool)


def around(*masks: Mask) -> tuple[slice, slice]:
    """Return the rows and columns that contain all of these masks, with a margin as far as the picture has room."""
    together = np.logical_or.reduce(masks)
    rows, columns = np.flatnonzero(together.any(axis=1)), np.flatnonzero(together.any(axis=0))
    return slice(max(0, rows[0] - 9), rows[-1] + 10), slice(max(0, columns[0] - 9), columns[-1] + 10)


def two_lungs(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[Mask, Mask]:
    """Return a right and a left lung of random size and outline, sometimes with a speck beside one."""
    height, width = shape
    lungs = []
    for middle in (0.28, 0.72):
        center = width * (middle + rng.uniform(-0.05, 0.05)), height * rng.uniform(0.4, 0.6)
        radii = width * rng.uniform(0.08, 0.2), height * rng.uniform(0.2, 0.5)
        lungs.append(blob(rng, shape, center, radii))
    right, left = lungs
    right[:, width // 2 :] = False
    left[:, : width // 2] = False
    if rng.random() < 0.3:
        right[int(rng.integers(height)), int(rng.integers(width // 2))] = True
    return right, left


def some_lesion(rng: np.random.Generator, shape: tuple[int, int]) -> Mask:
    """Return a random lesion of one to four blobs, from a few pixels to a third of the picture in width."""
    height, width = shape
    lesion = np.zeros(shape, bool)
    for _ in range(int(rng.integers(1, 5))):
        center = width * rng.uniform(0.05, 0.95), height * rng.uniform(0.05, 0.95)
        radii = width * rng.uniform(0.02, 0.17), height * rng.uniform(0.02, 0.17)
        lesion |= blob(rng, shape, center, radii)
    return lesion


def jsrt(folder: Path, side: int) -> dict[str, tuple[Mask, Mask]]:
    """Return right and left lung of the JSRT contours by radiograph, in pictures of ``side`` by ``side`` pixels."""
    record = json.loads((folder / "anatomy" / "jsrt_contours.json").read_text())
    scale = side / record["image_size"][0]
    return {
        name: tuple(polygon((side, side), np.array(parts[lung]) * scale) for lung in ("right_lung", "left_lung"))
        for name, parts in record["contours"].items()
    }


def chexmask(folder: Path, step: int) -> dict[str, tuple[Mask, Mask]]:
    """Return the right and left lungs of CheXmask's rows by radiograph, with every ``step``-th pixel."""
    csv.field_size_limit(10**7)
    lungs = {}
    with (folder / "chexmask" / "ChestX-Ray8_sample.csv").open() as file:
        for row in csv.DictReader(file):
            shape = int(row["Height"]), int(row["Width"])
            pair = [_from_runs(row[column], shape)[::step, ::step] for column in ("Right Lung", "Left Lung")]
            lungs[row["Image Index"]] = (pair[0], pair[1])
    return lungs


def _from_runs(text: str, shape: tuple[int, int]) -> Mask:
    flat = np.zeros(shape[0] * shape[1], bool)
    numbers = [int(number) for number in text.split()]
    for start, length in zip(numbers[::2], numbers[1::2], strict=True):
        flat[start : start + length] = True
    return flat.reshape(shape)


def chestx_det(folder: Path, least: float, step: int) -> Iterator[tuple[str, Mask]]:
    """Yield name and lesion (1024 x 1024) of every ``step``-th finding in ChestX-Det that is large enough.

    ``least`` is the smallest share of the picture.
    """
    lesions: dict[str, list[list[list[float]]]] = {}
    for row in json.loads((folder / "chestx_det" / "ChestX_Det_test.json").read_text()):
        for finding, points in zip(row["syms"], row["polygons"], strict=True):
            lesions.setdefault(f"{row['file_name']} {finding}", []).append(points)
    count = 0
    for name, parts in lesions.items():
        mask = np.zeros((1024, 1024), np.uint8)
        for points in parts:
            cv2.fillPoly(mask, [np.round(np.asarray(points)).astype(np.int32)], 1)
        if cv2.countNonZero(mask) >= least * mask.size:
            count += 1
            if count % step == 0:
                yield name, mask.astype(bool)


KINDS = ("round", "band", "bilateral", "at the border", "with a hole", "branched", "crumbs", "small")


def lesion_of_kind(rng: np.random.Generator, kind: str, side: int = 1024) -> Mask:
    """Return a random lesion of one of :data:`KINDS` in a square picture."""
    shape = (side, side)

    def at(x: float, y: float, rx: float, ry: float, roughness: float = 0.25) -> Mask:
        return blob(rng, shape, (x * side, y * side), (rx * side, ry * side), roughness)

    if kind == "round":
        return at(*rng.uniform(0.25, 0.75, 2), *rng.uniform(0.05, 0.16, 2))
    if kind == "band":
        return at(0.3, rng.uniform(0.3, 0.7), rng.uniform(0.12, 0.2), rng.uniform(0.02, 0.04), 0.1)
    if kind == "bilateral":
        return at(0.28, 0.6, *rng.uniform(0.05, 0.12, 2)) | at(0.72, 0.6, *rng.uniform(0.05, 0.12, 2))
    if kind == "at the border":
        return at(rng.choice([0.0, 1.0]), rng.uniform(0.5, 1.0), *rng.uniform(0.1, 0.2, 2))
    if kind == "with a hole":
        return at(0.5, 0.5, 0.15, 0.15, 0.1) & ~at(0.5, 0.5, 0.05, 0.05, 0.1)
    if kind == "branched":
        arms = np.zeros(shape, np.uint8)
        for angle in rng.uniform(0, 2 * np.pi, 4):
            end = (0.5 + 0.18 * np.array([np.cos(angle), np.sin(angle)])) * side
            cv2.line(arms, (side // 2, side // 2), tuple(int(v) for v in end), 1, int(0.05 * side))
        return arms.astype(bool)
    if kind == "crumbs":
        crumbs = at(0.4, 0.4, 0.1, 0.12)
        for _ in range(6):
            crumbs |= at(*rng.uniform(0.2, 0.6, 2), 0.015, 0.015)
        return crumbs
    return at(*rng.uniform(0.2, 0.8, 2), 0.03, 0.035)
