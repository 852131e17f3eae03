"""Sheets that reviewers fill in: spreadsheets with their pictures, and an HTML viewer for the pictures.

Read ``source`` (the subject of the review), ``export``, ``questions`` (rows of items) and ``masks_sheet`` (rows of
masks), then ``sheet`` (the workbook), ``cover_tab`` and ``instructions``. ``evidence_text`` puts a key's evidence into
words, ``panels`` draws the masks behind a key, and ``pictures`` writes full-size pictures for the viewer.
"""
