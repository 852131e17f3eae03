"""Phantoms: drawn chest radiographs with exact masks, for tests and demonstrations; without clinical meaning."""

from __future__ import annotations

from chexqa.phantoms.draw import LARGEST_SIZE, SMALLEST_SIZE, Phantom, draw
from chexqa.phantoms.synth import write_cases

__all__ = ["LARGEST_SIZE", "SMALLEST_SIZE", "Phantom", "draw", "write_cases"]
