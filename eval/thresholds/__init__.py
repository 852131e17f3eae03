"""Limits of perception: the depth from which an error is seen, and the effects of stress on answers.

Read ``psychometric`` (the three functions, each with its score), ``fit`` (maximum likelihood and intervals),
``observations`` (answers as observations at a depth), and ``threshold_table``; then ``stress_tables``.
"""
