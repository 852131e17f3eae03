"""Tables of a report as polars frames, one module for each subject.

Read ``all_tables``, then ``levels_and_stages``. ``glossary`` says what each column means, and
``numbers_markdown_latex`` turns numbers and tables into text.
"""
