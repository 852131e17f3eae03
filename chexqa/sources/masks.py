"""Pictures and mask PNGs: in folders ``<masks>/<image stem>/<structure>.png``, or named in a CSV table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from chexqa.contract import cases, findings
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, check
from chexqa.sources.anatomy import Anatomy, Options, bare, tails
from chexqa.sources.common import (
    PICTURES,
    Outcome,
    Places,
    Tally,
    Terms,
    parse_age,
    parse_sex,
    record,
    structures,
)
from chexqa.sources.tables import Table

_YES, _NO = ("1", "1.0", "true", "yes"), ("0", "0.0", "false", "no")
_DETAILS = ("patient_id", "study_id", "view")
_ORIGIN = ("reference", "device", "site")
_LAYOUT = "<masks>/<picture>/<finding>.png, such as masks/p1/effusion.png for images/p1.png"
_COLUMNS = (
    "image",
    "mask",
    "finding",
    *cases.STRUCTURES,
    *_DETAILS,
    "sex",
    "age",
    "source",
    "license",
    "access",
    "present",
    *_ORIGIN,
)


def from_folders(images: Path, masks: Path, manifest: Path, terms: Terms, anatomy: Options) -> Outcome:
    """Write a manifest with one case for each finding mask of each picture in ``images``.

    The masks of ``x.png`` are in the folder ``x``: ``right_lung.png``, ``left_lung.png``, ``heart.png`` and one PNG
    named by each finding that is present. If ``anatomy`` has the picture, its structures replace these. Pictures
    without a finding mask and mask folders without a picture are counted in the remarks.
    """
    places = Places(manifest, [images, masks, *anatomy.folders])
    outcome = Outcome(image_root=places.image_root, layout=_LAYOUT)
    outcome.write(manifest, _folder_records(images, masks, places, terms, Anatomy(anatomy, places, outcome), outcome))
    return outcome


def _folder_records(
    images: Path, masks: Path, places: Places, terms: Terms, anatomy: Anatomy, outcome: Outcome
) -> Iterator[Record]:
    pictures: dict[str, str] = {}
    for path in sorted(images.iterdir()):
        if path.suffix.lower() in PICTURES and not path.name.startswith("."):
            if path.stem in pictures:
                raise InputError(f"{path}: {pictures[path.stem]} has the same stem, so they share masks; rename one.")
            pictures[path.stem] = path.name
    unmarked, lost = Tally(), Tally()
    for stem, name in pictures.items():
        own, lesions = structures(places, masks, stem)
        if not lesions:
            unmarked.add(name)
            continue
        image = places.relative(images, name)
        details = {"anatomy": anatomy.of(stem) or own}
        for finding, mask in lesions.items():
            yield record(f"{stem}/{finding}", image, finding, mask, terms, **details)
    for name in sorted(folder.name for folder in masks.iterdir() if folder.is_dir() and folder.name not in pictures):
        lost.add(name)
    unmarked.remark(outcome.remarks, "picture", "without a finding mask left out")
    lost.remark(outcome.remarks, "mask folder", "without a picture left out")
    anatomy.remark()


def from_table(
    table: Path, images: Path | None, masks: Path | None, manifest: Path, terms: Terms, anatomy: Options
) -> Outcome:
    """Write a manifest with one case for each row of a CSV file.

    Columns: ``image, mask, finding``; optional: ``right_lung, left_lung, heart, patient_id, study_id, view, sex, age,
    source, license, access, present, reference, device, site``. Paths start at ``images`` and ``masks`` or, if these
    are ``None``, at the table's folder. A row without a mask is an absent finding. Cells of ``source``, ``license`` and
    ``access`` replace ``terms``; the structures that ``anatomy`` has for the picture replace those of the row.
    """
    folders = (images or table.parent, masks or table.parent)
    places = Places(manifest, [*folders, *anatomy.folders])
    outcome = Outcome(image_root=places.image_root)
    found = Anatomy(anatomy, places, outcome)
    outcome.write(manifest, _table_records(table, folders, places, terms, found))
    return outcome


def _table_records(
    table: Path, folders: tuple[Path, Path], places: Places, terms: Terms, anatomy: Anatomy
) -> Iterator[Record]:
    images, masks = folders
    first: dict[str, int] = {}
    named: dict[str, int] = {}
    rows = Table(table, ("image", "mask", "finding"))
    unknown = [name for name in rows.columns if name not in _COLUMNS]
    if unknown:
        raise InputError(f"{table}: there is no column '{unknown[0]}'; known columns are {', '.join(_COLUMNS)}.")
    for line, _, row in rows.rows():
        where = f"{table}, line {line}"
        if not row["image"]:
            raise InputError(f"{where}: the column 'image' is empty.")
        finding = findings.find(row["finding"], where).name
        case_id, short = f"{row['image']}/{finding}", f"{bare(row['image'])}/{finding}"
        if first.setdefault(case_id, line) != line:
            raise InputError(f"{where}: this image and finding are already in line {first.get(case_id)}; keep one.")
        if named.setdefault(short, line) == line:  # of a.png and a.jpg, the second keeps its suffix
            case_id = short
        _check_present(row, where)
        own = {name: places.relative(masks, row[name]) for name in cases.STRUCTURES if row.get(name)}
        image = places.relative(images, row["image"])
        details = {
            "anatomy": anatomy.of(*tails(row["image"])) or own,
            "sex": parse_sex(row.get("sex", ""), where),
            "age": parse_age(row.get("age", ""), where),
            **{name: row.get(name) or None for name in _DETAILS},
            **{name: row[name] for name in ("source", "license", "access", *_ORIGIN) if row.get(name)},
        }
        mask = places.relative(masks, row["mask"]) if row["mask"] else None
        made = record(case_id, image, finding, mask, terms, **details)
        check(made, "case", where)
        yield made
    anatomy.remark()


def _check_present(row: dict[str, str], where: str) -> None:
    """Raise ``InputError`` if the column ``present`` is filled in and contradicts the mask."""
    said = row.get("present", "").lower()
    if said and said not in _YES + _NO:
        raise InputError(f"{where}: 'present' is '{row['present']}'; write 1 or 0.")
    if said and (said in _YES) != bool(row["mask"]):
        state = "present but has no mask" if said in _YES else "absent but has a mask"
        raise InputError(f"{where}: the finding is {state}; correct one of the two.")
