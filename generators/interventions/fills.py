"""Fills: ways to replace the pixels of a patch so that a lesion in it can no longer be seen.

- ``inpaint``: the broad tone around the patch, with ribs, vessels and noise copied from tissue without a finding.
- ``mean``: the mean grey level of the rim around the patch.
- ``blur``: the patch smoothed. A large lesion stays visible as a soft shadow; this fill is there for comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import cv2
import numpy as np
import numpy.typing as npt

from chexqa.generators.interventions.textures import Textures
from chexqa.imaging.masks import disc, window

Gray = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float32]
Fill = Literal["inpaint", "mean", "blur"]
FILLS: tuple[Fill, ...] = get_args(Fill)

GROWTH = 4 / 1024  # how far a lesion's mask is grown, in units of the longer side
RIM = 10 / 1024  # width of the rim around a patch; a fill continues the rim's grey levels
BAND = 20 / 1024  # width of the band around a patch in which an inpainted fill fades out, for lesions have a halo
_FINE = 2.5 / 1024  # standard deviation of the Gaussian that separates noise from anatomy
_EDGE = 3 / 1024  # width of the soft edge inside a patch
_LEAST_RIM = 50  # least pixels of lung tissue beside a patch from which the lung's grey level is measured
_COARSE = 4  # the smooth part of a fill is made at a quarter of the resolution
_SAMPLE = 64  # side in pixels of the square of tissue in which noise is measured
_STEPS = 12  # averaging steps at each level of the membrane
_NEIGHBOURS = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], np.float32) / 4


@dataclass(frozen=True)
class Surroundings:
    """Parts of a radiograph that fills are computed from.

    - ``lungs``: the mask ``(H, W)`` of the lungs.
    - ``clean``: the mask ``(H, W)`` of the pixels without a finding.
    - ``textures``: the object that finds texture to copy; if it is None, each fill makes one of its own.
    """

    lungs: Mask
    clean: Mask
    textures: Textures | None = None

    @property
    def tissue(self) -> Mask:
        """Return the lung tissue without a finding."""
        return self.lungs & self.clean

    def cut(self, around: tuple[slice, slice]) -> Surroundings:
        """Return the masks within a window."""
        return Surroundings(self.lungs[around], self.clean[around])


def scaled(share: float, shape: tuple[int, ...]) -> int:
    """Return a length in whole pixels, at least 1: the share ``share`` of the longer side of ``shape``."""
    return max(1, round(share * max(shape)))


def grown(mask: Mask, pixels: int) -> Mask:
    """Return a mask ``(H, W)`` grown by a disc of radius ``pixels``; an empty mask stays empty."""
    if not mask.any():
        return mask
    around = window(mask, pixels + 1)
    made = np.zeros_like(mask)
    made[around] = cv2.dilate(mask[around].astype(np.uint8), disc(pixels), borderValue=0).view(np.bool_)
    return made


def filled(
    image: Gray, patch: Mask, fill: Fill, near: Surroundings, rng: np.random.Generator, kept: Mask | None = None
) -> Gray:
    """Return a copy of ``image`` ``(H, W)`` in which the pixels of ``patch`` (bool, not empty) are filled.

    The fill ``inpaint`` also changes a band of width :data:`BAND` around the patch, except for the pixels in ``kept``.
    """
    reach = scaled(RIM, image.shape)
    # The halo of a lesion reaches beyond its outline.
    if fill == "inpaint":
        return _blended(image, patch, near, rng, kept)
    around = window(patch, 4 * reach)
    inner, pixels = patch[around], image[around].astype(np.float32)
    made = _PLAIN[fill](pixels, inner, reach)
    share = _soft_edge(inner, scaled(_EDGE, image.shape))
    result = image.copy()
    result[around] = np.where(inner, _rounded(share * made + (1 - share) * pixels), image[around])
    return result


def _blended(image: Gray, patch: Mask, near: Surroundings, rng: np.random.Generator, kept: Mask | None) -> Gray:
    """Return a copy of the radiograph with an inpainted patch, which fades out in the band around it."""
    reach, band = (scaled(share, image.shape) for share in (RIM, BAND))
    around = window(patch, band + 4 * reach)
    whole = grown(patch, band)
    if kept is not None:
        whole &= patch | ~kept
    textures = near.textures or Textures(image, near.lungs, near.clean)
    texture, strength = (one[around] for one in textures.copied(whole, reach))
    tone = textures.tone(whole)
    pixels = image[around].astype(np.float32)
    made = _inpaint(
        pixels, whole[around], near.cut(around), reach, rng, texture, strength, None if tone is None else tone[around]
    )
    beyond = cv2.distanceTransform((~patch[around]).view(np.uint8), cv2.DIST_L2, 3)
    share = (1 - (beyond - 1) / band).clip(0, 1)
    share = share * share * (3 - 2 * share) * _soft_edge(whole[around], scaled(_EDGE, image.shape))
    # The mean of two noises is weaker than each of them, so fine detail is made stronger where the two are mixed.
    sigma = max(1.0, _FINE * max(image.shape))
    fine = [one - cv2.GaussianBlur(one, (0, 0), sigma) for one in (made, pixels)]
    mixed = share * fine[0] + (1 - share) * fine[1]
    gain = 1 / np.sqrt(share**2 + (1 - share) ** 2) - 1
    result = image.copy()
    result[around] = np.where(share > 0, _rounded(share * made + (1 - share) * pixels + gain * mixed), image[around])
    return result


def _rounded(pixels: Floats) -> Gray:
    """Return grey levels as whole numbers from 0 to 255."""
    return np.asarray(np.clip(np.rint(pixels), 0, 255), np.uint8)


def _soft_edge(patch: Mask, width: int) -> Floats:
    """Return weights that rise from 0 at the patch's border to 1 at ``width`` pixels inside."""
    depth = cv2.distanceTransform(np.pad(patch, 1).astype(np.uint8), cv2.DIST_L2, 3)[1:-1, 1:-1]
    return np.asarray(np.minimum(depth / (width + 1), 1), np.float32)


def _mean(pixels: Floats, patch: Mask, reach: int) -> Floats:
    """Return a picture of one grey level, the mean of the rim around the patch."""
    rim = grown(patch, reach) & ~patch
    return np.full_like(pixels, pixels[rim].mean() if rim.any() else pixels.mean())


def _blur(pixels: Floats, patch: Mask, reach: int) -> Floats:
    """Return the pixels smoothed by a Gaussian as wide as the patch's greatest depth, and at least two rims wide."""
    depth = float(cv2.distanceTransform(np.pad(patch, 1).astype(np.uint8), cv2.DIST_L2, 3).max())
    return np.asarray(cv2.GaussianBlur(pixels, (0, 0), max(2.0 * reach, depth)), np.float32)


def _inpaint(
    pixels: Floats, patch: Mask, near: Surroundings, reach: int, rng: np.random.Generator, texture: Floats,
    strength: Floats, tone: Floats | None,
) -> Floats:  # fmt: skip
    """Return a smooth continuation of the surroundings with copied texture, or with noise if there is no texture.

    ``tone`` is the tone of clean lung; None if unknown.
    """
    sigma = max(1.0, _FINE / RIM * reach)
    around = grown(patch, reach)
    # Texture is removed before the continuation and added afterwards, so that it fits at the border.
    broad = pixels - texture
    share: Floats | None = None
    # Lung is continued in the lungs, and other tissue outside: otherwise the grey of ribs and mediastinum would run
    # into the lung.
    if np.count_nonzero(around & near.tissue & ~patch) >= _LEAST_RIM and not near.lungs[around].all():
        # Outlines of lungs are not exact, and a pixel of the wall would be continued far into the lung.
        sure = cv2.erode(near.lungs.view(np.uint8), disc(0.6 * reach), borderValue=1).view(np.bool_)
        inside = _lung_tone(broad, patch, sure, tone)
        outside = _continued_beside(broad, patch, ~near.lungs)
        share = np.asarray(cv2.GaussianBlur(near.lungs.astype(np.float32), (0, 0), 2 * sigma), np.float32)
        smooth = np.asarray(share * inside + (1 - share) * outside, np.float32)
    else:
        smooth = _lung_tone(broad, patch, np.ones_like(patch), tone)
    if strength[patch].min() == 1:
        return np.asarray(smooth + texture, np.float32)
    fine = np.asarray(pixels - cv2.GaussianBlur(pixels, (0, 0), sigma), np.float32)
    white = rng.standard_normal((fine.shape[0] + _SAMPLE, fine.shape[1] + _SAMPLE)).astype(np.float32)
    noise = _noise(white, fine, patch, near.tissue, reach)
    if share is not None:
        noise = share * noise + (1 - share) * _noise(white, fine, patch, near.clean & ~near.lungs, reach)
    return np.asarray(smooth + texture + np.sqrt(1 - strength**2) * noise, np.float32)


def _lung_tone(pixels: Floats, patch: Mask, area: Mask, tone: Floats | None) -> Floats:
    """Return the tone of clean lung plus a correction: the difference of ``area`` from this tone, continued into the
    patch.
    """
    if tone is None:
        return _continued_beside(pixels, patch, area)
    return np.asarray(tone + _continued_beside(pixels - tone, patch, area), np.float32)


def _continued_beside(pixels: Floats, patch: Mask, area: Mask) -> Floats:
    """Return the patch filled by a smooth continuation of the pixels of ``area`` around it.

    The continuation is smooth, so a quarter of the resolution is enough for it.
    """
    height, width = pixels.shape
    small = (max(2, width // _COARSE), max(2, height // _COARSE))
    known = (area & ~patch).astype(np.float32)
    weight = cv2.resize(known, small, interpolation=cv2.INTER_AREA)
    total = cv2.resize(pixels * known, small, interpolation=cv2.INTER_AREA)
    coarse = np.where(weight > 0, total / np.maximum(weight, 1e-6), 0).astype(np.float32)
    made = continued(coarse, weight < 0.25)
    return np.asarray(cv2.resize(made, (width, height), interpolation=cv2.INTER_CUBIC), np.float32)


def continued(pixels: Floats, patch: Mask) -> Floats:
    """Return the picture ``(H, W)`` with the patch filled smoothly from the pixels along its border."""
    # Laplace's equation, solved from coarse to fine.
    height, width = pixels.shape
    known = ~patch
    if min(height, width) > 8 and patch.any():
        small = (max(2, width // 2), max(2, height // 2))
        weight = cv2.resize(known.astype(np.float32), small, interpolation=cv2.INTER_AREA)
        total = cv2.resize(pixels * known, small, interpolation=cv2.INTER_AREA)
        coarse = np.where(weight > 0, total / np.maximum(weight, 1e-6), 0).astype(np.float32)
        guess = cv2.resize(continued(coarse, weight <= 0), (width, height), interpolation=cv2.INTER_LINEAR)
    else:
        guess = np.full_like(pixels, pixels[known].mean() if known.any() else pixels.mean())
    made = np.where(patch, guess, pixels).astype(np.float32)
    for _ in range(_STEPS):
        made = np.where(patch, cv2.filter2D(made, -1, _NEIGHBOURS, borderType=cv2.BORDER_REPLICATE), pixels)
    return np.asarray(made, np.float32)


def _noise(white: Floats, fine: Floats, patch: Mask, tissue: Mask, reach: int) -> Floats:
    """Return noise ``(H, W)`` with the spectrum and the amplitude that the fine detail has outside the patch.

    Both are measured in ``tissue``, pixels without a finding, if there are enough of them. ``white`` noise, larger than
    the picture by the side of a sample, is convolved with a kernel that has the spectrum of a sample of this detail.
    """
    sample = _isotropic(_sample(fine, patch, tissue))
    made = cv2.filter2D(white, -1, sample, borderType=cv2.BORDER_CONSTANT)
    made = made[_SAMPLE // 2 :, _SAMPLE // 2 :][: fine.shape[0], : fine.shape[1]]
    rim = grown(patch, 2 * reach) & ~grown(patch, 2)
    rim = rim & tissue if np.count_nonzero(rim & tissue) > _SAMPLE else rim
    amplitude = _spread(fine[rim]) if rim.any() else 0.0
    return np.asarray(made * (amplitude / max(float(made.std()), 1e-6)), np.float32)


def _sample(fine: Floats, patch: Mask, tissue: Mask) -> Floats:
    """Return the fine detail in the square with the most known tissue, with a soft border.

    Unknown detail in it is 0.
    """
    known = tissue & ~grown(patch, 2)
    known = known if np.count_nonzero(known) >= _SAMPLE else ~grown(patch, 2)
    side = min(_SAMPLE, *fine.shape)
    counts = cv2.boxFilter(known.astype(np.float32), -1, (side, side), normalize=False, borderType=cv2.BORDER_CONSTANT)
    valid = counts[side // 2 : fine.shape[0] - side + side // 2 + 1, side // 2 : fine.shape[1] - side + side // 2 + 1]
    top, left = (int(place) for place in np.unravel_index(int(np.argmax(valid)), valid.shape))
    box = (slice(top, top + side), slice(left, left + side))
    ramp = np.hanning(side + 2)[1:-1].astype(np.float32)
    limit = 3 * max(_spread(fine[box][known[box]]) if known[box].any() else 0.0, 0.5)
    return np.asarray(np.clip(fine[box], -limit, limit) * known[box] * np.outer(ramp, ramp), np.float32)


def _isotropic(sample: Floats) -> Floats:
    """Return a kernel of the sample's size with the sample's spectrum, averaged over all directions.

    Ribs and vessels have a direction, which noise must not have.
    """
    power = np.abs(np.fft.fft2(sample)) ** 2
    down, across = (np.fft.fftfreq(size) for size in sample.shape)
    radius = np.rint(np.hypot(down[:, None], across[None, :]) * max(sample.shape)).astype(int)
    mean = np.bincount(radius.ravel(), power.ravel()) / np.maximum(np.bincount(radius.ravel()), 1)
    kernel = np.fft.fftshift(np.fft.ifft2(np.sqrt(mean[radius])).real)
    return np.asarray(kernel, np.float32)


def _spread(values: Floats) -> float:
    """Return a standard deviation that a few strong edges do not change: 1.4826 times the median deviation."""
    return 1.4826 * float(np.median(np.abs(values - np.median(values))))


_PLAIN: dict[str, Callable[[Floats, Mask, int], Floats]] = {"mean": _mean, "blur": _blur}
