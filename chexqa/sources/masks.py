"""Reader of pictures with PNG or NIfTI masks.

The masks are in a folder for each picture, in one folder for all pictures (also as label maps), or listed in a CSV
table.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from chexqa.contract import cases, findings
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, check, is_file
from chexqa.imaging import masks as masks_module
from chexqa.imaging.mask_source import is_nifti, read_nifti
from chexqa.imaging.read import Mask
from chexqa.sources.anatomy import Anatomy, Options, bare, tails
from chexqa.sources.annotations import Absent, Annotation, Labels, Pictures, from_annotations, meaning, size_of
from chexqa.sources.case_records import (
    PICTURES,
    Outcome,
    Places,
    Tally,
    Terms,
    composed,
    of_header,
    parse_age,
    parse_sex,
    record,
    remark_unread,
    structures,
)
from chexqa.sources.tables import Table

_YES, _NO = ("1", "1.0", "true", "yes"), ("0", "0.0", "false", "no")
_DETAILS = ("patient_id", "study_id", "view")
_ORIGIN = ("reference", "device", "site")
_LAYOUT = "<masks>/<picture>/<finding>.png, such as masks/p1/effusion.png for images/p1.png"
_FLAT = "<picture>_<finding>.png, such as p1_effusion.png for p1.png"
_MAPS = "label maps <masks>/<picture>.png, such as masks/p1.png for images/p1.png, with the values given by --label"
_UNKNOWN_PICTURE = (
    "without a matching picture: --absent-unmasked could count its picture as one without findings, so correct the "
    "name, or move the mask elsewhere"
)
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


def from_folders(
    images: Path, masks: Path, manifest: Path, terms: Terms, anatomy: Options, absent: Absent | None = None
) -> Outcome:
    """Write a manifest with one case for each finding mask of each picture in ``images``.

    The masks of ``x.png`` are in the folder ``x`` in ``masks``: ``right_lung.png``, ``left_lung.png``, ``heart.png``,
    and a PNG named like each present finding. If ``anatomy`` has masks of the picture, they are used instead of the
    folder's masks of lungs and heart. The outcome's remarks have the number of pictures without a mask of a finding,
    and of folders without a picture. ``absent`` says which findings are absent in which pictures.
    """
    places = Places(manifest, [images, masks, *anatomy.folders])
    outcome = Outcome(image_root=places.image_root, layout=_LAYOUT)
    found = Anatomy(anatomy, places, outcome)
    outcome.write(manifest, _folder_records(images, masks, places, terms, found, outcome, absent or Absent()))
    return outcome


def _folder_records(
    images: Path, masks: Path, places: Places, terms: Terms, anatomy: Anatomy, outcome: Outcome, absent: Absent
) -> Iterator[Record]:
    pictures: dict[str, str] = {}
    for path in sorted(images.iterdir()):
        if path.suffix.lower() in PICTURES and not path.name.startswith("."):
            stem = composed(path.stem)
            if stem in pictures:
                raise InputError(
                    f"{path}: differs from {pictures[stem]} only in the suffix, so both pictures would get the "
                    "same masks; rename one of the two."
                )
            pictures[stem] = path.name
    unmarked, lost = Tally(), Tally()
    folders = (path for path in masks.iterdir() if path.is_dir() and not path.samefile(images))
    for name in sorted(path.name for path in folders if not path.name.startswith(".")):
        if composed(name) not in pictures:
            lost.add(name)
    if absent.unmasked:
        lost.refuse("mask folder", _UNKNOWN_PICTURE)
    shown: dict[str, set[str]] = {}
    free: list[str] = []
    for stem, name in pictures.items():
        own, lesions = structures(places, masks, stem)
        if not lesions:
            if absent.unmasked:
                free.append(stem)
            else:
                unmarked.add(name)
            continue
        shown[stem] = {*lesions}
        image = places.relative(images, name)
        details: Record = {"anatomy": anatomy.of(stem) or own, **of_header(images / name, outcome)}
        for finding, mask in lesions.items():
            yield record(f"{stem}/{finding}", image, finding, mask, terms, **details)
    pool = sorted(set().union(*shown.values()))
    without = {stem: {*pool} for stem in free}
    for name, finding in absent.named():
        stem = composed(name) if composed(name) in pictures else composed(bare(name))
        if stem not in pictures:
            raise InputError(f"{absent.table}: the picture '{name}' is not in {images}; correct its name.")
        without.setdefault(stem, set()).update([finding] if finding else pool)
    for stem, absent_ones in without.items():
        image = places.relative(images, pictures[stem])
        details = {
            **of_header(images / pictures[stem], outcome),
            "anatomy": anatomy.of(stem) or structures(places, masks, stem)[0],
        }
        for finding in sorted(absent_ones - shown.get(stem, set())):
            yield record(f"{stem}/{finding}", image, finding, None, terms, **details)
    maps = Tally()
    for path in sorted(masks.iterdir()) if not images.samefile(masks) else ():
        stem = composed(path.name.partition(".nii")[0] if is_nifti(path) else path.stem)
        if stem in pictures and (is_nifti(path) or path.suffix.lower() == ".png"):
            maps.add(path.name)
    remark_unread(images, masks, outcome)
    maps.remark(outcome.remarks, "file", "named like a label map; say with --label VALUE=NAME what its values are")
    unmarked.remark(outcome.remarks, "picture", "without a mask of a finding (left out)")
    lost.remark(outcome.remarks, "mask folder", "without a picture (left out)")
    anatomy.remark()


def from_flat(
    images: Path, masks: Path, manifest: Path, terms: Terms, anatomy: Options, labels: Labels, absent: Absent
) -> Outcome:
    """Write a manifest for a folder ``masks`` with the masks of all pictures.

    The masks are PNG or NIfTI files. ``labels`` decides which masks belong to a picture ``a.png``:

    - ``labels`` is empty: one file for each finding or structure, such as ``a_effusion.png`` and ``a_heart.png``.
      ``masks`` can be the same folder as ``images``.
    - ``labels`` maps grey values to findings and structures: one label map, ``a.png``. The folders must differ.
    """
    own = images.samefile(masks)
    names = {
        composed(path.stem): path.name
        for path in sorted(images.iterdir())
        if path.suffix.lower() in PICTURES and not path.name.startswith(".")
    }
    known = sorted((*findings.FINDINGS, *cases.STRUCTURES), key=len, reverse=True)
    shapes: list[Annotation] = []
    drawn: set[str] = set()
    unused = Tally()
    for path in sorted(masks.iterdir()):
        if path.suffix.lower() != ".png" and not is_nifti(path):
            continue
        name = composed(path.name.partition(".nii")[0] if is_nifti(path) else path.stem)
        if labels.given:
            if not own and name in names:
                shapes += _of_label_map(path, names[name], images, labels)
            elif not own:
                unused.add(path.name)
            continue
        end = next((word for word in known if name.endswith(f"_{word}")), None)
        stem = name[: -len(end) - 1] if end else ""
        if end and stem in names:
            drawn.add(name)
            mask = _values(path, images / names[stem]) != 0 if is_nifti(path) else masks_module.read_mask_png(path)
            shapes.append(Annotation(names[stem], end, masks_module.to_rle(mask), str(path)))
        elif not own and not path.name.startswith("."):
            unused.add(path.name)
    if absent.unmasked:
        unused.refuse("mask", _UNKNOWN_PICTURE)
    pictures = [name for stem, name in names.items() if not (own and stem in drawn)]
    layout = _MAPS if labels.given else _FLAT
    outcome = from_annotations(
        shapes, pictures, Pictures(images), manifest, terms, anatomy, labels, absent, layout, masks
    )
    unused.remark(outcome.remarks, "mask", f"not used: its name is not that of {layout}")
    return outcome


def _values(path: Path, picture: Path) -> npt.NDArray[np.int64]:
    """Return the values of the label map (PNG or NIfTI) that belongs to ``picture``."""
    return read_nifti(path, size_of(picture)) if is_nifti(path) else masks_module.read_label_map(path)


def _of_label_map(path: Path, image: str, images: Path, labels: Labels) -> Iterator[Annotation]:
    """Yield one shape for each value of a label map except 0; the shape's label is the value.

    A pixel has only one label, so a lesion leaves a hole in its lung. A lesion that borders on a lung is therefore
    added to the lung's mask, except for findings outside the lungs, such as cardiomegaly.
    """
    values = _values(path, images / image)
    named = {int(value): labels.find(str(value)) for value in np.unique(values) if value}
    in_lungs = {name for name, finding in findings.FINDINGS.items() if finding.field == "lung"}
    lesions = np.isin(values, [value for value, name in named.items() if name in in_lungs])
    for value, name in named.items():
        mask = values == value
        if name in ("right_lung", "left_lung"):
            mask = mask | masks_module.touching(lesions, _bordering(mask))
        if name is not None:
            yield Annotation(image, str(value), masks_module.to_rle(mask), str(path))


def _bordering(mask: Mask) -> Mask:
    """Return the mask grown by one pixel in each direction."""
    return np.asarray(cv2.dilate(mask.view(np.uint8), np.ones((3, 3), np.uint8)), np.bool_)


def from_table(
    table: Path, images: Path | None, masks: Path | None, manifest: Path, terms: Terms, anatomy: Options
) -> Outcome:
    """Write a manifest with one case for each row of a CSV file.

    The columns are ``image, mask, finding``, and optionally ``right_lung, left_lung, heart, patient_id, study_id, view,
    sex, age, source, license, access, present, reference, device, site``. Paths are relative to ``images`` and
    ``masks`` or, if these are ``None``, to the table's folder. In a row without a mask, the finding is absent. The
    cells ``source``, ``license`` and ``access`` replace the values in ``terms``. The masks in ``anatomy`` replace the
    lungs and heart of the row.
    """
    folders = (images or table.parent, masks or table.parent)
    places = Places(manifest, [*folders, *anatomy.folders])
    outcome = Outcome(image_root=places.image_root)
    found = Anatomy(anatomy, places, outcome)
    outcome.write(manifest, _table_records(table, folders, places, terms, found, outcome))
    return outcome


def _table_records(
    table: Path, folders: tuple[Path, Path], places: Places, terms: Terms, anatomy: Anatomy, outcome: Outcome
) -> Iterator[Record]:
    images, masks = folders
    first: dict[str, int] = {}
    named: dict[str, int] = {}
    rows = Table(table, ("image", "mask", "finding"))
    unknown = [name for name in rows.columns if name not in _COLUMNS]
    if "" in unknown:
        raise InputError(
            f"{table}: column {rows.columns.index('') + 1} has no name; name the column, or remove it (in pandas, "
            "write the table with index=False)."
        )
    if unknown:
        raise InputError(
            f"{table}: the column '{unknown[0]}' is unknown; remove it or rename it (known columns: "
            f"{', '.join(_COLUMNS)})."
        )
    roots = {"image": images, **dict.fromkeys(("mask", *cases.STRUCTURES), masks)}
    for line, _, row in rows.rows():
        where = f"{table}, line {line}"
        row |= {name: _slashed(root, row[name]) for name, root in roots.items() if row.get(name)}
        if not row["image"]:
            raise InputError(f"{where}: the column 'image' is empty; give the picture's name.")
        finding = findings.find(meaning(row["finding"]) or row["finding"], where).name
        case_id, short = f"{row['image']}/{finding}", f"{bare(row['image'])}/{finding}"
        if first.setdefault(case_id, line) != line:
            raise InputError(
                f"{where}: this image and finding are already in line {first.get(case_id)}; remove one of the two "
                "lines."
            )
        if named.setdefault(short, line) == line:  # the second of a.png and a.jpg keeps its suffix
            case_id = short
        _check_present(row, where)
        own = {name: places.relative(masks, row[name]) for name in cases.STRUCTURES if row.get(name)}
        image = places.relative(images, row["image"])
        details = {
            "anatomy": anatomy.of(*tails(row["image"])) or own,
            **of_header(images / row["image"], outcome),
            "sex": parse_sex(row.get("sex", ""), where),
            "age": parse_age(row.get("age", ""), where),
            **{name: row[name] for name in (*_DETAILS, "source", "license", "access", *_ORIGIN) if row.get(name)},
        }
        mask = places.relative(masks, row["mask"]) if row["mask"] else None
        made = record(case_id, image, finding, mask, terms, **details)
        check(made, "case", where)
        yield made
    anatomy.remark()


def _slashed(root: Path, name: str) -> str:
    """Return a path in the folder ``root``, with Windows' backslashes as slashes unless a file has them in its name."""
    return name if "\\" not in name or is_file(root / name) else name.replace("\\", "/")


def _check_present(row: dict[str, str], where: str) -> None:
    """Raise ``InputError`` if the column ``present`` is filled in and contradicts the mask."""
    said = row.get("present", "").lower()
    if said and said not in _YES + _NO:
        raise InputError(f"{where}: 'present' is '{row['present']}'; write 1 or 0.")
    if said and (said in _YES) != bool(row["mask"]):
        state = "present but has no mask" if said in _YES else "absent but has a mask"
        raise InputError(f"{where}: the finding is {state}; correct one of the columns 'present' and 'mask'.")
