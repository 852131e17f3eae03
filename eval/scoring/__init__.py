"""Grades of turns, and the numbers with intervals made from them.

Read ``grade``, then ``sample`` (which rows count and their weights), ``intervals`` and ``significance``.
``predictions`` and ``chexpercept_results`` grade answers made elsewhere; ``rereading`` parses old replies again.
"""
