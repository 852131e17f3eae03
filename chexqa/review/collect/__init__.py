"""Filled sheets read back into the store of verdicts.

Read ``import_sheets``, then ``read_xlsx`` or ``read_csv``, ``parse_rows`` and ``rows``.
``verdicts`` is the store; ``status`` counts what is missing.
"""
