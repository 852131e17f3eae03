"""Leaderboard: scores of many runs of a benchmark, as a folder with a static page.

The benchmark's key may be withheld from others.

Read ``entry`` (the scores of a model), then ``board`` (the folder) and ``page``. ``withheld`` writes a benchmark
without its key; ``submission`` checks a file of predictions without needing the key.
"""
