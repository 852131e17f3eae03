"""What the files of chexqa mean: cases, items, keys, benchmarks and the logs of runs.

Read ``items``, then ``benchmark`` (a folder of items and keys), ``cases`` (a manifest) and ``runlog`` (turns).
Every other package speaks in these types.
"""
