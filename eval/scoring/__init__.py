"""Grading: every answer of a model is compared with the key; the grades give scores with 95 % intervals.

Read ``grade``, then ``sample`` (which rows count and their weights), ``intervals`` and ``significance``.
``predictions`` and ``chexpercept_results`` grade answers made elsewhere. ``rereading`` parses stored replies again.
"""
