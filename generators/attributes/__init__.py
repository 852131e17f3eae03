"""Semantic attributes: measurements on masks, and the options and keys that follow from them.

Read ``measure``, then ``location_options`` and ``stability`` (would a slightly different mask change the key?).
``grid`` finds the plausible cells of the grid task.
"""
