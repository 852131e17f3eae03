"""From a manifest of cases to a benchmark folder, in two passes that can be interrupted.

Read ``pipeline``, then ``measure_pass`` and ``build_pass``; ``paths`` draws which case gets which questions. ``recipe``
holds the settings, ``checkpoint`` what survives a kill, ``executors`` the workers, ``balance_positions`` the places of
right options.
"""
