"""Radiographs, masks and overlays as numpy arrays.

Read ``read`` (reading of any image or DICOM file), ``masks`` (binary masks and run lengths), then ``overlays`` and
``png``. ``anatomy`` computes zones and regions of the lungs; ``grid`` defines the 8x8 grid.
"""
