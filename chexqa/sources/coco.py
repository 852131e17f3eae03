"""Reader of COCO JSON, as exported by CVAT, Label Studio, MD.ai and FiftyOne: polygons, run lengths and boxes.

The file has ``images`` (``id, file_name, width, height``), ``categories`` (``id, name``) and ``annotations``
(``image_id, category_id, segmentation, bbox``). ``segmentation`` is a list of polygons ``[x, y, x, y, …]``, or run
lengths with ``size`` and ``counts`` (a list or a string). It is empty if an annotation has only a ``bbox``, as in
MS-CXR. Source: https://cocodataset.org.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, check, parse_json, read_text
from chexqa.imaging import masks
from chexqa.imaging.read import MAX_PIXELS
from chexqa.sources.anatomy import Options
from chexqa.sources.annotations import (
    AS_SHARES,
    Absent,
    Annotation,
    Labels,
    Pictures,
    check_box,
    from_annotations,
    refuse_foreign,
)
from chexqa.sources.case_records import Outcome, Tally, Terms

# Least IoU of the box around an annotation's run lengths and its "bbox".
_LEAST_OVERLAP = 0.5

_UNSIZED = (
    "without width and height in the file: polygons and boxes are taken to be in pixels of the pictures, so check with "
    "'chexqa show' that they lie where they should"
)


def ingest(
    file: Path, images: Path, manifest: Path, terms: Terms, anatomy: Options, labels: Labels, absent: Absent
) -> Outcome:
    """Write a manifest of a COCO file, one case for each finding of each picture.

    ``labels`` maps categories to findings; a category with the name of a finding needs no entry. Polygons and boxes are
    in pixels of the size that the picture's entry states (``width``, ``height``). ``InputError`` is raised if a picture
    has another size; the outcome's remarks have the number of entries without a size.
    """
    text = read_text(file)
    refuse_foreign(file, text, None)
    data = parse_json(text, str(file))
    refuse_foreign(file, "", data)
    _refuse_panoptic(data, file)
    check(data, "coco", str(file))
    pictures = dict(_by_id(data["images"], "image", "file_name", file))
    named = {key: entry["name"] for key, entry in _by_id(data["categories"], "category", "name", file)}
    files = Pictures(images)
    shapes = list(_shapes(data["annotations"], pictures, named, files, file))
    names = [entry["file_name"] for entry in pictures.values()]
    unstated = {entry["file_name"] for entry in pictures.values() if None in (entry.get("width"), entry.get("height"))}
    outcome = from_annotations(shapes, names, files, manifest, terms, anatomy, labels, absent)
    unsized = Tally()
    for name in dict.fromkeys(shape.image for shape in shapes if shape.source and "size" not in shape.source):
        if name in unstated:
            unsized.add(name)
    unsized.remark(outcome.remarks, "picture", _UNSIZED)
    return outcome


def _refuse_panoptic(data: object, file: Path) -> None:
    """Raise ``InputError`` for COCO's panoptic form, whose outlines lie in pictures beside the file."""
    entries = data.get("annotations") if isinstance(data, dict) else None
    if isinstance(entries, list) and entries and isinstance(entries[0], dict) and "segments_info" in entries[0]:
        raise InputError(f"{file}: is COCO's panoptic form, which has no outlines; export the instances.")


def _by_id(entries: list[Record], noun: str, field: str, file: Path) -> Iterator[tuple[int | str, Record]]:
    """Yield each entry with its id; raise ``InputError`` if two entries with different names have the same id."""
    seen: dict[int | str, str] = {}
    for entry in entries:
        first = seen.setdefault(entry["id"], entry[field])
        if first != entry[field]:
            raise InputError(
                f"{file}: the {noun} id {entry['id']} is given to '{first}' and to '{entry[field]}'; give each {noun} "
                "an id of its own, and correct the annotations."
            )
        yield entry["id"], entry


def _shapes(
    entries: list[Record], pictures: dict[int | str, Record], named: dict[int | str, str], files: Pictures, file: Path
) -> Iterator[Annotation]:
    checked: set[str] = set()
    for place, entry in enumerate(entries, start=1):
        where = f"{file}, annotation {entry.get('id', place)}"
        image, category = entry["image_id"], entry["category_id"]
        if image not in pictures or category not in named:
            missing = f"image {image}" if image not in pictures else f"category {category}"
            raise InputError(f"{where}: refers to {missing}, which the file does not list; export the file again.")
        about, source = pictures[image], _source(entry, where)
        _check_box(entry, about, source, where)
        name = about["file_name"]
        if "size" not in source and name not in checked:
            checked.add(name)
            _check_size(about, files.size(name), f"{where}: its {'box is' if 'box' in source else 'polygons are'}")
        made = Annotation(name, named[category], source, where)
        if None in (about.get("width"), about.get("height")):
            files.check_inside(made)
        yield made


def _check_size(about: Record, size: tuple[int, int] | None, shape: str) -> None:
    """Raise ``InputError`` if the picture's size differs from the size that its entry in the file states.

    The message begins with ``shape``, such as "c.json, annotation 3: its box is".
    """
    said = (about.get("height"), about.get("width"))
    if size is not None and None not in said and size != said:
        raise InputError(
            f"{shape} for {said[1]} x {said[0]} px, but {about['file_name']} has {size[1]} x "
            f"{size[0]} px; give the pictures that the annotations were drawn on."
        )


def _check_box(entry: Record, about: Record, source: Record, where: str) -> None:
    """Raise ``InputError`` if run lengths and ``bbox`` of an annotation do not overlap by half.

    Then the runs follow the rows instead of the columns, or belong to another picture. Run lengths can have another
    size than the picture; a ``bbox`` is in pixels of either.
    """
    box = entry.get("bbox")
    if "counts" not in source or not box or min(box[2:]) <= 0:
        return
    inside = masks.from_rle(source, where)
    columns, rows = np.flatnonzero(inside.any(axis=0)), np.flatnonzero(inside.any(axis=1))
    if not len(rows):
        return  # an empty mask is an error of its own
    left, top, right, bottom = (int(edge) for edge in (columns[0], rows[0], columns[-1] + 1, rows[-1] + 1))
    scale = (about.get("width") or inside.shape[1]) / inside.shape[1]
    found: list[float] = [left, top, right - left, bottom - top]
    if max(_overlap(found, box), _overlap([scale * value for value in found], box)) < _LEAST_OVERLAP:
        raise InputError(
            f"{where}: its run lengths lie in the box {found}, but its 'bbox' is {box}; count run lengths column by "
            "column from top to bottom, as pycocotools does, and give 'bbox' as [x, y, width, height], or leave it out."
        )


def _overlap(one: list[float], other: list[float]) -> float:
    """Return the IoU of two boxes ``[x, y, width, height]``."""
    sides = [
        min(one[axis] + one[axis + 2], other[axis] + other[axis + 2]) - max(one[axis], other[axis]) for axis in (0, 1)
    ]
    shared = max(0.0, sides[0]) * max(0.0, sides[1])
    return shared / (one[2] * one[3] + other[2] * other[3] - shared)


def _source(entry: Record, where: str) -> Record:
    """Return an annotation's shape in the form that a manifest uses."""
    shape, box = entry.get("segmentation"), entry.get("bbox")
    if isinstance(shape, dict):
        height, width = map(int, shape["size"])  # JSON Schema accepts 48.0 as an integer
        if height * width > MAX_PIXELS:
            raise InputError(
                f"{where}: its run lengths are for {width} x {height} px, more than {MAX_PIXELS:,} pixels; leave "
                "this annotation out."
            )
        counts = shape["counts"]
        return {"size": [height, width], "counts": counts if isinstance(counts, str) else [int(one) for one in counts]}
    if shape:
        polygons = shape if isinstance(shape[0], list) else [shape]
        if any(len(polygon) % 2 for polygon in polygons):
            raise InputError(f"{where}: a polygon has an odd number of values; it needs pairs of x, y.")
        if all(0 <= value <= 1 for polygon in polygons for value in polygon):
            raise InputError(f"{where}: its outline {AS_SHARES}")
        return {"polygons": [[list(pair) for pair in zip(one[::2], one[1::2], strict=True)] for one in polygons]}
    if not box:
        raise InputError(f"{where}: has neither a 'segmentation' nor a 'bbox'; add one of them.")
    check_box(box, where)
    return {"box": box}
