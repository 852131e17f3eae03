"""Phantoms: drawn chest radiographs with exact masks, for tests and demonstrations, without clinical meaning.

Read ``synth`` (a folder of cases), then ``draw`` (one case) and ``patient``. ``thorax``, ``bones`` and ``vessels`` draw
the body; ``lesions`` and ``grid_lesions`` draw the findings, planned with ``lesion_plan``. ``outlines``, ``raster`` and
``film`` turn both into pixels.
"""

from __future__ import annotations

from chexqa.phantoms.draw import LARGEST_SIZE, SMALLEST_SIZE, Phantom, draw
from chexqa.phantoms.synth import write_cases

__all__ = ["LARGEST_SIZE", "SMALLEST_SIZE", "Phantom", "draw", "write_cases"]
