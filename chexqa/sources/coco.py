"""COCO JSON, which CVAT, Label Studio, MD.ai and FiftyOne export: polygons, run lengths of both forms, boxes.

Layout: ``images`` (``id, file_name, width, height``), ``categories`` (``id, name``) and ``annotations`` (``image_id,
category_id, segmentation, bbox``). ``segmentation`` is a list of polygons ``[x, y, x, y, …]``, run lengths with
``size`` and ``counts``, or empty where only ``bbox`` is given, as in MS-CXR. Source: https://cocodataset.org.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from chexqa.files.errors import InputError
from chexqa.files.jsonio import parse_json, read_text
from chexqa.sources.anatomy import Options
from chexqa.sources.annotations import Absent, Annotation, Labels, field, from_annotations, number, size_of
from chexqa.sources.common import Outcome, Terms


def ingest(
    file: Path, images: Path, manifest: Path, terms: Terms, anatomy: Options, labels: Labels, absent: Absent
) -> Outcome:
    """Write a manifest of a COCO file, one case for each finding of each picture.

    A category stands for the finding of its name or of ``labels``. Polygons are in pixels of ``width`` x ``height``; an
    annotation of a picture of another size is refused.
    """
    data = parse_json(read_text(file), str(file))
    pictures = {}
    for number_of, entry in enumerate(_list(data, "images", file), start=1):
        where = f"{file}, image {number_of}"
        pictures[field(entry, "id", where)] = (str(field(entry, "file_name", where)), entry)
    named = {field(entry, "id", f"{file}, a category"): str(field(entry, "name", f"{file}, a category"))
             for entry in _list(data, "categories", file)}  # fmt: skip
    shapes = list(_shapes(_list(data, "annotations", file), pictures, named, images, file))
    names = [name for name, _ in pictures.values()]
    return from_annotations(shapes, names, images, manifest, terms, anatomy, labels, absent)


def _list(data: Any, name: str, file: Path) -> list[Any]:
    found = data.get(name) if isinstance(data, dict) else None
    if not isinstance(found, list):
        raise InputError(f"{file}: has no list '{name}', so it is not COCO JSON of object detection.")
    return found


def _shapes(
    entries: list[Any], pictures: dict[Any, tuple[str, Any]], named: dict[Any, str], images: Path, file: Path
) -> Iterator[Annotation]:
    checked: set[str] = set()
    for place, entry in enumerate(entries, start=1):
        where = f"{file}, annotation {entry.get('id', place) if isinstance(entry, dict) else place}"
        image, category = field(entry, "image_id", where), field(entry, "category_id", where)
        if image not in pictures or category not in named:
            missing = f"image {image}" if image not in pictures else f"category {category}"
            raise InputError(f"{where}: refers to {missing}, which the file does not list.")
        name, about = pictures[image]
        source = _source(entry, where)
        if "polygons" in source and name not in checked:
            checked.add(name)
            _check_size(about, images / name, where)
        yield Annotation(name, named[category], source, where)


def _check_size(about: Any, path: Path, where: str) -> None:
    """Raise ``InputError`` if the picture has another size than the one whose pixels the polygons are in."""
    size, said = size_of(path), (about.get("height"), about.get("width"))
    if size is not None and None not in said and size != said:
        raise InputError(
            f"{where}: its polygons are for {said[1]} x {said[0]} px, but {path.name} has {size[1]} x {size[0]} px; "
            "give the pictures that were annotated."
        )


def _source(entry: dict[str, Any], where: str) -> dict[str, Any]:
    """Return an annotation's shape as a manifest holds it."""
    shape = entry.get("segmentation")
    if isinstance(shape, dict):
        return {"size": field(shape, "size", where), "counts": field(shape, "counts", where)}
    if isinstance(shape, list) and shape:
        flat = [shape] if not isinstance(shape[0], list) else shape
        polygons = []
        for polygon in flat:
            values = [number(value, where) for value in polygon]
            if len(values) < 6 or len(values) % 2:
                raise InputError(f"{where}: a polygon has {len(values)} numbers; it needs at least 3 pairs of x, y.")
            polygons.append([list(pair) for pair in zip(values[::2], values[1::2], strict=True)])
        return {"polygons": polygons}
    box = field(entry, "bbox", where)
    if not isinstance(box, list) or len(box) != 4:
        raise InputError(f"{where}: has neither a segmentation nor a 'bbox' of [x, y, width, height].")
    return {"box": [number(value, where) for value in box]}
