"""Masks from PNG and TIFF files, run lengths and polygons, and their components; a mask is a ``bool`` array ``(H, W)``.

Run lengths are in COCO's format: a size ``[height, width]``, and alternating counts of zeros and ones, down the
columns, starting with zeros. The counts are a list, or a string as pycocotools writes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from chexqa.files.errors import InputError
from chexqa.imaging.read import MAX_PIXELS, Mask, count_pages, load_page, open_picture, without_palette

# A vertex drawn over the edge may lie outside the picture by this share of its longer side.
OUTSIDE = 0.02

# Formats of masks that keep edges sharp, and bounds on label maps.
_FORMATS = ("PNG", "TIFF")
MAX_PAGES, MAX_COLOURS = 256, 256
# Largest shares of rims in sharp label maps: of rims of one pixel, and of rims up to a hundredth of the longer side.
_MOST_THIN, _MOST_WIDE, _LEAST_RIMS = 0.2, 0.5, 16
_FIRST_CHARACTER, _BITS, _MORE, _SIGN = 48, 5, 0x20, 0x10
# Seven characters hold 35 bits, more than a count up to MAX_PIXELS needs.
_MOST_CHARACTERS = 7

_SMALLER = "give a mask with fewer pixels."
_AGAIN = "encode the mask again, as pycocotools does."


def read_mask_png(path: Path) -> Mask:
    """Read a PNG or TIFF mask, ``(H, W)`` bool, with the value 0 outside and 1, 255 or (16 bits) 65535 inside.

    The file must have one channel, several equal channels, or a palette of colours that begins with black, as PASCAL
    VOC's; then the index 0 is outside, and one other index is inside. A file with only zeros gives a mask that is all
    ``False``. Raise ``InputError`` for any other file.
    """
    picture, _ = open_picture(path, ("TIFF",))
    if picture.format not in _FORMATS:
        raise InputError(
            f"{path}: a mask must be a PNG, but this is a {picture.format}, which blurs edges; save the mask as PNG."
        )
    if (pages := count_pages(path, picture)) > 1:
        raise InputError(
            f"{path}: has {pages} pages, but a mask has one; read the file with 'chexqa ingest masks --label', such as "
            "--label 2=effusion if page 2 shows an effusion."
        )
    picture = load_page(path, picture, 0)  # size after the EXIF rotation
    by_index = _is_coloured(picture)
    values = np.asarray(picture) if by_index else _mask_values(path, without_palette(picture))
    high = values.max()
    if (high not in (0, 1, 255, 65535) and not by_index) or ((values != 0) & (values != high)).any():
        found = np.unique(values)
        listed = ", ".join(str(value) for value in found[:5]) + (", …" if len(found) > 5 else "")
        raise InputError(
            f"{path}: a mask has only 0 and either 1 or 255, but this file has {len(found)} values ({listed}); apply a "
            "threshold or, if it is a label map, read it with 'chexqa ingest masks --label'."
        )
    inside: Mask = values != 0
    return inside


Labelled = tuple[tuple[str, ...], Mask]
Ints = npt.NDArray[np.integer]


def read_label_map(path: Path) -> Iterator[Labelled]:
    """Yield the labels and the mask ``(H, W)`` of each value of a label map, a PNG or TIFF.

    The value outside of all structures (0 or black) is left out. The labels are:

    - in a grey picture: the grey value, such as "3";
    - in a colour picture: the colour, such as "#ff0000"; for grey pixels, both the colour and the grey value;
    - in a picture with a palette: both the index, such as "3", and the colour;
    - in a TIFF with several pages, each of which is a mask: the page's number, from "1".

    Raise ``InputError`` if the file is not such a label map, for example because its edges are smoothed.
    """
    picture, _ = open_picture(path, ("TIFF",))
    if picture.format not in _FORMATS:
        raise InputError(f"{path}: a label map must be a PNG or TIFF, but this is a {picture.format}; save it as PNG.")
    pages = count_pages(path, picture)
    if pages > MAX_PAGES:
        raise InputError(f"{path}: has {pages:,} pages, but at most {MAX_PAGES} are read; leave out pages.")
    sizes = set[tuple[int, int]]()
    for number in range(pages):
        page = load_page(path, picture, number)
        sizes.add(page.size)
        if len(sizes) > 1:
            raise InputError(
                f"{path}: has pages of unlike sizes, so they are not masks of one picture; save them anew."
            )
        found = [*_labelled(path, page)]
        if pages == 1:
            yield from found
            continue
        if len(found) > 1:
            listed = ", ".join(labels[0] for labels, _ in found[:5]) + (", …" if len(found) > 5 else "")
            raise InputError(
                f"{path}: page {number + 1} has {len(found)} values ({listed}), but in a file of several pages, each "
                "is a mask (0 and one other value); save each structure as a page, or the label map as one page."
            )
        for _, mask in found:
            yield (str(number + 1),), mask


def by_value(path: Path, values: Ints) -> Iterator[Labelled]:
    """Yield the label and the mask of each value except 0; raise ``InputError`` if the edges are smoothed."""
    _refuse_smoothed(path, values)
    for value in np.unique(values[values != 0]).tolist():
        yield (str(value),), values == value


def _labelled(path: Path, picture: Image.Image) -> Iterator[Labelled]:
    """Yield the labels and the mask of each value of a decoded picture, as :func:`read_label_map` does."""
    if picture.mode not in ("P", "RGB", "RGBA"):
        yield from by_value(path, _whole(path, _mask_values(path, picture)))
        return
    pixels = np.asarray(without_palette(picture))
    inside = pixels[..., -1] > 0 if pixels.shape[-1] == 4 else np.ones(pixels.shape[:2], np.bool_)
    if (pixels[inside][:, 3:] < 255).any():
        raise InputError(f"{path}: the label map has half-transparent parts; save it without smoothing.")
    colours = pixels[..., :3].astype(np.int64) @ np.array([1 << 16, 1 << 8, 1])
    values = np.asarray(picture) if picture.mode == "P" else colours
    found, first = np.unique(values[inside], return_index=True)
    if len(found) > MAX_COLOURS:
        raise InputError(f"{path}: has {len(found):,} colours, so its edges are smoothed; save it without smoothing.")
    # Index 0 is outside if it is black; without black as the first colour, the order of a palette says nothing.
    begins_black = picture.mode == "P" and not any((picture.getpalette("RGB") or [1])[:3])
    is_grey = begins_black or not (pixels[..., :3] != pixels[..., :1]).any()
    if is_grey:
        _refuse_smoothed(path, np.where(inside, values, 0))
    for value, colour in zip(found.tolist(), colours[inside][first].tolist(), strict=True):
        grey = [str(colour & 255)] if colour % 0x010101 == 0 else []
        labels = [f"#{colour:06x}", *([str(value)] if picture.mode == "P" else grey)]
        if value if begins_black else colour:
            yield tuple(reversed(labels) if is_grey else labels), inside & (values == value)


def _refuse_smoothed(path: Path, values: Ints) -> None:
    """Raise ``InputError`` if interpolation has put rims of other values around the structures of a label map."""
    runs = [_runs(values), _runs(values.T)]
    for width, most in ((1, _MOST_THIN), (max(values.shape) // 100, _MOST_WIDE)):
        rims, others = np.sum([_count_rims(*one, width) for one in runs], axis=0)
        if rims >= max(_LEAST_RIMS, most * (rims + others)):
            raise InputError(
                f"{path}: has rims of other values around its structures, probably because it was resized or rotated "
                "with smoothing. Each rim would count as another structure; use nearest-neighbour interpolation."
            )


def _runs(values: Ints) -> tuple[Ints, Ints, Mask]:
    """Return the value and the length of each run of equal pixels in the rows; and which run follows one in its row."""
    new = np.ones(values.shape, np.bool_)
    np.not_equal(values[:, 1:], values[:, :-1], out=new[:, 1:])
    rows, columns = np.nonzero(new)
    return values[rows, columns], np.diff(np.flatnonzero(new), append=values.size), columns[1:] > 0


def _count_rims(runs: Ints, lengths: Ints, joined: Mask, width: int) -> tuple[int, int]:
    """Return how many rims and how many other borders the rows of a label map ``(H, W)`` cross.

    A rim is a run of at most ``width`` equal pixels between a smaller and a larger value. The other borders are wider
    runs of this kind, and steps between two values that have a third one of the map between them.
    """
    low, high = np.minimum(runs[:-1], runs[1:]), np.maximum(runs[:-1], runs[1:])
    between = np.zeros(runs.shape, np.bool_)
    between[1:-1] = joined[:-1] & joined[1:] & ((runs[:-2] < runs[1:-1]) == (runs[1:-1] < runs[2:]))
    rims = between & (lengths <= width)
    known, steps = np.unique(runs[~rims]), joined & ~rims[:-1] & ~rims[1:]
    passed = np.searchsorted(known, high, "left") > np.searchsorted(known, low, "right")
    return int(rims.sum()), int((between & ~rims).sum() + (steps & passed).sum())


def _whole(path: Path, values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return values as int64; raise ``InputError`` if they are not whole numbers."""
    if values.dtype.kind == "f" and not (np.isfinite(values).all() and (values == np.round(values)).all()):
        raise InputError(f"{path}: has values that are not whole numbers; save it with whole numbers.")
    return values.astype(np.int64)


def _is_coloured(picture: Image.Image) -> bool:
    """Return True if a picture has a palette of colours that begins with black."""
    palette = picture.getpalette("RGB") if picture.mode == "P" else None
    colours = np.array(palette or [1, 1, 1]).reshape(-1, 3)
    return not colours[0].any() and bool((colours != colours[:, :1]).any())


def _mask_values(path: Path, picture: Image.Image) -> Ints:
    """Return a decoded mask as one channel ``(H, W)``; raise ``InputError`` for colours and transparent parts."""
    values = np.asarray(picture)
    if values.dtype == np.bool_:
        values = values.astype(np.uint8)
    if picture.mode in ("LA", "RGBA"):
        if values[..., -1].min() < 255:
            raise InputError(f"{path}: the mask has transparent parts; save it as black and white.")
        values = values[..., :-1]
    if values.ndim == 3:
        if (values != values[..., :1]).any():
            raise InputError(f"{path}: the mask has colours; save it as black and white.")
        values = values[..., 0]
    return values


def from_rle(rle: Mapping[str, Any], where: str, every: int = 1) -> Mask:
    """Decode ``{"size": [h, w], "counts": str | list}``; raise ``InputError`` for damaged counts or a wrong total.

    With ``every`` = n, only every n-th row and column is returned, which is faster than selecting them afterwards.

    >>> from_rle({"size": [2, 2], "counts": [1, 3]}, "an example").tolist()
    [[False, True], [True, True]]
    """
    height, width = map(int, rle["size"])
    counts = _checked_counts(rle, where)
    columns = np.repeat(np.arange(len(counts)) % 2 == 1, counts).reshape(width, height)
    if not columns.size:
        return np.zeros((height, width), np.bool_)[::every, ::every]
    rows = cv2.transpose(columns.view(np.uint8)).view(np.bool_)  # much faster than NumPy's strided copy
    return np.ascontiguousarray(rows[::every, ::every])


def rle_area(rle: Mapping[str, Any], where: str) -> int:
    """Return the number of pixels in a run-length mask without decoding it; errors as in :func:`from_rle`."""
    return int(_checked_counts(rle, where)[1::2].sum())


def to_rle(mask: Mask) -> dict[str, Any]:
    """Return a mask as ``{"size": [h, w], "counts": str}``, as pycocotools writes it.

    >>> to_rle(np.array([[True, False], [True, True]]))["size"]
    [2, 2]
    """
    flat = cv2.transpose(mask.view(np.uint8)).ravel()  # much faster than NumPy's strided copy
    changes = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    edges = np.concatenate(([0], [0] if flat[0] else [], changes, [flat.size])).astype(np.int64)
    return {"size": list(mask.shape), "counts": _write_counts(np.diff(edges))}


def from_polygons(polygons: Sequence[Sequence[Sequence[float]]], shape: tuple[int, int], where: str) -> Mask:
    """Return the union of polygons of ``(x, y)`` points in source pixels, as a mask of ``shape`` ``(H, W)``.

    Pillow fills each polygon and includes every pixel of its outline. This rule turns the polygons of CheXlocalize into
    exactly the run lengths that CheXlocalize publishes; other common rules do not. A polygon that crosses itself is
    filled by the even-odd rule. Parts outside the picture are cut off. If a vertex is outside by more than 2 % of the
    longer side, the polygon must belong to a picture of another size, so ``InputError`` is raised.

    >>> int(from_polygons([[(0, 0), (0, 4), (4, 4), (4, 0)]], (8, 8), "an example").sum())
    25
    """
    height, width = shape
    canvas = Image.new("1", (width, height))
    draw = ImageDraw.Draw(canvas)
    for number, polygon in enumerate(polygons, start=1):
        try:
            points = np.asarray(polygon, np.float64)
        except OverflowError:
            raise InputError(
                f"{where}: polygon {number} has a coordinate that is much too large; its points must be (x, y) in "
                "pixels of this image."
            ) from None
        margin = OUTSIDE * max(shape)
        outside = (points < -margin) | (points > np.array([width, height]) + margin) | ~np.isfinite(points)
        if outside.any():
            x, y = points[outside.any(axis=1)][0]
            raise InputError(
                f"{where}: polygon {number} has the point ({x:g}, {y:g}), outside the image of {width} x {height} px; "
                "its points must be (x, y) in pixels of this image."
            )
        draw.polygon([(float(x), float(y)) for x, y in points], fill=1, outline=1)
    return np.array(canvas)


def components(mask: Mask, connectivity: int) -> tuple[npt.NDArray[np.int32], int]:
    """Return the connected components of a mask as ``(labels, count)``.

    ``labels`` is an int32 array ``(H, W)``: 0 outside the mask, and the component's number, from 1 to ``count``, in the
    mask. ``connectivity`` is 4 or 8.
    """
    total, labels = cv2.connectedComponents(mask.view(np.uint8), connectivity=connectivity, ltype=cv2.CV_32S)
    return np.asarray(labels, np.int32), total - 1


def window(mask: Mask, margin: int = 0) -> tuple[slice, slice]:
    """Return the rows and columns of a mask's bounding box, enlarged by ``margin`` pixels and clipped to the picture.

    If the mask is empty, the window has the first ``margin`` rows and columns. If the margin is 0 too, the window is
    empty.
    """
    x, y, width, height = cv2.boundingRect(mask.view(np.uint8))
    return (
        slice(max(0, y - margin), min(mask.shape[0], y + height + margin)),
        slice(max(0, x - margin), min(mask.shape[1], x + width + margin)),
    )


def pixels(mask: Mask) -> npt.NDArray[np.intp]:
    """Return the row and column of every True pixel, ``(number of pixels, 2)``, in reading order.

    This function is much faster than ``np.argwhere``.
    """
    found = cv2.findNonZero(mask.view(np.uint8))
    if found is None:
        return np.empty((0, 2), np.intp)
    return np.asarray(found).reshape(-1, 2)[:, ::-1].astype(np.intp)


def iou(first: Mask, second: Mask) -> float:
    """Return the intersection over union (Jaccard index) of two masks of equal shape.

    The IoU of two empty masks is 1. CheXlocalize (Saporta et al., 2022) grades heat maps by this index.

    >>> iou(np.array([True, True, False]), np.array([False, True, True])) == 1 / 3
    True
    """
    union = int(np.count_nonzero(first | second))
    return int(np.count_nonzero(first & second)) / union if union else 1.0


def dice(first: Mask, second: Mask) -> float:
    """Return the Dice coefficient of two masks: twice the intersection over the sum of areas.

    The coefficient of two empty masks is 1. XBench (arXiv 2510.19599) uses this measure.

    >>> dice(np.array([True, True, False]), np.array([False, True, True]))
    0.5
    """
    areas = int(np.count_nonzero(first)) + int(np.count_nonzero(second))
    return 2 * int(np.count_nonzero(first & second)) / areas if areas else 1.0


def disc(radius: float) -> npt.NDArray[np.uint8]:
    """Return a disc as a structuring element ``(2 r + 1, 2 r + 1)`` uint8, where r is ``radius`` rounded down.

    The element is 1 up to a distance of ``radius`` pixels from the middle, and 0 beyond.
    """
    offsets = np.arange(-int(radius), int(radius) + 1)
    return (offsets[:, None] ** 2 + offsets[None, :] ** 2 <= radius**2).astype(np.uint8)


def _checked_counts(rle: Mapping[str, Any], where: str) -> npt.NDArray[np.int64]:
    height, width = map(int, rle["size"])
    if height * width > MAX_PIXELS:
        raise InputError(f"{where}: the mask's size {height} x {width} is more than {MAX_PIXELS:,} pixels; {_SMALLER}")
    counts = _read_counts(rle["counts"], where)
    wrong = counts[(counts < 0) | (counts > MAX_PIXELS)]
    if wrong.size:
        raise InputError(f"{where}: the mask's run lengths are damaged (a run of {wrong[0]} pixels); {_AGAIN}")
    if counts.sum() != height * width:
        raise InputError(
            f"{where}: the mask's run lengths add up to {counts.sum():,} pixels, but a mask of {height} x {width} has "
            f"{height * width:,}; 'size' must be [height, width]."
        )
    return counts


def _read_counts(counts: str | Sequence[int], where: str) -> npt.NDArray[np.int64]:
    if not isinstance(counts, str):
        try:
            return np.array(counts, np.int64)
        except OverflowError:
            raise InputError(f"{where}: the mask's run lengths are damaged (one is far too long); {_AGAIN}") from None
    # Each character has five bits of a number, and a sixth bit that is set if the number continues. From the fourth
    # count on, the number is the difference between the count and the count two positions before it.
    codes = np.frombuffer(counts.encode("utf-8"), np.uint8).astype(np.int64) - _FIRST_CHARACTER
    if not codes.size or codes.min() < 0 or codes.max() >= 64:
        raise InputError(
            f"{where}: the mask's counts have characters that compressed COCO run lengths never have; {_AGAIN}"
        )
    last = np.flatnonzero((codes & _MORE) == 0)
    lengths = np.diff(last, prepend=-1)
    if codes[-1] & _MORE or (lengths > _MOST_CHARACTERS).any():
        raise InputError(f"{where}: the mask's compressed run lengths are cut off or damaged; {_AGAIN}")
    starts = last - lengths + 1
    place = np.arange(codes.size) - np.repeat(starts, lengths)
    values = np.add.reduceat((codes & 0x1F) << (_BITS * place), starts)
    values -= np.where(codes[last] & _SIGN, np.int64(1) << (_BITS * lengths), 0)
    for first in (1, 2):  # each difference refers to the count two before, but never to the first count
        values[first::2] = np.cumsum(values[first::2])
    return values


def _write_counts(counts: npt.NDArray[np.int64]) -> str:
    values = counts.copy()
    values[3:] -= counts[1:-2]
    # The fewest groups of five bits that keep the sign: n groups hold -2^(5n-1) to 2^(5n-1) - 1.
    magnitude = np.where(values < 0, ~values, values)
    limits = np.int64(1) << (_BITS * np.arange(1, _MOST_CHARACTERS) - 1)
    groups = 1 + (magnitude[:, None] >= limits).sum(axis=1)
    place = np.arange(_MOST_CHARACTERS)
    codes = (values[:, None] >> (_BITS * place)) & 0x1F
    codes |= np.where(place < groups[:, None] - 1, _MORE, 0)
    kept = (codes[place < groups[:, None]] + _FIRST_CHARACTER).astype(np.uint8)
    return str(kept.tobytes(), "ascii")
