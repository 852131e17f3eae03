"""Leaderboard: scores of many runs of a benchmark, as a folder with a static page.

The folder can be published while the benchmark's key is withheld. Read ``entry`` (the scores of a model), then
``board`` (the folder) and ``page``. ``withheld`` writes a benchmark without its key. ``submission`` checks a file of
predictions; it does not need the key.
"""
