"""The benchmark card, and the audit of shortcuts that answer a benchmark without a look at the anatomy.

Read ``audit``, then ``predictors`` (the guessers), ``features``, ``outlines``, ``pictures``, ``classifier`` and
``exact_tests``.
``card`` and ``description`` write the card, ``plots`` and ``display`` show the result.
"""
