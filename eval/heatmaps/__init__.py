"""Localization maps (saliency, similarity, cross-attention) and readers' marks, graded against masks.

Read ``grading``, then ``map_files`` (reading a map), ``targets`` (masks and readers) and ``metrics``. Then:

- ``tensors``, ``pickles``: PyTorch files read without PyTorch.
- ``summary``: the table of means.
- ``study``: the page of several models, with ``recognition``, ``tuned`` and ``conclusions``.
- ``influence``: intervals.
"""
