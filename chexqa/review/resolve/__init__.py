"""Results of a review: decisions, agreement, new versions of a benchmark.

Read ``decide``, then ``new_version`` and ``changelog``; ``adjudicate`` makes the sheet of open disputes.
``coefficients`` and ``compare`` measure agreement; ``reader_study`` turns readers' answers into a run.
"""
