"""Every table of a report as a polars frame, one module per subject.

Read ``all_tables``, then ``levels_and_stages``; ``glossary`` says what each column means.
``formats`` writes CSV, LaTeX, Markdown and Parquet; ``run_diff`` compares two runs.
"""
