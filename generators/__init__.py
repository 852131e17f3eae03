"""Generators: they turn cases (radiographs with masks of a finding) into questions (items) with right answers (keys).

Read ``pipeline`` first, then ``contour`` and ``attributes``; the pipeline calls both for each case. ``audit`` looks for
shortcuts in a finished benchmark; ``recipes`` holds the settings.
"""
