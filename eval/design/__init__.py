"""Study design: the items that a study asks, the differences that it can detect, and the rule for stopping early.

- ``subset``: the part of a benchmark that is asked.
- ``weights``: how much each item counts in a score.
- ``power``: detectable differences.
- ``plan``: preregistration.
- ``confidence_sequence``: an interval that stays valid if it is looked at after every patient.
- ``pair_decision``: the stopping rule for two models.
"""
