"""Detailed tables of answers: two models side by side, answers against the key, and findings by kinds of question.

Read ``right_items`` (which items a model has right), then the tables ``differences``, ``answers_by_key`` and
``finding_kinds``.
"""
