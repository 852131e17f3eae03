"""Limits of perception: how deep an error must be before it is seen, and what answers withstand.

Read ``psychometric`` (the three functions, each with its score), ``fit`` (maximum likelihood and intervals),
``observations`` (answers as observations at a depth), ``threshold_table`` and, apart from these, ``stress_tables``.
"""
