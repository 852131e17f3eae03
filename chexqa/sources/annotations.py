"""Conversion of any tool's annotations into cases: labels become findings, and shapes in a picture become masks."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from chexqa.contract import cases
from chexqa.contract.findings import FINDINGS
from chexqa.files.errors import InputError, suggest
from chexqa.files.jsonio import Record, is_file
from chexqa.imaging import masks
from chexqa.imaging.mask_source import proportional
from chexqa.sources.anatomy import Anatomy, Options, bare, file_names, tails
from chexqa.sources.case_records import (
    PICTURES,
    Outcome,
    Places,
    Tally,
    Terms,
    composed,
    of_header,
    record,
    remark_unread,
    size_of,
)
from chexqa.sources.tables import Table

# Names that public data sets use for chexqa's findings and structures.
KNOWN = {
    "pleural_effusion": "effusion", "lung_opacity": "opacity", "pulmonary_edema": "edema", "nodule/mass": "lung_lesion",
    "pulmonary_fibrosis": "fibrosis", "airspace_opacity": "opacity", "lung_lesion": "lung_lesion",
}  # fmt: skip
NONE = ("no_finding", "normal")
_MOST_TOLD = 10  # unknown labels that are told one by one
OWN_SIZE = "pictures"  # value of --drawn-on: the size of the given pictures
_SIZE = re.compile(r"(\d{2,5})x(\d{2,5})")
_SCALED = (
    "of another size than the annotations were drawn on: their polygons and boxes were scaled, so check with 'chexqa "
    "show' that they lie where they should"
)
AS_SHARES = (
    "has no coordinate above 1, so the coordinates seem to be fractions of the picture's sides; multiply x by the "
    "width and y by the height."
)


class Annotation(NamedTuple):
    """One shape on a picture; ``source`` has polygons, run lengths or a box, or None if the finding is absent.

    ``frame`` is the size ``(H, W)`` of the picture on which polygons or a box were drawn, if the data set states it.
    """

    image: str
    label: str
    source: dict[str, Any] | None
    where: str
    patient_id: str | None = None
    frame: tuple[int, int] | None = None


@dataclass(frozen=True)
class Absent:
    """Rule that says which findings are absent: those that the csv ``table`` lists.

    If ``unmasked`` is True, all findings of the data set also count as absent in every picture for which none of them
    is marked.
    """

    table: Path | None = None
    unmasked: bool = False

    def named(self) -> Iterator[tuple[str, str]]:
        """Yield ``(picture, finding)`` for each line of the csv; an empty finding means all findings of the
        data set.
        """
        if self.table is not None:
            table = Table(self.table, ("image",))
            for row in table.rows():
                said = row.cells.get("finding", "")
                finding = meaning(said) or said
                if finding and finding not in FINDINGS:
                    raise InputError(
                        f"{self.table}, line {row.line}: there is no finding '{finding}'{suggest(finding, FINDINGS)}."
                    )
                yield row.cells["image"], finding


def meaning(label: str) -> str | None:
    """Return the finding or structure that a label names, such as "Pleural Effusion"; None for an unknown label."""
    plain = _plain(label)
    return plain if plain in FINDINGS or plain in cases.STRUCTURES else KNOWN.get(plain)


def _plain(label: str) -> str:
    return "_".join(label.lower().replace("-", " ").split())


class Labels:
    """Mapping from a data set's labels to findings and structures; it counts the labels that are neither."""

    def __init__(
        self, given: Iterable[str], option: str = "--category", texts: Mapping[str, str] | None = None
    ) -> None:
        """Read ``given``, texts such as "Fluid=effusion"; error messages name the command-line option ``option``.

        ``texts`` has the names that a data set gives to the values or colours of its label maps.
        """
        self._texts = dict(texts or {})
        self._names: dict[str, str] = {}
        self._unknown: dict[str, Tally] = {}
        self._option = option
        known = (*FINDINGS, *cases.STRUCTURES)
        for text in given:
            label, _, name = text.rpartition("=")
            if not label or name not in known:
                raise InputError(f"{option} {text}: write NAME=finding, such as Fluid=effusion{suggest(name, known)}.")
            self._names[masks.as_label(label)] = name

    @property
    def of_values(self) -> bool:
        """True if names are given for values or colours of label maps, such as "3=effusion"."""
        return bool(self._texts) or any(map(masks.is_value, self._names))

    def named(self, label: str) -> str | None:
        """Return the finding or structure that a label means, or None."""
        text = self._texts.get(label, label)
        return self._names.get(label) or self._names.get(text) or meaning(text)

    def find(self, label: str, *others: str) -> str | None:
        """Return what a label means or, if its meaning is unknown, one of the ``others``; otherwise count the label."""
        name = next((name for one in (label, *others) if (name := self.named(one))), None)
        if name is None and _plain(text := self._texts.get(label, label)) not in NONE:
            self._unknown.setdefault(text, Tally()).add(text)
        return name

    def remark(self, outcome: Outcome, unmasked: bool) -> None:
        """Add to the outcome a remark on each label that is not known; ``unmasked`` is as in :class:`Absent`."""
        rest = Tally()
        for place, (label, tally) in enumerate(self._unknown.items()):
            if place >= _MOST_TOLD:
                rest.add(label)
                continue
            hint = f"give {self._option} '{label}=NAME' to use them (NAME: a finding, {', '.join(cases.STRUCTURES)})"
            if unmasked:
                hint += "; a picture with nothing but such annotations counts as one without any finding"
            tally.remark(outcome.remarks, "annotation", f"not used: {hint}")
        rest.remark(outcome.remarks, "more label", "not used")


def joined(sources: list[dict[str, Any]], where: str) -> dict[str, Any]:
    """Join all shapes of a finding into one mask; return its entry of the manifest.

    Boxes are ignored if there are outlines."""
    outlines = [source for source in sources if "box" not in source]
    if not outlines:
        boxes = [source["box"] for source in sources]
        return {"box": boxes[0] if len(boxes) == 1 else boxes}
    if all("polygons" in source for source in outlines):
        return {"polygons": [polygon for source in outlines for polygon in source["polygons"]]}
    if len(outlines) == 1:
        return outlines[0]
    sizes = {tuple(source["size"]) for source in outlines if "size" in source}
    if len(sizes) != 1:
        raise InputError(
            f"{where}: the run-length masks of one picture have {len(sizes)} different sizes; export all masks in the "
            "picture's size."
        )
    (shape,) = sizes
    parts = [
        masks.from_polygons(source["polygons"], shape, where) if "polygons" in source else masks.from_rle(source, where)
        for source in outlines
    ]
    return masks.to_rle(np.logical_or.reduce(parts))


def from_annotations(
    annotations: Iterable[Annotation], names: Iterable[str], pictures: Pictures, manifest: Path, terms: Terms,
    anatomy: Options, labels: Labels, absent: Absent, layout: str = "", masks_folder: Path | None = None,
) -> Outcome:  # fmt: skip
    """Write a manifest with one case for each finding of each picture.

    ``names`` has the names of all annotated pictures. A name is a path below the folder of ``pictures``, or only a file
    name, with or without suffix. ``layout`` is as in :class:`Outcome`. Remarks name the files in the folder of
    ``pictures`` and in ``masks_folder`` that look like pictures or masks but are not read.
    """
    places = Places(manifest, [pictures.root, *anatomy.folders])
    outcome = Outcome(image_root=places.image_root, layout=layout)
    remark_unread(pictures.root, masks_folder, outcome)
    found = Anatomy(anatomy, places, outcome)
    outcome.write(manifest, _records(annotations, names, pictures, places, terms, found, labels, absent, outcome))
    return outcome


def _records(
    annotations: Iterable[Annotation], names: Iterable[str], files: Pictures, places: Places, terms: Terms,
    anatomy: Anatomy, labels: Labels, absent: Absent, outcome: Outcome,
) -> Iterator[Record]:  # fmt: skip
    shapes: dict[str, dict[str, list[Annotation]]] = {}
    for one in annotations:
        name = labels.find(one.label)
        by_name = shapes.setdefault(one.image, {})
        if name is not None and one.source is not None:
            by_name.setdefault(name, []).append(one)
    seen = list(dict.fromkeys([*shapes, *names]))
    lost, unmarked, boxed = Tally(), Tally(), Tally()
    pool = sorted({name for by_name in shapes.values() for name in by_name if name in FINDINGS})
    without: dict[str, set[str]] = {}
    for name, finding in absent.named():
        image = next((image for image in seen if composed(name) in (composed(image), composed(bare(image)))), name)
        without.setdefault(image, set()).update([finding] if finding else pool)
        seen += [image] * (image not in seen)
    uses = Counter(path for image in seen if (path := files.first(image)) is not None)
    for image in seen:
        by_name = shapes.get(image, {})
        if absent.unmasked and not any(name in FINDINGS for name in by_name):
            without.setdefault(image, set()).update(pool)
        try:
            path = files.find(image, uses)
            if path is None:
                lost.add(image)
                continue
            fitted = {name: [files.fitted(one) for one in own] for name, own in by_name.items()}
            sources = {name: joined(own, by_name[name][0].where) for name, own in fitted.items()}
        except InputError as error:
            outcome.fault(error)
            continue
        own_anatomy = {name: sources[name] for name in cases.STRUCTURES if name in sources}
        patient = next((one.patient_id for own in by_name.values() for one in own if one.patient_id), None)
        placed = places.relative(files.root, path)
        details = {
            "anatomy": anatomy.of(*dict.fromkeys([*tails(image), *tails(path)])) or own_anatomy,
            "patient_id": patient, **of_header(files.root / path, outcome),
        }  # fmt: skip
        named = [*(name for name in sources if name in FINDINGS), *sorted(without.get(image, ()))]
        if not named:
            unmarked.add(image)
        for finding in named:
            mask = sources.get(finding)
            if mask is not None and "box" in mask:
                boxed.add(image)
            if mask is not None or finding not in by_name:
                yield record(f"{bare(image)}/{finding}", placed, finding, mask, terms, **details)
    lost.remark(outcome.remarks, "picture", "not found and left out")
    files.scaled.remark(outcome.remarks, "picture", _SCALED)
    labels.remark(outcome, absent.unmasked)
    boxed.remark(outcome.remarks, "case", "without an outline: only tasks that ask for a place use boxes")
    unmarked.remark(outcome.remarks, "picture", "without an annotated finding (left out)")
    anatomy.remark()


class Pictures:
    """Lookup of the pictures of a folder by path, by file name, or by file name without suffix.

    ``scaled`` counts the pictures whose shapes were drawn on a picture of another size.
    """

    def __init__(self, root: Path, drawn_on: str | None = None, masks_folder: Path | None = None) -> None:
        """Take the folder ``root`` of pictures.

        - ``drawn_on``: the size of the pictures on which shapes without a recorded size were drawn, such as "1024x800"
          (width, height); "pictures" or None for the sizes of the pictures in ``root``.
        - ``masks_folder``: a folder without pictures; if it is ``root``, subfolders with a picture's name have none.
        """
        self.root, self.scaled, self._scaled = root, Tally(), set[str]()
        self._masks_folder = masks_folder
        found = _SIZE.fullmatch(drawn_on or "")
        self._frame = (int(found[2]), int(found[1])) if found else None
        if found is None and drawn_on not in (None, OWN_SIZE):
            raise InputError(f"--drawn-on {drawn_on}: write WIDTHxHEIGHT in pixels, such as 1024x1024, or {OWN_SIZE}.")
        self._sizes: dict[str, tuple[int, int] | None] = {}

    def find(self, name: str, uses: Counter[str]) -> str | None:
        """Return the path of the picture with this name, relative to the folder; None if there is no such picture.

        ``uses`` has the number of names that lead to each path. Raises ``InputError`` if the name fits several
        pictures, or if another name leads to the same picture.
        """
        found = self.fitting(name)
        if len(found) > 1:
            raise InputError(
                f"{name}: {len(found)} pictures in {self.root} have this name ({found[0]}, {found[1]}); move "
                "each picture to the path that the annotations name."
            )
        if found and uses[found[0]] > 1 and found[0] != name:
            raise InputError(
                f"{name}: the picture {found[0]} in {self.root} fits this name, and also another name in the "
                "annotations; move each picture to the path that the annotations name."
            )
        return found[0] if found else None

    def first(self, name: str) -> str | None:
        """Return the path of the first picture that the name fits, relative to the folder; None if it fits none."""
        return next(iter(self.fitting(name)), None)

    def size(self, name: str) -> tuple[int, int] | None:
        """Return the size ``(H, W)``, as displayed, of the first picture that ``name`` fits; None if it is unknown."""
        if name not in self._sizes:
            found = self.first(name)
            self._sizes[name] = None if found is None else size_of(self.root / found)
        return self._sizes[name]

    def fitted(self, one: Annotation) -> dict[str, Any]:
        """Return an annotation's shape in pixels of its picture, scaled if it was drawn on a picture of another size.

        Raise ``InputError`` if that picture had other proportions.
        """
        assert one.source is not None, "shapes without a source are not kept"
        source, size, frame = one.source, self.size(one.image), one.frame or self._frame
        if size is None or frame is None or size == frame or "size" in source:
            return source
        if not proportional(frame, size):
            shape = "box is" if "box" in source else "polygons are"
            raise InputError(
                f"{one.where}: its {shape} for {frame[1]} x {frame[0]} px, but {one.image} has {size[1]} x {size[0]} "
                "px, which are other proportions; give the pictures that the annotations were drawn on."
            )
        if one.image not in self._scaled:
            self._scaled.add(one.image)
            self.scaled.add(f"{one.image} ({frame[1]} x {frame[0]} to {size[1]} x {size[0]} px)")
        by = np.array([size[1] / frame[1], size[0] / frame[0]])
        if "box" in source:
            return {"box": (np.array(source["box"]) * [*by, *by]).round(3).tolist()}
        return {"polygons": [(np.array(part) * by).round(3).tolist() for part in source["polygons"]]}

    def check_inside(self, one: Annotation) -> None:
        """Raise ``InputError`` if a box or an outline extends beyond its picture: it was drawn on a larger picture.

        Shapes with a known frame are not checked.
        """
        if one.source is None or one.frame or self._frame:
            return
        size, source = self.size(one.image), one.source
        x, y, width, height = source.get("box", (0, 0, 0, 0))
        points = [(x + width, y + height), *(point for polygon in source.get("polygons", ()) for point in polygon)]
        if size is None:
            return
        right, bottom = max(x for x, _ in points), max(y for _, y in points)
        margin = masks.OUTSIDE * max(size)
        if right > size[1] + margin or bottom > size[0] + margin:
            raise InputError(
                f"{one.where}: the shape reaches x = {right:g}, y = {bottom:g}, but {one.image} has only {size[1]} x "
                f"{size[0]} px; give the pictures that the annotations were drawn on, or their size (--drawn-on)."
            )

    @cached_property
    def paths(self) -> list[str]:
        """The paths of all pictures below the folder, except hidden ones."""
        found = [
            path.relative_to(self.root) for path in sorted(self.root.rglob("*")) if path.suffix.lower() in PICTURES
        ]
        found = [path for path in found if not any(part.startswith(".") for part in path.parts)]
        if self._masks_folder is not None:
            apart = Path(os.path.relpath(os.path.realpath(self._masks_folder), os.path.realpath(self.root)))
            folders = {path.with_suffix("") for path in found} if apart == Path() else {apart}
            found = [path for path in found if folders.isdisjoint(path.parents)]
        return [path.as_posix() for path in found]

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for path in map(PurePosixPath, self.paths):
            for key in (path.name, path.stem):
                found.setdefault(composed(key), []).append(str(path))
        return found

    def fitting(self, name: str) -> list[str]:
        """Return the pictures that a name fits: those whose paths agree with the longest end of it."""
        if ".." not in Path(name).parts and not Path(name).is_absolute() and is_file(self.root / name):
            return [name]
        parts = composed(name).replace("\\", "/").split("/")
        plain = file_names(parts[-1])
        fits = next((self._by_name[key] for key in plain if key in self._by_name), [])
        return _nearest(fits, parts[:-1])


def _nearest(paths: list[str], folders: list[str]) -> list[str]:
    """Return the paths whose folders agree with the longest end of ``folders``."""

    def agreed(path: str) -> int:
        own = composed(path).split("/")[:-1]
        pairs = zip(reversed(own), reversed(folders), strict=False)
        return next((count for count, (one, other) in enumerate(pairs) if one != other), min(len(own), len(folders)))

    most = max(map(agreed, paths), default=0)
    return [path for path in paths if agreed(path) == most]


def check_box(box: list[float], where: str) -> None:
    """Raise ``InputError`` if all corners of a box ``[x, y, width, height]`` have coordinates from 0 to 1."""
    if all(0 <= value <= 1 for value in (*box, box[0] + box[2], box[1] + box[3])):
        raise InputError(f"{where}: its box {AS_SHARES}")
