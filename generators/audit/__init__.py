"""Audit of a benchmark: tests of shortcuts that answer it without seeing the anatomy, and the card with the results.

Read ``audit``, then ``shortcuts_tried`` (features that could reveal an answer), with the measures in ``outlines`` and
``pictures``. ``rule_scores`` and ``classifier`` guess answers from the features, and ``exact_tests`` tests the guesses.
``priors`` scores guesses that do not count as leaks, such as the most frequent answer.
``card`` and ``description`` write the card, ``plots`` and ``display`` show the result.
"""
