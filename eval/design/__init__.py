"""What a study can tell apart, before it is run and while it runs.

Read ``weights`` (each item's part in a score), ``power`` (the differences that a study finds),
``confidence_sequence`` (over patients) and ``pair_decision`` (when two models have answered enough).
"""
