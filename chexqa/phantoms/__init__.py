"""Phantoms: drawn chest radiographs with exact masks, for tests and demonstrations, without clinical meaning.

Read ``synth`` (a folder of cases), then ``draw`` (one case) and ``patient``.
``thorax``, ``bones`` and ``vessels`` draw the body, ``lesions`` and ``grid_lesions`` (by ``lesion_plan``) the findings;
``outlines``, ``raster`` and ``film`` turn that into pixels.
"""

from __future__ import annotations

from chexqa.phantoms.draw import LARGEST_SIZE, SMALLEST_SIZE, Phantom, draw
from chexqa.phantoms.synth import write_cases

__all__ = ["LARGEST_SIZE", "SMALLEST_SIZE", "Phantom", "draw", "write_cases"]
