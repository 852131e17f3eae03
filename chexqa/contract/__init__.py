"""Types for the content of chexqa's files: cases, questions (items), right answers (keys), benchmarks, logs of runs.

Read ``items`` first, then ``benchmark`` (a folder of items and keys), ``cases`` (a manifest of cases) and ``read_run``
(the logs of a run).
"""
