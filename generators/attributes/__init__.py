"""Semantic attributes: measurements on masks, and the options and keys that follow from the measurements.

Read ``attribute_keys``, then ``location_options`` and ``stability`` (the effect of slightly different masks on a key).
``grid`` finds the plausible cells of the grid task.
"""
