"""Audit of a benchmark: can it be answered by shortcuts, without seeing the anatomy? And the card with the results.

Read ``audit``, then ``shortcuts_tried`` (features that could reveal an answer), with the measures in ``outlines`` and
``pictures``. ``rule_scores`` and ``classifier`` guess from these shortcuts, and ``exact_tests`` tests the guesses.
``card`` and ``description`` write the card, ``plots`` and ``display`` show the result.
"""
