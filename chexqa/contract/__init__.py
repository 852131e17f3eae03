"""Types for the content of chexqa's files: cases, items, keys, benchmarks and the logs of runs.

Read ``items``, then ``benchmark`` (a folder of items and keys), ``cases`` (a manifest) and ``read_run`` (turns). All
other packages use these types.
"""
