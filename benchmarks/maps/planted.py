r"""Six map makers whose skill and recognition of findings are known: a plugin for a study on phantoms.

    chexqa synth phantoms --cases 300 --findings all --size 512
    CHEXQA_PLANTED=phantoms/cases.jsonl chexqa heatmaps make phantoms --plugin benchmarks/maps/planted.py \
        --maker planted-cxr-1 -o planted-cxr-1
    chexqa heatmaps grade planted-* --masks phantoms/cases.jsonl -o graded

A maker reads the masks from the manifest in ``CHEXQA_PLANTED``. Its map points inside or outside the lesion, with a
probability that grows with the lesion's size. Its score of a radiograph is random, and higher if the finding is
present.
"""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np

from chexqa.contract.cases import load_case, read_manifest
from chexqa.eval.map_makers.prompts import read_prompts
from chexqa.eval.map_makers.registry import Domain, Made, map_maker
from chexqa.files.seeds import stream
from chexqa.imaging.read import Gray

# By maker: domain, probability of pointing at the largest lesion of a finding (skill), constant added to the score.
PLANTED: dict[str, tuple[Domain, float, float]] = {
    "planted-cxr-1": ("cxr", 0.95, 2.5), "planted-cxr-2": ("cxr", 0.85, 2.0),
    "planted-biomedical-1": ("biomedical", 0.7, 1.4),
    "planted-biomedical-2": ("biomedical", 0.6, 1.1), "planted-general-1": ("general", 0.5, 0.7),
    "planted-general-2": ("general", 0.4, 0.3),
}  # fmt: skip
SMALLEST, CELLS = 0.1, 128


def chance(skill: float, rank: int, lesions: int) -> float:
    """Return the probability that a map of the given skill points at a lesion; ``rank`` 0 is the smallest lesion.

    ``lesions`` is the number of lesions of the finding.
    """
    return skill * (SMALLEST + (1 - SMALLEST) * rank / (lesions - 1) if lesions > 1 else 1)


class Lesion(NamedTuple):
    """Lesion of a phantom, as the map makers of this plugin see it.

    - ``middle``: a point far inside the lesion, as shares of the picture's height and width (row, column).
    - ``near``: the grid cells in or close to the lesion, as a mask ``(CELLS, CELLS)``.
    - ``rank``: the rank of the lesion by size among all lesions of the same finding, from 0 (smallest).
    - ``lesions``: the number of lesions of the same finding.
    """

    middle: tuple[float, float]
    near: np.ndarray
    rank: int
    lesions: int


@cache
def lesions() -> dict[tuple[str, str], Lesion]:
    """Return the lesions, keyed by radiograph hash and finding in words."""
    words = read_prompts(None)
    found: dict[str, list[tuple[float, str, tuple[float, float], np.ndarray]]] = defaultdict(list)
    for case in read_manifest(Path(os.environ["CHEXQA_PLANTED"])):
        if case.present:
            loaded = load_case(case)
            assert loaded.source_mask is not None
            mask = loaded.source_mask.view(np.uint8)
            inside = cv2.distanceTransform(mask, cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
            row, column = np.unravel_index(int(inside.argmax()), mask.shape)
            middle = (row + 0.5) / mask.shape[0], (column + 0.5) / mask.shape[1]
            cells = cv2.resize(mask.astype(np.float32), (CELLS, CELLS), interpolation=cv2.INTER_AREA) > 0
            near = cv2.dilate(cells.astype(np.uint8), np.ones((5, 5), np.uint8)).astype(bool)
            found[words.finding(case.finding)].append((float(mask.mean()), digest(loaded.image), middle, near))
    return {
        (key, finding): Lesion(middle, near, rank, len(each))
        for finding, each in found.items()
        for rank, (_, key, middle, near) in enumerate(sorted(each, key=lambda one: one[0]))
    }


def digest(picture: Gray) -> str:
    return hashlib.sha256(picture.tobytes()).hexdigest()


def register(name: str, domain: Domain, skill: float, shift: float) -> None:
    @map_maker(name, domain)
    def planted(picture: Gray, finding: str) -> Made:
        """Made-up map for tests of the software: its peak lies on the lesion with a known probability."""
        key = digest(picture)
        random, lesion = stream(0, name, key, finding), lesions().get((key, finding))
        if lesion is not None and random.random() < chance(skill, lesion.rank, lesion.lesions):
            at = np.array(lesion.middle)
        else:
            at = random.random(2)
            while lesion is not None and lesion.near[tuple((at * CELLS).astype(int))]:
                at = random.random(2)
        rows, columns = np.mgrid[:CELLS, :CELLS] / CELLS + 0.5 / CELLS
        values = np.exp(-((rows - at[0]) ** 2 + (columns - at[1]) ** 2) / (2 * 0.08**2))
        return values, float(random.normal(shift * (lesion is not None)))


for one, (of, skill_of, shift_of) in PLANTED.items():
    register(one, of, skill_of, shift_of)
