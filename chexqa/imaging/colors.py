"""The eight colours of points, by name, in two palettes.

In ``published`` (CheXpercept, arXiv 2606.21020) red and brown look alike to a protanope: their CIE76 difference is 4.5.
In ``safe`` any two colours differ by at least 30 for readers with full protanopia, deuteranopia or tritanopia
(simulated after Machado, Oliveira and Fernandes 2009), and by at least 40 for all other readers.
"""

from __future__ import annotations

from typing import Literal

Palette = Literal["safe", "published"]
RGB = tuple[int, int, int]
PALETTES: dict[Palette, dict[str, RGB]] = {
    "published": {
        "red": (255, 0, 0),
        "orange": (255, 128, 0),
        "yellow": (255, 255, 0),
        "green": (0, 255, 0),
        "blue": (0, 0, 255),
        "purple": (128, 0, 128),
        "pink": (255, 191, 204),
        "brown": (153, 77, 0),
    },
    "safe": {
        "red": (204, 0, 6),
        "orange": (255, 134, 0),
        "yellow": (255, 255, 128),
        "green": (16, 171, 101),
        "blue": (0, 32, 247),
        "purple": (156, 82, 191),
        "pink": (245, 164, 225),
        "brown": (69, 21, 0),
    },
}
POINT_COLORS = tuple(PALETTES["safe"])
