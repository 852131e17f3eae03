"""Generation of a benchmark folder from a manifest of cases, in two passes that can be interrupted.

Read ``generate_benchmark``, then the two passes over a case: ``measure_pass`` (its ``survey``: measurements and random
draws) and ``build_pass`` (its items). Then:

- ``case_paths``: which questions a case gets.
- ``job``, ``recipe``: the settings.
- ``checkpoint``: finished work of an interrupted generation.
- ``executors``: worker processes.
- ``balance_positions``: positions of correct options.
"""
