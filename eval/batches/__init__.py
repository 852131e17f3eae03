"""Batches: a run's requests are written as files for a batch endpoint, and the results are read back, round by round.

``line_formats`` has the formats of requests and results. ``request_files`` writes request files. ``results`` finds
replies in the result files. ``rounds`` continues every conversation that has its results. ``submit`` sends request
files and fetches results.
"""
