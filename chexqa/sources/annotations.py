"""Conversion of any tool's annotations into cases: labels become findings, and shapes in a picture become masks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from chexqa.contract import cases
from chexqa.contract.findings import FINDINGS
from chexqa.files.errors import InputError, WrongParts, suggest
from chexqa.files.jsonio import Record, parse_json, read_text
from chexqa.imaging import masks
from chexqa.sources.anatomy import Anatomy, Options, bare, tails
from chexqa.sources.case_records import (
    Outcome,
    Places,
    Tally,
    Terms,
    composed,
    of_header,
    record,
    remark_unread,
)
from chexqa.sources.pictures import Annotation, Pictures, of_roboflow
from chexqa.sources.tables import Table

# Names that public data sets use for chexqa's findings and structures.
KNOWN = {
    "pleural_effusion": "effusion", "lung_opacity": "opacity", "pulmonary_edema": "edema", "nodule/mass": "lung_lesion",
    "pulmonary_fibrosis": "fibrosis", "airspace_opacity": "opacity", "lung_lesion": "lung_lesion",
}  # fmt: skip
NONE = ("no_finding", "normal")
_RGB, _COLOUR = re.compile(r"\d{1,3}([ ,;]+\d{1,3}){2}"), re.compile("#[0-9a-fA-F]{6}")
_MOST_TOLD = 10  # unknown labels that are told one by one
_DOUBTFUL = (
    "with annotations that are not used and without a known finding: counted as without any finding "
    "(--absent-unmasked), so check what the annotations mean"
)
_OF_ROBOFLOW = (
    "exported by Roboflow: check that README.roboflow.txt names no augmentation, because a flipped radiograph has the "
    "patient's sides exchanged"
)


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

    def leaving_out(self, fault: Callable[[str], None], wrong: WrongParts) -> Callable[[str], None]:
        """Return a function that reports why a mask is left out.

        It passes the reason to ``fault``, or to ``wrong`` if, without the mask, the picture could be taken for one
        without findings.
        """
        return (lambda reason: wrong.add(InputError(f"{reason}."))) if self.unmasked else fault

    def findings(
        self, shown: Mapping[str, Collection[str]], named: Iterable[tuple[str, str]]
    ) -> dict[str, list[str]]:  # fmt: skip
        """Return the findings said to be absent in each picture, sorted; findings that the picture shows are left out.

        - ``shown``: the findings that each picture of the data set shows.
        - ``named``: pairs of a picture (named as in ``shown``) and a finding said to be absent in it. The finding ""
          means that all findings are absent.
        """
        every = set().union(*shown.values())
        absent = {picture: {*every} for picture, own in shown.items() if self.unmasked and not own}
        for picture, finding in named:
            absent.setdefault(picture, set()).update([finding] if finding else every)
        return {picture: sorted(found.difference(shown.get(picture, ()))) for picture, found in absent.items()}


def meaning(label: str) -> str | None:
    """Return the finding or structure that a label names, such as "Pleural Effusion"; None for an unknown label."""
    plain = _plain(label)
    return plain if plain in FINDINGS or plain in cases.STRUCTURES else KNOWN.get(plain)


def _plain(label: str) -> str:
    return "_".join(label.lower().replace("-", " ").split())


class Labels:
    """Mapping from a data set's labels to findings and structures; it counts the labels that are neither.

    ``unused_in`` has the pictures and files with such labels.
    """

    def __init__(
        self, given: Iterable[str], option: str = "--category", texts: Mapping[str, str] | None = None
    ) -> None:
        """Read ``given``, texts such as "Fluid=effusion"; error messages name the command-line option ``option``.

        ``texts`` has the names that a data set gives to the values or colours of its label maps.
        """
        self._texts = dict(texts or {})
        self._names: dict[str, str] = {}
        self._unknown: dict[str, Tally] = {}
        self.unused_in = set[str]()
        self._option = option
        known = (*FINDINGS, *cases.STRUCTURES)
        for text in given:
            label, _, name = text.rpartition("=")
            if not label or name not in known:
                raise InputError(f"{option} {text}: write NAME=finding, such as Fluid=effusion{suggest(name, known)}.")
            if is_outside(label := as_label(label)):
                raise InputError(f"{option} {text}: 0 and black mean the background; give another value.")
            if self._names.setdefault(label, name) != name:
                raise InputError(
                    f"{option} {text}: {label} already has the name {self._names[label]}; give each label one name."
                )

    @property
    def of_values(self) -> bool:
        """True if names are given for values or colours of label maps, such as "3=effusion"."""
        return bool(self._texts) or any(map(is_value, self._names))

    def named(self, label: str) -> str | None:
        """Return the finding or structure that a label means, or None."""
        text = self._texts.get(label, label)
        return self._names.get(label) or self._names.get(text) or meaning(text)

    def find(self, label: str, *others: str, where: str) -> str | None:
        """Return the meaning of ``label`` or, if it is unknown, of the first of ``others`` whose meaning is known.

        If no meaning is known, return None and count ``label`` for :meth:`remark`. The labels :data:`NONE`, such as
        "normal", are not counted. ``where`` is the picture or the file that has the label.
        """
        name = next((name for one in (label, *others) if (name := self.named(one))), None)
        if name is None and _plain(text := self._texts.get(label, label)) not in NONE:
            self._unknown.setdefault(text, Tally()).add(where)
            self.unused_in.add(where)
        return name

    def remark(self, outcome: Outcome) -> None:
        """Add to the outcome a remark on each label that is not known."""
        rest = Tally()
        for place, (label, tally) in enumerate(self._unknown.items()):
            if place >= _MOST_TOLD:
                rest.add(label)
                continue
            hint = f"give {self._option} '{label}=NAME' to use them (NAME: a finding, {', '.join(cases.STRUCTURES)})"
            tally.remark(outcome.remarks, "annotation", f"not used: {hint}")
        rest.remark(outcome.remarks, "more label", "not used")


def read_label_names(path: Path) -> dict[str, str]:
    """Read the names of the values or colours in label maps; return the names, keyed by value or colour.

    The background (0 or black) is left out. Raises ``InputError`` for any other file than these:

    - A JSON file of nnU-Net or Decathlon. It has ``labels``, either ``{"effusion": 4}`` or ``{"4": "effusion"}``.
    - A CSV with the columns ``label`` (a value, or a colour such as #ff0000 or 255 0 0) and ``name``.
    """
    if path.suffix.lower() != ".json":
        rows = Table(path, ("label", "name")).rows()
        return _once(path, ((as_label(row.cells["label"]), row.cells["name"]) for row in rows))
    data = parse_json(read_text(path), str(path))
    labels = data.get("labels") if isinstance(data, dict) else None
    if not isinstance(labels, dict) or not labels:
        raise InputError(
            f"{path}: has no 'labels' that name the masks' pixel values; give the dataset.json of nnU-Net or MONAI."
        )
    pairs = [(value, name) if isinstance(value, int) else (name, value) for name, value in labels.items()]
    wrong = next((name for value, name in pairs if not str(value).isdecimal() or not isinstance(name, str)), None)
    if wrong is not None:
        raise InputError(
            f"{path}: the label {wrong!r} has no pixel value, or several; give its one value with --label VALUE=NAME."
        )
    return _once(path, ((str(int(value)), name) for value, name in pairs))


def _once(path: Path, pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the name of each label, except of 0 and black, which are outside of all structures.

    Raises ``InputError`` if a label has two names.
    """
    found: dict[str, str] = {}
    for label, name in pairs:
        if found.setdefault(label, name) != name:
            raise InputError(f"{path}: the label {label} has two names, '{found[label]}' and '{name}'; remove one.")
    return {label: name for label, name in found.items() if not is_outside(label)}


def is_outside(label: str) -> bool:
    """Return True if a label is that of the pixels outside of all structures, 0 or black."""
    return is_value(label) and not label.strip("#0")


def is_value(label: str) -> bool:
    """Return True if a label is a value or a colour of a label map."""
    return label.isdecimal() or _COLOUR.fullmatch(label) is not None


def as_label(text: str) -> str:
    """Return the label that a user's text names, as :func:`~chexqa.imaging.masks.read_label_map` spells it.

    >>> as_label("255, 0, 0"), as_label("#FF0000"), as_label("3.0"), as_label(" Fluid ")
    ('#ff0000', '#ff0000', '3', 'Fluid')
    """
    text = text.strip()
    if re.fullmatch(r"\d+(\.0+)?", text):
        return str(int(text.partition(".")[0]))
    parts = [int(part) for part in re.split("[ ,;]+", text)] if _RGB.fullmatch(text) else []
    if parts and max(parts) < 256:
        text = "#" + "".join(f"{part:02x}" for part in parts)
    return text.lower() if _COLOUR.fullmatch(text) else text


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
    faults: Iterable[str] = (),
) -> Outcome:  # fmt: skip
    """Write a manifest with one case for each finding of each picture.

    ``names`` has the names of all annotated pictures. A name is a path below the folder of ``pictures``, or only a file
    name, with or without suffix. ``layout`` is as in :class:`Outcome`. Remarks name the files in the folder of
    ``pictures`` and in ``masks_folder`` that look like pictures or masks but are not read. ``faults`` are added to the
    outcome's.
    """
    places = Places(manifest, [pictures.root, *anatomy.folders])
    outcome = Outcome(image_root=places.image_root, layout=layout)
    remark_unread(pictures.root, masks_folder, outcome)
    for fault in faults:
        outcome.fault(fault)
    found = Anatomy(anatomy, places, outcome)
    outcome.write(manifest, _records(annotations, names, pictures, places, terms, found, labels, absent, outcome))
    return outcome


def _records(
    annotations: Iterable[Annotation], names: Iterable[str], files: Pictures, places: Places, terms: Terms,
    anatomy: Anatomy, labels: Labels, absent: Absent, outcome: Outcome,
) -> Iterator[Record]:  # fmt: skip
    shapes: dict[str, dict[str, list[Annotation]]] = {}
    for one in annotations:
        name = labels.find(one.label, where=one.image)
        by_name = shapes.setdefault(one.image, {})
        if name is not None and one.source is not None:
            by_name.setdefault(name, []).append(one)
    seen = list(dict.fromkeys([*shapes, *names]))
    lost, unmarked, boxed, exported, doubtful = (Tally() for _ in range(5))
    named = list(_absent(absent, seen, files))
    without = absent.findings({image: shapes.get(image, {}).keys() & FINDINGS.keys() for image in seen}, named)
    copies = Counter(filter(None, map(of_roboflow, seen)))
    uses = Counter(path for image in seen if (path := files.first(image)) is not None)
    for image in seen:
        by_name = shapes.get(image, {})
        try:
            if original := of_roboflow(image):
                _check_copies(image, original, copies[original])
                exported.add(image)
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
        own = [*(name for name in sources if name in FINDINGS), *without.get(image, ())]
        details = {
            "anatomy": anatomy.of(*dict.fromkeys([*tails(image), *tails(path)])) or own_anatomy,
            "patient_id": patient, **(of_header(files.root / path, outcome) if own else {}),
        }  # fmt: skip
        if not own:
            unmarked.add(image)
        elif absent.unmasked and image in labels.unused_in and sources.keys().isdisjoint(FINDINGS):
            doubtful.add(image)
        for finding in own:
            mask = sources.get(finding)
            if mask is not None and "box" in mask:
                boxed.add(image)
            yield record(f"{bare(image)}/{finding}", placed, finding, mask, terms, **details)
    lost.remark(outcome.remarks, "picture", "not found and left out")
    files.remark(outcome.remarks)
    exported.remark(outcome.remarks, "picture", _OF_ROBOFLOW)
    labels.remark(outcome)
    doubtful.remark(outcome.remarks, "picture", _DOUBTFUL)
    boxed.remark(outcome.remarks, "case", "without an outline: only tasks that ask for a place use boxes")
    unmarked.remark(outcome.remarks, "picture", "without an annotated finding (left out)")
    anatomy.remark()


def _absent(absent: Absent, seen: list[str], files: Pictures) -> Iterator[tuple[str, str]]:
    """Yield the lines of :meth:`Absent.named` with the pictures' names in ``seen``, to which missing ones are added."""
    for name, finding in absent.named():
        path = files.first(name)
        same = (image for image in seen if composed(name) in (composed(image), composed(bare(image)))
                or (path is not None and files.first(image) == path))  # fmt: skip
        image = next(same, name)
        seen += [image] * (image not in seen)
        yield image, finding


def _check_copies(image: str, original: str, count: int) -> None:
    """Raise ``InputError`` if a picture is one of several that Roboflow made of one."""
    if count > 1:
        raise InputError(
            f"{image}: is one of {count} pictures that Roboflow exported as {original}. If they are copies, some may "
            "be flipped, with the patient's sides exchanged; export a version without augmentation. If they are "
            "different radiographs that had this name, rename them before the upload."
        )
