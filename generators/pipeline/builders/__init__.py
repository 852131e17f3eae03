"""Builders, one for each kind of question, that turn a case's survey into an item with its key.

Read ``registry`` and ``item_builder`` first, then the builders in the order of the questions: ``detection``,
``contour``, ``attributes``, ``grid``, ``places``. Then:

- ``place_cases``: which cases are asked for places.
- ``rule_values``: the recipe's rules in words.
- ``plugins``: builders from outside the package.
"""
