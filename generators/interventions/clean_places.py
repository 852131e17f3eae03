"""Search for a clean place in a radiograph, for the altered picture "irrelevant".

The altered picture "target" has a patch of lung with a lesion filled in. In "irrelevant", a clean place is filled in
instead: lung of the same shape and size, away from every finding.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from chexqa.generators.interventions.fills import BAND, GROWTH, RIM, grown, scaled
from chexqa.generators.interventions.other_lung import OtherLung
from chexqa.imaging.anatomy import Lungs
from chexqa.imaging.masks import disc, window

Gray = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float32]
LEAST_IN_LUNG = 0.9  # least share of a clean place in lung; the patch's own share is enough if it is smaller
LEAST_OF_PATCH = 0.5  # a patch with a smaller share in lung gets no clean place
MOST_RESIZED = 0.25  # how much larger or smaller than its part of the patch a mirrored place may be
MOST_DENSE = 0.15  # share of a clean place that may be as dense as the chest beside the lungs
_OUTLINE = 0.01  # share of the surroundings with a different outline of the lungs that counts as one unit of cost
_FOLLOWS = 0.2  # a patch follows the outline of the lungs if this share of its border lies at the outline
_BEYOND = 0.02  # and at most this share of its pixels lies beyond the outline
_AT_OUTLINE = 3 / 1024  # distance from the outline up to which a pixel of the border lies at the outline
_REACH = 16 / 1024  # how far a place is cut or extended so that it ends at the outline
_COARSE = 4  # the search looks at every fourth pixel
_TRIES = 40  # how many of the best coarse places are checked pixel by pixel
_TONE = 6.0  # difference in the mean or spread of grey levels that counts as one unit of cost
_FAR = 0.25  # a shift up or down by this share of the longer side counts as one unit of cost


class _Candidate(NamedTuple):
    cost: float
    mirrored: bool
    top: int
    left: int


def clean_place(image: Gray, patch: Mask, lungs: Lungs, taken: Mask) -> Mask | None:
    """Return a mask ``(H, W)`` like ``patch``, in the lungs and away from findings; None if there is no place for it.

    ``image`` is the radiograph, ``lungs`` the lungs without the heart, and ``taken`` the pixels of all findings in the
    radiograph. For each separate part of ``patch`` (the original), the mask has one part (the copy):

    - The copy lies at the mirrored place in the other lung or, if that place is not free, elsewhere in the lungs.
    - The copy's area differs from the original's by a share of at most :data:`MOST_RESIZED`.
    - At least the share :data:`LEAST_IN_LUNG` of the copy's area lies in the lungs. If a smaller share of the original
      lies in the lungs, the original's share is enough.
    - The copy is farther than :data:`BAND` (a share of the longer side) from ``taken`` and from ``patch``.
    """
    band = scaled(BAND, image.shape)
    labels = np.asarray(cv2.connectedComponents(grown(patch, band).astype(np.uint8))[1])
    parts = [patch & (labels == number) for number in range(1, int(labels.max()) + 1)]
    barred, made = grown(taken | patch, band), np.zeros_like(patch)
    for part in sorted(parts, key=np.count_nonzero, reverse=True):
        place = _place_of_part(image, part, lungs, barred)
        if place is None:
            return None
        made |= place
        barred |= grown(place, 2 * band)
    return made


def _place_of_part(image: Gray, patch: Mask, lungs: Lungs, barred: Mask) -> Mask | None:
    """Return a mask in lung and outside ``barred`` for one part of a patch; None if there is no place."""
    field, size = lungs.right | lungs.left, np.count_nonzero(patch)
    least = min(LEAST_IN_LUNG, np.count_nonzero(patch & field) / size)
    if least < LEAST_OF_PATCH:
        return None
    # The mirrored place is fair, because mirroring works in both directions: a lesion at the mirrored place would have
    # this part's place as its clean place.
    near = _at_outline(patch, field)
    place = _mirrored_place(patch, lungs, near)
    resized = abs(np.count_nonzero(place) / size - 1)
    if resized <= MOST_RESIZED and _is_free(place, field, barred, least) and not _is_dense(image, place, field):
        return place
    # The course of the outline would show which of the two places held the lesion.
    if near is not None:
        return None
    # The most similar place is less fair: it mostly lies at parts of the chest wall where lesions are rare.
    for found in _candidates(image, patch, field, barred, least):
        place = _moved(patch, found)
        if _is_free(place, field, barred, least):
            return place
    return None


def _is_free(place: Mask, field: Mask, barred: Mask, least: float) -> bool:
    """Return True if the share ``least`` of a place lies in the lungs, and nothing of it in ``barred``."""
    return bool(not (place & barred).any() and np.count_nonzero(place & field) >= least * np.count_nonzero(place))


def _is_dense(image: Gray, place: Mask, field: Mask) -> bool:
    """Return True if the share :data:`MOST_DENSE` of a place or more is as dense as the chest beside the lungs."""
    weights = _shrunk(place)
    dense = _dense(_shrunk(image), _shrunk(field))
    return float((weights * dense).sum()) >= MOST_DENSE * float(weights.sum())


def _at_outline(patch: Mask, field: Mask) -> Mask | None:
    """Return the pixels of a patch's border that lie at the outline of the lungs; None if these are less than the share
    :data:`_FOLLOWS` of the border.
    """
    field = _wide(field)
    border = patch & ~cv2.erode(patch.view(np.uint8), disc(1), borderValue=0).view(np.bool_)
    near = border & grown(~field, scaled(_AT_OUTLINE, patch.shape))
    beyond = np.count_nonzero(patch & ~field) / np.count_nonzero(patch)
    follows = beyond < _BEYOND and np.count_nonzero(near) > _FOLLOWS * np.count_nonzero(border)
    return near if follows else None


def _wide(field: Mask) -> Mask:
    """Return the lungs grown as much as a patch is: a lesion ends at the outline, and its patch is grown beyond it."""
    return grown(field, scaled(GROWTH, field.shape))


def _mirrored_place(patch: Mask, lungs: Lungs, near: Mask | None) -> Mask:
    """Return the place of a patch in the other lung; it is empty if a lung is missing.

    Where the patch ends at the outline of the lungs (``near``), the place is cut or extended so that it ends there.
    """
    source, target = lungs.right, lungs.left
    if np.count_nonzero(patch & source) < np.count_nonzero(patch & target):
        source, target = target, source
    if not (source.any() and target.any()):
        return np.zeros_like(patch)
    other = OtherLung(source, target)
    if near is None:
        return other.place(patch)
    field = _wide(lungs.right | lungs.left)
    zone = grown(near, scaled(_REACH, patch.shape))
    return other.place(patch & ~zone) | (other.place(zone & (patch | ~field)) & field)


def _moved(patch: Mask, found: _Candidate) -> Mask:
    """Return the mask ``(H, W)`` of a patch's shape at a candidate's place."""
    made, piece = np.zeros_like(patch), patch[window(patch)]
    height, width = piece.shape
    place = (slice(found.top, found.top + height), slice(found.left, found.left + width))
    made[place] = piece[:, ::-1] if found.mirrored else piece
    return made


class _Look(NamedTuple):
    """Look of the surroundings of a patch, at a quarter of the resolution.

    - ``shape``: the share of each cell that the patch fills, ``(h, w)``.
    - ``lung``: the share of each cell that lies in lung, ``(h + 2 margin, w + 2 margin)``.
    - ``ring``: weights of the cells beyond the band around the patch, with the sum 1.
    - ``mean``, ``spread``: mean and standard deviation of the grey levels in the ring.
    """

    shape: Floats
    lung: Floats
    ring: Floats
    mean: float
    spread: float

    def mirrored(self) -> _Look:
        """Return this look with left and right exchanged."""
        shape, lung, ring = (np.ascontiguousarray(part[:, ::-1]) for part in (self.shape, self.lung, self.ring))
        return self._replace(shape=shape, lung=lung, ring=ring)


def _candidates(image: Gray, patch: Mask, lungs: Mask, barred: Mask, least: float) -> Iterator[_Candidate]:
    """Yield possible places of the shape; the place that looks most like the lesion's comes first."""
    top_of_patch = window(patch)[0].start
    side = max(image.shape)
    band, margin = (max(1, round(share * side / _COARSE)) for share in (BAND, BAND + RIM))
    grey = _padded(image, margin, cv2.BORDER_REPLICATE)
    lung, bar = (_padded(one, margin, cv2.BORDER_CONSTANT) for one in (lungs, barred))
    here = _look(patch, grey, lung, band, margin)
    found: list[_Candidate] = []
    dense = _dense(grey, lung)
    for mirrored in (False, True):
        costs = _costs(here.mirrored() if mirrored else here, grey, lung, bar, dense, margin, least)
        if costs is None:
            continue
        down = (np.arange(costs.shape[0]) * _COARSE - top_of_patch)[:, None] / (_FAR * side)
        costs = costs + down**2
        for flat in np.argsort(costs, axis=None, kind="stable")[:_TRIES]:
            top, left = (int(value) for value in np.unravel_index(int(flat), costs.shape))
            if np.isfinite(costs[top, left]):
                found.append(_Candidate(float(costs[top, left]), mirrored, top * _COARSE, left * _COARSE))
    yield from sorted(found)


def _dense(grey: Floats, lung: Floats) -> Floats:
    """Return the cells in lung whose grey level is nearer to that of the chest beside the lungs than to that of lung.

    Masks of lungs may run behind the heart, where no lung is seen.
    """
    field, beside = grey[lung > 0.5], grey[(lung < 0.5) & (_near_lungs(lung))]
    if not field.size or not beside.size:
        return np.zeros_like(lung)
    limit = (np.median(field) + np.median(beside)) / 2
    return np.asarray((lung > 0.5) & (grey > limit), np.float32)


def _near_lungs(lung: Floats) -> Mask:
    """Return the rectangle around the lungs."""
    made = np.zeros(lung.shape, bool)
    made[window(lung > 0.5)] = True
    return made


def _padded(array: npt.NDArray[np.generic], margin: int, border: int) -> Floats:
    """Return means over squares of 4 x 4 px, with a margin of cells on every side."""
    return np.asarray(cv2.copyMakeBorder(_shrunk(array), margin, margin, margin, margin, border), np.float32)


def _look(patch: Mask, grey: Floats, lung: Floats, band: int, margin: int) -> _Look:
    """Return the look of the surroundings of a patch; ``grey`` and ``lung`` have the margin."""
    rows, columns = window(patch)
    piece = patch[rows, columns]
    shape = _shrunk(np.pad(piece, [(0, -size % _COARSE) for size in piece.shape]))
    inner = (np.pad(shape, margin) >= 0.5).astype(np.uint8)
    inside, wide = (cv2.dilate(inner, disc(size)) for size in (band, margin))
    ring = np.asarray((wide - inside) / max(int((wide - inside).sum()), 1), np.float32)
    top, left = (min(round(part.start / _COARSE), size - most) for part, size, most in
                 zip((rows, columns), grey.shape, ring.shape, strict=True))  # fmt: skip
    place = (slice(max(0, top), max(0, top) + ring.shape[0]), slice(max(0, left), max(0, left) + ring.shape[1]))
    if grey[place].shape != ring.shape:
        return _Look(shape, np.zeros_like(ring), ring, 0.0, 0.0)
    mean = float((ring * grey[place]).sum())
    spread = float(np.sqrt(max(float((ring * grey[place] ** 2).sum()) - mean**2, 0.0)))
    return _Look(shape, lung[place], ring, mean, spread)


def _costs(
    look: _Look, grey: Floats, lung: Floats, bar: Floats, dense: Floats, margin: int, least: float
) -> npt.NDArray[np.float64] | None:
    """Return the dissimilarity of every coarse place to a look; infinite where the shape does not fit. Return None if
    the shape fits nowhere.

    Surroundings are alike if they have the same outline of the lungs and the same grey levels.
    """
    if any(own > size for own, size in zip(look.ring.shape, grey.shape, strict=True)) or look.shape.sum() < 1:
        return None
    inner = slice(margin, -margin)
    fits = (_sums(bar[inner, inner], look.shape) < 0.5) & (
        _sums(lung[inner, inner], look.shape) >= (least - 0.02) * float(look.shape.sum())
    )
    fits &= _sums(dense[inner, inner], look.shape) < MOST_DENSE * float(look.shape.sum())
    if not fits.any():
        return None
    seen = np.asarray(
        cv2.blur((np.pad(look.shape, margin) > 0).astype(np.float32), (2 * margin + 1,) * 2) > 0, np.float32
    )
    outline = _sums(lung**2, seen) - 2 * _sums(lung, seen * look.lung) + float((seen * look.lung**2).sum())
    mean = _sums(grey, look.ring)
    spread = np.sqrt(np.maximum(_sums(grey**2, look.ring) - mean**2, 0))
    cost = ((mean - look.mean) / _TONE) ** 2 + ((spread - look.spread) / _TONE) ** 2
    return np.asarray(np.where(fits, cost + outline / float(seen.sum()) / _OUTLINE, np.inf), np.float64)


def _shrunk(array: npt.NDArray[np.generic]) -> Floats:
    """Return means over squares of 4 x 4 px as float32; rows and columns that fill no square are left out."""
    rows, columns = (size - size % _COARSE for size in array.shape)
    whole = array[:rows, :columns].astype(np.float32)
    return np.asarray(whole.reshape(rows // _COARSE, _COARSE, columns // _COARSE, _COARSE).mean((1, 3)), np.float32)


def _sums(picture: Floats, weights: Floats) -> npt.NDArray[np.float64]:
    """Return the weighted sum of the picture's pixels at every place where the array of weights fits in."""
    return np.asarray(cv2.matchTemplate(picture, weights.astype(np.float32), cv2.TM_CCORR), np.float64)
