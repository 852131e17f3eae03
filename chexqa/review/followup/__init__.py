"""Sheets that follow from what came back.

``problem_rows`` finds the rows that could not be read and ``problem_sheets`` gives them back to be mended;
``second_part`` writes proposals after blind answers; ``adjudicate`` makes the sheet of open disputes.
"""
