"""Reader of the masks in a manifest, and of label maps, which have the masks of several structures.

A mask in a manifest is a PNG, TIFF or NIfTI file, COCO run lengths, polygons, boxes, or several of these.
"""

from __future__ import annotations

import logging
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from chexqa.files.errors import InputError
from chexqa.files.limits import MAX_PICTURE_BYTES
from chexqa.files.opening import read_whole
from chexqa.files.terminal import plural
from chexqa.imaging import dicom, masks
from chexqa.imaging.read import MAX_PIXELS, Mask, count_pages, open_picture, resample

NIFTI, TIFF = (".nii", ".nii.gz"), (".tif", ".tiff")
_SEGMENTS = (
    "SegmentationType", "MaximumFractionalValue", "Rows", "Columns", "NumberOfFrames", "BitsAllocated",
    "SegmentSequence", "ReferencedSeriesSequence", "SharedFunctionalGroupsSequence", "PerFrameFunctionalGroupsSequence",
)  # fmt: skip
MAX_FRAMES = 256
# Share of the picture above which a mask that also covers the picture's four corners is taken for inverted.
_MOST_COVERED = 0.5
# Largest sizes in bytes of the parts of a NIfTI file: its header, its extensions, and one pixel.
_NIFTI_HEADER, _NIFTI_EXTENSIONS, _PIXEL_BYTES = 352, 65536, 16
_GZIP = b"\x1f\x8b"
MaskSource = Path | dict[str, Any]
# Picture that a mask was drawn on: the original, or the original stretched to a square.
MaskFrame = Literal["image", "stretched"]


def located(value: str | dict[str, Any], find: Callable[[str], Path]) -> MaskSource:
    """Return a manifest's entry for a mask, with its paths made absolute by ``find``."""
    if isinstance(value, str):
        return find(value)
    if "all_of" in value:
        return {"all_of": [located(part, find) for part in value["all_of"]]}
    return value


def files(source: MaskSource | None) -> Iterator[Path]:
    """Yield the paths of the files in a manifest's entry for a mask."""
    if isinstance(source, Path):
        yield source
    elif source is not None:
        for part in source.get("all_of", ()):
            yield from files(part)


def is_box(source: MaskSource | None) -> bool:
    """Return True if a mask is made of boxes; a box shows where a finding is, but not its outline."""
    return isinstance(source, dict) and "box" in source


def read(source: MaskSource, shape: tuple[int, int], what: str, frame: MaskFrame = "image") -> Mask:
    """Return the mask ``(H, W)`` bool at the image's ``shape``; ``what`` names the mask in errors.

    A file or run lengths of another size are resampled by nearest neighbour. They must have the image's proportions; if
    ``frame`` is ``stretched``, they can also be square. Polygons and boxes are in the image's pixels. Raises
    ``InputError`` for a mask that is damaged, empty or inverted, or has other proportions.
    """
    mask, name = _pixels(source, shape, what, frame)
    if not mask.any():
        raise InputError(f"{name}: the mask is empty; leave out the mask, or give the right file.")
    share = float(mask.mean())
    if share > _MOST_COVERED and mask[[0, 0, -1, -1], [0, -1, 0, -1]].all() and not is_box(source):
        raise InputError(
            f"{name}: the mask covers {share:.0%} of the picture and its four corners, so it looks inverted; give a "
            "mask that is 0 outside the structure and 1 or 255 inside."
        )
    return mask


def _pixels(source: MaskSource, shape: tuple[int, int], what: str, frame: MaskFrame) -> tuple[Mask, str]:
    """Return the mask's pixels and its name for errors."""
    if isinstance(source, Path):
        mask = read_mask(source, shape)
        _check_size(mask.shape, shape, f"{source}: the mask is", frame)
        return resample(mask, shape), str(source)
    if "all_of" in source:
        parts = [_pixels(part, shape, what, frame)[0] for part in source["all_of"]]
        return np.logical_and.reduce(parts), f"{what}, of {len(parts)} sources"
    if "polygons" in source:
        return masks.from_polygons(source["polygons"], shape, what), what
    if "box" in source:
        return _filled(source["box"], shape, what), what
    height, width = map(int, source["size"])
    if height * width > MAX_PIXELS:
        raise InputError(
            f"{what}: the run lengths are for {width} x {height} px, more than {MAX_PIXELS:,} pixels; "
            "give a mask with fewer pixels."
        )
    _check_size((height, width), shape, f"{what}: the run lengths are for", frame)
    return resample(masks.from_rle(source, what), shape), what


def proportional(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Return True if two sizes ``(H, W)`` have the same proportions, except for rounding to whole pixels.

    The height or the width may be off by a pixel. If the height is too large and the width too small, or the reverse,
    the result is False:

    >>> proportional((1023, 1024), (1024, 1024)), proportional((1025, 1023), (1024, 1024))
    (True, False)
    """
    # Both sides of a picture are rounded in the same way (up, down or to the nearest pixel).
    return abs(one[0] * other[1] - one[1] * other[0]) <= max(*one, *other)


def _check_size(size: tuple[int, ...], shape: tuple[int, int], what: str, frame: MaskFrame) -> None:
    height, width = size
    if proportional((height, width), shape) or (frame == "stretched" and height == width):
        return
    told = f"{what} {width} x {height} px and its image {shape[1]} x {shape[0]} px"
    if frame == "stretched":
        raise InputError(
            f"{told}; mask_frame is 'stretched', so give a mask that is square or has the image's proportions."
        )
    hint = (
        ", or set mask_frame to 'stretched' if the mask was drawn on the image stretched to a square ('ingest masks': "
        "--mask-frame stretched)"
        if height == width
        else ""
    )
    raise InputError(f"{told}; give a mask of the image's proportions, neither padded nor cropped{hint}.")


def _filled(boxes: list[Any], shape: tuple[int, int], what: str) -> Mask:
    """Return the pixels whose centre lies in one of the boxes ``[x, y, width, height]``."""
    mask = np.zeros(shape, bool)
    for x, y, width, height in boxes if isinstance(boxes[0], list) else [boxes]:
        if x >= shape[1] or y >= shape[0] or x + width <= 0 or y + height <= 0:
            raise InputError(
                f"{what}: the box [{x:g}, {y:g}, {width:g}, {height:g}] lies outside the image of "
                f"{shape[1]} x {shape[0]} px; give [x, y, width, height] in pixels of this image."
            )
        top, bottom, left, right = (
            int(np.clip(round(edge), 0, most))
            for edge, most in ((y, shape[0]), (y + height, shape[0]), (x, shape[1]), (x + width, shape[1]))
        )
        mask[top:bottom, left:right] = True
    return mask


def check_pages(paths: Iterable[Path]) -> None:
    """Raise ``InputError`` if the TIFFs among ``paths`` have different numbers of pages.

    The pages are counted without reading their pixels.
    """
    counts = {path: count_pages(path, open_picture(path, ("TIFF",))[0])
              for path in paths if path.suffix.lower() in TIFF}  # fmt: skip
    if len({*counts.values()}) > 1:
        usual = Counter(counts.values()).most_common(1)[0][0]
        other = next(path for path, count in counts.items() if count == usual)
        odd = [path for path, count in counts.items() if count != usual]
        raise InputError(
            f"{odd[0]}: has {plural(counts[odd[0]], 'page')}, but {other} has {usual} ({plural(len(odd), 'file')} of "
            f"{len(counts)} differ from it). A page's number says which structure it shows, so save each structure "
            "under the same page number in every file. If a picture does not show the structure, leave this page empty."
        )


def read_labels(
    path: Path, shape: tuple[int, int] | None, find: Callable[..., str | None]
) -> Iterator[tuple[str, Mask]]:
    """Yield the meaning and the mask ``(H, W)`` of each label in a file.

    - ``shape``: as in :func:`read_nifti`.
    - ``find``: a function that takes a label and its further names and returns the label's meaning. Labels for which it
      returns None are left out.

    The labels depend on the format of the file:

    - PNG or TIFF: those of :func:`chexqa.imaging.masks.read_label_map`;
    - NIfTI: the values except 0, such as "3";
    - DICOM SEG: the names of the segments.

    Raise ``InputError`` for any other file.
    """
    found: Iterable[masks.Labelled]
    if path.suffix.lower() in dicom.SUFFIXES:
        found = read_segments(path).segments
    else:
        found = masks.by_value(path, read_nifti(path, shape)) if is_nifti(path) else masks.read_label_map(path)
    for labels, mask in found:
        if (meaning := find(*labels)) is not None:
            yield meaning, mask


class Segments(NamedTuple):
    """Content of a DICOM SEG: the picture's SOP Instance UID, and each segment's names (its label first) and mask."""

    picture: str | None
    segments: list[masks.Labelled]


def read_segments(path: Path) -> Segments:
    """Read a DICOM SEG (binary, fractional or label map) of one picture; empty segments are left out.

    A fractional segment is cut at half of its maximum. Raises ``InputError`` for a file of another kind, of several
    pictures, or with compressed pixels.
    """
    with dicom.parsed(path) as elements:
        dataset = elements((*_SEGMENTS, "PixelData"))
        if "SegmentSequence" not in dataset:
            raise InputError(f"{path}: is a DICOM file without segments, not a DICOM SEG; give masks.")
        if (syntax := dataset.file_meta.TransferSyntaxUID).is_encapsulated or not syntax.is_little_endian:
            raise InputError(f"{path}: has compressed or big-endian segments; save it as Explicit VR Little Endian.")
        frames, size = int(dataset.get("NumberOfFrames") or 1), (int(dataset.Rows), int(dataset.Columns))
        if min(size) < 1 or frames > MAX_FRAMES or frames * size[0] * size[1] > 4 * MAX_PIXELS:
            raise InputError(
                f"{path}: has {frames} frames of {size[1]} x {size[0]} px, but chexqa reads at most {MAX_FRAMES} "
                f"frames, which may not be empty, with at most {4 * MAX_PIXELS:,} pixels in all; give a file with the "
                "segments of only one radiograph."
            )
        pixels = np.frombuffer(dataset.PixelData, np.uint8)
        if dataset.BitsAllocated == 1:
            pixels = np.unpackbits(pixels, bitorder="little")
        elif dataset.BitsAllocated == 16:
            pixels = np.frombuffer(dataset.PixelData, "<u2")
        stored = pixels[: frames * size[0] * size[1]].reshape(frames, *size)
        kind, groups = str(dataset.SegmentationType), list(dataset.get("PerFrameFunctionalGroupsSequence", ()))
        shared = list(dataset.get("SharedFunctionalGroupsSequence", ()))
        found: dict[int, Mask] = {}
        for number, one in enumerate(stored):
            if kind == "LABELMAP":
                own = {int(value): one == value for value in np.unique(one[one != 0])}
            else:
                group = next(group for group in (groups[number], *shared) if "SegmentIdentificationSequence" in group)
                least = (int(dataset.MaximumFractionalValue) + 1) // 2 if kind == "FRACTIONAL" else 1
                own = {int(group.SegmentIdentificationSequence[0].ReferencedSegmentNumber): one >= least}
            if twice := [*(own.keys() & found.keys())]:
                raise InputError(
                    f"{path}: has several frames of segment {twice[0]}; give a file with the segments of only one "
                    "radiograph."
                )
            found |= {segment: mask for segment, mask in own.items() if mask.any()}
        pictures = {str(one.ReferencedSOPInstanceUID) for series in dataset.get("ReferencedSeriesSequence", ())
                    for one in series.get("ReferencedInstanceSequence", ())}  # fmt: skip
        named = [(_segment_names(one), found[int(one.SegmentNumber)]) for one in dataset.SegmentSequence
                 if int(one.SegmentNumber) in found]  # fmt: skip
        return Segments(pictures.pop() if len(pictures) == 1 else None, named)


def _segment_names(segment: Any) -> tuple[str, ...]:
    """Return a segment's label, and the meaning of the code of what it shows."""
    codes = segment.get("SegmentedPropertyTypeCodeSequence", ())
    return str(segment.SegmentLabel), *(str(code.CodeMeaning) for code in codes)


def is_nifti(path: Path) -> bool:
    """Return True if a file's name has the ending of a NIfTI file."""
    return path.name.lower().endswith(NIFTI)


def read_mask(path: Path, shape: tuple[int, int] | None) -> Mask:
    """Return the mask ``(H, W)`` in a PNG, TIFF or NIfTI file; ``shape`` is as in :func:`read_nifti`."""
    if not is_nifti(path):
        return masks.read_mask_png(path)
    values = read_nifti(path, shape)
    found = np.unique(values)
    if len(found) > 2 or (len(found) == 2 and found[0] != 0):
        listed = ", ".join(map(str, found[:5])) + (", …" if len(found) > 5 else "")
        raise InputError(
            f"{path}: a mask has only 0 and one other value, but this file has {len(found)} values ({listed}); if it "
            "is a label map, read it with 'chexqa ingest masks --label'."
        )
    return np.asarray(values != 0, dtype=np.bool_)


def read_nifti(path: Path, shape: tuple[int, int] | None) -> npt.NDArray[np.int64]:
    """Return the values ``(H, W)`` of a NIfTI file with one slice, turned to the orientation of the displayed picture.

    The file's directions say which axis runs to the patient's left (the picture's right) and which runs down. If a file
    has no directions, they follow from the picture's ``shape``; this is impossible for a square picture. Raises
    ``InputError`` if the extra ``nifti`` is not installed, if the directions cannot be determined, and for a file that
    is damaged, has several slices or has values that are not whole numbers.
    """
    try:
        import nibabel
    except ImportError:
        raise InputError(
            f"{path}: NIfTI files need a package that is not installed; run: pip install 'chexqa[nifti]'."
        ) from None
    logging.getLogger("nibabel.global").setLevel(logging.CRITICAL)  # nibabel logs every header field that it repairs
    data = read_whole(path, MAX_PICTURE_BYTES)
    most = _NIFTI_HEADER + _NIFTI_EXTENSIONS + MAX_PIXELS * _PIXEL_BYTES
    try:
        if data.startswith(_GZIP):
            data = zlib.decompressobj(wbits=31).decompress(data, most)
        volume = nibabel.Nifti1Image.from_bytes(data)
        size = [length for length in volume.shape if length > 1]
        if len(size) != 2 or len(volume.shape) > 4 or size[0] * size[1] > MAX_PIXELS:
            words = " x ".join(map(str, volume.shape))
            raise InputError(
                f"{path}: has {words} voxels; give a file with one slice of at most {MAX_PIXELS:,} pixels."
            )
        raw = np.asarray(volume.dataobj).reshape(volume.shape).squeeze()
        affine = np.asarray(volume.affine, float)
        codes = nibabel.aff2axcodes(affine)  # type: ignore[no-untyped-call]
    except InputError:
        raise
    except Exception as error:  # nibabel's errors have no base class of their own
        raise InputError(f"{path}: cannot be read as NIfTI ({type(error).__name__}); give a complete file.") from None
    values = np.round(raw.astype(float)) if raw.dtype.kind in "fiub" else np.full(raw.shape, np.nan)
    if not np.isfinite(values).all() or (values != raw).any() or np.abs(values).max() > 2**31:
        raise InputError(
            f"{path}: has values that are not whole numbers; apply a threshold, so that only 0 and 1 are left."
        )
    axes = [axis for axis, length in enumerate(volume.shape) if length > 1]
    whole = values.astype(np.int64)
    if np.array_equal(affine[:3, :3], np.eye(3)):
        return np.ascontiguousarray(_by_shape(path, whole, shape))
    return np.ascontiguousarray(_by_directions(path, whole, [str(codes[axis]) for axis in axes if axis < 3]))


def _by_directions(path: Path, values: npt.NDArray[np.int64], codes: list[str]) -> npt.NDArray[np.int64]:
    """Return ``values`` as ``(H, W)``; ``codes`` has the direction of each of the two axes (L, R, A, P, S or I)."""
    across = next((axis for axis, code in enumerate(codes) if code in "LR"), None)
    if across is None or len(codes) != 2:
        raise InputError(
            f"{path}: its axes point to {' and '.join(codes)}, so it is not a frontal slice; give "
            f"the mask of a frontal radiograph."
        )
    rows = values if across == 1 else values.T
    down = codes[1 - across]
    rows = rows[::-1] if down in "AS" else rows
    return rows[:, ::-1] if codes[across] == "R" else rows


def _by_shape(path: Path, values: npt.NDArray[np.int64], shape: tuple[int, int] | None) -> npt.NDArray[np.int64]:
    """Return ``values`` of a file without directions as ``(H, W)``; the order of the axes follows from ``shape``."""
    fits = [rows for rows in (values, values.T) if shape and proportional((rows.shape[0], rows.shape[1]), shape)]
    if len(fits) != 1:
        raise InputError(
            f"{path}: does not state the directions of its axes (its affine is the identity), and the picture's shape "
            "does not show which axis has the rows; write the file with SimpleITK, or save the mask as a PNG."
        )
    return fits[0]
