"""Texture of a fill: ribs, vessels and noise, copied from lung without a finding."""

from __future__ import annotations

from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from chexqa.imaging.masks import window

Gray = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float32]
_COARSE = 4  # the search looks at every fourth pixel
_DETAIL = 28 / 1024  # standard deviation of the Gaussian that separates detail, ribs included, from broad tone
_WRONG = 0.15  # share of a patch's pixels for which the source may lack clean lung; they get noise
_BORDER = 4 / 1024  # detail this near to the outline of the lungs is not copied, for outlines are not exact
_LEAST = 48 / 1024  # a patch is not divided into pieces of a shorter side
_ACROSS = 0.12  # how far a source may be shifted sideways in the same lung, in units of the longer side
_FAR = 0.1  # a shift by this share of the longer side counts as much as half the variance of detail
_FEATHER = 8 / 1024  # standard deviation of the transition between two pieces
_TONE = 40 / 1024  # standard deviation of the Gaussian for the tone of lung
_SEEN = 0.02  # a smaller weight counts as 0
_HALF = 0.7  # weight of two pieces where they meet
_STRONG = 2.5  # ribs and vessels are clipped to this multiple of their median size, and noise to twice as much
_NOISE = 2.5 / 1024  # standard deviation of the Gaussian that separates noise from ribs and vessels


class _Source(NamedTuple):
    """Source of a piece: the shift (down, across) from piece to source, and True for a source in the mirror image."""

    mirrored: bool
    down: int
    across: int


class _Piece(NamedTuple):
    """Part of a patch: its place in the radiograph and its mask."""

    box: tuple[slice, slice]
    mask: Mask


class Textures:
    """Finder of texture for the patches of one radiograph.

    - ``image``: the radiograph ``(H, W)``.
    - ``lungs``, ``clean``: masks of the lungs, and of the pixels without a finding.
    """

    def __init__(self, image: Gray, lungs: Mask, clean: Mask) -> None:
        self.side, self.lungs = max(image.shape), lungs
        pixels = image.astype(np.float32)
        size = 2 * max(1, round(_BORDER * self.side)) + 1
        border = cv2.morphologyEx(lungs.view(np.uint8), cv2.MORPH_GRADIENT, np.ones((size, size), np.uint8))
        self.usable = clean & lungs & ~border.view(np.bool_)
        self._pixels, self._known = _shrunk(pixels), _shrunk(self.usable)
        broad, _ = _masked_blur(self._pixels, self._known, _DETAIL * self.side)
        detail = pixels - _enlarged(broad, pixels.shape)
        # Tubes and misplaced outlines are stronger than ribs and vessels; a median does not see them.
        # Noise is limited apart, so that it goes on where what lies under it is limited.
        forms = np.asarray(cv2.GaussianBlur(detail, (0, 0), max(1.0, _NOISE * self.side)), np.float32)
        made = self._limited(forms, _STRONG) + self._limited(np.asarray(detail - forms, np.float32), 2 * _STRONG)
        self.detail = np.asarray(made * self.usable, np.float32)
        self._detail = _shrunk(self.detail)

    def _limited(self, values: Floats, most: float) -> Floats:
        """Return values clipped to ``most`` times their median size in usable lung."""
        limit = most * float(np.median(np.abs(values[self.usable]))) if self.usable.any() else 0.0
        return np.asarray(np.clip(values, -limit, limit), np.float32)

    def tone(self, patch: Mask) -> Floats | None:
        """Return the blurred grey level of clean lung around each pixel ``(H, W)``; None if there is little clean lung.

        Pixels in the patch are not used.
        """
        pixels, lung = self._pixels, self._known * (1 - _shrunk(patch))
        if lung.sum() * _COARSE**2 < 0.1 * np.count_nonzero(self.lungs):
            return None
        columns = window(self.lungs)[1]
        place = (columns.start + columns.stop) // _COARSE - 1 - np.arange(pixels.shape[1])
        inside = (place >= 0) & (place < pixels.shape[1])
        place = np.clip(place, 0, pixels.shape[1] - 1)
        total, weight = np.zeros_like(pixels), np.zeros_like(pixels)
        # Both lungs count at each height, so the tone under a large lesion comes from the other lung.
        for grey, area in ((pixels, lung), (pixels[:, place], lung[:, place] * inside)):
            mean, many = _masked_blur(grey, area, _TONE * self.side)
            total, weight = total + mean * many, weight + many
        if weight[_shrunk(self.lungs) > 0].min() < _SEEN**2:
            return None
        return _enlarged(np.asarray(total / weight.clip(1e-6), np.float32), self.lungs.shape)

    def copied(self, patch: Mask, reach: int) -> tuple[Floats, Floats]:
        """Return the texture ``(H, W)`` to lay on the patch, and its strength ``(H, W)``, from 0 (no texture) to 1.

        The texture covers the patch within the lungs, and the clean lung up to ``reach`` pixels from the patch.
        """
        made, weight = np.zeros_like(self.detail), np.zeros_like(self.detail)
        whole = cv2.dilate(patch.view(np.uint8), np.ones((2 * reach + 1, 2 * reach + 1), np.uint8)).view(np.bool_)
        whole &= (patch & self.lungs) | self.usable
        box = window(whole)
        feather = max(1.0, _FEATHER * self.side)
        margin = 2 * round(feather)
        search = _Search(self, patch)
        for piece, source in search.pieces(_Piece(box, whole[box])):
            around = tuple(slice(max(0, one.start - margin), min(size, one.stop + margin))
                           for one, size in zip(piece.box, patch.shape, strict=True))  # fmt: skip
            place = around[0], around[1]
            inner = tuple(slice(one.start - outer.start, one.stop - outer.start)
                          for one, outer in zip(piece.box, place, strict=True))  # fmt: skip
            mask = np.zeros(whole[place].shape, np.float32)
            mask[inner] = piece.mask
            values, found = search.values(place, source)
            fading = 2 * cv2.GaussianBlur(found.astype(np.float32), (0, 0), feather) - 1
            share = cv2.GaussianBlur(mask, (0, 0), feather) * whole[place] * np.where(found, fading.clip(0), 0)
            made[place] += share * values
            weight[place] += share**2
        # Detail of two pieces is not correlated, so squares are added where they overlap.
        size = np.sqrt(weight)
        strength = np.minimum(size / _HALF, 1)
        return np.asarray(strength * made / np.maximum(size, _SEEN), np.float32), np.asarray(strength, np.float32)


class _Search:
    """Search for the sources of one patch."""

    def __init__(self, tissue: Textures, patch: Mask) -> None:
        self.tissue, self.patch = tissue, patch
        views = (1 - tissue._known * (1 - _shrunk(patch)), tissue._detail)
        self.views = {False: views, True: tuple(np.ascontiguousarray(view[:, ::-1]) for view in views)}

    def pieces(self, piece: _Piece) -> list[tuple[_Piece, _Source]]:
        """Divide ``piece`` until other lung tissue can fill the parts; return these parts, each with its source.

        Parts that are too small to be divided again, and cannot be filled, are left out.
        """
        if not piece.mask.any():
            return []
        inner = window(piece.mask)
        box = tuple(slice(outer.start + part.start, outer.start + part.stop)
                    for outer, part in zip(piece.box, inner, strict=True))  # fmt: skip
        piece = _Piece((box[0], box[1]), piece.mask[inner])
        source = self._source(piece)
        if source is not None:
            return [(piece, source)]
        height, width = piece.mask.shape
        if max(height, width) < 2 * _LEAST * self.tissue.side:
            return []
        down = height >= width
        middle = (height if down else width) // 2
        halves = [(slice(0, middle), slice(None)), (slice(middle, None), slice(None))]
        found = []
        for half in halves if down else [(across, along) for along, across in halves]:
            rows, columns = (
                slice(outer.start + (part.start or 0), outer.stop if part.stop is None else outer.start + part.stop)
                for outer, part in zip(piece.box, half, strict=True)
            )
            found += self.pieces(_Piece((rows, columns), piece.mask[half]))
        return found

    def _source(self, piece: _Piece) -> _Source | None:
        """Return the best source of a piece; None if no shift has clean lung nearly everywhere."""
        tissue, box, side = self.tissue, piece.box, self.tissue.side
        shape = _shrunk(piece.mask)
        seen = _shrunk(piece.mask & ~self.patch[box] & tissue.usable[box])
        here = _shrunk(tissue.detail[box]) * seen
        total, power = float(shape.sum()), float((here**2).sum())
        if total < 1:
            return None
        best: tuple[float, _Source] | None = None
        top, left = (part.start / _COARSE for part in box)
        for mirrored, (lacking, detail) in self.views.items():
            if shape.shape[0] > detail.shape[0] or shape.shape[1] > detail.shape[1]:
                return None
            wrong = _sums(lacking, shape)
            down = (np.arange(wrong.shape[0])[:, None] - top) * _COARSE / side
            across = (np.arange(wrong.shape[1])[None, :] - left) * _COARSE / side
            fits = (wrong <= _WRONG * total) & (mirrored | (np.abs(across) < _ACROSS))
            if not fits.any():
                continue
            unlike = (_sums(detail**2, seen) - 2 * _sums(detail, here) + power) / max(power, 1.0)
            away = down**2 + (0.25 if mirrored else 1) * across**2
            cost = np.where(fits, unlike + 0.5 * away / _FAR**2, np.inf)
            row, column = (int(place) for place in np.unravel_index(int(np.argmin(cost)), cost.shape))
            if best is None or cost[row, column] < best[0]:
                source = _Source(mirrored, row * _COARSE - box[0].start, column * _COARSE - box[1].start)
                best = float(cost[row, column]), source
        return None if best is None else best[1]

    def values(self, box: tuple[slice, slice], source: _Source) -> tuple[Floats, Mask]:
        """Return the fine structure that a source gives each pixel of a box, and a mask that is True where this
        structure comes from clean lung.
        """
        tissue = self.tissue
        height, width = tissue.detail.shape
        rows, columns = (np.arange(part.start, part.stop) + shift for part, shift in
                         zip(box, (source.down, source.across), strict=True))  # fmt: skip
        inside = ((rows >= 0) & (rows < height))[:, None] & ((columns >= 0) & (columns < width))[None, :]
        rows, columns = np.clip(rows, 0, height - 1), np.clip(columns, 0, width - 1)
        place = np.ix_(rows, width - 1 - columns if source.mirrored else columns)
        return tissue.detail[place], np.asarray(tissue.usable[place] & ~self.patch[place] & inside)


def _masked_blur(pixels: Floats, area: Floats, sigma: float) -> tuple[Floats, Floats]:
    """Return Gaussian means of a shrunk picture over ``area`` (shares), and the share of ``area`` in each mean.

    ``sigma`` is in pixels of the radiograph.
    """
    weight, total = (cv2.GaussianBlur(one, (0, 0), sigma / _COARSE) for one in (area, pixels * area))
    return np.asarray(total / np.maximum(weight, 1e-4), np.float32), np.asarray(weight, np.float32)


def _enlarged(picture: Floats, shape: tuple[int, ...]) -> Floats:
    """Return a shrunk picture at the size of the radiograph."""
    size = (picture.shape[1] * _COARSE, picture.shape[0] * _COARSE)
    return np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_LINEAR)[: shape[0], : shape[1]], np.float32)


def _shrunk(array: npt.NDArray[np.generic]) -> Floats:
    """Return means over squares of 4 x 4 px; squares that are cut off are filled up with 0."""
    values = np.asarray(array, np.float32)
    down, across = -values.shape[0] % _COARSE, -values.shape[1] % _COARSE
    padded = np.pad(values, ((0, down), (0, across))) if down or across else values
    size = (padded.shape[1] // _COARSE, padded.shape[0] // _COARSE)
    return np.asarray(cv2.resize(padded, size, interpolation=cv2.INTER_AREA), np.float32)


def _sums(picture: Floats, weights: Floats) -> npt.NDArray[np.float64]:
    """Return the weighted sum of the picture under the weights at every place where they fit whole."""
    return np.asarray(cv2.matchTemplate(picture, weights, cv2.TM_CCORR), np.float64)
