"""From turns to grades, and from grades to numbers with intervals.

Read ``grade``, then ``sample`` (which rows count and their weights), ``bootstrap`` and ``significance``.
``predictions`` and ``chexpercept_results`` grade answers made elsewhere; ``rereading`` parses old replies again.
"""
