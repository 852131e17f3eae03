"""Photometric degradations of a radiograph, each at five severities.

A degradation takes

- a grey picture ``(H, W)`` uint8 of the working size;
- a severity from 1 (slight) to 5 (strong);
- a random generator;
- the lungs ``(H, W)`` bool, None if unknown.

It returns a picture of the same size, in which all shapes keep their places.
"""

from __future__ import annotations

from collections.abc import Callable

import cv2
import numpy as np
import numpy.typing as npt

Gray = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
Degrade = Callable[[Gray, int, np.random.Generator, Mask | None], Gray]
SEVERITIES = range(1, 6)

# Lengths are in pixels of a picture with a longer side of 1024.
_NOISE = (6.0, 12.0, 20.0, 30.0, 42.0)  # standard deviation in grey levels, at a grey level of 128
_BLUR = (1.0, 2.0, 3.5, 5.0, 7.0)  # standard deviation in pixels
_QUALITY = (50, 30, 18, 10, 5)  # JPEG quality
_SIDE = (640, 448, 320, 224, 160)  # longer side in pixels to which a picture of 1024 is shrunk
_CONTRAST = (0.8, 0.62, 0.48, 0.35, 0.25)  # factor on differences from the mean
# Width of the window and shift of its centre, as shares of the picture's range of grey levels.
_WINDOW = ((0.92, 0.03), (0.84, 0.05), (0.76, 0.07), (0.68, 0.09), (0.6, 0.11))
# Largest share of the lungs' pixels that a window makes black, and the same for white, so that lesions stay visible.
_CLIPPED = (0.002, 0.004, 0.006, 0.008, 0.01)
_SHUT = (0.25, 0.5, 0.7, 0.85, 1.0)  # share of the way from the border to the lungs that a collimator covers
_AROUND = 0.03  # free margin around the lungs, as a share of the longer side
_WORDS = ("PORTABLE", "SUPINE", "ERECT", "AP", "SEMI-ERECT", "110 KV")
_LETTER = (0.7, 0.9, 1.2, 1.5, 1.9)  # scale of the letters; each severity also has one more word


def noise(image: Gray, severity: int, rng: np.random.Generator, lungs: Mask | None) -> Gray:
    """Return the picture with quantum noise, whose variance grows with the grey level."""
    scale = _NOISE[severity - 1] * np.sqrt((image.astype(np.float32) + 16) / 144)
    return _clipped(image + scale * rng.standard_normal(image.shape, np.float32))


def blur(image: Gray, severity: int, rng: np.random.Generator, lungs: Mask | None) -> Gray:
    """Return the picture blurred by a Gaussian."""
    return np.asarray(cv2.GaussianBlur(image, (0, 0), _BLUR[severity - 1] * max(image.shape) / 1024), np.uint8)


def jpeg(image: Gray, severity: int, rng: np.random.Generator, lungs: Mask | None) -> Gray:
    """Return the picture after JPEG compression."""
    done, data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, _QUALITY[severity - 1]])
    assert done, "an 8-bit picture can be written as JPEG"
    return np.asarray(cv2.imdecode(data, cv2.IMREAD_GRAYSCALE), np.uint8)


def resolution(image: Gray, severity: int, rng: np.random.Generator, lungs: Mask | None) -> Gray:
    """Return the picture shrunk and enlarged to its size again."""
    height, width = image.shape
    factor = _SIDE[severity - 1] / 1024
    small = cv2.resize(image, (max(1, round(width * factor)), max(1, round(height * factor))),
                       interpolation=cv2.INTER_AREA)  # fmt: skip
    return np.asarray(cv2.resize(small, (width, height), interpolation=cv2.INTER_LINEAR), np.uint8)


def contrast(image: Gray, severity: int, rng: np.random.Generator, lungs: Mask | None) -> Gray:
    """Return the picture with grey levels closer to the picture's mean."""
    mean = float(image.mean())
    return _clipped(mean + _CONTRAST[severity - 1] * (image.astype(np.float32) - mean))


def window(image: Gray, severity: int, rng: np.random.Generator, lungs: Mask | None) -> Gray:
    """Return the picture with a grey-value window that is too narrow and makes it too dark or too bright."""
    width, shift = _WINDOW[severity - 1]
    low, high = np.percentile(image, (2, 98))
    reach = max(float(high - low), 1.0)
    centre = (low + high) / 2 + reach * (shift if rng.random() < 0.5 else -shift)
    # Without lungs, the middle of the picture stands for them.
    clipped = 100 * _CLIPPED[severity - 1]
    least, most = np.percentile(image[_middle(image) if lungs is None or not lungs.any() else lungs],
                                (clipped, 100 - clipped))  # fmt: skip
    start, end = min(centre - width * reach / 2, least), max(centre + width * reach / 2, most)
    return _clipped(255 * (image.astype(np.float32) - start) / max(end - start, 1.0))


def _middle(image: Gray) -> Mask:
    """Return the middle of a picture as a mask; it leaves out an eighth of the picture at each side."""
    height, width = image.shape
    inside = np.zeros(image.shape, bool)
    inside[height // 8 : height - height // 8, width // 8 : width - width // 8] = True
    return inside


def collimation(image: Gray, severity: int, rng: np.random.Generator, lungs: Mask | None) -> Gray:
    """Return the picture with covered borders; the lungs are not changed.

    If the lungs are unknown, the picture is returned unchanged.
    """
    if lungs is None or not lungs.any():
        return image
    height, width = image.shape
    margin, share = _AROUND * max(image.shape), _SHUT[severity - 1]
    fades = []
    for axis, length in ((1, height), (0, width)):
        held = np.flatnonzero(lungs.any(axis=axis))
        low, high = max(held[0] - margin, 0.0), min(held[-1] + margin, length - 1.0)
        place = np.arange(length, dtype=np.float32)
        outside = np.maximum((low - place) / max(low, 1.0), (place - high) / max(length - 1 - high, 1.0))
        # ``outside`` is 0 at the lungs and 1 at the border. The picture is darker up to ``edge``, and covered beyond.
        edge = max(1 - share, 0.02)
        fades.append(np.clip(1 - np.maximum(outside, 0) / edge, 0, 1) ** 0.5)
    light = np.minimum(fades[0][:, None], fades[1][None, :])
    return _clipped(6 + (image.astype(np.float32) - 6) * light)


def marker(image: Gray, severity: int, rng: np.random.Generator, lungs: Mask | None) -> Gray:
    """Return the picture with bright words outside the lungs, as technologists put them there."""
    made, side = image.copy(), max(image.shape)
    size, height, width = _LETTER[severity - 1] * side / 1024, *image.shape
    taken = np.zeros(image.shape, bool) if lungs is None else lungs.copy()
    for word in rng.permutation(_WORDS)[: severity + 1]:
        text = str(word)
        (broad, high), under = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, size, max(1, round(2 * size)))
        for _ in range(60):
            x, y = int(rng.integers(0, max(1, width - broad))), int(rng.integers(high, max(high + 1, height - under)))
            # Near the border, as a marker lies; never over a lung or another word.
            edge = min(x, width - broad - x) < width / 8 or min(y - high, height - y) < height / 12
            if edge and not taken[max(0, y - high) : y + under, x : x + broad].any():
                cv2.putText(made, text, (x, y), cv2.FONT_HERSHEY_SIMPLEX, size, 235, max(1, round(2 * size)),
                            cv2.LINE_AA)  # fmt: skip
                taken[max(0, y - high) : y + under, x : x + broad] = True
                break
    return made


DEGRADATIONS: dict[str, Degrade] = {
    "noise": noise, "blur": blur, "jpeg": jpeg, "resolution": resolution, "contrast": contrast, "window": window,
    "collimation": collimation, "marker": marker,
}  # fmt: skip


def _clipped(values: npt.NDArray[np.floating]) -> Gray:
    return np.asarray(np.clip(np.rint(values), 0, 255), np.uint8)
