"""A mask as a manifest names it: a PNG, COCO run lengths, polygons, boxes, or the intersection of several of these."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np

from chexqa.files.errors import InputError
from chexqa.imaging import masks
from chexqa.imaging.read import MAX_PIXELS, Mask, proportional, read_mask_png, resample

MaskSource = Path | dict[str, Any]
# What a mask was drawn on: the picture itself, or the picture stretched to a square.
MaskFrame = Literal["image", "stretched"]


def located(value: str | dict[str, Any], find: Callable[[str], Path]) -> MaskSource:
    """Return a manifest's value with its paths made absolute by ``find``."""
    if isinstance(value, str):
        return find(value)
    if "all_of" in value:
        return {"all_of": [located(part, find) for part in value["all_of"]]}
    return value


def files(source: MaskSource | None) -> Iterator[Path]:
    """Yield the files that a mask is read from."""
    if isinstance(source, Path):
        yield source
    elif source is not None:
        for part in source.get("all_of", ()):
            yield from files(part)


def is_box(source: MaskSource | None) -> bool:
    """Return whether a mask is made of boxes, which say where a finding is, but not its outline."""
    return isinstance(source, dict) and "box" in source


def read(source: MaskSource, shape: tuple[int, int], what: str, frame: MaskFrame = "image") -> Mask:
    """Return the mask at the image's ``shape`` ``(H, W)``; ``what`` names it in errors.

    A PNG or run lengths of another size are resampled by nearest neighbour: of the image's proportions, or square in
    the frame ``stretched``. Polygons and boxes are in the image's pixels. Raises ``InputError`` for a mask that is
    damaged, empty, or of other proportions.
    """
    mask, name = _pixels(source, shape, what, frame)
    if not mask.any():
        raise InputError(f"{name}: the mask is empty; leave it out where there is nothing to outline.")
    return mask


def _pixels(source: MaskSource, shape: tuple[int, int], what: str, frame: MaskFrame) -> tuple[Mask, str]:
    """Return the pixels, and the mask's name in errors."""
    if isinstance(source, Path):
        mask = read_mask_png(source)
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
        raise InputError(f"{what}: the run lengths are for {width} x {height} px, more than {MAX_PIXELS:,} pixels.")
    _check_size((height, width), shape, f"{what}: the run lengths are for", frame)
    return resample(masks.from_rle(source, what), shape), what


def _check_size(size: tuple[int, ...], shape: tuple[int, int], what: str, frame: MaskFrame) -> None:
    height, width = size
    if proportional((height, width), shape) or (frame == "stretched" and height == width):
        return
    told = f"{what} {width} x {height} px and its image {shape[1]} x {shape[0]} px"
    if frame == "stretched":
        raise InputError(f"{told}; with the mask_frame stretched a mask is square or has the image's proportions.")
    hint = ", or mask_frame stretched if the image was stretched to a square for it" if height == width else ""
    raise InputError(f"{told}; give a mask of the image's proportions, neither padded nor cropped{hint}.")


def _filled(boxes: list[Any], shape: tuple[int, int], what: str) -> Mask:
    """Return the pixels whose centre lies in one of the boxes ``[x, y, width, height]``."""
    mask = np.zeros(shape, bool)
    for x, y, width, height in boxes if isinstance(boxes[0], list) else [boxes]:
        if x >= shape[1] or y >= shape[0] or x + width <= 0 or y + height <= 0:
            raise InputError(
                f"{what}: the box [{x:g}, {y:g}, {width:g}, {height:g}] lies outside the image of "
                f"{shape[1]} x {shape[0]} px; boxes are [x, y, width, height] in its pixels."
            )
        top, bottom, left, right = (
            int(np.clip(round(edge), 0, most))
            for edge, most in ((y, shape[0]), (y + height, shape[0]), (x, shape[1]), (x + width, shape[1]))
        )
        mask[top:bottom, left:right] = True
    return mask
