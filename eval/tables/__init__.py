"""Tables of a report as polars frames, one module for each subject.

Read ``all_tables``, then ``levels_and_stages``. ``asked_items`` has the counts and costs. ``glossary`` says what each
column means. ``numbers_markdown_latex`` turns numbers and tables into text. ``run_diff`` compares two runs.
"""
