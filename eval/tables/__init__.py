"""Every table of a report as a polars frame, one module per subject.

Read ``all_tables``, then ``levels_and_stages``; ``asked_items`` has the counts and costs. ``glossary`` says
what each column means. ``numbers_markdown_latex`` turns numbers and tables into text; ``run_diff`` compares two runs.
"""
