"""Radiographs, masks and overlays as numpy arrays.

Read ``read`` (any image or DICOM file), ``masks`` (binary masks and run lengths), then ``overlays`` and ``png``.
``anatomy`` gives lungs, zones and regions; ``grid`` gives the 8x8 grid.
"""
