"""Sheets that are written after reviewers returned their first ones.

``problem_sheets`` returns unreadable rows to their reviewers for correction. ``second_part`` writes sheets with
proposals after the blind answers. ``adjudication_sheet`` makes the sheet of disputed items, and
``mask_adjudication_sheet`` the sheet of disputed masks.
"""
