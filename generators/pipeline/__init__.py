"""From a manifest of cases to a benchmark folder, in two passes that can be interrupted.

Read ``pipeline``, then ``measure_pass``, which makes the ``survey`` of a case, and ``build_pass``, which makes its
items; ``paths`` draws which case gets which questions. ``recipe`` holds the settings, ``checkpoint`` what survives a
kill, ``executors`` the workers, ``balance_positions`` the places of right options.
"""
