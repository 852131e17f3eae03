"""Leaderboard: scores of many runs of a benchmark, also of one whose key is withheld, as a folder with a static page.

Read ``entry`` (the scores of a model), then ``board`` (the folder) and ``page``. ``withheld`` writes a benchmark
without its key; ``submission`` checks a file of predictions without needing the key.
"""
