"""Grading: each answer of a model is compared with the key, and scores with 95 % intervals follow.

Read ``grade``, then ``sample`` (which rows count and their weights), ``intervals`` and ``significance``.
``predictions`` and ``chexpercept_results`` grade answers made elsewhere. ``rereading`` parses stored replies again.
"""
