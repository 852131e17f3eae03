"""Batches: a run's requests as files for a batch endpoint, and its results read back, round by round.

``forms`` is what a line of a request or a result is; ``request_files`` writes parts, ``results`` finds replies in what
came back, ``rounds`` continues every conversation as far as the results reach, ``submit`` sends and fetches.
"""
