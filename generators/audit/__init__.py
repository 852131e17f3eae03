"""The audit: can a benchmark be answered without looking at the anatomy? And the card of a benchmark.

Read ``audit``, then ``predictors`` (what each guesser sees), ``features``, ``classifier`` and ``exact_tests``.
``card`` and ``description`` write the card, ``plots`` and ``display`` show the result.
"""
