"""Radiographs, masks and overlays as numpy arrays.

Start with the module ``read``, which opens any image or DICOM file. Then come ``masks`` (binary masks and run lengths),
``overlays`` and ``png``. ``anatomy`` computes zones and regions of the lungs; ``grid`` defines the 8x8 grid.
"""
