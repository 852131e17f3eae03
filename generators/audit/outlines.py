"""Measures of a drawn picture: the shape of the outline and the positions of the points.

All measures are read from the pictures. Lengths are divided by the picture's longer side, and areas by its square. A
picture without an outline has no measures.
"""

from __future__ import annotations

import math

import cv2
import numpy as np
import numpy.typing as npt

from chexqa.contract.benchmark import image_path
from chexqa.files.jsonio import sha256
from chexqa.imaging.colors import PALETTES, POINT_COLORS
from chexqa.imaging.masks import iou
from chexqa.imaging.read import decode_rgb

Mask = npt.NDArray[np.bool_]
Image = npt.NDArray[np.uint8]
Line = npt.NDArray[np.float64]
Measures = dict[str, float]

# Scales of the measures of smoothness, as fractions of the longer side: the length of line on each side of a pixel over
# which a bend is measured, half the window of the running mean along the line, and the neighbourhood of a point.
_ARM = 0.006
_WINDOW = 0.008
_NEAR = 0.04
_SHARP = math.radians(40)
# A line of one pixel has at least this opacity everywhere, so that the line has no gap.
_OPAQUE = 85


def read(data: bytes) -> Image:
    """Return the pixels of a PNG or JPEG, ``(H, W, 3)`` RGB; raise ``InputError`` for any other file."""
    return decode_rgb(data, image_path(sha256(data)))


def outline_pixels(image: Image) -> Mask:
    """Return the mask of an RGB picture's cyan pixels; these are the outline."""
    red, green, blue = cv2.split(image)
    return np.asarray((cv2.subtract(green, red) >= _OPAQUE) & (cv2.absdiff(green, blue) <= 2))


def enclosed(line: Mask) -> Mask:
    """Return the mask that an outline shows: the line and the area inside it.

    An outline within this area is the border of a hole, and the area inside such an outline is left out.
    """
    contours, tree = cv2.findContours(line.astype(np.uint8), cv2.RETR_TREE, cv2.CHAIN_APPROX_NONE)
    depths = [_depth(tree[0], index) for index in range(len(contours))]
    filled = np.zeros(line.shape, np.uint8)
    for index in sorted(range(len(contours)), key=lambda index: depths[index]):
        # Depths in the tree: 0 is the line's outer border, 1 the enclosed area, 2 the line round a hole, 3 the hole.
        if depths[index] % 2:
            inside = int(depths[index] % 4 == 1)
            cv2.drawContours(filled, contours, index, inside, cv2.FILLED, hierarchy=tree, maxLevel=0)
    return np.asarray(filled.astype(bool) | line)


def _depth(tree: npt.NDArray[np.int32], index: int) -> int:
    depth = 0
    while (parent := int(tree[index][3])) >= 0:
        index, depth = parent, depth + 1
    return depth


class Outline:
    """An outline read from a picture: the enclosed area (``mask``) and its borders, pixel by pixel (``lines``)."""

    def __init__(self, mask: Mask) -> None:
        self.mask = mask
        self.side: int = max(mask.shape)
        found, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
        self.lines: list[Line] = [line.reshape(-1, 2).astype(float) for line in found]
        self.bends: list[Line] = [self._bends(line) for line in self.lines]
        self.shifts: list[Line] = [self._shifts(line) for line in self.lines]

    @classmethod
    def of(cls, image: Image) -> Outline | None:
        """Return the outline in an RGB picture; None if the picture has no outline."""
        line = outline_pixels(image)
        return cls(enclosed(line)) if line.any() else None

    def _bends(self, line: Line) -> Line:
        """Return the angle in radians by which the line turns at each pixel, measured over an arm on each side."""
        arm = max(2, round(_ARM * self.side))
        if len(line) <= 2 * arm:
            return np.zeros(len(line))
        back, on = line - np.roll(line, arm, axis=0), np.roll(line, -arm, axis=0) - line
        cross = back[:, 0] * on[:, 1] - back[:, 1] * on[:, 0]
        return np.asarray(np.arctan2(cross, (back * on).sum(axis=1)))

    def _shifts(self, line: Line) -> Line:
        """Return the distance of each pixel of the line from the line's running mean."""
        reach = min(max(2, round(_WINDOW * self.side)), (len(line) - 1) // 2)
        if reach < 1:
            return np.zeros(len(line))
        padded = np.concatenate([line[-reach:], line, line[:reach]])
        sums = np.concatenate([np.zeros((1, 2)), padded.cumsum(axis=0)])
        mean = (sums[2 * reach + 1 :] - sums[: -2 * reach - 1]) / (2 * reach + 1)
        return np.asarray(np.hypot(*(line - mean).T) / self.side)

    def _corners(self, line: Line, bends: Line) -> Line:
        """Return one pixel for each place where the line turns sharply: the sharpest pixel within an arm's length."""
        arm = max(2, round(_ARM * self.side))
        sharp = np.abs(bends)
        peak = np.max([np.roll(sharp, step) for step in range(-arm, arm + 1)], axis=0)
        at = np.flatnonzero((sharp >= _SHARP) & (sharp == peak))
        apart = np.diff(at, prepend=at[-1] - len(line)) > arm if len(at) > 1 else np.ones(len(at), bool)
        return np.asarray(line[at[apart]])

    def measures(self) -> Measures:
        """Return area, length, number of borders, corners, roughness and compactness of the whole outline."""
        length = sum(float(cv2.arcLength(line.astype(np.float32), True)) for line in self.lines) / self.side
        area = float(np.count_nonzero(self.mask)) / self.side**2
        return {
            "area": area,
            "length": length,
            "borders": float(len(self.lines)),
            "corners": float(sum(len(self._corners(*pair)) for pair in zip(self.lines, self.bends, strict=True))),
            "roughness": float(np.concatenate(self.shifts).mean()),
            "bend": float(np.abs(np.concatenate(self.bends)).mean()),
            "compactness": length**2 / area,
        }

    def at(self, xy: tuple[float, float]) -> Measures:
        """Return measures of a point: its side of the outline, its distance, and the outline's shape near it."""
        place = np.array(xy)
        lines = np.concatenate(self.lines)
        far = np.hypot(*(lines - place).T)
        foot = lines[int(np.argmin(far))]
        near = np.hypot(*(lines - foot).T) <= _NEAR * self.side
        corners = np.concatenate([self._corners(*pair) for pair in zip(self.lines, self.bends, strict=True)])
        return {
            "inside": float(self.mask[round(xy[1]), round(xy[0])]),
            "distance": float(far.min()) / self.side,
            "corners nearby": float(np.count_nonzero(np.hypot(*(corners - foot).T) <= _NEAR * self.side)),
            "roughness nearby": float(np.concatenate(self.shifts)[near].mean()),
            "bulge": self._share_of_disc(foot),
        }

    def _share_of_disc(self, center: Line) -> float:
        """Return the share of a disc, centred on the outline, that lies inside the outline.

        It is a half on a straight line.
        """
        radius = _NEAR * self.side
        x, y = int(center[0]), int(center[1])
        reach = math.ceil(radius)
        rows, columns = np.mgrid[y - reach : y + reach + 1, x - reach : x + reach + 1]
        disc = np.hypot(rows - y, columns - x) <= radius
        height, width = self.mask.shape
        known = disc & (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
        return float(self.mask[rows[known], columns[known]].mean())


def point_places(image: Image) -> dict[str, tuple[float, float]]:
    """Return the centre (x, y) of each coloured point that an RGB picture shows, keyed by the point's colour."""
    places = {}
    # Pixels that are neither grey nor cyan: all the points, and few other pixels.
    red, green, blue = cv2.split(image)
    rows, columns = np.nonzero((cv2.absdiff(green, blue) > 2) | (cv2.subtract(red, green) > 2))
    pixels = image[rows, columns]
    for color in POINT_COLORS:
        own = np.logical_or.reduce([(pixels == np.array(palette[color])).all(axis=1) for palette in PALETTES.values()])
        if own.any():
            places[color] = (float(np.median(columns[own])), float(np.median(rows[own])))
    return places


def difference(first: Outline, second: Outline) -> float:
    """Return the area inside exactly one of two outlines, divided by the square of the picture's longer side."""
    return float(np.count_nonzero(first.mask ^ second.mask)) / first.side**2


def dissimilarity(first: Outline, second: Outline) -> float:
    """Return 1 minus the intersection over union (IoU) of two outlined areas."""
    return 1 - iou(first.mask, second.mask)
