"""The benchmark card, and the audit of shortcuts that answer a benchmark without seeing the anatomy.

Read ``audit``, then ``shortcuts_tried`` (features that could reveal an answer), with the measures in ``outlines`` and
``pictures``. ``rule_scores`` and ``classifier`` guess from these shortcuts, and ``exact_tests`` tests the guesses.
``card`` and ``description`` write the card, ``plots`` and ``display`` show the result.
"""
