"""Results of a review: decisions, agreement, new versions of a benchmark.

Read ``decide``, then ``new_version`` and ``changelog``. ``coefficients`` and ``compare`` measure the agreement of
reviewers, ``validity`` the agreement of readers with the key.
"""
