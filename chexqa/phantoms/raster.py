"""Drawing tools of the phantoms: smooth curves, antialiased fills and strokes, and smooth random fields.

Points are ``(x, y)`` in pixels; the centre of a pixel is at whole numbers. Fields are float32 ``(H, W)``. A curve or
polygon with N points is an array ``(N, 2)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray

Field = NDArray[np.float32]
Mask = NDArray[np.bool_]
Points = NDArray[np.float64]
Shape = tuple[int, int]

_Grey = TypeVar("_Grey", np.uint8, np.float32)

_BITS = 4  # OpenCV's fixed-point coordinates: sixteenths of a pixel


def curve(knots: Sequence[Sequence[float]] | Points, closed: bool = False, steps: int = 10) -> Points:
    """Return a smooth curve through the points ``knots``: a Catmull-Rom spline with ``steps`` points per interval."""
    points = np.asarray(knots, dtype=np.float64)
    if closed:
        padded = np.vstack([points[-1:], points, points[:2]])
    else:
        padded = np.vstack([2 * points[0] - points[1], points, 2 * points[-1] - points[-2]])
    t = np.linspace(0.0, 1.0, steps, endpoint=False)[None, :, None]
    a, b, c, d = (padded[i : len(padded) - 3 + i, None, :] for i in range(4))
    piece = 0.5 * (2 * b + (c - a) * t + (2 * a - 5 * b + 4 * c - d) * t**2 + (3 * b - a - 3 * c + d) * t**3)
    smooth = piece.reshape(-1, 2)
    return smooth if closed else np.vstack([smooth, points[-1:]])


def _fixed(points: Points) -> NDArray[np.int32]:
    return np.round(np.asarray(points) * (1 << _BITS)).astype(np.int32)


def fill(shape: Shape, *polygons: Points) -> Field:
    """Return the share (0..1) of each pixel that the union of ``polygons`` covers."""
    return soften(cover(shape, *polygons), 0.0, 1.0)


def cover(shape: Shape, *polygons: Points) -> NDArray[np.uint8]:
    """Return the share of each pixel that the union of ``polygons`` covers, as 0..255."""
    canvas = np.zeros(shape, np.uint8)
    for polygon in polygons:
        paint(canvas, polygon, 255)
    return canvas


def paint(canvas: NDArray[np.uint8], polygon: Points, level: float) -> None:
    """Fill ``polygon`` on the canvas, antialiased, with the grey ``level`` 0..255."""
    cv2.fillPoly(canvas, [_fixed(polygon)], level, cv2.LINE_AA, _BITS)


def polylines(canvas: NDArray[np.uint8], lines: Points, width: float, level: float) -> None:
    """Draw several lines ``(number of lines, N, 2)`` on the canvas, all with one ``width`` in pixels and grey
    ``level``.

    Each line is drawn as by :func:`strokes`.
    """
    if len(lines):
        thickness = max(1, round(width))
        cv2.polylines(canvas, list(_fixed(lines)), False, level * min(1.0, width), thickness, cv2.LINE_AA, _BITS)


def ribbon(canvas: NDArray[np.uint8], upper: Points, lower: Points, level: NDArray[np.float64]) -> None:
    """Fill the band between two curves on the canvas; ``level`` (N,) is the grey 0..255 along the band."""
    quads = _fixed(np.stack([upper[:-1], upper[1:], lower[1:], lower[:-1]], axis=1))
    for quad, value in zip(quads, level, strict=False):
        cv2.fillConvexPoly(canvas, quad, float(value), cv2.LINE_8, _BITS)


def strokes(canvas: NDArray[np.uint8], line: Points, width: float, level: NDArray[np.float64]) -> None:
    """Draw ``line`` on the canvas, ``width`` pixels wide; ``level`` (N,) is the grey 0..255 along the line.

    A line narrower than one pixel is drawn one pixel wide but paler, so that small and large pictures look alike.
    """
    thickness = max(1, round(width))
    points = _fixed(line)
    for start, end, value in zip(points[:-1], points[1:], level * min(1.0, width), strict=False):
        cv2.line(canvas, start.tolist(), end.tolist(), float(value), thickness, cv2.LINE_AA, _BITS)


def blur(field: Field, sigma: float) -> Field:
    """Return ``field`` blurred by a Gaussian with a standard deviation of ``sigma`` pixels.

    A wide blur is computed on a smaller copy of the field, which is faster.
    """
    if sigma < 0.3:
        return field
    small = _shrunk(field, sigma)
    soft = cv2.GaussianBlur(small, (0, 0), sigma * small.shape[0] / field.shape[0])
    return upsample(soft.astype(np.float32, copy=False), (field.shape[0], field.shape[1]))


def soften(canvas: NDArray[np.uint8], sigma: float, full: float) -> Field:
    """Return an 8-bit ``canvas`` as a field: blurred by ``sigma`` pixels and scaled so that 255 becomes ``full``."""
    small = _shrunk(canvas, sigma)
    soft = cv2.GaussianBlur(small, (0, 0), sigma * small.shape[0] / canvas.shape[0]) if sigma >= 0.3 else small
    scaled = np.multiply(soft, np.float32(full / 255), dtype=np.float32)
    return upsample(scaled, (canvas.shape[0], canvas.shape[1]))


def _shrunk(picture: NDArray[_Grey], sigma: float) -> NDArray[_Grey]:
    """Return ``picture`` halved as long as a blur of ``sigma`` original pixels stays at least 1.3 pixels wide."""
    factor = 2 ** int(np.log2(max(1.0, sigma / 1.3)))
    if factor == 1:
        return picture
    size = (max(1, picture.shape[1] // factor), max(1, picture.shape[0] // factor))
    return cv2.resize(picture, size, interpolation=cv2.INTER_AREA).astype(picture.dtype, copy=False)


def upsample(field: Field, shape: Shape) -> Field:
    """Return ``field`` resampled (bilinear) to ``shape``."""
    if field.shape == shape:
        return field
    return cv2.resize(field, (shape[1], shape[0]), interpolation=cv2.INTER_LINEAR).astype(np.float32, copy=False)


def smooth_noise(rng: np.random.Generator, shape: Shape, cells: int) -> Field:
    """Return noise with mean 0 and standard deviation about 1; it has ``cells`` bumps along the longer side."""
    rows, columns = (max(2, round(cells * n / max(shape))) for n in shape)
    # A whole square is drawn for any proportions, so that their rounding never shifts the random numbers.
    coarse = rng.standard_normal((cells, cells), dtype=np.float32)[:rows, :columns]
    fine = cv2.resize(coarse, (shape[1], shape[0]), interpolation=cv2.INTER_CUBIC)
    return (1.3 * fine).astype(np.float32)


def depth_inside(mask: Mask) -> Field:
    """Return each mask pixel's distance, in pixels, from the nearest pixel outside the mask.

    The edge of the picture does not count as outside.
    """
    padded = cv2.copyMakeBorder(mask.astype(np.uint8), 1, 1, 1, 1, cv2.BORDER_REPLICATE)
    return cv2.distanceTransform(padded, cv2.DIST_L2, 3)[1:-1, 1:-1].astype(np.float32)


def ramp(field: Field, low: float, high: float) -> Field:
    """Return 0 where ``field`` is below ``low``, 1 where it is above ``high``, and a smooth step between."""
    t = np.clip((field - np.float32(low)) / np.float32(high - low), 0, 1)
    smooth: Field = (t * t * (3 - 2 * t)).astype(np.float32)
    return smooth
