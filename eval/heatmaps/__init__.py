"""Localization maps (saliency, similarity, cross-attention) and readers' marks, graded against masks.

Read ``grading``, then ``map_files`` (reading a map), ``targets`` (masks and readers) and ``metrics``.
``tensors`` and ``pickles`` read PyTorch files without PyTorch; ``summary`` makes the table. ``study`` adds
recognition (``recognition``), thresholds of other patients (``tuned``), and size, domain and correlations
(``conclusions``) with intervals from ``influence``.
"""
