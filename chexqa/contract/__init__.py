"""Types for the content of chexqa's files: cases, questions (items), right answers (keys), benchmarks, logs of runs.

Read ``items``, then ``benchmark`` (a folder of items and keys), ``cases`` (a manifest) and ``read_run`` (a run's log; a
turn is one question with a model's reply). All other packages use these types.
"""
