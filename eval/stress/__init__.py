"""Stress: the same questions with degraded radiographs, in other words, or after a line of false history.

Read ``degradations`` (changes of a radiograph), ``cells`` (the stress of each item), ``stressed_pictures`` (degraded
pictures, made while a run asks), ``wordings`` (the other words), ``wording_sheet`` and ``unequal_wordings`` (the review
of wordings).
"""
