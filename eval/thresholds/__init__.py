"""Limits of perception: how large an error of an outline must be before a model notices it, and the effects of stress.

The size of an error is its depth: the largest distance of the outline from the right outline, in pixels of the
working image.

Read the modules in this order:

- ``psychometric``: the probability of an answer at each depth.
- ``fit``: thresholds by maximum likelihood, with intervals.
- ``observations``: models' answers, each with the depth of the error that was shown.
- ``threshold_table``: the table of thresholds.
- ``stress_tables``: the effects of stress on answers.
- ``meanings``: what the columns mean.
"""
