"""Sheets that reviewers fill in: spreadsheets with their pictures, and an HTML viewer for the pictures.

Read ``source`` (the subject of the review) and ``export``, then ``questions`` (rows of items) or ``masks_sheet`` (rows
of masks), ``sheet`` (the workbook), ``cover_tab`` and ``instructions``. ``evidence_text`` puts a key's evidence into
words, ``panels`` draws the masks behind a key, ``pictures`` writes full-size pictures for the viewer.
"""
