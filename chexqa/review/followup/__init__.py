"""Sheets that are written after reviewers have returned their first sheets.

``problem_sheets`` writes sheets of rows that could not be read, for correction. ``second_part`` writes sheets with
proposals once the blind answers are in. ``adjudication_sheet`` writes the sheet of disputed items, and
``mask_adjudication_sheet`` the sheet of disputed masks.
"""
