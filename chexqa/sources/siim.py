"""Reader of SIIM-ACR's run lengths of pneumothorax: a csv with the columns ``ImageId, EncodedPixels``.

``EncodedPixels`` is ``offset length offset length …`` down the columns of a picture of 1024 x 1024 px. An offset is
counted from the end of the previous run. The value -1 means that there is no pneumothorax. A picture can have several
rows. Source: https://www.kaggle.com/c/siim-acr-pneumothorax-segmentation.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from chexqa.files.errors import InputError, WrongParts
from chexqa.imaging import masks
from chexqa.imaging.read import Mask
from chexqa.sources.anatomy import Options
from chexqa.sources.annotations import Absent, Labels, from_annotations
from chexqa.sources.case_records import Outcome, Terms
from chexqa.sources.pictures import Annotation, Pictures
from chexqa.sources.tables import Table

SIDE = 1024
FINDING = "pneumothorax"


def ingest(table: Path, images: Path, manifest: Path, terms: Terms, anatomy: Options) -> Outcome:
    """Write a manifest of the csv; a picture whose rows are all -1 becomes a case without pneumothorax."""
    found = list(_rows(Table(table)))
    return from_annotations(
        found, (), Pictures(images), manifest, terms, anatomy, Labels(()), Absent(unmasked=True)
    )  # fmt: skip


def _rows(table: Table) -> Iterator[Annotation]:
    columns = {name.strip().lower(): name for name in table.columns}
    if not {"imageid", "encodedpixels"} <= columns.keys():
        raise InputError(
            f"{table.path}: the columns ImageId, EncodedPixels are missing; the first line has {table.listed}."
        )
    wrong = WrongParts(table.path)
    for row in table.rows():
        with wrong.collected():
            where = f"{table.path}, line {row.line}"
            image, runs = row.cells[columns["imageid"]], row.cells[columns["encodedpixels"]]
            source = None if runs == "-1" else masks.to_rle(from_offsets(runs, where))
            yield Annotation(image, FINDING, source, where)
    wrong.conclude()


def from_offsets(runs: str, where: str) -> Mask:
    """Return the mask ``(1024, 1024)`` that ``runs`` describes.

    ``runs`` is the text of ``EncodedPixels``: run lengths with relative offsets. Raises ``InputError`` for text in
    another form, and for runs beyond the last pixel.

    >>> from_offsets("1 2 3 1", "an example")[:7, 0].tolist()
    [False, True, True, False, False, False, True]
    """
    try:
        numbers = np.array(runs.split(), dtype=np.str_).astype(np.int64)
    except (ValueError, OverflowError):
        numbers = np.array([-1])
    if len(numbers) % 2 or not len(numbers) or (numbers < 0).any() or numbers.sum() > SIDE * SIDE:
        raise InputError(f"{where}: EncodedPixels must be -1, or pairs 'offset length' within {SIDE} x {SIDE} px.")
    counts = np.append(numbers, SIDE * SIDE - numbers.sum())
    return np.ascontiguousarray(np.repeat(np.arange(len(counts)) % 2 == 1, counts).reshape(SIDE, SIDE).T)
