"""Results of a review: decisions, agreement, new versions of a benchmark.

Read ``decide``, then ``new_version`` and ``changelog``.
``coefficients`` and ``compare`` measure agreement, ``validity`` that of readers and key.
"""
