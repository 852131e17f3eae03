"""Study design: how small a difference between two models a study can detect, and when a running study may stop.

Read ``weights`` (how much each item counts in a score), ``power`` (detectable differences), ``plan`` (preregistration),
``confidence_sequence`` (an interval that may be looked at after every patient) and ``pair_decision`` (the stopping rule
for two models).
"""
