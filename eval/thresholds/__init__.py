"""Just-noticeable errors: how deep an error of an outline must be before a model or a reader sees it.

Read ``psychometric`` (the three functions, each with its score), ``fit`` (maximum likelihood and intervals),
``observations`` (answers as observations at a depth) and ``threshold_table``.
"""
