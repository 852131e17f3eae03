"""The audit of shortcuts, by which a benchmark can be answered without looking at the anatomy; and its card.

Read ``audit``, then ``predictors`` (the guessers), ``features``, ``outlines``, ``pictures``, ``classifier`` and
``exact_tests``.
``card`` and ``description`` write the card, ``plots`` and ``display`` show the result.
"""
