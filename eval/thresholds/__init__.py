"""Just-noticeable errors: the depth from which a model or a reader sees an error of an outline.

Read ``psychometric`` (the three functions, each with its score), ``fit`` (maximum likelihood and intervals),
``observations`` (answers as observations at a depth) and ``threshold_table``.
"""
