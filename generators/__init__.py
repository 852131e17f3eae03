"""Generators: they turn cases (a radiograph with masks of a finding) into questions (items) with right answers (keys).

Read ``pipeline`` first, then ``contour`` and ``attributes``, which it calls for each case. ``audit`` looks for
shortcuts in a finished benchmark; ``recipes`` holds the settings.
"""
