"""The eight colours of points, by name; three common forms of colour blindness can tell them apart."""

from __future__ import annotations

POINT_RGB = {
    "red": (225, 20, 30),
    "orange": (255, 135, 0),
    "yellow": (255, 230, 0),
    "green": (0, 150, 50),
    "blue": (20, 70, 255),
    "purple": (125, 20, 185),
    "pink": (255, 125, 195),
    "brown": (125, 70, 25),
}
POINT_COLORS = tuple(POINT_RGB)
