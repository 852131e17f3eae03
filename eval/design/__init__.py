"""Study design: which items a study asks, how small a difference it can detect, and when it may stop.

Read ``subset`` (the part of a benchmark that is asked), ``weights`` (how much each item counts in a score), ``power``
(detectable differences), ``plan`` (preregistration), ``confidence_sequence`` (an interval that may be looked at after
every patient) and ``pair_decision`` (the stopping rule for two models).
"""
