"""Localization maps (saliency, similarity, cross-attention) and readers' marks, graded against masks.

Read ``grading``, then ``map_files`` (reading a map), ``targets`` (masks and readers) and ``metrics``. ``tensors`` and
``pickles`` read PyTorch files without PyTorch. ``summary`` makes the table. ``study`` adds three things: how well a
map's score shows that the finding is present (``recognition``), thresholds chosen on other patients (``tuned``), and
the effects of lesion size, training domain and recognition (``conclusions``, with intervals from ``influence``).
"""
