"""Reader of COCO JSON, as exported by CVAT, Label Studio, MD.ai and FiftyOne: polygons, run lengths and boxes.

The file has ``images`` (``id, file_name, width, height``), ``categories`` (``id, name``) and ``annotations``
(``image_id, category_id, segmentation, bbox``). ``segmentation`` is a list of polygons ``[x, y, x, y, …]``, or run
lengths with ``size`` and ``counts`` (a list or a string). It is empty if an annotation has only a ``bbox``, as in
MS-CXR. Source: https://cocodataset.org.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from chexqa.files.errors import InputError, WrongParts
from chexqa.files.jsonio import Record, check, parse_json, read_text
from chexqa.imaging import masks
from chexqa.imaging.read import MAX_PIXELS
from chexqa.sources.anatomy import Options
from chexqa.sources.annotations import Absent, Labels, from_annotations
from chexqa.sources.case_records import Outcome, Tally, Terms
from chexqa.sources.pictures import AS_SHARES, OWN_SIZE, Annotation, Pictures, check_box

# Least IoU of the box around an annotation's run lengths and its "bbox".
_LEAST_OVERLAP = 0.5

# Length of the beginning of a file that shows the root element of its XML.
_START = 2000
_DATUMARO = "convert the data to COCO JSON, for example with Datumaro (datum convert -f coco_instances)"
# A line of YOLO: the class, and four or more fractions.
_YOLO = re.compile(r"\d+( (0|1|[01]\.\d+)){4,}")
# Ways from the formats of tools to a file that chexqa reads.
_WAYS = {
    "labelme's JSON": "convert the folder of these files to COCO JSON, for example with labelme2coco",
    "Label Studio's JSON": "export polygons as 'COCO', or brush strokes as 'Brush labels to PNG' and give each PNG the "
    "name that 'ingest masks' needs",
    "GeoJSON": "export label images as PNG and read them with 'ingest masks --label', or convert the file to COCO JSON",
    "Supervisely's JSON": "export the project as COCO, or as masks",
    "VIA's JSON": "export the annotations in VIA as 'COCO format'",
    "Datumaro's JSON": _DATUMARO,
    "CVAT's XML": "export the task in CVAT as 'COCO 1.0'",
    "PASCAL VOC's XML": _DATUMARO,
    "nnU-Net's or MONAI's dataset.json": "read the label maps that it names with 'chexqa ingest masks --images "
    "imagesTr --masks labelsTr --label-file dataset.json'",
    "a YOLO file": "convert the data to COCO JSON, with x times the picture's width and y times its height",
}
_UNSIZED = (
    "without width and height in the file, so it is not known for which size their polygons and boxes are: give the "
    f"size of the pictures that they were drawn on (--drawn-on WIDTHxHEIGHT), or --drawn-on {OWN_SIZE} if it is that "
    "of the pictures in --images"
)


def ingest(
    file: Path, images: Path, manifest: Path, terms: Terms, anatomy: Options, labels: Labels, absent: Absent,
    drawn_on: str | None = None,
) -> Outcome:  # fmt: skip
    """Write a manifest of a COCO file, one case for each finding of each picture.

    - ``labels``: the finding of each category; a category with the name of a finding needs no entry.
    - ``drawn_on``: the size of the pictures on which polygons and boxes were drawn, if the file does not state it
      (:class:`~chexqa.sources.pictures.Pictures`). Shapes that were drawn on another size are scaled.

    Raise ``InputError`` if neither the file nor ``drawn_on`` states on which size polygons and boxes were drawn.
    """
    text = read_text(file)
    refuse_foreign(file, text, None)
    data = parse_json(text, str(file))
    refuse_foreign(file, "", data)
    _refuse_panoptic(data, file)
    check(data, "coco", str(file))
    pictures = dict(_by_id(data["images"], "image", "file_name", file))
    named = {key: entry["name"] for key, entry in _by_id(data["categories"], "category", "name", file)}
    files = Pictures(images, drawn_on)
    shapes = list(_shapes(data["annotations"], pictures, named, files, file))
    unsized = Tally()
    for name in dict.fromkeys(one.image for one in shapes if one.source and "size" not in one.source and not one.frame):
        unsized.add(name)
    if drawn_on is None:
        unsized.refuse("picture", _UNSIZED)
    names = [entry["file_name"] for entry in pictures.values()]
    return from_annotations(shapes, names, files, manifest, terms, anatomy, labels, absent)


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
    wrong = WrongParts(file, "annotations")
    for place, entry in enumerate(entries, start=1):
        with wrong.collected():
            where = f"{file}, annotation {entry.get('id', place)}"
            image, category = entry["image_id"], entry["category_id"]
            if image not in pictures or category not in named:
                missing = f"image {image}" if image not in pictures else f"category {category}"
                raise InputError(f"{where}: refers to {missing}, which the file does not list; export the file again.")
            about, source = pictures[image], _source(entry, where)
            _check_box(entry, about, source, where)
            height, width = about.get("height"), about.get("width")
            frame = (height, width) if height and width else None
            made = Annotation(about["file_name"], named[category], source, where, frame=frame)
            files.check_inside(made)
            yield made
    wrong.conclude()


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


def refuse_foreign(file: Path, text: str, data: object) -> None:
    """Raise ``InputError`` if an annotation file is in a tool's format that chexqa does not read, such as labelme's.

    The error says how to convert the file to a format that chexqa reads. Give the file's ``text`` (or ""), its JSON
    value ``data`` (or None), or both.
    """
    first = data[0] if isinstance(data, list) and data else data
    keys = {*first} if isinstance(first, dict) else set()
    inner = next((value for value in first.values() if isinstance(value, dict)), {}) if isinstance(first, dict) else {}
    start = text[:_START]
    tests = {
        "labelme's JSON": {"shapes", "imagePath"} <= keys,
        "Label Studio's JSON": isinstance(data, list) and bool({"annotations", "annotation_id"} & keys),
        "GeoJSON": isinstance(first, dict) and first.get("type") in ("Feature", "FeatureCollection"),
        "Supervisely's JSON": {"objects", "size"} <= keys,
        "VIA's JSON": "_via_img_metadata" in keys or {"filename", "regions"} <= {*inner},
        "nnU-Net's or MONAI's dataset.json": "labels" in keys and bool({"numTraining", "channel_names"} & keys),
        "Datumaro's JSON": {"items", "categories"} <= keys,
        "CVAT's XML": "<annotations" in start,
        "PASCAL VOC's XML": "<annotation>" in start,
        "a YOLO file": _YOLO.match(start) is not None or "\nnames:" in start,
    }
    tool = next((name for name, fits in tests.items() if fits), None)
    if tool is not None:
        raise InputError(f"{file}: is {tool}, which chexqa does not read; {_WAYS[tool]}.")
