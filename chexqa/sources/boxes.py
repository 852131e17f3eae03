"""Reader of boxes around findings, from VinDr-CXR's csv, NIH's ``BBox_List_2017.csv`` or PadChest-GR's JSON.

- VinDr-CXR has the columns ``image_id, class_name, x_min, y_min, x_max, y_max``, in pixels; the last four are empty for
  "No finding". Copies of the data set have the columns ``width, height`` with the size of the original pictures.
- NIH has the columns ``Image Index, Finding Label`` and four columns whose titles together read "Bbox [x,y,w,h]", in
  pixels.
- PadChest-GR is a list of studies with ``ImageID`` and ``findings``. A finding has ``labels`` and ``boxes``, as
  fractions of the picture's sides.

MS-CXR is COCO JSON, which ``coco`` reads. Sources: https://physionet.org/content/vindr-cxr,
https://nihcc.app.box.com/v/ChestXray-NIHCC, https://bimcv.cipf.es/bimcv-projects/padchest-gr.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from chexqa.files.errors import InputError, WrongParts
from chexqa.files.jsonio import check, parse_json, read_text
from chexqa.sources.anatomy import Options
from chexqa.sources.annotations import Absent, Labels, from_annotations
from chexqa.sources.case_records import POINT, Outcome, Terms
from chexqa.sources.coco import refuse_foreign
from chexqa.sources.pictures import Annotation, Pictures, check_box
from chexqa.sources.tables import Table

_VINDR = ("image_id", "class_name", "x_min", "y_min", "x_max", "y_max")
_SIZE = ("width", "height")
_NIH = ("Image Index", "Finding Label", "Bbox [x", "y", "w", "h]")


def ingest(
    file: Path, images: Path, manifest: Path, terms: Terms, anatomy: Options, labels: Labels, absent: Absent,
    drawn_on: str | None = None,
) -> Outcome:  # fmt: skip
    """Write a manifest from a file of boxes; all boxes of one finding on one picture form one case.

    The columns ``width, height`` give the size of the picture that a box was drawn on. For boxes without them,
    ``drawn_on`` gives this size (:class:`~chexqa.sources.pictures.Pictures`). Raises ``InputError`` if neither
    gives a size and a box extends beyond its picture: the boxes were then drawn on pictures of another size.
    """
    files = Pictures(images, drawn_on)
    found = list(_padchest(file, files) if file.suffix.lower() == ".json" else _table(file))
    wrong = WrongParts(file)
    for one in found:
        with wrong.collected():
            files.check_inside(one)
    wrong.conclude()
    return from_annotations(found, (), files, manifest, terms, anatomy, labels, absent)


def _table(file: Path) -> Iterator[Annotation]:
    if file.suffix.lower() in (".xml", ".txt", ".yaml", ".yml"):
        refuse_foreign(file, read_text(file), None)
    table = Table(file)
    columns = next((names for names in (_VINDR, _NIH) if {*names} <= {*table.columns}), None)
    if columns is None:
        raise InputError(
            f"{table.path}: has neither the columns of VinDr-CXR ({', '.join(_VINDR)}) nor those of NIH "
            f"({', '.join(_NIH)}); the first line has {table.listed}."
        )
    sized = {*_SIZE} <= {*table.columns}
    wrong = WrongParts(table.path)
    for row in table.rows():
        with wrong.collected():
            where = f"{table.path}, line {row.line}"
            image, label, *cells = (row.cells[name] for name in columns)
            if not any(cells):
                yield Annotation(image, label, None, where)
                continue
            x, y, right, bottom = (_number(cell, where) for cell in cells)
            box = [x, y, right - x, bottom - y] if columns is _VINDR else [x, y, right, bottom]
            width, height = (round(_number(row.cells[name], where)) for name in _SIZE) if sized else (0, 0)
            frame = (height, width) if height > 0 and width > 0 else None
            yield Annotation(image, label, {"box": _checked(box, where)}, where, frame=frame)
    wrong.conclude()


def _padchest(file: Path, files: Pictures) -> Iterator[Annotation]:
    data = parse_json(read_text(file), str(file))
    refuse_foreign(file, "", data)
    check(data, "grounded_reports", str(file))
    for place, study in enumerate(data, start=1):
        where, image = f"{file}, study {place}", study["ImageID"]
        size = files.size(image)
        yield Annotation(image, "normal", None, where)
        for finding in study["findings"] if size is not None else ():
            for label in finding.get("labels") or ():
                for shares in finding.get("boxes") or ():
                    yield Annotation(image, label, {"box": _scaled(shares, size, where)}, where, frame=size)


def _scaled(shares: list[float], size: tuple[int, int] | None, where: str) -> list[float]:
    """Return a box ``[left, top, right, bottom]`` in pixels; ``shares`` are fractions of the picture's sides."""
    assert size is not None, "studies without a picture have no boxes"
    (left, top, right, bottom), (height, width) = shares, size
    return _checked([left * width, top * height, (right - left) * width, (bottom - top) * height], where)


def _checked(box: list[float], where: str) -> list[float]:
    if box[2] <= 0 or box[3] <= 0:
        raise InputError(
            f"{where}: the box {[round(value, 2) for value in box]} is empty: its width or height is 0 or negative; "
            "correct it."
        )
    check_box(box, where)
    return [round(value, 3) for value in box]


def _number(value: object, where: str) -> float:
    """Return ``value`` as a finite float; for any other value, raise ``InputError`` that begins with ``where``."""
    try:
        found = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        found = float("nan")
    if not np.isfinite(found):
        raise InputError(f"{where}: '{value}' is not a number of pixels; correct it{POINT}.")
    return found
