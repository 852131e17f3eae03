"""Radiographs, masks and what is drawn on them, as numpy arrays.

Read ``read`` (any image or DICOM file), ``masks`` (binary masks and run lengths), then ``overlays`` and ``png``.
``anatomy`` gives lungs, zones and regions; ``grid`` the 8x8 grid.
"""
