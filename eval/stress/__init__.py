"""Stress: the same questions about spoilt radiographs, in other words, and after a line of false history.

Read ``degradations`` (what is done to a radiograph), ``cells`` (which item is asked under which stress),
``stressed_pictures`` (pictures made when they are asked, with the drawing laid on again) and ``wordings``.
"""
