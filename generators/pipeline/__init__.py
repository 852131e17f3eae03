"""Generation of a benchmark folder from a manifest of cases, in two passes that can be interrupted.

Read ``generate_benchmark`` first, then the two passes over each case:

- ``measure_pass``: makes the case's ``survey`` (measurements and random draws).
- ``build_pass``: makes the case's items.

Then:

- ``case_paths``: which questions a case gets.
- ``job``, ``recipe``: the settings.
- ``checkpoint``: finished work of an interrupted generation.
- ``executors``: worker processes.
- ``balance_positions``: positions of correct options.
"""
