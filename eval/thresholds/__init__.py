"""Limits of perception: the depth from which an error of an outline is noticed, and the effects of stress on answers.

Read ``psychometric`` (three psychometric functions and their derivatives), ``fit`` (maximum likelihood and intervals),
``observations`` (answers as observations at a depth) and ``threshold_table``; then ``stress_tables``. ``meanings``
explains the columns.
"""
