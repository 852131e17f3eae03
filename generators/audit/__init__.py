"""The benchmark card, and the audit of shortcuts that answer a benchmark without seeing the anatomy.

Read ``audit``, then ``predictors`` (rules that guess), ``features``, ``outlines``, ``pictures``, ``classifier`` and
``exact_tests``. ``card`` and ``description`` write the card, ``plots`` and ``display`` show the result.
"""
