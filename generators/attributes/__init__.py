"""Semantic attributes: what is measured on a mask and which options follow from it.

Read ``measure``, then ``location_options`` and ``stability`` (would a redrawn mask change the key?).
``grid`` keys the cells of the grid task.
"""
