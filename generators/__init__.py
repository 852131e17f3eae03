"""Generators: from a case and its masks to items and their key.

Read ``pipeline`` first, then ``contour`` and ``attributes``, which it calls for each case.
``audit`` looks for shortcuts in a finished benchmark; ``recipes`` holds the settings.
"""
