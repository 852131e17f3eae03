"""Batches: a run's requests are written as files for a batch endpoint, and the results are read back, round by round.

``line_formats`` has the formats of requests and results. ``request_files`` writes files of requests, ``results`` finds
replies in the files of results, ``rounds`` continues every conversation whose results are there, and ``submit`` sends
files and fetches results.
"""
