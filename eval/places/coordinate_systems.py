"""Coordinate systems (frames): the unit and the order in which a model gives the numbers of a place.

The name of a frame begins with its unit: ``pixels`` of the picture sent, or ``fraction``, ``percent`` or ``thousand``
(thousandths) of its width and height. The order of the numbers follows, unless it is the usual ``xyxy``:
``pixels-xywh`` gives a box as a corner, width and height, and ``thousand-yxyx`` gives y before x.

Inside chexqa a place is a list ``x, y, x, y, …`` in pixels of the item's picture, from its upper left corner. The pixel
in column c extends from c to c + 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from chexqa.files.errors import InputError, suggest

Shape = tuple[float, ...]
Size = tuple[int, int]
UNITS: dict[str, float | None] = {"pixels": None, "fraction": 1.0, "percent": 100.0, "thousand": 1000.0}
ORDERS = ("xyxy", "xywh", "yxyx")
BOXES = ("box", "boxes")


@dataclass(frozen=True)
class Frame:
    """Coordinate system of a model's answers: the unit and the order of the numbers."""

    unit: str = "pixels"
    order: str = "xyxy"

    @property
    def name(self) -> str:
        """Return the name of the frame in ``models.yaml`` and ``run.json``."""
        return self.unit if self.order == ORDERS[0] else f"{self.unit}-{self.order}"

    def to_pixels(self, numbers: Sequence[float], form: str, size: Size) -> Shape:
        """Convert the numbers of one shape in a reply into pixels of a picture of ``size`` (width, height).

        >>> Frame("thousand", "yxyx").to_pixels((500, 250), "point", (1024, 800))
        (256.0, 400.0)
        """
        pairs = list(numbers)
        if self.order == "yxyx":
            pairs = [number for y, x in zip(pairs[::2], pairs[1::2], strict=True) for number in (x, y)]
        elif self.order == "xywh" and form in BOXES:
            pairs = [pairs[0], pairs[1], pairs[0] + pairs[2], pairs[1] + pairs[3]]
        return tuple(number * self._scale(size[place % 2]) for place, number in enumerate(pairs))

    def from_pixels(self, shape: Sequence[float], form: str, size: Size) -> Shape:
        """Convert a shape in pixels into the numbers of a reply in this frame; the inverse of :meth:`to_pixels`."""
        pairs = [number / self._scale(size[place % 2]) for place, number in enumerate(shape)]
        if self.order == "yxyx":
            pairs = [number for x, y in zip(pairs[::2], pairs[1::2], strict=True) for number in (y, x)]
        elif self.order == "xywh" and form in BOXES:
            pairs = [pairs[0], pairs[1], pairs[2] - pairs[0], pairs[3] - pairs[1]]
        return tuple(pairs)

    def _scale(self, side: int) -> float:
        most = UNITS[self.unit]
        return 1.0 if most is None else side / most

    def digits(self, size: Size) -> int:
        """Return the number of decimals that give a precision of a tenth of a pixel in a picture of ``size``."""
        return next(digits for digits in range(8) if self._scale(max(size)) * 10.0**-digits <= 0.1)


PIXELS = Frame()
FRAMES: dict[str, Frame] = {frame.name: frame for frame in (Frame(*pair) for pair in product(UNITS, ORDERS))}


def named(name: str | None, where: str) -> Frame:
    """Return the frame with this name; None means pixels.

    Raise ``InputError`` for an unknown name; the message begins with ``where``.

    >>> named("thousand-yxyx", "an example").order
    'yxyx'
    """
    if name is None:
        return PIXELS
    if name not in FRAMES:
        raise InputError(
            f"{where}: there is no coordinate system '{name}'{suggest(name, FRAMES)}; write a unit "
            f"({', '.join(UNITS)}), alone or followed by -xywh or -yxyx."
        )
    return FRAMES[name]


def ask_line(texts: Mapping[str, Any], form: str, frame: Frame, size: Size) -> str:
    """Return the line of a prompt that says in which form and unit the place must be given.

    ``texts`` has the wordings for places in the benchmark's language (:func:`chexqa.question_banks.place_wordings`).
    """
    units = texts["units"][frame.unit].format(width=size[0], height=size[1])
    return str(texts[form].format(units=units, **texts["orders"][frame.order]))
