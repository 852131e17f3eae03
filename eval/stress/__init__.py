"""Stress: the same questions with degraded radiographs, with another wording, or after a line of false history.

- ``degradations``: changes of a radiograph; ``cells``: the stress of each item.
- ``stressed_pictures``: degraded pictures, made while a run asks.
- ``wordings``: the other wordings; ``wording_sheet``, ``unequal_wordings``: the review of these wordings.
"""
