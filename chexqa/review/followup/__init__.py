"""Sheets that follow from what came back.

``problem_sheets`` gives rows that could not be read back to be mended; ``second_part`` writes proposals after blind
answers; ``adjudicate`` makes the sheet of disputed items, ``adjudicate_masks`` that of disputed masks.
"""
