"""Builders, one for each kind of question, that turn a case's survey into an item with its key.

Read ``registry`` and ``item_builder`` first, then the builders in the order of the questions: ``detection``,
``contour``, ``attributes``, ``grid``, ``places`` (``place_cases`` chooses their cases). ``rule_values`` puts the
recipe's rules into words. ``plugins`` loads builders from outside the package.
"""
