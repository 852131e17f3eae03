"""Reader of pictures and their masks: a folder for each picture or structure, one folder for all, or a CSV table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from difflib import get_close_matches
from functools import partial
from pathlib import Path, PurePosixPath

import cv2
import numpy as np

from chexqa.contract import cases, findings
from chexqa.files.errors import InputError, WrongParts, suggest
from chexqa.files.jsonio import Record, check, is_file
from chexqa.files.say import argument
from chexqa.imaging import dicom
from chexqa.imaging import masks as masks_module
from chexqa.imaging.anatomy import touching
from chexqa.imaging.mask_source import check_pages, is_nifti, read_labels, read_mask
from chexqa.imaging.read import Mask
from chexqa.sources.anatomy import Anatomy, Options, bare, tails
from chexqa.sources.annotations import Absent, Labels, from_annotations, meaning
from chexqa.sources.case_records import (
    MASKS,
    NO_MASKS,
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
)
from chexqa.sources.pictures import Annotation, Pictures, files_below, paired, picture_of_segments
from chexqa.sources.tables import Table

_NAMES = "dataset.json"  # nnU-Net's and MONAI's file with the names of labels
_MOST_LABELS = 8  # labels of a label map that are told
_NEARLY = 0.85  # likeness (of difflib) from which an unknown name is taken for a slip
_YES, _NO = ("1", "1.0", "true", "yes"), ("0", "0.0", "false", "no")
_DETAILS = ("patient_id", "study_id", "view")
_ORIGIN = ("reference", "device", "site")
_LAYOUT = "<masks>/<picture>/<finding>.png, such as masks/p1/effusion.png for images/p1.png"
_FLAT = "<picture>_<finding>.png, such as p1_effusion.png for p1.png"
_MAPS = "label maps <masks>/<picture>.png, such as masks/p1.png for images/p1.png, with the values given by --label"
_UNKNOWN_PICTURE = (
    "without a matching picture: --absent-unmasked could count its picture as one without findings, so correct the "
    "mask's name, or move the mask and its picture out of these folders"
)
_MOVED = "If you move a finding's only mask, move its picture, too: --absent-unmasked may take it for free of findings."
_TWICE = "also has the mask {} of the same structure or finding; remove the wrong one"
_COLUMNS = (
    "image", "mask", "finding", *cases.STRUCTURES, *_DETAILS, "sex", "age", "source", "license", "access", "present",
    *_ORIGIN,
)  # fmt: skip


def from_folders(
    images: Path, masks: Path, manifest: Path, terms: Terms, anatomy: Options, labels: Labels, absent: Absent
) -> Outcome:
    """Write a manifest with one case for each finding mask of each picture below ``images``.

    ``masks`` has a folder for each picture (``x/effusion.png`` is a mask of ``x.png``), or a folder for each finding
    and structure (``effusion/x.png``). The structures are ``right_lung``, ``left_lung`` and ``heart``.

    - ``anatomy``: sources of masks of lungs and heart, which are used instead of those in ``masks``.
    - ``labels``: further names of findings and structures.
    - ``absent``: the rule that says which findings are absent in a picture.
    """
    places = Places(manifest, [images, masks, *anatomy.folders])
    outcome = Outcome(image_root=places.image_root, layout=_LAYOUT)
    found = Anatomy(anatomy, places, outcome)
    files = Pictures(images, masks_folder=masks)
    outcome.write(manifest, _folder_records(files, masks, places, terms, found, outcome, labels, absent))
    return outcome


def _folder_records(
    files: Pictures, masks: Path, places: Places, terms: Terms, anatomy: Anatomy, outcome: Outcome, labels: Labels,
    absent: Absent,
) -> Iterator[Record]:  # fmt: skip
    _check_suffixes(files)
    of_picture, lost = _masks_of(files, masks, labels, absent, outcome)
    if absent.unmasked:
        lost.refuse("mask folder", _UNKNOWN_PICTURE)
    unmarked = Tally()
    lesions = {
        name: {one: mask for one, mask in of_picture.get(name, {}).items() if one in findings.FINDINGS}
        for name in files.paths
    }

    def details(name: str) -> Record:
        own = {part: places.relative(masks, of_picture[name][part]) for part in cases.STRUCTURES
               if part in of_picture.get(name, ())}  # fmt: skip
        return {"anatomy": anatomy.of(*tails(name)) or own, **of_header(files.root / name, outcome)}

    def named() -> Iterator[tuple[str, str]]:
        for said, finding in absent.named():
            fits = files.fitting(said)
            if len(fits) != 1:
                times = f"{len(fits)} times" if fits else "not"
                raise InputError(f"{absent.table}: the picture '{said}' is {times} in {files.root}; correct its name.")
            yield fits[0], finding

    for name, own in lesions.items():
        if not own:
            if not absent.unmasked:
                unmarked.add(name)
            continue
        image, about = places.relative(files.root, name), details(name)
        for finding, mask in own.items():
            yield record(f"{bare(name)}/{finding}", image, finding, places.relative(masks, mask), terms, **about)
    for name, without in absent.findings(lesions, named()).items():
        image, about = places.relative(files.root, name), details(name)
        for finding in without:
            yield record(f"{bare(name)}/{finding}", image, finding, None, terms, **about)
    _remark_maps(files, masks, outcome)
    remark_unread(files.root, masks, outcome)
    labels.remark(outcome)
    unmarked.remark(outcome.remarks, "picture", "without a mask of a finding (left out)")
    lost.remark(outcome.remarks, "mask folder", "without a picture (left out)")
    anatomy.remark()


def _remark_maps(files: Pictures, masks: Path, outcome: Outcome) -> None:
    """Add remarks on the files in a folder of masks that are named like pictures, and on files of DICOM."""
    maps, segments, labels = Tally(), Tally(), list[str]()
    for path in sorted(masks.iterdir()) if not files.root.samefile(masks) else ():
        if path.suffix.lower() in dicom.SUFFIXES:
            segments.add(path.name)
        elif _is_mask(path) and (fits := files.fitting(_stem(path))):
            maps.add(path.name)
            if not labels:
                with suppress(InputError):
                    list(read_labels(path, files.size(fits[0]), lambda *names: labels.append(names[0])))
    shown = ", ".join(labels[:_MOST_LABELS]) + (", …" if len(labels) > _MOST_LABELS else "")
    names = next((path for folder in (masks, masks.parent) if (path := folder / _NAMES).is_file()), None)
    how = f"say with --label VALUE=NAME what its values are{f' ({shown})' if shown else ''}"
    how += f", or give --label-file {argument(names)}" if names else ""
    maps.remark(outcome.remarks, "file", f"named like a label map; {how}")
    segments.remark(outcome.remarks, "file", "of DICOM among the masks; give --flat if they are DICOM SEG")


def _check_suffixes(files: Pictures) -> None:
    """Raise ``InputError`` if the names of two pictures differ only in the suffix."""
    first: dict[str, str] = {}
    for name in files.paths:
        other = first.setdefault(composed(bare(name)), name)
        if other != name:
            raise InputError(
                f"{files.root / name}: differs from {other} only in the suffix, so both pictures would get the same "
                "masks; rename one of the two."
            )


def _masks_of(
    files: Pictures, masks: Path, labels: Labels, absent: Absent, outcome: Outcome
) -> tuple[dict[str, dict[str, str]], Tally]:
    """Return each picture's masks of structures and findings, as paths below ``masks``; and the folders without one.

    A folder of several pictures' names gives each of them nothing, and is recorded among the outcome's faults.
    """
    keys, names, lost, wrong = dict[Path, str](), dict[Path, str](), Tally(), WrongParts(None, "files")
    for folder, paths in _mask_folders(files, masks):
        structure = labels.named(PurePosixPath(folder).name)
        is_picture = bool(files.fitting(folder))
        if not is_picture and structure is None:
            lost.add(folder)
            continue
        for path in paths:
            with wrong.collected():
                if (name := _structure(path, labels, absent) if is_picture else structure) is not None:
                    names[path] = name
                    keys[path] = folder if is_picture else (PurePosixPath(folder).parent / _stem(path)).as_posix()
    found: dict[str, dict[str, str]] = {}
    leave_out = absent.leaving_out(outcome.fault, wrong)
    for path, picture in paired(keys, files, masks, lost, leave_out):
        first = found.setdefault(picture, {}).setdefault(names[path], inside := path.relative_to(masks).as_posix())
        if first != inside:
            leave_out(f"{path}: {picture} {_TWICE.format(first)}")
    wrong.conclude(_MOVED if absent.unmasked else "")
    return found, lost


def _mask_folders(files: Pictures, masks: Path) -> Iterator[tuple[str, list[Path]]]:
    """Yield each folder below ``masks`` with files that look like masks, as a path below ``masks``, and these files."""
    pictures = {*files.paths} if files.root.samefile(masks) else set[str]()
    by_folder: dict[Path, list[Path]] = {}
    for path in files_below(masks, files.root):
        if (_is_mask(path) or path.suffix.lower() in NO_MASKS) and path.as_posix() not in pictures:
            by_folder.setdefault(path.parent, []).append(masks / path)
    by_folder.pop(Path(), None)
    for folder, paths in by_folder.items():
        yield folder.as_posix(), paths


def _structure(path: Path, labels: Labels, absent: Absent) -> str | None:
    """Return the structure or finding of a mask by its file's name; None, which is counted, if the name is unknown.

    Raises ``InputError`` for a file that is no mask, for one of several masks of a structure, and for an unknown name
    that is nearly a known one, or while pictures without masks count as free of findings.
    """
    if not _is_mask(path):
        raise InputError(f"{path}: a mask must be a PNG; save it as one.")
    known = [*cases.STRUCTURES, *findings.FINDINGS]
    stem = _stem(path)
    name = labels.named(stem)
    if name is None and (one := stem.rstrip("-_ 0123456789")) in known:
        raise InputError(
            f"{path}: has a number in its name, but a picture has only one mask of each structure or finding; "
            f"join its masks into one file with the name '{one}.png'."
        )
    if name is None and (absent.unmasked or get_close_matches(stem, known, 1, _NEARLY)):
        raise InputError(f"{path}: '{stem}' is neither a finding nor a structure{suggest(stem, known)}.")
    return name or labels.find(stem, where=str(path))


def _is_mask(path: Path) -> bool:
    return path.suffix.lower() in MASKS or is_nifti(path)


def _stem(path: Path) -> str:
    """Return the name of a mask's file without its suffix, with each accented letter as one character."""
    return composed(path.name.partition(".nii")[0] if is_nifti(path) else path.stem)


def from_flat(
    images: Path, masks: Path, manifest: Path, terms: Terms, anatomy: Options, labels: Labels, absent: Absent
) -> Outcome:
    """Write a manifest for a folder ``masks`` with the masks of all pictures below ``images``.

    The masks of a picture ``a.png`` can be in these files (masks and label maps are PNG, TIFF or NIfTI files):

    - DICOM SEGs that refer to the picture, or one that has the picture's name;
    - if ``labels`` says what the values of label maps mean: one label map ``a.png``;
    - if ``labels`` does not: one file for each finding or structure, such as ``a_effusion.png`` and ``a_heart.png``.

    Only files of the last form can be in the same folder as the pictures.
    """
    files = Pictures(images, masks_folder=None if (own := images.samefile(masks)) else masks)
    known = sorted((*findings.FINDINGS, *cases.STRUCTURES), key=len, reverse=True)
    maps, single, ends, unused, faults = dict[Path, str](), dict[Path, str](), dict[Path, str](), Tally(), list[str]()
    found, shapes, first = list[tuple[Path, str]](), list[Annotation](), dict[tuple[str, str], str]()
    wrong = WrongParts(None, "files")
    for inside in files_below(masks, images):
        path = masks / inside
        name = (inside.parent / _stem(path)).as_posix()
        end = next((word for word in known if name.endswith(f"_{word}")), None)
        if path.suffix.lower() in dicom.SUFFIXES and not own:
            with wrong.collected():
                picture, refers = picture_of_segments(path, name, files)
                found += [(path, picture)] if refers else []
                maps |= {} if refers else {path: picture}
        elif _is_mask(path) and labels.of_values and not own:
            maps[path] = name
        elif _is_mask(path) and end and not labels.of_values:
            single[path], ends[path] = name.removesuffix(f"_{end}"), end
        elif _is_mask(path) and (not own or files.has_picture_of_mask(name)):
            unused.add(inside.as_posix())
    leave_out = absent.leaving_out(faults.append, wrong)
    found += paired(maps, files, masks, unused, leave_out, whole=True)
    check_pages([path for path, _ in found])
    for path, picture in found:
        with wrong.collected():
            shapes += _of_label_map(path, picture, files, labels)
    for path, picture in paired(single, files, masks, unused, leave_out):
        with wrong.collected():
            runs = masks_module.to_rle(read_mask(path, files.size(picture)))
            shapes.append(Annotation(picture, ends[path], runs, str(path)))
    for one in shapes:
        if (other := first.setdefault((one.image, one.label), one.where)) != one.where:
            leave_out(f"{one.where}: {one.image} {_TWICE.format(other)}")
    wrong.conclude(_MOVED if absent.unmasked else "")
    shapes = [one for one in shapes if first[one.image, one.label] == one.where]
    if absent.unmasked:
        unused.refuse("mask", _UNKNOWN_PICTURE)
    layout = _MAPS if labels.of_values else _FLAT
    if not shapes and absent.table is None:
        unused.refuse("mask", f"not used, and no other: its name is not that of {layout}")
    drawn = {path.relative_to(masks).as_posix() for path in single} if own else set[str]()
    pictures = [name for name in files.paths if name not in drawn]
    outcome = from_annotations(
        shapes, pictures, files, manifest, terms, anatomy, labels, absent, layout, masks, dict.fromkeys(faults)
    )
    unused.remark(outcome.remarks, "mask", f"not used: its name is not that of {layout}")
    return outcome


def _of_label_map(path: Path, image: str, files: Pictures, labels: Labels) -> Iterator[Annotation]:
    """Yield one shape for each label of a label map whose meaning is known.

    Where a pixel has only one label, a lesion leaves a hole in its lung. A lesion that borders on a lung is therefore
    added to the lung's mask, except for findings outside the lungs, such as cardiomegaly.
    """
    found = list(read_labels(path, files.size(image), partial(labels.find, where=image)))
    in_lungs = {name for name, finding in findings.FINDINGS.items() if finding.field == "lung"}
    lesions = [mask for name, mask in found if name in in_lungs]
    for name, mask in found:
        if name in ("right_lung", "left_lung") and lesions:
            area = np.logical_or.reduce(lesions)
            mask = mask if (mask & area).any() else mask | touching(area, _bordering(mask))
        yield Annotation(image, name, masks_module.to_rle(mask), str(path))


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
    wrong = WrongParts(table)
    for line, _, row in rows.rows():
        with wrong.collected():
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
    wrong.conclude()
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
