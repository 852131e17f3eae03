"""Generation of a benchmark folder from a manifest of cases, in two passes that can be interrupted.

Read ``generate_benchmark``, then ``measure_pass``, which makes a case's ``survey`` (its measurements and random draws),
and ``build_pass``, which makes its items. ``case_paths`` draws the question path of each case (the sequence of its
questions). ``job`` and ``recipe`` contain the settings. ``checkpoint`` stores finished work, so that an interrupted
generation can continue. ``executors`` runs the workers. ``balance_positions`` balances the positions of right options.
"""
