"""Stress: the same questions with degraded radiographs, in other words, or after a line of false history.

- ``degradations``: changes of a radiograph; ``cells``: the stress of each item.
- ``stressed_pictures``: degraded pictures, made while a run asks.
- ``wordings``: the other words; ``wording_sheet``, ``unequal_wordings``: their review.
"""
