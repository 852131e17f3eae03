"""Six map makers of known quality, domain and recognition: a plugin for a study on phantoms.

    chexqa synth phantoms --cases 300 --findings all --size 512
    CHEXQA_PLANTED=phantoms/cases.jsonl chexqa heatmaps make phantoms --plugin benchmarks/maps/planted.py \
        --maker planted-cxr-1 -o planted-cxr-1
    chexqa heatmaps grade planted-* --masks phantoms/cases.jsonl -o graded

A maker reads the masks from the manifest in ``CHEXQA_PLANTED``. The probability that its map points at the middle of
the lesion grows with the lesion's size. Its score is higher, by a fixed shift, where the finding is present.
"""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path

import numpy as np

from chexqa.contract.cases import load_case, read_manifest
from chexqa.eval.map_makers.prompts import read_prompts
from chexqa.eval.map_makers.registry import Domain, Made, map_maker
from chexqa.files.seeds import stream
from chexqa.imaging.read import Gray

# By maker: domain, chance of pointing at a large lesion, shift of the score.
PLANTED: dict[str, tuple[Domain, float, float]] = {
    "planted-cxr-1": ("cxr", 0.95, 2.5), "planted-cxr-2": ("cxr", 0.85, 2.0),
    "planted-biomedical-1": ("biomedical", 0.7, 1.4),
    "planted-biomedical-2": ("biomedical", 0.6, 1.1), "planted-general-1": ("general", 0.45, 0.7),
    "planted-general-2": ("general", 0.35, 0.3),
}  # fmt: skip
LARGE, CELLS = 0.06, 32


@cache
def lesions() -> dict[tuple[str, str], tuple[float, float, float]]:
    """Return each lesion's middle pixel and its share of the picture, keyed by radiograph hash and finding in words.

    Row and column of the middle pixel are divided by the picture's height and width.
    """
    words, found = read_prompts(None), {}
    for case in read_manifest(Path(os.environ["CHEXQA_PLANTED"])):
        if case.present:
            loaded = load_case(case)
            assert loaded.source_mask is not None
            rows, columns = np.nonzero(loaded.source_mask)
            middle = int(np.argmin((rows - rows.mean()) ** 2 + (columns - columns.mean()) ** 2))
            height, width = loaded.source_mask.shape
            place = rows[middle] / height, columns[middle] / width, float(loaded.source_mask.mean())
            found[digest(loaded.image), words.finding(case.finding)] = place
    return found


def digest(picture: Gray) -> str:
    return hashlib.sha256(picture.tobytes()).hexdigest()


def register(name: str, domain: Domain, skill: float, shift: float) -> None:
    @map_maker(name, domain)
    def planted(picture: Gray, finding: str) -> Made:
        """Map of planted quality: a software test."""
        key = digest(picture)
        random, lesion = stream(0, name, key, finding), lesions().get((key, finding))
        at = random.random(2)
        if lesion is not None and random.random() < skill * min(1.0, 0.4 + 0.6 * lesion[2] / LARGE):
            at = np.array(lesion[:2])
        rows, columns = np.mgrid[:CELLS, :CELLS] / CELLS + 0.5 / CELLS
        values = np.exp(-((rows - at[0]) ** 2 + (columns - at[1]) ** 2) / (2 * 0.08**2))
        return values, float(random.normal(shift * (lesion is not None)))


for one, (of, skill_of, shift_of) in PLANTED.items():
    register(one, of, skill_of, shift_of)
