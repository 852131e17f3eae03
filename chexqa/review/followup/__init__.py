"""Sheets that follow from what came back.

``problem_sheets`` gives rows that could not be read back to be mended; ``second_part`` writes proposals after blind
answers. ``adjudication_sheet`` makes the sheet of disputed items, ``mask_adjudication_sheet`` that of disputed masks.
"""
