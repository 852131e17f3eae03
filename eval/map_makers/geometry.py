"""Resizing, cropping and padding of a radiograph to a model's input, and the reverse steps for the model's map.

A model sees a picture of a fixed size, and its map is a coarse grid over this picture. :class:`InputFormat` describes
the picture that a model takes. :meth:`InputFormat.fit` computes where the radiograph lies in this picture.
:class:`Fit` puts the map back onto the complete radiograph. Pixels are areas: pixel ``i`` covers ``i`` to ``i + 1``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image

from chexqa.imaging.read import Gray

Floats = npt.NDArray[np.float32]
Policy = Literal["stretch", "crop", "pad"]
# A map that is put back on the radiograph has this many pixels for each cell of the model's grid.
PIXELS_PER_CELL = 4
INTERPOLATIONS = {
    "nearest": Image.Resampling.NEAREST,
    "lanczos": Image.Resampling.LANCZOS,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
}


@dataclass(frozen=True)
class Fit:
    """Position of a radiograph in a model's input.

    - ``source``: height and width of the radiograph in pixels.
    - ``resized``: height and width after resizing, in pixels of the input.
    - ``offset``: row and column, in the resized radiograph, of the input's upper left corner; negative if the input is
      padded.
    - ``side``: height and width of the input.
    """

    source: tuple[int, int]
    resized: tuple[int, int]
    offset: tuple[int, int]
    side: tuple[int, int]

    @property
    def is_stretched(self) -> bool:
        """Return True if the radiograph is stretched to fill the input, without a crop and without padding."""
        return self.resized == self.side and self.offset == (0, 0)

    def undo(self, values: npt.NDArray[Any]) -> Floats:
        """Return a map ``(h, w)`` over the input as a map over the complete radiograph.

        A map of a stretched radiograph is returned unchanged. In all other cases the result has the radiograph's
        proportions and :data:`PIXELS_PER_CELL` pixels for each cell of the map. Parts of the radiograph outside the
        input get the map's smallest value, and the map over the padding is dropped.
        """
        grid = np.ascontiguousarray(values, np.float32)
        if self.is_stretched:
            return grid
        lines = []
        for axis in (0, 1):
            cells = grid.shape[axis] * self.resized[axis] / self.side[axis]  # number of grid cells along the radiograph
            pixels = max(1, round(cells * PIXELS_PER_CELL))
            centres = (np.arange(pixels) + 0.5) * self.resized[axis] / pixels - self.offset[axis]
            lines.append(centres)
        scale = [grid.shape[axis] / self.side[axis] for axis in (0, 1)]
        rows, columns = np.meshgrid(lines[0] * scale[0] - 0.5, lines[1] * scale[1] - 0.5, indexing="ij")
        back = cv2.remap(
            grid, columns.astype(np.float32), rows.astype(np.float32), cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
        )
        seen = [(line >= 0) & (line <= side) for line, side in zip(lines, self.side, strict=True)]
        outside = ~np.logical_and.outer(seen[0], seen[1])
        back[outside] = grid.min()
        return np.asarray(back, np.float32)


@dataclass(frozen=True)
class InputFormat:
    """Format of a model's input picture. Its steps for grey levels are: multiply by ``scale``, subtract ``mean``,
    divide by ``std``.

    - ``side``: height and width in pixels.
    - ``policy``: ``stretch`` (the proportions change), ``crop`` (the middle of the radiograph) or ``pad`` (bars).
    - ``shorter``: with ``crop``, length of the radiograph's shorter side before it is cropped.
    - ``mean``, ``std``: one number for each channel.
    - ``scale``: factor for grey levels from 0 to 255.
    - ``interpolation``: a key of :data:`INTERPOLATIONS`.
    """

    side: tuple[int, int]
    policy: Policy = "stretch"
    shorter: int | None = None
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    std: tuple[float, ...] = (0.5, 0.5, 0.5)
    scale: float = 1 / 255
    interpolation: str = "bicubic"

    def fit(self, source: tuple[int, int]) -> Fit:
        """Return the position of a radiograph in the model's input; ``source`` is its height and width."""
        height, width = source
        if self.policy == "stretch":
            return Fit(source, self.side, (0, 0), self.side)
        if self.policy == "crop":
            shorter = self.shorter or min(self.side)
            longer = int(shorter * max(source) / min(source))
            resized = (shorter, longer) if height <= width else (longer, shorter)
        else:
            factor = min(self.side[0] / height, self.side[1] / width)
            resized = (max(1, round(height * factor)), max(1, round(width * factor)))
        offset = (_half(resized[0] - self.side[0]), _half(resized[1] - self.side[1]))
        return Fit(source, resized, offset, self.side)

    def to_input(self, picture: Gray) -> tuple[Floats, Fit]:
        """Return the model's input ``(channels, H, W)`` for a radiograph, and the radiograph's position in it.

        Padding is black.
        """
        fit = self.fit((picture.shape[0], picture.shape[1]))
        small = Image.fromarray(picture).resize(fit.resized[::-1], INTERPOLATIONS[self.interpolation])
        canvas = np.zeros(self.side, np.uint8)
        pixels = np.asarray(small)
        taken, placed = [], []
        for axis in (0, 1):
            first, begin = max(0, fit.offset[axis]), max(0, -fit.offset[axis])
            length = min(fit.resized[axis] - first, self.side[axis] - begin)
            taken.append(slice(first, first + length))
            placed.append(slice(begin, begin + length))
        canvas[placed[0], placed[1]] = pixels[taken[0], taken[1]]
        grey = canvas.astype(np.float32) * np.float32(self.scale)
        means, stds = (np.array(one, np.float32)[:, None, None] for one in (self.mean, self.std))
        return np.asarray((grey[None] - means) / stds, np.float32), fit


def _half(excess: int) -> int:
    """Return the offset that centres the picture: half of the excess, rounded towards the corner.

    The offset is negative if the picture is padded.
    """
    return excess // 2 if excess >= 0 else -((-excess) // 2)
