"""Import of filled sheets into ``verdicts.jsonl``, the store of all reviewers' verdicts.

Read ``import_sheets``, then ``read_xlsx``, ``read_ods`` or ``read_csv``, ``title_rows``, ``parse_rows`` and
``choose_rows``. ``verdicts`` reads and writes the store; ``status`` counts finished rows.
"""
