"""Import of filled sheets into the store of verdicts.

Read ``import_sheets``, then ``read_xlsx``, ``read_ods`` or ``read_csv``, ``title_rows``, ``parse_rows``
and ``choose_rows``.
``verdicts`` is the store; ``status`` counts finished rows.
"""
