"""Import of filled sheets into the store of verdicts.

Read ``import_sheets``, then ``read_xlsx``, ``read_ods`` or ``read_csv``, ``title_rows`` and ``parse_rows``.
``verdicts`` is the store; ``status`` counts finished rows; ``second_part`` writes the sheets that follow blind answers.
"""
