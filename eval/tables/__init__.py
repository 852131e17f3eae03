"""Every table of a report as a polars frame, one module per subject.

Read ``all_tables``, then ``levels_and_stages`` and ``states_costs_contested``; ``glossary`` says what each column means.
``numbers_markdown_latex`` turns numbers and tables into text; ``run_diff`` compares two runs.
"""
