"""Sheets that reviewers fill in: spreadsheets with their pictures, and an HTML viewer for the pictures.

Read ``source`` (the subject of the review) and ``export``, then ``sheet`` (items) or ``masks_sheet``, then
``cover_tab`` and ``instructions``. ``evidence_text`` puts a key's evidence into words, ``panels`` draws the masks
behind a key, ``pictures`` writes full pictures for the viewer.
"""
