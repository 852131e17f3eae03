"""Phantoms: drawn chest radiographs with exact masks, for tests and demonstrations, without clinical meaning.

Read ``synth`` (a folder of cases), then ``draw`` (one case) and ``body``. ``thorax``, ``bones`` and ``vessels`` draw
the body. ``opacities`` and ``pneumothorax`` draw findings in the lungs with the tools of ``lesion_plan``. ``outlines``
shapes lungs, heart and mediastinum, healthy or enlarged. ``raster`` has the drawing tools, and ``film`` turns a body's
attenuation into a picture.
"""

from __future__ import annotations

from chexqa.phantoms.draw import LARGEST_SIZE, SMALLEST_SIZE, Phantom, draw
from chexqa.phantoms.synth import write_cases

__all__ = ["LARGEST_SIZE", "SMALLEST_SIZE", "Phantom", "draw", "write_cases"]
